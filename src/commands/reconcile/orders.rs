//! Where order records come from, and as of when they count.

use std::time::UNIX_EPOCH;

use anyhow::Result;

use crate::input::orders::{Dialect, Mapping};
use crate::input::records::{self, OrderRecords, Reading};
use crate::inventory::book::Compared;
use crate::inventory::failure::Failure;
use crate::inventory::id::ActivityId;
use crate::inventory::ledger::EntryId;
use crate::inventory::time::Millis;
use crate::output::Output;
use crate::store::Store;

/// Flags about order records.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Order records")]
pub struct OrdersArgs {
    /// Compare with order records: csv, tsv or jsonl with user, quantity and activity; `-` is standard input
    #[arg(long, value_name = "FILE", group = "records")]
    orders: Option<String>,
    /// Compare with what a shell command prints, as in `psql --csv -c 'select …'`; it must exit with 0
    #[arg(long, value_name = "CMD", group = "records")]
    orders_cmd: Option<String>,
    /// The records' own names of columns, as in user=buyer_id,activity=sku
    #[arg(long, value_name = "OURS=THEIRS,…", requires = "records")]
    map: Vec<Mapping>,
    /// Form of the records [default: by name and content]
    #[arg(long, value_name = "FORM", requires = "records")]
    format: Option<Dialect>,
    /// As of when the records count: what the ledger has after it is `timing`
    /// [default: when the file was last modified, or just before the command starts]
    #[arg(long, value_name = "TIME", requires = "records")]
    as_of: Option<Millis>,
    /// How many rows there must be: a file that was cut short is no proof of anything
    #[arg(long, value_name = "N", requires = "records")]
    expect_rows: Option<u64>,
}

/// Order records of all activities, and the time as of which they count.
pub struct Orders {
    records: OrderRecords,
    newer_from: EntryId,
}

impl OrdersArgs {
    /// Whether records come through a plain pipe, which hides a failed export.
    pub fn is_pipe(&self) -> bool {
        self.orders.as_deref() == Some("-")
    }

    /// Reads the records, where any are given.
    pub fn read(&self, wanted: &[ActivityId], store: &mut Store, out: &Output) -> Result<Option<Orders>> {
        let mapping = Mapping::joined(&self.map).map_err(|why| Failure::usage(format!("`--map`: {why}")))?;
        let reading =
            Reading { dialect: self.format, mapping: &mapping, has_users: store.layout().kind().has_users(), wanted };
        // The ledger's times are the server's, so a command's start is, too.
        let (records, as_of) = match (&self.orders, &self.orders_cmd) {
            (Some(file), _) => {
                let as_of = match modified(file) {
                    Some(modified) => modified,
                    None => store.now()?,
                };
                (records::of_file(file, &reading)?, as_of)
            }
            (None, Some(command)) => {
                let as_of = store.now()?;
                (records::of_command(command, &reading)?, as_of)
            }
            (None, None) => return Ok(None),
        };
        let as_of = self.as_of.unwrap_or(as_of);
        out.detail(format!("{} order records as of {as_of}", records.rows));
        if let Some(expected) = self.expect_rows
            && expected != records.rows
        {
            return Err(Failure::usage(format!("there are {} order records, expected {expected}", records.rows))
                .hint("was the export cut short? nothing was compared")
                .into());
        }
        if records.passed_over > 0 {
            out.note(format!("{} order records are of other activities", records.passed_over));
        }
        Ok(Some(Orders { records, newer_from: EntryId::first_at(Millis::new(as_of.get() + 1)) }))
    }
}

/// When a file was last modified; `None` of what is no regular file.
fn modified(path: &str) -> Option<Millis> {
    let about = std::fs::metadata(path).ok().filter(|about| about.is_file())?;
    let since = about.modified().ok()?.duration_since(UNIX_EPOCH).ok()?;
    u64::try_from(since.as_millis()).ok().map(Millis::new)
}

impl Orders {
    /// The activities that records name.
    pub fn activities(&self) -> Vec<ActivityId> {
        self.records.activities.iter().map(|(activity, _)| activity.clone()).collect()
    }

    /// What an activity is compared with.
    pub fn of(&mut self, activity: &ActivityId) -> Compared {
        Compared { records: self.records.take(activity), newer_from: self.newer_from }
    }
}
