//! From the evidence to a plan of repairs. The stock goes up only on proof: complete order records, or a whole ledger
//! that equals every counter.
//!
//! Order records override Redis. Without them, a counter that the stock moved with is never undone: a backend sold those
//! units past the ledger, and undoing would sell them again.

pub(crate) mod repair;

use crate::audit::class::Class;
use crate::audit::evidence::mismatch::{Holding, Mismatch};
use crate::audit::evidence::purchases::NEXT_AUDIT;
use crate::audit::evidence::{Evidence, TOO_MANY_HOLDS, limit};
use crate::audit::ledger_state::transfers::BrokenTransfer;
use crate::audit::plan::repair::{Audited, Repair, gate};
use crate::model::number::{MAX_UNITS, signed};
use crate::model::{EntryId, Kind, StoredUser};

/// What is done about units that no order record has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MissingOrders {
    /// They are among the repairs, which give them back.
    Repair,
    /// They are delivered again, so they are no repairs.
    Emit,
}

/// What to do about an audit.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RepairPlan {
    /// What can be repaired: what lowers the stock comes first.
    pub repairs: Vec<Repair>,
    /// Transfers between shards of which the other side can be made up for.
    pub transfers: Vec<BrokenTransfer>,
    /// What cannot, how often, and why.
    pub kept: Vec<(Class, usize, &'static str)>,
}

/// Plans the repairs of an activity. `is_unrecorded`: the order records don't mention it, though it sold.
pub(crate) fn plan(evidence: &Evidence, is_unrecorded: bool, missing_orders: MissingOrders) -> RepairPlan {
    let mut plan = RepairPlan::default();
    if evidence.corrupt.is_some() || !evidence.ledger.unreadable.is_empty() {
        plan.keep(Class::Corrupt, "a key that is corrupt must be corrected first");
        return plan;
    }
    let is_left_out = is_unrecorded && !evidence.ledger.lists_users();
    if !evidence.settled || evidence.ledger.orders_too_old.is_some() || is_left_out {
        return plan;
    }
    if evidence.damaged_hold.is_some() {
        plan.keep(Class::Corrupt, "a hold that is damaged must be corrected first");
        return plan;
    }
    let mut changes = Changes::new(evidence, missing_orders);
    changes.open_counts();
    if evidence.kind == Kind::Counter {
        changes.plan_bare_counter();
    } else {
        changes.users();
    }
    let mut plan = changes.plan;
    plan.name(evidence);
    for _ in &evidence.split_orders {
        plan.keep(Class::SplitOrder, "sell what is missing, or refund what is bought, by hand");
    }
    if evidence.lost_tail() && plan.repairs.is_empty() {
        plan.keep(Class::LostTail, "nothing restores entries; the order records show what was lost");
    }
    plan
}

/// The stock and the ledger's end as audited, which a repair that adds to what was promised or is for sale requires unchanged:
/// whatever was sold since, by a backend past the ledger too, or returned, must not be there twice. A stock key that is gone is required to be gone.
fn audited(evidence: &Evidence) -> Option<Audited> {
    Some(Audited { stock: evidence.stock()?, last: audited_entry(evidence) })
}

/// The last entry that was audited, if there is a ledger.
fn audited_entry(evidence: &Evidence) -> Option<EntryId> {
    let end = evidence.end.as_ref()?;
    end.ledger_last.filter(|_| end.meta.as_ref().is_some_and(|meta| meta.ledger))
}

impl RepairPlan {
    /// Adds what is planned for another part of the same activity.
    pub fn extend(&mut self, other: Self) {
        self.repairs.extend(other.repairs);
        self.transfers.extend(other.transfers);
        for (class, count, why) in other.kept {
            (0..count).for_each(|_| self.keep(class, why));
        }
    }

    /// Records what is not repaired, and why.
    pub fn keep(&mut self, class: Class, why: &'static str) {
        match self.kept.iter_mut().find(|(known, _, known_why)| (*known, *known_why) == (class, why)) {
            Some((_, count, _)) => *count += 1,
            None => self.kept.push((class, 1, why)),
        }
    }

