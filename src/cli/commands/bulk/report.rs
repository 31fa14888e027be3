//! What is said of a run: a row an order while it goes on, or a summary at its end.

use std::fmt::Write as _;

use serde::Serialize;

use super::summary::{Summary, Tallies};
use super::told::Told;
use crate::cli::error::Result;
use crate::cli::output::{Cell, Format, Output, OutputError, Row, RowStream};
use seckill::inventory::status::Status;
use seckill::store::bulk::{Bulk, Decided};

/// One order of a file, and how it ended.
#[derive(Debug, Serialize)]
pub(super) struct LineRow<'a> {
    line: u64,
    activity: &'a str,
    user: Option<&'a str>,
    quantity: u32,
    status: Status,
    stock: Option<u64>,
    bought: Option<u64>,
    request: &'a str,
}

impl<'a> LineRow<'a> {
    fn new(decided: &Decided<'a>, request: &'a str) -> Self {
        let given = |text: &'a str| Some(text).filter(|text| !text.is_empty());
        Self {
            line: decided.entry.line,
            activity: decided.entry.activity,
            user: given(decided.entry.user),
            quantity: decided.entry.quantity,
            status: decided.status,
            stock: decided.stock,
            bought: decided.bought,
            request,
        }
    }
}

impl Row for LineRow<'_> {
    const FIELDS: &'static [&'static str] =
        &["line", "activity", "user", "quantity", "status", "stock", "bought", "request"];
    const HEADINGS: &'static [&'static str] = Self::FIELDS;

    fn cells(&self) -> Vec<Cell> {
        vec![
            Cell::number(self.line),
            Cell::text(self.activity).flexible(),
            Cell::text(self.user.unwrap_or_default()).flexible(),
            Cell::number(self.quantity),
            Cell::status(self.status),
            Cell::known(self.stock),
            Cell::known(self.bought),
            Cell::text(self.request),
        ]
    }
}

/// Whether a format shows a row an order.
pub(super) fn shows_rows(format: Format) -> bool {
    matches!(format, Format::Jsonl | Format::Csv | Format::Tsv)
}

/// Counts of a run, and its rows.
pub(super) struct Report<'o> {
    rows: Option<RowStream<'o, LineRow<'static>>>,
    tallies: Tallies,
    job: String,
    /// The name of an order without a request id.
    name: String,
    /// After a rewind, lines come a second time.
    pub(super) told: Told,
    pub(super) done: u64,
    /// Those of them that are `ok`.
    pub(super) applied: u64,
}

impl<'o> Report<'o> {
    pub(super) fn new(out: &'o mut Output, job: &str, activities: usize) -> Result<Self> {
        let rows = if shows_rows(out.format()) { Some(out.stream()?.strict()) } else { None };
        let (tallies, job) = (Tallies::of_activities(activities), job.to_owned());
        Ok(Self { rows, tallies, job, name: String::new(), told: Told::default(), done: 0, applied: 0 })
    }

    /// Tells of one order.
    pub(super) fn tell(&mut self, decided: &Decided<'_>) -> Result<(), OutputError> {
        if !self.told.note(decided.entry.line, decided.status.is_done()) {
            return Ok(());
        }
        self.done += 1;
        self.applied += u64::from(decided.status == Status::Ok);
        self.tallies.add(decided.nth, Some(decided.status), decided.entry.quantity);
        let Some(rows) = &mut self.rows else { return Ok(()) };
        self.name.clear();
        if decided.entry.request.is_empty() {
            // Writing to a String cannot fail.
            let _ = write!(self.name, "{}:{}", self.job, decided.entry.line);
        } else {
            self.name.push_str(decided.entry.request);
        }
        rows.push_borrowed(&LineRow::new(decided, &self.name))
    }

    /// Shows what was told, before a wait that may be long.
    pub(super) fn flush(&mut self) -> Result<(), OutputError> {
        self.rows.as_mut().map_or(Ok(()), RowStream::flush)
    }

    /// Ends the rows; gives the summary.
    pub(super) fn finish(mut self, bulk: Bulk<'_>) -> Result<Summary> {
        if let Some(rows) = self.rows {
            rows.finish()?;
        }
        for (nth, refused_before) in bulk.refused_before().enumerate().filter(|(_, count)| *count > 0) {
            self.tallies.split_replayed(nth, refused_before);
        }
        Ok(Summary { names: bulk.into_names(), tallies: self.tallies })
    }
}
