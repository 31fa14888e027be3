//! Applies repairs: each only if everything still is as the audit found it. And makes up for the side that a transfer between shards
//! lacks: finishes one that is stuck, and lends what a failover lost.
//!
//! The steps of the latter are those of any transfer: lend, wait for a replica, borrow, wait for a replica, and then the donor may forget it.
//! The scripts write a record that they find once more, so that a wait covers it.

use std::collections::{HashSet, VecDeque};
use std::time::Duration;

use redis::Value;

use crate::audit::class::Class;
use crate::audit::evidence::Evidence;
use crate::audit::evidence::purchases::MAX_REVERSED;
use crate::audit::ledger_state::transfers::BrokenTransfer;
use crate::audit::plan::repair::{Audited, Repair, Repaired};
use crate::audit::read::participants::{NOBODY, read_instant};
use crate::error::{Result, StoreError};
use crate::model::id::{ActivityId, StoredUser};
use crate::model::ledger::{EntryId, Op};
use crate::model::number::signed;
use crate::model::order::hold::Recounted;
use crate::model::status::call_code::STALE;
use crate::model::status::{Status, call_code};
use crate::read::holds::recorded_holds;
use crate::read::ledger;
use crate::redis::call::Call;
use crate::redis::call::exchange::ReplicaWait;
use crate::script::keys::Keys;
use crate::script::reply::Reply;
use crate::script::{BORROW, LEND, REPAIR, Script};
use crate::sell::holds;
use crate::shards::borrower::{BorrowOutcome, BorrowRequest};
use crate::shards::transfer::{ShardFault, TransferContext, TransferRequest};
use crate::store::Store;

/// Divides repairs among calls, in their order: what a call may take of repairs, and of request ids that they end.
fn divide(order: &[usize], repairs: &[&Repair]) -> Vec<Vec<usize>> {
    let mut calls: Vec<Vec<usize>> = Vec::new();
    let mut ids = 0;
    for at in order {
        let more = repairs[*at].reversed().len();
        match calls.last_mut() {
            Some(call) if call.len() < Repair::AT_ONCE && ids + more <= MAX_REVERSED => call.push(*at),
            _ => {
                ids = 0;
                calls.push(vec![*at]);
            }
        }
        ids += more;
    }
    calls
}

/// How often what others may change meanwhile is tried: repairs that only raise the stock, and counts of open holds.
const TRIES: usize = 20;

/// Applies repairs of one activity and one audit, and returns the outcome of each. With `dry_run` nothing is written.
/// Those that raise the stock come last, and are `stale` unless all others were applied: otherwise more would be for
/// sale than is left.
///
/// # Errors
/// Any of `StoreError`; what cannot be repaired is among the answers.
pub fn repair(
    store: &mut Store,
    activity: &ActivityId,
    repairs: &[&Repair],
    dry_run: bool,
    reason: Option<&str>,
) -> Result<Vec<Repaired>> {
    // The script that knows holds counts them anew, before what is held open refuses anything.
    let (counts, units): (Vec<usize>, Vec<usize>) =
        (0..repairs.len()).partition(|at| repairs[*at].class == Class::OpenCount);
    let mut done = vec![Repaired::Stale; repairs.len()];
    for at in counts {
        done[at] = count_open(store, activity, dry_run)?;
    }
    let all_counted = done.iter().zip(repairs).all(|(done, repair)| repair.class != Class::OpenCount || done.is_done());
    let is_late = late_repairs(store, activity, repairs)?;
    let (late, units): (Vec<usize>, Vec<usize>) = units.into_iter().partition(|at| is_late[*at]);
    for chunk in divide(&late, repairs) {
        let rows: Vec<&Repair> = chunk.iter().map(|at| repairs[*at]).collect();
        for (at, answer) in chunk.into_iter().zip(repair_once(store, activity, &rows, None, None, reason)?) {
            done[at] = match answer {
                // That of a call whose reply was lost was applied nevertheless.
                Repaired::Replayed | Repaired::Stale | Repaired::NotPreheated | Repaired::Corrupt => answer,
                _ => Repaired::Changed,
            };
        }
    }
    let all_counted = all_counted && late.iter().all(|at| repairs[*at].raises_stock() || done[*at].is_done());
    let of_units: Vec<&Repair> = units.iter().map(|at| repairs[*at]).collect();
    let answers = repair_units(store, activity, &of_units, all_counted, dry_run, reason)?;
    units.into_iter().zip(answers).for_each(|(at, answer)| done[at] = answer);
    Ok(done)
}

