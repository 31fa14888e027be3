//! A feed: a consumer group gets each row at least once, in the order of its activity. The rows are printed, or a loader gets them: a shell
//! command, whose exit status says whether it has them.

use std::io;
use std::process::{ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

use crate::cli::commands::ledger::sources::{Faults, Sources};
use crate::cli::commands::ledger::{LedgerRow, rows_of};
use crate::cli::failure::{Exit, Failure, Result};
use crate::cli::interrupt;
use crate::cli::output::{Format, Output, Renaming, RowStream, Terminal, counted};
use crate::error::{StoreError, cause};
use crate::model::{ActivityId, Entry, EntryId};
use crate::read::{ledger, snapshot};
use crate::store::Store;

/// Rows that are printed, or waited for, at a time.
const PRINTED: usize = 1000;
/// How often all ledgers are asked, and not only those that have something new: a lost reply may hide it.
const SWEEP: Duration = Duration::from_secs(5);

/// Where rows go. They are acknowledged once it has them.
pub(super) enum Delivery<'a> {
    /// Standard output: once the reader of a pipe took them.
    Print(RowStream<'a>),
    /// A command: once it ended with 0.
    Exec(Loader),
}

impl Delivery<'_> {
    fn batch(&self) -> usize {
        match self {
            Self::Print(_) => PRINTED,
            Self::Exec(loader) => loader.batch,
        }
    }

    fn deliver(&mut self, rows: &[LedgerRow]) -> Result<()> {
        match self {
            Self::Print(stream) => {
                rows.iter().try_for_each(|row| stream.push(row))?;
                Ok(stream.wait_until_taken()?)
            }
            Self::Exec(loader) => loader.load(rows),
        }
    }

    fn reader_left(&self) -> bool {
        matches!(self, Self::Print(stream) if stream.reader_left())
    }

    pub(super) fn finish(self) -> Result<()> {
        match self {
            Self::Print(stream) => stream.finish(),
            Self::Exec(_) => Ok(()),
        }
    }
}

/// Rows that are delivered together, and the entries that are complete with them.
struct Batch<'a, 'b> {
    group: &'a str,
    rows: Vec<LedgerRow>,
    done: Vec<(ActivityId, EntryId)>,
    delivery: &'a mut Delivery<'b>,
    faults: &'a mut Faults,
}

impl Batch<'_, '_> {
    /// Adds an entry; whenever there are enough rows, delivers them.
    fn add(&mut self, activity: &ActivityId, id: EntryId, entry: Option<&Entry>, store: &mut Store) -> Result<()> {
        entry.iter().for_each(|entry| self.faults.check(activity, entry));
        for (row, _) in entry.into_iter().flat_map(|entry| rows_of(activity, entry, None)) {
            // Only now, and not at the last row of an entry: that entry is complete with this batch.
            if self.rows.len() >= self.delivery.batch() {
                self.flush(store)?;
            }
            self.rows.push(row);
        }
        self.done.push((activity.clone(), id));
        Ok(())
    }

    /// Delivers the rows, and acknowledges the entries that are complete with them.
    fn flush(&mut self, store: &mut Store) -> Result<()> {
        if !self.rows.is_empty() {
            self.delivery.deliver(&self.rows)?;
            self.rows.clear();
        }
        for entries in self.done.chunk_by(|one, other| one.0 == other.0) {
            let ids: Vec<EntryId> = entries.iter().map(|(_, id)| *id).collect();
            match ledger::acknowledge(store, &entries[0].0, self.group, &ids) {
                // The entries are gone; who reads that ledger next names it.
                Err(error) if error.is_wrong_type() => {}
                acknowledged => acknowledged?,
            }
        }
        self.done.clear();
        Ok(())
    }
}

