//! The ledger, read in pages from the oldest entry on; who reads ledgers in groups, and how far behind each is.

use std::sync::Arc;
use std::time::Duration;

use redis::{Cmd, Value};

use crate::error::{Result, StoreError};
use crate::model::slot::common_slot;
use crate::model::{ActivityId, Checkpoint, Corrupt, Entry, EntryId, Millis, Snapshot};
use crate::read::stats::{self, GroupStats};
use crate::redis::call::Call;
use crate::script::reply::{Reply, entry};
use crate::store::Store;

/// Orders that a page holds, in bytes: about half a millisecond of the server's time.
const PAGE_BYTES: usize = 200_000;
/// Entries that a page holds at most: small ones cost by their number.
const MAX_PAGE: usize = 400;

/// Entries a page of what people or programs read.
const SHOWN: usize = 100;
/// The longest wait for a new entry in one call: Ctrl-C is looked at in between.
const MAX_BLOCK: Duration = Duration::from_millis(500);
/// Who reads in a group. It is always the same, so that a later run resumes where this one stopped.
const CONSUMER: &str = "seckill";

/// The next entries of an activity after one, oldest first; none at its end.
///
/// # Errors
/// Any of [`StoreError`].
pub(crate) fn entries_behind(store: &mut Store, activity: &ActivityId, after: EntryId) -> Result<Vec<Entry>> {
    Ok(page(store, activity, None, after.to_string())?.into_iter().filter_map(|(_, entry)| entry).collect())
}

/// A page behind an entry, for a group if one is named.
fn page(store: &mut Store, activity: &ActivityId, group: Option<&str>, after: String) -> Result<Vec<EntryById>> {
    let key = store.keys(activity).ledger;
    let command = read_command(group, None, std::slice::from_ref(&key), &[after]);
    let streams = streams(group, store.servers.command(&key, &command)?)?;
    Ok(streams.into_iter().flat_map(|(_, entries)| entries).collect())
}

/// What is added to ledgers behind the entries given, by their place in the list; waits for it, but not for long.
///
/// # Errors
/// Any of [`StoreError`].
pub(crate) fn ledger_news(store: &mut Store, positions: &[(ActivityId, EntryId)]) -> Result<Vec<(usize, Vec<Entry>)>> {
    let keys: Vec<String> = positions.iter().map(|(activity, _)| store.keys(activity).ledger).collect();
    let after: Vec<String> = positions.iter().map(|(_, after)| after.to_string()).collect();
    let news = news(store, None, &keys, &after)?.into_iter();
    Ok(news.map(|(ledger, new)| (ledger, new.into_iter().filter_map(|(_, entry)| entry).collect())).collect())
}

/// Makes a group that reads an activity's ledger from its beginning, unless there is one of that name. Returns
/// whether there is a ledger.
///
/// # Errors
/// Any of [`StoreError`].
pub(crate) fn make_group(store: &mut Store, activity: &ActivityId, group: &str) -> Result<bool> {
    let key = store.keys(activity).ledger;
    match store.servers.command(&key, redis::cmd("XGROUP").arg("CREATE").arg(&key).arg(group).arg("0")) {
        Err(StoreError::Server { why, .. }) if why.contains("BUSYGROUP") || why.contains("already exists") => Ok(true),
        Err(StoreError::Server { why, .. }) if why.contains("requires the key to exist") => Ok(false),
        other => other.map(|_| true),
    }
}

/// The oldest entries behind one that a group took and did not acknowledge; if there are none, new ones are taken.
/// An entry that was trimmed meanwhile is `None` beside its id.
///
/// # Errors
/// Any of [`StoreError`]; see [`StoreError::is_no_group`].
pub(crate) fn entries_of_group(
    store: &mut Store,
    activity: &ActivityId,
    group: &str,
    after: EntryId,
) -> Result<Vec<(EntryId, Option<Entry>)>> {
    let pending = page(store, activity, Some(group), after.to_string())?;
    if !pending.is_empty() {
        return Ok(pending);
    }
    // The reply may be lost and the call sent again, to find nothing: what was taken is then pending, in order.
    page(store, activity, Some(group), ">".to_owned())?;
    page(store, activity, Some(group), after.to_string())
}

