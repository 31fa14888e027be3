//! What a difference means that an audit found.

use crate::model::names::names;

names! {
    /// What a difference means, in the order in which differences are shown.
    #[derive(PartialOrd, Ord, Hash)]
    pub enum Class {
        /// The total is not stock plus what participants hold.
        Conservation = "conservation",
        /// A shard got units of which no ledger of another one says that it lent them.
        UnbackedTransfer = "unbacked_transfer",
        /// A transfer that a shard began to write, and that its ledger does not have.
        CutTransfer = "cut_transfer",
        /// A shard lent units long ago that no other one got.
        StuckTransfer = "stuck_transfer",
        /// Of an order of activities in several slots, one item is bought and another one is not.
        SplitOrder = "split_order",
        /// A user's counter and the ledger differ.
        CounterDrift = "counter_drift",
        /// Units were taken, and no order record has them.
        MissingOrder = "missing_order",
        /// An order record, and Redis does not know it.
        MissingPurchase = "missing_purchase",
        /// Both know the user, the numbers differ.
        QuantityMismatch = "quantity_mismatch",
        /// The count of units held open is not what the holds say.
        OpenCount = "open_count",
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
