//! Sharded activities: finding the home of a user, and getting units from other shards.
//!
//! An order goes to the user's home, a shard that is an activity of its own. Only if the home is out of stock does anybody look at
//! the others: [`Supply`] transfers units to it, or proves that there are none. ARCHITECTURE.md says why.

mod directory;
mod orders;
mod peek;
mod supply;
mod transfer;

pub(super) use directory::Directory;
pub use supply::Finished;
pub(super) use supply::{MEMORY, Need, Supplied, Supply};
