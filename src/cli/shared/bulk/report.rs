//! What is shown of a run: a row an order while it runs, or at its end a summary by activity and status, whose counts add up to the lines;
//! then its failure, with a hint how to resume, and its exit code.

use std::collections::BTreeMap;

use crate::cli::error::advice;
use crate::cli::failure::{Exit, Failure, Result};
use crate::cli::output::{Cell, Format, Output, RowStream, Tone, row};
use crate::cli::shared::hints;
use crate::cli::shared::outcome::{ItemRow, MultiDocument, OutcomeRow};
use crate::error::StoreError;
use crate::model::{ActivityId, Interner, Status};
use crate::sell::bulk::{DecidedOrder, Operation, Run, status_of_items};
use crate::store::Store;

/// Whether a format shows a row an order.
pub(crate) fn shows_rows(format: Format) -> bool {
    matches!(format, Format::Jsonl | Format::Csv | Format::Tsv)
}

/// Counts of a run, and its rows.
pub(crate) struct Report<'o> {
    /// The rows, if the format shows them.
    pub(crate) rows: Option<RowStream<'o>>,
    pub(crate) tallies: Tallies,
    pub(crate) lines: ReportedLines,
    operation: Operation,
    /// Whether a row of several activities is an order with its items in it; else it is an item.
    is_nested: bool,
}

