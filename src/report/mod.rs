//! A sale as its ledger has it, entry by entry, in constant memory: what was sold when, and what an operator did meanwhile.
//!
//! Who bought is not kept: memory would grow with the users. Whether it adds up is said by sums of total, stock, ledger and
//! participants, while an audit compares each user.

pub(crate) mod merged;
#[cfg(test)]
mod tests;
pub(crate) mod timeline;
pub(crate) mod units_a_user;

use crate::audit::result::Verdict;
use crate::model::ledger::checkpoint::Checkpoint;
use crate::model::names::names;
use crate::model::number::signed;
use crate::model::{Entry, EntryId, Millis, Op};
use crate::report::timeline::{Timeline, UnitMoves};

/// Marks that are kept: a sale has a dozen.
const MAX_MARKS: usize = 200;

/// Something other than an order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mark {
    /// When.
    pub time: Millis,
    /// What was done.
    pub op: Op,
    /// The total of a preheat, adoption or update; the change by a repair; the units that a pause withdrew or a resume
    /// returned.
    pub quantity: Option<i64>,
    /// The total before an update.
    pub total_before: Option<u64>,
    /// Units left after it.
    pub stock: Option<u64>,
    /// Who did it.
    pub by: Option<String>,
    /// Why.
    pub reason: Option<String>,
}

/// The most that was bought in one second of the clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Peak {
    /// When the second began.
    pub at: Millis,
    /// Units bought in it.
    pub units: u64,
}

/// What a ledger says up to one entry.
#[derive(Debug, Default)]
pub(crate) struct Sales {
    /// What moved over time, since the first order.
    pub timeline: Timeline,
    /// Units that users held before the first entry.
    pub sold_at_begin: i64,
    /// Units that users held before the timeline begins.
    pub sold_before: i64,
    /// The total when the timeline begins.
    pub total_before: Option<u64>,
    /// The total now.
    pub total: Option<u64>,
    /// Units that users hold now.
    pub sold: i64,
    /// Purchases and holds.
    pub orders: u64,
    /// Units that they took.
    pub bought: u64,
    /// Refunds.
    pub refunds: u64,
    /// Units that they returned.
    pub returned: u64,
    /// Of the orders, those that began as holds.
    pub holds: u64,
    /// Units that they took.
    pub held: u64,
    /// Holds that were confirmed.
    pub confirmed: u64,
    /// Units of holds that were released or expired.
    pub released: u64,
    /// When the first units were bought.
    pub first_order: Option<Millis>,
    /// When units were bought last.
    pub last_order: Option<Millis>,
    /// When units were refunded last.
    pub last_refund: Option<Millis>,
    /// When the total was sold for the first time.
    pub sold_out_at: Option<Millis>,
    /// Units that were bought by then.
    bought_by_then: u64,
    /// The busiest second.
    pub peak: Option<Peak>,
    /// The second that is being counted.
    second: Option<Peak>,
    /// Everything but orders, the oldest first.
    pub marks: Vec<Mark>,
    /// Marks that are not kept.
    pub more_marks: u64,
    /// The first entry whose stock is not what orders left: something else moved units.
    pub differs_at: Option<Millis>,
    /// The first entry that cannot be read, and why.
    pub unreadable: Option<(EntryId, String)>,
    /// Entries so far.
    entries: u64,
    /// The epoch of its beginning; `None` if that is lost.
    epoch: Option<u64>,
    /// The entry that must come next, behind a checkpoint.
    expected: Option<EntryId>,
}

impl Sales {
    /// Nothing was read yet. Behind a checkpoint its sums are what was before.
    pub(crate) fn new(checkpoint: Option<&Checkpoint>) -> Self {
        let mut sales = Self::default();
        if let Some(checkpoint) = checkpoint {
            (sales.sold_at_begin, sales.sold, sales.total) = (checkpoint.sum, checkpoint.sum, Some(checkpoint.total));
            (sales.epoch, sales.expected) = (Some(checkpoint.epoch), Some(checkpoint.from));
        }
        sales
    }

    /// Whether nothing is missing since the preheat or the checkpoint of an epoch.
    pub(crate) fn is_whole(&self, epoch: u64) -> bool {
        self.epoch == Some(epoch) && self.expected.is_none() && self.unreadable.is_none()
    }

    /// Of a ledger that lost its beginning only the end is known: what users hold now, so that the past is what leads there.
    pub(crate) fn set_sold(&mut self, sold: i64) {
        let unknown = sold.saturating_sub(self.sold);
        self.sold_at_begin = self.sold_at_begin.saturating_add(unknown);
        self.sold_before = self.sold_before.saturating_add(unknown);
        self.sold = sold;
    }

