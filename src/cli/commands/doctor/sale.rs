//! What is wrong with a sale: keys that are missing, corrupt or about to expire, changes that its ledger does not explain, and groups that
//! do not read it.

use std::collections::{HashMap, HashSet};
use std::ops::RangeInclusive;
use std::time::Duration;

use crate::cli::commands::doctor::row::Finding;
use crate::cli::failure::{Result, permitted};
use crate::cli::output::{counted, duration};
use crate::cli::shared::fix::{Fixes, PreheatFlags, SECKILL};
use crate::model::ledger::unexplained_changes;
use crate::model::{
    ActivityId, Corrupt, Entry, EntryId, Kind, Layout, ShardPlan, Snapshot, State, Status, StoredState,
};
use crate::read::health::{Info, Reading};
use crate::read::index::{self, VanishingKey};
use crate::read::ledger::ConsumerGroup;
use crate::read::{ledger, snapshot};
use crate::store::Store;

/// What is wrong by one check, each with its target, and what is found in the layout as a whole if nothing is.
pub(super) type Troubles = (Vec<(String, Finding)>, Finding);

/// Of a check that needs a command which nobody lets us run.
fn not_permitted(command: &str) -> Troubles {
    (Vec::new(), Finding::skip(format!("this user may not run {command}, or the server lacks it")))
}

/// Preheated activities that have lost their own key, and have shards.
pub(super) fn orphaned(
    snapshots: &[Snapshot],
    preheated: &HashSet<ActivityId>,
    store: &mut Store,
) -> Result<HashSet<ActivityId>> {
    let layout = store.layout();
    let gone = snapshots.iter().filter(|it| is_gone(it) && preheated.contains(&it.activity));
    // Every sharded activity has shard 0.
    let first = gone.map(|it| it.activity.shard(0)).filter(|shard| layout.whole(shard) != *shard);
    let first = snapshot::snapshots(store, &first.collect::<Vec<_>>())?;
    Ok(first
        .into_iter()
        .filter(|shard| shard.meta.is_some() && !shard.is_archived())
        .map(|shard| shard.activity.whole())
        .collect())
}

fn is_gone(snapshot: &Snapshot) -> bool {
    snapshot.status == Status::NotPreheated && snapshot.meta.is_none()
}

/// Activities that lack something or cannot be read. Those of the index were preheated.
pub(super) fn keys(
    snapshots: &[Snapshot],
    preheated: &HashSet<ActivityId>,
    orphaned: &HashSet<ActivityId>,
    store: &mut Store,
    fixes: &Fixes,
) -> Troubles {
    let layout = store.layout();
    let whole = |snapshot: &Snapshot| layout.whole(&snapshot.activity);
    let without_meta = |snapshot: &Snapshot| {
        let found =
            "its meta is gone (evicted? expired?), and with it limit, window and pause; an adoption begins a ledger";
        let fix = || fixes.seckill("preheat --id", &snapshot.activity, "--adopt");
        (preheated.contains(&snapshot.activity) && snapshot.meta.is_none()).then(|| Finding::fail(found, fix()))
    };
    let is_lost = |snapshot: &&Snapshot| {
        let (keys, whole) = (store.keys(&snapshot.activity), whole(snapshot));
        // Nothing takes over a shard.
        let needs_reset = |corrupt: &Corrupt| {
            whole != snapshot.activity
                && (corrupt.key == keys.meta && !is_of_later_version(corrupt) || corrupt.key == keys.ledger)
        };
        // The index names it, or its parent does.
        let is_known =
            || preheated.contains(&snapshot.activity) || snapshots.iter().any(|it| names_shard(it, snapshot));
        is_gone(snapshot) && is_known() || snapshot.corrupt.as_ref().is_some_and(needs_reset)
    };
    let lost: HashSet<ActivityId> = snapshots.iter().filter(is_lost).map(whole).collect();
    let without_parent = |snapshot: &Snapshot| {
        let found =
            "its own key is gone, and its shards are there: give shards, total, limit, title and window as they were";
        let fix = || fixes.seckill("preheat --id", &snapshot.activity, "--stock N --shards N");
        orphaned.contains(&snapshot.activity).then(|| Finding::fail(found, fix()))
    };
    let fault = |snapshot: &Snapshot| {
        let is_lost = lost.contains(&whole(snapshot));
        let found = without_parent(snapshot)
            .or_else(|| fault_of(snapshot, is_lost.then_some(snapshots), store, fixes))
            .or_else(|| without_meta(snapshot))?;
        Some((snapshot.activity.to_string(), found))
    };
    let count = whole_activities(snapshots.iter().map(|snapshot| &snapshot.activity));
    (snapshots.iter().filter_map(fault).collect(), sound(count))
}

