//! Which activities are sharded, as far as this process knows.

use std::collections::HashMap;

use crate::inventory::id::ActivityId;
use crate::inventory::shards::Shards;

/// Lists of shards by activity. A list is fixed until a reset, which a shard that is gone shows.
#[derive(Debug, Clone, Default)]
pub(in crate::store) struct Directory(HashMap<ActivityId, Shards>);

impl Directory {
    /// The shards of an activity that is known to have some.
    pub(in crate::store) fn get(&self, activity: &ActivityId) -> Option<&Shards> {
        self.0.get(activity)
    }

    /// The shards of an activity, from now on; true if they are news.
    pub(in crate::store) fn learn(&mut self, activity: &ActivityId, shards: Shards) -> bool {
        self.0.insert(activity.clone(), shards.clone()).is_none_or(|known| known != shards)
    }

    /// The list of an activity may be old.
    pub(in crate::store) fn forget(&mut self, activity: &ActivityId) -> Option<Shards> {
        self.0.remove(activity)
    }
}
