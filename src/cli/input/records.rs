//! Order records for an audit, from a file, a pipe or a command: handed over while they are read, or summed by activity
//! and user.

use std::collections::{HashMap, HashSet};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread;
use std::thread::JoinHandle;

use crate::audit::ledger_state::order_sums::{OrderRows, OrderSums};
use crate::cli::failure::{Cause, Failure, Result};
use crate::cli::input::columns;
use crate::cli::input::error::{Problems, command_failed};
use crate::cli::input::orders::{
    Blocks, Column, Mapping, OrderReader, OrderRow, Quantities, RowError, RowFormat, Shape,
};
use crate::error::cause;
use crate::model::{ActivityId, EntryId, Interner, Shards};

/// The most activities that one input may name when none are wanted in particular: more than any shop audits at
/// once, and a bound on memory if another column was taken for the activity.
const MAX_ACTIVITIES: usize = 100_000;
/// Rows that are handed over at a time: about a page of participants, which takes the server longer.
const ROWS: usize = 1000;
/// How many such batches wait while the ledger is read.
const BATCHES: usize = 64;

/// How records are to be read.
pub struct Reading {
    pub format: RowFormat,
    pub mapping: Mapping,
    pub has_users: bool,
    /// The activities that are wanted; all if it is empty. If it is one, rows need not name it.
    pub wanted: Vec<ActivityId>,
    /// Sharded activities: each row is of the shard that is the user's home.
    pub sharded: Sharded,
}

/// Activities with their shards.
pub type Sharded = HashMap<ActivityId, Shards>;

/// What is known of an input when all of it was read.
#[derive(Default)]
pub struct RecordsSummary {
    /// How many rows there were, of whichever activity.
    pub rows: u64,
    /// How many of them were of activities that nobody wants.
    pub passed_over: u64,
    pub ignored: Option<String>,
}

/// The records of several activities.
#[derive(Default)]
pub struct OrderRecords {
    /// The activities that are wanted; if none are, those that rows name, in the order in which they come.
    activities: Activities,
    sums: Vec<(Interner, OrderSums)>,
}

impl OrderRecords {
    /// The activities that rows name.
    pub fn named(&self) -> impl Iterator<Item = &ActivityId> {
        let named = self.activities.ids.iter().zip(&self.sums).filter(|(_, (_, sums))| sums.rows > 0);
        named.map(|(activity, _)| activity).filter(|activity| !self.activities.of_sharded.contains(*activity))
    }

    /// Users and sums of an activity; none if no row names it.
    pub fn take(&mut self, activity: &ActivityId) -> (Interner, OrderSums) {
        let index = self.activities.indexes.get(activity.as_str());
        index.and_then(|index| self.sums.get_mut(*index)).map(std::mem::take).unwrap_or_default()
    }
}

#[derive(Default)]
struct Activities {
    ids: Vec<ActivityId>,
    indexes: HashMap<String, usize>,
    /// By the index of a sharded activity, which its shards come behind.
    shards: HashMap<usize, Shards>,
    /// All of these shards.
    of_sharded: HashSet<ActivityId>,
}

impl Activities {
    fn index_of(&mut self, activity: ActivityId, sharded: &Sharded) -> usize {
        let next = self.ids.len();
        let index = *self.indexes.entry(activity.to_string()).or_insert(next);
        if index == next {
            let shards = sharded.get(&activity);
            self.ids.push(activity.clone());
            for shard in shards.iter().flat_map(|shards| shards.ids(&activity)) {
                self.indexes.insert(shard.to_string(), self.ids.len());
                self.ids.push(shard.clone());
                self.of_sharded.insert(shard);
            }
            shards.map(|shards| self.shards.insert(index, shards.clone()));
        }
        index
    }

    /// The index of the sharded activity that has this shard: rows of `ledger` name shards, and a user may have another home by now.
    fn whole_of(&self, index: usize) -> usize {
        let has = |at: usize, shards: &Shards| (at..=at + shards.count()).contains(&index);
        self.shards.iter().find(|(at, shards)| has(**at, shards)).map_or(index, |(at, _)| *at)
    }

    /// The index of whatever has the units of a user.
    fn at_home(&self, index: usize, user: &str) -> usize {
        match self.shards.get(&index) {
            Some(shards) => index + 1 + shards.home(user.as_bytes()),
            None => index,
        }
    }

