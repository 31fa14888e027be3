//! Activities: what a fixture wants, and what is stored in Redis.

pub(crate) mod field_change;
pub(crate) mod rules;
pub(crate) mod shard_plan;
#[cfg(test)]
mod tests;
pub(crate) mod whole;

use crate::model::activity::field_change::FieldChange;
use crate::model::activity::rules::StoredState;
use crate::model::activity::shard_plan::ShardPlan;
use crate::model::id::ActivityId;
use crate::model::layout::Layout;
use crate::model::ledger::EntryId;
use crate::model::ledger::checkpoint::Checkpoint;
use crate::model::names::names;
use crate::model::number::{Limit, ShardCount, Units, whole};
use crate::model::shards::Shards;
use crate::model::status::Status;
use crate::model::time::Millis;

/// What an activity should be. A field that is `None` or `Keep` was not given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// Names the activity and its keys.
    pub id: ActivityId,
    /// What people call it.
    pub title: Option<String>,
    /// Units to sell in total. Only an update may keep those that it has.
    pub total: Option<Units>,
    /// The most units a user may hold.
    pub per_user_limit: FieldChange<Limit>,
    /// Purchases are refused before this instant.
    pub starts_at: FieldChange<Millis>,
    /// Purchases are refused from this instant on.
    pub ends_at: FieldChange<Millis>,
    /// Whether changes are written to the ledger; the default is yes.
    pub ledger: Option<bool>,
    /// Over how many shards its stock is spread; `None` if it has its units itself, or, for an update, as many as it has.
    pub shards: Option<ShardCount>,
}

/// The longest id of a sharded activity, so that those of its shards are ids, too.
const LONGEST_SHARDED: usize = 120;

impl Plan {
    /// The end of its window as it is stored: one before 1970 must stay after its start.
    pub(crate) fn stored_end(&self) -> FieldChange<Millis> {
        self.ends_at.map(|end| Millis::new(end.get().max(1)))
    }

    /// The plan as a layout can keep it: a limit of 1 if a user is recorded once.
    ///
    /// # Errors
    /// What is wrong with its limit, and what was expected.
    pub fn fitted(mut self, layout: Layout) -> Result<Self, String> {
        let kind = layout.kind();
        layout.check_id(&self.id)?;
        let limit = self.per_user_limit.value();
        let why = if kind.records_once() && self.per_user_limit.is_given() && limit != Limit::new(1) {
            "records a user once, so it can only be 1"
        } else if !kind.has_users() && limit.is_some() {
            "knows no users, so leave it out"
        } else {
            ""
        };
        if !why.is_empty() {
            let limit = limit.map_or("none".to_owned(), |limit| limit.to_string());
            return Err(format!("per_user_limit {limit} of `{}`: the layout `{}` {why}", self.id, layout.name()));
        }
        if let Some(count) = self.shards {
            let why = if layout != Layout::Cluster {
                format!("only the layout `cluster` has shards, not `{}`", layout.name())
            } else if self.ledger == Some(false) {
                "shards are audited by their ledgers, so it cannot be without one".to_owned()
            } else if self.id.as_str().len() > LONGEST_SHARDED {
                format!("the id of an activity with shards has at most {LONGEST_SHARDED} bytes")
            } else {
                String::new()
            };
            if !why.is_empty() {
                return Err(format!("shards {count} of `{}`: {why}", self.id));
            }
        }
        if kind.records_once() {
            self.per_user_limit = Limit::new(1).into();
        }
        Ok(self)
    }

    /// Whether it says anything about a field, named as in fixtures. What it does not say, an update keeps.
    pub fn gives(&self, field: &str) -> bool {
        match field {
            "stock" => self.total.is_some(),
            "per_user_limit" => self.per_user_limit.is_given(),
            "title" => self.title.is_some(),
            "starts_at" => self.starts_at.is_given(),
            "ends_at" => self.ends_at.is_given(),
            "ledger" => self.ledger.is_some(),
            "shards" => self.shards.is_some(),
            _ => true,
        }
    }
}

/// What preheat may do to an activity that is there and differs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PreheatMode {
    /// Nothing: it is refused.
    #[default]
    Create,
    /// Move total, limit, title and window; purchases stay.
    Update,
    /// The same, only if the total is this.
    UpdateFrom(u64),
    /// Start over, whatever was there.
    Reset,
}

names! {
    /// What preheat did, or would do, to one activity.
    pub enum Action {
        /// It was not there.
        Create = "create",
        /// It is as the plan says.
        Unchanged = "unchanged",
        /// Its total, limit, title or window moves.
        Update = "update",
        /// It starts over.
        Reset = "reset",
        /// It is taken over, with its purchases.
        Adopt = "adopt",
        /// It comes back from an archive.
        Restore = "restore",
        /// Nothing is done.
        Refused = "refused",
    }
}