/// Waits until a group gets something new from ledgers, but not for long. Returns the places in the list of those
/// that have something; [`entries_of_group`] reads it.
///
/// # Errors
/// Any of [`StoreError`]; see [`StoreError::is_no_group`].
pub(crate) fn group_news(store: &mut Store, activities: &[ActivityId], group: &str) -> Result<Vec<usize>> {
    let keys: Vec<String> = activities.iter().map(|activity| store.keys(activity).ledger).collect();
    let after = vec![">".to_owned(); keys.len()];
    Ok(news(store, Some(group), &keys, &after)?.into_iter().map(|(ledger, _)| ledger).collect())
}

/// Says that entries of a group need not come again.
///
/// # Errors
/// Any of [`StoreError`].
pub(crate) fn acknowledge(store: &mut Store, activity: &ActivityId, group: &str, entries: &[EntryId]) -> Result<()> {
    let key = store.keys(activity).ledger;
    let mut command = redis::cmd("XACK");
    command.arg(&key).arg(group);
    for entry in entries {
        command.arg(entry.to_string());
    }
    store.servers.command(&key, &command).map(|_| ())
}

/// Whether no one call can wait for all these keys: they are in several slots of a cluster.
fn must_poll(store: &mut Store, keys: &[String]) -> Result<bool> {
    if common_slot(keys).is_some() {
        return Ok(false);
    }
    store.servers.discover()?;
    Ok(store.servers.is_cluster())
}

/// What comes to ledgers behind these entries, by their place in the list; waits for it, but not for long.
fn news(
    store: &mut Store,
    group: Option<&str>,
    keys: &[String],
    after: &[String],
) -> Result<Vec<(usize, Vec<EntryById>)>> {
    if keys.is_empty() {
        store.servers.system().sleep(MAX_BLOCK);
        return Ok(Vec::new());
    }
    if !must_poll(store, keys)? {
        let command = read_command(group, Some(block(store)), keys, after);
        let read = streams(group, store.servers.command(&keys[0], &command)?)?.into_iter();
        let place = |key: &str| keys.iter().position(|known| known == key);
        return Ok(read.filter_map(|(key, entries)| Some((place(&key)?, entries))).collect());
    }
    let command = |(key, after): (&String, &String)| {
        Call::command(key, &read_command(group, None, std::slice::from_ref(key), std::slice::from_ref(after)))
    };
    let calls: Vec<Call> = keys.iter().zip(after).map(command).collect();
    let mut news = Vec::new();
    for (ledger, value) in store.servers.read_all(&calls)?.into_iter().enumerate() {
        let entries: Vec<EntryById> = streams(group, value)?.into_iter().flat_map(|(_, entries)| entries).collect();
        if !entries.is_empty() {
            news.push((ledger, entries));
        }
    }
    if news.is_empty() {
        store.servers.system().sleep(MAX_BLOCK / 2);
    }
    Ok(news)
}

/// How long a call may wait, in ms: less than the client waits for any reply.
fn block(store: &Store) -> u128 {
    (store.servers.target().timeout / 2).min(MAX_BLOCK).as_millis().max(1)
}

/// The entry up to which the ledger of an activity is to be read: that of the snapshot; of an activity that is corrupt, which has none,
/// all that is there. `None` if there is no ledger, or its key has another type.
pub(crate) fn last_to_read(store: &Store, snapshot: &Snapshot) -> Option<EntryId> {
    let is_readable = |corrupt: &&Corrupt| {
        corrupt.key != store.keys(&snapshot.activity).ledger || !corrupt.what.starts_with("is of the wrong type")
    };
    snapshot.ledger_last.or_else(|| snapshot.corrupt.as_ref().filter(is_readable).map(|_| EntryId::LAST))
}

/// Gives each entry behind one and up to another, oldest first, until `each` returns false.
///
/// # Errors
/// Any of [`StoreError`].
pub(crate) fn each_entry(
    store: &mut Store,
    activity: &ActivityId,
    after: EntryId,
    upto: EntryId,
    mut each: impl FnMut(&Entry) -> bool,
) -> Result<()> {
    let (key, stop) = (store.keys(activity).ledger, Arc::clone(&store.stop));
    each_entry_of(store, &key, after, upto, |entry| !stop() && each(entry))
}

