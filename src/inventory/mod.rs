//! Plain values and rules: what an activity, an order, a status is.
//!
//! No Redis, no clap, no printing: everything here can be tested without a server.

pub mod activity;
#[doc(hidden)]
pub mod adoption;
#[doc(hidden)]
pub mod archive;
pub mod audit;
#[doc(hidden)]
pub mod checkpoint;
pub mod class;
pub mod column;
mod comparison;
pub mod evidence;
pub mod hold;
pub mod id;
#[doc(hidden)]
pub mod interner;
pub mod judgement;
pub mod layout;
pub mod ledger;
#[doc(hidden)]
pub mod ledger_state;
pub mod mismatch;
#[doc(hidden)]
pub mod names;
pub mod number;
pub mod order;
pub mod order_parts;
#[doc(hidden)]
pub mod order_sums;
pub mod plan;
pub mod purchases;
pub mod reason;
pub mod repair;
pub mod request_record;
pub mod rules;
pub mod sales;
pub mod shard_plan;
pub mod sharded_audit;
pub mod shards;
pub mod status;
#[cfg(test)]
mod tests;
pub mod time;
pub mod transfers;
pub mod whole;
