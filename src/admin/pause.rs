//! Pause and resume: of an activity, or of a sharded one, its shards one by one, then the parent. The same command finishes one
//! that was cut.

use crate::admin::parent::{self, ParentRecord};
use crate::error::{Recovery, Result, StoreError};
use crate::model::activity::whole;
use crate::model::{ActivityId, Corrupt, Layout, Meta, PackedRules, Snapshot, State, Status, StoredState};
use crate::read::snapshot;
use crate::redis::call::{Call, RetrySafety};
use crate::script::PAUSE;
use crate::script::reply::Reply;
use crate::sell::orders;
use crate::shards::NUMBERS;
use crate::store::Store;

/// How often others may change the parent before this gives up.
const TRIES: usize = 100;

/// Whether purchases are refused or allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pause {
    /// They are refused.
    Pause {
        /// Also by scripts of a backend, which look at the stock alone: it is moved out of their reach.
        withdraw_stock: bool,
    },
    /// They are allowed again, and a withdrawn stock returns.
    Resume,
}

/// How a pause or a resume of one activity ended.
#[derive(Debug, Clone)]
pub(crate) struct Paused {
    /// How it ended.
    pub status: Status,
    /// Where the activity is in its life afterwards; `None` if it was refused.
    pub state: Option<String>,
    /// Units that were withdrawn, or returned.
    pub moved: u64,
    /// Whether it is `not_preheated` because another system created it.
    pub is_foreign: bool,
    /// What is `not_preheated` because its stock key is gone, so that no units can move: the activity, or a shard.
    pub lost_stock: Option<ActivityId>,
    /// Whether it is `not_preheated` because a preheat of its shards is unfinished.
    pub is_unfinished: bool,
    /// Whether a shard refused it, or was not reached, and others are paused nevertheless.
    pub is_partial: bool,
    /// Why a shard was not reached; the status is that of the others.
    pub unreached: Option<StoreError>,
    /// Which key is corrupt.
    pub corrupt: Option<Corrupt>,
}

impl Paused {
    /// Nothing changed.
    pub(crate) fn refused(status: Status) -> Self {
        let (is_foreign, is_unfinished, is_partial) = (false, false, false);
        let (state, lost_stock, unreached, corrupt) = (None, None, None, None);
        Self { status, state, moved: 0, is_foreign, lost_stock, is_unfinished, is_partial, unreached, corrupt }
    }
}

/// What is done to an activity, and why. With `dry_run` nothing is written.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pausing<'a> {
    pub to: Pause,
    pub reason: Option<&'a str>,
    pub dry_run: bool,
}

/// Pauses an activity, or resumes it.
///
/// # Errors
/// Any of [`StoreError`]; refusals are statuses. The shards that are reached are paused nevertheless.
pub(crate) fn set_paused(store: &mut Store, activity: &ActivityId, pausing: Pausing<'_>) -> Result<Paused> {
    let mut paused = set_reached(store, activity, pausing)?;
    paused.unreached.take().map_or(Ok(paused), Err)
}

/// The same, with what became of the other shards if some are not reached.
///
/// # Errors
/// Any of [`StoreError`]: nothing is paused.
pub(crate) fn set_reached(store: &mut Store, activity: &ActivityId, pausing: Pausing<'_>) -> Result<Paused> {
    let paused = match pause_one(store, activity, pausing) {
        Err(why) if pausing.to != Pause::Resume && may_have_shards(store, activity) && !why.is_of_call() => {
            return pause_found(store, activity, pausing, why);
        }
        paused => paused?,
    };
    if paused.status != Status::Sharded {
        return Ok(paused);
    }
    match pause_sharded(store, activity, pausing)? {
        Some(paused) => Ok(paused),
        // It has no shards any more.
        None => pause_one(store, activity, pausing),
    }
}

/// Whether an activity may be a sharded one.
fn may_have_shards(store: &Store, activity: &ActivityId) -> bool {
    store.layout() == Layout::Cluster && activity.parent().is_none()
}

