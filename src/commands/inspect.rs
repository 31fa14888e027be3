//! `seckill inspect`: stock and participants, per user if asked.

pub mod look;
pub mod rows;

use std::collections::HashSet;

use anyhow::Result;

use crate::inventory::failure::{Exit, Failure};
use crate::inventory::id::{ActivityId, UserId};
use crate::inventory::number::Units;
use crate::inventory::status::Status;
use crate::output::{Format, Output};
use crate::store::Store;
use look::{Odd, Sight, look, tell};
use rows::{ActivityRow, BuyerRow, HolderRow};

/// How many participants are shown unless `--top` says otherwise.
const TOP: usize = 10;

/// The most users that one call of the script takes.
const USERS_IN_A_CALL: usize = 2000;

/// Show stock, buyers and what a user holds
///
/// Without ACTIVITY, everything that was preheated is listed, one row an activity. With ACTIVITY, that row is
/// followed by the users who bought most; csv and tsv have the rows of the activities alone.
///
/// An activity that is not there is `not_preheated`, one that cannot be read is `corrupt`: both stand in `state`
/// (with json, jsonl and yaml in `status` too), the others are shown all the same, and the exit code is 3. What only a
/// preheat knows (total, limit, window) is empty for an activity that another system created.
#[derive(Debug, clap::Args)]
pub struct InspectArgs {
    /// Activities to show [default: all preheated]
    #[arg(value_name = "ACTIVITY")]
    activities: Vec<ActivityId>,
    /// Show what this user holds and may still buy; repeatable
    #[arg(long, value_name = "USER", conflicts_with_all = ["top", "all"])]
    user: Vec<UserId>,
    /// Show this many of the largest buyers [default: 10]
    #[arg(long, value_name = "N", requires = "activities", conflicts_with = "all", allow_hyphen_values = true)]
    top: Option<Units>,
    /// Show every participant, in no particular order
    #[arg(long)]
    all: bool,
    /// Also list activities that another system created
    ///
    /// Searches all keys of the server.
    #[arg(long, conflicts_with = "activities")]
    scan: bool,
}

/// Shows one of the four forms.
pub fn run(args: &InspectArgs, store: &mut Store, out: &mut Output) -> Result<Exit> {
    if !store.layout().kind().has_users() && (args.all || !args.user.is_empty()) {
        let flag = if args.all { "--all" } else { "--user" };
        return Err(Failure::usage(format!("`{flag}`: the layout `{}` records no users", store.layout().name()))
            .hint("leave it out to see the stock; `--layout` names another contract of keys")
            .into());
    }
    let activities = chosen(args, store, out)?;
    if activities.is_empty() && out.format() == Format::Table {
        Ok(Exit::Done)
    } else if args.all {
        all(&activities, store, out)
    } else if !args.user.is_empty() {
        users(&activities, &args.user, store, out)
    } else if args.activities.is_empty() {
        list(&activities, store, out)
    } else {
        let top = args.top.map_or(TOP, |top| usize::try_from(top.get()).unwrap_or(usize::MAX));
        detail(&activities, top, store, out)
    }
}

/// The activities that were named, each once; else what was preheated and, if asked, what others created.
fn chosen(args: &InspectArgs, store: &mut Store, out: &Output) -> Result<Vec<ActivityId>> {
    if !args.activities.is_empty() {
        let mut seen = HashSet::new();
        return Ok(args.activities.iter().filter(|activity| seen.insert(*activity)).cloned().collect());
    }
    let mut activities = store.preheated()?;
    if args.scan {
        activities.extend(store.foreign()?);
    }
    if activities.is_empty() {
        out.note(format!("nothing was preheated in the layout `{}`", store.layout().name()));
        out.hint("`seckill preheat` creates an activity; `--scan` finds what another system created");
    }
    Ok(activities)
}

/// One row an activity.
fn list(activities: &[ActivityId], store: &mut Store, out: &mut Output) -> Result<Exit> {
    let mut rows = Vec::with_capacity(activities.len());
    for snapshot in store.snapshots(activities)? {
        rows.push(look(store, out, &snapshot, 0)?.activity);
    }
    let exit = exit(rows.iter().all(ActivityRow::is_sound));
    print_activities(rows, out)?;
    Ok(exit)
}

