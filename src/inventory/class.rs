//! What a difference means that an audit found.

use super::names::names;

names! {
    /// What a difference means, in the order in which differences are shown.
    #[derive(PartialOrd, Ord, Hash)]
    pub enum Class {
        /// The total is not stock plus what participants hold.
        Conservation = "conservation",
        /// A user's counter and the ledger differ.
        CounterDrift = "counter_drift",
        /// Units were taken, and no order record has them.
        MissingOrder = "missing_order",
        /// An order record, and Redis does not know it.
        MissingPurchase = "missing_purchase",
        /// Both know the user, the numbers differ.
        QuantityMismatch = "quantity_mismatch",
        /// A user holds more than the limit allows.
        OverLimit = "over_limit",
        /// Order records name ledger entries newer than the ledger's last.
        LostTail = "lost_tail",
        /// A key or field holds what it must not.
        Corrupt = "corrupt",
        /// Newer than the order records: no drift.
        Timing = "timing",
    }
}

impl Class {
    /// What it means, for people.
    pub fn meaning(self) -> &'static str {
        match self {
            Self::Conservation => "stock and what participants hold do not make the total",
            Self::CounterDrift => "a user's units are not what the ledger says",
            Self::MissingOrder => "units were taken, and no order record has them",
            Self::MissingPurchase => "an order record that Redis does not know: oversell ahead",
            Self::QuantityMismatch => "Redis and the order records both know the user, with other numbers",
            Self::OverLimit => "a user holds more than the limit allows",
            Self::LostTail => "order records name ledger entries that are gone",
            Self::Corrupt => "a key or field holds what it must not",
            Self::Timing => "newer than the order records: no drift",
        }
    }
}
