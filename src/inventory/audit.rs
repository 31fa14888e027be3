//! The judgement of an audit: from the evidence to what differs, the verdict and its proof.

use std::collections::HashMap;

use super::drift::{Audit, Class, Difference, Held, MissingOrder, Proof, Verdict};
use super::evidence::{Facts, Finding, Holding, limit, signed};
use super::id::StoredUser;
use super::layout::Kind;
use super::plan::{self, Plan};
use super::repair::Repair;

/// What is done about units that no order record has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MissingOrders {
    /// They are among the repairs, which give them back.
    Repair,
    /// They are delivered again, so they are no repairs.
    Emit,
}

/// Says what the facts mean.
pub fn judge(mut facts: Facts, missing_orders: MissingOrders) -> Audit {
    if facts.kind == Kind::Counter {
        let differs = counter(&mut facts);
        facts.findings.extend(differs);
    }
    let (total, stock, bought) = (facts.total(), facts.stock(), facts.bought());
    let expected = total.zip(bought).map(|(total, bought)| signed(total).saturating_sub(bought));
    let drift = stock.zip(expected).map(|(stock, expected)| signed(stock).saturating_sub(expected));

    let mut differences = Vec::new();
    whole(&mut facts, drift, &mut differences);
    let unrecorded = unrecorded(&facts);
    differences.extend(unrecorded.clone());
    let limit = limit(facts.kind, facts.rules());
    for finding in &facts.findings {
        of_user(finding, &facts, limit, &mut differences);
    }
    differences.sort_by(|one, other| (one.class, &one.user).cmp(&(other.class, &other.user)));

    let proof = proof(&facts, bought);
    let verdict = match (&facts.end, &facts.corrupt) {
        (None, None) => Verdict::NotPreheated,
        _ if differences.iter().any(|difference| difference.class != Class::Timing) => Verdict::Drift,
        _ if !facts.settled || facts.book.orders_too_old() => Verdict::Unsettled,
        _ if proof == Proof::None => Verdict::Unproven,
        _ => Verdict::Match,
    };
    let is_unrecorded = unrecorded.iter().any(|difference| difference.class == Class::MissingOrder);
    let plan = plan::plan(&facts, is_unrecorded, missing_orders);
    ways_out(&mut facts, &plan, &differences);
    Audit {
        plan,
        missing_orders: missing(&facts),
        activity: facts.activity,
        verdict,
        proof,
        total,
        stock,
        bought,
        expected_stock: expected,
        drift,
        differences,
        notes: facts.notes,
    }
}

/// Notes what an operator must know before a repair, or can do instead of one.
fn ways_out(facts: &mut Facts, plan: &Plan, differences: &[Difference]) {
    if facts.corrupt.is_none() && facts.end.is_some() && facts.stock().is_none() {
        let restores = plan.repairs.iter().any(Repair::restores_stock);
        let why = "its stock key is gone, and nothing proves how many units are left";
        facts.notes.push(match (restores, facts.kind) {
            (true, _) => "its stock key is gone: `reconcile --fix` restores it".to_owned(),
            (_, Kind::Counter) => format!("{why}: compare it with all order records (`--orders`)"),
            _ => {
                format!("{why}: compare it with all order records (`--orders`), or take it over with `preheat --adopt`")
            }
        });
    }
    let is_older = |difference: &Difference| matches!(difference.class, Class::MissingOrder | Class::QuantityMismatch);
    if !facts.by_ledger && differences.iter().any(is_older) {
        facts.notes.push(
            "no whole ledger tells which purchases are newer than the order records: they look like missing orders too"
                .to_owned(),
        );
    }
}

/// What a verdict about these facts rests on.
fn proof(facts: &Facts, bought: Option<i64>) -> Proof {
    let is_known = facts.kind.has_users() && bought.is_some() && facts.total().is_some() && facts.stock().is_some();
    if !facts.settled || facts.corrupt.is_some() {
        Proof::None
    } else if facts.by_ledger {
        Proof::Ledger
    } else if facts.book.has_orders() && !facts.book.is_unrecorded() {
        Proof::Orders
    } else if is_known {
        Proof::Total
    } else {
        Proof::None
    }
}

