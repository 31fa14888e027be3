//! Removes the keys of an activity that is over, once files have what they hold.
//!
//! All keys are watched (WATCH) on one connection before the activity is audited and read (its meta once the archive is named
//! there, which writes it), and what removes them runs in a transaction on that connection: it does nothing if anybody wrote any of them since, whatever wrote it. If the connection
//! is lost, so is the watch, and all begins again.

use redis::{Cmd, Value};

use crate::error::{Recovery, Result, StoreError};
use crate::model::archive::{Bytes, Group, Manifest, Part};
use crate::model::status::call_code::STALE;
use crate::model::{ActivityId, Corrupt, Status};
use crate::redis::call::{Call, Try};
use crate::redis::connection::Connection;
use crate::redis::scan::{Scan, ScanFailure};
use crate::script::ARCHIVE;
use crate::script::keys::Keys;
use crate::script::reply::Reply;
use crate::store::Store;

/// Bytes of entries that a page of the ledger should have, about, and entries at most.
const PAGE_BYTES: usize = 200_000;
const MAX_ENTRIES: usize = 400;

/// An activity before it is archived.
#[derive(Debug, Clone)]
pub(crate) struct Archivable {
    /// `ok`, `not_preheated`, `ended` (it is archived), `exists` (an adoption is unfinished) or `corrupt`.
    pub status: Status,
    /// Which key is corrupt, and what it holds.
    pub corrupt: Option<Corrupt>,
    /// Its state: ended, paused, upcoming, sold_out or live.
    pub state: String,
    /// Which sale of it.
    pub epoch: u64,
    /// What is there, as the script compares it.
    pub seen: String,
    /// Meta's `archive`: of one that is archived the name, the SHA-256 of the manifest, and more.
    pub archive: Option<String>,
    /// Units that are held open.
    pub holds: u64,
    /// The consumer group that has not read and acknowledged everything.
    pub unread: Option<String>,
}

impl Archivable {
    /// How many lines the files will have: requests, entries and participants.
    pub(crate) fn counts(&self) -> [u64; 3] {
        let mut words = self.seen.split(' ').skip(2).map(|word| word.parse().unwrap_or(0));
        [(); 3].map(|()| words.next().unwrap_or(0))
    }

    /// What of it a manifest says, as the script compares it.
    pub(crate) fn is_as(&self, manifest: &Manifest) -> bool {
        let lines = |part| manifest.lines(part);
        let counts =
            [Part::Requests, Part::Ledger, Part::Participants, Part::Units].map(|part| lines(part).to_string());
        let last = manifest.last_entry.as_deref().unwrap_or("-");
        self.seen == format!("{} {last} {} {}", manifest.stock, counts.join(" "), manifest.groups.len())
    }

    /// The SHA-256 of the manifest that it was archived by.
    pub(crate) fn sha256(&self) -> Option<&str> {
        self.archive.as_deref()?.split(' ').nth(1)
    }
}

/// A connection on which all keys of an activity are watched.
pub(crate) struct Watch {
    connection: Connection,
    keys: Keys,
}

/// What is in no file of lines.
#[derive(Debug, Clone, Default)]
pub(crate) struct Rest {
    /// The stock key's text.
    pub stock: String,
    /// All fields of the meta.
    pub meta: Vec<(Bytes, Bytes)>,
    /// The consumer groups of the ledger.
    pub groups: Vec<Group>,
    /// The ledger's last entry.
    pub last: Option<String>,
}

/// How the removal ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Removed {
    /// The keys are gone.
    Done,
    /// Somebody wrote one of them since they were watched; nothing was changed.
    Changed,
}

/// What an activity is, and whether it may be archived. Nothing is written.
///
/// # Errors
/// Any of [`StoreError`].
pub(crate) fn plan_archive(store: &mut Store, activity: &ActivityId) -> Result<Archivable> {
    let keys = store.keys(activity);
    let value = archive(store, &keys, "plan", &[])?;
    archivable(value, &keys)
}

