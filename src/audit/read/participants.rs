//! An activity at one instant, with what some users hold: the stock, the rules and the ledger's end, as an audit needs them.
//! What users hold is kept as it came, and read when it is looked at.

use redis::Value;

use crate::audit::evidence::mismatch::Holding;
use crate::error::Result;
use crate::model::number::{MAX_UNITS, whole};
use crate::model::{ActivityId, Entry, Snapshot, Status};
use crate::read::snapshot::{SnapshotReply, read_snapshot, snapshot_call};
use crate::store::Store;

/// No users, of an activity that is read by itself.
pub(crate) const NOBODY: &[&[u8]] = &[];

/// A page of its participants, and what it was at that instant.
pub(crate) struct ParticipantsPage {
    pub seen: Snapshot,
    /// What the ledger has of late, if that comes along.
    pub entries: Vec<Entry>,
    pub held: HeldUnits,
}

/// Users, and what each holds.
pub(crate) struct HeldUnits {
    texts: Vec<u8>,
    /// Where each text ends.
    ends: Vec<usize>,
    /// Whether units follow each user; else each holds one.
    has_units: bool,
}

impl HeldUnits {
    /// Of nobody yet.
    pub(crate) fn new(has_units: bool) -> Self {
        Self { texts: Vec::new(), ends: Vec::new(), has_units }
    }

    /// Adds a user, or what the one before holds.
    pub(crate) fn push(&mut self, text: &[u8]) {
        self.texts.extend_from_slice(text);
        self.ends.push(self.texts.len());
    }

    /// Users and what each holds.
    pub(crate) fn pairs(&self) -> impl Iterator<Item = (&[u8], Holding)> {
        let text = |at: usize| &self.texts[if at == 0 { 0 } else { self.ends[at - 1] }..self.ends[at]];
        let width = if self.has_units { 2 } else { 1 };
        (0..self.ends.len() / width).map(move |index| {
            (text(index * width), if width == 2 { holding(text(index * 2 + 1)) } else { Holding::Units(1) })
        })
    }
}

/// An activity, and what each of some users holds: `Nil` is nothing. Its status is `not_preheated` if there is neither stock nor meta, or
/// it is archived; `corrupt`; or `ok`. The length of its ledger has the entries that were removed behind its checkpoint.
///
/// # Errors
/// Any of `StoreError`; what is missing or corrupt is a status.
pub(crate) fn read_instant(
    store: &mut Store,
    activity: &ActivityId,
    users: &[&[u8]],
) -> Result<(Snapshot, Vec<Value>)> {
    let keys = store.keys(activity);
    let value = store.servers.call(&snapshot_call(store, &keys, users))?;
    let SnapshotReply { mut snapshot, held, invalid_checkpoint } = read_snapshot(activity, value, &keys)?;
    snapshot.corrupt = invalid_checkpoint.or(snapshot.corrupt);
    let is_there = !snapshot.is_archived() && (snapshot.stock.is_some() || snapshot.meta.is_some());
    snapshot.status = match snapshot.corrupt {
        Some(_) => Status::Corrupt,
        None if is_there => Status::Ok,
        None => Status::NotPreheated,
    };
    let removed = snapshot.checkpoint().map_or(0, |checkpoint| checkpoint.removed);
    snapshot.ledger_length = snapshot.ledger_length.map(|length| length + removed);
    Ok((snapshot, held))
}

/// What a user holds, as a call that asks for users has it.
pub(crate) fn holding_of(value: &Value) -> Holding {
    match value {
        Value::BulkString(units) => holding(units),
        _ => Holding::Units(0),
    }
}

/// What a record holds: `?` is a member of a set without units.
fn holding(bytes: &[u8]) -> Holding {
    const SHOWN: usize = 64;
    match std::str::from_utf8(bytes).ok().and_then(whole).filter(|units| *units <= MAX_UNITS) {
        Some(units) => Holding::Units(units),
        None if bytes == b"?" => Holding::Unknown,
        None => Holding::Invalid(String::from_utf8_lossy(&bytes[..bytes.len().min(SHOWN)]).into_owned()),
    }
}
