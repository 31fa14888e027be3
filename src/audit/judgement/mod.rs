//! The judgement of an audit: from the evidence to what differs, the verdict and its proof.

pub(crate) mod sharded;

use std::collections::HashMap;

use crate::audit::class::Class;
use crate::audit::evidence::mismatch::{Holding, Mismatch};
use crate::audit::evidence::{Evidence, limit};
use crate::audit::ledger_state::order_parts::SplitOrder;
use crate::audit::plan::repair::Repair;
use crate::audit::plan::{self, MissingOrders, RepairPlan};
use crate::audit::result::{Audit, Difference, MissingOrder, Proof, RecordedUnits, Verdict};
use crate::model::number::signed;
use crate::model::{HoldState, Kind, State, StoredUser};

/// Says what the evidence means.
pub fn judge(mut evidence: Evidence, missing_orders: MissingOrders) -> Audit {
    if evidence.kind == Kind::Counter {
        let differs = bare_counter_mismatch(&mut evidence);
        evidence.mismatches.extend(differs);
    }
    let (total, stock, bought) = (evidence.total(), evidence.stock(), evidence.bought());
    let bought = bought.filter(|_| !evidence.is_torn);
    let expected = total.zip(bought).map(|(total, bought)| signed(total).saturating_sub(bought));
    let drift = stock.zip(expected).map(|(stock, expected)| signed(stock).saturating_sub(expected));

    let mut differences = Vec::new();
    of_activity(&mut evidence, drift, &mut differences);
    let unrecorded = unrecorded(&evidence);
    differences.extend(unrecorded.clone());
    open_counts(&mut evidence, &mut differences);
    split_orders(&mut evidence, &mut differences);
    let limit = limit(evidence.kind, evidence.meta());
    for mismatch in &evidence.mismatches {
        of_user(mismatch, &evidence, limit, &mut differences);
    }
    differences.sort_by(|one, other| (one.class, &one.user).cmp(&(other.class, &other.user)));

    let proof = proof(&evidence, bought);
    let verdict = match (&evidence.end, &evidence.corrupt) {
        (None, None) => Verdict::NotPreheated,
        _ if differences.iter().any(|difference| difference.class != Class::Timing) => Verdict::Drift,
        _ if !evidence.settled || evidence.ledger.orders_too_old.is_some() => Verdict::Unsettled,
        _ if proof == Proof::None => Verdict::Unproven,
        _ => Verdict::Match,
    };
    let is_unrecorded = unrecorded.iter().any(|difference| difference.class == Class::MissingOrder);
    let plan = plan::plan(&evidence, is_unrecorded, missing_orders);
    ways_out(&mut evidence, &plan, &differences);
    Audit {
        plan,
        missing_orders: missing(&evidence),
        activity: evidence.activity,
        verdict,
        proof,
        total,
        stock,
        bought,
        expected_stock: expected,
        drift,
        in_transit: None,
        differences,
        records_are_older: evidence.ledger.preheat_behind_orders().is_some(),
        notes: evidence.notes,
    }
}

