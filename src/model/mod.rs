//! Plain values and rules: what an activity, an order, a status is.
//!
//! No Redis, no clap, no printing: everything here can be tested without a server.

pub(crate) mod activity;
pub(crate) mod archive;
pub(crate) mod id;
pub(crate) mod layout;
pub(crate) mod ledger;
pub(crate) mod names;
pub(crate) mod number;
pub(crate) mod order;
pub(crate) mod shards;
pub(crate) mod slot;
pub(crate) mod status;
pub(crate) mod time;

// What most modules speak of.
pub(crate) use crate::model::activity::field_change::FieldChange;
pub(crate) use crate::model::activity::rules::{PackedRules, StoredState};
pub(crate) use crate::model::activity::shard_plan::ShardPlan;
pub(crate) use crate::model::activity::{Action, FieldDifference, Meta, Plan, PreheatMode, Preheated, Snapshot, State};
pub(crate) use crate::model::id::interner::Interner;
pub(crate) use crate::model::id::{ActivityId, RequestId, StoredUser, UserId, option, shell_quoted};
pub(crate) use crate::model::layout::{Kind, Layout};
pub(crate) use crate::model::ledger::checkpoint::Checkpoint;
pub(crate) use crate::model::ledger::{Entry, EntryId, Op};
pub(crate) use crate::model::number::{Limit, Quantity, ShardCount, Units};
pub(crate) use crate::model::order::hold::{HoldFor, HoldRecord, HoldState};
pub(crate) use crate::model::order::{Bought, Corrupt, MultiOrder, MultiOutcome, Order, Outcome, RefundOf, Wish};
pub(crate) use crate::model::shards::Shards;
pub(crate) use crate::model::status::Status;
pub(crate) use crate::model::time::{GivenTime, Millis};