    /// Puts the repairs in order and gives them their names.
    fn name(&mut self, evidence: &Evidence) {
        // Without a meta nothing counts the repairs, so the instant of the audit distinguishes one from the next.
        let at = evidence.end.as_ref().filter(|end| end.meta.is_none()).map_or(0, |end| end.at.get());
        let all_lost = evidence.end.as_ref().is_some_and(|end| end.lost_users.is_some());
        let audited = audited(evidence);
        let name = |mut repair: Repair| {
            let brings_back = all_lost && repair.user.is_some() && repair.to > 0;
            let needs_stock = brings_back || repair.needs_stock_as_audited();
            repair.audited_stock = audited.filter(|_| needs_stock).map(|audited| audited.stock);
            repair.audited_entry = audited_entry(evidence).map(|last| last.to_string());
            repair.named(at)
        };
        self.repairs = std::mem::take(&mut self.repairs).into_iter().map(name).collect();
        let key = |repair: &Repair| (repair.stock_change >= 0, repair.user.is_some(), -repair.stock_change);
        self.repairs.sort_by(|one, other| (key(one), &one.user).cmp(&(key(other), &other.user)));
        let (raising, first): (Vec<&Repair>, Vec<&Repair>) =
            self.repairs.iter().partition(|repair| repair.raises_stock());
        let after = if raising.is_empty() { None } else { gate(first.iter().map(|repair| repair.id.as_str())) };
        self.repairs
            .iter_mut()
            .filter(|repair| repair.raises_stock())
            .for_each(|repair| repair.after.clone_from(&after));
    }
}

const ONE_COUPON: &str = "a user can hold one coupon only";
const TOTALS_DIFFER: &str = "the totals differ: `preheat --update` sets the total";
const DRIFTS_ON: &str =
    "somebody moves the stock past the ledger right now: stop the sale (`pause --withdraw-stock`), then audit again";
const UNCLEAR: &str = "stock moved with some counters only: order records would show which";
const UNPROVEN: &str = "no whole ledger that equals every counter, and no complete order records, prove how many units are left: compare it with \
     all order records (`--orders`), or `SET` the stock by hand to the total without what users hold and what is withdrawn";
/// What is left to do where no records are compared and nobody is recorded.
pub(crate) const START_OVER: &str = "`preheat --stock TOTAL --reset --starts-at +1h` starts over, and `reconcile --orders FILE --fix` \
     records its orders before anybody buys";
const NEEDS_ORDERS: &str = "only all order records (`--orders`) prove how many units are left";
const DIFFERS: &str = "counters and ledger differ: compare them with all order records (`--orders`), or `SET` the stock by hand: if users were \
     lost, to what the ledger says, and `--fix` brings them back; if a script sold past the ledger, to the total without what users hold; \
     each without what is withdrawn";

/// The changes so far.
pub(crate) struct Changes<'a> {
    evidence: &'a Evidence,
    missing_orders: MissingOrders,
    pub(crate) plan: RepairPlan,
    /// Whether the units of every user are known, or will be.
    is_complete: bool,
}

impl<'a> Changes<'a> {
    /// None yet.
    pub(crate) fn new(evidence: &'a Evidence, missing_orders: MissingOrders) -> Self {
        Self { evidence, missing_orders, plan: RepairPlan::default(), is_complete: true }
    }

    /// The counts of what is held open, which one change corrects.
    pub(crate) fn open_counts(&mut self) {
        match self.evidence.open.as_ref().filter(|open| !open.is_right()) {
            Some(open) if open.is_partial => self.plan.keep(Class::OpenCount, TOO_MANY_HOLDS),
            Some(open) => self.add(Class::OpenCount, Some(signed(open.found())), signed(open.counted), 0),
            None => (),
        }
    }

