//! Removes old ledger entries. Their sums are written first, page by page, to a draft that nobody reads; one step makes
//! the draft the checkpoint at which audits begin; only then are entries removed, in pieces. After an interruption
//! the next call resumes.

use redis::Value;

use crate::audit::apply;
use crate::audit::ledger_state::LedgerState;
use crate::audit::read::fold::{self, pages};
use crate::error::Result;
use crate::model::status::call_code::{STALE, UNREAD};
use crate::model::{ActivityId, Checkpoint, Corrupt, EntryId, Millis, Status};
use crate::read::snapshot;
use crate::redis::call::Call;
use crate::script::TRIM;
use crate::script::keys::Keys;
use crate::script::reply::Reply;
use crate::store::{Store, Throttle};

/// What can be removed of a ledger.
#[derive(Debug)]
pub(crate) struct Trim {
    /// `ok`, `not_preheated` or `corrupt`.
    pub status: Status,
    /// Which key is corrupt, and what it holds.
    pub corrupt: Option<Corrupt>,
    /// The first entry that is kept; `None` if there is no ledger.
    pub from: Option<EntryId>,
    /// The consumer group that has not read and acknowledged all that should go: less is removed, for its sake.
    pub held_by: Option<String>,
    /// The ledger's first entry now.
    first: Option<EntryId>,
    /// Where an audit begins now.
    pub checkpoint: Option<Checkpoint>,
    /// Whether pages of a draft are left behind.
    has_draft: bool,
    epoch: String,
}

impl Trim {
    /// Whether entries that an audit still reads should go.
    pub(crate) fn needs_checkpoint(&self) -> bool {
        let begins = self.checkpoint.as_ref().map(|checkpoint| checkpoint.from).or(self.first);
        self.from > begins
    }

    /// Whether entries or pages are left that no audit reads, or entries that are gone were not counted: an earlier trim did
    /// not come to its end.
    pub(crate) fn is_unfinished(&self) -> bool {
        let is_cut =
            |checkpoint: &Checkpoint, first| first >= checkpoint.from && checkpoint.removed == checkpoint.entries;
        self.has_draft || self.checkpoint.as_ref().zip(self.first).is_some_and(|(known, first)| !is_cut(known, first))
    }
}

/// The sums of the entries that should be removed.
pub(crate) struct Sums {
    state: LedgerState,
    /// How many entries would be removed.
    pub entries: u64,
    /// Users who hold something by them.
    pub users: usize,
}

/// Why a ledger cannot be trimmed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Untrimmed {
    /// Somebody else trims it, or it was reset.
    Stale,
    /// It begins with neither a preheat nor a checkpoint.
    Headless,
    /// An entry cannot be read, and why: its evidence would be lost.
    Unreadable(EntryId, String),
    /// Users whose units nobody recorded would have less than one each: no audit would begin at its sums.
    Overdrawn,
}

/// Says what can be removed of a ledger, of what is older than a time. Nothing is written.
///
/// # Errors
/// Any of `StoreError`.
pub(crate) fn plan_trim(store: &mut Store, activity: &ActivityId, before: Millis) -> Result<Trim> {
    let keys = store.keys(activity);
    let reply = Reply::of(&TRIM);
    let value = trim_call(store, &keys, "plan", "", &[EntryId::first_at(before).to_string()])?;
    let (status, corrupt, values) = reply.with_status(value, &keys)?;
    let text = |at: usize| if status == Status::Ok { reply.text(values.get(at)) } else { Ok(None) };
    let id = |at: usize| match text(at)? {
        None => Ok(None),
        Some(id) => id.parse().map(Some).map_err(|why: String| reply.invalid(why)),
    };
    let from = id(2)?;
    let lost = match (status, from) {
        (Status::Ok, None) => snapshot::snapshot(store, activity)?.corrupt.filter(|it| it.key == keys.ledger),
        _ => None,
    };
    Ok(Trim {
        status: if lost.is_some() { Status::Corrupt } else { status },
        corrupt: corrupt.or(lost),
        epoch: text(1)?.unwrap_or_default(),
        from,
        held_by: text(3)?,
        first: id(4)?,
        // A draft that takes pages belongs to another trim, which may be running.
        has_draft: text(6)?.is_some_and(|draft| draft.ends_with(" 0")),
        checkpoint: text(5)?.map(|text| Checkpoint::read(&text).ok_or_else(|| reply.invalid(&text))).transpose()?,
    })
}

/// Sums up the entries that would be removed. They never change, so this is exact during the sale.
///
/// # Errors
/// Any of `StoreError`.
pub(crate) fn sum_up(store: &mut Store, activity: &ActivityId, trim: &Trim) -> Result<Result<Sums, Untrimmed>> {
    let keys = store.keys(activity);
    let mut state = LedgerState::new(store.layout.kind(), None);
    let Some(from) = trim.from else { return Ok(Err(Untrimmed::Headless)) };
    let known = match &trim.checkpoint {
        Some(checkpoint) if !fold::begin_at(store, &keys, &mut state, checkpoint)? => {
            return Ok(Err(Untrimmed::Headless));
        }
        Some(checkpoint) => checkpoint.entries,
        None => 0,
    };
    // Nobody is in a hurry here.
    store.throttle = Throttle::gentle(store.servers.system());
    fold::fold(store, &keys.ledger, &mut state, from.previous())?;
    let whole = trim.epoch.parse().is_ok_and(|epoch| state.is_whole(epoch));
    if let Some((id, why)) = state.unreadable.pop() {
        return Ok(Err(Untrimmed::Unreadable(id, why)));
    }
    if !whole || state.total.is_none() {
        return Ok(Err(Untrimmed::Headless));
    }
    if !state.fits_unknown() {
        return Ok(Err(Untrimmed::Overdrawn));
    }
    let (entries, users) = (state.entries - known, state.held().count());
    Ok(Ok(Sums { state, entries, users }))
}