/// Notes what an operator must know before a repair, or can do instead of one.
fn ways_out(evidence: &mut Evidence, plan: &RepairPlan, differences: &[Difference]) {
    if evidence.corrupt.is_none() && evidence.end.is_some() && evidence.stock().is_none() && !evidence.is_starting() {
        let restores = plan.repairs.iter().any(Repair::restores_stock);
        let why = "its stock key is gone, and nothing proves how many units are left";
        let has_no_users = evidence.end.as_ref().is_some_and(|end| end.buyers == Some(0));
        evidence.notes.push(match (restores, evidence.kind) {
            (true, _) => "its stock key is gone: `--fix` restores it".to_owned(),
            // Records are not compared without a ledger's beginning, and no adoption knows what a counter sold.
            (_, Kind::Counter) if !evidence.by_ledger && evidence.meta().is_some_and(|meta| meta.ledger) => {
                "its stock key is gone: `SET` it by hand to the total without what was sold and what is withdrawn, then `preheat --adopt \
                 --total N`"
                    .to_owned()
            }
            // Without them nothing is taken over, and without a ledger's beginning no records are compared.
            _ if has_no_users && !evidence.by_ledger && evidence.meta().is_some_and(|meta| meta.ledger) => {
                format!("{why}: {}", plan::START_OVER)
            }
            // A sale with a whole ledger is not taken over either.
            (_, kind) if kind == Kind::Counter || evidence.by_ledger || has_no_users => {
                format!("{why}: compare it with all order records (`--orders`)")
            }
            _ => {
                format!("{why}: compare it with all order records (`--orders`), or take it over with `preheat --adopt`")
            }
        });
    }
    if let Some(began) = evidence.ledger.preheat_behind_orders().filter(|_| !plan.repairs.is_empty()) {
        evidence.notes.push(format!(
            "its sale began at {}, and the order records are older: a repair gives the units of their rows to this sale",
            began.at().to_second()
        ));
    }
    let end = evidence.end.as_ref().filter(|end| end.lost_users.is_some() && plan.repairs.len() > Repair::AT_ONCE);
    if end.is_some_and(|end| end.meta.as_ref().is_some_and(|meta| meta.state(end.at) == State::Live)) {
        let most = Repair::AT_ONCE;
        evidence.notes.push(format!(
            "all its users were lost, and a call brings {most} of them back: `pause` it before `--fix`, or others may buy again meanwhile"
        ));
    }
    let is_older = |difference: &Difference| matches!(difference.class, Class::MissingOrder | Class::QuantityMismatch);
    if !evidence.by_ledger && differences.iter().any(is_older) {
        evidence.notes.push(
            "no whole ledger shows which purchases are newer than the order records: they look like missing orders too"
                .to_owned(),
        );
    }
}

/// What a verdict about this evidence rests on.
fn proof(evidence: &Evidence, bought: Option<i64>) -> Proof {
    let is_known =
        evidence.kind.has_users() && bought.is_some() && evidence.total().is_some() && evidence.stock().is_some();
    if !evidence.settled || evidence.corrupt.is_some() {
        Proof::None
    } else if evidence.by_ledger {
        Proof::Ledger
    } else if evidence.ledger.has_orders() && !evidence.ledger.is_unrecorded() {
        Proof::Orders
    } else if is_known {
        Proof::Total
    } else {
        Proof::None
    }
}

/// What a bare counter sold, as if it were one user; `None` if order records and ledger say the same.
pub(crate) fn bare_counter_mismatch(evidence: &mut Evidence) -> Option<Mismatch> {
    let nobody = evidence.ledger.user(b"");
    // Of a stock key that is gone the ledger says it.
    let lost = || (evidence.by_ledger && evidence.stock().is_none()).then_some(evidence.ledger.sum);
    let sold = evidence.sold().or_else(lost).and_then(|sold| u64::try_from(sold).ok())?;
    let ledger = evidence.by_ledger.then(|| evidence.ledger.units(nobody)).filter(|ledger| *ledger != signed(sold));
    let (orders, newer) = (evidence.ledger.ordered(nobody), evidence.ledger.newer(nobody));
    let mismatch = Mismatch { user: nobody, holds: Holding::Units(sold), ledger, orders, newer, open: 0 };
    let agrees = mismatch.against_orders().is_none() && mismatch.drift().is_none_or(|drift| drift == 0);
    (!agrees).then_some(mismatch)
}

/// What is wrong with the activity as a whole.
fn of_activity(evidence: &mut Evidence, drift: Option<i64>, differences: &mut Vec<Difference>) {
    let mut say =
        |class, redis, ledger, orders| differences.push(Difference { orders, ..Difference::of(class, redis, ledger) });
    for (id, why) in &evidence.ledger.unreadable {
        say(Class::Corrupt, Some(RecordedUnits::Text(id.to_string())), None, None);
        evidence.notes.push(format!("ledger entry `{id}` cannot be read: {why}"));
    }
    if let Some(corrupt) = &evidence.corrupt {
        say(Class::Corrupt, Some(RecordedUnits::Text(corrupt.key.clone())), None, None);
        evidence.notes.push(format!("key `{}` {}", corrupt.key, corrupt.what));
        return;
    }
    let Some(instant) = &evidence.end else { return };
    // Of a bare counter, records that agree with the stock say that only the ledger differs.
    let only_ledger = evidence.kind == Kind::Counter && evidence.mismatches.iter().any(Mismatch::is_of_ledger_alone);
    let off = drift.is_some_and(|drift| drift != 0) || instant.stock > evidence.total().or(instant.stock);
    let has_excess_stock = evidence.settled && evidence.has_excess_stock();
    if has_excess_stock {
        evidence.notes.push(
            "more units are left than there can be beside users whose units nobody recorded: each of them has at least one"
                .to_owned(),
        );
    }
    if instant.stock.is_none() && !evidence.is_starting()
        || evidence.settled && (off && !only_ledger || evidence.totals_differ())
        || has_excess_stock
    {
        let by_ledger = evidence.by_ledger.then(|| {
            RecordedUnits::Units(signed(evidence.ledger.total.unwrap_or_default()).saturating_sub(evidence.ledger.sum))
        });
        say(Class::Conservation, instant.stock.map(|stock| RecordedUnits::Units(signed(stock))), by_ledger, None);
    }
    if let Some(named) = evidence.ledger.newest_named().filter(|_| evidence.lost_tail()) {
        let last = instant.ledger_last.map(|last| RecordedUnits::Text(last.to_string()));
        say(Class::LostTail, None, last, Some(RecordedUnits::Text(named.to_string())));
        evidence.notes.push(format!(
            "order records name ledger entries up to `{named}`, and the ledger ends before: was there a failover?"
        ));
    }
}

