//! Orders of one activity: deduct, refund, hold, and the end of a hold. One connection, one round trip.
//!
//! An activity of which nothing is known is asked as if it had its units itself; one that is sharded replies its shards. So a plain
//! order is one round trip, and an order of a sharded activity is two, or one if the shards are known.
//! It goes to the shard that has the units of its user, which gets units from other shards if it has too few.

use std::sync::Arc;

use redis::Value;

use crate::error::{Recovery, Result, StoreError};
use crate::model::{
    ActivityId, Bought, Corrupt, HoldRecord, HoldState, Millis, Order, Outcome, Quantity, RefundOf, RequestId, Shards,
    Snapshot, Status, StoredUser, UserId, Wish,
};
use crate::read::snapshot;
use crate::redis::call::{Call, RetrySafety};
use crate::script::keys::Keys;
use crate::script::reply::Reply;
use crate::script::{DEDUCT, HOLD, REFUND, SETTLE, Script};
use crate::shards::borrower::{BorrowOutcome, BorrowRequest, Finished, Place, STUCK, SoldOut, is_short};
use crate::shards::transfer::{ShardFault, peek};
use crate::store::Store;

/// The text of an optional user: only the layout `product` does without.
pub(crate) fn user_text(user: Option<&UserId>) -> &str {
    user.map_or("", UserId::as_str)
}

/// Does what an order wants: takes units of one activity, for good or until a deadline, ends a hold, or gives units back. With
/// `dry_run` nothing is written.
///
/// # Errors
/// Any of [`StoreError`], [`StoreError::NoUser`] if the activity is sharded; refusals are statuses of the outcome.
pub fn place(store: &mut Store, order: &Order, dry_run: bool) -> Result<Outcome> {
    let user = order.user.as_ref().map(StoredUser::as_bytes);
    let (call, asked) = call_of(store, order, user.unwrap_or_default(), dry_run);
    let outcome = send_home(store, &order.activity, user, &call)?;
    Ok(Outcome { quantity: asked.map(Quantity::get).or(outcome.quantity), ..outcome })
}

/// The call that does what an order wants, and how many units it asks for whatever the reply says.
fn call_of(store: &Store, order: &Order, user: &[u8], dry_run: bool) -> (SingleCall, Option<Quantity>) {
    // How many units, or how a hold ends; and what else the script wants to know.
    let (scripts, units, detail) = match order.wish {
        Wish::Buy { quantity, per_user_limit } => {
            (&DEDUCT, quantity.to_string(), per_user_limit.map(|limit| limit.to_string()).unwrap_or_default())
        }
        Wish::Hold { quantity, hold_for } => (&HOLD, quantity.to_string(), hold_for.millis().to_string()),
        Wish::Confirm | Wish::Release => (&SETTLE, order.wish.name().to_owned(), String::new()),
        Wish::Refund(of) => {
            let is_default = if of == RefundOf::Default { "1" } else { "" };
            (&REFUND, of.units().map_or_else(|| "all".to_owned(), |units| units.to_string()), is_default.to_owned())
        }
    };
    let (kind, request) = (store.kind(), &order.request);
    let reason = order.reason.as_deref().unwrap_or_default();
    let [kind, by, id, units, reason, detail] =
        [&kind, &store.operator, request.as_str(), &units, reason, &detail].map(str::as_bytes);
    let (arguments, recovery) = match order.wish {
        Wish::Confirm | Wish::Release => ([kind, by, id, units, b"", b"", reason, user], Recovery::SameCall),
        _ => ([kind, by, user, units, id, b"", reason, detail], same_request(request)),
    };
    let call = SingleCall::new(scripts.of(store.layout.kind()), recovery, &arguments, dry_run);
    match order.wish {
        Wish::Buy { quantity, .. } => (call.wanting(Some(quantity), request), Some(quantity)),
        Wish::Hold { quantity, .. } => (call.holding(quantity, request), None),
        // The hold says how many.
        Wish::Confirm => (call.wanting(None, request), None),
        Wish::Release => (call, None),
        Wish::Refund(of) => (call, of.units()),
    }
}

/// Where `mode` is among the arguments of every script of one order.
const MODE_AT: usize = 5;
/// How many arguments such a script takes at most, but for an item of an order over several slots.
const USUAL: usize = 8;

/// The scripts' `mode` of the first try, and of one that may have been sent before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Modes {
    pub(crate) first: &'static str,
    pub(crate) retry: &'static str,
}

