//! The report of a sharded activity: its shards as one sale.

use anyhow::Context;

use crate::cli::commands::report::read::{Report, buyers, snapshot, with_ledger};
use crate::cli::commands::report::series::Series;
use crate::cli::error::Result;
use crate::cli::output::Output;
use crate::cli::shared::hints;
use crate::cli::shared::sharded::{each_merged, refuse};
use crate::model::activity::{Meta, Snapshot};
use crate::model::id::ActivityId;
use crate::model::ledger::{Entry, EntryId};
use crate::model::number::signed;
use crate::model::shards::Shards;
use crate::model::status::Status;
use crate::read::ledger;
use crate::read::snapshot;
use crate::report::Balance;
use crate::report::Sales;
use crate::report::merged::MergedLedgers;
use crate::store::Store;

/// Reads all shards. `whole` is the activity itself, which has neither stock nor ledger.
pub(super) fn read(whole: Snapshot, shards: &Shards, top: usize, store: &mut Store, out: &Output) -> Result<Report> {
    hints::warn_of_replica(store, out);
    let meta: Meta = whole.meta.clone().context("the meta that has its shards")?;
    let names: Vec<ActivityId> = shards.ids(&whole.activity).collect();
    let (mut found, mut last) = (Vec::new(), Vec::new());
    for name in &names {
        let shard = snapshot(name, store)?;
        last.push(with_ledger(&shard, store, out)?.1);
        found.push(shard);
    }
    let partly = || refuse(&whole.activity, shards, "the beginning of a ledger was trimmed or is gone", "report");
    let is_trimmed = |shard: &Snapshot| shard.meta.as_ref().is_some_and(|meta| meta.checkpoint.is_some());
    if found.iter().any(is_trimmed) {
        return Err(partly().into());
    }
    let mut ledgers: Vec<(ActivityId, EntryId)> = names.iter().map(|name| (name.clone(), EntryId::ZERO)).collect();
    let mut first: Vec<Entry> = Vec::new();
    for (name, after) in &mut ledgers {
        let entry = ledger::ledger(store, name, EntryId::ZERO)?.into_iter().next().ok_or_else(partly)?;
        *after = entry.id;
        first.push(entry);
    }
    let (mut merged, preheat) = MergedLedgers::new(&first).ok_or_else(partly)?;
    let mut sales = Sales::new(None);
    sales.add(&preheat);
    let progress = out.progress("reading the ledgers", 0);
    each_merged(&mut ledgers, Some(&last), store, |_, shard, entry| {
        merged.next(shard, entry).iter().for_each(|entry| sales.add(entry));
        progress.inc(1);
        Ok(true)
    })?;
    progress.finish();
    let (users, buyers) = buyers(&names, top, store, out)?;
    // Only what nobody changed meanwhile can be compared.
    let now: Vec<Option<String>> =
        snapshot::snapshots(store, &names)?.into_iter().map(|shard| shard.ledger_last).collect();
    let is_same = found.iter().map(|shard| &shard.ledger_last).eq(&now);
    let counters = users.as_ref().filter(|users| is_same && users.unknown == 0).map(|users| users.units);
    let stock: Option<i64> = found.iter().map(|shard| shard.stock.map(signed)).sum();
    let stock = stock.and_then(|stock| u64::try_from(stock + merged.in_transit()).ok());
    let balance = Balance::new(&sales, meta.epoch, meta.total, stock, counters);
    let series = Series::new(&sales, meta.starts_at);
    let snapshot =
        Snapshot { status: Status::Ok, stock, buyers: found.iter().map(|shard| shard.buyers).sum(), ..whole };
    Ok(Report { snapshot, meta, sales, balance, series, first_entry: Some(preheat.id.at()), users, buyers })
}
