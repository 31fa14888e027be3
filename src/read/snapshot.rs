//! Activities as they are at one instant.

use redis::Value;

use crate::error::Result;
use crate::model::activity::Archived;
use crate::model::number::{MAX_UNITS, whole};
use crate::model::{
    ActivityId, Bought, Checkpoint, Corrupt, EntryId, Meta, Millis, PackedRules, ShardPlan, Snapshot, Status,
    StoredState, UserId,
};
use crate::redis::call::Call;
use crate::script::SNAPSHOT;
use crate::script::keys::Keys;
use crate::script::reply::{Reply, corrupt};
use crate::store::Store;

/// One activity at one instant.
///
/// # Errors
/// Any of `StoreError`; what is missing or corrupt is a status.
pub(crate) fn snapshot(store: &mut Store, activity: &ActivityId) -> Result<Snapshot> {
    Ok(bought(store, activity, &[])?.0)
}

/// One activity, and what some users hold at that same instant: `None` for nobody that is recorded.
///
/// # Errors
/// Any of `StoreError`; a record that is no number is `corrupt` in the snapshot.
pub(crate) fn bought(
    store: &mut Store,
    activity: &ActivityId,
    users: &[UserId],
) -> Result<(Snapshot, Vec<Option<Bought>>)> {
    let keys = store.keys(activity);
    let users: Vec<&[u8]> = users.iter().map(|user| user.as_str().as_bytes()).collect();
    let value = store.servers.call(&snapshot_call(store, &keys, &users))?;
    let SnapshotReply { mut snapshot, held, .. } = read_snapshot(activity, value, &keys)?;
    let reply = Reply::of(&SNAPSHOT);
    let mut bought = Vec::with_capacity(held.len());
    for value in held {
        match reply.bought(Some(&value)) {
            Ok(units) => bought.push(units),
            Err(_) => {
                let text = reply.text(Some(&value))?;
                snapshot.status = Status::Corrupt;
                let number = if keys.units.is_some() { 6 } else { 5 };
                snapshot.corrupt = Some(corrupt(&keys, number, text.as_deref()));
                return Ok((snapshot, Vec::new()));
            }
        }
    }
    Ok((snapshot, bought))
}

/// Several activities, each at its own instant.
///
/// # Errors
/// Any of `StoreError`.
pub(crate) fn snapshots(store: &mut Store, activities: &[ActivityId]) -> Result<Vec<Snapshot>> {
    each_snapshot(store, activities).into_iter().collect()
}

/// The same, with why there is none of those whose server does not reply.
pub(crate) fn each_snapshot(store: &mut Store, activities: &[ActivityId]) -> Vec<Result<Snapshot>> {
    let keys: Vec<Keys> = activities.iter().map(|activity| store.keys(activity)).collect();
    let calls: Vec<Call> = keys.iter().map(|keys| snapshot_call(store, keys, &[])).collect();
    let answers = store.servers.call_all(&calls).into_iter().zip(activities).zip(&keys);
    answers.map(|((answer, activity), keys)| Ok(read_snapshot(activity, answer?.value(), keys)?.snapshot)).collect()
}

/// Whether entries or users may have been removed between two snapshots: by a reset, an archive, or a trim of entries behind `after`.
pub(crate) fn may_lack_rows(before: &Snapshot, now: &Snapshot, after: EntryId) -> bool {
    let of = |meta: &Meta| {
        // That of an adoption removes nothing.
        let checkpoint = meta.checkpoint.as_ref().filter(|checkpoint| checkpoint.removed > 0);
        let trimmed = checkpoint.map_or(after, |checkpoint| checkpoint.upto.max(after));
        (meta.epoch, meta.stored_state == StoredState::Archived, trimmed)
    };
    // Without a meta before, nothing says so.
    before.meta.as_ref().is_some_and(|before| now.meta.as_ref().is_none_or(|now| of(before) != of(now)))
}

