//! The check of a file: it is read whole, and what is wrong with it is reported before anything is applied.

use std::collections::HashMap;

use crate::cli::error::Result;
use crate::cli::failure::Exit;
use crate::cli::input::orders::{Checked, Column, FileOrder, Next, RowError};
use crate::cli::interrupt;
use crate::cli::output::{Output, row};
use crate::cli::shared::bulk::RunArgs;
use crate::cli::shared::bulk::input::{BadLines, Input};
use crate::model::id::interner::Interner;
use crate::sell::bulk::Operation;

/// A file that may be applied.
pub(crate) struct CheckedInput {
    pub(crate) input: Input,
    /// The digest of its content; `None` if it can be read only once, and was not read yet.
    pub(crate) content: Option<Checked>,
    pub(crate) bad: BadLines,
    pub(crate) rows: u64,
    totals: Totals,
    /// Of each activity, the first line that names no user, if the request id is what a line names.
    pub(crate) nameless: Vec<(String, u64)>,
}

row! {
    /// What is asked of one activity.
    struct TotalRow<'a> as row {
        activity: &'a str, flexible;
        orders: u64;
        units: u64;
    }
}

/// The activities of a file, in the order in which they are named first.
#[derive(Default)]
struct Totals {
    names: Interner,
    /// Orders and units of each, only for a dry run.
    of: Vec<(u64, u64)>,
    /// The one that was named last: most rows name it again.
    last: u32,
}

impl Totals {
    fn add(&mut self, activity: &str, units: u64, is_counted: bool) {
        let is_last = (self.last as usize) < self.names.count() && self.names.name(self.last) == activity.as_bytes();
        if !is_last {
            self.last = self.names.number(activity.as_bytes());
        }
        if is_counted {
            self.of.resize(self.names.count(), (0, 0));
            let total = &mut self.of[self.last as usize];
            *total = (total.0 + 1, total.1 + units);
        }
    }
}

/// Reads a regular file whole, and with `--dry-run` any other too. `None` if the user asked to stop.
pub(crate) fn check(
    mut input: Input,
    args: &RunArgs,
    operation: Operation,
    dry_run: bool,
    out: &Output,
) -> Result<Option<CheckedInput>> {
    let mut bad = BadLines::new(&input, args, dry_run)?;
    let mut totals = Totals::default();
    let mut nameless = HashMap::new();
    let mut rows = 0;
    input.ignored().iter().for_each(|text| out.note(text));
    if !input.is_regular && !dry_run {
        return Ok(Some(CheckedInput { input, content: None, bad, rows, totals, nameless: Vec::new() }));
    }
    let progress = out.progress("checking", 0);
    let mut order = FileOrder::default();
    loop {
        if interrupt::requested() {
            progress.finish();
            out.note("stopped while the file was checked; nothing was applied");
            return Ok(None);
        }
        match order.read(&mut input.reader) {
            Ok(Next::Row) => {
                order.each(|activity, units| totals.add(activity, units, dry_run));
                if operation.settles() && order.row.text(Column::User).is_empty() {
                    nameless.entry(totals.last).or_insert(order.row.line());
                }
                rows += 1;
                if rows % 4096 == 0 {
                    progress.inc(4096);
                }
            }
            Ok(Next::NotYet) => input.reader.wait(std::time::Duration::from_millis(100)),
            Ok(Next::End) => break,
            Err(RowError::Bad(problem)) => bad.add(problem, &input.reader)?,
            Err(RowError::Fatal(failure)) => return Err(failure.into()),
        }
    }
    progress.finish();
    input.ignored().iter().for_each(|text| out.note(text));
    if bad.count > 0 && !args.keep_going {
        return match bad.refusal() {
            Some(failure) => Err(failure.into()),
            None => Ok(None),
        };
    }
    bad.commit()?;
    let content = (input.is_regular && !dry_run).then(|| input.reader.checked());
    if let Some(content) = &content {
        input = input.again(content)?;
    }
    let name = |index| String::from_utf8_lossy(totals.names.name(index)).into_owned();
    let mut nameless: Vec<(String, u64)> = nameless.into_iter().map(|(index, line)| (name(index), line)).collect();
    nameless.sort_by_key(|(_, line)| *line);
    Ok(Some(CheckedInput { input, content, bad, rows, totals, nameless }))
}

impl CheckedInput {
    /// Shows what would be applied.
    pub(crate) fn show(self, out: &mut Output) -> Result<Exit> {
        let mut rows = out.stream::<TotalRow<'static>>()?;
        for ((orders, units), index) in self.totals.of.iter().zip(0..) {
            let activity = std::str::from_utf8(self.totals.names.name(index)).unwrap_or_default();
            rows.push_borrowed(&TotalRow { activity, orders: *orders, units: *units })?;
        }
        rows.finish()?;
        match self.bad.failure() {
            Some(failure) => Err(failure.into()),
            None => Ok(Exit::Done),
        }
    }

    /// How many activities are named.
    pub(crate) fn activities(&self) -> usize {
        self.totals.names.count()
    }

    /// The activities that are named; none of what was not read yet.
    pub(crate) fn take_names(&mut self) -> Interner {
        std::mem::take(&mut self.totals.names)
    }
}
