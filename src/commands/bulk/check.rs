//! The first look at a file: it is read whole, and what is wrong with it is said before anything is applied.

use std::collections::HashMap;

use anyhow::Result;
use serde::Serialize;

use super::args::RunArgs;
use super::course::Line;
use super::input::{BadLines, Input};
use crate::input::orders::{Checked, Next, RowError};
use crate::interrupt;
use crate::inventory::failure::Exit;
use crate::output::{Cell, Output, Row};

/// A file that may be applied.
pub(super) struct CheckedInput {
    pub(super) input: Input,
    /// What it is; `None` of what can be read only once, and was not read yet.
    pub(super) content: Option<Checked>,
    pub(super) bad: BadLines,
    pub(super) rows: u64,
    /// What is asked of each activity, in the order in which they are named.
    totals: Vec<Total>,
}

/// What is asked of one activity.
#[derive(Debug, Serialize)]
struct Total {
    activity: String,
    orders: u64,
    units: u64,
}

impl Total {
    fn of(activity: &str) -> Self {
        Self { activity: activity.to_owned(), orders: 0, units: 0 }
    }

    /// One order more.
    fn add(&mut self, units: u64) {
        self.orders += 1;
        self.units += units;
    }
}

impl Row for Total {
    const FIELDS: &'static [&'static str] = &["activity", "orders", "units"];
    const HEADINGS: &'static [&'static str] = &["activity", "orders", "units"];

    fn cells(&self) -> Vec<Cell> {
        vec![Cell::text(&self.activity).flexible(), Cell::number(self.orders), Cell::number(self.units)]
    }
}

/// The totals of a file.
#[derive(Default)]
struct Totals {
    of: Vec<Total>,
    known: HashMap<String, usize>,
    /// The one that was added to last: most rows name it again.
    last: usize,
}

impl Totals {
    fn add(&mut self, activity: &str, units: u64) {
        if self.of.get(self.last).is_none_or(|total| total.activity != activity) {
            self.last = match self.known.get(activity) {
                Some(nth) => *nth,
                None => {
                    self.known.insert(activity.to_owned(), self.of.len());
                    self.of.push(Total::of(activity));
                    self.of.len() - 1
                }
            };
        }
        self.of[self.last].add(units);
    }
}

/// Reads a regular file whole, and with `--dry-run` whatever else it is. `None` where the user asked to stop.
pub(super) fn check<L: Line>(
    mut input: Input,
    args: &RunArgs,
    dry_run: bool,
    out: &Output,
) -> Result<Option<CheckedInput>> {
    let mut bad = BadLines::new(&input, args, dry_run)?;
    let mut totals = Totals::default();
    let mut rows = 0;
    input.ignored().iter().for_each(|text| out.note(text));
    if !input.is_regular && !dry_run {
        return Ok(Some(CheckedInput { input, content: None, bad, rows, totals: totals.of }));
    }
    let progress = out.progress("checking", 0);
    let mut line = L::default();
    loop {
        if rows % 1024 == 0 && interrupt::requested() {
            progress.finish();
            out.note("stopped while the file was checked; nothing was applied");
            return Ok(None);
        }
        match line.read(&mut input.reader) {
            Ok(Next::Row) => {
                line.each(|activity, units| totals.add(activity, units));
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
    Ok(Some(CheckedInput { input, content, bad, rows, totals: totals.of }))
}

impl CheckedInput {
    /// The activities that are named; none of what was not read yet.
    pub(super) fn activities(&self) -> impl Iterator<Item = &str> {
        self.totals.iter().map(|total| total.activity.as_str())
    }

    /// Tells what would be applied.
    pub(super) fn tell(self, out: &mut Output) -> Result<Exit> {
        out.set_dry_run(true);
        out.array(&self.totals)?;
        match self.bad.failure() {
            Some(failure) => Err(failure.into()),
            None => Ok(Exit::Done),
        }
    }
}
