//! What is said of a run: a row an order while it goes on, or a summary at its end.

use anyhow::Result;
use serde::Serialize;

use super::told::Told;
use crate::inventory::status::Status;
use crate::output::{Cell, Format, Output, Row, RowStream};
use crate::store::bulk::{Bulk, Decided};

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
    request: Option<&'a str>,
}

impl<'a> LineRow<'a> {
    fn new(decided: &Decided<'a>) -> Self {
        let given = |text: &'a str| Some(text).filter(|text| !text.is_empty());
        Self {
            line: decided.entry.line,
            activity: decided.entry.activity,
            user: given(decided.entry.user),
            quantity: decided.entry.quantity,
            status: decided.status,
            stock: decided.stock,
            bought: decided.bought,
            request: given(decided.entry.request),
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
            Cell::text(self.request.unwrap_or_default()),
        ]
    }
}

/// How many orders on one activity ended alike.
#[derive(Debug, Serialize)]
pub(super) struct SummaryRow {
    activity: String,
    status: &'static str,
    orders: u64,
    /// `None` where nobody kept them: those that were refused before.
    units: Option<u64>,
    #[serde(skip)]
    tone: Option<Status>,
}

/// Orders and units of one activity, by status.
#[derive(Debug, Clone, Default)]
pub(super) struct Tally(Vec<(Status, u64, u64)>);

impl Tally {
    /// One order more.
    pub(super) fn add(&mut self, status: Status, units: u64) {
        match self.0.iter_mut().find(|(known, ..)| *known == status) {
            Some((_, orders, all)) => {
                *orders += 1;
                *all += units;
            }
            None => self.0.push((status, 1, units)),
        }
    }

    /// A row a status, in their own order.
    pub(super) fn rows(mut self, activity: &str) -> impl Iterator<Item = SummaryRow> {
        self.0.sort_by_key(|(status, ..)| *status);
        self.0.into_iter().map(move |(status, orders, units)| SummaryRow {
            activity: activity.to_owned(),
            status: status.name(),
            orders,
            units: Some(units),
            tone: Some(status),
        })
    }
}

impl Row for SummaryRow {
    const FIELDS: &'static [&'static str] = &["activity", "status", "orders", "units"];
    const HEADINGS: &'static [&'static str] = Self::FIELDS;

    fn cells(&self) -> Vec<Cell> {
        let status = self.tone.map_or_else(|| Cell::text(self.status).tone(crate::output::Tone::Bad), Cell::status);
        vec![Cell::text(&self.activity).flexible(), status, Cell::number(self.orders), Cell::known(self.units)]
    }
}

/// Whether a format shows a row an order.
pub(super) fn shows_rows(format: Format) -> bool {
    matches!(format, Format::Jsonl | Format::Csv | Format::Tsv)
}

/// Counts of a run, and its rows.
pub(super) struct Report<'o> {
    rows: Option<RowStream<'o, LineRow<'static>>>,
    /// One for each activity.
    tallies: Vec<Tally>,
    /// After a rewind, lines come a second time.
    pub(super) told: Told,
    pub(super) done: u64,
    /// Those of them that are `ok`.
    pub(super) applied: u64,
}

impl<'o> Report<'o> {
    pub(super) fn new(out: &'o mut Output) -> Result<Self> {
        let rows = if shows_rows(out.format()) { Some(out.stream()?.strict()) } else { None };
        Ok(Self { rows, tallies: Vec::new(), told: Told::default(), done: 0, applied: 0 })
    }

    /// Tells of one order.
    pub(super) fn tell(&mut self, decided: &Decided<'_>) -> Result<()> {
        if !self.told.note(decided.entry.line, decided.status.is_done()) {
            return Ok(());
        }
        self.done += 1;
        self.applied += u64::from(decided.status == Status::Ok);
        if self.tallies.len() <= decided.nth {
            self.tallies.resize_with(decided.nth + 1, Tally::default);
        }
        self.tallies[decided.nth].add(decided.status, u64::from(decided.entry.quantity));
        match &mut self.rows {
            Some(rows) => rows.push_borrowed(&LineRow::new(decided)),
            None => Ok(()),
        }
    }

    /// Shows what was told, before a wait that may be long.
    pub(super) fn flush(&mut self) -> Result<()> {
        self.rows.as_mut().map_or(Ok(()), RowStream::flush)
    }

    /// Ends the rows; gives the summary.
    pub(super) fn finish(self, bulk: &Bulk<'_>) -> Result<Vec<SummaryRow>> {
        if let Some(rows) = self.rows {
            rows.finish()?;
        }
        let mut summary: Vec<SummaryRow> = Vec::new();
        for (nth, (activity, refused_before)) in bulk.refused_before().enumerate() {
            let before = summary.len();
            summary.extend(self.tallies.get(nth).cloned().unwrap_or_default().rows(activity));
            let was_replayed = summary[before..].iter().any(|row| row.tone == Some(Status::Replayed));
            if refused_before > 0 && was_replayed {
                summary.push(SummaryRow {
                    activity: activity.to_owned(),
                    status: "refused_before",
                    orders: refused_before,
                    units: None,
                    tone: None,
                });
            }
        }
        Ok(summary)
    }
}

/// Whether anything in a summary was refused, now or before.
pub(super) fn is_refused(summary: &[SummaryRow]) -> bool {
    summary.iter().any(|row| row.tone.is_none_or(|status| !status.is_done()))
}