/// The same for the ledger with this key, also if the user asks to stop. While a page is given, the next one is under way.
pub(crate) fn each_entry_of(
    store: &mut Store,
    key: &str,
    mut after: EntryId,
    upto: EntryId,
    mut each: impl FnMut(&Entry) -> bool,
) -> Result<()> {
    let reply = Reply::of_command("XRANGE");
    // Entries hold one order or hundreds: their weight, not their number, makes a page.
    let mut count = 20;
    let page = |after: EntryId, count: usize| {
        let mut command = redis::cmd("XRANGE");
        command.arg(key).arg(format!("({after}")).arg(upto.to_string()).arg("COUNT").arg(count);
        Call::command(key, &command)
    };
    let mut under_way = None;
    while after < upto {
        let ahead = under_way.take().unwrap_or_else(|| {
            store.throttle.wait();
            store.servers.send_ahead(page(after, count))
        });
        let entries = reply.array(store.servers.finish(ahead)?)?.into_iter().map(|value| entry(&reply, value));
        store.throttle.took();
        let entries: Vec<Entry> = entries.collect::<Result<_, _>>()?;
        let Some(last) = entries.last() else { break };
        (after, count) = (last.id, page_size(&entries));
        if after < upto {
            store.throttle.wait();
            under_way = Some(store.servers.send_ahead(page(after, count)));
        }
        if !entries.iter().all(&mut each) {
            break;
        }
    }
    // What was sent must be read before anything else.
    under_way.map_or(Ok(()), |ahead| store.servers.finish(ahead).map(|_| ()))
}

/// How many entries the next page of a ledger asks for.
fn page_size(page: &[Entry]) -> usize {
    let orders: usize = page.iter().filter_map(|entry| entry.users.as_ref()).map(Vec::len).sum();
    (PAGE_BYTES / (orders / page.len().max(1)).max(1)).clamp(20, MAX_PAGE)
}

/// The command that reads behind an entry of each of some ledgers, for a group if one is named; with `block` it waits so many ms.
fn read_command(group: Option<&str>, block: Option<u128>, keys: &[String], after: &[String]) -> Cmd {
    let mut command = redis::cmd(read_name(group));
    group.iter().for_each(|group| _ = command.arg("GROUP").arg(group).arg(CONSUMER));
    command.arg("COUNT").arg(SHOWN);
    block.iter().for_each(|block| _ = command.arg("BLOCK").arg(block));
    command.arg("STREAMS").arg(keys).arg(after).to_owned()
}

fn read_name(group: Option<&str>) -> &'static str {
    if group.is_some() { "XREADGROUP" } else { "XREAD" }
}

/// An entry with its id: one that was trimmed has nothing else.
type EntryById = (EntryId, Option<Entry>);

/// The streams of a reply that have entries, by key.
fn streams(group: Option<&str>, value: Value) -> Result<Vec<(String, Vec<EntryById>)>> {
    let reply = Reply::of_command(read_name(group));
    if value == Value::Nil {
        return Ok(Vec::new());
    }
    let one = |value: Value| match value {
        Value::Array(parts) if matches!(parts.get(1), Some(Value::Nil)) => {
            let id = reply.text(parts.first())?.unwrap_or_default();
            Ok((id.parse().map_err(|why: String| reply.invalid(why))?, None))
        }
        value => entry(&reply, value).map(|entry| (entry.id, Some(entry))),
    };
    let stream = |value: Value| {
        let Ok([key, entries]) = <[Value; 2]>::try_from(reply.array(value)?) else {
            return Err(reply.invalid("no stream"));
        };
        let key = reply.text(Some(&key))?.unwrap_or_default();
        Ok((key, reply.array(entries)?.into_iter().map(one).collect::<Result<_, _>>()?))
    };
    reply.array(value)?.into_iter().map(stream).collect()
}

/// The entries of a ledger and its checkpoint at one instant: a trim moves entries from one to the other.
const ENTRIES: &str = "\
if redis.call('TYPE', KEYS[1]).ok ~= 'stream' or redis.call('TYPE', KEYS[2]).ok ~= 'hash' then return {} end
return {redis.call('XLEN', KEYS[1]), redis.call('HMGET', KEYS[2], 'checkpoint')[1]}";

/// A consumer group of a ledger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ConsumerGroup {
    /// The activity.
    pub activity: ActivityId,
    /// The ledger's key.
    pub key: String,
    /// The group.
    pub stats: GroupStats,
    /// When the oldest entry was written that it has not acknowledged, given to it or not; `None` if there is none.
    pub waiting_since: Option<Millis>,
}

