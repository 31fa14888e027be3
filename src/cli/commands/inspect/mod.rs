//! `seckill inspect`: stock and participants, per user if asked.

pub mod detail;
mod history;
mod metrics;
mod request;
pub mod rows;
mod selection;
mod watch;
mod why;

use crate::admin::activities;
use crate::cli::commands::inspect::detail::{ActivityDetail, InvalidRecords};
use crate::cli::commands::inspect::rows::{ActivityRow, BuyerRow, HolderRow};
use crate::cli::commands::inspect::selection::{Selection, SortBy};
use crate::cli::commands::inspect::watch::WatchArgs;
use crate::cli::failure::{Exit, Failure, Result};
use crate::cli::output::{Format, Output, row};
use crate::cli::shared::hints;
use crate::cli::shared::metrics_file::MetricsArgs;
use crate::cli::shared::selection::{ActivitySelector, is_pattern};
use crate::model::number::between;
use crate::model::order::hold::OpenHold;
use crate::model::{ActivityId, EntryId, Millis, RequestId, Snapshot, Status, StoredUser, UserId};
use crate::read::whole::Holdings;
use crate::read::{holds, participants, snapshot, whole};
use crate::store::Store;

/// How many participants are shown unless `--top` says otherwise.
const TOP: usize = 10;

/// The most that `--top` shows, which are held in memory; `--all` streams.
pub(super) const MAX_TOP: u64 = 100_000;

/// The most users that one call of the script takes.
const USERS_IN_A_CALL: usize = 2000;

/// Show stock, buyers and what a user holds
///
/// Without ACTIVITY, everything that was preheated is listed, one row per activity. With ACTIVITY, that row is
/// followed by the users who bought most; csv and tsv have the rows of the activities alone, `-o name` their ids, with
/// --holds the request ids.
///
/// An ACTIVITY with `*`, `?` or `[ab]` is a pattern: all preheated activities whose whole id fits it are listed, with
/// their largest buyers if `--top` says how many. Quote it, or the shell may replace it by names of files. `[*]` means
/// `*` itself.
///
/// An activity that is not there is `not_preheated`, one that cannot be read is `corrupt`: both are shown in `state`
/// (with json, jsonl and yaml in `status` too), the others are shown all the same, and the exit code is 3. What only a
/// preheat knows (total, limit, window) is empty for an activity that another system created.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "
# All preheated activities
seckill inspect
# Metrics for node_exporter's textfile collector
seckill inspect -o prometheus --to /var/lib/prometheus/node-exporter/seckill.prom
# One activity and its 20 largest buyers
seckill inspect 1001 --top 20
# What one user holds and may still buy
seckill inspect 1001 --user 12345
# Why can this user not buy? What did the user do, everywhere?
seckill inspect 1001 --user 12345 --why
seckill inspect --user 12345 --why
# What is held open, by deadline; what is overdue
seckill inspect 1001 --holds
seckill inspect --holds --overdue
# The shards of an activity, a row each
seckill inspect 1001 --shards
# Which order has this request id?
seckill inspect --request order-778
# Every buyer, for a spreadsheet
seckill inspect 1001 --all -o csv
# Those on sale whose id begins with sku-, the fewest units first
seckill inspect 'sku-*' --state live --sort stock
# The sale as it runs: the screen is redrawn, what sells most comes first
seckill inspect --watch --sort rate
# The same for a program: a row per activity and interval
seckill inspect --watch=10s -o jsonl
# For cron: exit 3 if less than a tenth of a total is left
seckill inspect --alert-below 10% -q
# Ids alone, for a script
seckill inspect 'sku-*' --state live -o name
")]
pub struct InspectArgs {
    /// Activities to show, or patterns such as 'sku-*' [default: all preheated]
    #[arg(value_name = "ACTIVITY", group = "named")]
    activities: Vec<ActivityId>,
    /// Show what a user holds and may still buy; repeatable
    ///
    /// With --request: whose order it is, which a sharded activity needs.
    #[arg(long, value_name = "USER", group = "users", conflicts_with_all = ["top", "all"])]
    user: Vec<UserId>,
    /// Show this many of the largest buyers [default: 10]
    #[arg(long, value_name = "N", requires = "named", conflicts_with = "all", allow_hyphen_values = true, value_parser = between::<usize>(0, MAX_TOP))]
    top: Option<usize>,
    /// Show every participant, in no particular order
    #[arg(long)]
    all: bool,
    /// Show each shard of sharded activities
    ///
    /// A row for each, as of an activity, at its own instant. Without this the row of a sharded activity is their sum, and
    /// `in_transit` are units that one shard lent and another has not received yet.
    #[arg(long, conflicts_with_all = ["user", "all", "scan", "why", "request", "holds", "watch"])]
    shards: bool,
    /// Also list activities that another system created
    ///
    /// Searches all keys of the server.
    #[arg(long, conflicts_with = "activities")]
    scan: bool,
    /// Explain why a user cannot buy, or how much more
    ///
    /// With the ledger entries that prove it. Without ACTIVITY, list all that the user did, as rows of the ledger.
    #[arg(long, requires = "users", conflicts_with_all = ["top", "all", "scan", "request", "alert_below", "state", "sort"])]
    why: bool,
    /// Find an order by its request id, or <job>:<line>
    ///
    /// Without ACTIVITY, in all preheated activities. An order of several activities has a row for each.
    #[arg(long, value_name = "ID", conflicts_with_all = ["top", "all", "scan", "alert_below", "state", "sort"])]
    request: Option<RequestId>,
    /// List open holds, by deadline
    ///
    /// Activity by activity, of a sharded one shard by shard. Their units count as bought until they are released or expire.
    #[arg(long, group = "open", conflicts_with_all = ["user", "top", "all", "scan", "why", "request", "alert_below", "state", "sort"])]
    holds: bool,
    /// With --holds: those past their deadline alone
    #[arg(long, requires = "open")]
    overdue: bool,
    #[command(flatten)]
    selection: Selection,
    #[command(flatten)]
    watch: WatchArgs,
    #[command(flatten)]
    metrics: MetricsArgs,
}

