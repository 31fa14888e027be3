//! Sharded activities in commands that take activities: which are, and which shards they have.

use std::collections::{HashSet, VecDeque};

use crate::cli::error::Result;
use crate::cli::failure::Failure;
use crate::cli::input::records::Sharded;
use crate::model::id::ActivityId;
use crate::model::layout::Layout;
use crate::model::ledger::{Entry, EntryId};
use crate::model::shards::Shards;
use crate::read::{ledger, snapshot};
use crate::store::Store;

/// Those of some activities that are sharded.
pub fn find(activities: &[ActivityId], store: &mut Store) -> Result<Sharded> {
    if store.layout() != Layout::Cluster {
        return Ok(Sharded::new());
    }
    let snapshots = snapshot::snapshots(store, activities)?;
    let shards = snapshots.into_iter().filter_map(|found| Some((found.activity, found.meta?.shards?)));
    Ok(shards.collect())
}

/// The activities, each once, with the shards of each that is sharded in its place.
pub fn expand(activities: Vec<ActivityId>, store: &mut Store) -> Result<Vec<ActivityId>> {
    let sharded = find(&activities, store)?;
    let each = |activity: ActivityId| match sharded.get(&activity) {
        Some(shards) => shards.ids(&activity).collect(),
        None => vec![activity],
    };
    let mut seen = HashSet::new();
    Ok(activities.into_iter().flat_map(each).filter(|activity| seen.insert(activity.clone())).collect())
}

/// Gives the entries of several ledgers by their ids, with the place of each ledger: those behind the entry beside it,
/// which becomes the last that was given, and up to `upto`, if that is given. Ends early once `each` returns false.
pub fn each_merged(
    ledgers: &mut [(ActivityId, EntryId)],
    upto: Option<&[EntryId]>,
    store: &mut Store,
    mut each: impl FnMut(&ActivityId, usize, &Entry) -> Result<bool>,
) -> Result<()> {
    let mut pages: Vec<VecDeque<Entry>> = ledgers.iter().map(|_| VecDeque::new()).collect();
    let mut ended = vec![false; ledgers.len()];
    loop {
        for (shard, (activity, after)) in ledgers.iter().enumerate() {
            if pages[shard].is_empty() && !ended[shard] {
                pages[shard].extend(ledger::ledger(store, activity, *after)?);
                if let Some(upto) = upto {
                    pages[shard].retain(|entry| entry.id <= upto[shard]);
                }
                ended[shard] = pages[shard].is_empty();
            }
        }
        let next = (0..pages.len()).filter_map(|shard| Some((pages[shard].front()?.id, shard))).min();
        let Some((_, shard)) = next else { return Ok(()) };
        let others = (0..pages.len()).filter(|other| *other != shard);
        let limit = others.filter_map(|other| Some((pages[other].front()?.id, other))).min();
        let (activity, after) = &mut ledgers[shard];
        // As many as come before those of the others.
        while pages[shard].front().is_some_and(|entry| limit.is_none_or(|limit| (entry.id, shard) < limit)) {
            let Some(entry) = pages[shard].pop_front() else { break };
            *after = entry.id;
            if !each(activity, shard, &entry)? {
                return Ok(());
            }
        }
    }
}

/// Refuses a command that is of one shard at a time: `again` is the command for one.
pub fn refuse(activity: &ActivityId, shards: &Shards, what: &str, again: &str) -> Failure {
    let names: Vec<String> = shards.ids(activity).map(|shard| format!("`{shard}`")).collect();
    let first = activity.shard(shards.numbers()[0]);
    Failure::usage(format!("`{activity}` is sharded, and {what} is of one shard: {}", names.join(", "))).hint(format!(
        "`seckill {again} '{first}'`; `seckill reconcile {activity}` and `seckill ledger {activity}` are of all shards"
    ))
}
