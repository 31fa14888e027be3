//! The only code that reads files.
//!
//! `source` gives the bytes, `orders` reads files of orders line by line, `records` order records for an audit, `activities`
//! lists of them, all three by their `columns`; `yaml` reads fixtures, contexts and layouts, `plan` repairs, `archive` what
//! `seckill archive` wrote, `credentials` passwords and certificates; `window` is when a sale opens and ends.
//!
//! Whatever is not valid ends as one failure that says file, line and column, the offending text and what was
//! expected.

pub mod activities;
pub mod archive;
pub mod columns;
pub mod credentials;
mod error;
pub mod orders;
pub mod plan;
pub mod records;
mod source;
pub mod window;
pub mod yaml;

pub use crate::cli::input::error::{Problem, Problems, STDIN};
