//! Why a command could not do its work, and the exit code that says so.
//!
//! "Sold out" is an answer, not a failure: answers are [`Status`](super::status::Status) values.

use serde::Serialize;

/// Every exit code, once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// Done.
    Done = 0,
    /// The server answered with an error, a file could not be written, an expectation failed.
    Failed = 1,
    /// Usage, or input that is not valid.
    Usage = 2,
    /// Refused by a business rule.
    Refused = 3,
    /// Authentication or permission refused.
    Denied = 4,
    /// Server unreachable.
    Unreachable = 5,
    /// A write was sent and whether it happened could not be settled.
    Unknown = 6,
    /// `reconcile` found drift.
    Drift = 7,
    /// Interrupted.
    Interrupted = 130,
}

/// What failed, on what, why, and what to do next.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize)]
#[error("{message}")]
pub struct Failure {
    /// One sentence, without a full stop; user's values in backticks.
    #[serde(rename = "error")]
    pub message: String,
    /// The next step.
    pub hint: Option<String>,
    /// The exit code.
    #[serde(rename = "code", serialize_with = "code")]
    pub exit: Exit,
}

fn code<S: serde::Serializer>(exit: &Exit, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u8(*exit as u8)
}

impl Failure {
    /// A failure with that exit code.
    pub fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self { message: message.into(), hint: None, exit }
    }

    /// Usage, or input that is not valid: exit 2.
    pub fn usage(message: impl Into<String>) -> Self {
        Self::new(Exit::Usage, message)
    }

    /// Something went wrong that is nobody's usage: exit 1.
    pub fn failed(message: impl Into<String>) -> Self {
        Self::new(Exit::Failed, message)
    }

    /// With the next step.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

/// The cause of an I/O error in words, without the raw `(os error 2)`.
pub fn cause(error: &std::io::Error) -> String {
    let text = error.to_string();
    match text.find(" (os error") {
        Some(at) => text[..at].to_lowercase(),
        None => text,
    }
}
