//! What helps to read an answer: another layout that has the activity, its window, a server that may lag behind.

use std::collections::HashMap;

use crate::cli::failure::{Exit, Failure, Result};
use crate::cli::output::{Output, Warnings, counted, named};
use crate::model::{ActivityId, Corrupt, EntryId, Layout, Snapshot, Status, StoredState, option};
use crate::read::{index, snapshot};
use crate::script::keys::Keys;
use crate::store::Store;

/// The most activities that are looked for in other layouts.
pub const MAX_ACTIVITIES: usize = 100;

/// Names the layouts in which activities exist that are `not_preheated` in this one.
pub fn other_layouts<'a>(missing: impl IntoIterator<Item = &'a ActivityId>, store: &mut Store, out: &Output) {
    let missing: Vec<&ActivityId> = missing.into_iter().take(MAX_ACTIVITIES).collect();
    if missing.is_empty() {
        return;
    }
    let mut of_layout: HashMap<Layout, Vec<&ActivityId>> = HashMap::new();
    for (activity, layouts) in missing.iter().zip(index::layouts_with(store, &missing)) {
        // One with a meta is of this layout.
        let seen = if layouts.is_empty() { None } else { snapshot::snapshot(store, activity).ok() };
        if let Some(meta) = seen.and_then(|seen| seen.meta) {
            if meta.plan.is_none() && meta.stored_state != StoredState::Archived {
                out.hint(format!("the stock key of `{activity}` is gone: `seckill reconcile {activity:#} --fix` restores it, or says what can be done"));
            }
            continue;
        }
        for layout in layouts {
            of_layout.entry(layout).or_default().push(activity);
        }
    }
    for layout in Layout::NAMED {
        let Some(activities) = of_layout.get(&layout) else { continue };
        let (first, others) = (activities[0], activities.len() - 1);
        let which = match others {
            0 => format!("`{first}` exists"),
            1 => format!("`{first}` and `{}` exist", activities[1]),
            _ => format!("`{first}` and {others} more exist"),
        };
        out.hint(format!("{which} in the layout `{name}`: add `--layout {name}`", name = layout.name()));
    }
}

/// Warns of activities whose buyers a backend after the tutorial hm-dianping keeps in a set, which the layout `seckill` does not
/// read.
pub fn order_sets<'a>(activities: impl IntoIterator<Item = &'a ActivityId>, store: &mut Store, out: &Output) {
    let activities: Vec<&ActivityId> = activities.into_iter().take(MAX_ACTIVITIES).collect();
    if activities.is_empty() {
        return;
    }
    let users = index::users_in_order_sets(store, &activities);
    let mut found = activities.iter().zip(users).filter(|(_, users)| *users > 0);
    let Some((activity, users)) = found.next() else { return };
    let more = match found.count() {
        0 => String::new(),
        more => format!(", and {more} more {} such a set", if more == 1 { "has" } else { "have" }),
    };
    let (key, users) = (index::order_set(activity), counted(users, "user"));
    out.warn(format!(
        "set `{key}` has {users}{more}: a backend keeps its buyers there, where this layout does not look"
    ));
    out.hint("a layout with that set is `hm-dianping.yaml`, in docs/layouts.md");
}

/// The `preheat` of one activity with these flags, as a message names it.
pub fn preheat(activity: &ActivityId, flags: &str) -> String {
    format!("`seckill preheat {} {flags}`", option("--id", activity))
}

/// Which key of an activity is corrupt, and what it holds; `None` if it is not corrupt.
pub fn corrupt(snapshot: &Snapshot) -> Option<String> {
    let Corrupt { key, what } = snapshot.corrupt.as_ref()?;
    Some(format!("`{}` is corrupt: key `{key}` {what}", snapshot.activity))
}

/// The error for a sharded activity that something cannot be done to, with its shards; `None` if it has none.
pub fn sharded(snapshot: &Snapshot, what: &str) -> Option<Failure> {
    let meta = snapshot.meta.as_ref()?;
    let activity = &snapshot.activity;
    if meta.shards.is_none() {
        let failure = Failure::usage(format!("the preheat of the shards of `{activity}` is unfinished: {what}"));
        return meta.plan.as_ref().map(|_| failure.hint(format!("`seckill inspect {activity:#}` shows it")));
    }
    let failure = Failure::usage(format!("the units of `{activity}` are in shards: {what}"));
    Some(failure.hint(format!("its shards are {}", named(&snapshot.parts(), usize::MAX))))
}

