//! How a run ended, and what is said of it.

use anyhow::Result;

use super::report::{SummaryRow, shows_rows};
use crate::inventory::failure::{Exit, Failure};
use crate::output::Output;
use crate::store::StoreError;

/// How a run ended.
pub(super) struct Finished {
    pub(super) is_done: bool,
    pub(super) failure: Option<Failure>,
    pub(super) bad: Option<Failure>,
    pub(super) is_refused: bool,
    pub(super) summary: Vec<SummaryRow>,
}

impl Finished {
    /// Shows the summary; the exit code is the first that applies.
    pub(super) fn show(self, out: &mut Output) -> Result<Exit> {
        if !shows_rows(out.format()) {
            out.array(&self.summary)?;
        }
        match (self.failure, self.bad) {
            (Some(failure), _) | (None, Some(failure)) => Err(failure.into()),
            (None, None) if !self.is_done => Ok(Exit::Interrupted),
            (None, None) => Ok(if self.is_refused { Exit::Refused } else { Exit::Done }),
        }
    }
}

/// An error as a failure that says how to go on.
pub(super) fn with_hint(error: anyhow::Error, go_on: &str) -> Failure {
    let failure = match error.downcast::<StoreError>() {
        Ok(store) => Failure::from(store),
        Err(other) => match other.downcast::<Failure>() {
            Ok(failure) => failure,
            Err(other) => Failure::failed(format!("{other:#}")),
        },
    };
    match &failure.hint {
        None => failure.hint(go_on),
        Some(hint)
            if matches!(failure.exit, Exit::Failed | Exit::Unreachable | Exit::Denied) && !hint.contains("again") =>
        {
            let both = format!("{hint}; {go_on}");
            failure.hint(both)
        }
        Some(_) => failure,
    }
}
