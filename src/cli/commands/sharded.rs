//! Sharded activities in commands that take activities: which are, and which shards they have.

use crate::cli::error::Result;
use crate::cli::failure::Failure;
use crate::cli::input::records::Sharded;
use seckill::inventory::id::ActivityId;
use seckill::inventory::layout::Layout;
use seckill::inventory::shards::Shards;
use seckill::store::Store;

/// Those of some activities that are sharded.
pub fn find(activities: &[ActivityId], store: &mut Store) -> Result<Sharded> {
    if store.layout() != Layout::Cluster {
        return Ok(Sharded::new());
    }
    let snapshots = store.snapshots(activities)?;
    let shards = snapshots.into_iter().filter_map(|found| Some((found.activity, found.meta?.shards?)));
    Ok(shards.collect())
}

/// The activities with the shards of each that is sharded in its place.
pub fn expand(activities: Vec<ActivityId>, store: &mut Store) -> Result<Vec<ActivityId>> {
    let sharded = find(&activities, store)?;
    let each = |activity: ActivityId| match sharded.get(&activity) {
        Some(shards) => shards.ids(&activity).collect(),
        None => vec![activity],
    };
    Ok(activities.into_iter().flat_map(each).collect())
}

/// Refuses a command that is of one shard at a time: `again` is the command for one.
pub fn refuse(activity: &ActivityId, shards: &Shards, what: &str, again: &str) -> Failure {
    let names: Vec<String> = shards.ids(activity).map(|shard| format!("`{shard}`")).collect();
    let first = activity.shard(shards.numbers()[0]);
    Failure::usage(format!("`{activity}` is sharded, and {what} is of one shard: {}", names.join(", "))).hint(format!(
        "`seckill {again} '{first}'`; `seckill reconcile {activity}` and `seckill ledger {activity}` are of all shards"
    ))
}
