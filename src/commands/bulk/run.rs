//! The run itself: rows in, batches out, rows told of, until the end or until something stops it.

use std::time::Duration;

use anyhow::Result;

use super::check::CheckedInput;
use super::input::{BadLines, Input};
use super::report::{Report, is_refused, shows_rows};
use super::{BulkArgs, Task};
use crate::input::orders::{Checked, Column, Next, OrderRow, RowError};
use crate::interrupt;
use crate::inventory::failure::{Exit, Failure};
use crate::output::{Output, Progress, Terminal, is_broken_pipe};
use crate::store::bulk::{Bulk, Entry, Job, Operation, Pace, Step, Terms};
use crate::store::{Store, StoreError};

/// Why a run is over.
enum End {
    /// All rows are decided.
    Done,
    /// The user asked to stop.
    Interrupted,
    /// It cannot go on.
    Failed(anyhow::Error),
}

/// A run under way.
struct Run<'r, 'o> {
    bulk: Bulk<'r>,
    input: Option<Input>,
    row: OrderRow,
    content: Option<Checked>,
    bad: BadLines,
    keep_going: bool,
    report: Report<'o>,
    terminal: Terminal,
    progress: Progress,
    has_ended: bool,
    /// What ended the input before its end.
    stopped: Option<Failure>,
}

/// Applies a file that was checked.
pub(super) fn apply(
    checked: CheckedInput,
    args: &BulkArgs,
    task: &Task<'_>,
    store: &mut Store,
    out: &mut Output,
) -> Result<Exit> {
    let job = job(&checked, args, task);
    let go_on = match checked.content {
        Some(_) => "the same command goes on; what was applied is not applied again".to_owned(),
        None => format!(
            "to go on, give the whole input again with `--job {}`; what was applied is not applied again",
            job.name
        ),
    };
    if checked.content.is_none() && args.job.is_none() {
        out.note(format!("this input is applied as the job `{}`", job.name));
    }
    let terms = Terms {
        operation: task.operation,
        job,
        reason: task.reason.map(str::to_owned),
        limit: task.limit,
        rows: shows_rows(out.format()),
        pace: pace(args),
        retry_for: args.retry_for(),
    };
    let mut bulk = Bulk::new(store, terms)?;
    for activity in checked.activities() {
        bulk.expect(activity);
    }
    if checked.content.is_some() {
        bulk.meet()?;
    }
    let terminal = out.terminal();
    let progress = out.progress("applying", checked.rows);
    let CheckedInput { input, content, bad, .. } = checked;
    let mut run = Run {
        bulk,
        input: Some(input),
        row: OrderRow::default(),
        content,
        bad,
        keep_going: args.keep_going,
        report: Report::new(out)?,
        terminal,
        progress,
        has_ended: false,
        stopped: None,
    };
    let end = run.drive();
    run.finish(end, &go_on)?.show(out)
}

/// What the job is called: by its content, unless it was named; what cannot be read twice gets a name by chance.
fn job(checked: &CheckedInput, args: &BulkArgs, task: &Task<'_>) -> Job {
    let operation = match task.operation {
        Operation::Deduct => "deduct",
        Operation::Refund => "refund",
    };
    let of = format!("{operation} {}", checked.input.way());
    match &checked.content {
        Some(content) => {
            let digest = content.digest(&of);
            Job { name: args.job.clone().unwrap_or_else(|| digest.clone()), digest }
        }
        None => {
            let name = args.job.clone().unwrap_or_else(|| crate::inventory::id::RequestId::new().to_string());
            Job { name, digest: Checked::default().digest(&of) }
        }
    }
}

fn pace(args: &BulkArgs) -> Pace {
    let pace = if args.fast { Pace::fast() } else { Pace::gentle() };
    match args.rate {
        Some(rate) => pace.bounded(rate),
        None => pace,
    }
}

impl Run<'_, '_> {
    fn drive(&mut self) -> End {
        loop {
            if interrupt::requested() {
                return End::Interrupted;
            }
            match self.step() {
                Ok(true) => (),
                Ok(false) => return End::Done,
                Err(error) => return End::Failed(error),
            }
        }
    }

    /// Reads what there is room for, sends or receives, and tells of what was decided. False at the end.
    fn step(&mut self) -> Result<bool> {
        let is_starving = self.read()?;
        let pressing = self.has_ended || self.bulk.is_full() || (is_starving && !self.bulk.is_waiting());
        match self.bulk.advance(pressing)? {
            Step::On => (),
            Step::Idle if self.has_ended && self.bulk.is_empty() => return Ok(false),
            Step::Idle if is_starving => {
                self.report.flush()?;
                if let Some(input) = &mut self.input {
                    input.reader.wait(Duration::from_millis(100));
                }
            }
            Step::Idle => (),
            Step::Trouble(error) => self.warn(&format!("{}; trying again", Failure::from(error).message)),
            Step::Corrupt(corrupt) => {
                self.warn(&format!("key `{}` {}; no order of its activity is applied", corrupt.key, corrupt.what));
            }
            Step::Rewind { activity, line } => self.rewind(activity, line)?,
        }
        self.tell()?;
        Ok(true)
    }