/// The call of the script snapshot.
pub(crate) fn snapshot_call(store: &Store, keys: &Keys, users: &[&[u8]]) -> Call {
    let kind = store.kind().into_bytes();
    Call::script(&SNAPSHOT, keys.in_order(), std::iter::once(kind).chain(users.iter().map(|user| user.to_vec())))
}

/// What the script snapshot replied.
pub(crate) struct SnapshotReply {
    pub snapshot: Snapshot,
    /// What each user that was asked for holds, as it is stored: `Nil` is nothing.
    pub held: Vec<Value>,
    /// A checkpoint that is none, which concerns only those that read the ledger.
    pub invalid_checkpoint: Option<Corrupt>,
}

/// Reads the reply of the script snapshot.
///
/// # Errors
/// A reply that no header names.
pub(crate) fn read_snapshot(activity: &ActivityId, value: Value, keys: &Keys) -> Result<SnapshotReply> {
    let reply = Reply::of(&SNAPSHOT);
    let mut values = reply.array(value)?;
    let status = reply.status(values.first())?;
    let mut snapshot = Snapshot {
        activity: activity.clone(),
        status,
        corrupt: None,
        stock: None,
        meta: None,
        buyers: None,
        ledger_last: None,
        ledger_length: None,
        at: Millis::new(reply.count(values.get(1))?.unwrap_or_default()),
        sums: None,
        lost_users: None,
        is_unfinished: false,
    };
    if status == Status::Corrupt {
        snapshot.corrupt = Some(reply.corrupt(&values, keys)?);
        return Ok(SnapshotReply { snapshot, held: Vec::new(), invalid_checkpoint: None });
    }
    let Some(Value::Array(held)) = values.pop() else { return Err(reply.invalid(&values)) };
    let [_, _, stock, Value::Array(meta), buyers, last, length] = &values[..] else {
        return Err(reply.invalid(&values));
    };
    snapshot.ledger_length = reply.count(Some(length))?;
    let mut invalid_checkpoint = None;
    if let Some(text) = text(&reply, meta, "checkpoint").filter(|text| Checkpoint::read(text).is_none()) {
        invalid_checkpoint = Some(corrupt(keys, 2, Some(&text)));
    }
    match read_meta(&reply, meta) {
        Ok(meta) => {
            let withdrawn = meta.as_ref().and_then(|meta| meta.withdrawn).unwrap_or_default();
            snapshot.stock = reply.count(Some(stock))?.map(|stock| stock + withdrawn);
            // One whose total nobody knows until its adoption is at its end.
            let known = |meta: Meta| match meta.is_adopting && meta.total == MAX_UNITS {
                true => Meta { total: snapshot.stock.unwrap_or(withdrawn), ..meta },
                false => meta,
            };
            snapshot.meta = meta.map(known);
        }
        Err((field, value)) => {
            snapshot.status = Status::Corrupt;
            let what = format!("holds `{}` as `{field}`: expected a whole number", value.escape_debug());
            snapshot.corrupt = Some(Corrupt { key: keys.meta.clone(), what });
            return Ok(SnapshotReply { snapshot, held: Vec::new(), invalid_checkpoint });
        }
    }
    snapshot.buyers = if keys.participants.is_some() { reply.count(Some(buyers))? } else { None };
    // Of one in files its meta says what there was.
    if snapshot.is_archived() && status == Status::NotPreheated {
        let archived = snapshot.meta.as_ref().and_then(|meta| meta.archived.as_ref());
        (snapshot.stock, snapshot.buyers) = archived.map_or((None, None), |it| (Some(it.stock), it.buyers));
        snapshot.status = Status::Ok;
    }
    // What was begun is finished by the next call, or says that the next purchase is the first one.
    match text(&reply, meta, "begun") {
        Some(begun) => snapshot.is_unfinished = begun.starts_with("begun "),
        None => snapshot.lost_users = lost_users(&snapshot, keys),
    }
    let last = reply.text(Some(last))?.map(|id| id.parse());
    snapshot.ledger_last = last.transpose().map_err(|why: String| reply.invalid(why))?;
    Ok(SnapshotReply { snapshot, held, invalid_checkpoint })
}