/// Counts what is held open anew, by all holds that are found, twice. One that came since a search, and lost its deadline, is in no list:
/// then more is stored than was before, beyond what is counted or what has a deadline.
fn count_open(store: &mut Store, activity: &ActivityId, dry_run: bool) -> Result<Repaired> {
    let keys = store.keys(activity);
    let mut before = None;
    for _ in 0..TRIES {
        let found = recorded_holds(store, &keys, Evidence::MANY_HOLDS)?;
        let counts = match holds::recount(store, activity, Evidence::MANY_HOLDS, &found, before)? {
            Recounted::Counts(counts) => counts,
            Recounted::Corrupt(_) => return Ok(Repaired::Corrupt),
            Recounted::TooMany => return Ok(Repaired::Changed),
            Recounted::Gone => return Ok(Repaired::NotPreheated),
        };
        if counts.is_right() {
            return Ok(Repaired::Replayed);
        }
        if dry_run || before == Some(counts.surplus()) {
            return Ok(Repaired::Ok);
        }
        before = Some(counts.surplus());
    }
    Ok(Repaired::Changed)
}

/// Which repairs come too late for what is there: those that end orders of users who gave units back since the audit, or of anybody in a sale
/// without users, because who has as many units again has them by another order. All of them, if the audit's last entry is gone, because it
/// is another ledger; or if they restore a stock that is there again, or was moved since. If a trim removed the entry, those that end
/// orders, because nobody knows what came since. Without a ledger nothing says so.
fn late_repairs(store: &mut Store, activity: &ActivityId, repairs: &[&Repair]) -> Result<Vec<bool>> {
    let seen = repairs.iter().filter_map(|repair| repair.audited_entry.as_ref());
    let after = seen.filter_map(|entry| entry.parse::<EntryId>().ok()).min();
    let restores = repairs.iter().any(|repair| repair.restores_stock());
    if after.is_none() && !restores {
        return Ok(vec![false; repairs.len()]);
    }
    let view = read_instant(store, activity, NOBODY)?.0;
    let is_restored = restores && view.stock.is_some();
    let Some(after) = after.filter(|_| view.corrupt.is_none() && !is_restored) else {
        return Ok(vec![is_restored; repairs.len()]);
    };
    let was_trimmed = view.checkpoint().is_some_and(|checkpoint| after < checkpoint.from);
    let last = view.ledger_last.unwrap_or(after);
    let ends_orders = repairs.iter().any(|repair| repair.ends_orders());
    let (mut users, mut is_there, mut has_moved): (HashSet<Vec<u8>>, bool, bool) = (HashSet::new(), false, false);
    let key = store.keys(activity).ledger;
    ledger::each_entry_of(store, &key, after.previous(), last, |entry| {
        is_there |= entry.id == after;
        if entry.id > after && matches!(entry.known_op(), Some(Op::Refund | Op::Release | Op::Expire)) {
            users.extend(entry.rows().unwrap_or_default().iter().map(|row| row.user().to_vec()));
        }
        // The script counts repairs.
        has_moved |= entry.id > after && entry.known_op() != Some(Op::Repair) && entry.stock_change() != Some(0);
        is_there && (ends_orders || restores)
    })?;
    if restores && (has_moved || !is_there) {
        return Ok(vec![true; repairs.len()]);
    }
    let has_returned = |user: &Option<StoredUser>| match user {
        _ if !is_there => true,
        Some(user) => users.contains(user.as_bytes()),
        None => !users.is_empty(),
    };
    let is_late = |repair: &&Repair| match repair.ends_orders() {
        true => has_returned(&repair.user),
        false => !is_there && !was_trimmed,
    };
    Ok(repairs.iter().map(is_late).collect())
}