    /// Each shard counts the rows of its activity: if there are any, it is recorded, though nobody is at home there.
    fn count_rows(&self, sums: &mut Vec<(Interner, OrderSums)>) {
        for (index, shards) in &self.shards {
            let all = *index..=index + shards.count();
            if sums.len() <= *all.end() {
                sums.resize_with(all.end() + 1, Default::default);
            }
            let rows = sums[all.clone()].iter().map(|(_, sums)| sums.rows).sum();
            sums[all].iter_mut().for_each(|(_, sums)| sums.rows = rows);
        }
    }
}

pub struct RecordsSource {
    blocks: Blocks,
    export: Option<Export>,
}

impl RecordsSource {
    /// A file; `-` is standard input.
    pub fn file(path: &str) -> Result<Self> {
        Ok(Self { blocks: Blocks::open(path)?, export: None })
    }

    /// What a shell command prints.
    pub fn command(line: &str) -> Result<Self> {
        let spawned = Command::new("sh").args(["-c", line]).stdin(Stdio::null()).stdout(Stdio::piped()).spawn();
        let mut export = match spawned {
            Ok(child) => Export { line: line.to_owned(), child },
            Err(error) => return Err(export_failed(line, &format!("cannot be started: {}", cause(&error)))),
        };
        let Some(stdout) = export.child.stdout.take() else {
            return Err(export_failed(line, "has no output"));
        };
        Ok(Self { blocks: Blocks::stream("<orders-cmd>", stdout), export: Some(export) })
    }

    /// Reads all records, of several activities.
    ///
    /// # Errors
    /// It cannot be read, a row is not valid, or the command failed.
    pub fn read(self, reading: &Reading) -> Result<(OrderRecords, RecordsSummary)> {
        let mut sums: Vec<(Interner, OrderSums)> = Vec::new();
        let read = read(self.blocks, reading, &mut |index, rows| {
            if index >= sums.len() {
                sums.resize_with(index + 1, Default::default);
            }
            let (users, sums) = &mut sums[index];
            sums.add(rows, users);
        });
        let (activities, summary) = end(read, self.export)?;
        activities.count_rows(&mut sums);
        Ok((OrderRecords { activities, sums }, summary))
    }

    /// Begins to read the records of the only activity that is wanted, in a thread of their own.
    pub fn read_beside(self, reading: Reading) -> (Receiver<OrderRows>, Unfinished) {
        let (sender, rows) = sync_channel(BATCHES);
        let blocks = self.blocks;
        let thread = thread::spawn(move || {
            // If nobody wants rows any more, what is wrong with them is still an error.
            read(blocks, &reading, &mut |_, rows| drop(sender.send(std::mem::take(rows))))
        });
        (rows, Unfinished { thread, export: self.export })
    }
}

/// Records that a thread is reading.
pub struct Unfinished {
    thread: JoinHandle<Result<(Activities, RecordsSummary)>>,
    export: Option<Export>,
}

impl Unfinished {
    /// Waits for the end.
    ///
    /// # Errors
    /// As [`RecordsSource::read`]: nothing that was handed over may be believed.
    pub fn finish(self) -> Result<RecordsSummary> {
        let read = self.thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        end(read, self.export).map(|(_, summary)| summary)
    }
}

/// A shell command that prints records. Dropped, it is ended.
struct Export {
    line: String,
    child: Child,
}

