//! What ends overdue holds, and counts open ones anew: page by page.

use std::iter;

use redis::Value;

use crate::error::{Recovery, Result, StoreError};
use crate::model::order::hold::{Expired, LeftHold, OpenCounts, Recounted};
use crate::model::{ActivityId, Shards, Status, StoredUser};
use crate::redis::call::retry::Answer;
use crate::script::SETTLE;
use crate::script::keys::Keys;
use crate::script::reply::Reply;
use crate::sell::orders::{self, Modes, SingleCall};
use crate::store::Store;

/// Holds that one call expires: a few milliseconds of the server's time.
const AT_ONCE: u32 = 500;

/// Returns the units of overdue holds, of a page of them, or of a page a shard, and why a shard was not reached. With `dry_run`
/// nothing is written.
///
/// # Errors
/// Any of [`StoreError`]; why nothing can be done is a status.
pub(crate) fn expire(
    store: &mut Store,
    activity: &ActivityId,
    reason: Option<&str>,
    dry_run: bool,
) -> Result<(Expired, Option<StoreError>)> {
    'list: loop {
        let shards = match store.directory.get(activity) {
            Some(shards) => shards.clone(),
            None => match expire_one(store, activity, reason, dry_run)? {
                Ok(expired) => return Ok((expired, None)),
                Err(shards) => {
                    store.directory.learn(activity, Some(shards.clone()));
                    shards
                }
            },
        };
        let (mut all, mut unreached) = (Expired::nothing(Status::Ok), None);
        for (at, id) in shards.ids(activity).enumerate() {
            let expired = match expire_one(store, &id, reason, dry_run) {
                Ok(expired) => expired,
                // Holds of the others are overdue nevertheless.
                Err(error) => {
                    unreached = unreached.or(Some(error));
                    continue;
                }
            };
            match expired {
                Ok(expired) if expired.status == Status::NotPreheated => {
                    let Some(found) = orders::shards_now(store, activity, &shards)? else { continue 'list };
                    let Some(broken) = orders::lost_shard(store, activity, &found[at..=at]) else { continue 'list };
                    all.add(Expired { corrupt: Some(broken), ..Expired::nothing(Status::Corrupt) });
                }
                Ok(expired) => all.add(expired),
                Err(_) => all.add(Expired::nothing(Status::NotPreheated)),
            }
        }
        return Ok((all, unreached));
    }
}

/// Expires a page of the overdue holds of an activity, or of one shard; the shards of one that has its holds there.
fn expire_one(
    store: &mut Store,
    activity: &ActivityId,
    reason: Option<&str>,
    dry_run: bool,
) -> Result<Result<Expired, Shards>> {
    let keys = store.keys(activity);
    // What a call that was lost has expired is not overdue for the next.
    let answer = settle_many(store, &keys, ["expire", &AT_ONCE.to_string()], reason, &[], dry_run);
    if matches!(answer, Err(StoreError::Unknown { .. })) {
        store.changed(activity);
    }
    let answer = answer?;
    let was_resent = answer.was_resent && !dry_run;
    let reply = Reply::of(SETTLE.of(store.layout.kind()));
    let values = reply.array(answer.value())?;
    let status = reply.status(values.first())?;
    if let Some(shards) = reply.shards(&values)? {
        return Ok(Err(shards));
    }
    let mut expired = Expired { was_resent, ..Expired::nothing(status) };
    match status {
        Status::Ok => {
            expired.holds = reply.count(values.get(2))?.unwrap_or_default();
            expired.units = reply.count(values.get(3))?.unwrap_or_default();
            expired.stock = reply.count(values.get(1))?;
            expired.has_more = reply.count(values.get(4))? == Some(1);
            let ids = values.get(5..).unwrap_or_default().chunks(2);
            expired.left = ids
                .map(|pair| {
                    let request = reply.text(pair.first())?.unwrap_or_default();
                    Ok(LeftHold { activity: activity.clone(), request, order: reply.text(pair.get(1))? })
                })
                .collect::<Result<_>>()?;
            if was_resent || expired.holds > 0 && !dry_run {
                store.changed(activity);
            }
        }
        Status::Corrupt => expired.corrupt = Some(reply.corrupt(&values, &keys)?),
        _ => {}
    }
    Ok(Ok(expired))
}

/// Counts what is held open by the holds themselves, all at one instant, unless more than `most` are open: by those that have a
/// deadline, and by the `found` ones, request ids whose hold may lack it. Counts and deadlines are what the holds say after it, if
/// the [surplus](OpenCounts::surplus) is as `expected`: else there may be holds that were not found. `None`: nothing is written.
///
/// # Errors
/// Any of [`StoreError`].
pub(crate) fn recount(
    store: &mut Store,
    activity: &ActivityId,
    most: u64,
    found: &[Vec<u8>],
    expected: Option<[i64; 2]>,
) -> Result<Recounted> {
    if found.len() as u64 > most {
        return Ok(Recounted::TooMany);
    }
    let keys = store.keys(activity);
    let expected_text = expected.map(|[uncounted, beyond]| format!("{uncounted} {beyond}"));
    let step = ["recount", &most.to_string()];
    let answer = settle_many(store, &keys, step, expected_text.as_deref(), found, expected.is_none())?;
    let reply = Reply::of(SETTLE.of(store.layout.kind()));
    let values = reply.array(answer.value())?;
    match reply.status(values.first())? {
        Status::Ok => {}
        Status::Corrupt => return Ok(Recounted::Corrupt(reply.corrupt(&values, &keys)?)),
        _ => return Ok(Recounted::Gone),
    }
    let number = |value| Ok::<_, StoreError>(reply.count(value)?.unwrap_or_default());
    let Some(counted) = reply.count(values.get(3))? else { return Ok(Recounted::TooMany) };
    let mut users = Vec::with_capacity(values.len() / 3);
    for row in values.get(5..).unwrap_or_default().chunks(3) {
        let Some(Value::BulkString(user)) = row.first() else { return Err(reply.invalid(row)) };
        let stored = reply.count(row.get(1)).map(Option::unwrap_or_default).ok();
        users.push((StoredUser::new(user.clone()), stored, number(row.get(2))?));
    }
    let (stored, undated) = (number(values.get(2))?, number(values.get(4))?);
    let counts = OpenCounts { stored, counted, undated, is_partial: false, users };
    if expected == Some(counts.surplus()) && !counts.is_right() {
        store.changed(activity);
    }
    Ok(Recounted::Counts(counts))
}

/// Calls a step of `settle` that is about many holds, by its name and how many it takes at most; `found` are those it is about besides.
fn settle_many(
    store: &mut Store,
    keys: &Keys,
    [step, most]: [&str; 2],
    reason: Option<&str>,
    found: &[Vec<u8>],
    dry_run: bool,
) -> Result<Answer> {
    let step = [most, step, "", reason.unwrap_or_default()];
    let rest: Vec<&[u8]> = iter::once(&b""[..]).chain(found.iter().map(Vec::as_slice)).collect();
    let call = SingleCall::settle(store, Recovery::SameCall, step, &rest, dry_run);
    store.servers.send(&[call.call(keys, Modes::of_activity(dry_run))], None, None)
}
