//! Sharded activities: finding the home of a user, and getting units from other shards.
//!
//! An order goes to the user's home, a shard that is an activity of its own. Only if the home is out of stock does anybody look at
//! the others: [`Supply`] transfers units to it, or proves that there are none. docs/inside.md says why.

mod arrived;
mod directory;
mod need;
mod orders;
mod peek;
mod send;
mod supply;
mod transfer;

pub(super) use directory::Directory;
pub(super) use need::{Need, Supplied};
pub use supply::Finished;
pub(super) use supply::Supply;
