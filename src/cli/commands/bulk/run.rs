//! The run itself: lines in, batches out, lines told of, until the end or until something stops it.

use std::time::Duration;

use super::args::RunArgs;
use super::check::CheckedInput;
use super::course::{Course, Line};
use super::end::{Done, Finished, with_hint};
use super::input::{BadLines, Input};
use super::summary::Summary;
use crate::cli::error::{Error, Result};
use crate::cli::failure::{Exit, Failure};
use crate::cli::input::orders::{Checked, Next, RowError};
use crate::cli::interrupt;
use crate::cli::output::{Output, Progress, Terminal, Warnings};
use seckill::inventory::id::RequestId;
use seckill::store::StoreError;
use seckill::store::bulk::{Job, Step};

/// Why a run is over.
enum End {
    /// All lines are decided.
    Done,
    /// The user asked to stop.
    Interrupted,
    /// It cannot go on.
    Failed(Error),
}

/// What a run needs beside its lines.
pub(super) struct Manner {
    keep_going: bool,
    /// How to go on with a job that was stopped.
    go_on: String,
    terminal: Terminal,
    progress: Progress,
    /// About corrupt keys: a file may name thousands of activities.
    corrupt: Warnings,
}

impl Manner {
    /// Says what the job is called, where nobody else could know.
    pub(super) fn new(checked: &CheckedInput, job: &Job, args: &RunArgs, out: &Output) -> Self {
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
        let progress = out.progress("applying", checked.rows);
        Self { keep_going: args.keep_going, go_on, terminal: out.terminal(), progress, corrupt: out.warnings() }
    }
}

/// What the job is called: by its content, unless it was named; what cannot be read twice gets a name by chance.
pub(super) fn job(checked: &CheckedInput, args: &RunArgs, operation: &str) -> Job {
    let of = format!("{operation} {}", checked.input.way());
    match &checked.content {
        Some(content) => {
            let digest = content.digest(&of);
            Job { name: args.job.clone().unwrap_or_else(|| digest.clone()), digest }
        }
        None => {
            let name = args.job.clone().unwrap_or_else(|| RequestId::unique().to_string());
            Job { name, digest: Checked::default().digest(&of) }
        }
    }
}

/// Applies a file that was checked.
pub(super) fn apply<C: Course>(checked: CheckedInput, course: C, manner: Manner) -> Result<Finished> {
    let CheckedInput { input, content, bad, .. } = checked;
    let mut run = Run {
        course,
        input: Some(input),
        line: C::Line::default(),
        content,
        bad,
        manner,
        done: 0,
        has_ended: false,
        stopped: None,
    };
    let end = run.drive();
    run.finish(end)
}

/// A run under way.
struct Run<C: Course> {
    course: C,
    input: Option<Input>,
    line: C::Line,
    content: Option<Checked>,
    bad: BadLines,
    manner: Manner,
    /// Orders that were told of.
    done: u64,
    has_ended: bool,
    /// What ended the input before its end.
    stopped: Option<Failure>,
}

