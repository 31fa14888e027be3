//! Writes the keys of an archived activity again. Its meta says `archived` until everything is there, so that nobody buys
//! meanwhile; each page may be sent twice, and none is written once the activity is as it was. After an interruption the
//! next call resumes.

use redis::Value;

use crate::admin::archive::contents;
use crate::admin::preheat;
use crate::error::{Result, StoreError};
use crate::model::archive::{Bytes, Manifest, Part, Sealed};
use crate::model::status::call_code::STALE;
use crate::model::{ActivityId, Corrupt, Status};
use crate::read::checkpoint::encode_texts;
use crate::redis::call::Call;
use crate::redis::call::fan_out::CallAhead;
use crate::script::RESTORE;
use crate::script::keys::Keys;
use crate::script::reply::Reply;
use crate::store::Store;

/// Texts of one page, and their bytes, at most: a millisecond or so of the server's time.
const MAX_TEXTS: usize = 2000;
const MAX_BYTES: usize = 200_000;

/// Fields of the meta that are of one archive or restore alone.
const OWN_FIELDS: [&[u8]; 3] = [b"archive", b"restore", b"restored"];

/// What is there before a restore.
#[derive(Debug, Clone)]
pub(crate) struct Restorable {
    /// `ok`, `replayed` (it was restored from this archive), `exists` or `corrupt`.
    pub status: Status,
    /// Which key is corrupt, and what it holds.
    pub corrupt: Option<Corrupt>,
    /// With ok `absent`, `archived` or `unfinished`; with exists what is there: `archived` by other files, `restore` from
    /// other files, or `keys`.
    pub stage: String,
    /// The total in its meta.
    pub total: Option<u64>,
    /// The stock key, if it is there.
    pub stock: Option<u64>,
}

/// Who came between the steps of a restore.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Meddled {
    /// It was reset, or restored by another call.
    Overtaken,
    /// Another client wrote to it. What was written of it is removed.
    Written,
}

/// The steps of a restore. Its pages are sent one after the other; while the server writes one, the next is made.
pub(crate) struct Pages<'a> {
    store: &'a mut Store,
    keys: Keys,
    sha256: String,
    part: Option<Part>,
    texts: Vec<Vec<u8>>,
    bytes: usize,
    /// The page whose reply is still to come.
    in_flight: Option<CallAhead>,
    /// Whether all pages so far were taken.
    is_accepted: bool,
}