/// One field in which an activity and its plan differ.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldDifference {
    /// Name of the field, as in fixtures.
    pub field: String,
    /// As it is stored; empty if it is not set.
    pub before: String,
    /// As the plan wants it; empty if it wants none.
    pub after: String,
    /// Whether the plan says anything about it.
    pub is_given: bool,
}

/// How the preheat of one activity ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Preheated {
    /// The activity.
    pub activity: ActivityId,
    /// What was done.
    pub action: Action,
    /// How it ended.
    pub status: Status,
    /// Total before, if it was known.
    pub total_before: Option<u64>,
    /// Total after.
    pub total: Option<u64>,
    /// Units left before, if the key was there.
    pub stock_before: Option<u64>,
    /// Units left after.
    pub stock: Option<u64>,
    /// The most units a user may hold, after.
    pub per_user_limit: Option<u64>,
    /// How many shards it has, after, if it is sharded.
    pub shards: Option<u64>,
    /// In what plan and activity differ.
    pub differences: Vec<FieldDifference>,
    /// Which key is corrupt, and what it holds.
    pub corrupt: Option<crate::model::order::Corrupt>,
}

impl FieldDifference {
    /// Whether it is of the window in which the activity sells.
    fn is_of_window(&self) -> bool {
        matches!(self.field.as_str(), "starts_at" | "ends_at")
    }
}

impl Preheated {
    /// Nothing was done, and nothing else is known.
    pub(crate) fn refused(activity: &ActivityId, status: Status) -> Self {
        Self {
            activity: activity.clone(),
            action: Action::Refused,
            status,
            total_before: None,
            total: None,
            stock_before: None,
            stock: None,
            per_user_limit: None,
            shards: None,
            differences: Vec::new(),
            corrupt: None,
        }
    }

    /// What a reset removes because its plan does not say it, the window first.
    pub fn removed(&self) -> Vec<&FieldDifference> {
        let is_removed = |it: &&FieldDifference| self.action == Action::Reset && !it.is_given && !it.before.is_empty();
        let mut removed: Vec<&FieldDifference> = self.differences.iter().filter(is_removed).collect();
        removed.sort_by_key(|it| !it.is_of_window());
        removed
    }

    /// Whether a reset removes its window, so that it sells at once and for good.
    pub fn loses_window(&self) -> bool {
        self.removed().iter().any(|it| it.is_of_window())
    }

    /// What was done. If a try may have done it whose reply was lost, that is what was planned; and so is what a reset removed.
    #[must_use]
    pub fn of_plan(self, planned: &Self) -> Self {
        if self.action == Action::Reset {
            return Self { differences: planned.differences.clone(), ..self };
        }
        if self.status != Status::Replayed {
            return self;
        }
        Self {
            action: planned.action,
            total_before: planned.total_before,
            stock_before: planned.stock_before,
            differences: planned.differences.clone(),
            ..self
        }
    }
}

names! {
    /// Where an activity is in its life, by the server's clock.
    pub enum State {
        /// Its window has not begun.
        Upcoming = "upcoming",
        /// It sells.
        Live = "live",
        /// It would sell, but nothing is left.
        SoldOut = "sold_out",
        /// The operator paused it.
        Paused = "paused",
        /// Its window is over.
        Ended = "ended",
        /// It is in files; the server has its meta alone.
        Archived = "archived",
    }
}

/// What the meta of an archived activity says of its files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Archived {
    /// SHA-256 of the manifest.
    pub sha256: String,
    /// When its keys were removed.
    pub at: Millis,
    /// Units that were left.
    pub stock: u64,
    /// How many users held units; `None` if the layout records nobody.
    pub buyers: Option<u64>,
    /// Who did it, and why.
    pub by: String,
}

impl Archived {
    /// Reads the field; `None` if it is damaged.
    pub(crate) fn read(text: &str) -> Option<Self> {
        let words: Vec<&str> = text.splitn(7, ' ').collect();
        let &[_, sha256, at, stock, buyers, _, by] = &words[..] else { return None };
        Some(Self {
            sha256: sha256.to_owned(),
            at: Millis::new(whole(at)?),
            stock: whole(stock)?,
            buyers: if buyers == "-" { None } else { Some(whole(buyers)?) },
            by: by.to_owned(),
        })
    }
}

/// What preheat wrote about an activity.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Meta {
    /// Units it was preheated with, updates included.
    pub total: u64,
    /// The most units a user may hold.
    pub per_user_limit: Option<u64>,
    /// What people call it; empty if it has no title.
    pub title: String,
    /// Purchases are refused before this instant.
    pub starts_at: Option<Millis>,
    /// Purchases are refused from this instant on.
    pub ends_at: Option<Millis>,
    /// Whether it sells, is paused or archived, whatever its window says.
    pub stored_state: StoredState,
    /// Whether changes are written to the ledger.
    pub ledger: bool,
    /// One higher with each reset.
    pub epoch: u64,
    /// How many repairs were applied.
    pub repairs: u64,
    /// Where its ledger begins, if it was trimmed.
    pub checkpoint: Option<Checkpoint>,
    /// Units that were moved out of the stock key, so that no script of a backend sells them; `None` if the stock is
    /// not withdrawn. They count as stock.
    pub withdrawn: Option<u64>,
    /// Whether an adoption of it was begun, and is not at its end. If nobody knows its total, that is what is for sale.
    pub is_adopting: bool,
    /// Units held open, which participants' counters include.
    pub holds: u64,
    /// What is known of it while its keys are in files.
    pub archived: Option<Archived>,
    /// The shards that have its units; `None` if it has them itself.
    pub shards: Option<Shards>,
    /// What is unfinished of the preheat of a sharded activity.
    pub plan: Option<ShardPlan>,
}

