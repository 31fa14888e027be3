//! Which activities are sharded, as far as this process knows.

use std::collections::{HashMap, HashSet};

use crate::model::id::ActivityId;
use crate::model::shards::Shards;

/// Lists of shards by activity. A list is fixed until a reset, which a shard that is gone shows.
#[derive(Debug, Clone, Default)]
pub(crate) struct Directory {
    sharded: HashMap<ActivityId, Shards>,
    /// Activities that had no shards when somebody asked.
    unsharded: HashSet<ActivityId>,
}

impl Directory {
    /// The shards of an activity that is known to have some.
    pub(crate) fn get(&self, activity: &ActivityId) -> Option<&Shards> {
        self.sharded.get(activity)
    }

    /// Whether nobody asked for the shards of an activity yet.
    pub(crate) fn is_unknown(&self, activity: &ActivityId) -> bool {
        !self.sharded.contains_key(activity) && !self.unsharded.contains(activity)
    }

    /// The shards of an activity, from now on.
    pub(crate) fn learn(&mut self, activity: &ActivityId, shards: Shards) {
        self.unsharded.remove(activity);
        self.sharded.insert(activity.clone(), shards);
    }

    /// An activity has no shards.
    pub(crate) fn learn_unsharded(&mut self, activity: &ActivityId) {
        self.sharded.remove(activity);
        self.unsharded.insert(activity.clone());
    }

    /// What is known of an activity may be old.
    pub(crate) fn forget(&mut self, activity: &ActivityId) {
        self.sharded.remove(activity);
        self.unsharded.remove(activity);
    }

    /// Activities without shards may have some by now.
    pub(crate) fn forget_unsharded(&mut self) {
        self.unsharded.clear();
    }
}
