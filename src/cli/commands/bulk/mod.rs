//! `--from FILE`: many orders at the server's own speed, each applied exactly once.

mod args;
mod check;
mod course;
mod end;
mod input;
mod multi;
mod report;
mod run;
mod single;
mod summary;
mod told;

pub use args::{BulkArgs, MultiBulkArgs};
pub use multi::run as run_multi;
pub use single::{Task, run};
