//! Sharded activities: finding the home of a user, and getting units from other shards.
//!
//! An order goes to the user's home, a shard that is an activity of its own. Only if the home is out of stock does anybody look at
//! the others: `ShardBorrower` transfers units to it, or proves that there are none. docs/inside.md says why.

pub(crate) mod borrower;
pub(crate) mod choice;
pub(crate) mod peek;
pub(crate) mod request;
pub(crate) mod transfer;

use std::collections::{HashMap, HashSet};

use crate::model::id::ActivityId;
use crate::model::shards::Shards;
pub(crate) use crate::shards::borrower::ShardBorrower;

/// Lists of shards by activity. A list is fixed until a reset, which a shard that is gone shows.
#[derive(Debug, Clone, Default)]
pub(crate) struct Directory {
    sharded: HashMap<ActivityId, Shards>,
    /// Activities that had no shards when they were read.
    unsharded: HashSet<ActivityId>,
}

impl Directory {
    /// The shards of an activity that is known to have some.
    pub(crate) fn get(&self, activity: &ActivityId) -> Option<&Shards> {
        self.sharded.get(activity)
    }

    /// Whether the shards of an activity were not read yet.
    pub(crate) fn is_unknown(&self, activity: &ActivityId) -> bool {
        !self.sharded.contains_key(activity) && !self.unsharded.contains(activity)
    }

    /// The shards of an activity, from now on; `None` if it has none.
    pub(crate) fn learn(&mut self, activity: &ActivityId, shards: Option<Shards>) {
        self.forget(activity);
        match shards {
            Some(shards) => _ = self.sharded.insert(activity.clone(), shards),
            None => _ = self.unsharded.insert(activity.clone()),
        }
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
