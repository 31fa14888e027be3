//! Finds orders of activities in several slots that are bought in part: each item that a ledger says was bought or returned is
//! compared with the record of the order at the other activity. Such a record is there until a reset, whatever is trimmed, and what
//! it decided never changes, so it may be read later than the ledger. What a repair took back is not a part that is missing, nor is
//! what was sold or refunded by hand since.

use std::collections::BTreeMap;

use redis::Value;

use crate::audit::ledger_state::LedgerState;
use crate::audit::ledger_state::order_parts::{OrderPart, SplitOrder};
use crate::error::Result;
use crate::model::{ActivityId, Bought, EntryId, HoldRecord, Meta, Millis, Status, StoredUser, UserId};
use crate::read::whole::{self, Holdings};
use crate::read::{ledger, snapshot};
use crate::script::keys::Keys;
use crate::script::reply::Reply;
use crate::store::Store;

/// Records that are read at one instant.
const AT_ONCE: usize = 500;

/// The orders of a ledger that are bought in part.
pub(crate) fn split_orders(store: &mut Store, keys: &Keys, ledger: &mut LedgerState) -> Result<Vec<SplitOrder>> {
    let (Some(parts), Some(own)) = (&mut ledger.order_parts, Keys::activity_of(store.layout, &keys.stock)) else {
        return Ok(Vec::new());
    };
    let mut by_other: BTreeMap<u32, Vec<OrderPart>> = BTreeMap::new();
    for part in parts.take_ended() {
        by_other.entry(part.other).or_default().push(part);
    }
    let mut split = Vec::new();
    for (other, ended) in by_other {
        let key = ledger.order_parts.as_ref().map_or(&b""[..], |parts| parts.key(other));
        let Ok(key) = std::str::from_utf8(key) else { continue };
        // The hold of a primary that names its items may be behind a checkpoint.
        let Some(activity) = Keys::activity_of(store.layout, key).filter(|_| key != keys.stock) else { continue };
        let found = split_with(store, keys, &activity, &ended)?;
        let users: Vec<StoredUser> =
            found.iter().map(|(part, _)| StoredUser::new(ledger.users.name(part.user))).collect();
        let (here, there) = (bought(store, &own, &users)?, bought(store, &activity, &users)?);
        for ((((part, record), user), here), there) in found.into_iter().zip(users).zip(here).zip(there) {
            if !is_mended(part, record.as_ref(), here, there) {
                let (request, state) = (part.request.to_string(), record.map(|record| record.state));
                split.push(SplitOrder { request, user, is_bought: part.is_bought, other: activity.clone(), state });
            }
        }
    }
    Ok(split)
}

/// Whether a split order was mended by hand: its user has fewer units than the item that is bought, or as many as the one that is
/// missing. What is not known mends nothing.
fn is_mended(part: &OrderPart, record: Option<&HoldRecord>, here: Option<u64>, there: Option<u64>) -> bool {
    let (here, there) = ((here, part.quantity), (there, record.map_or(1, |record| record.quantity)));
    let (bought, missing) = if part.is_bought { (here, there) } else { (there, here) };
    bought.0.is_some_and(|units| units < bought.1) || missing.0.is_some_and(|units| units >= missing.1)
}

/// The units of an activity that some users have, without those that are held open; `None` where that is not known.
fn bought(store: &mut Store, activity: &ActivityId, users: &[StoredUser]) -> Result<Vec<Option<u64>>> {
    let mut all = vec![None; users.len()];
    let readable = |(place, user): (usize, &StoredUser)| Some((place, user.text()?.parse::<UserId>().ok()?));
    let readable: Vec<(usize, UserId)> = users.iter().enumerate().filter_map(readable).collect();
    for chunk in readable.chunks(AT_ONCE) {
        let ids: Vec<UserId> = chunk.iter().map(|(_, user)| user.clone()).collect();
        store.throttle.wait();
        let Holdings { snapshot, held, open } = whole::holdings(store, activity, &ids)?;
        store.throttle.took();
        if !snapshot.status.is_done() {
            continue;
        }
        for (((place, _), held), open) in chunk.iter().zip(held).zip(open) {
            all[*place] = match held {
                None => Some(0),
                Some(Bought::Units(units)) => Some(units.saturating_sub(open)),
                Some(Bought::Unknown) => None,
            };
        }
    }
    Ok(all)
}