/// Shows what the flags ask for: activities, one of them, users, holds, a request, why a user may not buy, or a screen.
pub fn run(args: &InspectArgs, store: &mut Store, out: &mut Output) -> Result<Exit> {
    let of_users = [("--all", args.all), ("--holds", args.holds), ("--user", !args.user.is_empty())];
    let given = of_users.into_iter().find(|(_, is_given)| *is_given);
    if let Some((flag, _)) = given.filter(|_| !store.layout().kind().has_users()) {
        return Err(Failure::usage(format!("`{flag}`: the layout `{}` records no users", store.layout().name()))
            .hint("leave it out to see the stock; `--layout` names another contract of keys"));
    }
    if args.metrics.are_wanted(out.format())? {
        return metrics::run(args, store, out);
    }
    if let Some(every) = args.watch.watch {
        return watch::run(args, every, store, out);
    }
    if args.selection.sort == Some(SortBy::Rate) {
        return Err(Failure::usage("`--sort rate`: one reading has no rate")
            .hint("add `--watch`: `seckill inspect --sort rate --watch`"));
    }
    if args.why {
        return why(args, store, out);
    }
    let activities = chosen(args, store, out)?;
    if let Some(request) = &args.request {
        return request::run(request, &args.user, &activities, store, out);
    }
    if args.holds {
        return held_open(&activities, args.overdue, store, out);
    }
    if activities.is_empty() && out.format() == Format::Table {
        hints::warn_of_replica(store, out);
        Ok(Exit::Done)
    } else if args.all {
        all(&activities, store, out)
    } else if !args.user.is_empty() {
        users(&activities, &args.user, store, out)
    } else {
        list(&activities, args, store, out)
    }
}

/// One user, and one activity or none.
fn why(args: &InspectArgs, store: &mut Store, out: &mut Output) -> Result<Exit> {
    match (&args.user[..], &args.activities[..]) {
        ([user], []) => history::run(user, store, out),
        ([user], [activity]) if !is_pattern(activity) => why::run(activity, user, store, out),
        _ => Err(Failure::usage("`--why` explains one activity to one user")
            .hint("give one ACTIVITY and one `--user`; without ACTIVITY it lists what the user did")),
    }
}

/// The activities that were named, each once, and what fits a pattern; else what was preheated and, if asked, what others
/// created.
fn chosen(args: &InspectArgs, store: &mut Store, out: &Output) -> Result<Vec<ActivityId>> {
    let mut activities = ActivitySelector::new(&args.activities)?.activities(store)?;
    if args.scan {
        activities.extend(activities::foreign(store)?);
    }
    if args.shards {
        let read = snapshot::snapshots(store, &activities)?;
        let without: Vec<String> =
            read.iter().filter(|it| it.parts().len() == 1).map(|it| format!("`{}`", it.activity)).collect();
        if !without.is_empty() && !args.activities.is_empty() {
            out.note(format!("without shards: {}", without.join(", ")));
        }
        activities = read.iter().flat_map(parts_by_number).collect();
    }
    hints::none_preheated(&activities, store, out);
    if activities.is_empty() {
        out.hint("`seckill preheat --id ID --stock N` creates an activity; `--scan` finds what another system created");
    }
    Ok(activities)
}

/// Its shards in the order of their numbers, which is not that of their slots.
fn parts_by_number(snapshot: &Snapshot) -> Vec<ActivityId> {
    let mut parts = snapshot.parts();
    parts.sort_by_key(|part| part.parent().map(|(_, number)| number));
    parts
}