/// The same for an activity without shards, or one shard; `sharded` if it has shards.
fn pause_one(store: &mut Store, activity: &ActivityId, pausing: Pausing<'_>) -> Result<Paused> {
    let keys = store.keys(activity);
    let Pausing { to, reason, dry_run } = pausing;
    let (state, withdraw) = match to {
        Pause::Pause { withdraw_stock } => ("paused", withdraw_stock),
        Pause::Resume => ("live", false),
    };
    let flag = |is_set: bool| if is_set { "1" } else { "0" };
    let arguments = [state, &store.operator, reason.unwrap_or_default(), flag(dry_run), flag(withdraw)];
    let call = Call::script(&PAUSE, keys.in_order(), arguments);
    let call = match to {
        _ if dry_run => call,
        Pause::Pause { .. } => call.repeatable(),
        // Sent twice, it would end a pause that came in between.
        Pause::Resume => call
            .with_safety(RetrySafety::AtMostOnce)
            .recovered_by(Recovery::Inspect(store.layout().whole(activity).to_string())),
    };
    let value = store.servers.call(&call)?;
    let reply = Reply::of(&PAUSE);
    let (status, corrupt, values) = reply.with_status(value, &keys)?;
    if (status.is_done() || status == Status::PausedHereOnly) && !dry_run {
        store.changed(activity);
    }
    let mut paused = Paused { corrupt, ..Paused::refused(status) };
    match status {
        Status::Corrupt | Status::Exists | Status::Sharded => {}
        Status::NotPreheated => {
            paused.is_foreign = reply.text(values.get(2))?.is_some();
            paused.lost_stock = reply.text(values.get(1))?.map(|_| activity.clone());
        }
        _ => {
            paused.state = reply.text(values.get(1))?;
            paused.moved = reply.count(values.get(2))?.unwrap_or_default();
        }
    }
    Ok(paused)
}

/// Pauses those shards of an activity that are reached, if some are: which it has, nobody says, as the activity itself is not reached.
fn pause_found(store: &mut Store, activity: &ActivityId, pausing: Pausing<'_>, why: StoreError) -> Result<Paused> {
    let ids: Vec<ActivityId> = (0..NUMBERS).map(|number| activity.shard(number)).collect();
    let is_there =
        |shard: &Snapshot| shard.meta.as_ref().is_some_and(|meta| !meta.is_removed()) && !shard.is_archived();
    let found = snapshot::each_snapshot(store, &ids).into_iter().flatten().filter(is_there);
    let shards = found.map(|shard| (shard.activity.clone(), Ok(shard))).collect::<Vec<_>>();
    let mut result = Paused { unreached: Some(why.clone()), ..Paused::refused(Status::Replayed) };
    pause_shards(store, shards, None, pausing, &mut result)?.filter(|paused| paused.is_partial).ok_or(why)
}

/// Pauses or resumes shards one by one: `None` if all are then. A resume ends with the first that refuses it, or is not reached, and says
/// that those before it sell; others may be `lost`, or not reached, before.
fn pause_shards(
    store: &mut Store,
    shards: impl IntoIterator<Item = (ActivityId, Result<Snapshot>)>,
    lost: Option<Paused>,
    pausing: Pausing<'_>,
    result: &mut Paused,
) -> Result<Option<Paused>> {
    let (mut states, mut refused) = (Vec::new(), lost);
    for (shard, found) in shards {
        match found.and_then(|_| pause_one(store, &shard, pausing)) {
            Ok(paused) if paused.status.is_done() => {
                result.status = if paused.status == Status::Ok { Status::Ok } else { result.status };
                result.moved += paused.moved;
                states.extend(paused.state);
            }
            paused if pausing.to == Pause::Resume && (states.is_empty() || pausing.dry_run) => return paused.map(Some),
            // What is there must not sell, whatever became of the others.
            Ok(paused) => refused = refused.or(Some(paused)),
            Err(error) => _ = result.unreached.get_or_insert(error),
        }
        if pausing.to == Pause::Resume && (refused.is_some() || result.unreached.is_some()) {
            break;
        }
    }
    result.state = whole::state(&states);
    let unreached = result.unreached.take();
    if refused.is_none() && unreached.is_none() {
        return Ok(None);
    }
    let refused = refused.unwrap_or_else(|| Paused::refused(result.status));
    Ok(Some(Paused { is_partial: !states.is_empty(), moved: result.moved, unreached, ..refused }))
}

