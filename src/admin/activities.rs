//! Activities as a whole: the index of all that were preheated, pause, and what concerns the server they are on.

use crate::error::{Recovery, StoreError};
use crate::model::id::ActivityId;
use crate::model::order::Corrupt;
use crate::model::status::Status;
use crate::model::time::Millis;
use crate::redis::call::Call;
use crate::redis::scan::Scan;
use crate::script::PAUSE;
use crate::script::keys::Keys;
use crate::script::reply::Reply;
use crate::store::Store;

/// Whether purchases are refused or allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pause {
    /// They are refused.
    Pause {
        /// Also by scripts of a backend, which look at the stock alone: it is moved out of their reach.
        withdraw_stock: bool,
    },
    /// They are allowed again, and a withdrawn stock returns.
    Resume,
}

/// How a pause or a resume of one activity ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Paused {
    /// How it ended.
    pub status: Status,
    /// Where the activity is in its life afterwards; `None` if it was refused.
    pub state: Option<String>,
    /// Units that were withdrawn, or returned.
    pub moved: u64,
    /// Whether it is `not_preheated` because another system created it.
    pub is_foreign: bool,
    /// Whether it is `not_preheated` because its stock key is gone, so that no units can move.
    pub is_stock_lost: bool,
    /// Whether it is `not_preheated` because a preheat of its shards is unfinished.
    pub is_unfinished: bool,
    /// Which key is corrupt.
    pub corrupt: Option<Corrupt>,
}

impl Paused {
    /// Nothing changed.
    pub(crate) fn refused(status: Status) -> Self {
        let (is_foreign, is_stock_lost, is_unfinished) = (false, false, false);
        Self { status, state: None, moved: 0, is_foreign, is_stock_lost, is_unfinished, corrupt: None }
    }
}

impl Store {
    /// What the server does when it is out of memory; `None` if it does not say.
    ///
    /// # Errors
    /// Any of [`StoreError`]; a user who may not ask among them.
    pub fn eviction_policy(&mut self) -> Result<Option<String>, StoreError> {
        let command = redis::cmd("CONFIG").arg("GET").arg("maxmemory-policy").to_owned();
        let reply = Reply::of_command("CONFIG GET");
        let mut policy = None;
        if self.servers.is_cluster() {
            self.servers.discover()?;
        }
        for node in self.servers.primaries() {
            let of_node = reply.text(reply.array(self.servers.ask_node(node, &command)?)?.get(1))?;
            // One that evicts is worth a warning, whatever the others do.
            let is_worse = policy.is_none() || of_node.as_deref().is_some_and(|policy| policy != "noeviction");
            policy = if is_worse { of_node } else { policy };
        }
        Ok(policy)
    }

    /// The server's clock.
    ///
    /// # Errors
    /// Any of [`StoreError`].
    pub fn now(&mut self) -> Result<Millis, StoreError> {
        let reply = Reply::of_command("TIME");
        let parts = reply.array(self.servers.ask_any(&redis::cmd("TIME"))?)?;
        let part = |at: usize| reply.count(parts.get(at)).map(Option::unwrap_or_default);
        Ok(Millis::new(part(0)? * 1000 + part(1)? / 1000))
    }

    /// Pauses an activity, or resumes it. With `dry_run` nothing is written.
    ///
    /// # Errors
    /// Any of [`StoreError`]; refusals are statuses.
    pub fn set_paused(
        &mut self,
        activity: &ActivityId,
        to: Pause,
        reason: Option<&str>,
        dry_run: bool,
    ) -> Result<Paused, StoreError> {
        let paused = self.pause_one(activity, to, reason, dry_run)?;
        if paused.status != Status::Sharded {
            return Ok(paused);
        }
        match self.pause_sharded(activity, to, reason, dry_run)? {
            Some(paused) => Ok(paused),
            // It has no shards any more.
            None => self.pause_one(activity, to, reason, dry_run),
        }
    }