/// What is counted wrong of what is held open.
fn open_counts(evidence: &mut Evidence, differences: &mut Vec<Difference>) {
    let mut say = |user, class, redis, ledger| {
        differences.push(Difference { user, ..Difference::of(class, redis, ledger) });
    };
    if let Some(corrupt) = &evidence.damaged_hold {
        say(None, Class::Corrupt, Some(RecordedUnits::Text(corrupt.key.clone())), None);
        evidence
            .notes
            .push(format!("the units held open could not be counted: a hold in `{}` {}", corrupt.key, corrupt.what));
    }
    let Some(open) = &evidence.open else { return };
    let units = |units| Some(RecordedUnits::Units(signed(units)));
    if open.is_partial {
        return say(None, Class::OpenCount, units(open.stored), None);
    }
    if open.found() != open.counted {
        say(None, Class::OpenCount, units(open.found()), units(open.counted));
    }
    for (user, stored, counted) in open.wrong_users() {
        let stored = stored.map_or_else(|| Some(RecordedUnits::Text("no number".to_owned())), units);
        say(Some(user.clone()), Class::OpenCount, stored, units(*counted));
    }
    if open.undated > 0 {
        evidence.notes.push(format!(
            "units of open holds without a deadline: {}; `expire` does not find them: another program removed it; `reconcile --fix` \
             restores it",
            open.undated
        ));
    }
    let what = match open.stored == open.counted {
        true if open.wrong_users().next().is_none() => return,
        true => "units held open by users are counted wrong".to_owned(),
        false => format!("units held open: {} are counted, its holds have {}", open.stored, open.counted),
    };
    evidence.notes.push(format!("{what}: another program changed them; `reconcile --fix` counts them anew"));
}

/// Orders that are bought in part.
fn split_orders(evidence: &mut Evidence, differences: &mut Vec<Difference>) {
    let text = |of: &dyn std::fmt::Display, state: &str| Some(RecordedUnits::Text(format!("{of}: {state}")));
    for SplitOrder { request, user, is_bought, other, state } in &evidence.split_orders {
        let here = if *is_bought { HoldState::Confirmed.name() } else { "returned" };
        let there = state.map_or("absent", HoldState::name);
        evidence.notes.push(format!(
            "the order `{request}` of user `{user}` is split: its item is {here} here, and {there} at `{other}`: a failover or a \
             reset lost a part of it; sell what is missing, or refund what is bought, by hand"
        ));
        let (redis, ledger) = (text(other, there), text(request, here));
        let (user, class) = (Some(user.clone()), Class::SplitOrder);
        differences.push(Difference { user, ..Difference::of(class, redis, ledger) });
    }
}

