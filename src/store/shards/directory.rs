//! Which activities are sharded, as far as this process knows.

use std::collections::HashMap;

use crate::inventory::id::ActivityId;
use crate::inventory::layout::Layout;
use crate::inventory::shards::Shards;
use crate::store::reply::Reply;
use crate::store::{Store, StoreError};

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

impl Store {
    /// The shards of an activity, as they are stored now; `None` if it is not sharded.
    ///
    /// # Errors
    /// Any of [`StoreError`].
    pub fn shards_of(&mut self, activity: &ActivityId) -> Result<Option<Shards>, StoreError> {
        let meta = self.keys(activity).meta;
        let reply = Reply::of_command("HGET");
        let value = self.servers.command(&meta, redis::cmd("HGET").arg(&meta).arg("shards"))?;
        let shards = reply.text(Some(&value))?.and_then(|text| text.parse::<Shards>().ok());
        match &shards {
            Some(shards) => _ = self.directory.learn(activity, shards.clone()),
            None => _ = self.directory.forget(activity),
        }
        Ok(shards)
    }

    /// Records that orders of an activity were applied, in any of its shards if it has some.
    ///
    /// # Errors
    /// Any of [`StoreError`].
    pub fn changed_anywhere(&mut self, activity: &ActivityId) -> Result<(), StoreError> {
        let shards = if self.layout == Layout::Cluster { self.shards_of(activity)? } else { None };
        match shards {
            Some(shards) => shards.ids(activity).for_each(|id| self.changed(&id)),
            None => self.changed(activity),
        }
        Ok(())
    }

    /// Where the units of a user are: the activity, or the user's home if it is known to be sharded.
    #[must_use]
    pub fn home_of(&self, activity: &ActivityId, user: &[u8]) -> ActivityId {
        self.directory.get(activity).map_or_else(|| activity.clone(), |shards| shards.home_of(activity, user))
    }

    /// The activities that have the units of a user: the activities themselves, or of those that are sharded, the home.
    pub(in crate::store) fn homes_of(
        &mut self,
        activities: &[&ActivityId],
        user: &[u8],
    ) -> Result<Vec<ActivityId>, StoreError> {
        let unknown: Vec<ActivityId> =
            activities.iter().filter(|id| self.directory.get(id).is_none()).map(|id| (*id).clone()).collect();
        let ask = |id: &ActivityId| {
            let meta = self.keys(id).meta;
            let command = redis::cmd("HGET").arg(&meta).arg("shards").to_owned();
            (meta, command)
        };
        let commands = unknown.iter().map(ask).collect();
        let reply = Reply::of_command("HGET");
        for (id, value) in unknown.iter().zip(self.servers.read_each(commands)?) {
            if let Some(shards) = reply.text(Some(&value))?.and_then(|text| text.parse::<Shards>().ok()) {
                self.directory.learn(id, shards);
            }
        }
        Ok(activities.iter().map(|id| self.home_of(id, user)).collect())
    }
}