/// Names the archive in the activity's meta, and gives the name that counts: that of an earlier run, if one was cut
/// short. `None` if the activity changed meanwhile.
///
/// # Errors
/// Any of [`StoreError`].
pub(crate) fn mark_archive(
    store: &mut Store,
    activity: &ActivityId,
    found: &Archivable,
    name: &str,
) -> Result<Option<String>> {
    let keys = store.keys(activity);
    let arguments = [name.to_owned(), found.epoch.to_string()];
    let value = archive(store, &keys, "mark", &arguments)?;
    let reply = Reply::of(&ARCHIVE);
    match reply.array(value)?.as_slice() {
        [Value::Int(code), name] if *code == Status::Ok.code() => reply.text(Some(name)),
        _ => Ok(None),
    }
}

/// The key that is a file of an archive, for the manifest.
pub(crate) fn key_of_part(store: &Store, activity: &ActivityId, part: Part) -> String {
    store.keys(activity).of_part(part).to_owned()
}

/// Watches all keys of an activity but its meta from now on.
///
/// # Errors
/// Any of [`StoreError`].
pub(crate) fn watch_keys(store: &mut Store, activity: &ActivityId) -> Result<Watch> {
    let keys = store.keys(activity);
    // It finds the node of the keys, if there are several.
    store.servers.command(&keys.meta, redis::cmd("TYPE").arg(&keys.meta))?;
    let node = store.servers.node_of(keys.slot());
    let mut connection = store.servers.node(node).connect_new()?;
    let mut watch = redis::cmd("WATCH");
    keys.all().filter(|key| *key != keys.meta).for_each(|key| {
        watch.arg(key);
    });
    connection.request(&watch)?;
    Ok(Watch { connection, keys })
}

/// Watches the meta too, once the archive is named there.
///
/// # Errors
/// Any of [`StoreError`].
pub(crate) fn watch_meta(watch: &mut Watch) -> Result<()> {
    watch.connection.request(redis::cmd("WATCH").arg(&watch.keys.meta)).map(|_| ())
}

/// Reads everything of a watched activity, page by page: each line's texts go to `each`, those of one part after the
/// other. A member may come twice if the hash shrinks meanwhile, in which case the removal will find that something
/// changed.
///
/// # Errors
/// Any of [`StoreError`], and whatever `each` fails with.
pub(crate) fn dump_watched<E: From<StoreError>>(
    store: &Store,
    watch: &mut Watch,
    mut each: impl FnMut(Part, &[&[u8]]) -> Result<(), E>,
) -> Result<Rest, E> {
    let kind = store.layout.kind();
    let Watch { connection, keys } = watch;
    for part in Part::of(kind) {
        let key = keys.of_part(*part);
        match part {
            Part::Ledger => read_entries(connection, key, &mut |texts| each(Part::Ledger, texts))?,
            part => {
                let (scan, width) = if part.is_set(kind) { (Scan::Set(key), 1) } else { (Scan::Hash(key), 2) };
                let page = |texts: &[&[u8]]| texts.chunks(width).try_for_each(|line| each(*part, line));
                connection.scan(scan, false, page).map_err(|stopped| match stopped {
                    ScanFailure::Store(error) => error.into(),
                    ScanFailure::Reader(error) => error,
                })?;
            }
        }
    }
    Ok(read_rest(connection, keys)?)
}