impl<C: Course> Run<C> {
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
        let pressing = self.has_ended || self.course.is_full() || (is_starving && !self.course.is_waiting());
        match self.course.advance(pressing)? {
            Step::On => (),
            Step::Idle if self.has_ended && self.course.is_empty() => return Ok(false),
            Step::Idle if is_starving => {
                self.course.flush()?;
                if let Some(input) = &mut self.input {
                    input.reader.wait(Duration::from_millis(100));
                }
            }
            Step::Idle => (),
            Step::Trouble(error) => self.warn(&format!("{}; trying again", Failure::from(error).message)),
            Step::Corrupt(corrupt) => {
                let text = format!("key `{}` {}; no order that needs it is applied", corrupt.key, corrupt.what);
                let Manner { progress, corrupt, .. } = &mut self.manner;
                progress.suspend(|| corrupt.warn(text));
            }
            Step::Rewind { activity, line } => self.rewind(activity, line)?,
        }
        self.tell()?;
        Ok(true)
    }

    /// Reads lines while they are of use; true where none is there yet.
    fn read(&mut self) -> Result<bool> {
        let Some(input) = &mut self.input else { return Ok(false) };
        while !self.has_ended && self.course.takes_more() && !interrupt::requested() {
            match self.line.read(&mut input.reader) {
                Ok(Next::Row) => self.course.push(&self.line)?,
                Ok(Next::NotYet) => return Ok(true),
                Ok(Next::End) => self.has_ended = true,
                Err(RowError::Bad(problem)) => {
                    // A file was checked before, and its bad lines are known.
                    if self.content.is_none() {
                        self.bad.add(problem, &input.reader)?;
                        self.has_ended = !self.manner.keep_going;
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
        let told = self.course.tell()?;
        self.done += told;
        self.manner.progress.inc(told);
        Ok(())
    }

    /// The server forgot what it had decided: from there on, all is applied again.
    fn rewind(&mut self, activity: String, line: u64) -> Result<()> {
        let (Some(content), Some(input)) = (&self.content, self.input.take()) else {
            return Err(StoreError::Lost { activity, line }.into());
        };
        self.warn(&format!(
            "the server lost what it had decided of `{activity}` after line {line}; it is applied again"
        ));
        self.course.drain()?;
        self.course.start_over();
        self.input = Some(input.again(content)?);
        self.has_ended = false;
        Ok(())
    }

    fn warn(&self, text: &str) {
        self.manner.progress.suspend(|| self.manner.terminal.warn(text));
    }

    /// Tells of what else was decided, and how the run ended.
    fn finish(mut self, end: End) -> Result<Finished> {
        // What is in flight is waited for. Where that fails too, the first failure says enough.
        let drained = self.course.drain();
        let (is_done, is_interrupted) = (matches!(end, End::Done), matches!(end, End::Interrupted));
        let mut error = match end {
            End::Failed(error) => Some(error),
            _ => None,
        };
        if let (Err(store), None) = (drained, &error) {
            error = Some(store.into());
        }
        let is_read = !error.as_ref().is_some_and(Error::is_unwritable);
        while is_read && self.course.skip_undecided() {
            if let Err(unwritable) = self.tell() {
                error = Some(unwritable);
                break;
            }
        }
        // The input of a run that ended early is read again, and its invalid lines with it.
        if is_done && let Err(unwritable) = self.bad.commit() {
            error = Some(unwritable);
        }
        let Manner { keep_going, go_on, terminal, progress, corrupt } = self.manner;
        progress.finish();
        corrupt.end();
        if let Some(text) = self.input.as_mut().and_then(Input::ignored) {
            terminal.note(text);
        }
        let doubt = self.course.doubt();
        let refused_again = self.course.refused_again();
        let done = Done { orders: self.done, ok: self.course.applied() };
        if refused_again > 0 {
            let plural =
                if refused_again == 1 { "order reported as applied is" } else { "orders reported as applied are" };
            terminal.warn(format!("{refused_again} {plural} refused now: the server lost data"));
        }
        let summary = match self.course.finish() {
            Ok(summary) => summary,
            Err(unwritable) if unwritable.is_unwritable() => {
                error = error.or(Some(unwritable));
                Summary::default()
            }
            Err(other) => return Err(other),
        };
        let failure = match error {
            Some(error) if error.is_broken_pipe() => {
                Some(Failure::failed("standard output was closed, so the run stopped").hint(&go_on))
            }
            Some(error) => Some(with_hint(error, done, &go_on)),
            None => self.stopped.take(),
        };
        // Whatever else went wrong, orders of which nobody knows come first.
        let failure = match (failure, &doubt) {
            (Some(failure), Some(doubt)) if failure.exit != Exit::Unknown => {
                let message = format!("{}; {}", failure.message, Failure::from(doubt.clone()).message);
                Some(Failure { exit: Exit::Unknown, message, ..failure })
            }
            (failure, _) => failure,
        };
        let is_corrected_alone = keep_going || self.bad.count == 0;
        let bad = self.bad.failure().map(|failure| match is_corrected_alone {
            true => failure,
            false => failure.hint(format!("the orders before it are applied; correct it, and {go_on}")),
        });
        if is_interrupted && failure.is_none() {
            terminal.note(format!("stopped after {} orders", self.done));
            if doubt.is_some() {
                terminal.warn("the connection broke: whether the orders in flight were applied is not known");
            }
            terminal.hint(go_on);
        }
        Ok(Finished { is_done, failure, bad, is_refused: refused_again > 0 || summary.tallies.is_refused(), summary })
    }
}