/// Applies repairs of units. `all_in_force`: whether those that must come before are.
fn repair_units(
    store: &mut Store,
    activity: &ActivityId,
    repairs: &[&Repair],
    mut all_in_force: bool,
    dry_run: bool,
    reason: Option<&str>,
) -> Result<Vec<Repaired>> {
    let mut order: Vec<usize> = (0..repairs.len()).collect();
    order.sort_by_key(|at| repairs[*at].raises_stock());
    let mut done = vec![Repaired::Stale; repairs.len()];
    // Each call raises the count of repairs by one, so the next expects one more.
    let mut calls = 0;
    let mut audited = repairs.iter().find_map(|repair| repair.audited());
    let mut queue: VecDeque<(Vec<usize>, bool)> =
        divide(&order, repairs).into_iter().map(|chunk| (chunk, false)).collect();
    while let Some((chunk, was_short)) = queue.pop_front() {
        if let Some(since) = audited {
            audited = since_audit(store, activity, since)?.or(audited);
        }
        let chunk: Vec<usize> = chunk.into_iter().filter(|at| all_in_force || !repairs[*at].raises_stock()).collect();
        if chunk.is_empty() {
            break;
        }
        let rows: Vec<&Repair> = chunk.iter().map(|at| repairs[*at]).collect();
        // A dry run raises nothing.
        let answers = repair_once(store, activity, &rows, audited, if dry_run { None } else { Some(calls) }, reason)?;
        calls += 1;
        for (at, answer) in chunk.iter().copied().zip(answers) {
            done[at] = answer;
            // Without a ledger nothing else says how the stock moved since.
            let unrecorded = audited.as_mut().filter(|since| since.last.is_none() && answer == Repaired::Ok);
            if let Some(since) = unrecorded {
                since.stock = since.stock.saturating_add_signed(repairs[at].stock_change);
            }
        }
        let with = |answer: Repaired| chunk.iter().copied().filter(|at| done[*at] == answer).collect::<Vec<_>>();
        let short = with(Repaired::OutOfStock);
        let quantity = short.iter().map(|at| repairs[*at].stock_change.unsigned_abs()).sum();
        if !short.is_empty() && !was_short {
            let borrowed = match borrow(store, activity, (&repairs[short[0]].id, quantity), dry_run) {
                // What is done already is shown, and the next audit meets the reason.
                Err(StoreError::NoUnits { .. }) if done.iter().any(|repaired| repaired.is_done()) => Repaired::Stale,
                borrowed => borrowed?,
            };
            if borrowed == Repaired::Ok && !dry_run {
                queue.push_front(([short, with(Repaired::Stale)].concat(), true));
                continue;
            }
            short.iter().for_each(|at| done[*at] = borrowed);
        }
        all_in_force &= chunk.iter().all(|at| repairs[*at].raises_stock() || done[*at].is_done());
    }
    // More was bought between our look and the call than the script follows: look again.
    for _ in 0..TRIES {
        let again = |at: &usize| done[*at] == Repaired::Changed && repairs[*at].audited_stock.is_some();
        let late: Vec<usize> = (0..repairs.len()).filter(again).collect();
        let Some(since) = audited.filter(|_| !late.is_empty() && all_in_force && !dry_run) else { break };
        audited = since_audit(store, activity, since)?;
        if audited.is_none() {
            break;
        }
        let chunk = divide(&late, repairs).swap_remove(0);
        let rows: Vec<&Repair> = chunk.iter().map(|at| repairs[*at]).collect();
        let answers = repair_once(store, activity, &rows, audited, Some(calls), reason)?;
        calls += 1;
        chunk.into_iter().zip(answers).for_each(|(at, answer)| done[at] = answer);
    }
    if !dry_run && done.iter().any(|repaired| repaired.is_done()) {
        store.changed(activity);
    }
    Ok(done)
}

/// Gets units from other shards for repairs that take more than their shard has; with `dry_run` only looks for them. `OutOfStock` if
/// there are too few, or it is no shard, and `Stale` if the user asks to stop.
fn borrow(store: &mut Store, shard: &ActivityId, wanted: (&str, u64), dry_run: bool) -> Result<Repaired> {
    const SHORT: Result<Repaired> = Ok(Repaired::OutOfStock);
    let Some((activity, number)) = shard.parent() else { return SHORT };
    let Some(shards) = store.shards_of(&activity)? else { return SHORT };
    let Some(home) = shards.numbers().iter().position(|known| *known == number) else { return SHORT };
    let place = (&activity, &shards, home);
    let request = BorrowRequest::new(&store.servers, place, wanted, &*store.stop);
    let sold_out = if dry_run {
        store.borrower.find_sold_out(&mut store.servers, &request)
    } else {
        let ended = store.borrower.borrow(&mut store.servers, &request);
        store.borrower.ack_transfers(&mut store.servers);
        ended.map(BorrowOutcome::sold_out)
    };
    match sold_out {
        Ok(None) => Ok(Repaired::Ok),
        Ok(Some(_)) => SHORT,
        Err(ShardFault::Stopped) => Ok(Repaired::Stale),
        Err(fault) => Err(fault.into_error(&activity)),
    }
}

