//! What commands share: `session` is what all need first, `target` decides which server a command is for, `outcome` has
//! the rows of orders, `bulk` applies files of them, `selection` finds the activities of a command and their shards,
//! `rounds` is the loop of services, `fix` writes commands that can be pasted, `metrics_file` is where metrics go, and `hints` say more.

pub mod bulk;
pub mod fix;
pub mod hints;
pub mod metrics_file;
pub mod outcome;
pub mod rounds;
pub mod selection;
pub mod session;
pub mod target;
