//! What a user sees of an error: its message, the next step, and the exit code. The only place with exit codes.
//!
//! "Sold out" is an answer, not a failure: answers are [`Status`](crate::model::status::Status) values.

use serde::Serialize;
use serde_yaml::Value;

use crate::error::StoreError;

pub type Result<T, E = Failure> = std::result::Result<T, E>;

/// Every exit code, once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
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
    Interrupted = 130,
}

impl Exit {
    /// 0 if all was done, else 3: something was refused.
    pub fn done_if(is_done: bool) -> Self {
        if is_done { Self::Done } else { Self::Refused }
    }
}

/// What failed, on what, why, and what to do next. Serialized, it is the error object of `-o json`.
#[derive(Debug, Clone, thiserror::Error, Serialize)]
#[error("{message}")]
pub struct Failure {
    /// One sentence without a full stop, with the user's values in backticks.
    #[serde(rename = "error")]
    pub message: String,
    pub hint: Option<String>,
    #[serde(rename = "code", serialize_with = "code")]
    pub exit: Exit,
    /// Rows of changes that standard output lost. YAML values, because they keep the order of their fields.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub changes: Option<Vec<Value>>,
    /// The server that was to be changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on: Option<String>,
    #[serde(skip)]
    pub cause: Cause,
}

/// Where a failure comes from, for commands that continue after some failures: a service after an outage, `head` closing the pipe.
#[derive(Debug, Clone)]
pub enum Cause {
    /// Usage, inputs, files: the message was written where the fault was found.
    Command,
    /// A command that was to print order records: it may succeed the next time.
    Export,
    Store(Box<StoreError>),
    /// Standard output could not be written.
    Output {
        /// Whether its reader closed it, as `head` does. A broken connection is another error.
        is_closed: bool,
    },
    /// What should not happen, such as a value of ours that cannot be encoded.
    Unexpected,
}

fn code<S: serde::Serializer>(exit: &Exit, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u8(*exit as u8)
}

impl Failure {
    pub fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self { message: message.into(), hint: None, exit, changes: None, on: None, cause: Cause::Command }
    }

    pub fn usage(message: impl Into<String>) -> Self {
        Self::new(Exit::Usage, message)
    }

    /// Something went wrong that is nobody's usage: exit 1.
    pub fn failed(message: impl Into<String>) -> Self {
        Self::new(Exit::Failed, message)
    }

    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Whether the command itself found the fault.
    pub fn is_own(&self) -> bool {
        matches!(self.cause, Cause::Command)
    }

    /// The error of the servers that it comes from.
    pub fn store(&self) -> Option<&StoreError> {
        match &self.cause {
            Cause::Store(error) => Some(error),
            _ => None,
        }
    }

    pub fn is_broken_pipe(&self) -> bool {
        matches!(self.cause, Cause::Output { is_closed: true })
    }

    pub fn is_unwritable(&self) -> bool {
        matches!(self.cause, Cause::Output { .. })
    }
}

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Self {
        Self { cause: Cause::Unexpected, ..Self::failed(format!("{error:#}")) }
    }
}

/// What was read; nothing if this user may not, or the server does not have the command.
///
/// # Errors
/// Any other error of the servers.
pub fn permitted<T>(read: Result<T, StoreError>) -> Result<Option<T>> {
    match read {
        Err(StoreError::Permission { .. }) => Ok(None),
        Err(error) if error.is_unknown_command() => Ok(None),
        read => Ok(Some(read?)),
    }
}
