//! `seckill expire`: return the units of overdue holds.

use std::time::{Duration, Instant};

use crate::cli::args::Mutating;
use crate::cli::commands::hold::records_users;
use crate::cli::error::{Error, Result};
use crate::cli::failure::Exit;
use crate::cli::interrupt;
use crate::cli::output::row;
use crate::cli::output::{Output, Warnings};
use crate::cli::shared::hints;
use crate::cli::shared::selection;
use crate::cli::shared::session::changing;
use crate::error::StoreError;
use crate::model::id::ActivityId;
use crate::model::order::hold::{LeftHold, Step};
use crate::model::status::Status;
use crate::store::Store;

/// Ids of holds that are left which a warning names.
const MAX_NAMED: usize = 3;

/// Return the units of holds that nobody confirmed in time
///
/// 500 holds a call, with one ledger entry. A payment that comes later can still be confirmed, if its units are not sold by then.
/// Nothing is lost if this does not run: `hold` expires what is overdue when it is short of stock.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "
# What is overdue now, of all activities
seckill expire
# As a service
seckill expire --every 1s -o jsonl
")]
pub struct ExpireArgs {
    /// Activities whose holds expire, or patterns [default: all preheated]
    #[arg(value_name = "ACTIVITY")]
    activities: Vec<ActivityId>,
    /// Do it again every DURATION, until Ctrl-C
    ///
    /// Shows a row whenever something expired. Activities that are preheated meanwhile are found.
    #[arg(long, value_name = "DURATION", value_parser = every, conflicts_with = "dry_run")]
    every: Option<Duration>,
    #[command(flatten)]
    mutating: Mutating,
}

changing!(ExpireArgs: mutating, activities);

row! {
    /// What expired of one activity.
    struct ExpireRow as row {
        activity: String, flexible;
        status: Status;
        holds: u64;
        units: u64;
    }
    changed if row.holds > 0
}

/// Expires what is overdue, once or again and again.
pub fn run(args: &ExpireArgs, store: &mut Store, out: &mut Output) -> Result<Exit> {
    records_users(store.layout(), "expire")?;
    store.require_replicas(args.mutating.wait_replicas);
    // Ctrl-C ends it between two calls.
    interrupt::stop_gracefully();
    match args.every {
        None => once(args, store, out),
        Some(every) => again_and_again(args, every, store, out),
    }
}

fn once(args: &ExpireArgs, store: &mut Store, out: &mut Output) -> Result<Exit> {
    out.set_dry_run(args.mutating.dry_run);
    let activities = chosen(args, store)?;
    if activities.is_empty() {
        out.note(format!("nothing was preheated in the layout `{}`", store.layout().name()));
    }
    let mut warnings = out.warnings();
    let mut rows = Vec::with_capacity(activities.len());
    let mut failed = None;
    for activity in &activities {
        match expire(activity, args, store, &mut warnings) {
            Ok(row) => rows.push(row),
            // What was done before is reported all the same.
            Err(error) => {
                failed = Some(error);
                break;
            }
        }
        if interrupt::requested() {
            break;
        }
    }
    warnings.end();
    out.array_until::<_, Error>(&rows, failed)?;
    let missing = activities.iter().zip(&rows).filter(|(_, row)| row.status == Status::NotPreheated);
    hints::other_layouts(missing.map(|(activity, _)| activity), store, out);
    if interrupt::requested() {
        return Ok(Exit::Interrupted);
    }
    Ok(if rows.iter().all(|row| row.status.is_done()) { Exit::Done } else { Exit::Refused })
}

