//! What is shown of a run: a row an order while it runs, or a summary at its end.

use serde::Serialize;

use crate::cli::commands::bulk::reported::ReportedLines;
use crate::cli::commands::bulk::summary::Tallies;
use crate::cli::commands::stored_user::{UserHex, user_hex};
use crate::cli::error::Result;
use crate::cli::output::columns;
use crate::cli::output::{Cell, Format, Output, OutputError, Row, RowStream};
use crate::model::status::Status;
use crate::model::time::Millis;
use crate::sell::bulk::DecidedOrder;

/// One order of a file, and how it ended.
#[derive(Debug, Serialize)]
pub(crate) struct LineRow<'a> {
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
    pub(crate) fn new(decided: &DecidedOrder<'a>, request: &'a str) -> Self {
        let given = |text: &'a str| Some(text).filter(|text| !text.is_empty());
        Self {
            line: decided.order.line,
            activity: decided.order.activity,
            user: given(decided.order.user),
            quantity: decided.order.quantity,
            status: decided.status,
            stock: decided.stock,
            bought: decided.bought,
            request,
        }
    }
}

columns!(row: LineRow<'_> {
    line;
    activity => Cell::text(row.activity).flexible();
    user => Cell::text(row.user.unwrap_or_default()).flexible();
    quantity;
    status;
    stock;
    bought;
    request;
});

/// One hold of a file, and how it ended.
#[derive(Debug, Serialize)]
pub(crate) struct HoldLineRow<'a> {
    line: u64,
    activity: &'a str,
    user: Option<&'a str>,
    quantity: u32,
    status: Status,
    stock: Option<u64>,
    bought: Option<u64>,
    request: &'a str,
    deadline: Option<Millis>,
}

impl<'a> HoldLineRow<'a> {
    pub(crate) fn new(decided: &DecidedOrder<'a>, request: &'a str) -> Self {
        let LineRow { line, activity, user, quantity, status, stock, bought, request } = LineRow::new(decided, request);
        Self { line, activity, user, quantity, status, stock, bought, request, deadline: decided.deadline }
    }
}

columns!(row: HoldLineRow<'_> {
    line;
    activity => Cell::text(row.activity).flexible();
    user => Cell::text(row.user.unwrap_or_default()).flexible();
    quantity;
    status;
    stock;
    bought;
    request;
    deadline;
});

/// The end of one hold of a file.
#[derive(Debug, Serialize)]
pub(crate) struct EndLineRow<'a> {
    line: u64,
    activity: &'a str,
    user: Option<&'a str>,
    quantity: u32,
    status: Status,
    stock: Option<u64>,
    bought: Option<u64>,
    request: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    user_hex: UserHex,
}

impl<'a> EndLineRow<'a> {
    pub(crate) fn new(decided: &DecidedOrder<'a>, request: &'a str, format: Format) -> Self {
        let LineRow { line, activity, user, quantity, status, stock, bought, request, .. } =
            LineRow::new(decided, request);
        let user_hex = user_hex(decided.hold_user, format);
        let user = decided.hold_user.map_or(user, |owner| owner.text());
        Self { line, activity, user, quantity, status, stock, bought, request, user_hex }
    }
}

columns!(row: EndLineRow<'_> {
    line;
    activity => Cell::text(row.activity).flexible();
    user => Cell::text(row.user.unwrap_or_default()).flexible();
    quantity;
    status;
    stock;
    bought;
    request;
    data user_hex;
});

/// Whether a format shows a row an order.
pub(crate) fn shows_rows(format: Format) -> bool {
    matches!(format, Format::Jsonl | Format::Csv | Format::Tsv)
}

/// Counts of a run, and its rows.
pub(crate) struct Report<'o, R: Row> {
    /// The rows, if the format shows them.
    pub(crate) rows: Option<RowStream<'o, R>>,
    pub(crate) tallies: Tallies,
    pub(crate) lines: ReportedLines,
}

impl<'o, R: Row> Report<'o, R> {
    pub(crate) fn new(out: &'o mut Output, activities: usize) -> Result<Self> {
        let rows = if shows_rows(out.format()) { Some(out.stream()?.strict()) } else { None };
        let (tallies, lines) = (Tallies::of_activities(activities), ReportedLines::default());
        Ok(Self { rows, tallies, lines })
    }

    /// Shows what was reported, before a wait that may be long.
    pub(crate) fn flush(&mut self) -> Result<(), OutputError> {
        self.rows.as_mut().map_or(Ok(()), RowStream::flush)
    }

    /// Ends the rows; gives the counts.
    pub(crate) fn finish(self) -> Result<Tallies> {
        if let Some(rows) = self.rows {
            rows.finish()?;
        }
        Ok(self.tallies)
    }
}
