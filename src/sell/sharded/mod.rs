//! Orders of sharded activities: each goes to the shard that is its user's home.

pub(crate) mod send;

use crate::error::StoreError;
use crate::model::id::ActivityId;
use crate::shards::borrower::Finished;
use crate::shards::peek::peek;
use crate::shards::request::STUCK;
use crate::store::Store;

impl Store {
    /// Finishes transfers between the shards of an activity that somebody left, of any age with `all`. `None`: it is not sharded.
    ///
    /// # Errors
    /// Any of [`StoreError`].
    pub fn finish_transfers(&mut self, activity: &ActivityId, all: bool) -> Result<Option<Finished>, StoreError> {
        let Some(shards) = self.shards_of(activity)? else { return Ok(None) };
        self.servers.look_for_replicas()?;
        let older_than = if all { std::time::Duration::ZERO } else { STUCK };
        let views =
            peek(&mut self.servers, self.layout, activity, &shards).map_err(|fault| fault.into_error(activity))?;
        let finished = self.borrower.finish_stuck(&mut self.servers, activity, &shards, &views, older_than)?;
        shards.ids(activity).for_each(|id| self.changed(&id));
        Ok(Some(finished))
    }
}
