//! Ledgers: changes that they do not explain, and groups that do not read them.

use std::ops::RangeInclusive;
use std::time::Duration;

use crate::cli::commands::doctor::fix::Fixes;
use crate::cli::commands::doctor::row::{Check, CheckRow, Finding};
use crate::cli::commands::doctor::sale::whole_activities;
use crate::cli::error::Result;
use crate::cli::output::text::{counted, duration};
use crate::error::StoreError;
use crate::model::activity::Snapshot;
use crate::model::id::ActivityId;
use crate::model::ledger::{Entry, EntryId, unexplained_changes};
use crate::read::ledger::{self, Feed};
use crate::store::Store;

/// Entries that are looked at from a ledger's end, of one and of all: what happened lately. `reconcile` looks at all.
const LATELY: RangeInclusive<usize> = 100..=1000;
const ENTRIES: usize = 20_000;

/// Activities whose stock moved without an entry.
pub(super) fn foreign_writes(snapshots: &[Snapshot], store: &mut Store, fixes: &Fixes) -> Result<Vec<CheckRow>> {
    let with_ledger: Vec<(&Snapshot, (ActivityId, EntryId))> = snapshots
        .iter()
        .filter(|snapshot| snapshot.meta.as_ref().is_some_and(|meta| meta.ledger) && !snapshot.is_archived())
        // A parent has none.
        .filter(|snapshot| snapshot.sums.is_none())
        .filter_map(|snapshot| {
            let last = snapshot.ledger_last.as_ref()?.parse().ok()?;
            Some((snapshot, (snapshot.activity.clone(), last)))
        })
        .collect();
    let ends: Vec<(ActivityId, EntryId)> = with_ledger.iter().map(|(_, end)| end.clone()).collect();
    let most = (ENTRIES / ends.len().max(1)).clamp(*LATELY.start(), *LATELY.end());
    let entries = match ledger::ledger_ends(store, &ends, most) {
        Ok(entries) => entries,
        Err(StoreError::Permission { .. }) => {
            let skip = Finding::skip("this user may not run XREVRANGE");
            return Ok(vec![skip.row(Check::ForeignWrites, store.layout().name())]);
        }
        Err(error) => return Err(error.into()),
    };
    let mut rows = Vec::new();
    for ((snapshot, _), entries) in with_ledger.iter().zip(&entries) {
        let unexplained = unexplained(snapshot.stock, entries);
        if unexplained.is_empty() {
            continue;
        }
        let units: i64 = unexplained.iter().sum();
        let found = format!(
            "{} of stock without an entry, {units:+} units in total, within {}",
            counted(unexplained.len(), "change"),
            looked_at(std::slice::from_ref(entries), most),
        );
        let fix = fixes.seckill("reconcile", &snapshot.activity, "");
        rows.push(Finding::fail(found, fix).row(Check::ForeignWrites, snapshot.activity.as_str()));
    }
    if rows.is_empty() {
        rows.push(match whole_activities(ends.iter().map(|(activity, _)| activity)) {
            0 => Finding::skip("no activity has a ledger").row(Check::ForeignWrites, store.layout().name()),
            count => Finding::ok(format!("{}: {}", counted(count, "activity"), looked_at(&entries, most)))
                .row(Check::ForeignWrites, store.layout().name()),
        });
    }
    Ok(rows)
}

/// By how much the stock moved between two entries, and since the last one. The newest comes first.
fn unexplained(stock: Option<u64>, entries: &[Entry]) -> Vec<i64> {
    let number = |stock: Option<u64>| i64::try_from(stock?).ok();
    let last = entries.first().and_then(|last| number(Entry::count(last.stock.as_deref())));
    let since_last = number(stock).zip(last).map(|(now, last)| now - last).filter(|units| *units != 0);
    since_last.into_iter().chain(unexplained_changes(entries)).collect()
}