/// Activities in the order that is wanted, each with those who bought most, if they are wanted. The exit code is of all that
/// were read.
fn list(activities: &[ActivityId], args: &InspectArgs, store: &mut Store, out: &mut Output) -> Result<Exit> {
    let is_list = args.activities.is_empty() || args.activities.iter().any(is_pattern);
    let top = args.top.or((!is_list).then_some(TOP));
    // Rows of fixed columns have no room for participants.
    let top = top.filter(|_| !matches!(out.format(), Format::Csv | Format::Tsv | Format::Name));
    let mut details = details(activities, top.unwrap_or(0), store, out)?;
    let mut is_sound = details.iter().all(|detail| detail.activity.is_sound());
    args.selection.apply(&mut details, |detail| &detail.activity, |_| None);
    let mut warnings = out.warnings();
    is_sound &= !args.selection.mark(details.iter_mut().map(|detail| &mut detail.activity), &mut warnings);
    warnings.end();
    if args.selection.alert_below.is_some() && !out.notes {
        details.retain(|detail| detail.activity.alert == Some(true) || !detail.activity.is_sound());
    }
    match (out.format(), top) {
        (Format::Table, Some(_)) => tables(details, out)?,
        (_, Some(_)) => out.array(&details)?,
        // With `-q` there may be nothing to print, which a table would say in words.
        (Format::Table, None) if details.is_empty() => {}
        (_, None) => {
            if args.selection.alert_below.is_some() {
                out.choose(&["alert"]);
            }
            let rows: Vec<ActivityRow> = details.into_iter().map(|detail| detail.activity).collect();
            out.array(&rows)?;
        }
    }
    Ok(Exit::done_if(is_sound))
}

/// Reads each activity, and warns of what is wrong with any of them.
fn details(activities: &[ActivityId], top: usize, store: &mut Store, out: &Output) -> Result<Vec<ActivityDetail>> {
    let snapshots = snapshots(activities, store, out)?;
    let mut warnings = out.warnings();
    let details = snapshots.iter().map(|snapshot| detail::read(store, &mut warnings, snapshot, top)).collect();
    warnings.end();
    hints::other_layouts(missing(&snapshots), store, out);
    details
}

/// The activities as they are now, with a warning if that is how they were.
fn snapshots(activities: &[ActivityId], store: &mut Store, out: &Output) -> Result<Vec<Snapshot>> {
    let snapshots = whole::wholes(store, activities)?;
    hints::warn_of_replica(store, out);
    hints::order_sets(without_buyers(&snapshots), store, out);
    Ok(snapshots)
}

/// Those that another layout may have.
fn missing(snapshots: &[Snapshot]) -> impl Iterator<Item = &ActivityId> {
    let missing =
        snapshots.iter().filter(|snapshot| snapshot.status == Status::NotPreheated && snapshot.meta.is_none());
    missing.map(|snapshot| &snapshot.activity)
}

/// Those whose units may be with users whom this layout does not see.
fn without_buyers(snapshots: &[Snapshot]) -> impl Iterator<Item = &ActivityId> {
    let is_whole = |snapshot: &Snapshot| snapshot.meta.as_ref().is_some_and(|meta| snapshot.stock == Some(meta.total));
    let unclear = snapshots
        .iter()
        .filter(move |snapshot| snapshot.buyers.is_none_or(|buyers| buyers == 0) && !is_whole(snapshot));
    unclear.map(|snapshot| &snapshot.activity)
}

/// The stock table, then one table of participants for each activity that has any.
pub fn tables(details: Vec<ActivityDetail>, out: &mut Output) -> Result<()> {
    let (activities, participants): (Vec<ActivityRow>, Vec<_>) =
        details.into_iter().map(|detail| (detail.activity, (detail.participants, detail.more))).unzip();
    if activities.iter().any(|row| row.alert.is_some()) {
        out.choose(&["alert"]);
    }
    out.table(None, &activities)?;
    for (activity, (participants, more)) in activities.iter().zip(participants) {
        if participants.is_empty() {
            continue;
        }
        out.table(Some(&format!("Participants of {}", activity.name())), &participants)?;
        if more > 0 {
            out.note(format!("{more} more of {}: `--top N` shows more, `--all` everybody", activity.name()));
        }
    }
    Ok(())
}

