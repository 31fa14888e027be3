//! The first look at a file: it is read whole, and what is wrong with it is said before anything is applied.

use std::collections::HashMap;

use anyhow::Result;
use serde::Serialize;

use super::input::{BadLines, Input};
use super::{BulkArgs, Task};
use crate::input::orders::{Checked, Column, Next, OrderRow, RowError};
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
pub(super) struct Total {
    pub(super) activity: String,
    orders: u64,
    units: u64,
}

impl Total {
    /// Nothing yet.
    pub(super) fn of(activity: &str) -> Self {
        Self { activity: activity.to_owned(), orders: 0, units: 0 }
    }

    /// One order more.
    pub(super) fn add(&mut self, units: u64) {
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

/// Reads a regular file whole, and with `--dry-run` whatever else it is. `None` where the user asked to stop.
pub(super) fn check(mut input: Input, args: &BulkArgs, task: &Task<'_>, out: &Output) -> Result<Option<CheckedInput>> {
    let mut bad = BadLines::new(input.reader.name(), args, &input.from, task.dry_run)?;
    let mut totals: Vec<Total> = Vec::new();
    let mut rows = 0;
    if !input.is_regular && !task.dry_run {
        return Ok(Some(CheckedInput { input, content: None, bad, rows, totals }));
    }
    let progress = out.progress("checking", 0);
    let mut known: HashMap<String, usize> = HashMap::new();
    let mut last = usize::MAX;
    let mut row = OrderRow::default();
    loop {
        if rows % 1024 == 0 && interrupt::requested() {
            progress.finish();
            out.note("stopped while the file was checked; nothing was applied");
            return Ok(None);
        }
        match input.reader.next(&mut row) {
            Ok(Next::Row) => {
                let activity = row.text(Column::Activity);
                if totals.get(last).is_none_or(|total| total.activity != activity) {
                    last = match known.get(activity) {
                        Some(nth) => *nth,
                        None => {
                            known.insert(activity.to_owned(), totals.len());
                            totals.push(Total::of(activity));
                            totals.len() - 1
                        }
                    };
                }
                totals[last].add(row.quantity().unsigned_abs());
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
    if bad.count > 0 && !args.keep_going {
        return match bad.refusal() {
            Some(failure) => Err(failure.into()),
            None => Ok(None),
        };
    }
    let content = (input.is_regular && !task.dry_run).then(|| input.reader.checked());
    if let Some(content) = &content {
        input = input.again(content)?;
    }
    Ok(Some(CheckedInput { input, content, bad, rows, totals }))
}

impl CheckedInput {
    /// The activities that are named; none of what was not read yet.
    pub(super) fn activities(&self) -> impl Iterator<Item = &str> {
        self.totals.iter().map(|total| total.activity.as_str())
    }

    /// Tells what would be applied.
    pub(super) fn tell(self, out: &mut Output) -> Result<Exit> {
        out.array(&self.totals)?;
        out.note("dry run: nothing was changed");
        match self.bad.failure() {
            Some(failure) => Err(failure.into()),
            None => Ok(Exit::Done),
        }
    }
}
