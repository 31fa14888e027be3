//! `inspect -o prometheus`: the sale and its servers as metrics. Never a user; what is not known is left out.

mod families;
mod ledgers;
mod servers;

use crate::cli::commands::inspect::alert;
use crate::cli::commands::inspect::detail;
use crate::cli::commands::inspect::rows::ActivityRow;
use crate::cli::commands::inspect::{InspectArgs, chosen, exit, snapshots};
use crate::cli::error::Result;
use crate::cli::failure::{Exit, Failure};
use crate::cli::output::Output;
use crate::cli::output::prometheus::{Exposition, Family};
use crate::model::activity::{Snapshot, State};
use crate::model::status::Status;
use crate::model::time::Millis;
use crate::store::Store;
use families as f;

/// Reads everything once, and prints it.
pub fn run(args: &InspectArgs, store: &mut Store, out: &mut Output) -> Result<Exit> {
    if args.all || !args.user.is_empty() || args.top.is_some() || args.request.is_some() {
        return Err(Failure::usage("`-o prometheus` has no users: each would be a series of its own")
            .hint("leave `--user`, `--all`, `--top` and `--request` out; `-o jsonl` has users")
            .into());
    }
    if args.watch.interval().is_some() {
        return Err(Failure::usage("`-o prometheus` is one reading, and `--watch` many")
            .hint("leave `--watch` out: a timer runs the command again, see docs/monitoring.md")
            .into());
    }
    args.metrics.write("inspect", store, out, |store, out, metrics| {
        let activities = chosen(args, store, out)?;
        let snapshots = snapshots(&activities, store, out)?;
        let mut warnings = out.warnings();
        let mut all = Vec::with_capacity(snapshots.len());
        for snapshot in snapshots {
            all.push((detail::read(store, &mut warnings, &snapshot, 0)?.activity, snapshot));
        }
        let mut is_sound = all.iter().all(|(row, _)| row.is_sound());
        args.selection.apply(&mut all, |(row, _)| row, |_| None);
        if let Some(below) = args.alert_below {
            let mut rows: Vec<&mut ActivityRow> = all.iter_mut().map(|(row, _)| row).collect();
            is_sound &= !alert::mark(&mut rows, below, &mut warnings);
        }
        warnings.end();
        sale(&all, metrics);
        let shown: Vec<&Snapshot> = all.iter().map(|(_, snapshot)| snapshot).collect();
        ledgers::metrics(&shown, store, metrics)?;
        servers::metrics(store, metrics)?;
        Ok(exit(is_sound))
    })
}

/// A family with at most one sample an activity.
fn each<V: std::fmt::Display>(
    all: &[(ActivityRow, Snapshot)],
    family: Family,
    metrics: &mut Exposition,
    value: impl Fn(&ActivityRow, &Snapshot) -> Option<V>,
) {
    let mut samples = metrics.family(family);
    for (row, snapshot) in all {
        samples.add(&[("activity", row.name())], value(row, snapshot));
    }
}

fn sale(all: &[(ActivityRow, Snapshot)], metrics: &mut Exposition) {
    let mut states = metrics.family(f::STATE);
    for (row, _) in all {
        // One sample a state, so that a sum counts activities.
        let wrong = [Status::NotPreheated, Status::Corrupt].map(Status::name);
        for state in State::ALL.iter().map(|state| state.name()).chain(wrong) {
            states.add(&[("activity", row.name()), ("state", state)], Some(u8::from(row.state == state)));
        }
    }
    each(all, f::TOTAL, metrics, |row, _| row.total);
    each(all, f::STOCK, metrics, |row, _| row.stock);
    each(all, f::IN_TRANSIT, metrics, |row, _| row.in_transit);
    each(all, f::SOLD, metrics, |row, _| row.sold);
    each(all, f::WITHDRAWN, metrics, |_, snapshot| snapshot.meta.as_ref().map(|meta| meta.withdrawn.unwrap_or(0)));
    each(all, f::BUYERS, metrics, |row, _| row.buyers);
    each(all, f::LIMIT, metrics, |row, _| row.per_user_limit);
    each(all, f::STARTS, metrics, |row, _| row.starts_at.map(seconds));
    each(all, f::ENDS, metrics, |row, _| row.ends_at.map(seconds));
}

/// Unix time in seconds.
fn seconds(at: Millis) -> String {
    match at.get() % 1000 {
        0 => (at.get() / 1000).to_string(),
        millis => format!("{}.{millis:03}", at.get() / 1000),
    }
}
