//! Why an input cannot be used. What each error means for the exit code is in `cli/error.rs`.

use std::io;

use crate::cli::input::encoding;
use crate::cli::input::names::quoted;
use crate::error::cause;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InputError {
    /// It holds what it must not, or lacks what it must have: usage.
    #[error("{message}")]
    Invalid {
        /// What, with file, line and column if they are known.
        message: String,
        hint: Option<String>,
    },
    /// It cannot be opened or read.
    #[error("cannot read {}: {why}", quoted(name))]
    Unreadable {
        name: String,
        /// What the system says.
        kind: io::ErrorKind,
        /// The same in words.
        why: String,
    },
    /// It is not what it was when it was checked.
    #[error("`{name}` changed after it was checked")]
    Changed { name: String },
    #[error("`{name}` cannot be read again")]
    NotRepeatable { name: String },
    /// The command that prints it failed.
    #[error("the {kind} command `{}` {what}", command.escape_debug())]
    Command { kind: &'static str, command: String, what: String, hint: Option<String> },
    /// The user asked to stop while nothing arrived.
    #[error("interrupted while waiting for {}: nothing was applied", quoted(name))]
    Interrupted { name: String },
}

impl InputError {
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::Invalid { message: message.into(), hint: None }
    }

    pub(crate) fn utf16(name: &str) -> Self {
        Self::invalid(format!("{name}:1:1: the file is UTF-16, expected UTF-8")).with_hint(encoding::hint("UTF-16"))
    }

    pub(crate) fn unreadable(name: &str, error: &io::Error) -> Self {
        Self::Unreadable { name: name.to_owned(), kind: error.kind(), why: cause(error) }
    }

    #[must_use]
    pub fn with_hint(self, hint: impl Into<String>) -> Self {
        match self {
            Self::Invalid { message, .. } => Self::Invalid { message, hint: Some(hint.into()) },
            Self::Command { kind, command, what, .. } => Self::Command { kind, command, what, hint: Some(hint.into()) },
            other => other,
        }
    }

    pub fn hint(&self) -> Option<&str> {
        match self {
            Self::Invalid { hint, .. } => hint.as_deref(),
            Self::Unreadable { kind: io::ErrorKind::NotFound, .. } => {
                Some("give the path of a file, or `-` for standard input")
            }
            Self::Changed { .. } => {
                Some("nothing of what changed was applied; undo the change and give the same command again to resume")
            }
            Self::Command { hint, .. } => hint.as_deref(),
            Self::Unreadable { .. } | Self::NotRepeatable { .. } | Self::Interrupted { .. } => None,
        }
    }
}
