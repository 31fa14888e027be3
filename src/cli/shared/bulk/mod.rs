//! `--from FILE`: many orders as fast as the server accepts them, each applied exactly once.

mod args;
mod check;
mod driver;
mod input;
mod multi;
mod outcome;
mod report;
mod single;
mod summary;

pub use crate::cli::shared::bulk::args::{BulkArgs, MultiBulkArgs};
pub use crate::cli::shared::bulk::multi::run as run_multi;
pub use crate::cli::shared::bulk::single::{Task, run};