/// Entries that were looked at: `1 entry`, `all 3 entries`, or `the last 1000 entries of each, since` the time from which on all is
/// known.
fn looked_at(entries: &[Vec<Entry>], most: usize) -> String {
    let cut = entries.iter().filter(|entries| entries.len() >= most).filter_map(|entries| entries.last());
    match cut.map(|first| first.id.at()).max() {
        None => match entries.iter().map(Vec::len).sum::<usize>() {
            1 => counted(1_usize, "entry"),
            several => format!("all {}", counted(several, "entry")),
        },
        Some(since) if entries.len() == 1 => format!("the last {}, since {since}", counted(most, "entry")),
        Some(since) => format!("the last {} of each, since {since}", counted(most, "entry")),
    }
}

/// From here on a group is late, and stopped.
const LATE: Duration = Duration::from_secs(60);
const STOPPED: Duration = Duration::from_secs(600);

/// Groups that do not keep up.
pub(super) fn feeds(activities: &[ActivityId], store: &mut Store, fixes: &Fixes) -> Result<Vec<CheckRow>> {
    let layout = store.layout().name();
    let feeds = match ledger::feeds(store, activities) {
        Ok(feeds) => feeds,
        Err(StoreError::Permission { .. }) => {
            let skip = Finding::skip("this user may not run XINFO GROUPS, XPENDING or XRANGE");
            return Ok(vec![skip.row(Check::Feeds, layout)]);
        }
        Err(error) => return Err(error.into()),
    };
    let now = store.now()?;
    let mut rows = Vec::new();
    for feed in &feeds {
        let waiting = feed.waiting_since.map(|since| Duration::from_millis(now.get().saturating_sub(since.get())));
        let Some(waiting) = waiting.filter(|waiting| *waiting >= LATE) else { continue };
        let found = format!("group `{}`: {}, the oldest for {}", feed.stats.name, backlog(feed), duration(waiting));
        let fix = fixes.command(&["XINFO", "CONSUMERS", &feed.key, &feed.stats.name]);
        let finding = if waiting >= STOPPED { Finding::fail(found, fix) } else { Finding::warn(found, fix) };
        rows.push(finding.row(Check::Feeds, feed.activity.as_str()));
    }
    if rows.is_empty() {
        let finding = match feeds.len() {
            0 => Finding::skip("no consumer group reads a ledger"),
            count => Finding::ok(format!("{} up to date", counted(count, "group"))),
        };
        rows.push(finding.row(Check::Feeds, layout));
    }
    Ok(rows)
}

/// What a group has not read or not acknowledged.
fn backlog(feed: &Feed) -> String {
    let unread = match feed.stats.lag {
        Some(0) => None,
        Some(lag) => Some(format!("{lag} unread")),
        None if feed.stats.pending == 0 => Some("unread entries".to_owned()),
        None => None,
    };
    let pending = (feed.stats.pending > 0).then(|| format!("{} not acknowledged", feed.stats.pending));
    let parts: Vec<String> = unread.into_iter().chain(pending).collect();
    parts.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(op: &str, stock: &str, quantity: &str) -> Entry {
        let mut entry = Entry::new(EntryId::ZERO);
        (entry.op, entry.stock) = (op.into(), Some(stock.into()));
        if !quantity.is_empty() {
            (entry.users, entry.quantity) = (Some(br#"["a"]"#.to_vec()), Some(quantity.into()));
        }
        entry
    }

    #[test]
    fn only_what_no_entry_explains_is_foreign() {
        let entries =
            [entry("refund", "8", "1"), entry("deduct", "7", "2"), entry("pause", "9", ""), entry("preheat", "10", "")];
        assert_eq!(unexplained(Some(8), &entries[..2]), [0; 0]);
        // Somebody took one between preheat and pause, and one since.
        assert_eq!(unexplained(Some(7), &entries), [-1, -1]);
        // An update says itself what the stock is.
        assert_eq!(unexplained(Some(20), &[entry("update", "20", ""), entry("deduct", "7", "2")]), [0; 0]);
        assert_eq!(unexplained(None, &entries[..2]), [0; 0]);
    }
}
