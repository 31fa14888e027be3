//! What is shown of a run: a row an order while it runs, or a summary at its end.

use crate::cli::error::Result;
use crate::cli::output::{Format, Output, OutputError, Row, RowStream};
use crate::cli::shared::bulk::summary::Tallies;
use crate::model::status::Status;

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

/// The lines that were reported, from the first to the last.
#[derive(Debug, Default)]
pub(crate) struct ReportedLines {
    last: u64,
    /// Those that were refused, a bit a line.
    refused: Vec<u64>,
    /// How many were reported as applied, and are refused now.
    pub(crate) refused_again: u64,
    /// How many were reported, and how many of them are `ok`, or `replayed`.
    pub(crate) orders: u64,
    pub(crate) applied: u64,
    pub(crate) replayed: u64,
}

impl ReportedLines {
    /// Whether a line was refused: it stays so, and is not tried again.
    pub(crate) fn is_refused(&self, line: u64) -> bool {
        let (word, bit) = position(line);
        self.refused.get(word).is_some_and(|word| word & bit != 0)
    }

    /// Records how a line ended; false if it was reported before.
    pub(crate) fn record(&mut self, line: u64, status: Status) -> bool {
        let is_new = line > self.last;
        self.last = self.last.max(line);
        self.orders += u64::from(is_new);
        self.applied += u64::from(is_new && status == Status::Ok);
        self.replayed += u64::from(is_new && status == Status::Replayed);
        if !status.is_done() {
            self.refused_again += u64::from(!is_new);
            let (word, bit) = position(line);
            if self.refused.len() <= word {
                self.refused.resize(word + 1, 0);
            }
            self.refused[word] |= bit;
        }
        is_new
    }
}

/// The word that holds a line, and its bit.
fn position(line: u64) -> (usize, u64) {
    #[allow(clippy::cast_possible_truncation)] // No file has that many lines.
    let word = (line / 64) as usize;
    (word, 1 << (line % 64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_reported_once_and_what_was_refused_stays_so() {
        let mut reported = ReportedLines::default();
        use Status::{Ok, OutOfStock, Replayed};
        for (line, status) in [(1, Ok), (2, OutOfStock), (64, Replayed), (130, OutOfStock)] {
            assert!(reported.record(line, status));
        }
        assert_eq!([1, 2, 64, 130, 9_999].map(|line| reported.is_refused(line)), [false, true, false, true, false]);
        assert!(!reported.record(1, Ok) && reported.refused_again == 0);
        assert!(!reported.record(64, OutOfStock) && reported.refused_again == 1 && reported.is_refused(64));
        assert!(reported.record(131, Ok));
        assert_eq!((reported.orders, reported.applied, reported.replayed), (5, 2, 1));
    }
}
