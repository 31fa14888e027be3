//! Everything that is known of a sale; the shards of a sharded activity are one sale.

use anyhow::Context;

use crate::cli::commands::inspect::detail::TopBuyers;
use crate::cli::commands::report::series::Series;
use crate::cli::failure::{Exit, Failure, Result};
use crate::cli::output::Output;
use crate::cli::shared::hints;
use crate::cli::shared::selection::{each_merged, refuse};
use crate::model::activity::ShardSums;
use crate::model::number::signed;
use crate::model::{ActivityId, Entry, EntryId, Meta, Millis, Shards, Snapshot, State, Status, StoredState};
use crate::read::whole::wholes;
use crate::read::{ledger, participants, snapshot};
use crate::report::merged::MergedLedgers;
use crate::report::units_a_user::UnitsAUser;
use crate::report::{Balance, Objection, Sales};
use crate::store::Store;

/// A sale, read.
pub(super) struct Report {
    pub snapshot: Snapshot,
    pub meta: Meta,
    pub sales: Sales,
    pub balance: Balance,
    pub series: Option<Series>,
    /// The first entry that was read.
    pub first_entry: Option<Millis>,
    /// What users hold; `None` if the layout records none.
    pub users: Option<UnitsAUser>,
    /// The largest buyers.
    pub buyers: TopBuyers,
}

/// How often a sale is read, if a trim, reset or archive changes it meanwhile.
const READINGS: usize = 3;

/// Reads all of an activity: if it is sharded, all of its shards.
pub(super) fn read(mut found: Snapshot, top: usize, store: &mut Store, out: &Output) -> Result<Report> {
    hints::warn_of_replica(store, out);
    let activity = found.activity.clone();
    for _ in 0..READINGS {
        let read = match found.meta.as_ref().and_then(|meta| meta.shards.clone()) {
            Some(shards) => of_shards(found, &shards, top, store, out)?,
            None => of_one(found, top, store, out)?,
        };
        match read {
            Some(report) => return Ok(report),
            None => found = snapshot::snapshot(store, &activity)?,
        }
    }
    let why = format!("`{activity}` was trimmed, reset or archived each of {READINGS} times that it was read");
    Err(Failure::failed(why).hint("the same command reads it again"))
}

/// Reads an activity that is not sharded; `None` if entries were removed meanwhile.
fn of_one(snapshot: Snapshot, top: usize, store: &mut Store, out: &Output) -> Result<Option<Report>> {
    let (meta, last) = with_ledger(&snapshot, store, out)?;
    let checkpoint = meta.checkpoint.as_ref();
    let mut sales = Sales::new(checkpoint);
    let mut first_entry = None;
    store.throttle.set_live(snapshot.state() == State::Live);
    let after = checkpoint.map_or(EntryId::ZERO, |checkpoint| checkpoint.upto);
    let progress = out.progress("reading the ledger", 0);
    ledger::each_entry(store, &snapshot.activity, after, last, |entry| {
        first_entry.get_or_insert(entry.id.at());
        sales.add(entry);
        progress.inc(1);
        true
    })?;
    progress.finish();
    let read = participants(std::slice::from_ref(&snapshot), top, store, out)?;
    let Some(Participants { users, buyers, counters }) = read else { return Ok(None) };
    let balance = Balance::new(&sales, meta.epoch, meta.total, snapshot.stock, counters);
    if balance.objection == Some(Objection::NoBeginning)
        && let Some(stock) = snapshot.stock
    {
        sales.set_sold(signed(meta.total) - signed(stock));
    }
    let series = Series::new(&sales, meta.starts_at);
    let snapshot = snapshot.for_purchases();
    Ok(Some(Report { snapshot, meta, sales, balance, series, first_entry, users, buyers }))
}

/// What the activity was preheated with, and the last entry of its ledger.
///
/// # Errors
/// It has none.
fn with_ledger(snapshot: &Snapshot, store: &mut Store, out: &Output) -> Result<(Meta, EntryId)> {
    let activity = &snapshot.activity;
    let refused = |why: String| Failure::new(Exit::Refused, why);
    if let Some(corrupt) = hints::corrupt(snapshot) {
        return Err(refused(corrupt).hint("`seckill doctor` and `seckill reconcile` say what is left"));
    }
    match (&snapshot.meta, snapshot.ledger_last) {
        // What there is of one may be what an unfinished restore wrote.
        (Some(meta), _) if meta.stored_state == StoredState::Archived => {
            Err(refused(format!("`{activity}` is archived: its ledger is in the files of the archive"))
                .hint("`seckill preheat --restore DIR` brings it back"))
        }
        (Some(meta), Some(last)) => Ok((meta.clone(), last)),
        (Some(meta), None) if meta.is_adopting => {
            Err(refused(format!("an adoption of `{activity}` is unfinished, so it has no whole ledger yet"))
                .hint(format!("{} resumes the adoption", hints::preheat(activity, "--adopt"))))
        }
        (Some(meta), None) if meta.ledger => Err(refused(format!("the ledger of `{activity}` is gone")).hint(format!(
            "`seckill inspect {activity:#}` shows stock and buyers; `seckill doctor` looks for what else is gone"
        ))),
        (Some(_), None) => {
            Err(refused(format!("`{activity}` has no ledger, and a report is made from it")).hint(format!(
                "it was preheated with `ledger: false`; `seckill inspect {activity:#}` shows stock and buyers, \
                 `seckill reconcile {activity:#} --orders FILE` audits them"
            )))
        }
        (None, _) if snapshot.status == Status::NotPreheated => {
            hints::other_layouts([activity], store, out);
            Err(refused(format!("`{activity}` is not_preheated: it has no ledger")))
        }
        (None, _) => Err(refused(format!("`{activity}` has no ledger: another system created it"))
            .hint(format!("`seckill inspect {activity:#}` shows stock and buyers"))),
    }
}