/// How many activities there are if a shard counts as its activity.
fn whole_activities<'a>(activities: impl IntoIterator<Item = &'a ActivityId>) -> usize {
    activities.into_iter().map(ActivityId::whole).collect::<HashSet<_>>().len()
}

/// Of a check that found nothing wrong in any activity.
fn sound(count: usize) -> Finding {
    match count {
        0 => Finding::skip("nothing was preheated in this layout"),
        _ => Finding::ok(counted(count, "activity")),
    }
}

fn names_shard(parent: &Snapshot, shard: &Snapshot) -> bool {
    parent.activity != shard.activity && parent.parts().contains(&shard.activity)
}

/// Whether a later version wrote the key: nothing is broken.
fn is_of_later_version(corrupt: &Corrupt) -> bool {
    corrupt.what.ends_with(": use that one")
}

/// What is wrong with an activity; if it is lost, order records are all that restores it, and `lost_in` are all that were read.
fn fault_of(snapshot: &Snapshot, lost_in: Option<&[Snapshot]>, store: &mut Store, fixes: &Fixes) -> Option<Finding> {
    let activity = &snapshot.activity;
    let keys = store.keys(activity);
    let has_ledger = match &snapshot.meta {
        Some(meta) => meta.ledger,
        // A corrupt snapshot has no meta; who may not ask is not to stop a script in vain.
        None => snapshot.corrupt.is_some() && index::type_of(store, &keys.ledger).is_none_or(|found| found == "stream"),
    };
    let corrupt_users = snapshot.corrupt.as_ref().filter(|corrupt| keys.participants.as_ref() == Some(&corrupt.key));
    let other_type = if store.layout().kind().records_once() { "hash" } else { "set" };
    let type_of_users = corrupt_users.and_then(|corrupt| index::type_of(store, &corrupt.key));
    let whole = store.layout().whole(activity);
    let (is_parent, is_shard) = (snapshot.parts().len() > 1, whole != *activity);
    let restore = || match lost_in {
        Some(all) => start_over(&whole, is_parent || is_shard, all, store, fixes),
        // Neither counters alone nor a ledger without users proves how many units are left.
        None if store.layout().kind() == Kind::Counter || !has_ledger => {
            fixes.seckill("reconcile", &whole, "--orders FILE --fix")
        }
        None => fixes.seckill("reconcile", &whole, "--fix"),
    };
    let stop = match corrupt_users.is_some() && !has_ledger {
        true => "; stop the backend's script first: while this key is gone, limits start over",
        false => "",
    };
    if let Some(Corrupt { key, what }) = corrupt_users
        && Layout::named(store.layout().name()).is_none()
        && type_of_users.as_deref() == Some(other_type)
    {
        let restore = restore();
        let found = format!(
            "`{key}` {what}; it is a {other_type}: is that kind right? If it is, rename the key, then `{restore}`{stop}"
        );
        return Some(Finding::fail(found, fixes.command(&["TYPE", key])));
    }
    let is_lost = lost_in.is_some();
    if let Some(corrupt) = &snapshot.corrupt {
        let found = format!("`{}` {}{stop}", corrupt.key, corrupt.what);
        // A key of a shard has a row of its own.
        let fix = if is_of_later_version(corrupt) {
            format!("{SECKILL}version")
        } else if is_parent || is_lost {
            restore()
        } else if corrupt.what.contains("--adopt") {
            fixes.seckill("preheat --id", activity, "--adopt")
        } else if corrupt.what.starts_with("holds nothing") {
            // Nothing is there that could be moved out of the way.
            restore()
        } else if corrupt.what.contains("units were sold past it") {
            format!("{} && {}", fixes.administer(&["SET", &corrupt.key, "0"]), restore())
        } else if [keys.meta, keys.ledger].contains(&corrupt.key) {
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
    if snapshot.status == Status::NotPreheated {
        let has_lost_ledger = snapshot.ledger_last.is_none() && !is_parent && !is_shard;
        return Some(match &snapshot.meta {
            Some(meta) if meta.ledger && has_lost_ledger => match snapshot.buyers {
                Some(1..) => Finding::fail(
                    "its stock key and its ledger are gone: nobody can buy",
                    fixes.seckill("preheat --id", activity, "--adopt"),
                ),
                _ => Finding::fail(
                    "its stock key, its ledger and its users are gone, or its preheat was cut: without its orders it sells everything again",
                    start_over(&whole, false, std::slice::from_ref(snapshot), store, fixes),
                ),
            },
            Some(_) => Finding::fail("its stock key is gone (evicted? expired?): nobody can buy", restore()),
            None if is_lost => Finding::fail(
                "it was preheated, and its stock and meta are gone: without its orders a new preheat sells everything again",
                restore(),
            ),
            None => Finding::fail(
                "no such activity here: it was never preheated, or all is gone: then give `--starts-at +1h`, and record its orders first (`reconcile --orders FILE --fix`)",
                match is_shard {
                    true => fixes.seckill("doctor", &whole, ""),
                    false => fixes.seckill("preheat --id", activity, "--stock N"),
                },
            ),
        });
    }
    if snapshot.is_archived() {
        return None;
    }
    let (Some(meta), Some(stock)) = (&snapshot.meta, snapshot.stock) else { return None };
    let missing = snapshot.sums.as_ref().map_or(meta.total, |sums| sums.total).saturating_sub(stock);
    if missing > 0 && snapshot.buyers == Some(0) {
        let found = format!("missing: {}, and nobody is recorded: a call was cut", counted(missing, "unit"));
        return Some(Finding::fail(found, restore()));
    }
    None
}

/// Makes a sale anew and records its orders before anybody buys, then sets its window: by what its own key says, if a shard alone is lost.
fn start_over(whole: &ActivityId, is_sharded: bool, all: &[Snapshot], store: &Store, fixes: &Fixes) -> String {
    let known = all.iter().find(|it| it.activity == *whole).and_then(|it| it.meta.as_ref());
    let known = known.filter(|meta| meta.shards.is_some() || !is_sharded);
    let any_time = || " --starts-at none".to_owned();
    let (sale, window) = match known {
        Some(meta) => {
            let shards = meta.shards.as_ref().map(|shards| format!(" --shards {}", shards.count())).unwrap_or_default();
            let PreheatFlags { rules, starts, ends } = PreheatFlags::of(meta, store.layout().kind());
            let window = starts.unwrap_or_else(any_time) + &ends.unwrap_or_default();
            (format!("--stock {}{shards}{rules}", meta.total), window)
        }
        None => (format!("--stock N{}", if is_sharded { " --shards N" } else { "" }), any_time()),
    };
    let pause =
        known.filter(|meta| meta.stored_state == StoredState::Paused).map(|_| fixes.seckill("pause", whole, ""));
    let begins = [
        fixes.seckill("preheat --id", whole, &format!("{sale} --reset --starts-at +1h")),
        fixes.seckill("reconcile", whole, "--orders FILE --fix"),
    ];
    let sells = fixes.seckill("preheat --id", whole, &format!("--update{window}"));
    begins.into_iter().chain(pause).chain([sells]).collect::<Vec<_>>().join(" && ")
}

/// Activities whose window is over.
pub(super) fn windows(snapshots: &[Snapshot], fixes: &Fixes) -> Finding {
    let end_of = |snapshot: &&Snapshot| snapshot.meta.as_ref().and_then(|meta| meta.ends_at);
    let over: Vec<&Snapshot> = snapshots.iter().filter(|snapshot| snapshot.state() == State::Ended).collect();
    // The one that ended last is most likely to be missed.
    let Some((last, end)) = over.iter().filter_map(|it| Some((it, end_of(it)?))).max_by_key(|(_, end)| *end) else {
        return sound(snapshots.len());
    };
    let (verb, all) = (if over.len() == 1 { "is" } else { "are" }, counted(snapshots.len(), "activity"));
    let found = format!("{} of {all} {verb} over: `{}` since {end}", over.len(), last.activity);
    Finding::warn(found, fixes.seckill("inspect", &last.activity, ""))
}

/// Fields with a time to live: the server says how many there are, but not in which key.
pub(super) fn expiring_fields(reading: &Reading, fixes: &Fixes) -> Option<Finding> {
    let count = reading.info.as_ref().map_or(0, Info::keys_with_expiring_fields);
    let found = || format!("{} with fields that expire; whose, the server does not say", counted(count, "key"));
    (count > 0).then(|| Finding::warn(found(), fixes.command(&["INFO", "keyspace"])))
}

/// Keys that vanish by themselves.
pub(super) fn expiry(
    activities: &[ActivityId],
    snapshots: &[Snapshot],
    store: &mut Store,
    fixes: &Fixes,
) -> Result<Troubles> {
    let Some(vanishing) = permitted(index::vanishing_keys(store, activities))? else {
        return Ok(not_permitted("PTTL"));
    };
    let states: HashMap<&ActivityId, State> = snapshots.iter().map(|it| (&it.activity, it.state())).collect();
    let mut troubles = Vec::new();
    for VanishingKey { activity, key, left } in &vanishing {
        let found = format!("`{key}` is removed in {}", duration(*left));
        let fix = fixes.command(&["PERSIST", key]);
        let is_over = activity
            .as_ref()
            .is_some_and(|activity| matches!(states.get(activity), Some(State::Ended | State::Archived)));
        // After a sale an expiry may be intended.
        let finding = if is_over { Finding::warn(found, fix) } else { Finding::fail(found, fix) };
        let target = activity.as_ref().map_or("index", ActivityId::as_str);
        troubles.push((target.to_owned(), finding));
    }
    Ok((troubles, sound(whole_activities(activities))))
}

/// Entries that are looked at from a ledger's end, of one and of all: what happened lately. `reconcile` looks at all.
const LATELY: RangeInclusive<usize> = 100..=1000;
const ENTRIES: usize = 20_000;

/// Activities whose stock moved without an entry.
pub(super) fn foreign_writes(snapshots: &[Snapshot], store: &mut Store, fixes: &Fixes) -> Result<Troubles> {
    let (with_ledger, ends): (Vec<&Snapshot>, Vec<(ActivityId, EntryId)>) = snapshots
        .iter()
        .filter(|snapshot| snapshot.meta.as_ref().is_some_and(|meta| meta.ledger) && !snapshot.is_archived())
        // A parent has none.
        .filter(|snapshot| snapshot.sums.is_none())
        .filter_map(|snapshot| Some((snapshot, (snapshot.activity.clone(), snapshot.ledger_last?))))
        .unzip();
    let most = (ENTRIES / ends.len().max(1)).clamp(*LATELY.start(), *LATELY.end());
    let Some(entries) = permitted(ledger::ledger_ends(store, &ends, most))? else {
        return Ok(not_permitted("XREVRANGE"));
    };
    let mut troubles = Vec::new();
    for (snapshot, entries) in with_ledger.iter().zip(&entries) {
        let unexplained = unexplained(snapshot.stock, entries);
        if unexplained.is_empty() {
            continue;
        }
        let units = unexplained.iter().copied().fold(0, i64::saturating_add);
        let found = format!(
            "{} of stock without an entry, {units:+} units in total, within {}",
            counted(unexplained.len(), "change"),
            looked_at(std::slice::from_ref(entries), most),
        );
        let fix = fixes.seckill("reconcile", &snapshot.activity, "");
        troubles.push((snapshot.activity.to_string(), Finding::fail(found, fix)));
    }
    let sound = match whole_activities(ends.iter().map(|(activity, _)| activity)) {
        0 => Finding::skip("no activity has a ledger"),
        count => Finding::ok(format!("{}: {}", counted(count, "activity"), looked_at(&entries, most))),
    };
    Ok((troubles, sound))
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
pub(super) fn feeds(activities: &[ActivityId], store: &mut Store, fixes: &Fixes) -> Result<Troubles> {
    let Some(groups) = permitted(ledger::consumer_groups(store, activities))? else {
        return Ok(not_permitted("XINFO GROUPS, XPENDING or XRANGE"));
    };
    let now = store.now()?;
    let mut troubles = Vec::new();
    for group in &groups {
        let waiting = group.waiting_since.map(|since| Duration::from_millis(now.get().saturating_sub(since.get())));
        let Some(waiting) = waiting.filter(|waiting| *waiting >= LATE) else { continue };
        let found = format!("group `{}`: {}, the oldest for {}", group.stats.name, backlog(group), duration(waiting));
        let fix = fixes.command(&["XINFO", "CONSUMERS", &group.key, &group.stats.name]);
        let finding = if waiting >= STOPPED { Finding::fail(found, fix) } else { Finding::warn(found, fix) };
        troubles.push((group.activity.to_string(), finding));
    }
    let sound = match groups.len() {
        0 => Finding::skip("no consumer group reads a ledger"),
        count => Finding::ok(format!("{} up to date", counted(count, "group"))),
    };
    Ok((troubles, sound))
}

/// What a group has not read or not acknowledged.
fn backlog(group: &ConsumerGroup) -> String {
    let unread = match group.stats.lag {
        Some(0) => None,
        Some(lag) => Some(format!("{lag} unread")),
        None if group.stats.pending == 0 => Some("unread entries".to_owned()),
        None => None,
    };
    let pending = (group.stats.pending > 0).then(|| format!("{} not acknowledged", group.stats.pending));
    let parts: Vec<String> = unread.into_iter().chain(pending).collect();
    parts.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(op: &str, stock: &str, orders: &str) -> Entry {
        Entry { stock: Some(stock.into()), ..Entry::of_orders("0-0", op, orders) }
    }

    #[test]
    fn only_what_no_entry_explains_is_foreign() {
        let entries = [
            entry("refund", "8", "a 1"),
            entry("deduct", "7", "a 2"),
            entry("pause", "9", ""),
            entry("preheat", "10", ""),
        ];
        assert_eq!(unexplained(Some(8), &entries[..2]), [0; 0]);
        // Somebody took one between preheat and pause, and one since.
        assert_eq!(unexplained(Some(7), &entries), [-1, -1]);
        // An update says itself what the stock is.
        assert_eq!(unexplained(Some(20), &[entry("update", "20", ""), entry("deduct", "7", "a 2")]), [0; 0]);
        assert_eq!(unexplained(None, &entries[..2]), [0; 0]);
        // What was before a repair is settled, if it gave the stock back or recorded who took it; a count of holds says nothing of it.
        let repaired = |change: &str, users: Option<&str>| {
            let (users, units) = (users.map(Into::into), || Some("2".into()));
            let repair = Entry { users, from: units(), to: units(), ..entry("repair", "6", "") };
            let repair = Entry { stock_change: Some(change.into()), ..repair };
            let entries = [&[entry("deduct", "5", "a 1"), repair], &entries[..]].concat();
            (unexplained(Some(5), &entries), unexplained(Some(5), &entries[1..]))
        };
        assert_eq!(repaired("1", None), (vec![], vec![-1]));
        assert_eq!(repaired("0", Some("b")), (vec![], vec![-1]));
        assert_eq!(repaired("0", None), (vec![-2, -1], vec![-1, -2, -1]));
    }
}
