//! An activity at one instant, with what some users hold: the stock, the rules and the ledger's end, as an audit needs them.

use redis::Value;

use crate::audit::evidence::{ActivityView, Rules};
use crate::audit::read::held_by::ScannedPage;
use crate::error::StoreError;
use crate::model::activity::{Meta, Snapshot};
use crate::model::id::ActivityId;
use crate::model::ledger::Entry;
use crate::model::order::Corrupt;
use crate::model::status::Status;
use crate::read::snapshot::{SnapshotReply, read_snapshot, snapshot_call};
use crate::store::Store;

/// An activity as a whole.
pub(crate) struct Seen {
    /// `not_preheated` if there is neither stock nor meta, or it is archived; `corrupt`; or `ok`.
    pub status: Status,
    pub corrupt: Option<Corrupt>,
    pub view: ActivityView,
}

/// A page of its participants, and what it was at that instant.
pub(crate) struct ParticipantsPage {
    pub seen: Seen,
    /// What the ledger has of late, if that comes along.
    pub entries: Vec<Entry>,
    pub held: ScannedPage,
}

/// An activity, and what each of some users holds: `Nil` is nothing.
///
/// # Errors
/// Any of [`StoreError`]; what is missing or corrupt is a status.
pub(crate) fn see<U: AsRef<[u8]>>(
    store: &mut Store,
    activity: &ActivityId,
    users: &[U],
) -> Result<(Seen, Vec<Value>), StoreError> {
    let keys = store.keys(activity);
    let value = store.servers.call(&snapshot_call(store, &keys, users))?;
    let SnapshotReply { snapshot, length, held, invalid_checkpoint } = read_snapshot(activity, value, &keys)?;
    let mut seen = seen(snapshot, length);
    if let Some(corrupt) = invalid_checkpoint {
        (seen.status, seen.corrupt) = (Status::Corrupt, Some(corrupt));
    }
    Ok((seen, held))
}

fn seen(snapshot: Snapshot, length: Option<u64>) -> Seen {
    let is_there = !snapshot.is_archived() && (snapshot.stock.is_some() || snapshot.meta.is_some());
    let status = match snapshot.corrupt {
        Some(_) => Status::Corrupt,
        None if is_there => Status::Ok,
        None => Status::NotPreheated,
    };
    let Snapshot { corrupt, stock, meta, ledger_last, at, .. } = snapshot;
    let rules = meta.as_ref().map(|meta| Rules {
        total: meta.total,
        per_user_limit: meta.per_user_limit,
        epoch: meta.epoch,
        repairs: meta.repairs,
        ledger: meta.ledger,
        withdrawn: meta.withdrawn,
        holds: meta.holds,
    });
    let checkpoint = meta.and_then(|Meta { checkpoint, .. }| checkpoint);
    let removed = checkpoint.as_ref().map_or(0, |checkpoint| checkpoint.removed);
    let length = length.map(|length| length + removed);
    let view = ActivityView { at, stock, rules, last: ledger_last, length, checkpoint };
    Seen { status, corrupt, view }
}
