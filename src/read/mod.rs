//! What is read without an audit: snapshots, ledgers, feeds, histories, screens, health and statistics.

pub(crate) mod checkpoint;
pub(crate) mod elsewhere;
pub mod feeds;
pub mod health;
#[doc(hidden)]
pub mod history;
#[doc(hidden)]
pub mod holders;
pub(crate) mod index;
pub(crate) mod ledger;
pub mod lifetimes;
pub(crate) mod snapshot;
pub mod stats;
pub mod watch;
pub(crate) mod whole;
