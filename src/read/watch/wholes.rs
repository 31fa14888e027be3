//! Sharded activities among those that are watched: the parent and each shard are read, and shown as one.

use std::collections::HashMap;

use crate::error::StoreError;
use crate::model::activity::whole::whole;
use crate::model::{ActivityId, Layout, Snapshot};
use crate::read::watch::{self, View, Watched};
use crate::store::Store;

/// Watches these from now on, with all their shards. What is known of those that were watched before stays known.
///
/// # Errors
/// The shards cannot be read.
pub(crate) fn watch_wholes(
    store: &mut Store,
    watched: &mut Watched,
    activities: &[ActivityId],
) -> Result<(), StoreError> {
    let shards = match store.layout() {
        Layout::Cluster => store.shards_of_each(activities)?,
        _ => vec![None; activities.len()],
    };
    let mut all: Vec<ActivityId> = Vec::with_capacity(activities.len());
    for (activity, shards) in activities.iter().zip(shards) {
        all.push(activity.clone());
        all.extend(shards.iter().flat_map(|shards| shards.ids(activity)));
    }
    if !all.iter().eq(watched.activities.iter().map(|one| &one.activity)) {
        watch::watch(store, watched, &all);
    }
    Ok(())
}

/// What is known of activities, in their order; of a sharded one the sum over its shards.
pub(crate) fn whole_views(store: &Store, watched: &Watched, activities: &[ActivityId]) -> Vec<View> {
    let views: HashMap<&ActivityId, &View> = watched.views().map(|view| (&view.snapshot.activity, view)).collect();
    activities.iter().filter_map(|activity| whole_view(store, views.get(activity)?, &views)).collect()
}

fn whole_view(store: &Store, parent: &View, views: &HashMap<&ActivityId, &View>) -> Option<View> {
    let parts = parent.snapshot.parts();
    if parts.len() == 1 {
        return Some(parent.clone());
    }
    // One that was not read yet comes with the next reading.
    let shards: Vec<&View> = parts.iter().map(|part| views.get(part).copied()).collect::<Option<_>>()?;
    let snapshots: Vec<Snapshot> = shards.iter().map(|view| view.snapshot.clone()).collect();
    let snapshot = whole(parent.snapshot.clone(), &snapshots, &|shard| {
        let keys = store.keys(shard);
        (keys.stock, keys.meta)
    });
    Some(View {
        snapshot,
        read: shards.iter().map(|view| view.read).min().unwrap_or(parent.read),
        is_old: parent.is_old || shards.iter().any(|view| view.is_old),
        groups: shards.iter().map(|view| view.groups.clone()).collect::<Option<Vec<_>>>().map(|groups| groups.concat()),
        foreign_write: shards.iter().filter_map(|view| view.foreign_write).max(),
    })
}
