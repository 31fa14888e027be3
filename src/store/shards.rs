//! Which shards an activity has, and which of them is a user's home.

use crate::error::StoreError;
use crate::model::id::ActivityId;
use crate::model::layout::Layout;
use crate::model::shards::Shards;
use crate::script::reply::Reply;
use crate::store::Store;

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
        self.remember_shards(activity, shards.clone());
        Ok(shards)
    }

    /// Remembers what was asked for.
    pub(crate) fn remember_shards(&mut self, activity: &ActivityId, shards: Option<Shards>) {
        match shards {
            Some(shards) => self.directory.learn(activity, shards),
            None => self.directory.learn_unsharded(activity),
        }
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
    pub(crate) fn homes_of(&mut self, activities: &[&ActivityId], user: &[u8]) -> Result<Vec<ActivityId>, StoreError> {
        let unknown: Vec<ActivityId> =
            activities.iter().filter(|id| self.directory.is_unknown(id)).map(|id| (*id).clone()).collect();
        let ask = |id: &ActivityId| {
            let meta = self.keys(id).meta;
            let command = redis::cmd("HGET").arg(&meta).arg("shards").to_owned();
            (meta, command)
        };
        let commands = unknown.iter().map(ask).collect();
        let reply = Reply::of_command("HGET");
        for (id, value) in unknown.iter().zip(self.servers.read_each(commands)?) {
            let shards = reply.text(Some(&value))?.and_then(|text| text.parse::<Shards>().ok());
            self.remember_shards(id, shards);
        }
        Ok(activities.iter().map(|id| self.home_of(id, user)).collect())
    }
}
