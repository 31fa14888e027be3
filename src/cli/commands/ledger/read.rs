//! Reading ledgers: all that is there, then, with `--follow`, what comes.

use crate::cli::commands::ledger::rows::{LedgerRow, each_row};
use crate::cli::commands::ledger::sources::{Sources, end_of_activity};
use crate::cli::error::Result;
use crate::cli::interrupt;
use crate::cli::output::RowStream;
use crate::cli::shared::sharded::each_merged;
use crate::model::id::{ActivityId, UserId};
use crate::model::ledger::EntryId;
use crate::read::ledger;
use crate::store::Store;

/// Shows the ledgers one activity after the other, each oldest entry first.
pub(super) fn read(
    sources: &mut Sources,
    only: Option<&UserId>,
    store: &mut Store,
    rows: &mut RowStream<'_, LedgerRow>,
) -> Result<()> {
    read_from(&mut sources.ledgers, only, store, rows)
}

fn read_from(
    ledgers: &mut [(ActivityId, EntryId)],
    only: Option<&UserId>,
    store: &mut Store,
    rows: &mut RowStream<'_, LedgerRow>,
) -> Result<()> {
    let mut from = 0;
    while from < ledgers.len() {
        let upto = end_of_activity(ledgers, from);
        read_merged(&mut ledgers[from..upto], only, store, rows)?;
        from = upto;
    }
    Ok(())
}

/// The same, then what is added, as it comes, until Ctrl-C or until nobody reads any more.
pub(super) fn follow(
    sources: &mut Sources,
    only: Option<&UserId>,
    store: &mut Store,
    rows: &mut RowStream<'_, LedgerRow>,
) -> Result<()> {
    let mut from = 0;
    loop {
        // New ones of `--all` are read up to their end first, like those before.
        read_from(&mut sources.ledgers[from..], only, store, rows)?;
        from = sources.ledgers.len();
        rows.flush()?;
        if interrupt::requested() || rows.reader_left() {
            return Ok(());
        }
        for (ledger, page) in ledger::ledger_news(store, &sources.ledgers)? {
            let (activity, after) = &mut sources.ledgers[ledger];
            for entry in &page {
                each_row(activity, entry, only, |row| rows.push(&row))?;
                *after = entry.id;
            }
        }
        sources.refresh(store)?;
    }
}

/// All entries of one ledger, or of several by their ids, each behind the entry given, which becomes the last that was shown.
fn read_merged(
    ledgers: &mut [(ActivityId, EntryId)],
    only: Option<&UserId>,
    store: &mut Store,
    rows: &mut RowStream<'_, LedgerRow>,
) -> Result<()> {
    each_merged(ledgers, None, store, |activity, _, entry| {
        each_row(activity, entry, only, |row| rows.push(&row))?;
        Ok(!interrupt::requested() && !rows.is_lost())
    })
}