/// What a bare counter sold, as if it were one user; `None` if order records and ledger say the same.
fn counter(facts: &mut Facts) -> Option<Finding> {
    let nobody = facts.book.user(b"");
    let sold = facts.sold().and_then(|sold| u64::try_from(sold).ok())?;
    let ledger = facts.by_ledger.then(|| facts.book.units(nobody)).filter(|ledger| *ledger != signed(sold));
    let (orders, newer) = (facts.book.ordered(nobody), facts.book.newer(nobody));
    let finding = Finding { user: nobody, holds: Holding::Units(sold), ledger, orders, newer };
    let agrees = finding.against_orders().is_none() && finding.drift().is_none_or(|drift| drift == 0);
    (!agrees).then_some(finding)
}

/// What is wrong with the activity as a whole.
fn whole(facts: &mut Facts, drift: Option<i64>, differences: &mut Vec<Difference>) {
    let mut say = |class, redis, ledger, orders| {
        differences.push(Difference { user: None, class, redis, ledger, orders, count: None })
    };
    for (id, why) in &facts.book.unreadable {
        say(Class::Corrupt, Some(Held::Text(id.to_string())), None, None);
        facts.notes.push(format!("ledger entry `{id}` cannot be read: {why}"));
    }
    if let Some(corrupt) = &facts.corrupt {
        say(Class::Corrupt, Some(Held::Text(corrupt.key.clone())), None, None);
        facts.notes.push(format!("key `{}` {}", corrupt.key, corrupt.what));
        return;
    }
    let Some(instant) = &facts.end else { return };
    // Of a bare counter, records that agree with the stock say that only the ledger differs.
    let only_ledger = facts.kind == Kind::Counter && facts.findings.iter().any(ledger_alone_differs);
    let off = drift.is_some_and(|drift| drift != 0) || instant.stock > facts.total().or(instant.stock);
    if instant.stock.is_none() || facts.settled && (off && !only_ledger || facts.totals_differ()) {
        let by_ledger =
            facts.by_ledger.then(|| Held::Units(signed(facts.book.total.unwrap_or_default()) - facts.book.sum));
        say(Class::Conservation, instant.stock.map(|stock| Held::Units(signed(stock))), by_ledger, None);
    }
    if let Some(named) = facts.newest_named.filter(|_| facts.lost_tail()) {
        let last = instant.last.map(|last| Held::Text(last.to_string()));
        say(Class::LostTail, None, last, Some(Held::Text(named.to_string())));
        facts.notes.push(format!(
            "order records name ledger entries up to `{named}`, and the ledger ends before: was there a failover?"
        ));
    }
}

/// Whether the order records agree with Redis, and the ledger does not.
pub fn ledger_alone_differs(finding: &Finding) -> bool {
    let is_recorded = finding.orders.is_some() && finding.against_orders().is_none_or(|class| class == Class::Timing);
    is_recorded && finding.drift().is_some_and(|drift| drift != 0)
}