/// The consumer groups of these activities, in the order of the activities.
///
/// # Errors
/// Any of [`StoreError`]; a user who may not ask among them.
pub(crate) fn consumer_groups(store: &mut Store, activities: &[ActivityId]) -> Result<Vec<ConsumerGroup>> {
    let mut found = Vec::new();
    for (activity, groups) in activities.iter().zip(stats::groups(store, activities)?) {
        let key = store.keys(activity).ledger;
        let group = |stats| ConsumerGroup { activity: activity.clone(), key: key.clone(), stats, waiting_since: None };
        let mut of_activity: Vec<ConsumerGroup> = groups.into_iter().map(group).collect();
        of_activity.sort_by(|one, other| one.stats.name.cmp(&other.stats.name));
        found.append(&mut of_activity);
    }
    find_waiting(store, &mut found)?;
    Ok(found)
}

/// Finds out since when each waits: for the first entry that was not acknowledged, else for the first that was not
/// given out.
fn find_waiting(store: &mut Store, groups: &mut [ConsumerGroup]) -> Result<()> {
    let calls = groups.iter().map(|group| {
        let command = match group.stats.pending {
            0 => {
                let after = format!("({}", group.stats.delivered);
                redis::cmd("XRANGE").arg(&group.key).arg(after).arg("+").arg("COUNT").arg(1).to_owned()
            }
            _ => redis::cmd("XPENDING").arg(&group.key).arg(&group.stats.name).to_owned(),
        };
        Call::command(&group.key, &command)
    });
    let values = store.servers.read_all(&calls.collect::<Vec<_>>())?;
    for (group, value) in groups.iter_mut().zip(values) {
        let Value::Array(parts) = value else { continue };
        let first = match group.stats.pending {
            0 => parts.into_iter().next().map(|first| entry(&Reply::of_command("XRANGE"), first)).transpose()?,
            // Count, first id, last id, consumers.
            _ => Reply::of_command("XPENDING").text(parts.get(1))?.and_then(|id| id.parse().ok()).map(Entry::new),
        };
        group.waiting_since = first.map(|first| first.id.at());
    }
    Ok(())
}

/// How many entries were written to each ledger since its preheat, trimmed ones included; `None` without a ledger.
///
/// # Errors
/// Any of [`StoreError`].
pub(crate) fn ledger_entries(store: &mut Store, activities: &[ActivityId]) -> Result<Vec<Option<u64>>> {
    let calls = activities.iter().map(|activity| {
        let keys = store.keys(activity);
        let mut command = redis::cmd("EVAL");
        command.arg(ENTRIES).arg(2).arg(&keys.ledger).arg(&keys.meta);
        Call::command(&keys.ledger, &command)
    });
    let reply = Reply::of_command("EVAL");
    let values = store.servers.read_all(&calls.collect::<Vec<_>>())?.into_iter();
    values
        .map(|value| {
            let Value::Array(parts) = value else { return Ok(None) };
            let (Some(kept), checkpoint) = (reply.count(parts.first())?, reply.text(parts.get(1))?) else {
                return Ok(None);
            };
            let checkpoint = checkpoint.and_then(|text| Checkpoint::read(&text));
            Ok(Some(kept + checkpoint.map_or(0, |checkpoint| checkpoint.removed)))
        })
        .collect()
}

/// The newest entries of ledgers up to given ones, the newest first.
///
/// # Errors
/// Any of [`StoreError`].
pub(crate) fn ledger_ends(store: &mut Store, ends: &[(ActivityId, EntryId)], count: usize) -> Result<Vec<Vec<Entry>>> {
    let calls = ends.iter().map(|(activity, end)| {
        let key = store.keys(activity).ledger;
        let mut command = redis::cmd("XREVRANGE");
        command.arg(&key).arg(end.to_string()).arg("-").arg("COUNT").arg(count);
        Call::command(&key, &command)
    });
    let reply = Reply::of_command("XREVRANGE");
    let values = store.servers.read_all(&calls.collect::<Vec<_>>())?.into_iter();
    values.map(|value| reply.array(value)?.into_iter().map(|value| entry(&reply, value)).collect()).collect()
}
