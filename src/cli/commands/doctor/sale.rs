//! The keys of a sale: missing, corrupt, about to expire.

use std::collections::{HashMap, HashSet};

use crate::cli::commands::doctor::fix::Fixes;
use crate::cli::commands::doctor::row::{Check, CheckRow, Finding};
use crate::cli::error::Result;
use crate::cli::output::text::{counted, duration};
use crate::error::StoreError;
use crate::model::activity::shard_plan::ShardPlan;
use crate::model::activity::{Snapshot, State};
use crate::model::id::ActivityId;
use crate::model::status::Status;
use crate::read::health::{Info, Reading};
use crate::read::index::{self, KeyLifetime, Ttl};
use crate::store::Store;

/// Activities that lack something or cannot be read.
pub(super) fn keys(snapshots: &[Snapshot], store: &Store, fixes: &Fixes) -> Vec<CheckRow> {
    let mut rows = Vec::new();
    for snapshot in snapshots {
        if let Some(finding) = fault(snapshot, store, fixes) {
            rows.push(finding.row(Check::Keys, snapshot.activity.as_str()));
        }
    }
    if rows.is_empty() {
        let count = whole_activities(snapshots.iter().map(|snapshot| &snapshot.activity));
        rows.push(sound(count, Check::Keys, store));
    }
    rows
}

/// How many activities there are if a shard counts as its activity.
pub(super) fn whole_activities<'a>(activities: impl IntoIterator<Item = &'a ActivityId>) -> usize {
    let names =
        activities.into_iter().map(|activity| activity.parent().map_or_else(|| activity.clone(), |(parent, _)| parent));
    names.collect::<HashSet<_>>().len()
}

/// The row of a check that found nothing wrong in any activity.
fn sound(count: usize, check: Check, store: &Store) -> CheckRow {
    let finding = match count {
        0 => Finding::skip("nothing was preheated in this layout"),
        _ => Finding::ok(counted(count, "activity")),
    };
    finding.row(check, store.layout().name())
}

fn fault(snapshot: &Snapshot, store: &Store, fixes: &Fixes) -> Option<Finding> {
    let activity = &snapshot.activity;
    let restore = || fixes.seckill("reconcile", &store.layout().whole(activity), "--fix");
    if let Some(corrupt) = &snapshot.corrupt {
        let found = format!("`{}` {}", corrupt.key, corrupt.what);
        // Nothing is there that could be moved out of the way.
        let fix = if corrupt.what.contains("--adopt") {
            fixes.seckill("preheat --id", activity, "--adopt")
        } else if corrupt.what.starts_with("holds nothing") {
            restore()
        } else if corrupt.key == store.keys(activity).meta {
            fixes.after_renaming(&corrupt.key, &fixes.seckill("preheat --id", activity, "--adopt"))
        } else {
            fixes.after_renaming(&corrupt.key, &restore())
        };
        return Some(Finding::fail(found, fix));
    }
    if let Some(plan) = snapshot.meta.as_ref().and_then(|meta| meta.plan.as_ref()) {
        let look = fixes.seckill("inspect", activity, "");
        return Some(match plan {
            ShardPlan::Start { .. } => Finding::fail(
                "the preheat of its shards is unfinished: nobody can buy; give the same `preheat` again",
                look,
            ),
            ShardPlan::Update { .. } => {
                Finding::warn("an update of its shards is unfinished: give the same `preheat --update` again", look)
            }
        });
    }
    if let Some(units @ ..=-1) = snapshot.sums.as_ref().and_then(|sums| sums.in_transit) {
        let found = format!("its shards have {} more than its total", counted(units.unsigned_abs(), "unit"));
        return Some(Finding::fail(found, fixes.seckill("reconcile", activity, "")));
    }
    match (snapshot.status, &snapshot.meta) {
        (Status::NotPreheated, None) => {
            return Some(Finding::fail(
                "no such activity here: it was never preheated, or all its keys are gone",
                fixes.seckill("preheat --id", activity, "--stock N"),
            ));
        }
        (Status::NotPreheated, Some(_)) => {
            return Some(Finding::fail("its stock key is gone (evicted? expired?): nobody can buy", restore()));
        }
        _ => {}
    }
    if snapshot.is_archived() {
        return None;
    }
    let (Some(meta), Some(stock)) = (&snapshot.meta, snapshot.stock) else { return None };
    let sold = snapshot.sums.as_ref().map_or(meta.total, |sums| sums.total).saturating_sub(stock);
    if sold > 0 && snapshot.buyers == Some(0) {
        let found = format!("sold: {}, but nobody is recorded: limits start over", counted(sold, "unit"));
        return Some(Finding::fail(found, restore()));
    }
    None
}