    /// A sale without users: `from` and `to` are the units sold, as the ledger has them.
    pub(crate) fn plan_bare_counter(&mut self) {
        let evidence = self.evidence;
        let mismatch = evidence.mismatches.first();
        let Some(total) = evidence.total() else { return };
        if evidence.totals_differ() {
            return self.plan.keep(Class::Conservation, TOTALS_DIFFER);
        }
        let ledger = evidence.by_ledger.then_some(evidence.ledger.sum);
        let recorded = evidence.ledger.ordered(0).filter(|_| evidence.ledger.lists_users()).and_then(|orders| {
            let agrees = || evidence.ledger.compare(0, evidence.ledger.holding(0), evidence.by_ledger, Some(orders));
            mismatch.cloned().unwrap_or_else(agrees).ordered_now()
        });
        let Some(stock) = evidence.stock() else {
            let Some(recorded) = recorded else { return self.plan.keep(Class::Conservation, UNPROVEN) };
            // What the database is given again stays sold.
            let emitted = ledger.filter(|ledger| *ledger > recorded && self.missing_orders == MissingOrders::Emit);
            let to = emitted.unwrap_or(recorded);
            let loses = mismatch.filter(|_| ledger > Some(to));
            let Some((to, reversed)) = self.reversed(Class::Conservation, loses, to) else { return };
            self.restore(signed(total) - to);
            if let Some(ledger) = ledger.filter(|ledger| *ledger != to) {
                self.add_reversing(Class::CounterDrift, None, (Some(ledger), to), 0, reversed);
            }
            return;
        };
        let sold = signed(total) - signed(stock);
        let against = mismatch.and_then(Mismatch::against_orders).filter(|class| *class != Class::Timing);
        let class = against.or_else(|| (sold < 0).then_some(Class::Conservation));
        match (class, recorded, ledger) {
            (Some(_), Some(to), _) if to < sold && self.missing_orders == MissingOrders::Emit => (),
            (Some(class), Some(to), ledger) => {
                let from = Some(ledger.unwrap_or(sold.max(0)));
                if let Some((to, reversed)) = self.reversed(class, mismatch.filter(|_| to < sold), to) {
                    self.add_reversing(class, None, (from, to), sold - to, reversed);
                }
            }
            (None, _, Some(ledger)) if mismatch.is_some_and(Mismatch::is_of_ledger_alone) => {
                self.add(Class::CounterDrift, Some(ledger), sold, 0);
            }
            // Sold past the ledger, so it is recorded there.
            (_, None, Some(ledger)) if ledger < sold => self.add(Class::Conservation, Some(ledger), sold, 0),
            // Too many are left: they would be sold twice.
            (_, None, Some(ledger)) if ledger > sold => {
                self.add(Class::Conservation, Some(ledger), ledger, sold - ledger);
            }
            (Some(_), None, None) => self.plan.keep(Class::Conservation, UNPROVEN),
            _ => (),
        }
    }

    pub(crate) fn users(&mut self) {
        let evidence = self.evidence;
        self.is_complete = evidence.by_ledger || evidence.ledger.lists_users() || evidence.held.unknown == 0;
        let explained = explained(evidence);
        let most = limit(evidence.kind, evidence.meta());
        for mismatch in &evidence.mismatches {
            let planned = self.plan.repairs.len();
            self.repair_user(mismatch, explained);
            let is_ended = |most| self.plan.repairs[planned..].iter().any(|repair| repair.to <= most);
            if let (Holding::Units(units), Some(most)) = (&mismatch.holds, most)
                && *units > most
                && !is_ended(most)
            {
                self.plan.keep(Class::OverLimit, "only a refund can take units from a customer");
            }
        }
        self.whole(explained);
    }

    /// The repair of one user, or why there is none.
    fn repair_user(&mut self, mismatch: &Mismatch, explained: Explained) {
        let evidence = self.evidence;
        let Some((class, to)) = self.target(mismatch, explained) else { return };
        // No script records two, and of one the unit of the other would return though its request id stays.
        if evidence.kind == Kind::Coupon && to > 1 {
            return self.plan.keep(class, ONE_COUPON);
        }
        let user = StoredUser::new(evidence.ledger.users.name(mismatch.user));
        if !user.fits() {
            return self.plan.keep(
                class,
                "no script accepts the user id: it is empty or too long, or has control characters or spaces at an end",
            );
        }
        let from = match &mismatch.holds {
            Holding::Units(units) => Some(signed(*units)),
            _ => None,
        };
        // What the stock is compared with: the user's units, or what the ledger says of them.
        let base = match explained {
            Explained::ByLedger => mismatch.ledger,
            Explained::ByEviction if is_evicted(mismatch) => mismatch.ledger,
            _ => mismatch.units(),
        };
        let change = |to| base.map_or(0, |base| base.saturating_sub(to));
        // Also of one whose counter was lost, and whose units return, with others that the stock lacks or by themselves.
        let is_lost = explained != Explained::ByCounters && is_evicted(mismatch) && mismatch.ledger > Some(to);
        let is_lowered = mismatch.written().is_none_or(|units| to < units);
        let loses = change(to) > 0 || is_lost || is_lowered;
        if let Some((to, reversed)) = self.reversed(class, Some(mismatch).filter(|_| loses), to) {
            self.add_reversing(class, Some(user), (from, to), change(to), reversed);
        }
    }

