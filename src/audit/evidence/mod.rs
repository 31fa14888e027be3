//! Audit evidence: what was found of one activity, before anybody judges it.

pub(crate) mod mismatch;
pub(crate) mod purchases;
#[cfg(test)]
mod tests;

use crate::audit::evidence::mismatch::{Holding, Mismatch};
use crate::audit::evidence::purchases::Purchases;
use crate::audit::ledger_state::order_parts::SplitOrder;
use crate::audit::ledger_state::{Compared, LedgerState};
use crate::model::ShardPlan;
use crate::model::activity::{Meta, Snapshot};
use crate::model::id::ActivityId;
use crate::model::layout::{Kind, Layout};
use crate::model::ledger::checkpoint::Checkpoint;
use crate::model::number::signed;
use crate::model::order::Corrupt;
use crate::model::order::hold::{OpenCounts, Recounted};

impl Snapshot {
    /// The epoch of its sale.
    pub(crate) fn epoch(&self) -> Option<u64> {
        self.meta.as_ref().map(|meta| meta.epoch)
    }

    /// The sums that its ledger begins with, if it was trimmed.
    pub(crate) fn checkpoint(&self) -> Option<&Checkpoint> {
        self.meta.as_ref()?.checkpoint.as_ref()
    }

    /// Whether somebody bought or gave back within the last second.
    pub(crate) fn is_live(&self) -> bool {
        self.ledger_last.is_some_and(|last| self.at.get().saturating_sub(last.at().get()) < 1000)
    }
}

/// What all participants hold, as a scan found it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Tally {
    /// Units, as far as they are known. Of a record without units, what the order records say of the user.
    pub units: i64,
    /// How many users there are.
    pub users: u64,
    /// Of how many of them the units are not known.
    pub unknown: u64,
}