/// Removes the keys, if nobody wrote any of them since they were watched. `seen` is what the files have.
///
/// # Errors
/// Any of [`StoreError`]; [`StoreError::Unknown`] if nobody can say whether they were removed.
pub(crate) fn remove_watched(
    store: &mut Store,
    activity: &ActivityId,
    watch: Watch,
    found: &Archivable,
    name: &str,
    sha256: &str,
    reason: Option<&str>,
) -> Result<Removed> {
    let Watch { mut connection, keys } = watch;
    let by = reason.map_or_else(|| store.operator.clone(), |why| format!("{}: {why}", store.operator));
    let arguments = [
        store.kind(),
        "remove".to_owned(),
        name.to_owned(),
        found.epoch.to_string(),
        sha256.to_owned(),
        found.seen.clone(),
        by,
    ];
    // Without the transaction nothing would hold back the script, so that begins first.
    connection.request(&redis::cmd("MULTI"))?;
    let mut packed = Vec::new();
    Call::script(&ARCHIVE, keys.all(), arguments).pack(Try::First, true, &mut packed);
    packed.extend(redis::cmd("EXEC").get_packed_command());
    let ended = connection.send(&packed).and_then(|()| executed(&mut connection));
    let removed = match ended {
        Ok(removed) => removed,
        // The reply was lost, or the server gave up in between: what is there says what happened.
        Err(error) if error.is_connection() => match plan_archive(store, activity) {
            Ok(now) if now.sha256() == Some(sha256) => Removed::Done,
            Ok(_) => Removed::Changed,
            Err(_) => {
                let (server, why) = (store.server_name().to_owned(), error.why());
                return Err(StoreError::Unknown { server, why, recovery: Some(Recovery::SameCall) });
            }
        },
        Err(error) => return Err(store.servers.explained(error)),
    };
    if removed == Removed::Done {
        store.changed(activity);
    }
    Ok(removed)
}

/// Removes what a removal that was cut left of an archived activity.
///
/// # Errors
/// Any of [`StoreError`].
pub(crate) fn remove_rest(store: &mut Store, activity: &ActivityId, found: &Archivable) -> Result<()> {
    let words: Vec<&str> = found.archive.iter().flat_map(|archive| archive.splitn(3, ' ')).collect();
    let [name, sha256, _] = words[..] else { return Ok(()) };
    let arguments = [name, &found.epoch.to_string(), sha256, "-"].map(str::to_owned);
    archive(store, &store.keys(activity), "remove", &arguments).map(|_| ())
}

fn archive(store: &mut Store, keys: &Keys, step: &str, more: &[String]) -> Result<Value> {
    let arguments = [store.kind(), step.to_owned()].into_iter().chain(more.iter().cloned());
    store.servers.call(&Call::script(&ARCHIVE, keys.all(), arguments).of_step(step))
}

/// Reads the replies of the transaction.
fn executed(connection: &mut Connection) -> Result<Removed> {
    let reply = Reply::of(&ARCHIVE);
    let (queued, ended) = (connection.value(), connection.value());
    queued?;
    let Value::Array(values) = ended? else { return Ok(Removed::Changed) };
    match reply.array(values.into_iter().next().unwrap_or(Value::Nil))?.first() {
        Some(Value::Int(STALE)) => Ok(Removed::Changed),
        code => match reply.status(code)? {
            Status::Ok | Status::Replayed => Ok(Removed::Done),
            _ => Ok(Removed::Changed),
        },
    }
}

/// Reads the reply of the step `plan`.
fn archivable(value: Value, keys: &Keys) -> Result<Archivable> {
    let reply = Reply::of(&ARCHIVE);
    let (status, corrupt, values) = reply.with_status(value, keys)?;
    let mut found = Archivable {
        status,
        corrupt,
        state: String::new(),
        epoch: 0,
        seen: String::new(),
        archive: None,
        holds: 0,
        unread: None,
    };
    match status {
        Status::Ended => {
            found.archive = reply.text(values.get(1))?;
            found.epoch = reply.count(values.get(2))?.unwrap_or_default();
        }
        Status::Ok => {
            let text = |at: usize| reply.text(values.get(at)).map(Option::unwrap_or_default);
            found.state = text(1)?;
            found.epoch = reply.count(values.get(2))?.unwrap_or_default();
            found.seen = text(3)?;
            found.archive = reply.text(values.get(4))?;
            found.holds = reply.count(values.get(5))?.unwrap_or_default();
            found.unread = reply.text(values.get(6))?;
        }
        _ => {}
    }
    Ok(found)
}

