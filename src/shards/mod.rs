//! Sharded activities: finding the home of a user, and getting units from other shards.
//!
//! An order goes to the user's home, a shard that is an activity of its own. Only if the home is out of stock does anybody look at
//! the others: `ShardBorrower` transfers units to it, or proves that there are none. docs/inside.md says why.

pub(crate) mod borrower;
pub(crate) mod choice;
pub(crate) mod directory;
pub(crate) mod peek;
pub(crate) mod request;
pub(crate) mod transfer;

pub(crate) use crate::shards::borrower::ShardBorrower;
pub(crate) use crate::shards::directory::Directory;
