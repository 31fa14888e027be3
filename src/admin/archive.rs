//! Removes the keys of an activity that is over, once files have what they hold.
//!
//! All keys are watched (WATCH) on one connection before the activity is audited and read (its meta once the archive is named
//! there, which writes it), and what removes them runs in a transaction on that connection: it does nothing if anybody wrote any of them since, whatever wrote it. If the connection
//! is lost, so is the watch, and all begins again.

use redis::{Cmd, Value};

use crate::audit::judgement::judge;
use crate::audit::judgement::sharded::judge_shards;
use crate::audit::plan::MissingOrders;
use crate::audit::read::{self, shards};
use crate::audit::result::Verdict;
use crate::error::{Recovery, Result, StoreError};
use crate::model::archive::{Bytes, FORMAT, FileSum, Group, Manifest, Part, Sealed, VERSION};
use crate::model::number::signed;
use crate::model::status::call_code::STALE;
use crate::model::{ActivityId, Corrupt, PackedRules, State, Status};
use crate::read::snapshot;
use crate::redis::call::{Call, Try};
use crate::redis::connection::Connection;
use crate::redis::scan::{Scan, ScanFailure};
use crate::script::ARCHIVE;
use crate::script::keys::Keys;
use crate::script::reply::Reply;
use crate::store::Store;

/// How often an activity is read if it is written to meanwhile.
const TRIES: usize = 3;
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
        self.seen == format!("{} {} {}", manifest.stock, contents(manifest), manifest.groups.len())
    }

    /// The SHA-256 of the manifest that it was archived by.
    pub(crate) fn sha256(&self) -> Option<&str> {
        self.archive.as_deref()?.split(' ').nth(1)
    }
}

/// The last entry and the numbers of lines that a manifest says, as scripts compare them.
pub(crate) fn contents(manifest: &Manifest) -> String {
    let last = manifest.last_entry.as_deref().unwrap_or("-");
    let [requests, entries, participants, units] =
        [Part::Requests, Part::Ledger, Part::Participants, Part::Units].map(|part| manifest.lines(part));
    format!("{last} {requests} {entries} {participants} {units}")
}

/// Why an activity is not archived now.
#[derive(Debug)]
pub(crate) enum Unarchivable {
    /// It is archived already.
    Archived(Archivable),
    /// It is not over, or another shard of the activity is not: which, and its state.
    NotOver(ActivityId, String),
    /// Units are held open.
    Held(u64),
    /// A consumer group has not read and acknowledged everything.
    UnreadGroup(String),
    /// A shard, this one or another of the activity, has open transfers.
    Lent(ActivityId),
    /// Its audit is no match.
    Verdict(Verdict),
    /// Another client wrote to it each time.
    Changed,
    /// Another client wrote keys of it since it was archived, which no file has.
    Reused,
    /// Not there, corrupt, or an adoption is unfinished; and which key is corrupt.
    Status(Status, Option<Corrupt>),
}

impl Unarchivable {
    /// Whether no shard of an activity is archived if this is true of one. One that is in files or lost sells nothing.
    pub(crate) fn refuses_whole(&self) -> bool {
        !matches!(self, Self::Archived(_) | Self::Status(Status::NotPreheated, _))
    }
}

/// What was asked for, unless the activity cannot be archived.
pub(crate) type ArchiveResult<T> = std::result::Result<T, Unarchivable>;

/// Where an archive is written. Nothing is removed from the server before its files can be read.
pub(crate) trait ArchiveFiles {
    /// Why they cannot be written.
    type Failure: From<StoreError>;

    /// Whether an activity may be archived to them. Its audit comes next.
    fn check(&mut self, _found: &Archivable) -> Result<(), Self::Failure> {
        Ok(())
    }

    /// Begins them, in place of what an earlier try left.
    fn begin(&mut self, found: &Archivable) -> Result<(), Self::Failure>;