/// What repairs that only raise the stock require now: the stock and the ledger's end of this instant, if the stock
/// moved since the audit exactly as the ledger says. `None` if it did not, or if nobody can say.
fn since_audit(store: &mut Store, activity: &ActivityId, audited: Audited) -> Result<Option<Audited>> {
    let Some(after) = audited.last else { return Ok(None) };
    let keys = store.keys(activity);
    let view = read_instant(store, activity, NOBODY)?.0;
    let (Some(stock), Some(last)) = (view.stock, view.ledger_last) else { return Ok(None) };
    // `None` without the audit's last entry, which a failover lost, and once an entry does not say how the stock moved.
    let (mut expected, mut end) = (None, None);
    ledger::each_entry_of(store, &keys.ledger, after.previous(), last, |entry| {
        end = Some(entry.id);
        expected = match entry.id == after {
            true => Some(signed(audited.stock)),
            false => expected.zip(entry.stock_change()).map(|(sum, change): (i64, i64)| sum.saturating_add(change)),
        };
        expected.is_some()
    })?;
    let is_explained = end == Some(last) && expected == Some(signed(stock));
    Ok(is_explained.then_some(Audited { stock, last: Some(last) }))
}

/// One call. `before` is how many calls of the same audit came before it; `None` of a dry run.
fn repair_once(
    store: &mut Store,
    activity: &ActivityId,
    repairs: &[&Repair],
    audited: Option<Audited>,
    before: Option<u64>,
    reason: Option<&str>,
) -> Result<Vec<Repaired>> {
    let keys = store.keys(activity);
    let text = |count: Option<u64>| count.map(|count| count.to_string()).unwrap_or_default();
    let first = repairs.first();
    let count = first.and_then(|repair| repair.repairs).map(|count| count + before.unwrap_or_default());
    let mut arguments = [
        store.kind(),
        store.operator.clone(),
        reason.unwrap_or_default().to_owned(),
        if before.is_none() { "1" } else { "0" }.to_owned(),
        text(first.and_then(|repair| repair.epoch)),
        text(count),
    ]
    .map(String::into_bytes)
    .to_vec();
    for repair in repairs {
        let user = repair.user.as_ref().map(StoredUser::as_bytes).unwrap_or_default();
        let from = repair.from.map_or_else(|| "?".to_owned(), |from| from.to_string());
        arguments.push(repair.id.clone().into_bytes());
        arguments.push(user.to_owned());
        arguments.extend([from, repair.to.to_string(), repair.stock_change.to_string()].map(String::into_bytes));
    }
    if repairs.iter().any(|repair| !repair.reversed().is_empty()) {
        let lines: Vec<String> = repairs.iter().map(|repair| repair.reversed().join("\t")).collect();
        arguments.push(lines.join("\n").into_bytes());
    }
    if let Some(audited) = audited {
        let last = audited.last.map(|last| last.to_string()).unwrap_or_default();
        arguments.extend([audited.stock.to_string(), last].map(String::into_bytes));
    }
    let call = Call::script(&REPAIR, keys.in_order(), arguments).repeatable();
    let value = store.servers.call(&call)?;
    read(value, repairs.len(), &keys)
}

/// Reads the script's reply: an answer for each repair of a call.
fn read(value: Value, count: usize, keys: &Keys) -> Result<Vec<Repaired>> {
    let reply = Reply::of(&REPAIR);
    let values = reply.array(value)?;
    let letters = match values.first() {
        // Without letters all of them are.
        Some(Value::Int(STALE)) => reply.text(values.get(3))?.unwrap_or_else(|| "t".repeat(count)),
        status => match reply.status(status)? {
            Status::Ok => reply.text(values.get(2))?.unwrap_or_default(),
            Status::NotPreheated => return Ok(vec![Repaired::NotPreheated; count]),
            Status::Corrupt => {
                // The audit names the key; here it matters only that nothing was done.
                reply.corrupt(&values, keys)?;
                return Ok(vec![Repaired::Corrupt; count]);
            }
            _ => return Err(reply.invalid(&values)),
        },
    };
    let answer = |letter| match letter {
        'o' => Ok(Repaired::Ok),
        'r' => Ok(Repaired::Replayed),
        'c' => Ok(Repaired::Changed),
        's' => Ok(Repaired::OutOfStock),
        'b' => Ok(Repaired::ExceedsBought),
        'x' => Ok(Repaired::ExceedsTotal),
        't' => Ok(Repaired::Stale),
        'q' => Ok(Repaired::RequestConflict),
        other => Err(reply.invalid(other)),
    };
    let answers: Vec<Repaired> = letters.chars().map(answer).collect::<Result<_, _>>()?;
    if answers.len() == count { Ok(answers) } else { Err(reply.invalid(letters)) }
}

/// How often a step is repeated that no replica has.
const TRANSFER_TRIES: usize = 3;

