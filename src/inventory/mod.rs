//! Plain values and rules: what an activity, an order, a status is.
//!
//! No Redis, no clap, no printing: everything here can be tested without a server.

pub mod activity;
pub mod adoption;
pub mod audit;
pub mod book;
pub mod checkpoint;
pub mod drift;
pub mod evidence;
pub mod id;
pub mod layout;
pub mod ledger;
pub mod number;
pub mod order;
pub mod plan;
pub mod reason;
pub mod records;
pub mod repair;
pub mod rules;
pub mod status;
pub mod time;
pub mod users;