impl Modes {
    /// The reply is final.
    pub(crate) const FINAL: Self = Self { first: "first", retry: "retry" };
    /// The reply is final, and the call may have been sent before.
    pub(crate) const FINAL_AGAIN: Self = Self { first: "retry", retry: "retry" };
    /// Nothing is written.
    pub(crate) const DRY: Self = Self { first: "dry", retry: "dry" };
    /// `out_of_stock` is not final: other shards may have units. A first try that is out of stock stores nothing anyway.
    pub(crate) const SHARD: Self = Self { first: "first", retry: "borrow" };
    /// The same for what decides a first try, too.
    pub(crate) const BORROW: Self = Self { first: "borrow", retry: "borrow" };
    /// A refusal need not be kept: a late duplicate may take units, and `expire` returns them.
    pub(crate) const UNKEPT: Self = Self { first: "first", retry: "first" };

    /// What sending a call in these modes again does.
    pub(crate) fn safety(self) -> RetrySafety {
        if self == Self::DRY { RetrySafety::ReadOnly } else { RetrySafety::Idempotent }
    }

    /// Those of a call of which nobody else has units.
    pub(crate) fn of_activity(dry_run: bool) -> Self {
        if dry_run { Self::DRY } else { Self::FINAL }
    }
}

/// How to find out what became of a request whose reply was lost.
pub(crate) fn same_request(request: &RequestId) -> Recovery {
    Recovery::SameRequest(request.to_string())
}

/// One call, whose arguments depend on its mode.
pub(crate) struct SingleCall {
    pub(crate) script: &'static Script,
    pub(crate) recovery: Recovery,
    /// With nothing in the place of the mode.
    arguments: Vec<Vec<u8>>,
    /// The units of a hold, whose reply has its deadline in their place.
    held: Option<Quantity>,
    /// Of what takes units, and gets them from other shards.
    wanted: Option<Wanted>,
    /// Whether nothing is written.
    dry_run: bool,
}

/// What an order needs of the stock.
#[derive(Clone)]
struct Wanted {
    /// How many units; `None` for a hold that expired, whose reply says it.
    quantity: Option<Quantity>,
    request: RequestId,
}

impl SingleCall {
    /// A call with these arguments, of which that of the mode is empty.
    pub(crate) fn new(script: &'static Script, recovery: Recovery, arguments: &[&[u8]], dry_run: bool) -> Self {
        let arguments = arguments.iter().map(|argument| argument.to_vec()).collect();
        Self { script, recovery, arguments, held: None, wanted: None, dry_run }
    }

    /// The same for what takes units.
    fn wanting(self, quantity: Option<Quantity>, request: &RequestId) -> Self {
        Self { wanted: Some(Wanted { quantity, request: request.clone() }), ..self }
    }

    /// The same for a hold of so many units.
    pub(crate) fn holding(self, quantity: Quantity, request: &RequestId) -> Self {
        Self { held: Some(quantity), ..self.wanting(Some(quantity), request) }
    }

    /// A step of `settle`: of a request id, or of as many holds at most; `rest` is whose it is, and holds that it is about besides.
    pub(crate) fn settle(
        store: &Store,
        recovery: Recovery,
        [id, step, order, reason]: [&str; 4],
        rest: &[&[u8]],
        dry_run: bool,
    ) -> Self {
        let kind = store.kind();
        let first = [&kind, &store.operator, id, step, order, "", reason].map(str::as_bytes);
        let arguments = [&first, rest].concat();
        Self::new(SETTLE.of(store.layout.kind()), recovery, &arguments, dry_run)
    }

    /// Reads its reply of the activity with these keys: `{status, stock, bought, quantity, user}`, as far as the script replies it.
    ///
    /// # Errors
    /// No header names such a reply.
    pub(crate) fn read(&self, value: Value, keys: &Keys) -> Result<Outcome> {
        let reply = Reply::of(self.script);
        let (status, corrupt, values) = reply.with_status(value, keys)?;
        if let Some(corrupt) = corrupt {
            return Ok(Outcome::corrupt(corrupt));
        }
        if status == Status::Sharded {
            return Ok(Outcome::of(status));
        }
        let user = match values.get(4) {
            Some(Value::BulkString(user)) => Some(StoredUser::new(user.clone())),
            _ => None,
        };
        let (stock, bought) = (reply.count(values.get(1))?, reply.bought(values.get(2))?);
        let (quantity, deadline) = match (reply.count(values.get(3))?, self.held) {
            (deadline, Some(held)) => (Some(held.get()), deadline.map(Millis::new)),
            (quantity, None) => (quantity, None),
        };
        Ok(Outcome { quantity, stock, bought, deadline, user, ..Outcome::of(status) })
    }

