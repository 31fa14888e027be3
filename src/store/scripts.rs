//! The scripts of `lua/`, with their includes and SHA-1, as `build.rs` prepared them. `seckill script show` prints
//! exactly these bytes.

/// One script that a backend can share.
#[derive(Debug)]
pub struct Script {
    /// Its name, as in `lua/`.
    pub name: &'static str,
    /// What runs.
    pub text: &'static str,
    /// SHA-1 of the text, in hexadecimal: what EVALSHA takes.
    pub sha1: &'static str,
}

impl Script {
    /// The commands that its header says it needs.
    pub fn commands(&self) -> Vec<&'static str> {
        let after = self.text.split_once("Commands it needs").map_or("", |(_, after)| after);
        let list = after.split_once("]]").map_or("", |(list, _)| list);
        let words = list.split(|c: char| !c.is_ascii_uppercase());
        words.filter(|word| word.len() > 2).collect()
    }
}

macro_rules! script {
    ($name:literal) => {
        Script {
            name: $name,
            text: include_str!(concat!(env!("OUT_DIR"), "/", $name, ".lua")),
            sha1: include_str!(concat!(env!("OUT_DIR"), "/", $name, ".sha1")),
        }
    };
}

/// Makes an activity what it should be.
pub static PREHEAT: Script = script!("preheat");
/// Takes units of one activity.
pub static DEDUCT: Script = script!("deduct");
/// Takes or returns units of several activities, each by itself, for the orders of a job.
pub static MIXED_ORDERS: Script = script!("mixed_orders");
/// Takes units of several activities, all or nothing.
pub static MULTI_DEDUCT: Script = script!("multi_deduct");
/// Gives units back.
pub static REFUND: Script = script!("refund");
/// Refuses purchases for a while.
pub static PAUSE: Script = script!("pause");
/// Reads one activity at one instant.
pub static SNAPSHOT: Script = script!("snapshot");
/// Reads participants, stock and the ledger's end at one instant.
pub static AUDIT: Script = script!("audit");
/// Sets right what an audit found.
pub static REPAIR: Script = script!("repair");

/// Removes old ledger entries and leaves a checkpoint.
pub static TRIM: Script = script!("trim");

/// Takes over an activity that another system created, or that lost what preheat wrote.
pub static ADOPT: Script = script!("adopt");

impl Script {
    /// All of them, in the order in which a sale needs them.
    pub fn all() -> [&'static Self; 11] {
        [&PREHEAT, &DEDUCT, &MULTI_DEDUCT, &REFUND, &MIXED_ORDERS, &PAUSE, &SNAPSHOT, &AUDIT, &REPAIR, &TRIM, &ADOPT]
    }
}