/// Writes a checkpoint, at which audits begin from then on.
///
/// # Errors
/// Any of `StoreError`.
pub(crate) fn switch(
    store: &mut Store,
    activity: &ActivityId,
    trim: &Trim,
    sums: &Sums,
    reason: Option<&str>,
) -> Result<Result<(), Untrimmed>> {
    let keys = store.keys(activity);
    let Some(from) = trim.from else { return Ok(Err(Untrimmed::Headless)) };
    // A change of a shard's total that a cut left looks for its entry behind one that may go now.
    apply::finish_change(store, activity, trim.epoch.parse().unwrap_or_default())?;
    clear(store, &keys, &trim.epoch)?;
    let name = store.servers.system().unique_id().to_string();
    let pages = pages(&sums.state);
    let count = pages.len().to_string();
    if !write_pages(store, &keys, &trim.epoch, &name, pages)? {
        return Ok(Err(Untrimmed::Stale));
    }
    let state = &sums.state;
    let replaced = trim.checkpoint.as_ref().map(|checkpoint| checkpoint.name.clone()).unwrap_or_default();
    let words = Checkpoint::sums(from, state.end, state.entries, state.total.unwrap_or_default(), state.sum);
    // A checkpoint has no field for a reason: it is kept with the name.
    let by = reason.map_or_else(|| store.operator.clone(), |why| format!("{}: {why}", store.operator));
    let value = trim_call(store, &keys, "switch", &trim.epoch, &[name, count, replaced, words, by])?;
    let switched = done(value)?.map(|_| ()).ok_or(Untrimmed::Stale);
    if switched.is_ok() {
        store.changed(activity);
    }
    Ok(switched)
}

/// Removes what no audit reads any more. Returns how many entries were removed, and the group that needs the rest.
///
/// # Errors
/// Any of `StoreError`.
pub(crate) fn cut(store: &mut Store, activity: &ActivityId, trim: &Trim) -> Result<(u64, Option<String>)> {
    let keys = store.keys(activity);
    store.changed(activity);
    let reply = Reply::of(&TRIM);
    let before = trim.checkpoint.as_ref().map_or(0, |checkpoint| checkpoint.removed);
    let mut removed = 0;
    loop {
        let value = trim_call(store, &keys, "cut", &trim.epoch, &[String::new()])?;
        if let Value::Array(values) = &value
            && let [Value::Int(UNREAD), _, group] = &values[..]
        {
            return Ok((removed, reply.text(Some(group))?));
        }
        let Some(values) = done(value)? else { return Ok((removed, None)) };
        // Counted from the preheat on, so that a reply that was lost hides nothing.
        removed = reply.count(values.get(1))?.unwrap_or_default().saturating_sub(before);
        if reply.count(values.get(2))? != Some(1) {
            break;
        }
    }
    clear(store, &keys, &trim.epoch)?;
    Ok((removed, None))
}

/// Writes the pages of a draft; false if another trim writes one.
pub(crate) fn write_pages(
    store: &mut Store,
    keys: &Keys,
    epoch: &str,
    name: &str,
    pages: Vec<Vec<u8>>,
) -> Result<bool> {
    for (number, page) in pages.into_iter().enumerate() {
        let arguments = [b"page".to_vec(), epoch.into(), name.into(), number.to_string().into_bytes(), page];
        let call = Call::script(&TRIM, keys.in_order(), arguments).repeatable();
        if done(store.servers.call(&call)?)?.is_none() {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Removes the pages of a draft.
pub(crate) fn clear(store: &mut Store, keys: &Keys, epoch: &str) -> Result<()> {
    let reply = Reply::of(&TRIM);
    while let Some(values) = done(trim_call(store, keys, "clear", epoch, &[String::new()])?)? {
        if reply.count(values.get(1))? != Some(1) {
            break;
        }
    }
    Ok(())
}

fn trim_call(store: &mut Store, keys: &Keys, step: &str, epoch: &str, more: &[String]) -> Result<Value> {
    let arguments = [step, epoch].into_iter().chain(more.iter().map(String::as_str));
    store.servers.call(&Call::script(&TRIM, keys.in_order(), arguments).of_step(step))
}

/// A reply that begins with `ok`; `None` for one that says that the activity is not what it was.
fn done(value: Value) -> Result<Option<Vec<Value>>> {
    let reply = Reply::of(&TRIM);
    let values = reply.array(value)?;
    match values.first() {
        Some(Value::Int(STALE)) => Ok(None),
        first => match reply.status(first)? {
            Status::Ok => Ok(Some(values)),
            Status::NotPreheated | Status::Corrupt => Ok(None),
            _ => Err(reply.invalid(&values)),
        },
    }
}
