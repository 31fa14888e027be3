//! Audits and repairs of a history: the real ones, over a socket to the simulated server.

use seckill::internals::{Compared, EntryId, Interner, OrderRows, OrderSums, Repair};
use seckill::{Audit, Class, Difference, Layout, Millis, MissingOrders, Verdict, judge};

use super::calls::Activity;
use super::history::History;
use super::oracle::{Broken, Found, Heard, Oracle, Order, broken};
use super::random::Random;
use super::server;

/// How often an audit and its repairs are repeated until nothing differs.
const ROUNDS: usize = 5;

/// Audits an activity and repairs what differs. The repair may be cut.
pub fn repair(history: &mut History<'_>, activity: usize, with_records: bool) -> Result<(), Broken> {
    // An audit of a sale in which somebody bought within the last second goes slowly, by the real clock.
    history.advance(1500);
    let cut = history.cut();
    audit(history, activity, with_records, cut).map(drop)
}

fn audit(history: &mut History<'_>, activity: usize, with_records: bool, cut: Option<u32>) -> Result<Audit, Broken> {
    let found = &history.activities[activity];
    let (id, layout) = (found.id.clone(), found.layout);
    let mut store = server::store(&history.engine, layout);
    let now = history.now();
    let History { oracle, random, activities, .. } = history;
    let compared = with_records.then(|| records(oracle, random, activity, &activities[activity], now));
    let evidence = match seckill::audit(&mut store, &id, None, compared) {
        Ok(evidence) => evidence,
        Err(error) => return broken("an audit says something", error.to_string()),
    };
    let audit = judge(evidence, MissingOrders::Repair);
    let kind = if with_records { "with records" } else { "without records" };
    history.tell(|| format!("    audit of {id} {kind}: {}", shown(&audit)));
    // Records that lack a refund nobody heard of may raise a user past the limit.
    let drifts = audit.differences.iter().any(|difference| difference.class != Class::OverLimit);
    if !with_records && !history.was_cut && audit.verdict == Verdict::Drift && drifts {
        return broken("nothing drifts without a fault", format!("{:?}", audit.differences));
    }
    let repairs: Vec<&Repair> = audit.plan.repairs.iter().collect();
    if repairs.is_empty() {
        return Ok(audit);
    }
    note_reversals(&mut history.oracle, activity, &repairs);
    if with_records && layout == Layout::Product && repairs.iter().any(|repair| repair.stock_change > 0) {
        // A counter records nobody whose request ids could end.
        let of_activity = history.oracle.orders.iter_mut().filter(|order| order.is_in(activity));
        of_activity.for_each(|order| order.may_be_void |= order.heard != Heard::Bought);
    }
    history.engine.server.borrow_mut().cut_after = cut;
    let repaired = seckill::internals::repair(&mut store, &id, &repairs, false, None);
    history.was_cut |= repaired.is_err();
    history.engine.server.borrow_mut().cut_after = None;
    history.tell(|| format!("    repair {:?}: {repaired:?}", shown_repairs(&repairs)));
    Ok(audit)
}

pub fn shown(audit: &Audit) -> String {
    let of_user = |found: &Difference| {
        let user = found.user.as_ref().map(ToString::to_string).unwrap_or_default();
        format!("{} {user}", found.class.name())
    };
    let differences: Vec<String> = audit.differences.iter().map(of_user).collect();
    format!("{} {differences:?}", audit.verdict.name())
}

pub fn shown_repairs(repairs: &[&Repair]) -> Vec<String> {
    let shown = |repair: &&Repair| {
        let user = repair.user.as_ref().map(ToString::to_string).unwrap_or_default();
        format!("{} {user} {:?} -> {}, stock {:+}", repair.class.name(), repair.from, repair.to, repair.stock_change)
    };
    repairs.iter().map(shown).collect()
}

/// Whatever a user ordered that order records, or the ledger, do not have may be reversed now.
pub fn note_reversals(oracle: &mut Oracle, activity: usize, repairs: &[&Repair]) {
    let takes = |repair: &&&Repair| {
        let is_lowered = repair.user.is_none() || repair.from.is_some_and(|from| from > repair.to);
        is_lowered || !repair.reversed().is_empty()
    };
    for repair in repairs.iter().filter(takes) {
        // A counter records nobody: there the repair itself says which ids end.
        let is_concerned = |order: &&mut Order| match &repair.user {
            Some(user) => order.user == user.as_bytes(),
            None => repair.reversed().contains(&order.request),
        };
        for order in oracle.orders.iter_mut().filter(is_concerned).filter(|order| order.is_in(activity)) {
            order.may_be_reversed |= order.heard != Heard::Bought;
        }
    }
}

