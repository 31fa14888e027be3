//! The only code that reads files: fixtures in YAML, orders in csv, tsv and jsonl.
//!
//! Whatever is not valid ends as one [`InputError`] that says file, line and column, the offending text and what was
//! expected.

pub mod activities;
pub mod archive;
pub mod certificates;
mod column_names;
pub mod columns;
pub mod contexts;
mod encoding;
mod error;
mod fields;
pub mod fixture;
pub mod layouts;
mod mapping;
mod names;
pub mod orders;
pub mod password;
pub mod plan;
pub mod plan_row;
mod problem;
pub mod records;
mod source;
mod yaml;

pub use crate::cli::input::error::InputError;
pub use crate::cli::input::problem::{Problem, Problems};
