//! What is read without an audit: snapshots, ledgers, feeds, histories, screens, health and statistics.

pub(crate) mod checkpoint;
pub(crate) mod health;
pub(crate) mod history;
pub(crate) mod holders;
pub(crate) mod holds;
pub(crate) mod index;
pub(crate) mod ledger;
pub(crate) mod participants;
pub(crate) mod snapshot;
pub(crate) mod stats;
pub(crate) mod watch;
pub(crate) mod whole;
