//! Which activities are sharded, as far as this process knows.

use std::collections::HashMap;

use crate::model::id::ActivityId;
use crate::model::shards::Shards;

/// Lists of shards by activity. A list is fixed until a reset, which a shard that is gone shows.
#[derive(Debug, Clone, Default)]
pub(crate) struct Directory(HashMap<ActivityId, Shards>);

impl Directory {
    /// The shards of an activity that is known to have some.
    pub(crate) fn get(&self, activity: &ActivityId) -> Option<&Shards> {
        self.0.get(activity)
    }

    /// The shards of an activity, from now on; true if they are news.
    pub(crate) fn learn(&mut self, activity: &ActivityId, shards: Shards) -> bool {
        self.0.insert(activity.clone(), shards.clone()).is_none_or(|known| known != shards)
    }

    /// The list of an activity may be old.
    pub(crate) fn forget(&mut self, activity: &ActivityId) -> Option<Shards> {
        self.0.remove(activity)
    }
}
