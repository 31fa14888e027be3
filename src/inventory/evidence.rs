//! Audit evidence: what was found of one activity, before anybody judges it.

use super::audit::Class;
use super::checkpoint::Checkpoint;
use super::id::ActivityId;
use super::layout::{Kind, Layout};
use super::ledger::EntryId;
use super::ledger_state::{Compared, LedgerState, Newer};
use super::order::Corrupt;
use super::time::Millis;

/// What preheat wrote, as far as an audit needs it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rules {
    /// Units it was preheated with, updates included.
    pub total: u64,
    /// The most units a user may hold.
    pub per_user_limit: Option<u64>,
    /// One higher with each reset.
    pub epoch: u64,
    /// How many repairs were applied.
    pub repairs: u64,
    /// Whether changes are written to the ledger.
    pub ledger: bool,
    /// Units that a pause moved out of the stock; `None` if it is not withdrawn.
    pub withdrawn: Option<u64>,
}

/// An activity at one instant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ActivityView {
    /// The server's clock.
    pub at: Millis,
    /// Units left, with those that are withdrawn; `None` without a stock key.
    pub stock: Option<u64>,
    /// `None` if only a backend created it.
    pub rules: Option<Rules>,
    /// The ledger's last entry.
    pub last: Option<EntryId>,
    /// How many entries the ledger has, with those that were removed behind its checkpoint; `None` if nobody asked.
    pub length: Option<u64>,
    /// The sums that the ledger begins with, if it was trimmed.
    pub checkpoint: Option<Checkpoint>,
}

impl ActivityView {
    /// Whether somebody bought or gave back within the last second.
    pub fn is_live(&self) -> bool {
        self.last.is_some_and(|last| self.at.get().saturating_sub(last.at().get()) < 1000)
    }
}

/// What a participant's record holds.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Holding {
    /// So many units.
    Units(u64),
    /// A member of a set that another system's script recorded without units.
    Unknown,
    /// A text that is no number, cut short.
    Invalid(String),
}

/// A user of whom not all is as it should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mismatch {
    /// The user's index in the ledger state.
    pub user: u32,
    /// What the record holds.
    pub holds: Holding,
    /// What the ledger said at that same instant; `None` if it does not know.
    pub ledger: Option<i64>,
    /// What the order records say; `None` if there are none.
    pub orders: Option<i64>,
    /// What the ledger has that is newer than the order records.
    pub newer: Newer,
}

impl Mismatch {
    /// Units held. Of a record without units, what the order records say of the user.
    pub fn units(&self) -> Option<i64> {
        match &self.holds {
            Holding::Units(units) => Some(signed(*units)),
            Holding::Unknown => self.ordered_now().filter(|units| *units > 0),
            Holding::Invalid(_) => None,
        }
    }

    /// What the order records say, with what the ledger has that is newer.
    pub fn ordered_now(&self) -> Option<i64> {
        self.orders.map(|orders| orders.saturating_add(self.newer.net))
    }

    /// By how much the counter is above the ledger; `None` if either is unknown.
    pub fn drift(&self) -> Option<i64> {
        Some(self.units()?.saturating_sub(self.ledger?))
    }

    /// How the order records differ from Redis; `None` if they agree, or if nobody knows.
    pub fn against_orders(&self) -> Option<Class> {
        let orders = self.orders?;
        let units = match &self.holds {
            Holding::Invalid(_) => return None,
            // The records do not know whoever it is.
            Holding::Unknown if orders == 0 => return Some(Class::MissingOrder),
            _ => self.units()?,
        };
        if orders == units {
            return None;
        }
        // What Redis held when the records were written.
        let then = units - self.newer.net;
        if (then + self.newer.low..=then + self.newer.high).contains(&orders) {
            return Some(Class::Timing);
        }
        Some(match (then, orders) {
            (_, 0) => Class::MissingOrder,
            (0, orders) if orders > 0 => Class::MissingPurchase,
            _ => Class::QuantityMismatch,
        })
    }
}

/// What all participants hold, as a scan found it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tally {
    /// Units, as far as they are known. Of a record without units, what the order records say of the user.
    pub units: i64,
    /// How many users there are.
    pub users: u64,
    /// Of how many of them the units are not known.
    pub unknown: u64,
}

impl Tally {
    /// Adds a participant, whom the ledger state knows.
    pub fn add(&mut self, holds: &Holding, state: &LedgerState, user: u32) {
        let recorded = || state.ordered(user).filter(|units| state.lists_users() && *units > 0);
        let units = match holds {
            Holding::Units(units) => Some(signed(*units)),
            Holding::Unknown => recorded(),
            Holding::Invalid(_) => None,
        };
        self.users += u64::from(*holds != Holding::Units(0));
        self.unknown += u64::from(units.is_none());
        self.units = self.units.saturating_add(units.unwrap_or_default());
    }
}