    /// What the units of a user who loses some become, instead of `to`, and the request ids that end with that. Records why not all of
    /// it is repaired.
    fn reversed(&mut self, class: Class, loses: Option<&Mismatch>, to: i64) -> Option<(i64, Vec<String>)> {
        let Some(mismatch) = loses else { return Some((to, Vec::new())) };
        let reversed = self.evidence.purchases.reversed(mismatch, to, &self.evidence.ledger);
        match &reversed {
            Ok((left, _)) if *left != to => self.plan.keep(class, NEXT_AUDIT),
            Ok(_) => (),
            Err(why) => self.plan.keep(class, why),
        }
        reversed.ok()
    }

    /// What a user's units should be, if they are to change or to be recorded, and why.
    fn target(&mut self, mismatch: &Mismatch, explained: Explained) -> Option<(Class, i64)> {
        let against = mismatch.against_orders().filter(|class| *class != Class::Timing);
        let drifts = mismatch.drifts();
        let keep = |changes: &mut Self, class, why| {
            changes.plan.keep(class, why);
            None
        };
        match (&mismatch.holds, mismatch.units()) {
            (Holding::Invalid(_), _) => {
                self.is_complete = false;
                return keep(self, Class::Corrupt, "a record that is no number must be corrected first");
            }
            (Holding::Unknown, None) if mismatch.orders != Some(0) => {
                self.is_complete = false;
                return keep(self, Class::CounterDrift, "a script recorded no units: order records would show them");
            }
            _ => (),
        }
        let emits = self.missing_orders == MissingOrders::Emit;
        match (against, mismatch.orders, mismatch.ordered_now()) {
            (Some(class), Some(orders), _) if orders < 0 => {
                self.plan.keep(class, "the order records of a user sum up below zero");
                self.target_of_lost(mismatch, explained)
            }
            // A sum that saturated.
            (Some(class), Some(orders), _) if orders >= signed(MAX_UNITS) => {
                self.plan.keep(class, "the order records of a user sum up past what can be sold");
                self.target_of_lost(mismatch, explained)
            }
            (Some(class), _, Some(to)) => match mismatch.units() {
                None if emits => {
                    self.is_complete = false;
                    keep(self, class, "a script recorded no units, so it is not known how many to deliver")
                }
                Some(units) if emits && to < units => None,
                _ if self.evidence.kind == Kind::Coupon && to > 1 => {
                    self.plan.keep(class, ONE_COUPON);
                    self.target_of_lost(mismatch, explained)
                }
                _ => Some((class, to)),
            },
            // Of a counter that was lost, the records may be too old for what was bought.
            (_, Some(_), Some(to)) if drifts && explained != Explained::ByCounters && is_evicted(mismatch) => {
                Some((Class::CounterDrift, to))
            }
            // Of records that allow the ledger's units as well, the stock says which are right: no unit of it is given to others.
            (_, Some(_), _) if drifts && !(explained == Explained::ByLedger && mismatch.records_allow_ledger()) => {
                Some((Class::CounterDrift, mismatch.units()?))
            }
            _ if drifts => match explained {
                Explained::ByCounters | Explained::ByRecords => Some((Class::CounterDrift, mismatch.units()?)),
                Explained::ByLedger => Some((Class::CounterDrift, mismatch.ledger?)),
                Explained::ByEviction if is_evicted(mismatch) => Some((Class::CounterDrift, mismatch.ledger?)),
                Explained::ByEviction => Some((Class::CounterDrift, mismatch.units()?)),
                Explained::Unclear => keep(self, Class::CounterDrift, UNCLEAR),
            },
            _ => None,
        }
    }