    /// As it is sent to the activity with these keys.
    pub(crate) fn call(&self, keys: &Keys, modes: Modes) -> Call {
        let names: Vec<&str> = if self.script.knows_holds() { keys.all().collect() } else { keys.in_order().collect() };
        Call::script(self.script, names, self.arguments(modes.first))
            .retried_with(self.arguments(modes.retry))
            .with_safety(modes.safety())
            .recovered_by(self.recovery.clone())
    }

    fn arguments(&self, mode: &str) -> Vec<Vec<u8>> {
        let mut arguments = self.arguments.clone();
        // The first mode is what a script takes for granted.
        let is_default = mode == Modes::FINAL.first;
        let last = arguments.iter().rposition(|argument| !argument.is_empty());
        let needed = last.map_or(0, |last| last + 1).max(if is_default { 0 } else { MODE_AT + 1 });
        arguments[MODE_AT] = mode.as_bytes().to_vec();
        // Each that is empty costs the server time. An item of an order over several slots has all.
        if arguments.len() == USUAL {
            arguments.truncate(needed);
        }
        arguments
    }
}

/// Sends a call to an activity, and reads its reply.
fn send_single(store: &mut Store, call: &SingleCall, activity: &ActivityId, modes: Modes) -> Result<Outcome> {
    let answer = store.servers.send(&[call.call(&store.keys(activity), modes)], None, None)?;
    store.borrower.was_resent |= answer.was_resent;
    let reply = read_reply(store, call, answer.value(), activity)?;
    note_change(store, call, &reply, activity);
    Ok(reply)
}

/// Reads the reply of an activity to a call. Shards that it names are known from now on.
pub(crate) fn read_reply(store: &mut Store, call: &SingleCall, value: Value, activity: &ActivityId) -> Result<Outcome> {
    if let Value::Array(values) = &value
        && let Some(shards) = Reply::of(call.script).shards(values)?
    {
        store.directory.learn(activity, Some(shards));
    }
    call.read(value, &store.keys(activity))
}

fn note_change(store: &Store, call: &SingleCall, reply: &Outcome, activity: &ActivityId) {
    if reply.status.is_done() && !call.dry_run {
        store.changed(activity);
    }
}

/// Sends an order to where the units of its user are.
///
/// # Errors
/// Any of [`StoreError`]; there is no user, and the activity is sharded.
pub(crate) fn send_home(
    store: &mut Store,
    activity: &ActivityId,
    user: Option<&[u8]>,
    call: &SingleCall,
) -> Result<Outcome> {
    store.borrower.was_resent = false;
    loop {
        let Some(shards) = store.directory.get(activity).cloned() else {
            let reply = send_single(store, call, activity, Modes::of_activity(call.dry_run))?;
            if reply.status == Status::Sharded {
                continue;
            }
            return Ok(reply);
        };
        let nobody = || StoreError::NoUser { activity: activity.to_string(), line: None };
        let home = shards.home(user.ok_or_else(nobody)?);
        match send_to(store, (activity, &shards, home), call) {
            Ok(reply) => return Ok(reply),
            Err(ShardFault::ListChanged | ShardFault::Stopped) => {
                let Some(found) = shards_now(store, activity, &shards)? else { continue };
                let needed = if call.wanted.is_some() { &found[..] } else { &found[home..=home] };
                if let Some(broken) = lost_shard(store, activity, needed) {
                    return Ok(Outcome::corrupt(broken));
                }
                // Only a refund, which wants no units, says so of what is archived, too; or it was restored meanwhile.
                if call.wanted.is_none() && found[home].is_archived() {
                    return Ok(Outcome::of(Status::NotPreheated));
                }
            }
            Err(ShardFault::Archived) => return Ok(Outcome::of(Status::Ended)),
            Err(ShardFault::Corrupt(corrupt)) => return Ok(Outcome::corrupt(corrupt)),
            Err(ShardFault::Store(error)) => return Err(error),
        }
    }
}

