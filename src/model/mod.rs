//! Plain values and rules: what an activity, an order, a status is.
//!
//! No Redis, no clap, no printing: everything here can be tested without a server.

pub(crate) mod activity;
#[doc(hidden)]
pub(crate) mod archive;
pub(crate) mod id;
pub(crate) mod layout;
pub(crate) mod ledger;
#[doc(hidden)]
pub(crate) mod names;
pub(crate) mod number;
pub(crate) mod order;
pub(crate) mod shards;
pub(crate) mod slot;
pub(crate) mod status;
pub(crate) mod time;
