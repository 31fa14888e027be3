//! Sends an order to the shard that has the units of its user, which gets units from other shards.

use std::sync::Arc;

use redis::Value;

use crate::error::StoreError;
use crate::model::id::{ActivityId, RequestId};
use crate::model::number::Quantity;
use crate::model::order::hold::{HoldRecord, HoldState};
use crate::model::order::{Bought, Corrupt};
use crate::model::shards::Shards;
use crate::model::status::Status;
use crate::script::SETTLE;
use crate::script::reply::Reply;
use crate::sell::single::{self, Modes, SingleCall, SingleReply};
use crate::shards::borrower::Finished;
use crate::shards::peek::peek;
use crate::shards::request::STUCK;
use crate::shards::request::{BorrowOutcome, BorrowRequest, ShardFault, SoldOut, is_out_of_stock, patient};
use crate::store::Store;

/// What an order needs of the stock.
#[derive(Clone, Copy)]
pub(crate) struct Wanted<'a> {
    /// How many units; `None` for a hold that expired, whose reply says it.
    pub(crate) quantity: Option<Quantity>,
    pub(crate) request: &'a RequestId,
}

/// Sends an order to where the units of its user are. One that is `wanted` takes units, and gets them from other shards.
///
/// # Errors
/// Any of [`StoreError`]; there is no user, and the activity is sharded.
pub(crate) fn send_home(
    store: &mut Store,
    activity: &ActivityId,
    user: Option<&[u8]>,
    call: &SingleCall,
    wanted: Option<Wanted<'_>>,
    dry_run: bool,
) -> Result<SingleReply, StoreError> {
    let mut missing: Option<Shards> = None;
    store.borrower.was_resent = false;
    loop {
        let Some(shards) = store.directory.get(activity).cloned() else {
            let value = single::send_single(store, call, activity, Modes::of_activity(dry_run))?;
            if learn(store, activity, call, &value)? {
                continue;
            }
            return read_reply(store, call, value, activity, dry_run);
        };
        let nobody = || StoreError::NoUser { activity: activity.to_string(), line: None };
        let home = shards.home(user.ok_or_else(nobody)?);
        match send_to(store, activity, &shards, home, call, wanted, dry_run) {
            Ok(reply) => return Ok(reply),
            Err(ShardFault::ListChanged | ShardFault::Stopped) => {
                if let Some(broken) = forget_shards(store, activity, &shards, &mut missing) {
                    return Ok(SingleReply::corrupt(broken));
                }
            }
            Err(ShardFault::Corrupt(corrupt)) => return Ok(SingleReply::corrupt(corrupt)),
            Err(ShardFault::Store(error)) => return Err(error),
        }
    }
}

/// Remembers the shards of an activity that replied them; false if it replied anything else.
pub(crate) fn learn(
    store: &mut Store,
    activity: &ActivityId,
    call: &SingleCall,
    value: &Value,
) -> Result<bool, StoreError> {
    let Value::Array(values) = value else { return Ok(false) };
    match Reply::of(call.script).shards(values)? {
        Some(shards) => {
            store.directory.learn(activity, Some(shards));
            Ok(true)
        }
        None => Ok(false),
    }
}

/// A shard of the list is gone. The list is read again; if it is the same, the shard was lost.
pub(crate) fn forget_shards(
    store: &mut Store,
    activity: &ActivityId,
    shards: &Shards,
    before: &mut Option<Shards>,
) -> Option<Corrupt> {
    store.directory.forget(activity);
    if before.as_ref() == Some(shards) {
        let what = "names a shard that is not there: was it evicted, or removed?".to_owned();
        return Some(Corrupt { key: store.keys(activity).meta, what });
    }
    *before = Some(shards.clone());
    None
}

/// Sends an order to a shard, by its place in the list. What a shard has left says little of the sale.
fn send_to(
    store: &mut Store,
    activity: &ActivityId,
    shards: &Shards,
    home: usize,
    call: &SingleCall,
    wanted: Option<Wanted<'_>>,
    dry_run: bool,
) -> Result<SingleReply, ShardFault> {
    let at = activity.shard(shards.numbers()[home]);
    let modes = match &wanted {
        _ if dry_run => Modes::DRY,
        None => Modes::FINAL,
        // An expired hold whose confirmation is refused is void.
        Some(Wanted { quantity: None, .. }) => Modes::BORROW,
        Some(_) => Modes::SHARD,
    };
    let value = single::send_single(store, call, &at, modes)?;
    if is_gone(&value) {
        return Err(ShardFault::ListChanged);
    }
    let short = match wanted {
        Some(wanted) => short_of(store, &wanted, &value, &at, dry_run)?.map(|units| (wanted, units)),
        None => None,
    };
    let Some((wanted, quantity)) = short else { return read_of_shard(store, call, value, &at, dry_run) };
    let order = call.call(&store.keys(&at), Modes::BORROW);
    let (stop, system) = (Arc::clone(&store.stop), Arc::clone(store.servers.system()));
    let request = BorrowRequest {
        activity,
        shards,
        home,
        quantity,
        request: wanted.request.as_str(),
        order: (!dry_run).then_some(&order),
        system: &*system,
        began: system.now(),
        at_most: patient(store.servers.target().timeout),
        stop: &|| stop(),
    };
    if dry_run {
        let sold_out = store.borrower.find_sold_out(&mut store.servers, &request)?;
        let reply = read_of_shard(store, call, value, &at, dry_run)?;
        return Ok(match sold_out {
            Some(SoldOut { left, .. }) => with_stock(reply, left),
            None => would_borrow(reply, quantity),
        });
    }
    match borrow_and_send(store, &request, call, &at)? {
        BorrowOutcome::Decided(value) if !is_gone(&value) => read_of_shard(store, call, value, &at, dry_run),
        BorrowOutcome::Decided(_) | BorrowOutcome::Here => Err(ShardFault::ListChanged),
        BorrowOutcome::SoldOut(SoldOut { left, .. }) => {
            // A late copy of the call must not take units that are returned after this refusal.
            let modes = if store.borrower.was_resent { Modes::FINAL_AGAIN } else { Modes::FINAL };
            let value = single::send_single(store, call, &at, modes)?;
            let is_refused = is_out_of_stock(&value);
            let reply = read_of_shard(store, call, value, &at, dry_run)?;
            Ok(if is_refused { with_stock(reply, left) } else { reply })
        }
    }
}