    /// The same for an activity without shards, or one shard; `sharded` if it has shards.
    pub(crate) fn pause_one(
        &mut self,
        activity: &ActivityId,
        to: Pause,
        reason: Option<&str>,
        dry_run: bool,
    ) -> Result<Paused, StoreError> {
        let keys = self.keys(activity);
        let (state, withdraw) = match to {
            Pause::Pause { withdraw_stock } => ("paused", withdraw_stock),
            Pause::Resume => ("live", false),
        };
        let flag = |is_set: bool| if is_set { "1" } else { "0" };
        let arguments = [state, &self.operator, reason.unwrap_or_default(), flag(dry_run), flag(withdraw)];
        let call = Call::script(&PAUSE, keys.in_order(), arguments).idempotent().recovered_by(Recovery::SameCall);
        let value = self.servers.call(&call)?;
        let reply = Reply::of(&PAUSE);
        let values = reply.array(value)?;
        let status = reply.status(values.first())?;
        if (status.is_done() || status == Status::PausedHereOnly) && !dry_run {
            self.changed(activity);
        }
        let mut paused = Paused::refused(status);
        match status {
            Status::Corrupt => paused.corrupt = Some(reply.corrupt(&values, &keys)?),
            Status::Exists | Status::Sharded => {}
            Status::NotPreheated => {
                paused.is_foreign = reply.text(values.get(2))?.is_some();
                paused.is_stock_lost = reply.text(values.get(1))?.is_some();
            }
            _ => {
                paused.state = reply.text(values.get(1))?;
                paused.moved = reply.count(values.get(2))?.unwrap_or_default();
            }
        }
        Ok(paused)
    }

    /// Everything that was preheated in this layout, sorted: numbers by size, then the rest as text.
    ///
    /// # Errors
    /// Any of [`StoreError`].
    pub fn preheated(&mut self) -> Result<Vec<ActivityId>, StoreError> {
        let mut found = Vec::new();
        let index = Keys::index(self.layout);
        self.servers.scan(Scan::Set(index), |members| {
            found.extend(texts(members).filter_map(|id| id.parse::<ActivityId>().ok()));
            Ok::<_, StoreError>(())
        })?;
        Ok(sorted(found))
    }

    /// Activities that another system created with the layout's keys: found by walking the keyspace.
    ///
    /// # Errors
    /// Any of [`StoreError`].
    pub fn foreign(&mut self) -> Result<Vec<ActivityId>, StoreError> {
        let known = self.preheated()?;
        let (before, after) = Keys::stock_pattern(self.layout);
        let pattern = format!("{}*{}", glob_escaped(before), glob_escaped(after));
        let layout = self.layout;
        let mut found = Vec::new();
        self.servers.scan(Scan::Keys(&pattern), |keys| {
            let id = |key: &str| key.strip_prefix(before)?.strip_suffix(after)?.parse::<ActivityId>().ok();
            // In a custom layout a key of ours may look like the stock key of another activity.
            found.extend(texts(keys).filter_map(id).filter(|id| layout.check_id(id).is_ok()));
            Ok::<_, StoreError>(())
        })?;
        let known: std::collections::HashSet<ActivityId> = known.into_iter().collect();
        found.retain(|activity| !known.contains(activity));
        Ok(sorted(found))
    }
}

/// The members of a page that are texts.
fn texts<'m>(members: &'m [&[u8]]) -> impl Iterator<Item = &'m str> {
    members.iter().filter_map(|bytes| std::str::from_utf8(bytes).ok())
}

/// Sorted by size if both are numbers of a plausible length, else as text; without doubles, which a scan may give.
fn sorted(mut activities: Vec<ActivityId>) -> Vec<ActivityId> {
    activities.sort_by_cached_key(|activity| {
        let number = crate::model::number::whole(activity.as_str());
        (number.is_none(), number, activity.as_str().to_owned())
    });
    activities.dedup();
    activities
}

/// A text that a pattern of SCAN takes as it is.
fn glob_escaped(text: &str) -> String {
    text.chars().flat_map(|c| if "*?[]\\".contains(c) { vec!['\\', c] } else { vec![c] }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn activities_are_sorted_as_people_count() {
        let ids = ["b", "10", "9", "a", "010", "9"].map(|id| id.parse().unwrap()).to_vec();
        let sorted: Vec<String> = sorted(ids).into_iter().map(|id| id.to_string()).collect();
        assert_eq!(sorted, ["9", "10", "010", "a", "b"]);
    }

    #[test]
    fn a_prefix_is_no_pattern() {
        assert_eq!(glob_escaped("a*[b]"), "a\\*\\[b\\]");
    }
}
