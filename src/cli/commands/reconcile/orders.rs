//! Where order records come from, and as of when they count.

use std::os::fd::AsFd;
use std::sync::mpsc::Receiver;
use std::time::UNIX_EPOCH;

use crate::audit::ledger_state::Compared;
use crate::audit::ledger_state::order_sums::OrderRows;
use crate::cli::failure::{Cause, Failure, Result};
use crate::cli::input::orders::{self, Dialect, Mapping, RowFormat};
use crate::cli::input::records::{OrderRecords, Reading, RecordsSource, RecordsSummary, Sharded, Unfinished};
use crate::cli::output::Output;
use crate::error::StoreError;
use crate::model::number::{MAX_UNITS, between};
use crate::model::{ActivityId, EntryId, GivenTime, Millis};
use crate::store::Store;

/// Flags about order records.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Order records")]
pub(super) struct OrdersArgs {
    /// File of order records; - is standard input
    ///
    /// csv, tsv or jsonl, with the columns user, quantity and activity.
    #[arg(long, value_name = "FILE", group = "records")]
    orders: Option<String>,
    /// Shell command that prints order records
    ///
    /// Such as `psql --csv -c 'select …'`. It must exit with 0: a failed export is no proof.
    #[arg(long, value_name = "CMD", group = "records")]
    orders_cmd: Option<String>,
    /// Column names, such as user=buyer_id,activity=sku
    #[arg(long, value_name = "OURS=THEIRS,…", requires = "records")]
    map: Vec<Mapping>,
    /// csv, tsv, jsonl, mysql [default: by name, content]
    ///
    /// mysql is what `mysql --batch` prints: tabs, backslash escapes, NULL.
    #[arg(long, value_name = "FORM", hide_possible_values = true, requires = "records")]
    format: Option<Dialect>,
    /// Separator of csv values, such as ;
    #[arg(long, value_name = "C", value_parser = orders::delimiter, requires = "records")]
    delimiter: Option<u8>,
    /// Time of the export [default: the file's time]
    ///
    /// What the ledger has after it is `timing`, not drift. By default it is the time when the file was modified,
    /// else the start of the command.
    ///
    /// TIME is RFC 3339, a date, `2026-11-21 10:00`, today, or 1h (ago).
    #[arg(long, value_name = "TIME", requires = "records")]
    as_of: Option<GivenTime>,
    /// Fail if the number of rows differs
    ///
    /// An export without rows is refused, unless this is 0.
    #[arg(long, value_name = "N", requires = "records", allow_hyphen_values = true, value_parser = between::<u64>(0, MAX_UNITS))]
    expect_rows: Option<u64>,
}

/// How far a file may seem to come from the future: clocks differ.
const MAX_CLOCK_SKEW_MS: u64 = 60_000;

/// Order records, and the time of their export.
pub(super) struct Orders {
    records: Records,
    as_of: Millis,
}

enum Records {
    /// Of several activities, read whole: which ones are audited may depend on them.
    Read(OrderRecords),
    /// Of one activity, read while the server is.
    Beside { rows: Option<Receiver<OrderRows>>, unfinished: Unfinished },
}

impl OrdersArgs {
    /// Whether records come through standard input or a pipe, as from `<(psql …)`, which hide a failed export.
    pub(super) fn is_pipe(&self) -> bool {
        self.orders.as_deref().is_some_and(|path| {
            path == "-" || std::fs::metadata(path).is_ok_and(|about| !about.is_file() && !about.is_dir())
        })
    }

    /// Whether there are records to compare with.
    pub(super) fn is_given(&self) -> bool {
        self.orders.is_some() || self.orders_cmd.is_some()
    }

    /// The file that is read, as it was given.
    pub(super) fn file(&self) -> Option<&str> {
        self.orders.as_deref()
    }

