//! Who reads ledgers in groups, and how far behind each is.

use redis::Value;

use crate::error::StoreError;
use crate::model::id::ActivityId;
use crate::model::ledger::checkpoint::Checkpoint;
use crate::model::ledger::{Entry, EntryId};
use crate::model::time::Millis;
use crate::read::stats::{self, GroupStats};
use crate::redis::call::Call;
use crate::script::reply::Reply;
use crate::script::reply::entry;
use crate::store::Store;

/// The entries of a ledger and its checkpoint at one instant: a trim moves entries from one to the other.
const ENTRIES: &str = "\
if redis.call('TYPE', KEYS[1]).ok ~= 'stream' or redis.call('TYPE', KEYS[2]).ok ~= 'hash' then return {} end
return {redis.call('XLEN', KEYS[1]), redis.call('HMGET', KEYS[2], 'checkpoint')[1]}";

/// A consumer group of a ledger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Feed {
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
pub(crate) fn feeds(store: &mut Store, activities: &[ActivityId]) -> Result<Vec<Feed>, StoreError> {
    let mut feeds = Vec::new();
    for (activity, groups) in activities.iter().zip(stats::groups(store, activities)?) {
        let key = store.keys(activity).ledger;
        let feed = |stats| Feed { activity: activity.clone(), key: key.clone(), stats, waiting_since: None };
        let mut of_activity: Vec<Feed> = groups.into_iter().map(feed).collect();
        of_activity.sort_by(|one, other| one.stats.name.cmp(&other.stats.name));
        feeds.append(&mut of_activity);
    }
    find_waiting(store, &mut feeds)?;
    Ok(feeds)
}

/// Finds out since when each waits: for the first entry that was not acknowledged, else for the first that was not
/// given out.
fn find_waiting(store: &mut Store, feeds: &mut [Feed]) -> Result<(), StoreError> {
    let calls = feeds.iter().map(|feed| {
        let command = match feed.stats.pending {
            0 => {
                let after = format!("({}", feed.stats.delivered);
                redis::cmd("XRANGE").arg(&feed.key).arg(after).arg("+").arg("COUNT").arg(1).to_owned()
            }
            _ => redis::cmd("XPENDING").arg(&feed.key).arg(&feed.stats.name).to_owned(),
        };
        Call::command(&feed.key, &command)
    });
    let values = store.servers.read_all(&calls.collect::<Vec<_>>())?;
    for (feed, value) in feeds.iter_mut().zip(values) {
        let Value::Array(parts) = value else { continue };
        let first = match feed.stats.pending {
            0 => parts.into_iter().next().map(|first| entry(&Reply::of_command("XRANGE"), first)).transpose()?,
            // Count, first id, last id, consumers.
            _ => Reply::of_command("XPENDING").text(parts.get(1))?.and_then(|id| id.parse().ok()).map(Entry::new),
        };
        feed.waiting_since = first.map(|first| first.id.at());
    }
    Ok(())
}

/// How many entries were written to each ledger since its preheat, trimmed ones included; `None` without a ledger.
///
/// # Errors
/// Any of [`StoreError`].
pub(crate) fn ledger_entries(store: &mut Store, activities: &[ActivityId]) -> Result<Vec<Option<u64>>, StoreError> {
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
            let checkpoint = checkpoint.and_then(|text| text.parse::<Checkpoint>().ok());
            Ok(Some(kept + checkpoint.map_or(0, |checkpoint| checkpoint.removed)))
        })
        .collect()
}

/// The newest entries of ledgers up to given ones, the newest first.
///
/// # Errors
/// Any of [`StoreError`].
pub(crate) fn ledger_ends(
    store: &mut Store,
    ends: &[(ActivityId, EntryId)],
    count: usize,
) -> Result<Vec<Vec<Entry>>, StoreError> {
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