/// Rounds until Ctrl-C, or until nobody reads any more.
fn again_and_again(args: &ExpireArgs, every: Duration, store: &mut Store, out: &mut Output) -> Result<Exit> {
    let (mut warnings, terminal) = (out.warnings(), out.terminal());
    let mut rows = out.stream::<ExpireRow>()?;
    let mut is_down = false;
    let mut refused: Vec<(ActivityId, Status)> = Vec::new();
    'rounds: loop {
        let began = Instant::now();
        match chosen(args, store) {
            Ok(activities) => {
                for activity in &activities {
                    let row = match expire(activity, args, store, &mut warnings) {
                        Ok(row) => row,
                        Err(error) if !is_transient(&error) => return Err(error.into()),
                        Err(error) => {
                            is_down = say_once(is_down, &error, |text| terminal.warn(text));
                            break;
                        }
                    };
                    is_down = false;
                    let known = refused.iter().any(|(known, status)| known == activity && *status == row.status);
                    refused.retain(|(known, _)| known != activity);
                    if !row.status.is_done() {
                        refused.push((activity.clone(), row.status));
                    }
                    if row.holds > 0 || !row.status.is_done() && !known {
                        rows.push(&row)?;
                    }
                    if interrupt::requested() {
                        break 'rounds;
                    }
                }
            }
            Err(Error::Store(error)) if is_transient(&error) => {
                is_down = say_once(is_down, &error, |text| terminal.warn(text));
            }
            Err(error) => return Err(error),
        }
        rows.flush()?;
        while began.elapsed() < every {
            if interrupt::requested() || rows.reader_left() {
                break 'rounds;
            }
            std::thread::sleep(every.saturating_sub(began.elapsed()).min(Duration::from_millis(50)));
        }
    }
    rows.finish()?;
    Ok(if interrupt::requested() { Exit::Interrupted } else { Exit::Done })
}

/// Whether a later round may succeed.
fn is_transient(error: &StoreError) -> bool {
    error.is_transient() || error.is_connection()
}

fn say_once(is_said: bool, error: &StoreError, warn: impl FnOnce(String)) -> bool {
    if !is_said {
        warn(format!("{error}; trying again"));
    }
    true
}

fn chosen(args: &ExpireArgs, store: &mut Store) -> Result<Vec<ActivityId>> {
    if args.activities.is_empty() { Ok(store.preheated()?) } else { selection::resolve(&args.activities, store) }
}

/// Expires all that is overdue of an activity, call by call.
fn expire(
    activity: &ActivityId,
    args: &ExpireArgs,
    store: &mut Store,
    warnings: &mut Warnings,
) -> Result<ExpireRow, StoreError> {
    let mut row = ExpireRow { activity: activity.to_string(), status: Status::Ok, holds: 0, units: 0 };
    loop {
        let expired = store.expire(activity, args.mutating.reason.as_deref(), args.mutating.dry_run)?;
        row.status = expired.status;
        row.holds += expired.holds;
        row.units += expired.units;
        crate::cli::shared::outcome::warn_of_corrupt(warnings, expired.corrupt.as_ref());
        let left = expire_items(expired.left, args, &mut row, store)?;
        if !left.is_empty() {
            let named: Vec<String> = left.iter().take(MAX_NAMED).map(|id| format!("`{id}`")).collect();
            let more = match left.len() - named.len() {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            warnings.warn(format!(
                "`{activity}`: {}{more} cannot be expired: the record of a hold is damaged, or that of its order",
                named.join(", ")
            ));
        }
        // A dry run finds the same again.
        if !expired.has_more || args.mutating.dry_run || interrupt::requested() {
            return Ok(row);
        }
    }
}

/// Ends items of orders of several slots, each as its order was decided. Gives the ids that nothing could be done about.
fn expire_items(
    items: Vec<LeftHold>,
    args: &ExpireArgs,
    row: &mut ExpireRow,
    store: &mut Store,
) -> Result<Vec<String>, StoreError> {
    let mut left = Vec::new();
    for item in items {
        // Which way it was decided, only a write says for certain.
        if args.mutating.dry_run && item.order.is_some() {
            continue;
        }
        match store.expire_item(&item)? {
            Some((Step::Release, settled)) if settled.outcome.status.is_done() => {
                row.holds += 1;
                row.units += settled.outcome.quantity.unwrap_or_default();
            }
            Some((Step::Confirm, settled)) if settled.outcome.status.is_done() => {}
            _ => left.push(item.request),
        }
    }
    Ok(left)
}

fn every(text: &str) -> Result<Duration, String> {
    const EXPECTED: &str = "expected a duration from 10ms, such as 1s";
    humantime::parse_duration(text).ok().filter(|every| *every >= Duration::from_millis(10)).ok_or(EXPECTED.to_owned())
}