/// Restores an activity; with `dry_run` only what is there is said. `write` adds all lines of the files, part by part, as long as
/// [`Pages::add`] takes them.
///
/// # Errors
/// Any of `StoreError`, and whatever `write` fails with.
pub(crate) fn restore<E: From<StoreError>>(
    store: &mut Store,
    activity: &ActivityId,
    sealed: &Sealed,
    reason: Option<&str>,
    dry_run: bool,
    write: impl FnOnce(&mut Pages<'_>) -> Result<(), E>,
) -> Result<Result<Restorable, Meddled>, E> {
    let mut pages = Pages::new(store, activity, sealed);
    let mut found = restorable(pages.step("plan", Vec::new())?, &pages.keys)?;
    if dry_run || !matches!(found.status, Status::Ok | Status::Replayed) {
        return Ok(Ok(found));
    }
    // Lists name the activity, not its shards.
    let whole = pages.store.layout.whole(activity);
    preheat::add_to_index(pages.store, [&whole])?;
    // A meta in the state `archived`, behind which pages are written.
    let rules = sealed.manifest.rules().map(|rules| rules.to_string()).unwrap_or_default();
    found = restorable(pages.step("begin", vec![rules.into_bytes()])?, &pages.keys)?;
    if found.status == Status::Ok {
        write(&mut pages)?;
        if !pages.finish()? {
            return Ok(Err(Meddled::Overtaken));
        }
        if let Some(meddled) = pages.switch(&sealed.manifest, reason)? {
            if meddled == Meddled::Written {
                pages.step("undo", Vec::new())?;
            }
            return Ok(Err(meddled));
        }
    }
    if found.status.is_done() {
        // What an earlier call restored is waited for too.
        store.changed(activity);
    }
    Ok(Ok(found))
}

impl<'a> Pages<'a> {
    /// Nothing is sent yet.
    fn new(store: &'a mut Store, activity: &ActivityId, sealed: &Sealed) -> Self {
        let (keys, sha256, (part, in_flight)) = (store.keys(activity), sealed.sha256.clone(), (None, None));
        Self { store, keys, sha256, part, texts: Vec::new(), bytes: 0, in_flight, is_accepted: true }
    }

    /// A step of the script.
    fn step(&mut self, step: &str, more: Vec<Vec<u8>>) -> Result<Value> {
        let head = [&*self.store.kind(), step, &self.sha256].map(|text| text.as_bytes().to_vec());
        let arguments = head.into_iter().chain(more);
        self.store.servers.call(&Call::script(&RESTORE, self.keys.in_order(), arguments).of_step(step))
    }

    /// Makes the activity what it was, if all that the files have is there, and nothing else.
    fn switch(&mut self, manifest: &Manifest, reason: Option<&str>) -> Result<Option<Meddled>> {
        let operator = &self.store.operator;
        let by = reason.map_or_else(|| operator.clone(), |why| format!("{operator}: {why}"));
        let texts = [contents(manifest), by, manifest.stock.clone()].map(String::into_bytes);
        let mut arguments: Vec<Vec<u8>> = texts.into_iter().chain([groups(manifest)]).collect();
        for (field, value) in &manifest.meta {
            if !OWN_FIELDS.contains(&field.0.as_slice()) {
                arguments.extend([field.0.clone(), value.0.clone()]);
            }
        }
        meddled(self.step("switch", arguments)?)
    }

    /// Adds a line; false if a page was refused.
    ///
    /// # Errors
    /// Any of `StoreError`.
    pub(crate) fn add(&mut self, part: Part, line: Vec<Bytes>) -> Result<bool> {
        let is_full = self.texts.len() + line.len() + 1 > MAX_TEXTS || self.bytes > MAX_BYTES;
        if is_full || self.part != Some(part) {
            self.send()?;
        }
        self.part = Some(part);
        let mut texts = line.into_iter().map(|text| text.0);
        if part == Part::Ledger {
            // The id, and how many texts follow.
            self.texts.extend(texts.next());
            self.texts.push(texts.len().to_string().into_bytes());
        }
        for text in texts {
            self.bytes += text.len();
            self.texts.push(text);
        }
        Ok(self.is_accepted)
    }

    /// Sends the last page, and waits for all replies; false if a page was refused.
    fn finish(&mut self) -> Result<bool> {
        self.send()?;
        self.settle()?;
        Ok(self.is_accepted)
    }

    fn send(&mut self) -> Result<()> {
        let Some(part) = self.part.filter(|_| !self.texts.is_empty()) else { return Ok(()) };
        let head = [&*self.store.kind(), "page", &self.sha256, part.name()].map(|text| text.as_bytes().to_vec());
        let page: Vec<Vec<u8>> = head.into_iter().chain(self.texts.drain(..)).collect();
        self.bytes = 0;
        self.settle()?;
        if self.is_accepted {
            let call = Call::script(&RESTORE, self.keys.in_order(), page).repeatable();
            self.in_flight = Some(self.store.servers.send_ahead(call));
        }
        Ok(())
    }

    /// Waits for the reply to what was sent.
    fn settle(&mut self) -> Result<()> {
        if let Some(page) = self.in_flight.take() {
            self.is_accepted &= meddled(self.store.servers.finish(page)?)?.is_none();
        }
        Ok(())
    }
}

/// The consumer groups as the script reads them: a JSON array. Names are in whatever encoding.
fn groups(manifest: &Manifest) -> Vec<u8> {
    let texts = manifest.groups.iter().flat_map(|group| [&group.name.0[..], group.last_delivered.as_bytes()]);
    encode_texts(texts)
}

/// Reads a reply that is `ok`, or says that the restore is not under way; what is there instead comes with it if another client wrote it.
fn meddled(value: Value) -> Result<Option<Meddled>> {
    let reply = Reply::of(&RESTORE);
    let values = reply.array(value)?;
    match values.first() {
        Some(Value::Int(STALE)) if reply.text(values.get(1))?.is_some() => Ok(Some(Meddled::Written)),
        Some(Value::Int(STALE)) => Ok(Some(Meddled::Overtaken)),
        first => match reply.status(first)? {
            Status::Ok | Status::Replayed => Ok(None),
            Status::Corrupt => Ok(Some(Meddled::Overtaken)),
            _ => Err(reply.invalid(&values)),
        },
    }
}

/// Reads the reply of `plan` and `begin`.
fn restorable(value: Value, keys: &Keys) -> Result<Restorable> {
    let reply = Reply::of(&RESTORE);
    let (status, corrupt, values) = reply.with_status(value, keys)?;
    if corrupt.is_some() {
        return Ok(Restorable { status, corrupt, stage: String::new(), total: None, stock: None });
    }
    let (stage, total) = (reply.text(values.get(1))?.unwrap_or_default(), reply.count(values.get(2))?);
    // It may be anything that another client wrote.
    let stock = reply.count(values.get(3)).unwrap_or(None);
    Ok(Restorable { status, corrupt, stage, total, stock })
}
