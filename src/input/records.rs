//! Order records for an audit: rows summed by activity and user, from a file, a pipe or a command.

use std::collections::HashMap;
use std::process::{Command, Stdio};

use super::orders::{Blocks, Column, Dialect, Mapping, OrderReader, OrderRow, Quantities, RowError, Shape};
use super::problem::Problems;
use crate::inventory::failure::{Failure, cause};
use crate::inventory::id::ActivityId;
use crate::inventory::ledger::EntryId;
use crate::inventory::records::Records;

/// How records are to be read.
pub struct Reading<'a> {
    /// The form; `None` where name and content say it.
    pub dialect: Option<Dialect>,
    /// What the input calls our columns.
    pub mapping: &'a Mapping,
    /// Whether the layout records who bought.
    pub has_users: bool,
    /// The activities that are wanted; all where it is empty. Where it is one, rows need not name it.
    pub wanted: &'a [ActivityId],
}

/// All rows of an input.
#[derive(Default)]
pub struct OrderRecords {
    /// The activities that rows name, in the order in which they come, and what the rows say.
    pub activities: Vec<(ActivityId, Records)>,
    /// How many rows there were, of whichever activity.
    pub rows: u64,
    /// How many of them were of activities that nobody wants.
    pub passed_over: u64,
}

impl OrderRecords {
    /// The records of an activity; none where no row names it.
    pub fn take(&mut self, activity: &ActivityId) -> Records {
        let found = self.activities.iter_mut().find(|(known, _)| known == activity);
        found.map(|(_, records)| std::mem::take(records)).unwrap_or_default()
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

fn read(blocks: Blocks, reading: &Reading<'_>) -> Result<OrderRecords, Failure> {
    const ALL: [Column; 4] = [Column::Activity, Column::User, Column::Quantity, Column::Ledger];
    let only = match reading.wanted {
        [only] => Some(only),
        _ => None,
    };
    let (required, optional): (&[Column], &[Column]) = match (only, reading.has_users) {
        (None, true) => (&ALL[..2], &ALL[2..]),
        (None, false) => (&ALL[..1], &ALL[1..]),
        (Some(_), true) => (&[Column::User], &[Column::Activity, Column::Quantity, Column::Ledger]),
        (Some(_), false) => (&[], &ALL),
    };
    let shape = Shape { required, optional, quantities: Quantities::Records };
    let mut rows = OrderReader::new(blocks, reading.dialect, reading.mapping, shape)?;
    let mut row = OrderRow::default();
    let mut problems = Problems::of(rows.name());
    let mut records = OrderRecords::default();
    let mut places: HashMap<String, Option<usize>> = HashMap::new();
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
        let name = match (row.get(Column::Activity), only) {
            (Some(name), _) => name,
            (None, Some(only)) => only.as_str(),
            (None, None) => continue,
        };
        // Most rows are of the activity of the row before.
        let place = match &last {
            Some((known, place)) if known == name => *place,
            _ => {
                let place = match places.get(name) {
                    Some(place) => *place,
                    None => records.place(name, reading.wanted),
                };
                places.insert(name.to_owned(), place);
                last = Some((name.to_owned(), place));
                place
            }
        };
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
    problems.end()?;
    Ok(records)
}

impl OrderRecords {
    /// Where the records of a new activity are kept; `None` where nobody wants it.
    fn place(&mut self, name: &str, wanted: &[ActivityId]) -> Option<usize> {
        let activity: ActivityId = name.parse().ok()?;
        if !wanted.is_empty() && !wanted.contains(&activity) {
            return None;
        }
        self.activities.push((activity, Records::default()));
        Some(self.activities.len() - 1)
    }
}