    /// Begins to read the records, if any are given; [`Orders::finish`] must be called before anything is believed.
    pub(super) fn begin(
        &self,
        wanted: Vec<ActivityId>,
        sharded: Sharded,
        store: &mut Store,
        out: &Output,
    ) -> Result<Option<Orders>> {
        let mapping = Mapping::joined(&self.map).map_err(|why| Failure::usage(format!("`--map`: {why}")))?;
        let format = RowFormat { dialect: self.format, delimiter: self.delimiter };
        if !self.is_given() {
            return Ok(None);
        }
        // The ledger's times are the server's, so the start of this command is, too.
        let now = store.now()?;
        let (what, as_of) = match (self.as_of, self.orders.as_deref().and_then(modified)) {
            (Some(as_of), _) => ("`--as-of` is", as_of.at(|| Ok::<_, StoreError>(now))?),
            (None, modified) => ("the order records were modified at", modified.unwrap_or(now)),
        };
        // What was bought since the export would look missing.
        if as_of.get() > now.get() + MAX_CLOCK_SKEW_MS {
            return Err(Failure::usage(format!("{what} {as_of}, and the server's clock is at {now}"))
                .hint("`--as-of TIME` says when they were exported"));
        }
        let source = match (&self.orders, &self.orders_cmd) {
            (Some(file), _) => RecordsSource::file(file)?,
            (None, command) => RecordsSource::command(command.as_deref().unwrap_or_default())?,
        };
        let reading = Reading { format, mapping, has_users: store.layout().kind().has_users(), wanted, sharded };
        let records = if reading.wanted.len() == 1 && reading.sharded.is_empty() {
            let (rows, unfinished) = source.read_beside(reading);
            Records::Beside { rows: Some(rows), unfinished }
        } else {
            let (records, summary) = source.read(&reading)?;
            self.check(&summary, as_of, out)?;
            Records::Read(records)
        };
        Ok(Some(Orders { records, as_of }))
    }

    /// Refuses an export that is empty or not of the expected length: every sale would differ from it, or none.
    fn check(&self, summary: &RecordsSummary, as_of: Millis, out: &Output) -> Result<()> {
        let rows = summary.rows;
        out.detail(format!("{rows} order records as of {as_of}"));
        let source = self.orders.as_ref().map_or_else(|| "`--orders-cmd`".to_owned(), |file| format!("`{file}`"));
        match self.expect_rows {
            Some(expected) if expected != rows => {
                return Err(Failure::usage(format!("{source} has {rows} order records, expected {expected}"))
                    .hint("was the export cut short? nothing was compared"));
            }
            None if rows == 0 => {
                let empty = Failure::usage(format!("{source} has no order records, so nothing was compared"))
                    .hint("is it the right database, table and query? `--expect-rows 0` if there are no orders yet");
                // A service may begin before the first order.
                return Err(Failure { cause: Cause::Export, ..empty });
            }
            _ => (),
        }
        if let Some(ignored) = &summary.ignored {
            out.note(ignored);
        }
        if summary.passed_over > 0 {
            out.note(format!("order records of other activities: {}", summary.passed_over));
        }
        Ok(())
    }
}

/// When a file, or the file that standard input is, was last modified; `None` if it is no regular file.
fn modified(path: &str) -> Option<Millis> {
    let about = match path {
        "-" => std::fs::File::from(std::io::stdin().as_fd().try_clone_to_owned().ok()?).metadata(),
        _ => std::fs::metadata(path),
    };
    let about = about.ok().filter(std::fs::Metadata::is_file)?;
    let since = about.modified().ok()?.duration_since(UNIX_EPOCH).ok()?;
    u64::try_from(since.as_millis()).ok().map(Millis::new)
}

impl Orders {
    /// The activities that records name, if that is known before they are audited.
    pub(super) fn named(&self) -> Vec<&ActivityId> {
        match &self.records {
            Records::Read(records) => records.named().collect(),
            Records::Beside { .. } => Vec::new(),
        }
    }

    /// What an activity is compared with.
    pub(super) fn of(&mut self, activity: &ActivityId, named: bool) -> Compared {
        let newer_from = EntryId::first_at(Millis::new(self.as_of.get() + 1));
        match &mut self.records {
            Records::Beside { rows, .. } => Compared::unread(rows.take(), newer_from, named),
            Records::Read(records) => {
                let (users, orders) = records.take(activity);
                Compared { users, orders, unread: None, newer_from, named }
            }
        }
    }

    /// Waits for the end of the records.
    ///
    /// # Errors
    /// They are not valid, not complete, or not as many as expected: what was compared with them means nothing.
    pub(super) fn finish(self, args: &OrdersArgs, out: &Output) -> Result<()> {
        match self.records {
            Records::Read(_) => Ok(()),
            Records::Beside { unfinished, .. } => args.check(&unfinished.finish()?, self.as_of, out),
        }
    }
}