/// Activities, each with those who bought most: one object for one activity, an array for several.
fn detail(activities: &[ActivityId], top: usize, store: &mut Store, out: &mut Output) -> Result<Exit> {
    // Rows of fixed columns have no place for participants, so nobody need look for them.
    let top = if matches!(out.format(), Format::Csv | Format::Tsv) { 0 } else { top };
    let mut sights = Vec::with_capacity(activities.len());
    for snapshot in store.snapshots(activities)? {
        sights.push(look(store, out, &snapshot, top)?);
    }
    let exit = exit(sights.iter().all(|sight| sight.activity.is_sound()));
    match (out.format(), sights.as_slice()) {
        (Format::Table, _) => tables(sights, out)?,
        (Format::Csv | Format::Tsv, _) => {
            print_activities(sights.into_iter().map(|sight| sight.activity).collect(), out)?
        }
        (Format::Jsonl, _) => sights.iter().try_for_each(|sight| out.document(sight))?,
        (_, [one]) => out.document(one)?,
        _ => out.document(&sights)?,
    }
    Ok(exit)
}

/// The stock table, then one table of participants for each activity that has any.
pub fn tables(sights: Vec<Sight>, out: &mut Output) -> Result<()> {
    let (activities, participants): (Vec<ActivityRow>, Vec<_>) =
        sights.into_iter().map(|sight| (sight.activity, (sight.participants, sight.more))).unzip();
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

/// What some users hold.
fn users(activities: &[ActivityId], users: &[UserId], store: &mut Store, out: &mut Output) -> Result<Exit> {
    let is_flat = !out.format().is_nested();
    let mut sound = true;
    let mut rows = Vec::new();
    for activity in activities {
        for (place, users) in users.chunks(USERS_IN_A_CALL).enumerate() {
            let (snapshot, held) = store.bought(activity, users)?;
            if place == 0 || snapshot.status == Status::Corrupt {
                tell(out, &snapshot);
            }
            sound &= snapshot.status.is_done();
            for (place, user) in users.iter().enumerate() {
                let row = HolderRow::new(&snapshot, user.as_str(), held.get(place).copied().flatten());
                rows.push(if is_flat { row.flat() } else { row });
            }
        }
    }
    out.array(&rows)?;
    Ok(exit(sound))
}

/// Every participant, page by page.
fn all(activities: &[ActivityId], store: &mut Store, out: &mut Output) -> Result<Exit> {
    let terminal = out.terminal();
    let snapshots = store.snapshots(activities)?;
    snapshots.iter().for_each(|snapshot| tell(out, snapshot));
    let mut sound = snapshots.iter().all(|snapshot| snapshot.status.is_done());
    let mut stream = out.stream()?;
    let mut row = BuyerRow { activity: String::new(), user: String::new(), bought: None };
    for snapshot in snapshots.iter().filter(|snapshot| snapshot.status != Status::Corrupt) {
        row.activity = snapshot.activity.to_string();
        let mut odd = Odd::default();
        store.participants(&snapshot.activity, |user, units| {
            row.user.clear();
            row.user.push_str(&String::from_utf8_lossy(user));
            row.bought = units.map_err(|text| odd.add(user, &text)).ok();
            stream.push(&row)
        })?;
        sound &= odd.is_empty();
        odd.tell(terminal, &snapshot.activity);
    }
    stream.finish()?;
    Ok(exit(sound))
}

/// Rows of activities, in the form the user asked for.
fn print_activities(rows: Vec<ActivityRow>, out: &mut Output) -> Result<()> {
    if out.format().is_nested() {
        return out.array(&rows);
    }
    let rows: Vec<ActivityRow> = rows.into_iter().map(ActivityRow::flat).collect();
    out.array(&rows)
}

/// 0 where every activity is there and can be read, else 3.
fn exit(sound: bool) -> Exit {
    if sound { Exit::Done } else { Exit::Refused }
}