/// Pauses or resumes all shards, and lets the parent say so. `None` if the activity is no parent any more.
fn pause_sharded(store: &mut Store, activity: &ActivityId, pausing: Pausing<'_>) -> Result<Option<Paused>> {
    let state = if pausing.to == Pause::Resume { StoredState::Live } else { StoredState::Paused };
    let (mut result, mut is_resumed) = (Paused::refused(Status::Replayed), false);
    for _ in 0..TRIES {
        let mut parent = parent::read_parent(store, activity)?;
        if !parent.is_parent() {
            return Ok(None);
        }
        let record = match parent.record(&store.keys(activity).meta) {
            Ok(record) => record,
            Err(corrupt) => return Ok(Some(Paused { corrupt: Some(corrupt), ..Paused::refused(Status::Corrupt) })),
        };
        let Some(shards) = record.shards.clone() else {
            return Ok(Some(Paused { is_unfinished: true, ..Paused::refused(Status::NotPreheated) }));
        };
        let ids: Vec<ActivityId> = shards.ids(activity).collect();
        let found = snapshot::each_snapshot(store, &ids);
        if let (Pause::Resume, Some(Err(error))) = (pausing.to, found.iter().find(|shard| shard.is_err())) {
            return Err(error.clone());
        }
        let is_gone =
            |shard: &Snapshot| shard.status != Status::Corrupt && shard.meta.as_ref().is_none_or(Meta::is_removed);
        let lost = found.iter().flatten().any(is_gone).then(|| {
            let corrupt = orders::names_lost_shard(store, activity);
            Paused { corrupt: Some(corrupt), ..Paused::refused(Status::Corrupt) }
        });
        // A reset may have removed it since.
        if lost.is_some() && store.shards_of(activity)?.as_ref() != Some(&shards) {
            continue;
        }
        // The others would sell without it.
        if pausing.to == Pause::Resume && (lost.is_some() || found.iter().flatten().any(Snapshot::is_archived)) {
            let archived =
                || Paused { state: Some(State::Archived.name().to_owned()), ..Paused::refused(Status::Ended) };
            return Ok(Some(lost.unwrap_or_else(archived)));
        }
        // Nor if one of them refuses it.
        if pausing.to == Pause::Resume && !pausing.dry_run {
            let shards = ids.iter().cloned().zip(found.iter().cloned());
            let (dry_run, mut dry_result) = (Pausing { dry_run: true, ..pausing }, Paused::refused(Status::Replayed));
            if let Some(refused) = pause_shards(store, shards, None, dry_run, &mut dry_result)? {
                return Ok(Some(refused));
            }
            // All were resumed before, so one was paused since: another resume would undo that.
            if is_resumed && dry_result.status == Status::Ok {
                let is_partial = found
                    .iter()
                    .flatten()
                    .any(|shard| shard.meta.as_ref().is_some_and(|meta| meta.stored_state == StoredState::Live));
                return Ok(Some(Paused { is_partial, moved: result.moved, ..Paused::refused(Status::Paused) }));
            }
        }
        if let Some(refused) = pause_shards(store, ids.into_iter().zip(found), lost, pausing, &mut result)? {
            return Ok(Some(refused));
        }
        if record.rules.state == state {
            return Ok(Some(result));
        }
        result.status = Status::Ok;
        let rules = PackedRules { state, ..record.rules };
        if pausing.dry_run
            || parent::change_parent(store, activity, &mut parent, &ParentRecord { rules, ..record }, false)?
        {
            return Ok(Some(result));
        }
        is_resumed = true;
    }
    Err(StoreError::GaveUp(format!("others keep changing `{activity}`")))
}