    /// A lost user's units by the ledger, if the records are no use: the limit would start over with the first user who comes back.
    fn target_of_lost(&mut self, mismatch: &Mismatch, explained: Explained) -> Option<(Class, i64)> {
        if !is_evicted(mismatch) {
            return None;
        }
        let is_proven = matches!(explained, Explained::ByLedger | Explained::ByEviction)
            || self.evidence.by_ledger && self.evidence.stock().is_none();
        self.is_complete &= is_proven;
        mismatch.ledger.filter(|_| is_proven).map(|ledger| (Class::CounterDrift, ledger))
    }

    /// The stock, as far as no user's repair moves it.
    fn whole(&mut self, explained: Explained) {
        let evidence = self.evidence;
        if !self.is_complete {
            self.keep_raises("the units of other users are not known");
        }
        let Some(total) = evidence.total() else { return };
        if evidence.totals_differ() {
            self.plan.keep(Class::Conservation, TOTALS_DIFFER);
            return self.keep_raises("the totals differ");
        }
        let drifts = evidence.mismatches.iter().any(Mismatch::drifts);
        let is_proven = self.is_complete
            && (evidence.ledger.lists_users() || evidence.by_ledger && !drifts && evidence.has_units());
        if is_proven && evidence.stock_drift_changed && !evidence.ledger.lists_users() {
            return self.plan.keep(Class::Conservation, DRIFTS_ON);
        }
        let left = self.held().map(|held| signed(total).saturating_sub(held));
        match (evidence.stock(), left) {
            (None, Some(left)) if is_proven => {
                // What users' repairs would move is in it at once.
                let moved: i64 =
                    self.plan.repairs.iter_mut().map(|change| std::mem::take(&mut change.stock_change)).sum();
                self.restore(left.saturating_add(moved));
            }
            (None, _) => {
                self.plan.repairs.clear();
                self.plan.keep(Class::Conservation, if evidence.by_ledger { DIFFERS } else { self.unproven(left) });
            }
            (Some(_), _) if evidence.has_excess_stock() && !evidence.ledger.lists_users() => {
                self.plan.keep(
                    Class::Conservation,
                    "more units are left than there can be: order records would show what users hold",
                );
            }
            (Some(_), None) => (),
            (Some(_), _) if matches!(explained, Explained::ByLedger | Explained::ByEviction) => (),
            (Some(stock), Some(left)) if left == signed(stock) => (),
            // A purchase past the ledger may be newer than the order records, and than the page of its user.
            (Some(stock), Some(left)) if evidence.stock_drift_changed && left > signed(stock) => {
                self.plan.keep(Class::Conservation, DRIFTS_ON);
            }
            (Some(stock), Some(left)) if is_proven => self.net(left - signed(stock)),
            _ if explained == Explained::Unclear => self.plan.keep(Class::Conservation, UNCLEAR),
            _ => self.plan.keep(Class::Conservation, self.unproven(left)),
        }
    }

