//! The scripts, embedded as they stand in `lua/`. `seckill script show` prints these very bytes.

use std::sync::LazyLock;

/// One script that a backend can share.
#[derive(Debug)]
pub struct Script {
    /// Its name, as in `lua/`.
    pub name: &'static str,
    /// What runs.
    pub text: &'static str,
    /// SHA-1 of the text, in hexadecimal: what EVALSHA takes.
    pub sha1: String,
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
    ($name:literal, $($part:literal),+) => {
        LazyLock::new(|| Script::new($name, concat!($(include_str!(concat!("../../lua/", $part)), "\n"),+)))
    };
}

/// Makes an activity what it should be.
pub static PREHEAT: LazyLock<Script> = script!("preheat", "lib/values.lua", "lib/meta.lua", "preheat.lua");
/// Takes units of one activity.
pub static DEDUCT: LazyLock<Script> = script!(
    "deduct",
    "lib/one_order.lua",
    "lib/many_orders.lua",
    "lib/lean_deduct.lua",
    "lib/values.lua",
    "lib/meta.lua",
    "lib/orders.lua",
    "lib/call.lua",
    "deduct.lua"
);
/// Takes units of several activities, all or nothing.
pub static MULTI_DEDUCT: LazyLock<Script> =
    script!("multi_deduct", "lib/values.lua", "lib/meta.lua", "multi_deduct.lua");
/// Gives units back.
pub static REFUND: LazyLock<Script> = script!(
    "refund",
    "lib/many_orders.lua",
    "lib/lean_refund.lua",
    "lib/values.lua",
    "lib/meta.lua",
    "lib/stock.lua",
    "lib/orders.lua",
    "lib/call.lua",
    "refund.lua"
);
/// Refuses purchases for a while.
pub static PAUSE: LazyLock<Script> = script!("pause", "lib/values.lua", "lib/meta.lua", "pause.lua");
/// Reads one activity at one instant.
pub static SNAPSHOT: LazyLock<Script> = script!("snapshot", "lib/values.lua", "lib/meta.lua", "snapshot.lua");
/// Reads participants, stock and the ledger's end at one instant.
pub static AUDIT: LazyLock<Script> = script!("audit", "lib/values.lua", "lib/meta.lua", "audit.lua");
/// Sets right what an audit found.
pub static REPAIR: LazyLock<Script> =
    script!("repair", "lib/values.lua", "lib/meta.lua", "lib/stock.lua", "lib/orders.lua", "repair.lua");

/// Removes old ledger entries and leaves a checkpoint.
pub static TRIM: LazyLock<Script> = script!("trim", "lib/values.lua", "lib/meta.lua", "trim.lua");

/// Takes over an activity that another system created, or that lost what preheat wrote.
pub static ADOPT: LazyLock<Script> = script!("adopt", "lib/values.lua", "lib/meta.lua", "adopt.lua");

impl Script {
    fn new(name: &'static str, text: &'static str) -> Self {
        Self { name, text, sha1: redis::Script::new(text).get_hash().to_owned() }
    }

    /// All of them, in the order in which a sale needs them.
    pub fn all() -> [&'static Self; 10] {
        [&PREHEAT, &DEDUCT, &MULTI_DEDUCT, &REFUND, &PAUSE, &SNAPSHOT, &AUDIT, &REPAIR, &TRIM, &ADOPT]
    }
}