/// Warns of activities that lost entries or users since they were `seen`: call it once all rows were read. Entries up to `after` are not
/// wanted. Returns whether there are any.
///
/// # Errors
/// Any of `StoreError`.
pub fn warn_of_missing_rows(
    seen: &[Snapshot],
    after: EntryId,
    store: &mut Store,
    warnings: &mut Warnings,
) -> Result<bool> {
    let activities: Vec<ActivityId> = seen.iter().map(|before| before.activity.clone()).collect();
    let now = snapshot::snapshots(store, &activities)?;
    let mut is_any = false;
    for (before, _) in seen.iter().zip(&now).filter(|(before, now)| snapshot::may_lack_rows(before, now, after)) {
        is_any = true;
        warnings.warn(format!(
            "rows of `{}` may be missing: it was trimmed, reset, archived or damaged while it was read",
            before.activity
        ));
    }
    Ok(is_any)
}

/// Says that there is nothing to do, if nothing was preheated.
pub fn none_preheated(activities: &[ActivityId], store: &Store, out: &Output) {
    if activities.is_empty() {
        out.note(format!("nothing was preheated in the layout `{}`", store.layout().name()));
    }
}

/// The error of what must not pass over anything, if the index names no activity: it was lost, or the layout is another one.
pub fn nothing_to(verb: &str, store: &mut Store) -> Failure {
    let others: Vec<String> = index::other_layouts(store)
        .into_iter()
        .map(|(layout, count)| format!("`--layout {}` has {count}", layout.name()))
        .collect();
    let search = "`seckill inspect --scan` searches for activities that the index does not name";
    let hint = if others.is_empty() { search.to_owned() } else { format!("{}; {search}", others.join(", ")) };
    let (layout, index) = (store.layout().name(), Keys::index(store.layout));
    Failure::new(Exit::Refused, format!("nothing to {verb}: the index `{index}` of layout `{layout}` is empty"))
        .hint(hint)
}

/// Warns if the server is a replica. For commands that only read; call it after their first answer, so that a server
/// that does not answer fails the command first.
pub fn warn_of_replica(store: &mut Store, out: &Output) {
    if index::is_replica(store) {
        out.warn(format!("`{}` is a replica: what it shows may be older than its primary", store.server_name()));
    }
}

/// The same for a dry run: a replica refuses what it says would be done.
pub fn warn_of_dry_replica(dry_run: bool, store: &mut Store, out: &Output) {
    if dry_run {
        warn_of_replica(store, out);
    }
}

/// Says what to do about an order if a repair took back items of it.
pub fn explain_reversed(statuses: &[Status], out: &Output) {
    match [Status::Reversed, Status::Replayed].map(|status| statuses.contains(&status)) {
        [true, false] => out.note("a repair took it back; order anew with a new id"),
        [true, true] => out.note(
            "a repair took back what is `reversed`, and what is `replayed` stays bought: order only the others anew, with a new id",
        ),
        _ => {}
    }
}

/// Says when the window of an activity opens or closed, that it is archived, or that it has no meta, if that refused an
/// order. A server that does not let us ask is not worth an error.
pub fn window(activity: &ActivityId, status: Status, store: &mut Store, out: &Output) {
    if !matches!(status, Status::NotStarted | Status::Ended | Status::NotPreheated) {
        return;
    }
    let snapshots = snapshot::snapshots(store, std::slice::from_ref(activity)).unwrap_or_default();
    let Some(snapshot) = snapshots.first() else { return };
    let shards: Vec<ActivityId> = snapshot.parts().into_iter().filter(|part| part != activity).collect();
    let shards = snapshot::snapshots(store, &shards).unwrap_or_default();
    if snapshot.is_archived() || shards.iter().any(Snapshot::is_archived) {
        out.note(format!("`{activity}` is archived: `seckill preheat --restore DIR` brings it back"));
        return;
    }
    let Some(meta) = &snapshot.meta else {
        if snapshot.stock.is_some() {
            out.hint(format!(
                "`{activity}` has no meta, so nothing says when a hold ends: {} takes it over, and begins a ledger",
                preheat(activity, "--adopt")
            ));
        }
        return;
    };
    match (status, meta.starts_at, meta.ends_at) {
        (Status::NotStarted, Some(start), _) => out.note(format!("`{activity}` starts at {start}")),
        (Status::Ended, _, Some(end)) => out.note(format!("`{activity}` ended at {end}")),
        _ => {}
    }
}
