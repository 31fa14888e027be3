//! What a file of orders does: the same file with another operation. All that differs is here.

use crate::model::layout::Kind;
use crate::names;
use crate::script::{DEDUCT_FILE, HOLD_FILE, MULTI_DEDUCT_FILE, REFUND_FILE, SETTLE_FILE, Script};

names! {
    /// What a job does, by the name that is stored.
    pub enum Operation {
        /// Units are taken.
        Deduct = "deduct",
        /// Units are given back.
        Refund = "refund",
        /// Units of several activities are taken, all or nothing.
        MultiDeduct = "multi_deduct",
        /// Units are taken until a deadline.
        Hold = "hold",
        /// Holds are confirmed.
        Confirm = "confirm",
        /// Holds are released.
        Release = "release",
    }
}

impl Operation {
    /// The script that decides its orders, of activities of a kind.
    pub(crate) fn script(self, kind: Kind) -> &'static Script {
        match self {
            Self::Deduct => DEDUCT_FILE.of(kind),
            Self::Refund => REFUND_FILE.of(kind),
            Self::MultiDeduct => MULTI_DEDUCT_FILE.of(kind),
            Self::Hold => HOLD_FILE.of(kind),
            Self::Confirm | Self::Release => SETTLE_FILE.of(kind),
        }
    }

    /// Whether its script takes orders of several activities, each decided by itself, or multi-orders.
    pub(crate) fn may_share(self) -> bool {
        matches!(self, Self::Deduct | Self::Refund | Self::MultiDeduct)
    }

    /// Whether it may need units that are in stock: an expired hold may be confirmed.
    pub(crate) fn takes_units(self) -> bool {
        matches!(self, Self::Deduct | Self::Hold | Self::Confirm)
    }

    /// Whether it ends holds, which have their units and users themselves.
    pub(crate) fn settles(self) -> bool {
        matches!(self, Self::Confirm | Self::Release)
    }

    /// Whether its orders are holds, or ends of holds.
    pub(crate) fn has_holds(self) -> bool {
        self == Self::Hold || self.settles()
    }

    /// User and request id in the order in which the script has their columns; or, given in that order, user and request id.
    pub(crate) fn columns<T>(self, [user, request]: [T; 2]) -> [T; 2] {
        if self.settles() { [request, user] } else { [user, request] }
    }

    /// The stock after an order that was applied. `takes_again`: it is the confirmation of a hold that had expired.
    pub(crate) fn stock_after(self, stock: u64, quantity: u32, takes_again: bool) -> u64 {
        let quantity = u64::from(quantity);
        match self {
            Self::Refund | Self::Release => stock.saturating_add(quantity),
            Self::Confirm if !takes_again => stock,
            Self::Deduct | Self::MultiDeduct | Self::Hold | Self::Confirm => stock.saturating_sub(quantity),
        }
    }
}
