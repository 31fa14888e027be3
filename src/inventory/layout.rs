//! Where the shared keys are and how participants are recorded: the contracts of systems in production.

use super::names::names;

names! {
    /// One contract of keys. The four first are in wide use; `cluster` keeps an activity in one slot.
    #[derive(Hash, clap::ValueEnum, Default)]
    pub enum Layout {
        /// A hash of user to units, with a limit per user
        #[default]
        Seckill = "seckill",
        /// A set of buyers per SKU: one order each, of any quantity
        Sku = "sku",
        /// A set of coupon holders: one coupon each
        Coupon = "coupon",
        /// A bare counter: no users, no limit
        Product = "product",
        /// As seckill, with all keys of an activity in one cluster slot
        Cluster = "cluster",
    }
}

names! {
    /// How a layout records who bought, by the names that the scripts know.
    #[derive(Default)]
    pub enum Kind {
        /// A hash: user to units.
        #[default]
        Hash = "hash",
        /// A set of users; units that are not 1 are stored beside it.
        Set = "set",
        /// A set of users, one unit each.
        Coupon = "coupon",
        /// Nobody is recorded.
        Counter = "counter",
    }
}

impl Layout {
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
    /// Whether users are recorded at all.
    pub fn has_users(self) -> bool {
        self != Self::Counter
    }

    /// Whether a user is recorded once, so that the limit counts orders and is always 1.
    pub fn records_once(self) -> bool {
        matches!(self, Self::Set | Self::Coupon)
    }
}