/// Repairs a transfer: a stuck one arrives at its home, an unbacked one is taken out of its donor, which borrows what it lacks.
///
/// # Errors
/// Any of `StoreError`; what cannot be repaired is among the answers.
pub fn repair_transfer(store: &mut Store, transfer: &BrokenTransfer) -> Result<Repaired> {
    let BrokenTransfer { class, id, donor, home, units, epoch } = transfer;
    let (Some((activity, donor_number)), Some((_, home_number))) = (donor.parent(), home.parent()) else {
        return Ok(Repaired::NotPreheated);
    };
    let by = store.operator.clone();
    let context = TransferContext::new(&store.servers, &by, &activity, *epoch);
    let need = if *class == Class::UnbackedTransfer { *units } else { 0 };
    let known = TransferRequest { id, donor: donor_number, home: home_number, need, want: 0, finished: &[] };
    let forget = context.lend_call(&TransferRequest { id: "", need: 0, finished: std::slice::from_ref(id), ..known });
    store.servers.look_for_replicas()?;
    let mut lent = call_shard(store, &LEND, context.lend_call(&known), context.patience)?;
    if need > 0 && lent.status == Some(Status::OutOfStock) && borrow(store, donor, (id, need), false)? == Repaired::Ok {
        lent = call_shard(store, &LEND, context.lend_call(&known), context.patience)?;
    }
    if !lent.status.is_some_and(Status::is_done) {
        return Ok(refused(lent.status));
    }
    let Some(lent_units) = lent.units else { return Ok(Repaired::Corrupt) };
    store.changed(donor);
    if lent_units != *units {
        return Ok(Repaired::Changed);
    }
    if *class == Class::UnbackedTransfer {
        // The home has the units: nobody may try to finish this.
        call_shard(store, &LEND, forget, context.patience)?;
        return Ok(Repaired::Ok);
    }
    // The units of a lend that no replica has must not arrive: a failover would bring them back to the donor.
    if !lent.is_replicated {
        return Ok(Repaired::Changed);
    }
    let came = call_shard(store, &BORROW, context.borrow_call(&known, *units), context.patience)?;
    let arrived = match came.status {
        Some(Status::Ok) => Repaired::Ok,
        Some(Status::Replayed) => Repaired::Replayed,
        other => return Ok(refused(other)),
    };
    if came.is_replicated {
        call_shard(store, &LEND, forget, context.patience)?;
    }
    store.changed(home);
    Ok(arrived)
}

/// Finishes a change of a shard's total that a cut left; of any other activity it does nothing.
///
/// # Errors
/// Any of `StoreError`.
pub(crate) fn finish_change(store: &mut Store, shard: &ActivityId, epoch: u64) -> Result<()> {
    if let Some((activity, donor)) = shard.parent() {
        let by = store.operator.clone();
        let context = TransferContext::new(&store.servers, &by, &activity, epoch);
        let nothing = TransferRequest { id: "", donor, home: 0, need: 0, want: 0, finished: &[] };
        call_shard(store, &LEND, context.lend_call(&nothing), context.patience)?;
    }
    Ok(())
}

/// Calls a script of transfers, which may be sent again, until a replica has what it wrote. What it refused is not repeated.
fn call_shard(store: &mut Store, script: &Script, call: Call, patience: Duration) -> Result<Called> {
    let (reply, calls, mut tries) = (Reply::of(script), [call], 0);
    loop {
        tries += 1;
        let answer = store.servers.send(&calls, Some(ReplicaWait::for_one(patience)), None)?;
        let is_replicated = answer.is_replicated();
        let values = reply.array(answer.value())?;
        let status = match values.first() {
            Some(Value::Int(call_code::OTHER_EPOCH)) => None,
            code => Some(reply.status(code)?),
        };
        let is_done = status.is_some_and(Status::is_done);
        if is_replicated || !is_done || tries == TRANSFER_TRIES {
            let units = if is_done { reply.count(values.get(1))? } else { None };
            return Ok(Called { status, units, is_replicated });
        }
    }
}

/// The outcome of a call.
struct Called {
    /// `None`: it is of another epoch.
    status: Option<Status>,
    units: Option<u64>,
    /// Whether a replica has it, or there is none.
    is_replicated: bool,
}

fn refused(status: Option<Status>) -> Repaired {
    match status {
        None => Repaired::Stale,
        Some(Status::OutOfStock) => Repaired::OutOfStock,
        Some(Status::NotPreheated) => Repaired::NotPreheated,
        Some(Status::RequestConflict) => Repaired::RequestConflict,
        Some(_) => Repaired::Corrupt,
    }
}