    /// Adds a line to a part; those of one part come one after the other.
    fn line(&mut self, part: Part, texts: &[&[u8]]) -> Result<(), Self::Failure>;

    /// Ends the files of lines: what each is, in the order of the parts, but for the name of its key.
    fn end(&mut self) -> Result<Vec<FileSum>, Self::Failure>;

    /// Seals them, reads them back and puts them in their place.
    fn publish(&mut self, manifest: Manifest) -> Result<Sealed, Self::Failure>;

    /// Removes what was published: the activity is not what it says.
    fn withdraw(&mut self) -> Result<(), Self::Failure>;
}

/// An activity, and a connection on which all its keys are watched.
struct Watch<'a> {
    store: &'a mut Store,
    activity: &'a ActivityId,
    keys: Keys,
    connection: Connection,
}

/// What is in no file of lines.
#[derive(Default)]
struct Rest {
    /// The stock key's text.
    stock: String,
    /// All fields of the meta.
    meta: Vec<(Bytes, Bytes)>,
    /// The consumer groups of the ledger.
    groups: Vec<Group>,
    /// The ledger's last entry.
    last: Option<String>,
}

/// Whether an activity can be archived, but for its audit. Nothing is written.
///
/// # Errors
/// Any of [`StoreError`].
pub(crate) fn find_archivable(store: &mut Store, activity: &ActivityId) -> Result<ArchiveResult<Archivable>> {
    let found = plan(store, activity)?;
    Ok(Err(match found.status {
        Status::Ok if !["ended", "paused"].contains(&found.state.as_str()) => {
            Unarchivable::NotOver(activity.clone(), found.state)
        }
        Status::Ok if found.holds > 0 => Unarchivable::Held(found.holds),
        Status::Ok => match (found.unread.clone(), other_shards(store, activity)?) {
            (Some(group), _) => Unarchivable::UnreadGroup(group),
            (None, Err(why)) => why,
            (None, Ok(())) => return Ok(Ok(found)),
        },
        Status::Ended => Unarchivable::Archived(found),
        status => Unarchivable::Status(status, found.corrupt),
    }))
}

/// Audits an activity: what proves it, if it is a match.
///
/// # Errors
/// Any of [`StoreError`].
pub(crate) fn audit(store: &mut Store, activity: &ActivityId) -> Result<ArchiveResult<String>> {
    let audit = judge(read::audit(store, activity, None, None)?, MissingOrders::Repair);
    Ok(match audit.verdict {
        Verdict::Match => Ok(audit.proof.name().to_owned()),
        verdict => Err(Unarchivable::Verdict(verdict)),
    })
}

/// Audits all shards of an activity together: what no shard lent, or what a preheat that is unfinished lacks, is in the audit of none.
///
/// # Errors
/// Any of [`StoreError`].
pub(crate) fn audit_whole(store: &mut Store, activity: &ActivityId) -> Result<ArchiveResult<()>> {
    let Some(list) = store.shards_of(activity)? else { return Ok(Ok(())) };
    let audit = judge_shards(shards::audit_shards(store, activity, &list, None, |_| None)?, MissingOrders::Repair);
    Ok(if audit.verdict == Verdict::Match { Ok(()) } else { Err(Unarchivable::Verdict(audit.verdict)) })
}

/// Writes an activity to files, and removes its keys.
///
/// # Errors
/// Any of [`StoreError`], and whatever the files fail with. [`StoreError::Unknown`] if nobody can say whether the keys were
/// removed: the files stay.
pub(crate) fn archive<F: ArchiveFiles>(
    store: &mut Store,
    activity: &ActivityId,
    reason: Option<&str>,
    files: &mut F,
) -> Result<ArchiveResult<Sealed>, F::Failure> {
    for _ in 0..TRIES {
        match try_archive(store, activity, reason, files)? {
            Err(Unarchivable::Changed) => {}
            ended => return Ok(ended),
        }
    }
    Ok(Err(Unarchivable::Changed))
}

