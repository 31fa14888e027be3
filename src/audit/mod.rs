//! Audits: what was read becomes evidence, evidence a judgement, a judgement a plan of repairs.
//!
//! `read` reads pages from the server, `ledger_state` folds the ledger, `evidence` compares, `judgement` decides, `plan` says what would
//! correct it, and `apply` sends the repairs. All between `read` and `apply` is pure.

pub(crate) mod apply;
pub(crate) mod class;
pub(crate) mod evidence;
pub(crate) mod judgement;
pub(crate) mod ledger_state;
pub(crate) mod plan;
pub(crate) mod read;
pub(crate) mod result;
#[cfg(test)]
mod tests;