impl Drop for Export {
    fn drop(&mut self) {
        // It may block for ever on a pipe that is no longer read.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn export_failed(line: &str, what: &str) -> Failure {
    Failure { cause: Cause::Export, ..command_failed("orders", line, what) }
}

/// Ends the reading of a source. The exit status of a command counts: an export that failed half-way is no export.
fn end<T>(read: Result<T>, export: Option<Export>) -> Result<T> {
    let Some(mut export) = export else { return read };
    if read.is_err() {
        let _ = export.child.kill();
    }
    let hint = "run it by itself and see what it says";
    let failed = |what: &str| export_failed(&export.line, what);
    let waited = export.child.wait();
    let status = waited.map_err(|error| failed(&format!("cannot be waited for: {}", cause(&error))))?;
    match read {
        // A command that failed is why the rows are not valid.
        Ok(_) if !status.success() => Err(failed(&format!("failed ({status})")).hint(hint)),
        // Above 127 a signal ended it: it is we who stopped reading.
        Err(error) if status.code().is_some_and(|code| (1..128).contains(&code)) => {
            Err(failed(&format!("failed ({status}); and {error}")).hint(hint))
        }
        read => read,
    }
}

/// Reads all rows and hands them over with the index of their activity, some at a time.
fn read(
    mut blocks: Blocks,
    reading: &Reading,
    hand_over: &mut impl FnMut(usize, &mut OrderRows),
) -> Result<(Activities, RecordsSummary)> {
    let (mut activities, mut summary) = (Activities::default(), RecordsSummary::default());
    for activity in &reading.wanted {
        activities.index_of(activity.clone(), &reading.sharded);
    }
    // Some exports of no rows, as those of sqlite3 and mysql, have no header either.
    if blocks.is_empty() {
        return Ok((activities, summary));
    }
    let mut rows = OrderReader::new(blocks, reading.format, &reading.mapping, shape(reading))?;
    let mut row = OrderRow::default();
    let mut problems = Problems::of(rows.lines.name());
    let only = reading.wanted.len() == 1;
    let mut last: Option<(String, Option<usize>)> = None;
    let (mut batch, mut batch_index) = (OrderRows::default(), 0);
    loop {
        match rows.read(&mut row) {
            Ok(true) => (),
            Ok(false) => break,
            Err(RowError::Fatal(failure)) => return Err(failure),
            Err(RowError::Bad(problem)) => {
                problems.report(problem);
                if problems.is_full() {
                    break;
                }
                continue;
            }
        }
        summary.rows += 1;
        let index = match (row.get(Column::Activity), &last) {
            // Rows of the only activity that is wanted need not name it.
            (None, _) => only.then_some(0),
            // Most rows are of the activity of the row before.
            (Some(name), Some((known, index))) if known == name => *index,
            (Some(name), _) => {
                let index = match activities.indexes.get(name) {
                    Some(index) => Some(activities.whole_of(*index)),
                    None => name.parse().ok().and_then(|named: ActivityId| {
                        let whole = named.parent().map(|(whole, _)| whole);
                        let whole = whole.filter(|whole| reading.sharded.contains_key(whole)).unwrap_or(named);
                        match reading.wanted.is_empty() {
                            true => Some(activities.index_of(whole, &reading.sharded)),
                            false => activities.indexes.get(whole.as_str()).copied(),
                        }
                    }),
                };
                last = Some((name.to_owned(), index));
                index
            }
        };
        if activities.ids.len() - activities.of_sharded.len() > MAX_ACTIVITIES.max(reading.wanted.len()) {
            return Err(Failure::usage(format!(
                "{}:{}: the rows name more than {MAX_ACTIVITIES} activities",
                rows.lines.name(),
                row.line
            ))
            .hint("is another column taken for the activity? else name the activities to audit"));
        }
        let Some(index) = index else {
            summary.passed_over += 1;
            continue;
        };
        // A bare counter sells to nobody in particular.
        let user = if reading.has_users { row.text(Column::User) } else { "" };
        let index = activities.at_home(index, user);
        if !batch.is_empty() && (index != batch_index || batch.len() == ROWS) {
            hand_over(batch_index, &mut batch);
            batch.clear();
        }
        batch_index = index;
        let entry: Option<EntryId> = row.get(Column::Ledger).and_then(|text| text.parse().ok());
        batch.push(user, row.quantity, entry);
        if let Some(request) = row.get(Column::Request) {
            batch.name_request(request);
        }
    }
    hand_over(batch_index, &mut batch);
    summary.ignored = columns::ignored(rows.ignored());
    problems.end()?;
    Ok((activities, summary))
}

/// The columns of order records. If one activity is wanted, they need not name it.
fn shape(reading: &Reading) -> Shape {
    const ALL: [Column; 5] = [Column::Activity, Column::User, Column::Quantity, Column::Request, Column::Ledger];
    let (required, optional): (&[Column], &[Column]) = match (reading.wanted.len(), reading.has_users) {
        (1, true) => (&[Column::User], &[Column::Activity, Column::Quantity, Column::Request, Column::Ledger]),
        (1, false) => (&[], &ALL),
        (_, true) => (&ALL[..2], &ALL[2..]),
        (_, false) => (&ALL[..1], &ALL[1..]),
    };
    Shape { required, optional, quantities: Quantities::Records, layout: None }
}