fn try_archive<F: ArchiveFiles>(
    store: &mut Store,
    activity: &ActivityId,
    reason: Option<&str>,
    files: &mut F,
) -> Result<ArchiveResult<Sealed>, F::Failure> {
    let mut watch = Watch::new(store, activity)?;
    let audited = match find_archivable(watch.store, activity)? {
        Ok(found) => found,
        Err(why) => return Ok(Err(why)),
    };
    files.check(&audited)?;
    let proof = match audit(watch.store, activity)? {
        Ok(proof) => proof,
        Err(why) => return Ok(Err(why)),
    };
    let name = watch.store.servers.system().unique_id().to_string();
    let Some(name) = watch.mark(audited.epoch, &name)? else {
        return Ok(Err(Unarchivable::Changed));
    };
    // The meta too, once the archive is named there.
    watch.connection.request(redis::cmd("WATCH").arg(&watch.keys.meta))?;
    let found = match find_archivable(watch.store, activity)? {
        Ok(found) if found.seen == audited.seen && found.epoch == audited.epoch => found,
        Ok(_) => return Ok(Err(Unarchivable::Changed)),
        Err(why) => return Ok(Err(why)),
    };
    files.begin(&found)?;
    let rest = watch.dump(|part, texts| files.line(part, texts))?;
    let mut sums = files.end()?;
    sums.iter_mut().for_each(|file| watch.keys.of_part(file.part).clone_into(&mut file.key));
    let manifest = watch.manifest(&found, Seal { name: &name, proof, reason }, rest, sums)?;
    // A member came twice, or something is not as it was: what would be removed is not what was written.
    if !found.is_as(&manifest) {
        return Ok(Err(Unarchivable::Changed));
    }
    let sealed = files.publish(manifest)?;
    match watch.remove(&found, &sealed) {
        Ok(true) => return Ok(Ok(sealed)),
        // A script that is cut may have removed all but the files.
        Err(error) if !error.is_refusal() => return Err(error.into()),
        removed => {
            files.withdraw()?;
            removed?;
        }
    }
    Ok(Err(Unarchivable::Changed))
}

/// Whether the shards of the same activity let this one be archived. All are over: the others would sell what is left without it. And
/// none lent units which nobody knows to have arrived, be it to this shard or to another: what is in files can get none.
fn other_shards(store: &mut Store, activity: &ActivityId) -> Result<ArchiveResult<()>> {
    let Some((parent, _)) = activity.parent() else { return Ok(Ok(())) };
    let shards = snapshot::snapshot(store, &parent)?.meta.and_then(|meta| meta.shards);
    let ids: Vec<ActivityId> = shards.iter().flat_map(|shards| shards.ids(&parent)).collect();
    for shard in snapshot::snapshots(store, &ids)? {
        let state = shard.state();
        // One that was lost sells nothing.
        if shard.meta.is_some() && !matches!(state, State::Ended | State::Paused | State::Archived) {
            return Ok(Err(Unarchivable::NotOver(shard.activity, state.name().to_owned())));
        }
        if shards::open_transfers(store, &shard.activity)? > 0 {
            return Ok(Err(Unarchivable::Lent(shard.activity)));
        }
    }
    Ok(Ok(()))
}

fn plan(store: &mut Store, activity: &ActivityId) -> Result<Archivable> {
    let keys = store.keys(activity);
    let value = call(store, &keys, "plan", &[])?;
    archivable(value, &keys)
}

/// What a manifest has besides what was found: the name of the archive, what proves the activity, and why it is archived.
struct Seal<'a> {
    name: &'a str,
    proof: String,
    reason: Option<&'a str>,
}

impl<'a> Watch<'a> {
    /// Watches all keys of an activity but its meta from now on.
    fn new(store: &'a mut Store, activity: &'a ActivityId) -> Result<Self> {
        let keys = store.keys(activity);
        // It finds the node of the keys, if there are several.
        store.servers.command(&keys.meta, redis::cmd("TYPE").arg(&keys.meta))?;
        let node = store.servers.node_of(keys.slot());
        let mut connection = store.servers.node(node).connect_new()?;
        let mut watch = redis::cmd("WATCH");
        keys.all().filter(|key| *key != keys.meta).for_each(|key| _ = watch.arg(key));
        connection.request(&watch)?;
        Ok(Self { store, activity, keys, connection })
    }