/// True order records: all that is bought for certain, refunds that were answered, and maybe what is held open. Who does not know
/// whether a hold was confirmed has no record of it.
pub fn records(oracle: &mut Oracle, random: &mut Random, number: usize, activity: &Activity, now: u64) -> Compared {
    compared(&record_rows(oracle, random, number, activity, now), now)
}

/// Users, units and request ids of order records.
pub type Rows = Vec<(String, i64, String)>;

/// The same rows as an audit reads them, exported at that time, Unix ms.
pub fn compared(rows: &Rows, now: u64) -> Compared {
    let mut read = OrderRows::default();
    for (user, units, request) in rows {
        read.push(user, *units, None);
        read.name_request(request);
    }
    let (mut users, mut orders) = (Interner::default(), OrderSums::default());
    orders.add(&read, &mut users);
    let newer_from = EntryId::first_at(Millis::new(now + 1));
    Compared { users, orders, unread: None, newer_from, named: true }
}

pub fn record_rows(oracle: &mut Oracle, random: &mut Random, number: usize, activity: &Activity, now: u64) -> Rows {
    let mut rows = Rows::new();
    let has_users = activity.layout.kind().has_users();
    let name = |user: &[u8]| match has_users {
        true => String::from_utf8(user.to_vec()).expect("records are UTF-8"),
        false => String::new(),
    };
    for order in &mut oracle.orders {
        let (is_open, is_noted) = (matches!(order.heard, Heard::Held(_)) && order.is_certain(now), random.percent(50));
        if is_open && order.is_confirming {
            // It may have been confirmed, and then it is a purchase that nobody has a record of.
            order.heard = Heard::Nothing;
        }
        if order.heard == Heard::Bought || is_open && is_noted && !order.is_confirming {
            for (_, units) in order.items.iter().filter(|(of, _)| *of == number) {
                rows.push((name(&order.user), units.cast_signed(), order.request.clone()));
            }
        }
    }
    for refund in oracle.refunds.iter().filter(|refund| refund.activity == number && refund.heard == Heard::Ended) {
        rows.push((name(&refund.user), -refund.units.cast_signed(), refund.request.clone()));
    }
    rows
}

/// Whether a user gave back more than was bought: units of a call that was cut, that nobody heard of. Order records below zero
/// are for a human.
fn is_overdrawn(oracle: &Oracle, activity: usize) -> bool {
    oracle.bought(activity).values().any(|units| *units < 0)
}

/// Repairs all activities until nothing differs.
pub fn heal(history: &mut History<'_>) -> Result<(), Broken> {
    for activity in 0..history.activities.len() {
        let with_records = history.has_records();
        history.left_to_operator.remove(&activity);
        for round in 1.. {
            history.advance(1500);
            let audit = audit(history, activity, with_records, None)?;
            if audit.plan.kept.iter().any(|(_, _, why)| why.contains("`preheat --update` sets the total")) {
                // An update that was cut, and then another one that was refused. Only then is anything repaired.
                history.set_total_again(activity)?;
                if round < ROUNDS {
                    continue;
                }
            }
            match audit.verdict {
                Verdict::Match => break,
                // Without records, or users and a ledger, nothing proves it.
                Verdict::Unproven
                    if audit.differences.is_empty() && history.activities[activity].layout == Layout::Product =>
                {
                    break;
                }
                _ if !with_records && audit.plan.repairs.is_empty() => break,
                // Nor does a repair correct a ledger of it that is below zero: a purchase that was cut, and refunded.
                _ if history.activities[activity].layout == Layout::Product && audit.plan.repairs.is_empty() => {
                    history.left_to_operator.insert(activity);
                    break;
                }
                _ if is_overdrawn(&history.oracle, activity) && audit.plan.repairs.is_empty() => break,
                verdict if round == ROUNDS => {
                    let kept = &audit.plan.kept;
                    let what = format!("{verdict:?} {:?} {kept:?} {:?}", audit.differences, audit.notes);
                    return broken("repairs end", what);
                }
                _ => {}
            }
        }
        history.check()?;
    }
    Ok(())
}

/// Whether all units are bought, or for sale, and ledgers name what was answered.
pub fn end(history: &mut History<'_>) -> Result<(), Broken> {
    history.check()?;
    history.check_entries()?;
    if !history.has_records() {
        return Ok(());
    }
    let server = history.engine.server.borrow();
    for (number, activity) in history.activities.iter().enumerate() {
        let Some(found) = Found::read(activity, &server.keys)? else { continue };
        if is_overdrawn(&history.oracle, number) || history.left_to_operator.contains(&number) {
            continue;
        }
        let bought: i64 = history.oracle.bought(number).values().sum();
        if found.for_sale + bought != found.total {
            let what = format!("{}: {bought} bought and {} for sale of {}", activity.id, found.for_sale, found.total);
            return broken("nothing is lost", what);
        }
    }
    Ok(())
}
