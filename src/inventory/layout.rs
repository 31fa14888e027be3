//! Where the shared keys are and how participants are recorded: the contracts of systems in production.

use serde::{Deserialize, Serialize};

/// One contract of keys. The four first are in wide use; `cluster` keeps an activity in one slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, clap::ValueEnum, Default)]
#[serde(rename_all = "lowercase")]
pub enum Layout {
    /// A hash of user to units, with a limit per user
    #[default]
    Seckill,
    /// A set of buyers per SKU: one order each, of any quantity
    Sku,
    /// A set of coupon holders: one coupon each
    Coupon,
    /// A bare counter: no users, no limit
    Product,
    /// As seckill, with all keys of an activity in one cluster slot
    Cluster,
}

/// How a layout records who bought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A hash: user to units.
    Hash,
    /// A set of users; units that are not 1 stand beside it.
    Set,
    /// A set of users, one unit each.
    Coupon,
    /// Nobody is recorded.
    Counter,
}

impl Layout {
    /// All layouts, in the order of the documentation.
    pub const ALL: [Self; 5] = [Self::Seckill, Self::Sku, Self::Coupon, Self::Product, Self::Cluster];

    /// The name on the command line and in fixtures.
    pub fn name(self) -> &'static str {
        match self {
            Self::Seckill => "seckill",
            Self::Sku => "sku",
            Self::Coupon => "coupon",
            Self::Product => "product",
            Self::Cluster => "cluster",
        }
    }

    /// The layout of that name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|layout| layout.name() == name)
    }

    /// How it records participants.
    pub fn kind(self) -> Kind {
        match self {
            Self::Seckill | Self::Cluster => Kind::Hash,
            Self::Sku => Kind::Set,
            Self::Coupon => Kind::Coupon,
            Self::Product => Kind::Counter,
        }
    }
}

impl Kind {
    /// The name the scripts know it by.
    pub fn name(self) -> &'static str {
        match self {
            Self::Hash => "hash",
            Self::Set => "set",
            Self::Coupon => "coupon",
            Self::Counter => "counter",
        }
    }

    /// Whether users are recorded at all.
    pub fn has_users(self) -> bool {
        self != Self::Counter
    }

    /// Whether a user is recorded once, so that the limit counts orders and is always 1.
    pub fn records_once(self) -> bool {
        matches!(self, Self::Set | Self::Coupon)
    }
}
