//! Reads all that an audit of a sharded activity needs: each shard as any activity, and the other sides of transfers that came too
//! late for one of them.

use redis::Value;

use crate::audit::evidence::Evidence;
use crate::audit::judgement::sharded::{ShardEvidence, ShardedEvidence};
use crate::audit::ledger_state::Compared;
use crate::audit::ledger_state::transfers::{CutChange, Direction, TransferEntry, TransferSide, Transfers};
use crate::audit::read;
use crate::error::Result;
use crate::model::ledger::Op;
use crate::model::number::signed;
use crate::model::{ActivityId, EntryId, Meta, Shards};
use crate::read::{ledger, snapshot};
use crate::script::reply::Reply;
use crate::store::Store;

/// What must not change during an audit.
#[derive(PartialEq)]
struct Sale {
    total: u64,
    epoch: u64,
    shards: Option<Shards>,
    /// A preheat that has not come to its end.
    plan: Option<String>,
}

/// All evidence about a sharded activity, whose `shards` are known. `total` is what the caller says it has; `compared` gives what
/// the users of a shard are compared with besides.
///
/// # Errors
/// Any of `StoreError`; what is missing or corrupt is part of the evidence.
pub fn audit_shards(
    store: &mut Store,
    activity: &ActivityId,
    shards: &Shards,
    total: Option<u64>,
    mut compared: impl FnMut(&ActivityId) -> Option<Compared>,
) -> Result<ShardedEvidence> {
    let before = sale(store, activity)?;
    let mut parts = Vec::with_capacity(shards.count());
    for shard in shards.ids(activity) {
        parts.push(ShardEvidence::new(read::audit(store, &shard, None, compared(&shard))?));
    }
    let mut found = ShardedEvidence {
        activity: activity.clone(),
        shards: shards.clone(),
        total: before.as_ref().map_or(0, |sale| sale.total),
        given: total,
        epoch: before.as_ref().map_or(0, |sale| sale.epoch),
        is_changing: before.as_ref().is_none_or(|sale| sale.plan.is_some() || sale.shards.as_ref() != Some(shards)),
        parts,
    };
    // One side of a transfer was read before the other side is looked for here, so what was lent is found.
    let missing = found.missing();
    // Of a shard that is gone, or corrupt, nothing more can be read.
    let is_there = |part: &ShardEvidence| part.evidence.end.is_some();
    for (part, missing) in found.parts.iter_mut().zip(&missing).filter(|(part, _)| is_there(part)) {
        if !look_for(store, part, missing)? {
            note_trim(store, &mut part.evidence)?;
        }
    }
    for part in found.parts.iter_mut().filter(|part| is_there(part)) {
        part.cut = cut_change(store, &part.evidence.activity)?;
    }
    let gone: Vec<&mut ShardEvidence> = found.parts.iter_mut().filter(|part| !is_there(part)).collect();
    let names: Vec<ActivityId> = gone.iter().map(|part| part.evidence.activity.clone()).collect();
    for (part, snapshot) in gone.into_iter().zip(snapshot::snapshots(store, &names)?) {
        part.is_archived = snapshot.is_archived();
    }
    found.is_changing |= sale(store, activity)? != before;
    if !found.is_changing && found.planned() != Some(signed(found.total)) {
        // An update that was undone meanwhile, by itself or by another one, leaves the parent as it was.
        for ShardEvidence { evidence, .. } in found.parts.iter_mut().filter(|part| is_there(part)) {
            found.is_changing |= is_updated(store, &evidence.activity, evidence.ledger.end)?;
            note_trim(store, evidence)?;
        }
    }
    Ok(found)
}

/// Whether a shard's ledger has an update behind an entry.
fn is_updated(store: &mut Store, shard: &ActivityId, after: EntryId) -> Result<bool> {
    let (key, mut is_updated) = (store.keys(shard).ledger, false);
    ledger::each_entry_of(store, &key, after, EntryId::LAST, |entry| {
        is_updated = entry.known_op() == Some(Op::Update);
        !is_updated
    })?;
    Ok(is_updated)
}

/// How many transfers a shard began whose units may not have arrived.
///
/// # Errors
/// Any of `StoreError`.
pub(crate) fn open_transfers(store: &mut Store, shard: &ActivityId) -> Result<usize> {
    let key = store.keys(shard).requests;
    let value = store.servers.command(&key, redis::cmd("HGET").arg(&key).arg("\tlent"))?;
    let lent = Reply::of_command("HGET").text(Some(&value))?;
    Ok(lent.map_or(0, |ids| ids.split(' ').filter(|id| !id.is_empty()).count()))
}

/// What the parent says of the sale as a whole.
fn sale(store: &mut Store, activity: &ActivityId) -> Result<Option<Sale>> {
    let key = store.keys(activity).meta;
    let value = store.servers.command(&key, redis::cmd("HGET").arg(&key).arg("plan"))?;
    let plan = Reply::of_command("HGET").text(Some(&value))?;
    let meta = snapshot::snapshot(store, activity)?.meta;
    Ok(meta.map(|Meta { total, epoch, shards, .. }| Sale { total, epoch, shards, plan }))
}

/// Takes note that entries of a shard behind those that were read may be gone.
fn note_trim(store: &mut Store, shard: &mut Evidence) -> Result<()> {
    let Some(end) = shard.end.as_ref().filter(|_| shard.settled) else { return Ok(()) };
    if read::ledger_began_anew(store, &shard.activity, end)? {
        shard.settled = false;
        shard.notes.push("its ledger was trimmed behind what was read".to_owned());
    }
    Ok(())
}

/// Adds transfers that a shard's ledger has behind what was read, until these are among them or it ends, and says whether all are. A
/// record of a transfer would not do: it proves only that something was begun.
fn look_for(store: &mut Store, shard: &mut ShardEvidence, missing: &[TransferSide]) -> Result<bool> {
    let ShardEvidence { evidence, later: found, .. } = shard;
    let is_found = |found: &Transfers| missing.iter().all(|side| found.get(side).is_some());
    if is_found(found) {
        return Ok(true);
    }
    let key = store.keys(&evidence.activity).ledger;
    ledger::each_entry_of(store, &key, evidence.ledger.end, EntryId::LAST, |entry| {
        if let Some(direction) = entry.known_op().and_then(Direction::of)
            && let Ok((id, transfer)) = TransferEntry::read(entry)
        {
            found.add(direction, id, transfer);
        }
        !is_found(found)
    })?;
    Ok(is_found(found))
}

/// The change of a shard's total that a cut left, if there is one.
fn cut_change(store: &mut Store, shard: &ActivityId) -> Result<Option<CutChange>> {
    let key = store.keys(shard).requests;
    let reply = Reply::of_command("HGET");
    match store.servers.command(&key, redis::cmd("HGET").arg(&key).arg("\tmoving"))? {
        Value::BulkString(text) => {
            CutChange::read(&text).map(Some).ok_or_else(|| reply.invalid(String::from_utf8_lossy(&text)))
        }
        _ => Ok(None),
    }
}