/// The shards of a list as they are now, after one of them replied that it is none, or of another epoch. `None` if the activity has
/// another list by now.
///
/// # Errors
/// Any of [`StoreError`].
pub(crate) fn shards_now(store: &mut Store, activity: &ActivityId, shards: &Shards) -> Result<Option<Vec<Snapshot>>> {
    if store.shards_of(activity)?.as_ref() != Some(shards) {
        return Ok(None);
    }
    let ids: Vec<ActivityId> = shards.ids(activity).collect();
    snapshot::snapshots(store, &ids).map(Some)
}

/// What is wrong with a list that names these shards, if one of them is not there, by the rule of `read_shard` (`lua/lib/transfer.lua`).
pub(crate) fn lost_shard(store: &Store, activity: &ActivityId, found: &[Snapshot]) -> Option<Corrupt> {
    // An archived shard still says its stock and ledger; one that a reset removed has no ledger.
    let has_ledger = |shard: &Snapshot| shard.meta.as_ref().is_some_and(|meta| meta.ledger);
    let is_there = |shard: &&Snapshot| shard.status == Status::Ok && shard.stock.is_some() && has_ledger(shard);
    let lost = found.iter().find(|shard| !is_there(shard))?;
    Some(lost.corrupt.clone().unwrap_or_else(|| names_lost_shard(store, activity)))
}

/// What is wrong with the list of an activity that names a shard that is not there.
pub(crate) fn names_lost_shard(store: &Store, activity: &ActivityId) -> Corrupt {
    let what = "names a shard that is not there: was it evicted, or removed?".to_owned();
    Corrupt { key: store.keys(activity).meta, what }
}

/// Sends an order to a shard, by its place in the list. What a shard has left says little of the sale.
fn send_to(store: &mut Store, place: Place<'_>, call: &SingleCall) -> Result<Outcome, ShardFault> {
    let (activity, shards, home) = place;
    let at = activity.shard(shards.numbers()[home]);
    let modes = match &call.wanted {
        _ if call.dry_run => Modes::DRY,
        None => Modes::FINAL,
        // An expired hold whose confirmation is refused is void.
        Some(Wanted { quantity: None, .. }) => Modes::BORROW,
        Some(_) => Modes::SHARD,
    };
    let reply = send_single(store, call, &at, modes)?;
    if reply.status == Status::NotPreheated {
        return Err(ShardFault::ListChanged);
    }
    let short = short_of(store, call, &reply, &at)?;
    let reply = Outcome { stock: None, ..reply };
    let Some((wanted, quantity)) = short else { return Ok(reply) };
    let (keys, stop) = (store.keys(&at), Arc::clone(&store.stop));
    let (order, read) = (call.call(&keys, Modes::BORROW), |value| call.read(value, &keys));
    let request = BorrowRequest::new(&store.servers, place, (wanted.request.as_str(), quantity), &*stop);
    if call.dry_run {
        return Ok(match store.borrower.find_sold_out(&mut store.servers, &request)? {
            Some(SoldOut { left, .. }) => Outcome { stock: Some(left), ..reply },
            None => would_borrow(reply, quantity),
        });
    }
    let request = BorrowRequest { order: Some((&order, &read)), ..request };
    match borrow_and_send(store, &request, call, &at)? {
        BorrowOutcome::Decided(reply) if reply.status != Status::NotPreheated => {
            note_change(store, call, &reply, &at);
            Ok(Outcome { stock: None, ..reply })
        }
        BorrowOutcome::Decided(_) | BorrowOutcome::Here => Err(ShardFault::ListChanged),
        BorrowOutcome::SoldOut(SoldOut { left, .. }) => {
            // A late copy of the call must not take units that are returned after this refusal.
            let modes = if store.borrower.was_resent { Modes::FINAL_AGAIN } else { Modes::FINAL };
            let reply = send_single(store, call, &at, modes)?;
            // Neither it nor all others together have enough.
            Ok(Outcome { stock: (reply.status == Status::OutOfStock).then_some(left), ..reply })
        }
    }
}

/// How many units an order needs that its shard has not, by its reply; `None` if that decides it.
fn short_of<'c>(
    store: &mut Store,
    call: &'c SingleCall,
    reply: &Outcome,
    at: &ActivityId,
) -> Result<Option<(&'c Wanted, u64)>> {
    let Some(wanted) = &call.wanted else { return Ok(None) };
    let Some(units) = wanted.quantity.map(Quantity::get).or(reply.quantity) else { return Ok(None) };
    // A dry run of a confirmation says that the hold is over, be it for good or because its shard has too few units.
    let is_over = call.dry_run && wanted.quantity.is_none() && reply.status == Status::Expired;
    let needs_more = match is_over && reply.stock.is_some_and(|stock| stock < units) {
        true => hold_state(store, at, &wanted.request)? == Some(HoldState::Expired),
        false => is_short(reply, units),
    };
    Ok(needs_more.then_some((wanted, units)))
}

