//! Which shards an activity has, and which of them is a user's home.

use crate::error::StoreError;
use crate::model::id::ActivityId;
use crate::model::layout::Layout;
use crate::model::shards::Shards;
use crate::redis::call::Call;
use crate::script::reply::Reply;
use crate::store::Store;

impl Store {
    /// The shards of an activity, as they are stored now; `None` if it is not sharded.
    ///
    /// # Errors
    /// Any of [`StoreError`].
    pub fn shards_of(&mut self, activity: &ActivityId) -> Result<Option<Shards>, StoreError> {
        Ok(self.shards_of_each(std::slice::from_ref(activity))?.pop().flatten())
    }

    /// The same for several activities, by a plain command each: no right is needed that a screen does not need anyway.
    ///
    /// # Errors
    /// Any of [`StoreError`].
    pub(crate) fn shards_of_each(&mut self, activities: &[ActivityId]) -> Result<Vec<Option<Shards>>, StoreError> {
        let call = |activity: &ActivityId| {
            let meta = self.keys(activity).meta;
            Call::command(&meta, redis::cmd("HMGET").arg(&meta).arg("shards"))
        };
        let calls: Vec<Call> = activities.iter().map(call).collect();
        let reply = Reply::of_command("HMGET");
        let mut all = Vec::with_capacity(activities.len());
        for (activity, value) in activities.iter().zip(self.servers.read_all(&calls)?) {
            let shards = reply.text(reply.array(value)?.first())?.and_then(|text| text.parse::<Shards>().ok());
            self.directory.learn(activity, shards.clone());
            all.push(shards);
        }
        Ok(all)
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
        self.shards_of_each(&unknown)?;
        Ok(activities.iter().map(|id| self.home_of(id, user)).collect())
    }
}