/// Those of some orders that are split between an activity, whose keys are `keys`, and another one, with what the other item
/// has become.
fn split_with<'p>(
    store: &mut Store,
    keys: &Keys,
    other: &ActivityId,
    parts: &'p [OrderPart],
) -> Result<Vec<(&'p OrderPart, Option<HoldRecord>)>> {
    let others = store.keys(other);
    let reply = Reply::of_command("HMGET");
    let reversed = format!("{}\t", Status::Reversed.code());
    let mut split = Vec::new();
    for chunk in parts.chunks(AT_ONCE) {
        let mut command = redis::cmd("HMGET");
        command.arg(&others.requests);
        for part in chunk {
            command.arg(format!("\th:{}", part.request)).arg(&*part.request);
        }
        store.throttle.wait();
        let records = reply.array(store.servers.command(&others.requests, &command)?)?;
        store.throttle.took();
        let found = |(part, fields): (&'p OrderPart, &[Value])| {
            let id = fields.get(1).cloned().unwrap_or(Value::Nil);
            if matches!(&id, Value::BulkString(id) if id.starts_with(reversed.as_bytes())) {
                return None;
            }
            let Some(Value::BulkString(record)) = fields.first() else { return Some((part, None, id)) };
            let primary = if part.is_primary { &keys.stock } else { &others.stock };
            let is_of_order = |record: &HoldRecord| {
                record.order.as_deref().and_then(|order| order.strip_prefix("m:")) == Some(primary.as_str())
            };
            Some((part, HoldRecord::read(record).filter(is_of_order), id))
        };
        let is_split = |(part, record, _): &(&OrderPart, Option<HoldRecord>, Value)| {
            part.is_split(record.as_ref().map(|record| record.state))
        };
        let found: Vec<_> = chunk.iter().zip(records.chunks(2)).filter_map(found).filter(is_split).collect();
        if found.is_empty() {
            continue;
        }
        // What returned here may be of another order, which used the id again and was refused.
        let mut command = redis::cmd("HMGET");
        command.arg(&keys.requests).arg(found.iter().map(|(part, ..)| &*part.request).collect::<Vec<_>>());
        let ids = reply.array(store.servers.command(&keys.requests, &command)?)?;
        let is_same = |own: &Value, other: &Value| own == other || [own, other].contains(&&Value::Nil);
        let same_order = found.into_iter().zip(ids).filter(|((part, _, id), own)| part.is_bought || is_same(own, id));
        split.extend(same_order.map(|((part, record, _), _)| (part, record)));
    }
    if split.iter().any(|(_, state)| state.is_none()) {
        // Whatever began after an order has no record of it.
        let began = began(store, other)?;
        split.retain(|(part, state)| state.is_some() || began.is_some_and(|began| began < part.at.at()));
    }
    Ok(split)
}

/// An instant at which a sale had begun, by what is left of its ledger; `None` if nobody knows one.
fn began(store: &mut Store, activity: &ActivityId) -> Result<Option<Millis>> {
    let Some(Meta { checkpoint, ledger: true, .. }) = snapshot::snapshot(store, activity)?.meta else {
        return Ok(None);
    };
    if let Some(checkpoint) = checkpoint {
        return Ok(Some(checkpoint.upto.at()));
    }
    let mut first = None;
    let key = store.keys(activity).ledger;
    ledger::each_entry_of(store, &key, EntryId::ZERO, EntryId::before(Millis::new(u64::MAX)), |entry| {
        first = Some(entry.id.at());
        false
    })?;
    Ok(first)
}