/// The state of the hold of a request id.
fn hold_state(store: &mut Store, activity: &ActivityId, request: &RequestId) -> Result<Option<HoldState>> {
    let requests = store.keys(activity).requests;
    let command = redis::cmd("HGET").arg(&requests).arg(format!("\th:{request}")).to_owned();
    Ok(match store.servers.command(&requests, &command)? {
        Value::BulkString(record) => HoldRecord::read(&record).map(|record| record.state),
        _ => None,
    })
}

/// Gets units for a home and sends the order there, until it is decided; transfers are acknowledged.
fn borrow_and_send(
    store: &mut Store,
    request: &BorrowRequest<'_>,
    call: &SingleCall,
    at: &ActivityId,
) -> Result<BorrowOutcome, ShardFault> {
    let ended = loop {
        match store.borrower.borrow(&mut store.servers, request) {
            Ok(BorrowOutcome::Here) => {
                let reply = send_single(store, call, at, Modes::BORROW)?;
                if !is_short(&reply, request.quantity) {
                    break Ok(BorrowOutcome::Decided(reply));
                }
                request.check_time(&store.servers, || "others took them first".to_owned())?;
            }
            Err(ShardFault::Stopped) => {
                break Err(request.failed(&store.servers, "it was interrupted".to_owned()).into());
            }
            ended => break ended,
        }
    };
    store.borrower.ack_transfers(&mut store.servers);
    if !store.borrower.was_resent {
        return ended;
    }
    // A copy of the order may still come, and take units.
    let why = match ended {
        Err(ShardFault::Corrupt(corrupt)) => format!("key `{}` {}", corrupt.key, corrupt.what),
        Err(ShardFault::Store(error)) if !matches!(error, StoreError::Unknown { .. }) => error.to_string(),
        ended => return ended,
    };
    let server = store.servers.target().shown.clone();
    Err(StoreError::Unknown { server, why, recovery: Some(call.recovery.clone()) }.into())
}

/// The reply of a shard that is short to a dry run, if other shards have enough.
fn would_borrow(mut reply: Outcome, units: u64) -> Outcome {
    reply.status = Status::Ok;
    if let Some(Bought::Units(bought)) = &mut reply.bought {
        *bought += units;
    }
    reply
}

/// Finishes transfers between the shards of an activity that their client left unfinished, of any age with `all`. `None`: it is not
/// sharded.
///
/// # Errors
/// Any of [`StoreError`].
pub fn finish_transfers(store: &mut Store, activity: &ActivityId, all: bool) -> Result<Option<Finished>> {
    let Some(shards) = store.shards_of(activity)? else { return Ok(None) };
    store.servers.look_for_replicas()?;
    let older_than = if all { std::time::Duration::ZERO } else { STUCK };
    let views = peek(&mut store.servers, activity, &shards).map_err(|fault| fault.into_error(activity))?;
    let finished = store.borrower.finish_stuck(&mut store.servers, activity, &shards, &views, older_than)?;
    shards.ids(activity).for_each(|id| store.changed(&id));
    Ok(Some(finished))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::layout::Kind;

    fn arguments(call: &SingleCall, mode: &str) -> Vec<String> {
        let texts = call.arguments(mode).into_iter();
        texts.map(|argument| String::from_utf8(argument).unwrap()).collect()
    }

    #[test]
    fn only_what_is_needed_is_sent() {
        let call = |reason: &str| {
            let given = ["hash", "me", "7", "1", "r", "", reason, ""];
            SingleCall::new(REFUND.of(Kind::Hash), Recovery::SameCall, &given.map(str::as_bytes), false)
        };
        let plain = call("");
        assert_eq!(arguments(&plain, "first"), ["hash", "me", "7", "1", "r"]);
        assert_eq!(arguments(&plain, "retry"), ["hash", "me", "7", "1", "r", "retry"]);
        assert_eq!(arguments(&call("why"), "first"), ["hash", "me", "7", "1", "r", "first", "why"]);
    }

    #[test]
    fn a_value_is_no_reply() {
        assert!(Reply::of_command("x").array(Value::Nil).is_err());
    }
}
