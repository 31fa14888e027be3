//! Metrics of ledgers and of who reads them.

use crate::cli::commands::inspect::metrics::families as f;
use crate::cli::error::Result;
use crate::cli::output::prometheus::Exposition;
use crate::error::StoreError;
use crate::model::activity::Snapshot;
use crate::model::id::ActivityId;
use crate::read::feeds::Feed;
use crate::store::Store;

/// Of a sharded activity entries are those of all shards, and each shard has consumer groups of its own.
pub fn metrics(snapshots: &[&Snapshot], store: &mut Store, metrics: &mut Exposition) -> Result<()> {
    let activities: Vec<ActivityId> = snapshots.iter().flat_map(|snapshot| snapshot.parts()).collect();
    let mut counts = store.ledger_entries(&activities)?.into_iter();
    let mut entries = metrics.family(f::ENTRIES);
    for snapshot in snapshots {
        let count: Option<u64> = counts.by_ref().take(snapshot.parts().len()).sum();
        entries.add(&[("activity", snapshot.activity.as_str())], count);
    }
    // A user who may not ask has no groups to see.
    let (feeds, now) = match store.feeds(&activities) {
        Ok(feeds) => (feeds, store.now()?.get()),
        Err(StoreError::Permission { .. }) => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    let waiting = |feed: &Feed| {
        let millis = feed.waiting_since.map_or(0, |since| now.saturating_sub(since.get()));
        format!("{}.{:03}", millis / 1000, millis % 1000)
    };
    let labels = |feed: &Feed| [feed.activity.to_string(), feed.stats.name.clone()];
    let mut family = |family, value: &dyn Fn(&Feed) -> Option<String>| {
        let mut samples = metrics.family(family);
        for feed in &feeds {
            let [activity, group] = labels(feed);
            samples.add(&[("activity", &activity), ("group", &group)], value(feed));
        }
    };
    family(f::GROUP_LAG, &|feed| feed.stats.lag.map(|lag| lag.to_string()));
    family(f::GROUP_PENDING, &|feed| Some(feed.stats.pending.to_string()));
    family(f::GROUP_WAITING, &|feed| Some(waiting(feed)));
    Ok(())
}