    /// Adds the next entry.
    pub(crate) fn add(&mut self, entry: &Entry) {
        if self.expected.take().is_some_and(|expected| expected != entry.id) {
            self.epoch = None;
        }
        let is_first = self.entries == 0;
        self.entries += 1;
        if let Err(why) = self.read(entry, is_first) {
            self.unreadable.get_or_insert((entry.id, why));
        }
        if self.differs_at.is_none() && self.differs_from(entry) {
            self.differs_at = Some(entry.id.at());
        }
    }

    fn read(&mut self, entry: &Entry, is_first: bool) -> Result<(), String> {
        let op = entry.readable_op()?;
        match op {
            // A hold takes its units; to confirm it moves none.
            Op::Deduct | Op::Refund | Op::Hold | Op::Release | Op::Expire => self.orders_of(entry, op),
            Op::Confirm => {
                self.confirmed += entry.order_units()?.len() as u64;
                Ok(())
            }
            Op::Preheat | Op::Adopt | Op::Update | Op::Lend | Op::Borrow => {
                let total = Entry::count(entry.total.as_deref()).ok_or("no total")?;
                if op == Op::Preheat && is_first {
                    self.epoch = Entry::count(entry.epoch.as_deref());
                }
                let before = self.total.replace(total);
                if !matches!(op, Op::Lend | Op::Borrow) {
                    self.mark(entry, op, Some(signed(total)), before);
                }
                // By how much an unknown total changed, nobody knows.
                let change = before.map_or(0, |before| signed(total) - signed(before));
                self.moved(entry.id.at(), UnitMoves { total: change, ..UnitMoves::default() });
                Ok(())
            }
            Op::Pause | Op::Resume => {
                self.mark(entry, op, Entry::count(entry.withdrawn.as_deref()).map(signed), None);
                Ok(())
            }
            Op::Repair => self.repair(entry),
        }
    }

    fn orders_of(&mut self, entry: &Entry, op: Op) -> Result<(), String> {
        let orders = entry.order_units()?;
        let units: i64 = entry.quantities(&orders)?.iter().sum();
        let (at, count) = (entry.id.at(), orders.len() as u64);
        if op.returns() {
            if op == Op::Refund {
                self.last_refund = Some(at);
                self.refunds += count;
                self.returned = self.returned.saturating_add(units.unsigned_abs());
            } else {
                self.released = self.released.saturating_add(units.unsigned_abs());
            }
            self.sold = self.sold.saturating_sub(units);
            self.moved_by_order(at, UnitMoves { returned: units.unsigned_abs(), sold: -units, ..UnitMoves::default() });
            return Ok(());
        }
        if op == Op::Hold {
            self.holds += count;
            self.held = self.held.saturating_add(units.unsigned_abs());
        }
        self.first_order.get_or_insert(at);
        self.last_order = Some(at);
        self.orders += count;
        self.bought = self.bought.saturating_add(units.unsigned_abs());
        self.sold = self.sold.saturating_add(units);
        self.moved_by_order(at, UnitMoves { bought: units.unsigned_abs(), sold: units, ..UnitMoves::default() });
        self.count_second(at, units.unsigned_abs());
        let is_sold_out = self.total.is_some_and(|total| total > 0 && self.sold >= signed(total));
        if is_sold_out && self.sold_out_at.is_none() {
            (self.sold_out_at, self.bought_by_then) = (Some(at), self.bought);
        }
        Ok(())
    }

    /// What users hold was corrected. Only an audit knows what the ledger had said of each of them, so that the stock which
    /// the repair left is what counts.
    fn repair(&mut self, entry: &Entry) -> Result<(), String> {
        let repairs = entry.order_units()?;
        let change =
            repairs.iter().try_fold(0_i64, |sum, repair| Some(sum.saturating_add(repair.to()? - repair.from()?)));
        let change = change.ok_or("a repair without its end")?;
        let stock = Entry::count(entry.stock.as_deref());
        let left = self.total.zip(stock).map(|(total, stock)| signed(total) - signed(stock));
        let sold = left.unwrap_or(self.sold.saturating_add(change));
        self.mark(entry, Op::Repair, Some(change), None);
        let moved = UnitMoves { sold: sold.saturating_sub(self.sold), ..UnitMoves::default() };
        self.sold = sold;
        self.moved(entry.id.at(), moved);
        Ok(())
    }