/// All that was found of one activity.
pub struct Evidence {
    /// The activity.
    pub activity: ActivityId,
    /// Its layout.
    pub layout: Layout,
    /// How it records who bought.
    pub kind: Kind,
    /// The total that the caller says it has.
    pub total: Option<u64>,
    /// The activity when it was read last, which is where the ledger state ends; `None` if there is no such activity.
    pub end: Option<ActivityView>,
    /// A key that is corrupt as a whole.
    pub corrupt: Option<Corrupt>,
    /// What the ledger leads to, and the order records.
    pub ledger: LedgerState,
    /// Without a ledger: what all participants hold.
    pub held: Tally,
    /// Members of a set that have no units beside them.
    pub without_units: u64,
    /// Whether the ledger was folded from its beginning.
    pub by_ledger: bool,
    /// Whether nothing moved that would make the rest a guess.
    pub settled: bool,
    /// Whether its scans were of several instants, so that their sums never were.
    pub is_torn: bool,
    /// By how much the stock was off the ledger when it was first compared with it.
    pub first_drift: Option<i64>,
    /// Whether that changed while the counters were read: somebody sells past the ledger right now, so counters and
    /// stock are not of one instant.
    pub drifts_on: bool,
    /// Users of whom not all is as it should be.
    pub mismatches: Vec<Mismatch>,
    /// What people should know beside it.
    pub notes: Vec<String>,
}

impl Evidence {
    /// Nothing was found yet. `total` is what the caller says it has.
    pub fn new(activity: &ActivityId, layout: Layout, total: Option<u64>, compared: Option<Compared>) -> Self {
        let kind = layout.kind();
        Self {
            activity: activity.clone(),
            layout,
            kind,
            total,
            end: None,
            corrupt: None,
            ledger: LedgerState::new(kind, compared),
            held: Tally::default(),
            without_units: 0,
            by_ledger: false,
            settled: false,
            is_torn: false,
            first_drift: None,
            drifts_on: false,
            mismatches: Vec::new(),
            notes: Vec::new(),
        }
    }

    /// Forgets all that was found, but for the order records.
    pub fn begin_again(&mut self) {
        self.ledger.begin_again();
        self.mismatches.clear();
        self.notes.clear();
        (self.end, self.corrupt) = (None, None);
        (self.by_ledger, self.settled, self.is_torn) = (false, false, false);
        (self.held, self.without_units) = (Tally::default(), 0);
        (self.first_drift, self.drifts_on) = (None, false);
    }

    /// Compares the stock of an instant with the ledger, which must be folded up to exactly there.
    pub fn watch_stock(&mut self, instant: &ActivityView) {
        let Some((stock, total)) = instant.stock.zip(self.ledger.total) else { return };
        let drift = signed(stock).saturating_add(self.ledger.sum).saturating_sub(signed(total));
        self.drifts_on |= self.first_drift.is_some_and(|first| first != drift);
        self.first_drift.get_or_insert(drift);
    }

    /// Units it had to sell, as the caller or else its preheat says.
    pub fn total(&self) -> Option<u64> {
        self.total.or(self.rules().map(|rules| rules.total))
    }

    /// What preheat wrote.
    pub fn rules(&self) -> Option<Rules> {
        self.end.as_ref().and_then(|end| end.rules)
    }

    /// Units left, with those that are withdrawn.
    pub fn stock(&self) -> Option<u64> {
        self.end.as_ref().and_then(|end| end.stock)
    }

    /// Whether caller, preheat and ledger say different totals.
    pub fn totals_differ(&self) -> bool {
        let preheated = self.rules().map(|rules| rules.total);
        self.total.is_some() && preheated.is_some() && self.total != preheated
            || self.by_ledger && preheated != self.ledger.total
    }

    /// Units that participants hold: what the ledger says, and by how much each counter differs from it. `None` if
    /// nobody knows.
    pub fn bought(&self) -> Option<i64> {
        if self.end.is_none() || self.corrupt.is_some() {
            return None;
        }
        if self.by_ledger && self.kind.has_users() {
            let drifts: Option<i64> = self.mismatches.iter().map(Mismatch::drift).sum();
            return drifts.map(|drifts| self.ledger.sum.saturating_add(drifts));
        }
        if self.by_ledger {
            return Some(self.ledger.sum);
        }
        if self.kind.has_users() {
            return (self.held.unknown == 0).then_some(self.held.units);
        }
        // Nobody is recorded and nothing was written down: what is not there was sold.
        self.sold()
    }

    /// Units that are missing from the total; `None` if more are left than there were.
    pub fn sold(&self) -> Option<i64> {
        self.total()
            .zip(self.stock())
            .filter(|(total, stock)| stock <= total)
            .map(|(total, stock)| signed(total - stock))
    }

    /// Whether each member of a set has its units beside it.
    pub fn has_units(&self) -> bool {
        self.without_units == 0 && self.ledger.unknown().next().is_none()
    }

    /// Whether order records name ledger entries newer than the ledger's last.
    pub fn lost_tail(&self) -> bool {
        let Some(end) = &self.end else { return false };
        end.rules.is_some_and(|rules| rules.ledger)
            && self.ledger.newest_named().is_some_and(|named| end.last.is_none_or(|last| named > last))
    }
}

/// Units as a number that may be compared with one below zero.
pub fn signed(units: u64) -> i64 {
    i64::try_from(units).unwrap_or(i64::MAX)
}

/// The limit, if the layout counts units by it.
pub fn limit(kind: Kind, rules: Option<Rules>) -> Option<u64> {
    rules.and_then(|rules| rules.per_user_limit).filter(|_| kind == Kind::Hash)
}
