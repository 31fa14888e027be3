//! The order records beside a ledger state, and how far the ledger is newer than they are.

use std::sync::mpsc::Receiver;

use crate::audit::ledger_state::LedgerState;
use crate::audit::ledger_state::order_sums::{OrderRows, OrderSums};
use crate::model::id::interner::Interner;
use crate::model::ledger::EntryId;

/// How far a user's units moved since the order records were written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Newer {
    /// In total.
    pub net: i64,
    /// The lowest they were in between, from where they began, without what was held open: records need not have that.
    pub low: i64,
    /// The highest.
    pub high: i64,
}

/// Order records and how far the ledger may be newer than they are.
pub struct Compared {
    /// The users of the records that were read.
    pub users: Interner,
    /// The records that were read.
    pub orders: OrderSums,
    /// Those that are still being read, in another thread, which ends the channel at their end or at an error.
    pub unread: Option<Receiver<OrderRows>>,
    /// The first ledger entry that they cannot know.
    pub newer_from: EntryId,
    /// Whether the caller named the activity. Otherwise, if no row mentions it, its users are counted and not listed:
    /// the export may simply be of other activities.
    pub named: bool,
}

impl Compared {
    /// Records of which none was read yet.
    pub(crate) fn unread(unread: Option<Receiver<OrderRows>>, newer_from: EntryId, named: bool) -> Self {
        Self { users: Interner::default(), orders: OrderSums::default(), unread, newer_from, named }
    }
}

impl LedgerState {
    /// Adds order records.
    pub(crate) fn add_orders(&mut self, rows: &OrderRows) {
        if let Some(orders) = &mut self.orders {
            orders.add(rows, &mut self.users);
        }
    }

    /// Whether order records were given that are older than the ledger's beginning.
    pub(crate) fn orders_too_old(&self) -> bool {
        self.orders_too_old
    }

    /// Whether there are order records.
    pub(crate) fn has_orders(&self) -> bool {
        self.orders.is_some() && !self.orders_too_old
    }

    /// Whether order records were given, and no row of them mentions the activity.
    pub(crate) fn is_unrecorded(&self) -> bool {
        self.orders.as_ref().is_some_and(|orders| orders.rows == 0)
    }

    /// Whether users are compared with the order records one by one.
    pub(crate) fn lists_users(&self) -> bool {
        self.has_orders() && (self.named || !self.is_unrecorded())
    }

    /// The newest ledger entry that an order record names.
    pub(crate) fn newest_named(&self) -> Option<EntryId> {
        self.orders.as_ref().and_then(|orders| orders.newest)
    }

    /// The order records that the users are compared with.
    pub(crate) fn records(&self) -> Option<&OrderSums> {
        self.orders.as_ref()
    }

    /// The first ledger entry that the order records cannot know.
    pub(crate) fn newer_from(&self) -> Option<EntryId> {
        self.newer_from
    }

    /// What the order records say a user bought; `None` if there are none.
    pub(crate) fn ordered(&self, user: u32) -> Option<i64> {
        self.orders.as_ref().filter(|_| !self.orders_too_old).map(|orders| orders.of(user))
    }

    /// What the order records say a user bought, with what the ledger has that is newer; 0 if there are none.
    pub(crate) fn ordered_now(&self, user: u32) -> i64 {
        let ordered = self.orders.as_ref().map_or(0, |orders| orders.of(user));
        ordered.saturating_add(self.newer(user).net)
    }

    /// How far a user's units moved since the order records were written.
    pub(crate) fn newer(&self, user: u32) -> Newer {
        let [net, low, high] = self.newer.get(user);
        Newer { net, low: low.min(net - self.open(user)), high }
    }
}
