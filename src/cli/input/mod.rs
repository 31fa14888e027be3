//! The only code that reads files: fixtures in YAML, orders in csv, tsv and jsonl.
//!
//! Whatever is not valid ends as one [`InputError`] that says file, line and column, the offending text and what was
//! expected.

pub mod activities;
pub mod columns;
mod encoding;
mod error;
mod fields;
pub mod fixture;
mod names;
pub mod orders;
pub mod password;
pub mod plan;
mod problem;
pub mod records;
mod source;
mod yaml;

pub use error::InputError;
pub use problem::{Problem, Problems};