/// Of an activity that the order records don't mention: its users in one difference, and those who are newer than the
/// records in another.
fn unrecorded(evidence: &Evidence) -> Vec<Difference> {
    if !evidence.settled || !evidence.ledger.is_unrecorded() || !evidence.ledger.has_orders() {
        return Vec::new();
    }
    let difference = |class, count, units: [Option<i64>; 2]| {
        let [redis, ledger] = units.map(|units| units.map(RecordedUnits::Units));
        Difference { orders: Some(RecordedUnits::Units(0)), count, ..Difference::of(class, redis, ledger) }
    };
    if evidence.kind == Kind::Counter {
        let class = evidence.mismatches.iter().find_map(Mismatch::against_orders);
        let ledger = evidence.by_ledger.then_some(evidence.ledger.sum);
        return class.map(|class| difference(class, None, [evidence.sold(), ledger])).into_iter().collect();
    }
    if !evidence.by_ledger {
        let missing = difference(Class::MissingOrder, Some(evidence.held.users), [evidence.bought(), None]);
        return if evidence.held.users == 0 { Vec::new() } else { vec![missing] };
    }
    // A user who is not among the mismatches holds what the ledger says.
    let holdings: HashMap<u32, &Holding> =
        evidence.mismatches.iter().map(|mismatch| (mismatch.user, &mismatch.holds)).collect();
    let mut missing = (0, [Some(0i64); 2]);
    let mut newer = missing;
    for user in evidence.ledger.everybody() {
        let holds = holdings.get(&user).map_or_else(|| evidence.ledger.holding(user), |&holds| holds.clone());
        let mismatch = evidence.ledger.compare(user, holds, true, Some(0));
        let tally = match mismatch.against_orders() {
            None => continue,
            Some(Class::Timing) => &mut newer,
            Some(_) => &mut missing,
        };
        tally.0 += 1;
        for (sum, units) in tally.1.iter_mut().zip([mismatch.units(), mismatch.ledger]) {
            *sum = sum.zip(units).map(|(sum, units)| sum.saturating_add(units));
        }
    }
    [(Class::MissingOrder, missing), (Class::Timing, newer)]
        .into_iter()
        .filter(|(_, (count, _))| *count > 0)
        .map(|(class, (count, units))| difference(class, Some(count), units))
        .collect()
}

/// What is wrong with one user.
fn of_user(mismatch: &Mismatch, evidence: &Evidence, limit: Option<u64>, differences: &mut Vec<Difference>) {
    let mut say = |class, redis| {
        let name = evidence.ledger.users.name(mismatch.user);
        let user = evidence.kind.has_users().then(|| StoredUser::new(name));
        let (ledger, orders) = (mismatch.ledger.map(RecordedUnits::Units), mismatch.orders.map(RecordedUnits::Units));
        differences.push(Difference { user, orders, ..Difference::of(class, redis, ledger) });
    };
    let held = match &mismatch.holds {
        Holding::Units(units) => Some(RecordedUnits::Units(signed(*units))),
        Holding::Unknown => None,
        Holding::Invalid(text) => return say(Class::Corrupt, Some(RecordedUnits::Text(text.clone()))),
    };
    let is_counter = evidence.kind == Kind::Counter;
    if if is_counter { mismatch.is_of_ledger_alone() } else { mismatch.drifts() } {
        say(Class::CounterDrift, held.clone());
    }
    if let (Holding::Units(units), Some(limit)) = (&mismatch.holds, limit)
        && *units > limit
    {
        say(Class::OverLimit, held.clone());
    }
    // A changing scan compared with order records would show differences that are none.
    if let Some(class) = mismatch.against_orders().filter(|_| evidence.settled && !evidence.ledger.is_unrecorded()) {
        say(class, held);
    }
}

/// The order rows that would complete the order records: what each user's rows lack.
fn missing(evidence: &Evidence) -> Vec<MissingOrder> {
    if !evidence.settled || evidence.ledger.orders_too_old.is_some() {
        return Vec::new();
    }
    let lacks = |mismatch: &Mismatch| {
        let is_missing = matches!(mismatch.against_orders(), Some(Class::MissingOrder | Class::QuantityMismatch));
        let lacking = mismatch.units()?.saturating_sub(mismatch.ordered_now()?);
        let is_missing = is_missing && mismatch.orders >= Some(0);
        let quantity = u64::try_from(lacking).ok().filter(|quantity| is_missing && *quantity > 0)?;
        let name = evidence.ledger.users.name(mismatch.user);
        Some(MissingOrder { user: evidence.kind.has_users().then(|| StoredUser::new(name)), quantity })
    };
    // Of an activity without any row, only if it was named.
    let listed = evidence.mismatches.iter().filter(|_| evidence.ledger.lists_users());
    listed.filter_map(lacks).collect()
}