impl<'o> Report<'o> {
    /// For orders of an operation.
    pub(crate) fn new(operation: Operation, out: &'o mut Output) -> Result<Self> {
        let format = out.format();
        out.choose(OutcomeRow::columns_of_file(operation));
        let rows = match operation {
            _ if !shows_rows(format) => None,
            Operation::MultiDeduct => Some(out.stream::<ItemRow<'_>>()?.strict()),
            _ => Some(out.stream::<OutcomeRow<'_>>()?.strict()),
        };
        let (tallies, lines) = (Tallies::default(), ReportedLines::default());
        Ok(Self { rows, tallies, lines, operation, is_nested: format == Format::Jsonl })
    }

    /// Reports the first order of a run; false if it is not decided.
    pub(crate) fn report_first(&mut self, run: &Run) -> Result<bool> {
        let items: Vec<DecidedOrder<'_>> = run.front_items().collect();
        let Some(first) = items.first() else { return Ok(false) };
        let status = status_of_items(items.iter().map(|item| item.status));
        if !self.lines.record(first.line, status) {
            return Ok(true);
        }
        for item in &items {
            self.tallies.add(item.index, Some(item.status), item.quantity);
        }
        let Some(rows) = &mut self.rows else { return Ok(true) };
        let request = run.request_of(first);
        match self.operation {
            Operation::MultiDeduct if self.is_nested => rows.push(&MultiDocument::of_file(&items, status, &request))?,
            Operation::MultiDeduct => items.iter().try_for_each(|item| rows.push(&ItemRow::of_file(item, &request)))?,
            operation => rows.push(&OutcomeRow::of_file(first, &request, operation))?,
        }
        Ok(true)
    }

    /// Shows what was reported, before a wait that may be long.
    pub(crate) fn flush(&mut self) -> Result<()> {
        self.rows.as_mut().map_or(Ok(()), RowStream::flush)
    }

    /// Ends the rows; gives the counts, and whether the rows were written.
    pub(crate) fn finish(self) -> (Tallies, Result<()>) {
        (self.tallies, self.rows.map_or(Ok(()), RowStream::finish))
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
    // No file has that many lines.
    let word = (line / 64) as usize;
    (word, 1 << (line % 64))
}

/// Units that nobody knows.
const UNKNOWN: u64 = u64::MAX;

/// How an order counts: under its status, or as refused before this run.
type Counted = Option<Status>;

/// Orders of one activity that ended with the same status.
#[derive(Debug, Clone, Copy)]
struct Tally {
    orders: u64,
    units: u64,
    /// The least and the largest quantity among them.
    least: u32,
    most: u32,
    counted: Counted,
}

/// Orders and units of activities by number.
#[derive(Debug, Default)]
pub(crate) struct Tallies(BTreeMap<(usize, Counted), Tally>);

impl Tallies {
    /// One order more; of 0 units, if nobody knows how many.
    pub(crate) fn add(&mut self, activity: usize, counted: Counted, units: u32) {
        let entry = self.entry(activity, counted);
        entry.orders += 1;
        entry.units = if units == 0 { UNKNOWN } else { entry.units.saturating_add(units.into()) };
        entry.least = entry.least.min(units);
        entry.most = entry.most.max(units);
    }

    /// The entry of an activity, made if there is none.
    fn entry(&mut self, activity: usize, counted: Counted) -> &mut Tally {
        self.0.entry((activity, counted)).or_insert(Tally { orders: 0, units: 0, least: u32::MAX, most: 0, counted })
    }

    /// Counts some of the replayed orders of an activity as refused before. The server keeps their number, not their
    /// quantities: so the units are known only if all orders have the same.
    pub(crate) fn split_replayed(&mut self, activity: usize, refused_before: u64) {
        let replayed = self.entry(activity, Some(Status::Replayed));
        let refused = refused_before.min(replayed.orders);
        if refused == 0 {
            return;
        }
        let quantity = replayed.least;
        let is_known = replayed.least == replayed.most && replayed.units != UNKNOWN;
        let all = refused == replayed.orders;
        let units = match is_known {
            _ if all => replayed.units,
            true => refused * u64::from(quantity),
            false => UNKNOWN,
        };
        replayed.orders -= refused;
        replayed.units = if units == UNKNOWN { UNKNOWN } else { replayed.units - units };
        let before = self.entry(activity, None);
        before.orders += refused;
        before.units = before.units.saturating_add(units);
    }

    /// The entries of an activity in the order of their statuses, those that were refused before at the end.
    fn of(&self, activity: usize) -> Vec<Tally> {
        let entries = self.0.range((activity, None)..(activity + 1, None)).map(|(_, entry)| *entry);
        let mut entries: Vec<Tally> = entries.filter(|entry| entry.orders > 0).collect();
        entries.sort_by_key(|entry| entry.counted.is_none());
        entries
    }

    /// Whether anything was refused, now or before.
    pub(crate) fn is_refused(&self) -> bool {
        self.0.values().any(|entry| entry.orders > 0 && !entry.counted.is_some_and(Status::is_done))
    }
}

/// What is said at the end of a run.
#[derive(Default)]
pub(crate) struct Summary {
    pub(crate) names: Interner,
    pub(crate) tallies: Tallies,
}

impl Summary {
    /// Whether no order counts.
    pub(crate) fn is_empty(&self) -> bool {
        self.tallies.0.values().all(|entry| entry.orders == 0)
    }

    /// The activities that have an order which counts so.
    fn activities(&self, counts: impl Fn(Status) -> bool) -> impl Iterator<Item = ActivityId> {
        let has =
            move |activity: &usize| self.tallies.of(*activity).iter().any(|entry| entry.counted.is_some_and(&counts));
        (0..self.names.count()).filter(has).filter_map(|activity| self.name(activity).parse().ok())
    }

    // There are fewer names than that.
    fn name(&self, activity: usize) -> &str {
        std::str::from_utf8(self.names.name(activity as u32)).unwrap_or_default()
    }

    /// A row for each activity and status.
    fn rows(&self) -> impl Iterator<Item = SummaryRow<'_>> {
        (0..self.names.count()).flat_map(|activity| {
            let name = self.name(activity);
            self.tallies.of(activity).into_iter().map(move |entry| SummaryRow::new(name, &entry))
        })
    }

    /// Prints the rows.
    pub(crate) fn show(&self, out: &mut Output) -> Result<()> {
        let mut rows = out.stream::<SummaryRow<'_>>()?;
        self.rows().try_for_each(|row| rows.push(&row))?;
        rows.finish()
    }
}

row! {
    /// What is shown of an entry.
    struct SummaryRow<'a> as row from (activity: &'a str, entry: &Tally) {
        activity: &'a str = activity, flexible;
        status: &'static str = entry.counted.map_or("refused_before", Status::name)
            => row.counted.map_or_else(|| Cell::text(row.status).tone(Tone::Bad), Cell::status);
        orders: u64 = entry.orders;
        /// `None` if nobody kept them.
        units: Option<u64> = Some(entry.units).filter(|units| *units != UNKNOWN);
        hidden counted: Counted = entry.counted;
    }
    changed if row.counted == Some(Status::Ok)
}

/// How a run ended.
pub(crate) struct RunOutcome {
    pub(crate) is_done: bool,
    pub(crate) failure: Option<Failure>,
    pub(crate) bad: Option<Failure>,
    pub(crate) is_refused: bool,
    pub(crate) summary: Summary,
}

impl RunOutcome {
    /// Shows the summary; the exit code is the first that applies.
    pub(crate) fn show(self, store: &mut Store, out: &mut Output) -> Result<Exit> {
        if store.requires_replicas() {
            // Now or before.
            self.summary.activities(Status::is_done).try_for_each(|activity| store.changed_anywhere(&activity))?;
        }
        // An empty table has nothing to say beside an error.
        let is_moot = out.format() == Format::Table && self.failure.is_some() && self.summary.is_empty();
        match &self.failure {
            // Nobody has the rows.
            Some(failure) if shows_rows(out.format()) && failure.is_unwritable() => {
                out.keep_changes(&self.summary.rows().collect::<Vec<_>>())?;
            }
            _ if shows_rows(out.format()) || is_moot => {}
            _ => self.summary.show(out)?,
        }
        // Without a reply from the server, there is nothing to look for.
        if self.failure.is_none() {
            let missing = self.summary.activities(|status| status == Status::NotPreheated);
            hints::other_layouts(&missing.take(hints::MAX_ACTIVITIES).collect::<Vec<_>>(), store, out);
        }
        let cut_short = match self.failure {
            Some(failure) => Err(failure),
            None if !self.is_done => Ok(Exit::Interrupted),
            None => return self.bad.map_or(Ok(Exit::done_if(!self.is_refused)), Err),
        };
        self.bad.iter().for_each(|bad| out.warn(&bad.message));
        cut_short
    }
}

/// An error as a failure that says what was done before, and how to resume.
pub(crate) fn with_hint(failure: Failure, done: &ReportedLines, how_to_resume: &str) -> Failure {
    if let Some(error) = failure.store() {
        let hint = hint_of_store(error, done, how_to_resume);
        return failure.hint(hint);
    }
    match &failure.hint {
        None => failure.hint(how_to_resume),
        Some(hint)
            if matches!(failure.exit, Exit::Failed | Exit::Unreachable | Exit::Denied) && !hint.contains("again") =>
        {
            let both = format!("{hint}; {how_to_resume}");
            failure.hint(both)
        }
        Some(_) => failure,
    }
}

fn hint_of_store(error: &StoreError, done: &ReportedLines, how_to_resume: &str) -> String {
    let progress = match done.orders {
        // Without any order decided, only a refusal says that nothing ran.
        0 if !error.is_refusal() && !matches!(error, StoreError::OtherJob { .. }) => None,
        0 => Some("nothing was applied".to_owned()),
        1 => Some(format!("1 order was decided before ({} ok)", done.applied)),
        orders => Some(format!("{orders} orders were decided before ({} ok)", done.applied)),
    };
    let resumes = !matches!(
        error,
        StoreError::Reset { .. }
            | StoreError::OtherJob { .. }
            | StoreError::OtherLimit { .. }
            | StoreError::Lost { .. }
    );
    // A file has its request ids.
    let advice = advice(error).filter(|_| !matches!(error, StoreError::Unsettled { .. }));
    let said = [progress, advice, resumes.then(|| how_to_resume.to_owned())];
    let hint: Vec<String> = said.into_iter().flatten().collect();
    hint.join("; ")
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

    #[test]
    fn units_refused_before_are_known_if_quantities_are_equal_or_all_were_refused() {
        let replayed_and_refused = |quantities: [u32; 2], refused| {
            let mut tallies = Tallies::default();
            quantities.into_iter().for_each(|units| tallies.add(0, Some(Status::Replayed), units));
            tallies.split_replayed(0, refused);
            let row = |entry: &Tally| SummaryRow::new("a", entry);
            tallies.of(0).iter().map(row).map(|row| (row.status, row.orders, row.units)).collect::<Vec<_>>()
        };
        assert_eq!(replayed_and_refused([3, 3], 1), [("replayed", 1, Some(3)), ("refused_before", 1, Some(3))]);
        assert_eq!(replayed_and_refused([1, 2], 5), [("refused_before", 2, Some(3))]);
        assert_eq!(replayed_and_refused([1, 2], 1), [("replayed", 1, None), ("refused_before", 1, None)]);
        assert_eq!(
            replayed_and_refused([0, 0], 1),
            [("replayed", 1, None), ("refused_before", 1, None)],
            "no quantities"
        );
    }
}
