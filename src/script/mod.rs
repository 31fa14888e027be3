//! The scripts of `lua/`, with their includes and SHA-1, as `build.rs` prepared them. `seckill script show` prints
//! exactly these bytes.

mod header;
pub(crate) mod keys;
pub(crate) mod reply;

use ring::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};

use crate::model::id::hex;
use crate::model::layout::Kind;
pub(crate) use crate::script::header::Code;

/// One script that a backend can share, or a drop-in for a plain script of its own.
#[derive(Debug)]
pub struct Script {
    /// Its name, as in `lua/`.
    pub name: &'static str,
    /// What runs.
    pub text: &'static str,
    /// SHA-1 of the text, in hexadecimal: what EVALSHA takes.
    pub sha1: &'static str,
}

macro_rules! script {
    ($name:literal) => {
        script!($name, $name)
    };
    ($name:literal, $($file:literal),+) => {
        Script {
            name: $name,
            text: include_str!(concat!(env!("OUT_DIR"), "/", $($file,)+ ".lua")),
            sha1: include_str!(concat!(env!("OUT_DIR"), "/", $($file,)+ ".sha1")),
        }
    };
}

/// One script that is built for each kind of activity.
#[derive(Debug)]
pub struct Builds([Script; 4]);

macro_rules! builds {
    // A counter records nobody who could hold units: the script of any other kind refuses it.
    (holds $name:literal) => {
        builds!($name, ".hash")
    };
    ($name:literal) => {
        builds!($name, ".counter")
    };
    ($name:literal, $of_counters:literal) => {
        Builds([
            script!($name, $name, ".hash"),
            script!($name, $name, ".set"),
            script!($name, $name, ".coupon"),
            script!($name, $name, $of_counters),
        ])
    };
}

impl Builds {
    /// The script for activities of a kind.
    pub const fn of(&self, kind: Kind) -> &Script {
        let [hash, set, coupon, counter] = &self.0;
        match kind {
            Kind::Hash => hash,
            Kind::Set => set,
            Kind::Coupon => coupon,
            Kind::Counter => counter,
        }
    }
}

/// Scripts with the KEYS, ARGV and replies of the plain scripts that shops run, for a backend that changes nothing else.
pub static DROP_INS: [Script; 6] = [
    script!("seckill", "drop-in/", "seckill"),
    script!("sku", "drop-in/", "sku"),
    script!("sku-multi", "drop-in/", "sku-multi"),
    script!("coupon", "drop-in/", "coupon"),
    script!("product", "drop-in/", "product"),
    script!("hm-dianping", "drop-in/", "hm-dianping"),
];

/// Those that make and end holds: a kind without users has none of them.
pub(crate) const HOLD_SCRIPTS: [&str; 4] = ["hold", "hold_file", "settle", "settle_file"];

/// Makes an activity what it should be.
pub(crate) static PREHEAT: Script = script!("preheat");
/// Takes units of one activity, for one order.
pub static DEDUCT: Builds = builds!("deduct");
/// Takes units of one activity, for many orders.
pub(crate) static DEDUCT_FILE: Builds = builds!("deduct_file");
/// Takes units of several activities, all or nothing.
pub static MULTI_DEDUCT: Builds = builds!("multi_deduct");
/// Takes units of several activities for the orders of a job, each all or nothing.
pub(crate) static MULTI_DEDUCT_FILE: Builds = builds!("multi_deduct_file");
/// Takes units with a deadline, for one order.
pub static HOLD: Builds = builds!(holds "hold");
/// Takes units with a deadline, for many orders.
pub(crate) static HOLD_FILE: Builds = builds!(holds "hold_file");
/// Ends a hold, or those that are overdue.
pub static SETTLE: Builds = builds!(holds "settle");
/// Ends many holds.
pub(crate) static SETTLE_FILE: Builds = builds!(holds "settle_file");
/// Gives units of one activity back, for one order.
pub static REFUND: Builds = builds!("refund");
/// Gives units of one activity back, for many orders.
pub(crate) static REFUND_FILE: Builds = builds!("refund_file");
/// Refuses purchases for a while.
pub(crate) static PAUSE: Script = script!("pause");
/// Reads one activity at one instant.
pub(crate) static SNAPSHOT: Script = script!("snapshot");
/// Sets right what an audit found.
pub(crate) static REPAIR: Script = script!("repair");

/// Removes old ledger entries and leaves a checkpoint.
pub(crate) static TRIM: Script = script!("trim");

/// Takes over an activity that another system created, or that lost what preheat wrote.
pub(crate) static ADOPT: Script = script!("adopt");

/// Removes the keys of an activity that files have.
pub(crate) static ARCHIVE: Script = script!("archive");

/// Writes the keys of an archived activity again.
pub(crate) static RESTORE: Script = script!("restore");

/// Takes units of a shard for another one.
pub(crate) static LEND: Script = script!("lend");

/// Gives a shard units that another one lent.
pub(crate) static BORROW: Script = script!("borrow");

/// Reads what a shard has, and what it lent.
pub(crate) static PEEK: Script = script!("peek");

/// Reads and changes what the parent of shards says.
pub(crate) static PARENT: Script = script!("parent");

/// Makes a shard new, changes its total, or removes it.
pub(crate) static PREHEAT_SHARD: Script = script!("preheat_shard");

impl Script {
    /// All of them that a kind has, in the order in which a sale needs them.
    pub fn all(kind: Kind) -> Vec<&'static Self> {
        let all = [
            &PREHEAT,
            DEDUCT.of(kind),
            MULTI_DEDUCT.of(kind),
            REFUND.of(kind),
            HOLD.of(kind),
            SETTLE.of(kind),
            DEDUCT_FILE.of(kind),
            MULTI_DEDUCT_FILE.of(kind),
            REFUND_FILE.of(kind),
            HOLD_FILE.of(kind),
            SETTLE_FILE.of(kind),
            &PAUSE,
            &SNAPSHOT,
            &REPAIR,
            &TRIM,
            &ADOPT,
            &ARCHIVE,
            &RESTORE,
            &LEND,
            &BORROW,
            &PEEK,
            &PARENT,
            &PREHEAT_SHARD,
        ];
        let is_known = |script: &&Self| kind.has_users() || !HOLD_SCRIPTS.contains(&script.name);
        all.into_iter().filter(is_known).collect()
    }

    /// All of them for all kinds; those that are the same for all come once.
    pub fn every() -> Vec<&'static Self> {
        let mut every: Vec<&Self> = Vec::new();
        for script in Kind::ALL.iter().flat_map(|kind| Self::all(*kind)) {
            if every.iter().all(|known| known.sha1 != script.sha1) {
                every.push(script);
            }
        }
        every
    }

    /// Whether its `KEYS` end with the deadlines of holds.
    pub fn knows_holds(&self) -> bool {
        HOLD_SCRIPTS.contains(&self.name) || matches!(self.name, "preheat" | "parent" | "preheat_shard" | "archive")
    }
}

/// The SHA-1 of a text in hexadecimal, 40 digits.
pub(crate) fn sha1_hex(text: &str) -> String {
    hex(digest(&SHA1_FOR_LEGACY_USE_ONLY, text.as_bytes()).as_ref())
}
