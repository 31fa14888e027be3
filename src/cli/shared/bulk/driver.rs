//! Drives a run: reads lines, sends batches, reports decided orders, until the end or until something stops it.

use std::time::Duration;

use crate::cli::args::Mutating;
use crate::cli::failure::{Exit, Failure, Result};
use crate::cli::input::orders::{Column, ContentDigests, FileOrder, Next, RowError};
use crate::cli::interrupt;
use crate::cli::output::{Output, Progress, Terminal, Warnings, counted};
use crate::cli::shared::bulk::RunArgs;
use crate::cli::shared::bulk::input::{BadLines, CheckedInput, Input, check};
use crate::cli::shared::bulk::report::{Report, ReportedLines, RunOutcome, Summary, shows_rows, with_hint};
use crate::error::StoreError;
use crate::model::{HoldFor, Limit, RequestId, option};
use crate::sell::bulk::{Advance, Job, Operation, OrderOptions, Run};
use crate::store::Store;

/// What a command adds to its file.
#[derive(Debug, Clone, Copy)]
pub struct Task<'a> {
    /// What is done with each row.
    pub operation: Operation,
    /// Why, for the ledger.
    pub reason: Option<&'a str>,
    /// The caller's limit, for activities that another system preheated.
    pub limit: Option<Limit>,
    /// Of holds: for how long.
    pub hold_for: Option<HoldFor>,
    /// Only check the file.
    pub dry_run: bool,
}

impl<'a> Task<'a> {
    /// What most commands add.
    pub fn new(operation: Operation, mutating: &'a Mutating) -> Self {
        let (reason, dry_run) = (mutating.reason.as_deref(), mutating.dry_run);
        Self { operation, reason, limit: None, hold_for: None, dry_run }
    }
}

/// The name of the job is made from its content, unless it was given; what cannot be read twice gets a random one.
fn job(checked: &CheckedInput, args: &RunArgs, operation: Operation) -> Job {
    let of = format!("{} {}", operation.name(), checked.input.reading());
    let content = checked.content.as_ref().unwrap_or(&checked.begin.content);
    let made = || if checked.content.is_some() { content.digest(&of) } else { RequestId::unique().to_string() };
    let name = args.job.clone().unwrap_or_else(made);
    Job { name, digest: content.digest(&(of + &checked.input.unmapped())) }
}

/// Checks a file and applies it, or in a dry run only shows what would be applied.
pub(crate) fn run(input: Input, args: &RunArgs, task: &Task<'_>, store: &mut Store, out: &mut Output) -> Result<Exit> {
    let Some(mut checked) = check(input, args, task.operation, task.dry_run, out)? else {
        return Ok(Exit::Interrupted);
    };
    if task.dry_run {
        return checked.show(store, out);
    }
    let job = job(&checked, args, task.operation);
    let how_to_resume = match checked.content {
        Some(_) => "the same command resumes; what was applied is not applied again".to_owned(),
        None => format!(
            "to resume, give the whole input again with `{}`; what was applied is not applied again",
            option("--job", &job.name)
        ),
    };
    let has_random_name = checked.content.is_none() && args.job.is_none();
    if has_random_name {
        // Nobody else could know.
        out.note(format!("this input is applied as the job `{}`", job.name));
        let cut = Failure::new(Exit::Interrupted, "interrupted at once".to_owned()).hint(how_to_resume.clone());
        interrupt::end_with(out.last_words(&cut));
    }
    let options = OrderOptions {
        operation: task.operation,
        job,
        reason: task.reason.map(str::to_owned),
        limit: task.limit,
        hold_for: task.hold_for,
        has_rows: shows_rows(out.format()),
        limits: args.limits(),
        retry_for: args.retry_for(),
    };
    let run = Run::new(store, options, checked.take_names())?;
    let mut driver = Driver::begin(checked, run, task.operation, args, how_to_resume, has_random_name, out)?;
    let ended = driver.drive();
    driver.finish(ended)?.show(store, out)
}

/// A run under way.
struct Driver<'o> {
    run: Run,
    report: Report<'o>,
    input: Option<Input>,
    order: FileOrder,
    content: Option<ContentDigests>,
    bad: BadLines,
    keep_going: bool,
    /// How to resume a job that was stopped.
    how_to_resume: String,
    /// Whether only this process knows the name of the job.
    has_random_name: bool,
    terminal: Terminal,
    progress: Progress,
    /// About corrupt keys: a file may name thousands of activities.
    corrupt: Warnings,
    has_ended: bool,
    /// What ended the input before its end.
    stopped: Option<Failure>,
}