impl Meta {
    /// Whether it is of a shard that a reset removed.
    pub(crate) fn is_removed(&self) -> bool {
        self.stored_state == StoredState::Archived && !self.ledger && self.total == 0
    }

    /// Where the activity is in its life at an instant. A pause hides an open window, but not its end.
    pub(crate) fn state(&self, now: Millis) -> State {
        if self.stored_state == StoredState::Archived {
            State::Archived
        } else if self.ends_at.is_some_and(|end| now >= end) {
            State::Ended
        } else if self.stored_state == StoredState::Paused {
            State::Paused
        } else if self.starts_at.is_some_and(|start| now < start) {
            State::Upcoming
        } else {
            State::Live
        }
    }
}

/// What the shards of an activity have together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ShardSums {
    /// The sum of their totals, which transfers between them change.
    pub total: u64,
    /// Units that one shard lent and another has not received yet: in no stock. Below zero if the shards have more units than
    /// the sale; `None` while an update of the total is unfinished.
    pub in_transit: Option<i64>,
}

/// An activity at one instant, as the server's own clock has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Snapshot {
    /// The activity.
    pub activity: ActivityId,
    /// `ok`, `not_preheated` or `corrupt`.
    pub status: Status,
    /// Which key is corrupt, and what it holds.
    pub corrupt: Option<crate::model::order::Corrupt>,
    /// Units left, with those that are withdrawn; `None` without a stock key.
    pub stock: Option<u64>,
    /// What preheat wrote; `None` for an activity that only a backend created.
    pub meta: Option<Meta>,
    /// How many users hold units; `None` if the layout records nobody.
    pub buyers: Option<u64>,
    /// The ledger's last entry; `None` if there is none.
    pub ledger_last: Option<EntryId>,
    /// How many entries it has; `None` if nobody asked.
    pub ledger_length: Option<u64>,
    /// The server's clock at that instant.
    pub at: Millis,
    /// Of a sharded activity of which this is the sum.
    pub sums: Option<ShardSums>,
    /// The key of participants, if purchases are refused because units were sold and nobody is recorded. Audits and repairs need
    /// no participants, so `status` says nothing of it.
    pub lost_users: Option<crate::model::order::Corrupt>,
    /// Whether a call that gives units back was cut before it wrote what users hold: the next call writes it.
    pub is_unfinished: bool,
}

impl Snapshot {
    /// The activities whose keys have its units, users and orders: itself, or its shards.
    pub(crate) fn parts(&self) -> Vec<ActivityId> {
        match self.meta.as_ref().and_then(|meta| meta.shards.as_ref()) {
            Some(shards) => shards.ids(&self.activity).collect(),
            None => vec![self.activity.clone()],
        }
    }

    /// The one of them that has a user.
    pub(crate) fn home(&self, user: &[u8]) -> ActivityId {
        match self.meta.as_ref().and_then(|meta| meta.shards.as_ref()) {
            Some(shards) => shards.home_of(&self.activity, user),
            None => self.activity.clone(),
        }
    }

    /// Whether it is a shard that a reset removed: only its epoch is left.
    pub(crate) fn is_removed(&self) -> bool {
        self.meta.as_ref().is_some_and(Meta::is_removed)
    }

    /// Whether its keys are in files, and only its meta is left.
    pub(crate) fn is_archived(&self) -> bool {
        self.meta.as_ref().is_some_and(|meta| meta.stored_state == StoredState::Archived)
    }

    /// As a purchase finds it: `corrupt` too if its participants were lost.
    #[must_use]
    pub(crate) fn for_purchases(self) -> Self {
        match self.lost_users {
            Some(_) if self.corrupt.is_none() => {
                Self { status: Status::Corrupt, corrupt: self.lost_users.clone(), ..self }
            }
            _ => self,
        }
    }

    /// The first that applies of archived, ended, paused, upcoming, sold out and live. One that only a backend created has no
    /// window and cannot be paused.
    pub(crate) fn state(&self) -> State {
        match self.meta.as_ref().map_or(State::Live, |meta| meta.state(self.at)) {
            State::Live if self.stock == Some(0) => State::SoldOut,
            state => state,
        }
    }

    /// The word for its state, or for what is wrong with it.
    pub(crate) fn state_name(&self) -> &'static str {
        if self.status.is_done() { self.state().name() } else { self.status.name() }
    }
}
