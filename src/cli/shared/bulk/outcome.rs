//! How a run ended: its summary, its failure with a hint how to resume, its exit code.

use crate::cli::error::{Error, Result, advice};
use crate::cli::failure::{Exit, Failure};
use crate::cli::output::{Format, Output};
use crate::cli::shared::bulk::report::Summary;
use crate::cli::shared::bulk::report::shows_rows;
use crate::cli::shared::hints;
use crate::error::StoreError;
use crate::store::Store;

/// How a run ended.
pub(crate) struct RunOutcome {
    pub(crate) is_done: bool,
    pub(crate) failure: Option<Failure>,
    pub(crate) bad: Option<Failure>,
    pub(crate) is_refused: bool,
    pub(crate) summary: Summary,
}

impl RunOutcome {
    /// Shows the summary; the exit code is the first that applies.
    pub(crate) fn show(self, store: &mut Store, out: &mut Output) -> Result<Exit> {
        if store.requires_replicas() {
            self.summary.applied().try_for_each(|activity| store.changed_anywhere(&activity))?;
        }
        // An empty table has nothing to say beside an error.
        let is_moot = out.format() == Format::Table && self.failure.is_some() && self.summary.is_empty();
        if !shows_rows(out.format()) && !is_moot {
            self.summary.show(out)?;
        }
        // Without a reply from the server, there is nothing to look for.
        if self.failure.is_none() {
            hints::other_layouts(&self.summary.missing(hints::MAX_ACTIVITIES), store, out);
        }
        match (self.failure, self.bad) {
            (None, bad) if !self.is_done => {
                bad.iter().for_each(|bad| out.warn(&bad.message));
                Ok(Exit::Interrupted)
            }
            (Some(failure), bad) => {
                bad.iter().for_each(|bad| out.warn(&bad.message));
                Err(failure.into())
            }
            (None, Some(failure)) => Err(failure.into()),
            (None, None) => Ok(if self.is_refused { Exit::Refused } else { Exit::Done }),
        }
    }
}

/// How far a run has come.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RunProgress {
    /// Orders that were decided.
    pub(crate) orders: u64,
    /// Those of them that this run applied, as far as it knows.
    pub(crate) ok: u64,
}

impl std::fmt::Display for RunProgress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.orders {
            0 => write!(f, "nothing was applied"),
            1 => write!(f, "1 order was decided before ({} ok)", self.ok),
            orders => write!(f, "{orders} orders were decided before ({} ok)", self.ok),
        }
    }
}

/// An error as a failure that says what was done before, and how to resume.
pub(crate) fn with_hint(error: Error, done: RunProgress, how_to_resume: &str) -> Failure {
    let failure = match error {
        Error::Store(error) => return of_store(error, done, how_to_resume),
        other => Failure::from(other),
    };
    match &failure.hint {
        None => failure.hint(how_to_resume),
        Some(hint)
            if matches!(failure.exit, Exit::Failed | Exit::Unreachable | Exit::Denied) && !hint.contains("again") =>
        {
            let both = format!("{hint}; {how_to_resume}");
            failure.hint(both)
        }
        Some(_) => failure,
    }
}

fn of_store(error: StoreError, done: RunProgress, how_to_resume: &str) -> Failure {
    // Without any order decided, only a refusal says that nothing ran.
    let is_known = done.orders > 0 || error.is_refusal() || matches!(error, StoreError::OtherJob { .. });
    let resumes = !matches!(
        error,
        StoreError::Reset { .. }
            | StoreError::OtherJob { .. }
            | StoreError::OtherLimit { .. }
            | StoreError::Lost { .. }
    );
    let said = [is_known.then(|| done.to_string()), advice(&error), resumes.then(|| how_to_resume.to_owned())];
    let hint: Vec<String> = said.into_iter().flatten().collect();
    Failure::from(error).hint(hint.join("; "))
}