impl<'o> Driver<'o> {
    /// Learns what was decided before.
    fn begin(
        checked: CheckedInput,
        mut run: Run,
        operation: Operation,
        args: &RunArgs,
        how_to_resume: String,
        has_random_name: bool,
        out: &'o mut Output,
    ) -> Result<Self> {
        let (terminal, corrupt, progress) = (out.terminal(), out.warnings(), out.progress("applying", checked.rows));
        let CheckedInput { input, content, bad, nameless, begin, .. } = checked;
        if let Some(order) = &begin.order {
            push(&mut run, order)?;
        }
        if content.is_some() {
            while !interrupt::requested() && run.load_watermarks()? {}
            nameless.iter().try_for_each(|(activity, line)| run.check_nameless(activity, *line))?;
        }
        Ok(Self {
            run,
            // Only now: it prints a header.
            report: Report::new(operation, out)?,
            input: Some(input),
            order: begin.order.unwrap_or_default(),
            content,
            bad,
            keep_going: args.keep_going,
            how_to_resume,
            has_random_name,
            terminal,
            progress,
            corrupt,
            has_ended: begin.has_ended,
            stopped: None,
        })
    }

    /// True if all lines are decided, false if the user asked to stop.
    fn drive(&mut self) -> Result<bool> {
        while !interrupt::requested() {
            match self.step() {
                Ok(true) => (),
                Ok(false) => return Ok(true),
                // It was waiting for a server, and waits no longer.
                Err(error) if interrupt::requested() && error.store().is_some_and(StoreError::is_outage) => break,
                Err(error) => return Err(error),
            }
        }
        Ok(false)
    }

    /// Reads what there is room for, sends or receives, and reports what was decided. False at the end.
    fn step(&mut self) -> Result<bool> {
        let is_starving = self.read()?;
        let flush = self.has_ended || self.run.is_full() || (is_starving && self.run.is_idle());
        let mut step = self.run.advance(flush)?;
        if matches!(step, Advance::Idle) && self.has_ended && self.run.is_empty() {
            // The end is not the end if the server lost what it had decided last.
            step = self.run.check()?;
            if matches!(step, Advance::Idle) {
                return Ok(false);
            }
        }
        match step {
            Advance::Continue => (),
            Advance::Idle if is_starving => {
                self.report.flush()?;
                if let Some(input) = &mut self.input {
                    input.reader.lines.blocks.wait(Duration::from_millis(100));
                }
            }
            Advance::Idle => (),
            Advance::Outage(error) => self.warn(&format!("{}; trying again", Failure::from(error).message)),
            Advance::Corrupt(corrupt) => {
                let text = format!("key `{}` {}; no order that needs it is applied", corrupt.key, corrupt.what);
                self.progress.suspend(|| self.corrupt.warn(text));
            }
            Advance::Rewind { activity, line } => self.rewind(activity, line)?,
        }
        self.report()?;
        Ok(true)
    }

    /// Reads lines while they are of use; true if none is there yet.
    fn read(&mut self) -> Result<bool> {
        let Some(input) = &mut self.input else { return Ok(false) };
        while !self.has_ended && self.run.accepts_more() && !interrupt::requested() {
            match self.order.read(&mut input.reader) {
                // A second reading after a rewind does not try again what was reported as refused.
                Ok(Next::Row) if self.report.lines.is_refused(self.order.row.line) => {}
                Ok(Next::Row) => push(&mut self.run, &self.order)?,
                Ok(Next::NotYet) => return Ok(true),
                Ok(Next::End) => self.has_ended = true,
                Err(RowError::Bad(problem)) => {
                    // A file was checked before, and its bad lines are known.
                    if self.content.is_none() {
                        self.bad.add(problem, &input.reader)?;
                        self.has_ended = !self.keep_going;
                    }
                }
                Err(RowError::Fatal(error)) => {
                    self.stopped = Some(error);
                    self.has_ended = true;
                }
            }
        }
        Ok(false)
    }

    /// Reports the first orders, as far as they are decided.
    fn report(&mut self) -> Result<()> {
        let before = (self.report.lines.orders, self.report.lines.replayed);
        while let reported @ (Ok(true) | Err(_)) = self.report.report_first(&self.run) {
            // One whose row cannot be written is counted: it is not reported again.
            self.run.pop();
            reported?;
        }
        let ReportedLines { orders, replayed, .. } = self.report.lines;
        if replayed > before.1 {
            self.progress.set_done_before(replayed);
        }
        self.progress.inc((orders - before.0) - (replayed - before.1));
        Ok(())
    }

    /// The server lost what it had decided: from there on, all is applied again.
    fn rewind(&mut self, activity: String, line: u64) -> Result<()> {
        let (Some(content), Some(input)) = (&self.content, self.input.take()) else {
            return Err(StoreError::Lost { activity, line }.into());
        };
        self.warn(&format!(
            "the server lost what it had decided of `{activity}` after line {line}; it is applied again"
        ));
        self.run.drain()?;
        self.run.restart();
        self.input = Some(input.again(content)?);
        self.has_ended = false;
        Ok(())
    }

