//! Open holds, in the order of their deadlines, and what users hold open.

use std::collections::{BTreeSet, HashMap};
use std::fmt::Display;

use redis::Value;

use crate::error::{Result, StoreError};
use crate::model::number::signed;
use crate::model::order::hold::OpenHold;
use crate::model::{ActivityId, HoldRecord, HoldState, Snapshot, UserId};
use crate::read::snapshot;
use crate::redis::scan::Scan;
use crate::script::keys::Keys;
use crate::script::reply::Reply;
use crate::store::Store;

/// Open holds of one page.
const PAGE: usize = 500;

/// How long an overdue hold that cannot be ended is left alone, ms: it is later among the deadlines by that (`rare_work.lua`).
const LEFT_ALONE: u64 = 5000;

/// Gives each open hold of an activity, by deadline; with `overdue` those alone whose deadline is over by the server's clock.
/// Those that are settled meanwhile may be missing.
///
/// # Errors
/// Any of [`StoreError`].
pub(crate) fn open_holds<E: From<StoreError>>(
    store: &mut Store,
    activity: &ActivityId,
    overdue: bool,
    mut each: impl FnMut(OpenHold) -> Result<(), E>,
) -> Result<(), E> {
    let keys = store.keys(activity);
    let Some(deadlines) = keys.deadlines.clone() else { return Ok(()) };
    let now = if overdue { Some(snapshot::snapshot(store, activity)?.at) } else { None };
    let upto = now.map_or("+inf".to_owned(), |now| (now.get() + LEFT_ALONE).to_string());
    let reply = Reply::of_command("ZRANGEBYSCORE");
    let (mut from, mut seen) = ("-inf".to_owned(), Vec::<String>::new());
    loop {
        let mut command = redis::cmd("ZRANGEBYSCORE");
        // Those that were seen at the last deadline of the page before come again.
        command.arg(&deadlines).arg(&from).arg(&upto).arg("WITHSCORES").arg("LIMIT").arg(0).arg(PAGE + seen.len());
        let page = reply.array(store.servers.command(&deadlines, &command)?)?;
        let mut found = Vec::with_capacity(page.len() / 2);
        for pair in page.chunks(2) {
            let score = score(pair.get(1)).ok_or_else(|| reply.invalid(pair))?;
            found.push((reply.text(pair.first())?.unwrap_or_default(), score));
        }
        let Some((_, last)) = found.last().cloned() else { return Ok(()) };
        let is_end = found.len() < PAGE + seen.len();
        let new: Vec<String> = found.iter().map(|(id, _)| id.clone()).filter(|id| !seen.contains(id)).collect();
        for (request, record) in new.iter().zip(hold_records(store, &keys, &new)?) {
            let is_wanted = |record: &HoldRecord| {
                record.state == HoldState::Held && now.is_none_or(|now| record.deadline.get() <= now.get())
            };
            if let Some(record) = record.filter(is_wanted) {
                each(OpenHold { request: request.clone(), record })?;
            }
        }
        if is_end {
            return Ok(());
        }
        if from == last {
            seen.extend(new);
        } else {
            seen = found.into_iter().filter(|(_, score)| *score == last).map(|(id, _)| id).collect();
        }
        from = last;
    }
}

/// The request ids of open holds, by their records, at most one more than `most`: of all of the activity, because its deadlines may
/// not name them.
///
/// # Errors
/// Any of [`StoreError`].
pub(crate) fn recorded_holds(store: &mut Store, keys: &Keys, most: u64) -> Result<Vec<Vec<u8>>> {
    // A scan may report a field twice.
    let mut found = BTreeSet::new();
    store.servers.scan(Scan::Hash(&keys.requests), |pairs| {
        for pair in pairs.chunks_exact(2) {
            // A count names one that is damaged.
            let is_open = || HoldRecord::read(pair[1]).is_none_or(|record| record.state == HoldState::Held);
            match pair[0].strip_prefix(b"\th:") {
                Some(request) if found.len() as u64 <= most && is_open() => _ = found.insert(request.to_vec()),
                _ => (),
            }
        }
        Ok::<_, StoreError>(())
    })?;
    Ok(found.into_iter().collect())
}

/// What is stored of the holds with some ids.
pub(crate) fn hold_records<I: Display>(
    store: &mut Store,
    keys: &Keys,
    ids: impl IntoIterator<Item = I>,
) -> Result<Vec<Option<HoldRecord>>> {
    let fields: Vec<String> = ids.into_iter().map(|id| format!("\th:{id}")).collect();
    if fields.is_empty() {
        return Ok(Vec::new());
    }
    let records = store.servers.fields(&keys.requests, fields)?.into_iter();
    Ok(records.map(|record| HoldRecord::read(&record?)).collect())
}

/// Units that some users hold open; 0 of what is stored as no number, which an audit finds.
pub(crate) fn open_units(store: &mut Store, keys: &Keys, users: &[&[u8]]) -> Result<Vec<i64>> {
    let fields = users.iter().map(|user| [b"\to:", *user].concat());
    let units = |text: Option<Vec<u8>>| {
        let stored = Reply::of_command("HMGET").count(text.map(Value::BulkString).as_ref());
        stored.ok().flatten().and_then(|units| i64::try_from(units).ok()).unwrap_or(0)
    };
    Ok(store.servers.fields(&keys.requests, fields)?.into_iter().map(units).collect())
}

/// Units that some users hold open of an activity, in their order.
///
/// # Errors
/// Any of [`StoreError`].
pub(crate) fn held_open(store: &mut Store, snapshot: &Snapshot, users: &[UserId]) -> Result<Vec<u64>> {
    if users.is_empty() || snapshot.meta.as_ref().is_none_or(|meta| meta.holds == 0) {
        return Ok(vec![0; users.len()]);
    }
    let keys = store.keys(&snapshot.activity);
    let users: Vec<&[u8]> = users.iter().map(|user| user.as_str().as_bytes()).collect();
    let open = open_units(store, &keys, &users)?;
    Ok(open.into_iter().map(|units| u64::try_from(units).unwrap_or_default()).collect())
}

/// Units that each user holds open, by the holds themselves.
pub(crate) fn open_by_user(store: &mut Store, activity: &ActivityId) -> Result<HashMap<Vec<u8>, i64>> {
    let mut open = HashMap::new();
    open_holds(store, activity, false, |hold| {
        *open.entry(hold.record.user.as_bytes().to_vec()).or_default() += signed(hold.record.quantity);
        Ok::<_, StoreError>(())
    })?;
    Ok(open)
}

/// A score as it is sent to ask for it again.
fn score(value: Option<&Value>) -> Option<String> {
    match value {
        Some(Value::BulkString(text)) => std::str::from_utf8(text).ok().map(str::to_owned),
        Some(Value::Double(number)) => Some(format!("{number:.0}")),
        _ => None,
    }
}