    /// Names the archive in the activity's meta, and gives the name that counts: that of an earlier run, if one was cut
    /// short. A removal of that run which is still to come removes nothing then. `None` if the activity changed meanwhile.
    fn mark(&mut self, epoch: u64, name: &str) -> Result<Option<String>> {
        let value = call(self.store, &self.keys, "mark", &[name.to_owned(), epoch.to_string()])?;
        let reply = Reply::of(&ARCHIVE);
        match reply.array(value)?.as_slice() {
            [Value::Int(code), name] if *code == Status::Ok.code() => reply.text(Some(name)),
            _ => Ok(None),
        }
    }

    /// Reads everything of the activity, page by page: each line's texts go to `each`, those of one part after the
    /// other. A member may come twice if the hash shrinks meanwhile, in which case the removal will find that something
    /// changed.
    fn dump<E: From<StoreError>>(&mut self, mut each: impl FnMut(Part, &[&[u8]]) -> Result<(), E>) -> Result<Rest, E> {
        let kind = self.store.layout.kind();
        let Self { connection, keys, .. } = self;
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

    fn manifest(&mut self, found: &Archivable, seal: Seal<'_>, rest: Rest, files: Vec<FileSum>) -> Result<Manifest> {
        let Self { store, activity, .. } = self;
        let Seal { name, proof, reason } = seal;
        let field = |name: &str| {
            let found = rest.meta.iter().find(|(field, _)| field.0 == name.as_bytes());
            found.map(|(_, value)| value.to_string()).unwrap_or_default()
        };
        let number = |text: &str| text.parse::<u64>().unwrap_or_default();
        let rules: PackedRules =
            field("rules").parse().map_err(|_| Reply::of_command("HGETALL").invalid("no rules"))?;
        let left = number(&rest.stock) + number(&field("withdrawn"));
        let at = serde_json::to_value(store.now()?).unwrap_or_default();
        let [_, _, buyers] = found.counts();
        let layout = store.layout();
        Ok(Manifest {
            format: FORMAT.to_owned(),
            version: VERSION,
            activity: activity.to_string(),
            title: field("title"),
            layout,
            epoch: rules.epoch,
            state: found.state.clone(),
            total: rules.total,
            left,
            sold: signed(rules.total) - signed(left),
            buyers: layout.kind().has_users().then_some(buyers),
            proof,
            name: name.to_owned(),
            archived_at: at.as_str().unwrap_or_default().to_owned(),
            by: store.operator().to_owned(),
            reason: reason.map(str::to_owned),
            server: store.server_name().to_owned(),
            tool: concat!("seckill ", env!("CARGO_PKG_VERSION")).to_owned(),
            stock: rest.stock,
            meta: rest.meta,
            groups: rest.groups,
            last_entry: rest.last,
            files,
        })
    }

    /// Removes the keys, if nobody wrote any of them since they were watched, and says whether they are gone; else nothing was changed.
    /// [`StoreError::Unknown`] if nobody can say whether they were removed, or will be.
    fn remove(mut self, found: &Archivable, sealed: &Sealed) -> Result<bool> {
        let Self { store, connection, keys, .. } = &mut self;
        let Manifest { name, reason, .. } = &sealed.manifest;
        let by = reason.as_ref().map_or_else(|| store.operator.clone(), |why| format!("{}: {why}", store.operator));
        let arguments = [
            store.kind(),
            "remove".to_owned(),
            name.clone(),
            found.epoch.to_string(),
            sealed.sha256.clone(),
            found.seen.clone(),
            by,
        ];
        // Without the transaction nothing would hold back the script, so that begins first.
        connection.request(&redis::cmd("MULTI"))?;
        let mut packed = Vec::new();
        Call::script(&ARCHIVE, keys.all(), arguments).pack(Try::First, true, &mut packed);
        packed.extend(redis::cmd("EXEC").get_packed_command());
        let removed = match connection.send(&packed).and_then(|()| executed(connection)) {
            Ok(removed) => removed,
            Err(error) if error.is_connection() => self.was_removed(found.epoch, sealed).map_err(|_| {
                let (server, why) = (self.store.server_name().to_owned(), error.why());
                StoreError::Unknown { server, why, recovery: Some(Recovery::SameCall) }
            })?,
            Err(error) => return Err(self.store.servers.explained(error)),
        };
        if removed {
            self.store.changed(self.activity);
        }
        Ok(removed)
    }

    /// Whether a removal without a reply came to its end. If it did not come yet, it comes to nothing: the name is written again, and the
    /// meta is watched.
    fn was_removed(&mut self, epoch: u64, sealed: &Sealed) -> Result<bool> {
        if self.mark(epoch, &sealed.manifest.name)?.is_some() {
            return Ok(false);
        }
        let found = plan(self.store, self.activity)?;
        if found.sha256() != Some(&sealed.sha256) {
            return Ok(false);
        }
        remove_rest(self.store, self.activity, &found)?;
        Ok(true)
    }
}

/// Removes what a removal that was cut left of an archived activity. `false` if something else is there, which is in no file and stays.
///
/// # Errors
/// Any of [`StoreError`].
pub(crate) fn remove_rest(store: &mut Store, activity: &ActivityId, found: &Archivable) -> Result<bool> {
    let words: Vec<&str> = found.archive.iter().flat_map(|archive| archive.splitn(3, ' ')).collect();
    let [name, sha256, _] = words[..] else { return Ok(true) };
    let arguments = [name, &found.epoch.to_string(), sha256, "-"].map(str::to_owned);
    let value = call(store, &store.keys(activity), "remove", &arguments)?;
    Ok(Reply::of(&ARCHIVE).array(value)?.first() == Some(&Value::Int(Status::Replayed.code())))
}

fn call(store: &mut Store, keys: &Keys, step: &str, more: &[String]) -> Result<Value> {
    let arguments = [store.kind(), step.to_owned()].into_iter().chain(more.iter().cloned());
    store.servers.call(&Call::script(&ARCHIVE, keys.all(), arguments).of_step(step))
}

/// Reads the replies of the transaction: whether it removed the keys.
fn executed(connection: &mut Connection) -> Result<bool> {
    let reply = Reply::of(&ARCHIVE);
    connection.value()?;
    let Value::Array(values) = connection.value()? else { return Ok(false) };
    match reply.array(values.into_iter().next().unwrap_or(Value::Nil))?.first() {
        Some(Value::Int(STALE)) => Ok(false),
        code => Ok(matches!(reply.status(code)?, Status::Ok | Status::Replayed)),
    }
}

/// Reads the reply of the step `plan`.
fn archivable(value: Value, keys: &Keys) -> Result<Archivable> {
    let reply = Reply::of(&ARCHIVE);
    let (status, corrupt, values) = reply.with_status(value, keys)?;
    let (is_there, is_archived) = (status == Status::Ok, status == Status::Ended);
    let said = if is_there { &values[..] } else { &[] };
    let text = |at: usize| reply.text(said.get(at)).map(Option::unwrap_or_default);
    let epoch = if is_there || is_archived { reply.count(values.get(2))? } else { None };
    Ok(Archivable {
        status,
        corrupt,
        state: text(1)?,
        epoch: epoch.unwrap_or_default(),
        seen: text(3)?,
        archive: reply.text(if is_archived { values.get(1) } else { said.get(4) })?,
        holds: reply.count(said.get(5))?.unwrap_or_default(),
        unread: reply.text(said.get(6))?,
    })
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
