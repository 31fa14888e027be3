//! The only code that reads files: fixtures in YAML.
//!
//! Whatever is not valid ends as one [`Failure`](crate::inventory::failure::Failure) with exit code 2 that says
//! file, line and column, the offending text and what was expected.

mod fields;
pub mod fixture;
mod problem;
mod source;
mod yaml;