impl Tally {
    /// Adds a participant, whom the ledger state knows.
    pub(crate) fn add(&mut self, holds: &Holding, state: &LedgerState, user: u32) {
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

/// Why open holds were not counted: those of [`Evidence::MANY_HOLDS`] are the most.
pub(crate) const TOO_MANY_HOLDS: &str = "more than 100000 holds are open, so that nobody counted them: end some, and \
                                         audit again; those without a deadline by their request ids (`confirm` or \
                                         `release --from`), which ledger or order records have";

/// All that was found of one activity.
pub struct Evidence {
    /// The activity.
    pub(crate) activity: ActivityId,
    /// Its layout.
    pub(crate) layout: Layout,
    /// How it records who bought.
    pub(crate) kind: Kind,
    /// The total that the caller says it has.
    pub(crate) total: Option<u64>,
    /// The activity when it was read last, which is where the ledger state ends; `None` if there is no such activity.
    pub(crate) end: Option<Snapshot>,
    /// A key that is corrupt as a whole.
    pub(crate) corrupt: Option<Corrupt>,
    /// What the ledger leads to, and the order records.
    pub(crate) ledger: LedgerState,
    /// Without a ledger: what all participants hold.
    pub(crate) held: Tally,
    /// Whether anybody was recorded on a page.
    pub(crate) has_users: bool,
    /// Members of a set that have no units beside them.
    pub(crate) without_units: u64,
    /// Whether the ledger was folded from its beginning.
    pub(crate) by_ledger: bool,
    /// Whether nothing moved that would make the rest a guess.
    pub(crate) settled: bool,
    /// Whether its scans were of several instants, so that their sums never were.
    pub(crate) is_torn: bool,
    /// By how much the stock was off the ledger when it was first compared with it.
    pub(crate) stock_drift: Option<i64>,
    /// Whether that changed while the counters were read: somebody sells past the ledger right now, so counters and
    /// stock are not of one instant.
    pub(crate) stock_drift_changed: bool,
    /// Users whose counter, ledger or order records disagree, or who exceed the limit.
    pub(crate) mismatches: Vec<Mismatch>,
    /// A hold that is not what it should be, so that nothing could be counted.
    pub(crate) damaged_hold: Option<Corrupt>,
    /// The units held open by the holds themselves, if they were counted.
    pub(crate) open: Option<OpenCounts>,
    /// What the request ids did of users who hold more than they should.
    pub(crate) purchases: Purchases,
    /// Orders of activities in several slots that are bought in part.
    pub(crate) split_orders: Vec<SplitOrder>,
    /// Warnings.
    pub(crate) notes: Vec<String>,
}

impl Evidence {
    /// Nothing was found yet. `total` is what the caller says it has.
    pub(crate) fn new(activity: &ActivityId, layout: Layout, total: Option<u64>, compared: Option<Compared>) -> Self {
        let kind = layout.kind();
        Self {
            activity: activity.clone(),
            layout,
            kind,
            total,
            end: None,
            corrupt: None,
            ledger: LedgerState::new(kind, compared).with_order_parts(),
            held: Tally::default(),
            has_users: false,
            without_units: 0,
            by_ledger: false,
            settled: false,
            is_torn: false,
            stock_drift: None,
            stock_drift_changed: false,
            mismatches: Vec::new(),
            damaged_hold: None,
            open: None,
            purchases: Purchases::default(),
            split_orders: Vec::new(),
            notes: Vec::new(),
        }
    }

    /// Forgets all that was found, but for the order records.
    pub(crate) fn begin_again(&mut self) {
        let ledger = std::mem::take(&mut self.ledger);
        *self = Self { ledger, ..Self::new(&self.activity, self.layout, self.total, None) };
        self.ledger.begin_again();
    }

    /// Holds that are counted in any case: a few milliseconds of the server's time.
    pub const FEW_HOLDS: u64 = 500;
    /// Holds that are counted if something is wrong: a second of the server's time.
    pub const MANY_HOLDS: u64 = 100_000;

    /// How many holds may be counted; `None` if none can be open. The ledger must be folded up to the last view, so that a
    /// difference is one, even while others buy.
    pub(crate) fn holds_to_count(&self) -> Option<u64> {
        let holds = self.meta().filter(|_| self.kind.has_users() && self.corrupt.is_none())?.holds;
        let agrees = match (self.by_ledger, holds, self.ledger.open_units()) {
            (true, 0, 0) => return None,
            (true, holds, open) => signed(holds) == open,
            // Equal scans: nobody buys. What users hold open decides how they differ from the order records.
            (false, ..) => !self.settled || !self.ledger.lists_users() || self.mismatches.is_empty(),
        };
        Some(if agrees { Self::FEW_HOLDS } else { Self::MANY_HOLDS })
    }

    /// Whether the units that are counted as held open at the ledger's end are not those that it says.
    pub(crate) fn lacks_hold_entries(&self) -> bool {
        self.by_ledger && self.meta().map_or(0, |meta| signed(meta.holds)) != self.ledger.open_units()
    }

    /// Takes over what counting the open units came to, and corrects what the ledger says of them: an entry may have been lost.
    /// `is_later`: the sale went on since the ledger's end.
    pub(crate) fn take_open(&mut self, recounted: Recounted, is_later: bool) {
        match recounted {
            Recounted::Counts(counts) if counts.is_partial => {
                self.notes.push(TOO_MANY_HOLDS.to_owned());
                self.open = Some(counts);
            }
            Recounted::Counts(counts) => {
                // Read at one instant, the two differ only if an entry was lost. Two that were lost may leave the sum as it is.
                let (lacks_entries, open) = (self.lacks_hold_entries(), self.ledger.open_units());
                // Counted later, one that was cut since the ledger's end has no entry that would come yet.
                if self.by_ledger && (lacks_entries || signed(counts.stored) != open || !is_later) {
                    if counts.is_right() && lacks_entries {
                        self.notes.push(format!(
                            "units held open: its ledger has {open}, its holds have {}: entries of the ledger, or records of holds, were lost",
                            counts.counted
                        ));
                    }
                    self.ledger.count_open(&counts.by_user(), is_later);
                }
                self.open = Some(counts);
            }
            Recounted::TooMany if self.holds_to_count() == Some(Self::MANY_HOLDS) => {
                self.notes.push(TOO_MANY_HOLDS.to_owned());
            }
            Recounted::TooMany if !self.by_ledger => self.notes.push(format!(
                "units held open were not compared with the holds: more than {} are open, and it has no whole ledger",
                Self::FEW_HOLDS
            )),
            Recounted::TooMany | Recounted::Gone => {}
            Recounted::Corrupt(corrupt) => self.damaged_hold = Some(corrupt),
        }
    }

    /// Compares the stock of an instant with the ledger, which must be folded up to exactly there.
    pub(crate) fn compare_stock(&mut self, view: &Snapshot) {
        let Some((stock, total)) = view.stock.zip(self.ledger.total) else { return };
        let drift = signed(stock).saturating_add(self.ledger.sum).saturating_sub(signed(total));
        self.stock_drift_changed |= self.stock_drift.is_some_and(|first| first != drift);
        self.stock_drift.get_or_insert(drift);
    }

    /// Notes why scans prove nothing, if they don't. `lost_beginning`: it has a ledger, which is not whole.
    pub(crate) fn note_scans(&mut self, lost_beginning: bool) {
        if !self.settled {
            self.is_torn = true;
            self.notes.push(
                "it is being written and has no ledger, so no two scans were equal: audit it when nobody buys"
                    .to_owned(),
            );
        } else if self.meta().is_some_and(|meta| meta.is_adopting) {
            self.settled = false;
            self.notes.push("its adoption is unfinished: `preheat --adopt` resumes it".to_owned());
        } else if self.is_starting() {
            self.settled = false;
            self.notes.push("a `preheat` of its shards is unfinished: the same `preheat` resumes it".to_owned());
        } else if lost_beginning {
            self.settled = false;
            // Nothing takes over a shard.
            let way_out = if self.activity.parent().is_none() { ": `preheat --adopt` begins another" } else { "" };
            self.notes.push(format!(
                "its ledger does not begin with this sale's preheat, nor continues a checkpoint, so no counter could be \
                 compared with it{way_out}"
            ));
        }
    }

    /// Whether its shards are being made.
    pub(crate) fn is_starting(&self) -> bool {
        self.meta().is_some_and(|meta| matches!(meta.plan, Some(ShardPlan::Start { .. })))
    }

    /// Notes why it is unknown what is newer than the order records.
    pub(crate) fn note_orders_too_old(&mut self) {
        if let Some(why) = &self.ledger.orders_too_old {
            self.notes.push(format!(
                "its ledger {why}, so what is newer than they are cannot be distinguished from what is missing in them: \
                 they were not compared, export them again"
            ));
        }
    }

    /// Units it had to sell, as the caller or else its preheat says.
    pub(crate) fn total(&self) -> Option<u64> {
        self.total.or(self.meta().filter(|meta| !meta.is_adopting).map(|meta| meta.total))
    }

    /// What preheat wrote.
    pub(crate) fn meta(&self) -> Option<&Meta> {
        self.end.as_ref()?.meta.as_ref()
    }

    /// Units left, with those that are withdrawn.
    pub(crate) fn stock(&self) -> Option<u64> {
        self.end.as_ref().and_then(|end| end.stock)
    }

    /// Whether caller, preheat and ledger say different totals.
    pub(crate) fn totals_differ(&self) -> bool {
        let preheated = self.meta().map(|meta| meta.total);
        self.total.is_some() && preheated.is_some() && self.total != preheated
            || self.by_ledger && preheated != self.ledger.total
    }

    /// Units that participants hold: what the ledger says, and by how much each counter differs from it. `None` if
    /// nobody knows.
    pub(crate) fn bought(&self) -> Option<i64> {
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
    pub(crate) fn sold(&self) -> Option<i64> {
        self.total()
            .zip(self.stock())
            .filter(|(total, stock)| stock <= total)
            .map(|(total, stock)| signed(total - stock))
    }

    /// Whether more units are left than there can be beside participants whose units nobody knows: each has at least one.
    pub(crate) fn has_excess_stock(&self) -> bool {
        if self.by_ledger {
            return self.ledger.unknown().next().is_some() && !self.ledger.fits_unknown();
        }
        if self.held.unknown == 0 {
            return false;
        }
        let held = self.held.units.saturating_add(signed(self.held.unknown));
        self.total().zip(self.stock()).is_some_and(|(total, stock)| signed(stock).saturating_add(held) > signed(total))
    }

    /// Whether each member of a set has its units beside it.
    pub(crate) fn has_units(&self) -> bool {
        self.without_units == 0 && self.ledger.unknown().next().is_none()
    }

    /// Whether order records name ledger entries newer than the ledger's last.
    pub(crate) fn lost_tail(&self) -> bool {
        let Some(end) = &self.end else { return false };
        end.meta.as_ref().is_some_and(|meta| meta.ledger)
            && self.ledger.newest_named().is_some_and(|named| end.ledger_last.is_none_or(|last| named > last))
    }
}

/// The limit, if the layout counts units by it.
pub(crate) fn limit(kind: Kind, meta: Option<&Meta>) -> Option<u64> {
    meta.and_then(|meta| meta.per_user_limit).filter(|_| kind == Kind::Hash)
}
