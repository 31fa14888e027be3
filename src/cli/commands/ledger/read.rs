//! Reading ledgers: all that is there, then, with `--follow`, what comes.

use super::rows::{LedgerRow, each_row};
use super::sources::Sources;
use crate::cli::error::Result;
use crate::cli::interrupt;
use crate::cli::output::RowStream;
use seckill::inventory::id::{ActivityId, UserId};
use seckill::inventory::ledger::{Entry, EntryId};
use seckill::store::Store;

/// Shows the ledgers one after the other, each oldest entry first.
pub fn read(
    sources: &Sources,
    only: Option<&UserId>,
    store: &mut Store,
    rows: &mut RowStream<'_, LedgerRow>,
) -> Result<()> {
    for (activity, after) in &sources.ledgers {
        read_one(activity, *after, only, store, rows)?;
    }
    Ok(())
}

/// The same, then what is added, as it comes, until Ctrl-C or until nobody reads any more.
pub fn follow(
    sources: &mut Sources,
    only: Option<&UserId>,
    store: &mut Store,
    rows: &mut RowStream<'_, LedgerRow>,
) -> Result<()> {
    let mut from = 0;
    loop {
        // New ones of `--all` are read up to their end first, like those before.
        for (activity, after) in &mut sources.ledgers[from..] {
            *after = read_one(activity, *after, only, store, rows)?;
        }
        from = sources.ledgers.len();
        rows.flush()?;
        if interrupt::requested() || rows.reader_left() {
            return Ok(());
        }
        for (nth, page) in store.ledger_news(&sources.ledgers)? {
            let (activity, after) = &mut sources.ledgers[nth];
            for entry in &page {
                each_row(activity, entry, only, |row| rows.push(&row))?;
                *after = entry.id;
            }
        }
        sources.refresh(store)?;
    }
}

/// All entries of one ledger after one; returns the last that was shown.
fn read_one(
    activity: &ActivityId,
    mut after: EntryId,
    only: Option<&UserId>,
    store: &mut Store,
    rows: &mut RowStream<'_, LedgerRow>,
) -> Result<EntryId> {
    while !interrupt::requested() && !rows.is_lost() {
        let page = store.ledger(activity, after)?;
        let Some(last) = page.last().map(|entry: &Entry| entry.id) else { break };
        for entry in &page {
            each_row(activity, entry, only, |row| rows.push(&row))?;
        }
        after = last;
    }
    Ok(after)
}