    /// Adds to the timeline, which begins with the first order.
    fn moved_by_order(&mut self, at: Millis, moved: UnitMoves) {
        if self.timeline.is_empty() {
            (self.sold_before, self.total_before) = (self.sold.saturating_sub(moved.sold), self.total);
        }
        self.timeline.add(at, moved);
    }

    fn moved(&mut self, at: Millis, moved: UnitMoves) {
        if !self.timeline.is_empty() && moved != UnitMoves::default() {
            self.timeline.add(at, moved);
        }
    }

    fn count_second(&mut self, at: Millis, units: u64) {
        let second = at.to_second();
        let counted = match self.second {
            Some(counted) if counted.at == second => counted.units.saturating_add(units),
            _ => units,
        };
        let counted = Peak { at: second, units: counted };
        self.second = Some(counted);
        if self.peak.is_none_or(|peak| counted.units > peak.units) {
            self.peak = Some(counted);
        }
    }

    fn mark(&mut self, entry: &Entry, op: Op, quantity: Option<i64>, total_before: Option<u64>) {
        if self.marks.len() == MAX_MARKS {
            self.more_marks += 1;
            return;
        }
        self.marks.push(Mark {
            time: entry.id.at(),
            op,
            quantity,
            total_before,
            stock: Entry::count(entry.stock.as_deref()),
            by: Entry::text(entry.by.as_deref()),
            reason: Entry::text(entry.reason.as_deref()),
        });
    }

    /// Whether an entry left another stock than what was sold explains.
    fn differs_from(&self, entry: &Entry) -> bool {
        let stock = Entry::count(entry.stock.as_deref());
        self.epoch.is_some()
            && self.unreadable.is_none()
            && self
                .total
                .zip(stock)
                .is_some_and(|(total, stock)| signed(total).saturating_sub(self.sold) != signed(stock))
    }

    /// When a percentage of all purchases was made, to the width of a period of the timeline.
    pub(crate) fn bought_by(&self, percent: u8) -> Option<Millis> {
        self.timeline.bought_by(percent).map(|at| self.last_order.map_or(at, |last| at.min(last)))
    }

    /// Units bought a second from the first order to the sell-out, else to the last order; `None` if that is one instant.
    pub(crate) fn rate(&self) -> Option<f64> {
        let units = if self.sold_out_at.is_some() { self.bought_by_then } else { self.bought };
        let took = self.sold_out_at.or(self.last_order)?.get() - self.first_order?.get();
        (took > 0).then(|| units as f64 * 1000.0 / took as f64)
    }
}

names! {
    /// What sums say against a sale; the first that applies.
    pub enum Objection {
        /// The ledger does not begin with the preheat or the checkpoint.
        NoBeginning = "no_beginning",
        /// An entry cannot be read.
        Unreadable = "unreadable",
        /// The total is not the one of the ledger.
        Total = "total",
        /// The stock key is gone.
        NoStock = "no_stock",
        /// The stock is not what the ledger leaves.
        Stock = "stock",
        /// Participants hold other units than the ledger says.
        Participants = "participants",
    }
}

/// Whether the sums of one instant add up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Balance {
    /// The sum of the participants' counters; `None` if it was not compared.
    pub counters: Option<u64>,
    /// What does not add up.
    pub objection: Option<Objection>,
    /// When it was first seen that the stock differs.
    pub since: Option<Millis>,
}

impl Balance {
    /// Compares what the ledger says with the stock of the same instant. `counters` is the sum of the participants' counters,
    /// if all of them are known and nothing changed meanwhile.
    pub(crate) fn new(sales: &Sales, epoch: u64, total: u64, stock: Option<u64>, counters: Option<u64>) -> Self {
        let left = |stock| signed(total) - signed(stock);
        let objection = match stock {
            _ if sales.unreadable.is_some() => Some(Objection::Unreadable),
            _ if !sales.is_whole(epoch) => Some(Objection::NoBeginning),
            _ if sales.total != Some(total) => Some(Objection::Total),
            None => Some(Objection::NoStock),
            Some(stock) if left(stock) != sales.sold => Some(Objection::Stock),
            Some(_) if counters.is_some_and(|units| signed(units) != sales.sold) => Some(Objection::Participants),
            Some(_) => None,
        };
        let since = sales.differs_at.filter(|_| objection == Some(Objection::Stock));
        Self { counters, objection, since }
    }

    /// The verdict, in the words of an audit.
    pub(crate) fn verdict(&self) -> Verdict {
        match self.objection {
            None => Verdict::Match,
            Some(Objection::NoBeginning | Objection::Unreadable) => Verdict::Unsettled,
            Some(_) => Verdict::Drift,
        }
    }
}