/// Of an activity that the order records don't mention: its users in one difference, and those who are newer than the
/// records in another.
fn unrecorded(facts: &Facts) -> Vec<Difference> {
    if !facts.settled || !facts.book.is_unrecorded() || !facts.book.has_orders() {
        return Vec::new();
    }
    let difference = |class, count, redis| Difference {
        user: None,
        class,
        redis,
        ledger: facts.by_ledger.then_some(Held::Units(facts.book.sum)),
        orders: Some(Held::Units(0)),
        count,
    };
    if facts.kind == Kind::Counter {
        let class = facts.findings.iter().find_map(Finding::against_orders);
        return class.map(|class| difference(class, None, facts.sold().map(Held::Units))).into_iter().collect();
    }
    if !facts.by_ledger {
        let units = facts.bought().map(Held::Units);
        let missing = difference(Class::MissingOrder, Some(facts.held.users), units);
        return if facts.held.users == 0 { Vec::new() } else { vec![missing] };
    }
    // Whoever is not among the findings holds what the ledger says.
    let holdings: HashMap<u32, &Holding> =
        facts.findings.iter().map(|finding| (finding.user, &finding.holds)).collect();
    let mut missing = (0, Some(0i64));
    let mut newer = (0, Some(0i64));
    for user in facts.book.everybody() {
        let ledger = facts.book.units(user);
        let by_ledger = match facts.book.is_unknown(user) {
            true => Holding::Unknown,
            false => Holding::Units(u64::try_from(ledger).unwrap_or(0)),
        };
        let holds = holdings.get(&user).map_or(by_ledger, |&holds| holds.clone());
        let finding = Finding { user, holds, ledger: Some(ledger), orders: Some(0), newer: facts.book.newer(user) };
        let tally = match finding.against_orders() {
            None => continue,
            Some(Class::Timing) => &mut newer,
            Some(_) => &mut missing,
        };
        *tally = (tally.0 + 1, tally.1.zip(finding.units()).map(|(sum, units)| sum.saturating_add(units)));
    }
    [(Class::MissingOrder, missing), (Class::Timing, newer)]
        .into_iter()
        .filter(|(_, (count, _))| *count > 0)
        .map(|(class, (count, units))| difference(class, Some(count), units.map(Held::Units)))
        .collect()
}

/// What is wrong with one user.
fn of_user(finding: &Finding, facts: &Facts, limit: Option<u64>, differences: &mut Vec<Difference>) {
    let mut say = |class, redis| {
        let name = facts.book.users.name(finding.user);
        let user = facts.kind.has_users().then(|| StoredUser::new(name));
        let (ledger, orders) = (finding.ledger.map(Held::Units), finding.orders.map(Held::Units));
        differences.push(Difference { user, class, redis, ledger, orders, count: None });
    };
    let held = match &finding.holds {
        Holding::Units(units) => Some(Held::Units(signed(*units))),
        Holding::Unknown => None,
        Holding::Invalid(text) => return say(Class::Corrupt, Some(Held::Text(text.clone()))),
    };
    let is_counter = facts.kind == Kind::Counter;
    let drifts = finding.ledger.is_some() && finding.drift() != Some(0);
    if if is_counter { ledger_alone_differs(finding) } else { drifts } {
        say(Class::CounterDrift, held.clone());
    }
    if let (Holding::Units(units), Some(limit)) = (&finding.holds, limit)
        && *units > limit
    {
        say(Class::OverLimit, held.clone());
    }
    // A changing scan compared with order records would show differences that are none.
    if let Some(class) = finding.against_orders().filter(|_| facts.settled && !facts.book.is_unrecorded()) {
        say(class, held);
    }
}

/// The order rows that would complete the order records: what each user's rows lack.
fn missing(facts: &Facts) -> Vec<MissingOrder> {
    if !facts.settled || facts.book.orders_too_old() {
        return Vec::new();
    }
    let lacks = |finding: &Finding| {
        let is_missing = matches!(finding.against_orders(), Some(Class::MissingOrder | Class::QuantityMismatch));
        let lacking = finding.units()?.saturating_sub(finding.ordered_now()?);
        let is_missing = is_missing && finding.orders >= Some(0);
        let quantity = u64::try_from(lacking).ok().filter(|quantity| is_missing && *quantity > 0)?;
        let name = facts.book.users.name(finding.user);
        Some(MissingOrder { user: facts.kind.has_users().then(|| StoredUser::new(name)), quantity })
    };
    // Of an activity without any row, only if it was named.
    let listed = facts.findings.iter().filter(|_| facts.book.lists_users());
    listed.filter_map(lacks).collect()
}