/// How many units an order needs that its shard has not, by its reply; `None` if that decides it.
fn short_of(
    store: &mut Store,
    wanted: &Wanted<'_>,
    value: &Value,
    at: &ActivityId,
    dry_run: bool,
) -> Result<Option<u64>, StoreError> {
    let Value::Array(values) = value else { return Ok(None) };
    let kind = store.layout.kind();
    let count = |at| Reply::of(SETTLE.of(kind)).count(values.get(at));
    let of_hold = |units: Option<Quantity>| units.map_or_else(|| count(3), |units| Ok(Some(units.get())));
    if is_out_of_stock(value) {
        return of_hold(wanted.quantity);
    }
    // A dry run of a confirmation says that the hold is over, be it for good or because its shard has too few units.
    if !dry_run || wanted.quantity.is_some() || values.first() != Some(&Value::Int(Status::Expired.code())) {
        return Ok(None);
    }
    let (Some(stock), Some(units)) = (count(1)?, count(3)?) else { return Ok(None) };
    let is_expired = stock < units && hold_state(store, at, wanted.request)? == Some(HoldState::Expired);
    Ok(is_expired.then_some(units))
}

/// The state of the hold of a request id.
fn hold_state(store: &mut Store, activity: &ActivityId, request: &RequestId) -> Result<Option<HoldState>, StoreError> {
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
                let value = single::send_single(store, call, at, Modes::BORROW)?;
                if !is_out_of_stock(&value) {
                    break Ok(BorrowOutcome::Decided(value));
                }
                request.check_time(|| "others took them first".to_owned())?;
            }
            Err(ShardFault::Stopped) => break Err(request.failed("it was interrupted".to_owned()).into()),
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

fn read_reply(
    store: &mut Store,
    call: &SingleCall,
    value: Value,
    at: &ActivityId,
    dry_run: bool,
) -> Result<SingleReply, StoreError> {
    let reply = call.read(value, &store.keys(at))?;
    if reply.outcome.status.is_done() && !dry_run {
        store.changed(at);
    }
    Ok(reply)
}

fn read_of_shard(
    store: &mut Store,
    call: &SingleCall,
    value: Value,
    shard: &ActivityId,
    dry_run: bool,
) -> Result<SingleReply, ShardFault> {
    let mut reply = read_reply(store, call, value, shard, dry_run)?;
    reply.outcome.stock = None;
    Ok(reply)
}

/// The reply of a shard that is short, while neither it nor all others together have enough.
fn with_stock(mut reply: SingleReply, left: u64) -> SingleReply {
    reply.outcome.stock = Some(left);
    reply
}

/// The reply of a shard that is short to a dry run, if other shards have enough.
fn would_borrow(mut reply: SingleReply, units: u64) -> SingleReply {
    let outcome = &mut reply.outcome;
    outcome.status = Status::Ok;
    if let Some(Bought::Units(bought)) = &mut outcome.bought {
        *bought += units;
    }
    reply
}

/// Whether a shard is not there.
fn is_gone(value: &Value) -> bool {
    matches!(value, Value::Array(values) if values.first() == Some(&Value::Int(Status::NotPreheated.code())))
}

/// Finishes transfers between the shards of an activity that their client left unfinished, of any age with `all`. `None`: it is not
/// sharded.
///
/// # Errors
/// Any of [`StoreError`].
pub fn finish_transfers(store: &mut Store, activity: &ActivityId, all: bool) -> Result<Option<Finished>, StoreError> {
    let Some(shards) = store.shards_of(activity)? else { return Ok(None) };
    store.servers.look_for_replicas()?;
    let older_than = if all { std::time::Duration::ZERO } else { STUCK };
    let views =
        peek(&mut store.servers, store.layout, activity, &shards).map_err(|fault| fault.into_error(activity))?;
    let finished = store.borrower.finish_stuck(&mut store.servers, activity, &shards, &views, older_than)?;
    shards.ids(activity).for_each(|id| store.changed(&id));
    Ok(Some(finished))
}