    fn warn(&self, text: &str) {
        self.progress.suspend(|| self.terminal.warn(text));
    }

    /// Reports what else was decided, and how the run ended.
    fn finish(mut self, ended: Result<bool>) -> Result<RunOutcome> {
        // What is in flight is waited for. If that fails too, the first failure says enough.
        let drained = self.run.drain();
        let (is_done, is_interrupted) = (matches!(ended, Ok(true)), matches!(ended, Ok(false)));
        let mut error = ended.err().or_else(|| drained.err().map(Failure::from));
        // Once rows cannot be written, orders are only counted.
        loop {
            if error.as_ref().is_some_and(Failure::is_unwritable) {
                self.report.rows = None;
            }
            if !self.run.skip_undecided() {
                break;
            }
            error = self.report().err().or(error);
        }
        // The input of a run that ended early is read again, and its invalid lines with it.
        if is_done && let Err(unwritable) = self.bad.commit() {
            error = Some(unwritable);
        }
        let (how_to_resume, terminal) = (&self.how_to_resume, self.terminal);
        self.progress.finish();
        self.corrupt.end();
        if let Some(text) = self.input.as_mut().and_then(Input::ignored) {
            terminal.note(text);
        }
        if let Some((job, line)) = self.run.decided_before().filter(|_| self.content.is_none()) {
            terminal.note(format!(
                "an earlier run of the job `{job}` decided its lines up to {line}, which are not applied again; a pipe is compared with \
                 it no further than its first order, so give each new input a new `--job`"
            ));
        }
        let unsettled = self.run.unsettled();
        let lines = std::mem::take(&mut self.report.lines);
        let refused_again = lines.refused_again;
        if refused_again > 0 {
            let plural =
                if refused_again == 1 { "order reported as applied is" } else { "orders reported as applied are" };
            terminal.warn(format!("up to {refused_again} {plural} refused now: the server lost data"));
        }
        let mut has_refused = false;
        for (activity, refused) in self.run.refused_before().enumerate().filter(|(_, count)| *count > 0) {
            self.report.tallies.split_replayed(activity, refused);
            has_refused = true;
        }
        if has_refused && self.report.rows.is_some() {
            terminal.note("rows of orders that an earlier run refused say `replayed`, too: `-o table` counts them as `refused_before`");
        }
        let (tallies, written) = self.report.finish();
        let summary = Summary { names: self.run.into_names(), tallies };
        error = error.or(written.err());
        let failure = match error {
            Some(error) if error.is_broken_pipe() => {
                Some(Failure::failed("standard output was closed, so the run stopped").hint(how_to_resume))
            }
            Some(error) => Some(with_hint(error, &lines, how_to_resume)),
            None => self.stopped.take().map(|error| with_hint(error, &lines, how_to_resume)),
        };
        // Whatever else went wrong, orders of which nobody knows come first.
        let failure = match (failure, &unsettled) {
            (Some(failure), Some(unsettled)) if failure.exit != Exit::Unknown => {
                let message = format!("{}; {}", failure.message, Failure::from(unsettled.clone()).message);
                Some(Failure { exit: Exit::Unknown, message, ..failure })
            }
            (failure, _) => failure,
        };
        let is_corrected_alone = self.keep_going || !self.bad.problems.any();
        let bad = self.bad.failure().map(|failure| match is_corrected_alone {
            true => failure,
            false => failure.hint(format!("the orders before it are applied; correct it, and {how_to_resume}")),
        });
        if is_interrupted && failure.is_none() {
            // With `--quiet` too: the units of a pipe would be sold twice.
            let terminal = Terminal { notes: terminal.notes || self.has_random_name, ..terminal };
            terminal.note(format!("stopped after {}", counted(lines.orders, "order")));
            if unsettled.is_some() {
                terminal.warn("the connection broke: whether the orders in flight were applied is not known");
            }
            terminal.hint(how_to_resume);
        }
        Ok(RunOutcome { is_done, failure, bad, is_refused: refused_again > 0 || summary.tallies.is_refused(), summary })
    }
}

/// Adds an order of a file to a run.
fn push(run: &mut Run, order: &FileOrder) -> Result<()> {
    let row = &order.row;
    let texts = [Column::User, Column::Request, Column::Reason].map(|column| row.text(column));
    match row.get(Column::Items) {
        Some(_) => run.push(row.line, order.items.iter().map(|(id, count)| (id.as_str(), count.get())), texts)?,
        None => {
            // The reader has checked it against the bounds of an order.
            let quantity = u64::try_from(row.quantity).unwrap_or_default();
            run.push(row.line, [(row.text(Column::Activity), quantity)], texts)?;
        }
    }
    Ok(())
}
