//! Plain values and rules: what an activity, an order, a status is.
//!
//! No Redis, no clap, no printing: everything here can be tested without a server.

pub mod activity;
#[doc(hidden)]
pub mod archive;
pub mod id;
pub mod layout;
pub mod ledger;
#[doc(hidden)]
pub mod names;
pub mod number;
pub mod order;
pub mod shards;
pub(crate) mod slot;
pub mod status;
pub mod time;