/// Delivers what the group has not acknowledged yet; with `follow` also what comes, until Ctrl-C or until nobody reads.
pub(super) fn feed(
    sources: &mut Sources,
    group: &str,
    follow: bool,
    delivery: &mut Delivery<'_>,
    store: &mut Store,
    terminal: Terminal,
) -> Result<()> {
    let mut ready: Vec<usize> = (0..sources.ledgers.len()).collect();
    let mut joined = vec![false; sources.ledgers.len()];
    let mut swept = Instant::now();
    loop {
        let (rows, done, faults) = (Vec::new(), Vec::new(), &mut sources.faults);
        let mut batch = Batch { group, rows, done, delivery: &mut *delivery, faults };
        let mut failed = None;
        for ledger in ready.drain(..) {
            match take(&sources.ledgers[ledger].0, joined[ledger], &mut batch, store, terminal) {
                Ok(is_joined) => joined[ledger] = is_joined,
                // The others have what they had.
                Err(failure) if failure.store().is_some_and(StoreError::is_wrong_type) => failed = Some(failure),
                // What others gave waits for nobody else.
                Err(failure) if failure.store().is_some() && joined.contains(&true) => {
                    batch.flush(store)?;
                    return Err(failure.in_part());
                }
                Err(failure) => return Err(failure),
            }
            if interrupt::requested() {
                break;
            }
        }
        batch.flush(store)?;
        if let Some(failure) = failed {
            sources.leave_out(failure, store)?;
            (ready, joined) = ((0..sources.ledgers.len()).collect(), vec![false; sources.ledgers.len()]);
        }
        if !follow || interrupt::requested() || delivery.reader_left() || sources.is_over() {
            return Ok(());
        }
        if !ready.is_empty() {
            continue;
        }
        let waiting: Vec<usize> = (0..sources.ledgers.len()).filter(|ledger| joined[*ledger]).collect();
        let keys: Vec<ActivityId> = waiting.iter().map(|ledger| sources.ledgers[*ledger].0.clone()).collect();
        match ledger::group_news(store, &keys, group) {
            Ok(new) => ready.extend(new.into_iter().map(|ledger| waiting[ledger])),
            // One of them was reset, or is corrupt: which one shows when each is asked.
            Err(error) if error.is_no_group() || error.is_wrong_type() => ready.extend(waiting),
            Err(error) => return Err(error.into()),
        }
        sources.refresh(store)?;
        ready.extend(joined.len()..sources.ledgers.len());
        joined.resize(sources.ledgers.len(), false);
        if swept.elapsed() >= SWEEP {
            ready = (0..sources.ledgers.len()).collect();
            swept = Instant::now();
        }
    }
}

/// Takes all that one ledger has for the group, which is made if it has not joined. Returns whether the group is there: a reset
/// removes it, and a restore makes it in its last step, until which the activity is archived.
fn take(
    activity: &ActivityId,
    is_joined: bool,
    batch: &mut Batch<'_, '_>,
    store: &mut Store,
    terminal: Terminal,
) -> Result<bool> {
    let is_archived = |store: &mut Store| Ok::<_, StoreError>(snapshot::snapshot(store, activity)?.is_archived());
    if !is_joined && (is_archived(store)? || !ledger::make_group(store, activity, batch.group)?) {
        return Ok(false);
    }
    let mut after = EntryId::ZERO;
    while !interrupt::requested() {
        let page = match ledger::entries_of_group(store, activity, batch.group, after) {
            Err(error) if error.is_no_group() => {
                terminal.note(format!(
                    "the ledger of `{activity}` was removed, as by a reset: group `{}` starts with its new ledger",
                    batch.group
                ));
                return Ok(false);
            }
            page => page?,
        };
        let Some((last, _)) = page.last() else { break };
        after = *last;
        for (id, entry) in &page {
            if interrupt::requested() {
                break;
            }
            batch.add(activity, *id, entry.as_ref(), store)?;
        }
    }
    Ok(true)
}

/// Runs a command for every batch of rows.
pub(super) struct Loader {
    pub command: String,
    /// The most rows that it gets at once.
    pub batch: usize,
    pub format: Format,
    pub bom: bool,
    /// Other names for their fields.
    pub names: Option<Renaming>,
}

impl Loader {
    /// Runs the command for these rows.
    ///
    /// # Errors
    /// It cannot be run, or did not end with 0: it may have some of the rows, or none.
    pub(super) fn load(&self, rows: &[LedgerRow]) -> Result<()> {
        let failed = |why: String| {
            Failure::failed(format!(
                "`{}` {why}: nothing is acknowledged of {}",
                self.command,
                counted(rows.len(), "row")
            ))
            .hint("the same command delivers them again")
        };
        let unusable = |error: io::Error| failed(format!("cannot be run ({})", cause(&error)));
        let mut child =
            Command::new("sh").arg("-c").arg(&self.command).stdin(Stdio::piped()).spawn().map_err(unusable)?;
        let written = child.stdin.take().map_or(Ok(Exit::Done), |stdin| self.write(rows, stdin));
        let status = child.wait().map_err(unusable)?;
        if !status.success() {
            return Err(failed(match status.code() {
                Some(code) => format!("ended with {code}"),
                None => "was ended by a signal".to_owned(),
            }));
        }
        written.map(|_| ()).map_err(|failure| failed(format!("cannot be run ({})", failure.message)))
    }

    /// Writes the rows, and closes the command's end of the pipe, which is how it knows that this is all. If it closed the pipe
    /// before, it had enough: that it ended with 0 is what counts.
    fn write(&self, rows: &[LedgerRow], stdin: ChildStdin) -> Result<Exit> {
        let mut out = Output::to(stdin, self.format, Terminal::default());
        out.set_names(self.names.clone());
        out.bom = self.bom;
        let written = out.array(rows);
        out.end(written.map(|()| Exit::Done))
    }
}