/// Walks all entries of a stream: an id, then fields and values.
fn read_entries<E: From<StoreError>>(
    connection: &mut Connection,
    key: &str,
    each: &mut impl FnMut(&[&[u8]]) -> Result<(), E>,
) -> Result<(), E> {
    let reply = Reply::of_command("XRANGE");
    let page = |after: &[u8], count: usize| -> Cmd {
        let from = if after.is_empty() { b"-".to_vec() } else { [b"(", after].concat() };
        let mut command = redis::cmd("XRANGE");
        command.arg(key).arg(from).arg("+").arg("COUNT").arg(count);
        command
    };
    // Entries hold one order or hundreds: their weight, not their number, makes a page.
    let mut count = 20;
    connection.send(&page(b"", count).get_packed_command())?;
    loop {
        let entries = reply.array(connection.value()?)?;
        let mut lines: Vec<Vec<Vec<u8>>> = Vec::with_capacity(entries.len());
        let mut bytes = 0;
        for entry in entries {
            let Ok([Value::BulkString(id), Value::Array(fields)]) = <[Value; 2]>::try_from(reply.array(entry)?) else {
                return Err(reply.invalid("no entry").into());
            };
            let mut texts = vec![id];
            for field in fields {
                let Value::BulkString(text) = field else { return Err(reply.invalid("no entry").into()) };
                bytes += text.len();
                texts.push(text);
            }
            lines.push(texts);
        }
        let Some(last) = lines.last() else { return Ok(()) };
        let is_last = lines.len() < count;
        if !is_last {
            count = (PAGE_BYTES / (bytes / lines.len()).max(1)).clamp(20, MAX_ENTRIES);
            connection.send(&page(&last[0], count).get_packed_command())?;
        }
        for texts in &lines {
            let texts: Vec<&[u8]> = texts.iter().map(Vec::as_slice).collect();
            each(&texts)?;
        }
        if is_last {
            return Ok(());
        }
    }
}

/// Reads stock, meta and consumer groups.
fn read_rest(connection: &mut Connection, keys: &Keys) -> Result<Rest> {
    let mut rest = Rest::default();
    let reply = Reply::of_command("GET");
    rest.stock = reply.text(Some(&connection.request(redis::cmd("GET").arg(&keys.stock))?))?.unwrap_or_default();
    let reply = Reply::of_command("HGETALL");
    let mut fields = reply.array(connection.request(redis::cmd("HGETALL").arg(&keys.meta))?)?.into_iter();
    while let (Some(Value::BulkString(field)), Some(Value::BulkString(value))) = (fields.next(), fields.next()) {
        rest.meta.push((Bytes(field), Bytes(value)));
    }
    rest.meta.sort();
    let newest = redis::cmd("XREVRANGE").arg(&keys.ledger).arg(&["+", "-", "COUNT", "1"]).to_owned();
    let reply = Reply::of_command("XREVRANGE");
    let Some(newest) = reply.array(connection.request(&newest)?)?.pop() else { return Ok(rest) };
    rest.last = reply.text(reply.array(newest)?.first())?;
    let reply = Reply::of_command("XINFO");
    for group in reply.array(connection.request(redis::cmd("XINFO").arg("GROUPS").arg(&keys.ledger))?)? {
        let about = reply.array(group)?;
        let field = |name: &[u8]| about.chunks(2).find(|pair| matches!(&pair[0], Value::BulkString(it) if it == name));
        let (Some([_, Value::BulkString(name)]), Some([_, Value::BulkString(last)])) =
            (field(b"name"), field(b"last-delivered-id"))
        else {
            return Err(reply.invalid("no group"));
        };
        let last_delivered = String::from_utf8_lossy(last).into_owned();
        rest.groups.push(Group { name: Bytes(name.clone()), last_delivered });
    }
    Ok(rest)
}
