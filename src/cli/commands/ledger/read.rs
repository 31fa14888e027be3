//! Reading ledgers: all that is there, then, with `--follow`, what comes.

use std::collections::VecDeque;

use super::rows::{LedgerRow, each_row};
use super::sources::{Sources, end_of_activity};
use crate::cli::error::Result;
use crate::cli::interrupt;
use crate::cli::output::RowStream;
use seckill::inventory::id::{ActivityId, UserId};
use seckill::inventory::ledger::{Entry, EntryId};
use seckill::store::Store;

/// Shows the ledgers one activity after the other, each oldest entry first.
pub fn read(
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
pub fn follow(
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

/// All entries of one ledger, or of several by their ids, each behind the entry given, which becomes the last that was shown.
fn read_merged(
    ledgers: &mut [(ActivityId, EntryId)],
    only: Option<&UserId>,
    store: &mut Store,
    rows: &mut RowStream<'_, LedgerRow>,
) -> Result<()> {
    let mut pages: Vec<VecDeque<Entry>> = ledgers.iter().map(|_| VecDeque::new()).collect();
    let mut ended = vec![false; ledgers.len()];
    while !interrupt::requested() && !rows.is_lost() {
        for (nth, (activity, after)) in ledgers.iter().enumerate() {
            if pages[nth].is_empty() && !ended[nth] {
                pages[nth].extend(store.ledger(activity, *after)?);
                ended[nth] = pages[nth].is_empty();
            }
        }
        let next = (0..pages.len()).filter_map(|nth| Some((pages[nth].front()?.id, nth))).min();
        let Some((_, nth)) = next else { break };
        // As many as come before those of the others; a page is whole before the interrupt is looked at again.
        let other = (0..pages.len()).filter(|other| *other != nth);
        let limit = other.filter_map(|other| Some((pages[other].front()?.id, other))).min();
        let (activity, after) = &mut ledgers[nth];
        let is_next = |entry: &Entry| limit.is_none_or(|limit| (entry.id, nth) < limit);
        while pages[nth].front().is_some_and(is_next) {
            let Some(entry) = pages[nth].pop_front() else { break };
            each_row(activity, &entry, only, |row| rows.push(&row))?;
            *after = entry.id;
        }
    }
    Ok(())
}