fn users(activities: &[ActivityId], users: &[UserId], store: &mut Store, out: &mut Output) -> Result<Exit> {
    let mut warnings = out.warnings();
    let mut snapshots = Vec::with_capacity(activities.len());
    let mut rows = Vec::new();
    for activity in activities {
        let mut worst: Option<Snapshot> = None;
        for (chunk, users) in users.chunks(USERS_IN_A_CALL).enumerate() {
            let Holdings { snapshot, held, open } = whole::holdings(store, activity, users)?;
            let snapshot = snapshot.for_purchases();
            if chunk == 0 || snapshot.status == Status::Corrupt {
                detail::warn(&mut warnings, &snapshot);
                detail::note_archived(&mut warnings, &snapshot);
            }
            for (at, user) in users.iter().enumerate() {
                let open = open.get(at).copied().unwrap_or_default();
                rows.push(HolderRow::new(&snapshot, user.as_str(), held.get(at).copied().flatten(), open));
            }
            if worst.as_ref().is_none_or(|worst| worst.status.is_done()) {
                worst = Some(snapshot);
            }
        }
        snapshots.extend(worst);
    }
    warnings.end();
    hints::warn_of_replica(store, out);
    hints::other_layouts(missing(&snapshots), store, out);
    hints::order_sets(without_buyers(&snapshots), store, out);
    out.array(&rows)?;
    Ok(Exit::done_if(snapshots.iter().all(|snapshot| snapshot.status.is_done())))
}

/// Every participant, page by page.
fn all(activities: &[ActivityId], store: &mut Store, out: &mut Output) -> Result<Exit> {
    let snapshots = snapshots(activities, store, out)?;
    let mut warnings = out.warnings();
    for snapshot in &snapshots {
        detail::warn(&mut warnings, snapshot);
        detail::note_archived(&mut warnings, snapshot);
    }
    hints::other_layouts(missing(&snapshots), store, out);
    let mut sound = snapshots.iter().all(|snapshot| snapshot.status.is_done());
    let parts: Vec<ActivityId> = snapshots.iter().flat_map(Snapshot::parts).collect();
    let seen = snapshot::snapshots(store, &parts)?;
    let mut stream = out.stream::<BuyerRow<'_>>()?;
    for snapshot in snapshots.iter().filter(|snapshot| snapshot.status != Status::Corrupt) {
        let mut invalid = InvalidRecords::default();
        for part in snapshot.parts() {
            participants::each(store, &part, |user, units| {
                let bought = units.map_err(|text| invalid.add(user, &text)).ok();
                stream.push(&BuyerRow::new(snapshot.activity.as_str(), user, bought))?;
                Ok::<_, Failure>(())
            })?;
        }
        sound &= invalid.is_empty();
        invalid.warn(&mut warnings, &snapshot.activity);
    }
    stream.finish()?;
    // A trim removes no users.
    let has_gaps = hints::warn_of_missing_rows(&seen, EntryId::LAST, store, &mut warnings)?;
    warnings.end();
    Ok(if has_gaps { Exit::Failed } else { Exit::done_if(sound) })
}

row! {
    /// One open hold.
    struct HoldRow<'a> as row from (snapshot: &'a Snapshot, hold: OpenHold) {
        activity: &'a str = snapshot.activity.as_str(), flexible;
        request: String = hold.request, flexible;
        user: StoredUser = hold.record.user, flexible;
        quantity: u64 = hold.record.quantity;
        deadline: Millis = hold.record.deadline;
        nested user_hex: Option<String> = user_hex;
    }
    where { let user_hex = hold.record.user.user_hex(); }
    named request
}

/// Streams a row for each.
fn held_open(activities: &[ActivityId], overdue: bool, store: &mut Store, out: &mut Output) -> Result<Exit> {
    let snapshots = snapshots(activities, store, out)?;
    let mut warnings = out.warnings();
    snapshots.iter().for_each(|snapshot| detail::warn(&mut warnings, snapshot));
    warnings.end();
    hints::other_layouts(missing(&snapshots), store, out);
    let mut is_sound = snapshots.iter().all(|snapshot| snapshot.status.is_done());
    let terminal = out.terminal();
    let mut rows = out.stream::<HoldRow<'_>>()?;
    let has_holds = |snapshot: &&Snapshot| snapshot.meta.as_ref().is_some_and(|meta| meta.holds > 0);
    for snapshot in &snapshots {
        let parts = match snapshot.parts() {
            // One corrupt shard leaves the activity without a sum, not the others without their holds.
            parts if parts.len() > 1 && snapshot.corrupt.is_some() => snapshot::snapshots(store, &parts)?,
            _ => vec![snapshot.clone()],
        };
        for part in parts.iter().filter(has_holds).flat_map(Snapshot::parts) {
            match holds::open_holds(store, &part, overdue, |hold| rows.push(&HoldRow::new(snapshot, hold))) {
                Err(failure) if failure.store().is_some_and(|error| error.is_wrong_type()) => {
                    let key = store.keys(&part).deadlines.unwrap_or_default();
                    terminal
                        .warn(format!("`{part}` is corrupt: key `{key}` is of the wrong type: expected a sorted set"));
                    is_sound = false;
                }
                listed => listed?,
            }
        }
    }
    rows.finish()?;
    Ok(Exit::done_if(is_sound))
}