/// The key of participants, if nobody is recorded though units were sold: `lua/lib/first_user.lua` refuses purchases then.
fn lost_users(snapshot: &Snapshot, keys: &Keys) -> Option<Corrupt> {
    let meta = snapshot.meta.as_ref().filter(|_| !snapshot.is_archived())?;
    let is_lost = snapshot.buyers == Some(0) && snapshot.stock? < meta.total;
    is_lost.then(|| corrupt(keys, 5, Some("nothing, though units were sold")))
}

/// A field that the script does not check, and what it holds instead of a whole number.
type NoNumber = (&'static str, String);

/// The text of a field in the flat list of a meta.
fn text(reply: &Reply<'_>, flat: &[Value], name: &str) -> Option<String> {
    reply.text(Reply::field(flat, name)).ok().flatten()
}

/// The number in a field of it.
fn count(reply: &Reply<'_>, flat: &[Value], name: &'static str) -> Result<Option<u64>, NoNumber> {
    let Some(text) = text(reply, flat, name) else { return Ok(None) };
    whole(&text).map(Some).ok_or((name, text))
}

/// Reads the flat list of a meta, whose rules the script checked; an empty one is none.
fn read_meta(reply: &Reply<'_>, flat: &[Value]) -> Result<Option<Meta>, NoNumber> {
    let text = |name| text(reply, flat, name);
    let Some(rules) = text("rules").and_then(|text| text.parse::<PackedRules>().ok()) else { return Ok(None) };
    let checkpoint = text("checkpoint").and_then(|text| Checkpoint::read(&text));
    Ok(Some(Meta {
        total: rules.total,
        per_user_limit: rules.per_user_limit,
        title: text("title").unwrap_or_default(),
        starts_at: rules.starts_at,
        ends_at: rules.ends_at,
        stored_state: rules.state,
        ledger: rules.ledger,
        epoch: rules.epoch,
        repairs: count(reply, flat, "repairs")?.unwrap_or_default(),
        checkpoint: checkpoint.filter(|checkpoint| checkpoint.epoch == rules.epoch),
        withdrawn: count(reply, flat, "withdrawn")?,
        is_adopting: text("adopt").is_some(),
        holds: count(reply, flat, "holds")?.unwrap_or_default(),
        archived: text("archive").and_then(|text| Archived::read(&text)),
        shards: text("shards").and_then(|text| text.parse().ok()),
        plan: text("plan").and_then(|text| ShardPlan::read(&text)),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_lack_after_a_reset_an_archive_a_loss_or_a_trim_behind_an_entry() {
        let of = |meta| Snapshot { meta, ..Snapshot::sample("1", Some(5)) };
        let before = || Meta { epoch: 1, ..Meta::default() };
        let lack = |meta, after: &str| may_lack_rows(&of(Some(before())), &of(meta), after.parse().unwrap());
        let trimmed = || {
            let checkpoint = Checkpoint::read("7 x 1 1 8-0 7-0 8 9 3 1 me");
            assert!(checkpoint.is_some());
            Some(Meta { checkpoint, ..before() })
        };
        let paused = Meta { stored_state: StoredState::Paused, total: 7, ..before() };
        let adopted = Meta { checkpoint: Checkpoint::read("0 x 1 1 8-0 7-0 8 9 3 1 me"), ..before() };
        assert!(!lack(Some(paused), "0-0") && !lack(trimmed(), "7-0") && !lack(Some(adopted), "0-0"));
        assert!(lack(trimmed(), "6-9") && lack(None, "0-0") && lack(Some(Meta { epoch: 2, ..before() }), "7-0"));
        assert!(lack(Some(Meta { stored_state: StoredState::Archived, ..before() }), "7-0"));
        assert!(!may_lack_rows(&of(None), &of(Some(before())), EntryId::ZERO));
    }
}
