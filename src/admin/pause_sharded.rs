//! The pause of a sharded activity: its shards one by one, then the parent. The same command finishes one that was cut.

use crate::admin::activities::{Pause, Paused};
use crate::admin::parent::{Changed, Says};
use crate::error::StoreError;
use crate::model::activity::rules::{PackedRules, StoredState};
use crate::model::activity::whole;
use crate::model::id::ActivityId;
use crate::model::status::Status;
use crate::store::Store;

/// How often others may change the parent before this gives up.
const TRIES: usize = 100;

impl Store {
    /// Pauses or resumes all shards, and lets the parent say so. `None` if the activity is no parent any more.
    pub(crate) fn pause_sharded(
        &mut self,
        activity: &ActivityId,
        to: Pause,
        reason: Option<&str>,
        dry_run: bool,
    ) -> Result<Option<Paused>, StoreError> {
        let state = if to == Pause::Resume { StoredState::Live } else { StoredState::Paused };
        let mut result = Paused::refused(Status::Replayed);
        for _ in 0..TRIES {
            let parent = self.read_parent(activity)?;
            if !parent.is_parent() {
                return Ok(None);
            }
            let says = match parent.says(&self.meta_key(activity)) {
                Ok(says) => says,
                Err(corrupt) => return Ok(Some(Paused { corrupt: Some(corrupt), ..Paused::refused(Status::Corrupt) })),
            };
            let Some(shards) = says.shards.clone() else {
                return Ok(Some(Paused { is_unfinished: true, ..Paused::refused(Status::NotPreheated) }));
            };
            let mut states = Vec::with_capacity(shards.count());
            for shard in shards.ids(activity) {
                let paused = self.pause_one(&shard, to, reason, dry_run)?;
                if !paused.status.is_done() {
                    return Ok(Some(paused));
                }
                if paused.status == Status::Ok {
                    result.status = Status::Ok;
                }
                result.moved += paused.moved;
                states.extend(paused.state);
            }
            result.state = whole::state(&states);
            if says.rules.state == state {
                return Ok(Some(result));
            }
            result.status = Status::Ok;
            let rules = PackedRules { state, ..says.rules };
            if dry_run || self.change_parent(activity, &parent, &Says { rules, ..says }, false)? == Changed::Done {
                return Ok(Some(result));
            }
        }
        Err(StoreError::GaveUp(format!("others keep changing `{activity}`")))
    }
}
