//! What an audit says: whether stock, participants and ledger agree.

use serde::Serialize;

/// The outcome of an audit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// Everything agrees.
    Match,
    /// It cannot be told: the activity sells, and has no ledger that would settle it.
    Unsettled,
    /// Something differs.
    Drift,
}

impl Verdict {
    /// Its name in every output.
    pub fn name(self) -> &'static str {
        match self {
            Self::Match => "match",
            Self::Unsettled => "unsettled",
            Self::Drift => "drift",
        }
    }
}
