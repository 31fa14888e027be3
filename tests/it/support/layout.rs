//! The five contracts of keys, written out once more: they are the contract, and must not follow a change of the tool.

use super::TestRedis;
use super::seckill::Call;

/// One layout, as a system that shares its keys knows it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Layout {
    pub name: &'static str,
    /// What the scripts call the way in which it records who bought.
    pub kind: &'static str,
    /// Patterns of `KEYS`, in order; `<id>` in the place of the activity's id.
    patterns: &'static [&'static str],
    /// The set of all activities that were preheated.
    pub index: &'static str,
}

pub const SECKILL: Layout = Layout {
    name: "seckill",
    kind: "hash",
    patterns: &[
        "seckill:stock:<id>",
        "seckill:meta:<id>",
        "seckill:requests:<id>",
        "seckill:ledger:<id>",
        "seckill:participants:<id>",
    ],
    index: "seckill:activities",
};

pub const SKU: Layout = Layout {
    name: "sku",
    kind: "set",
    patterns: &["stock:<id>", "sku:meta:<id>", "sku:requests:<id>", "sku:ledger:<id>", "bought:<id>", "sku:units:<id>"],
    index: "sku:activities",
};

pub const COUPON: Layout = Layout {
    name: "coupon",
    kind: "coupon",
    patterns: &[
        "coupon:stock:<id>",
        "coupon:meta:<id>",
        "coupon:requests:<id>",
        "coupon:ledger:<id>",
        "coupon:user:<id>",
    ],
    index: "coupon:activities",
};

pub const PRODUCT: Layout = Layout {
    name: "product",
    kind: "counter",
    patterns: &["product_stock_<id>", "product_meta_<id>", "product_requests_<id>", "product_ledger_<id>"],
    index: "product:activities",
};

pub const CLUSTER: Layout = Layout {
    name: "cluster",
    kind: "hash",
    patterns: &[
        "seckill:{<id>}:stock",
        "seckill:{<id>}:meta",
        "seckill:{<id>}:requests",
        "seckill:{<id>}:ledger",
        "seckill:{<id>}:participants",
    ],
    index: "seckill:cluster:activities",
};

/// Every layout, in the order of the documentation.
pub const LAYOUTS: [Layout; 5] = [SECKILL, SKU, COUPON, PRODUCT, CLUSTER];

impl Layout {
    /// `KEYS` of an activity, in the order of the scripts.
    pub fn keys(&self, activity: &str) -> Vec<String> {
        self.patterns.iter().map(|pattern| pattern.replace("<id>", activity)).collect()
    }

    /// The same with the key that only scripts which know holds take.
    pub fn all_keys(&self, activity: &str) -> Vec<String> {
        let deadlines = self.has_users().then(|| self.deadlines(activity));
        self.keys(activity).into_iter().chain(deadlines).collect()
    }

    /// Open holds by deadline; only if `has_users`.
    pub fn deadlines(&self, activity: &str) -> String {
        self.meta(activity).replace("meta", "deadlines")
    }

    /// `KEYS[number]`, counted from 1 as in Lua.
    pub fn key(&self, number: usize, activity: &str) -> String {
        self.patterns[number - 1].replace("<id>", activity)
    }

    pub fn stock(&self, activity: &str) -> String {
        self.key(1, activity)
    }

    pub fn meta(&self, activity: &str) -> String {
        self.key(2, activity)
    }

    pub fn requests(&self, activity: &str) -> String {
        self.key(3, activity)
    }

    pub fn ledger(&self, activity: &str) -> String {
        self.key(4, activity)
    }

    /// Who bought; only if `has_users`.
    pub fn participants(&self, activity: &str) -> String {
        self.key(5, activity)
    }

    pub fn has_users(&self) -> bool {
        self.kind != "counter"
    }

    /// Whether a user can order once only.
    pub fn records_once(&self) -> bool {
        matches!(self.kind, "set" | "coupon")
    }
}

/// Runs a command line, split at spaces, in a layout and with `-o json`.
pub fn json_call(redis: &TestRedis, layout: Layout, line: &str) -> Call {
    redis.seckill(["-l", layout.name, "-o", "json"]).args(line.split_whitespace())
}