/// What users hold, the largest buyers, and the sum of all if nobody changed anything meanwhile: else it cannot be compared.
#[derive(Default)]
struct Participants {
    users: Option<UnitsAUser>,
    buyers: TopBuyers,
    counters: Option<u64>,
}

/// All participants of some activities in one pass, in constant memory. `seen` are those activities before; `None` if entries or users
/// were removed since then.
fn participants(seen: &[Snapshot], top: usize, store: &mut Store, out: &Output) -> Result<Option<Participants>> {
    let mut users = UnitsAUser::default();
    let mut buyers = TopBuyers::new(top);
    let mut warnings = out.warnings();
    let activities: Vec<ActivityId> = seen.iter().map(|snapshot| snapshot.activity.clone()).collect();
    for activity in &activities {
        participants::each(store, activity, |user, units| {
            if let Ok(bought) = &units {
                users.count(bought.units());
            }
            buyers.count(user, units);
            Ok::<_, Failure>(())
        })?;
        std::mem::take(&mut buyers.invalid).warn(&mut warnings, activity);
    }
    warnings.end();
    let now = snapshot::snapshots(store, &activities)?;
    if seen.iter().zip(&now).any(|(before, now)| snapshot::may_lack_rows(before, now, EntryId::ZERO)) {
        return Ok(None);
    }
    if !store.layout().kind().has_users() {
        return Ok(Some(Participants::default()));
    }
    let is_same = seen.iter().map(|it| &it.ledger_last).eq(now.iter().map(|it| &it.ledger_last));
    let counters = (is_same && users.unknown == 0).then_some(users.units);
    Ok(Some(Participants { users: Some(users), buyers, counters }))
}

impl Report {
    /// When units could be bought first, if that is known to be before the first order.
    pub(super) fn opened_at(&self) -> Option<Millis> {
        self.meta.starts_at.filter(|start| self.sales.first_order.is_some_and(|first| *start <= first))
    }

    /// When a time is counted from: the window's begin, else the first order.
    pub(super) fn begin(&self) -> Option<Millis> {
        self.opened_at().or(self.sales.first_order)
    }

    /// When the ledger begins, if orders before that are not known one by one.
    pub(super) fn since(&self) -> Option<Millis> {
        let is_part = self.meta.checkpoint.is_some() || self.balance.objection == Some(Objection::NoBeginning);
        self.first_entry.filter(|_| is_part)
    }
}

/// Reads all shards. `whole` is the activity itself, which has neither stock nor ledger. `None` if entries were removed meanwhile.
fn of_shards(whole: Snapshot, shards: &Shards, top: usize, store: &mut Store, out: &Output) -> Result<Option<Report>> {
    let mut meta: Meta = whole.meta.clone().context("the meta that has its shards")?;
    let names: Vec<ActivityId> = shards.ids(&whole.activity).collect();
    let (mut found, mut last) = (Vec::new(), Vec::new());
    for name in &names {
        let shard = snapshot::snapshot(store, name)?;
        last.push(with_ledger(&shard, store, out)?.1);
        meta.holds += shard.meta.as_ref().map_or(0, |meta| meta.holds);
        found.push(shard);
    }
    let partly = || {
        refuse(&whole.activity, shards, "a report of ledgers that were trimmed, or whose beginning is gone,", "report")
    };
    let is_trimmed = |shard: &Snapshot| shard.meta.as_ref().is_some_and(|meta| meta.checkpoint.is_some());
    if found.iter().any(is_trimmed) {
        return Err(partly());
    }
    let mut ledgers: Vec<(ActivityId, EntryId)> = names.iter().map(|name| (name.clone(), EntryId::ZERO)).collect();
    let mut first: Vec<Entry> = Vec::new();
    for (name, after) in &mut ledgers {
        let entry = ledger::entries_behind(store, name, EntryId::ZERO)?.into_iter().next().ok_or_else(partly)?;
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
    // An update that was cut, or is being made.
    merged.take_update().iter().for_each(|entry| sales.add(entry));
    progress.finish();
    let read = participants(&found, top, store, out)?;
    let Some(Participants { users, buyers, counters }) = read else { return Ok(None) };
    let stock: Option<i64> = found.iter().map(|shard| shard.stock.map(signed)).sum();
    // What no shard lent is for sale, and not on its way back.
    let now = wholes(store, std::slice::from_ref(&whole.activity))?;
    let unlent = now.iter().filter_map(|whole| whole.sums.as_ref()?.in_transit).find(|units| *units < 0);
    let moving = merged.in_transit - unlent.unwrap_or_default();
    let stock = stock.and_then(|stock| u64::try_from(stock + moving).ok());
    let status = if found.iter().all(|shard| shard.status.is_done()) { Status::Ok } else { Status::Corrupt };
    let total = found.iter().filter_map(|shard| shard.meta.as_ref()).map(|meta| meta.total).sum();
    let sums = Some(ShardSums { total, in_transit: Some(merged.in_transit) });
    let balance = Balance::new(&sales, meta.epoch, meta.total, stock, counters);
    let series = Series::new(&sales, meta.starts_at);
    let buyers_now = found.iter().map(|shard| shard.buyers).sum();
    let lost_users = found.iter().find_map(|shard| shard.lost_users.clone());
    let snapshot = Snapshot { status, stock, buyers: buyers_now, sums, lost_users, ..whole }.for_purchases();
    let first_entry = Some(preheat.id.at());
    Ok(Some(Report { snapshot, meta, sales, balance, series, first_entry, users, buyers }))
}