    /// Reads rows while they are of use; true where none is there yet.
    fn read(&mut self) -> Result<bool> {
        let Some(input) = &mut self.input else { return Ok(false) };
        while !self.has_ended && self.bulk.takes_more() {
            match input.reader.next(&mut self.row) {
                Ok(Next::Row) => self.bulk.push(&entry(&self.row)),
                Ok(Next::NotYet) => return Ok(true),
                Ok(Next::End) => self.has_ended = true,
                Err(RowError::Bad(problem)) => {
                    // A file was checked before, and its bad lines are known.
                    if self.content.is_none() {
                        self.bad.add(problem, &input.reader)?;
                        self.has_ended = !self.keep_going;
                    }
                }
                Err(RowError::Fatal(failure)) => {
                    self.stopped = Some(failure);
                    self.has_ended = true;
                }
            }
        }
        Ok(false)
    }

    /// Tells of the orders at the front that are decided.
    fn tell(&mut self) -> Result<()> {
        let before = self.report.done;
        while let Some(decided) = self.bulk.front() {
            self.report.tell(&decided)?;
            self.bulk.pop();
        }
        self.progress.inc(self.report.done - before);
        Ok(())
    }

    /// The server forgot what it had decided: from there on, all is applied again.
    fn rewind(&mut self, activity: String, line: u64) -> Result<()> {
        let (Some(content), Some(input)) = (&self.content, self.input.take()) else {
            return Err(Failure::from(StoreError::Lost { activity, line }).into());
        };
        self.warn(&format!(
            "the server lost what it had decided of `{activity}` after line {line}; it is applied again"
        ));
        self.bulk.drain()?;
        self.bulk.start_over();
        self.input = Some(input.again(content)?);
        self.has_ended = false;
        Ok(())
    }

    fn warn(&self, text: &str) {
        self.progress.suspend(|| self.terminal.warn(text));
    }

    /// Tells of what else was decided, and how the run ended.
    fn finish(mut self, end: End, go_on: &str) -> Result<Finished> {
        // What is in flight is waited for. Where that fails too, the first failure says enough.
        let drained = self.bulk.drain();
        let (is_done, is_interrupted) = (matches!(end, End::Done), matches!(end, End::Interrupted));
        let mut error = match end {
            End::Failed(error) => Some(error),
            _ => None,
        };
        if let (Err(store), None) = (drained, &error) {
            error = Some(Failure::from(store).into());
        }
        let is_read = !error.as_ref().is_some_and(is_broken_pipe);
        while is_read && self.bulk.skip_undecided() {
            if let Err(unwritable) = self.tell() {
                error = Some(unwritable);
                break;
            }
        }
        self.progress.finish();
        let (refused_again, done) = (self.report.refused_again, self.report.done);
        if refused_again > 0 {
            self.terminal.warn(format!("{refused_again} orders that were told of before are refused now"));
        }
        let failure = match error {
            Some(error) if is_broken_pipe(&error) => {
                Some(Failure::failed("standard output was closed, so the run stopped").hint(go_on))
            }
            Some(error) => Some(with_hint(error, go_on)),
            None => self.stopped.take(),
        };
        let summary = match self.report.finish(&self.bulk) {
            Ok(summary) => summary,
            Err(unwritable) if is_broken_pipe(&unwritable) && !is_read => Vec::new(),
            Err(unwritable) => return Err(unwritable),
        };
        let count = self.bad.count;
        let bad = if self.keep_going || count == 0 {
            self.bad.failure()
        } else {
            self.bad
                .failure()
                .map(|failure| failure.hint(format!("the orders before it are applied; mend it, and {go_on}")))
        };
        if is_interrupted && failure.is_none() {
            self.terminal.note(format!("stopped after {done} orders"));
            self.terminal.hint(go_on);
        }
        Ok(Finished { is_done, failure, bad, is_refused: refused_again > 0 || is_refused(&summary), summary })
    }
}

/// How a run ended.
struct Finished {
    is_done: bool,
    failure: Option<Failure>,
    bad: Option<Failure>,
    is_refused: bool,
    summary: Vec<super::report::SummaryRow>,
}

impl Finished {
    /// Shows the summary; the exit code is the first that applies.
    fn show(self, out: &mut Output) -> Result<Exit> {
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
fn with_hint(error: anyhow::Error, go_on: &str) -> Failure {
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

fn entry(row: &OrderRow) -> Entry<'_> {
    Entry {
        line: row.line(),
        activity: row.text(Column::Activity),
        user: row.text(Column::User),
        // The reader has held it against the bounds of an order.
        quantity: u32::try_from(row.quantity()).unwrap_or_default(),
        request: row.text(Column::Request),
        reason: row.text(Column::Reason),
    }
}