    /// The advice where nothing proves how many units are left. What users hold shows it only if it was not lost, and is no more than
    /// the total.
    fn unproven(&self, left: Option<i64>) -> &'static str {
        let is_lost = self.evidence.end.as_ref().is_some_and(|end| end.buyers == Some(0));
        match is_lost || left.is_none_or(|left| left < 0) {
            true if is_lost && !self.evidence.by_ledger && self.evidence.meta().is_some_and(|meta| meta.ledger) => {
                START_OVER
            }
            true => NEEDS_ORDERS,
            false => UNPROVEN,
        }
    }

    /// Units that users hold, with nothing for members without units whom complete order records don't know; `None` if
    /// those of some are unknown.
    fn held(&self) -> Option<i64> {
        let evidence = self.evidence;
        if !evidence.by_ledger {
            return self.is_complete.then_some(evidence.held.units);
        }
        let drift = |mismatch: &Mismatch| mismatch.drift().unwrap_or_else(|| -mismatch.ledger.unwrap_or_default());
        let drifts: i64 = evidence.mismatches.iter().map(drift).fold(0, i64::saturating_add);
        let ledger = &evidence.ledger;
        let held = if ledger.lists_users() { ledger.known_units() } else { ledger.sum };
        self.is_complete.then(|| held.saturating_add(drifts))
    }

    /// Moves the stock by `missing` units. If they are to return, users whose purchases are missing get them first: what
    /// lowers the stock comes before what raises it, and must not wait for it.
    fn net(&mut self, mut missing: i64) {
        for change in self.plan.repairs.iter_mut().filter(|change| change.stock_change < 0) {
            let part = missing.clamp(0, -change.stock_change);
            change.stock_change += part;
            missing -= part;
        }
        if missing != 0 {
            self.add(Class::Conservation, Some(0), 0, missing);
        }
    }

    /// Creates the stock key, with what is left after all other repairs.
    fn restore(&mut self, left: i64) {
        let withdrawn = self.evidence.meta().and_then(|meta| meta.withdrawn).unwrap_or_default();
        self.add(Class::Conservation, None, left, left.saturating_sub(signed(withdrawn)));
    }

    /// Leaves out what would raise the stock.
    fn keep_raises(&mut self, why: &'static str) {
        let raises: Vec<Repair> = self.plan.repairs.extract_if(.., |repair| repair.stock_change > 0).collect();
        raises.into_iter().for_each(|raise| self.plan.keep(raise.class, why));
    }

    fn add(&mut self, class: Class, from: Option<i64>, to: i64, stock_change: i64) {
        self.add_reversing(class, None, (from, to), stock_change, Vec::new());
    }

    /// The same, which also ends request ids of the user.
    fn add_reversing(
        &mut self,
        class: Class,
        user: Option<StoredUser>,
        (from, to): (Option<i64>, i64),
        stock_change: i64,
        reversed: Vec<String>,
    ) {
        let count = |units: i64| u64::try_from(units).ok().filter(|units| *units <= MAX_UNITS);
        let is_valid = from.is_none_or(|from| count(from).is_some()) && stock_change.unsigned_abs() <= MAX_UNITS;
        let Some(to) = count(to).filter(|_| is_valid) else {
            self.is_complete = false;
            return self.plan.keep(class, "the sums are below zero or past 9007199254740991");
        };
        let meta = self.evidence.meta();
        self.plan.repairs.push(Repair {
            id: String::new(),
            layout: self.evidence.layout,
            activity: self.evidence.activity.to_string(),
            class,
            user_hex: user.as_ref().and_then(StoredUser::user_hex),
            user,
            from: from.and_then(count),
            to,
            stock_change,
            reversed: Some(reversed),
            after: None,
            audited_stock: None,
            audited_entry: None,
            epoch: meta.map(|meta| meta.epoch),
            repairs: meta.map(|meta| meta.repairs),
        });
    }
}

/// What explains the stock while counters differ from the ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Explained {
    /// It moved with every counter: the ledger is behind.
    ByCounters,
    /// It moved with the ledger alone: the counters are off.
    ByLedger,
    /// It moved with the ledger for users whose records are gone, and with the counters of the others.
    ByEviction,
    /// With neither; order records say what users have.
    ByRecords,
    /// None of these.
    Unclear,
}

/// What explains the stock of a sale whose counters differ from its ledger.
pub(super) fn explained(evidence: &Evidence) -> Explained {
    let drifting: Vec<&Mismatch> = evidence.mismatches.iter().filter(|mismatch| mismatch.drifts()).collect();
    let Some((total, stock)) = evidence.total().zip(evidence.stock()) else { return Explained::Unclear };
    let sold = signed(total).saturating_sub(signed(stock));
    let drifts = |of: &dyn Fn(&Mismatch) -> bool| {
        let drift = drifting.iter().filter(|mismatch| of(mismatch)).map(|mismatch| mismatch.drift());
        drift.sum::<Option<i64>>().map(|drift| evidence.ledger.sum.saturating_add(drift))
    };
    let has_records = evidence.ledger.lists_users();
    let is_known = drifting.iter().all(|mismatch| mismatch.drift().is_some());
    if drifting.is_empty() || drifts(&|_| true) == Some(sold) {
        Explained::ByCounters
    } else if evidence.ledger.sum == sold && (is_known || has_records) {
        Explained::ByLedger
    } else if has_records {
        Explained::ByRecords
    } else if drifting.iter().any(|mismatch| is_evicted(mismatch))
        && drifts(&|mismatch| !is_evicted(mismatch)) == Some(sold)
    {
        Explained::ByEviction
    } else {
        Explained::Unclear
    }
}

/// Whether the ledger knows the user, and the participants don't.
pub(super) fn is_evicted(mismatch: &Mismatch) -> bool {
    mismatch.holds == Holding::Units(0) && mismatch.ledger.is_some_and(|ledger| ledger > 0)
}