/// Activities whose window is over.
pub(super) fn windows(snapshots: &[Snapshot], store: &Store, fixes: &Fixes) -> CheckRow {
    let end_of = |snapshot: &&Snapshot| snapshot.meta.as_ref().and_then(|meta| meta.ends_at);
    let over: Vec<&Snapshot> = snapshots.iter().filter(|snapshot| snapshot.state() == State::Ended).collect();
    // The one that ended last is most likely to be missed.
    let Some((last, end)) = over.iter().filter_map(|it| Some((it, end_of(it)?))).max_by_key(|(_, end)| *end) else {
        return sound(snapshots.len(), Check::Window, store);
    };
    let (verb, all) = (if over.len() == 1 { "is" } else { "are" }, counted(snapshots.len(), "activity"));
    let found = format!("{} of {all} {verb} over: `{}` since {end}", over.len(), last.activity);
    Finding::warn(found, fixes.seckill("inspect", &last.activity, "")).row(Check::Window, store.layout().name())
}

/// Fields with a time to live: the server says how many there are, but not in which key.
pub(super) fn expiring_fields(reading: &Reading, fixes: &Fixes) -> Option<Finding> {
    let count = reading.info.as_ref().map_or(0, Info::keys_with_expiring_fields);
    let found = || {
        let keys = counted(usize::try_from(count).unwrap_or(usize::MAX), "key");
        format!("{keys} with fields that expire; whose, the server does not say")
    };
    (count > 0).then(|| Finding::warn(found(), fixes.command(&["INFO", "keyspace"])))
}

/// Keys that vanish by themselves.
pub(super) fn expiry(
    activities: &[ActivityId],
    snapshots: &[Snapshot],
    store: &mut Store,
    fixes: &Fixes,
) -> Result<Vec<CheckRow>> {
    let lifetimes = match index::lifetimes(store, activities) {
        Ok(lifetimes) => lifetimes,
        Err(StoreError::Permission { .. }) => {
            let skip = Finding::skip("this user may not run PTTL").row(Check::Expiry, store.layout().name());
            return Ok(vec![skip]);
        }
        Err(error) => return Err(error.into()),
    };
    let states: HashMap<&ActivityId, State> = snapshots.iter().map(|it| (&it.activity, it.state())).collect();
    let mut rows = Vec::new();
    for KeyLifetime { activity, key, ttl } in &lifetimes {
        let Ttl::For(left) = ttl else { continue };
        let found = format!("`{key}` is removed in {}", duration(*left));
        let fix = fixes.command(&["PERSIST", key]);
        let is_over = activity
            .as_ref()
            .is_some_and(|activity| matches!(states.get(activity), Some(State::Ended | State::Archived)));
        // Of a sale that is over, somebody may mean it.
        let finding = if is_over { Finding::warn(found, fix) } else { Finding::fail(found, fix) };
        let target = activity.as_ref().map_or("index", ActivityId::as_str);
        rows.push(finding.row(Check::Expiry, target));
    }
    if rows.is_empty() {
        rows.push(sound(whole_activities(activities), Check::Expiry, store));
    }
    Ok(rows)
}
