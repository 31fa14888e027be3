//! Order records for an audit: rows summed by activity and user, from a file, a pipe or a command.

use std::collections::HashMap;
use std::process::{Command, Stdio};

use super::columns;
use super::orders::{Blocks, Column, Mapping, OrderReader, OrderRow, Quantities, RowError, RowFormat, Shape};
use super::problem::Problems;
use crate::cli::failure::Failure;
use seckill::inventory::id::ActivityId;
use seckill::inventory::ledger::EntryId;
use seckill::inventory::order_sums::OrderSums;
use seckill::store::error::cause;

/// How records are to be read.
pub struct Reading<'a> {
    /// Form and delimiter, as far as they are given.
    pub format: RowFormat,
    /// What the input calls our columns.
    pub mapping: &'a Mapping,
    /// Whether the layout records who bought.
    pub has_users: bool,
    /// The activities that are wanted; all where it is empty. Where it is one, rows need not name it.
    pub wanted: &'a [ActivityId],
}

/// The most activities that one input may name when none are wanted in particular: more than any shop audits at
/// once, and a bound on memory if another column was taken for the activity.
const MOST_ACTIVITIES: usize = 100_000;

/// All rows of an input.
#[derive(Default)]
pub struct OrderRecords {
    /// The activities that are wanted; if none are, those that rows name, in the order in which they come.
    activities: Vec<(ActivityId, OrderSums)>,
    /// Indexes into `activities`.
    places: HashMap<String, usize>,
    /// How many rows there were, of whichever activity.
    pub rows: u64,
    /// How many of them were of activities that nobody wants.
    pub passed_over: u64,
    /// Which columns are ignored, in words.
    pub ignored: Option<String>,
}

impl OrderRecords {
    fn of(wanted: &[ActivityId]) -> Self {
        let mut records = Self::default();
        for activity in wanted {
            records.place_of(activity.clone());
        }
        records
    }

    /// The activities that rows name.
    pub fn named(&self) -> impl Iterator<Item = &ActivityId> {
        self.activities.iter().filter(|(_, records)| records.rows > 0).map(|(activity, _)| activity)
    }

    /// The records of an activity; none if no row names it.
    pub fn take(&mut self, activity: &ActivityId) -> OrderSums {
        let place = self.places.get(activity.as_str());
        place.map(|place| std::mem::take(&mut self.activities[*place].1)).unwrap_or_default()
    }

    /// Where the records of an activity are kept.
    fn place_of(&mut self, activity: ActivityId) -> usize {
        let next = self.activities.len();
        let place = *self.places.entry(activity.to_string()).or_insert(next);
        if place == next {
            self.activities.push((activity, OrderSums::default()));
        }
        place
    }
}

/// Reads a file; `-` is standard input.
///
/// # Errors
/// It cannot be read, or a row is not valid.
pub fn of_file(path: &str, reading: &Reading<'_>) -> Result<OrderRecords, Failure> {
    read(Blocks::open(path)?, reading)
}

/// Reads what a shell command prints. Its exit status counts: an export that failed half-way is no export.
///
/// # Errors
/// It cannot be started, it fails, or a row is not valid.
pub fn of_command(line: &str, reading: &Reading<'_>) -> Result<OrderRecords, Failure> {
    let failed = |what: String| Failure::failed(format!("the orders command `{}` {what}", line.escape_debug()));
    let mut child = Command::new("sh")
        .args(["-c", line])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| failed(format!("cannot be started: {}", cause(&error))))?;
    let Some(stdout) = child.stdout.take() else { return Err(failed("has no output".to_owned())) };
    let records = read(Blocks::stream("<orders-cmd>", stdout), reading);
    if records.is_err() {
        // It may wait for ever for somebody to read on.
        let _ = child.kill();
    }
    let status = child.wait().map_err(|error| failed(format!("cannot be waited for: {}", cause(&error))))?;
    match records {
        // A command that failed is why the rows are not valid.
        Ok(_) if !status.success() => {
            Err(failed(format!("failed ({status})")).hint("run it by itself and see what it says"))
        }
        // Above 127 a signal ended it: it is we who stopped reading.
        Err(failure) if status.code().is_some_and(|code| (1..128).contains(&code)) => {
            Err(failed(format!("failed ({status}); and {}", failure.message))
                .hint("run it by itself and see what it says"))
        }
        records => records,
    }
}

fn read(mut blocks: Blocks, reading: &Reading<'_>) -> Result<OrderRecords, Failure> {
    let mut records = OrderRecords::of(reading.wanted);
    // Some exports of no rows, as those of sqlite3 and mysql, have no header either.
    if blocks.is_empty() {
        return Ok(records);
    }
    let mut rows = OrderReader::new(blocks, reading.format, reading.mapping, shape(reading))?;
    let mut row = OrderRow::default();
    let mut problems = Problems::of(rows.name());
    let only = reading.wanted.len() == 1;
    let mut last: Option<(String, Option<usize>)> = None;
    loop {
        match rows.read(&mut row) {
            Ok(true) => (),
            Ok(false) => break,
            Err(RowError::Fatal(failure)) => return Err(failure),
            Err(RowError::Bad(problem)) => {
                problems.tell(problem);
                if problems.is_full() {
                    break;
                }
                continue;
            }
        }
        records.rows += 1;
        let place = match (row.get(Column::Activity), &last) {
            // Rows of the only activity that is wanted need not name it.
            (None, _) => only.then_some(0),
            // Most rows are of the activity of the row before.
            (Some(name), Some((known, place))) if known == name => *place,
            (Some(name), _) => {
                let place = match (records.places.get(name), reading.wanted.is_empty()) {
                    (Some(place), _) => Some(*place),
                    (None, true) => name.parse().ok().map(|activity| records.place_of(activity)),
                    (None, false) => None,
                };
                last = Some((name.to_owned(), place));
                place
            }
        };
        if records.activities.len() > MOST_ACTIVITIES.max(reading.wanted.len()) {
            return Err(Failure::usage(format!(
                "{}:{}: the rows name more than {MOST_ACTIVITIES} activities",
                rows.name(),
                row.line()
            ))
            .hint("is another column taken for the activity? else name the activities to audit"));
        }
        match place {
            None => records.passed_over += 1,
            Some(place) => {
                let entry: Option<EntryId> = row.get(Column::Ledger).and_then(|text| text.parse().ok());
                // A bare counter sells to nobody in particular.
                let user = if reading.has_users { row.text(Column::User) } else { "" };
                records.activities[place].1.add(user, row.quantity(), entry);
            }
        }
    }
    records.ignored = columns::ignored(rows.ignored());
    problems.end()?;
    Ok(records)
}

/// The columns of order records. If one activity is wanted, they need not name it.
fn shape(reading: &Reading<'_>) -> Shape {
    const ALL: [Column; 4] = [Column::Activity, Column::User, Column::Quantity, Column::Ledger];
    let (required, optional): (&[Column], &[Column]) = match (reading.wanted.len(), reading.has_users) {
        (1, true) => (&[Column::User], &[Column::Activity, Column::Quantity, Column::Ledger]),
        (1, false) => (&[], &ALL),
        (_, true) => (&ALL[..2], &ALL[2..]),
        (_, false) => (&ALL[..1], &ALL[1..]),
    };
    Shape { required, optional, quantities: Quantities::Records }
}
