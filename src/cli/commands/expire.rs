//! `seckill expire`: return the units of overdue holds.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use crate::cli::args::Mutating;
use crate::cli::commands::hold::require_users;
use crate::cli::failure::{Exit, Result};
use crate::cli::interrupt;
use crate::cli::output::{Cell, Format, Output, Warnings, named, row};
use crate::cli::shared::outcome::{each_reached, name_failures, warn_of_corrupt};
use crate::cli::shared::rounds::Outage;
use crate::cli::shared::selection::ActivitySelector;
use crate::cli::shared::session::own_clock;
use crate::cli::shared::{hints, rounds, selection};
use crate::error::StoreError;
use crate::model::order::hold::{LeftHold, Step};
use crate::model::{ActivityId, Corrupt, Millis, Status};
use crate::sell::{holds, multi_orders};
use crate::store::Store;

/// Ids of holds that are left which a warning names.
const MAX_NAMED: usize = 3;

/// Return the units of holds that nobody confirmed in time
///
/// One row for each activity with holds that expired. 500 holds a call, with one ledger entry. A payment that comes later can still be confirmed, if its units are not sold by then.
/// If this does not run, overdue units stay sold for `deduct`; `hold` expires up to 16 holds when stock or limit are short.
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
    pub(super) activities: Vec<ActivityId>,
    /// Do it again every DURATION, until Ctrl-C
    ///
    /// Shows a row with the time whenever something expired. Activities that are preheated meanwhile are found.
    #[arg(long, value_name = "DURATION", value_parser = rounds::every, conflicts_with_all = ["dry_run", "wait_replicas"])]
    every: Option<Duration>,
    #[command(flatten)]
    pub(super) mutating: Mutating,
}

row! {
    /// What expired of one activity.
    pub(crate) struct ExpireRow as row from (id: &ActivityId) {
        /// Of a round of `--every`, by this machine's clock.
        optional time: Option<Millis> = None => row.time.map_or_else(Cell::unknown, Cell::printed_at);
        activity: String = id.to_string(), flexible;
        pub(crate) status: Status = Status::Ok;
        pub(crate) holds: u64 = 0;
        pub(crate) units: u64 = 0;
        hidden pub(crate) stock: Option<u64> = None;
        /// Whether Ctrl-C left holds for another call.
        hidden pub(crate) is_cut_short: bool = false;
        /// Whether overdue holds are left: those that cannot be expired, and those that a dry run does not ask about.
        hidden is_left: bool = false;
        /// Whether more may have expired than is counted.
        hidden was_resent: bool = false;
        /// Items whose primary was not reached. The server leaves them alone for 5 seconds.
        hidden undecided: Vec<LeftHold> = Vec::new();
    }
    changed if row.holds > 0
}

impl ExpireRow {
    /// Whether something expired, or could not. An archived activity has no holds: it is an error only if it is named.
    fn has_news(&self, named: &[ActivityId]) -> bool {
        let is_archived = self.status == Status::Ended && !named.iter().any(|id| id.as_str() == self.activity);
        self.holds > 0 || !self.status.is_done() && !is_archived
    }
}

/// Expires what is overdue, once or again and again.
pub fn run(args: &ExpireArgs, store: &mut Store, out: &mut Output) -> Result<Exit> {
    require_users(store.layout(), "expire")?;
    // Ctrl-C ends it between two calls.
    interrupt::stop_gracefully();
    match args.every {
        None => once(args, store, out),
        Some(every) => again_and_again(args, every, store, out),
    }
}

fn once(args: &ExpireArgs, store: &mut Store, out: &mut Output) -> Result<Exit> {
    let activities = selection::resolve(&args.activities, store)?;
    hints::none_preheated(&activities, store, out);
    let (mut warnings, reason, dry_run) = (out.warnings(), args.mutating.reason.as_deref(), args.mutating.dry_run);
    let mut rows: Vec<ExpireRow> = activities.iter().map(ExpireRow::new).collect();
    let failed = each_reached(&activities, store, |at, store| match interrupt::requested() {
        true => Ok(()),
        false => expire(&activities[at], &mut rows[at], reason, dry_run, store, &mut warnings),
    });
    warnings.end();
    let missing = activities.iter().zip(&rows).filter(|(_, row)| row.status == Status::NotPreheated);
    let missing: Vec<&ActivityId> = missing.map(|(activity, _)| activity).collect();
    let is_left = rows.iter().any(|row| row.is_left);
    let was_resent = rows.iter().any(|row| row.was_resent);
    rows.retain(|row| row.has_news(&args.activities));
    // It replies like a primary where nothing is to be written.
    hints::warn_of_dry_replica(rows.iter().all(|row| row.holds == 0) && failed.is_none(), store, out);
    match (rows.is_empty() && failed.is_none(), out.format()) {
        (true, Format::Table) if activities.is_empty() || was_resent || dry_run && is_left => {}
        (true, Format::Table) if dry_run => out.note("no hold would expire"),
        (true, Format::Table) => out.note("no hold expired"),
        _ => out.array_until(&rows, failed)?,
    }
    if let Some(first) = missing.first() {
        hints::window(first, Status::NotPreheated, store, out);
    }
    hints::other_layouts(missing, store, out);
    if interrupt::requested() {
        return Ok(Exit::Interrupted);
    }
    Ok(Exit::done_if((dry_run || !is_left) && rows.iter().all(|row| row.status.is_done())))
}

/// Rounds until Ctrl-C, or until nobody reads any more.
fn again_and_again(args: &ExpireArgs, every: Duration, store: &mut Store, out: &mut Output) -> Result<Exit> {
    let (mut warnings, terminal) = (out.warnings(), out.terminal());
    let (reason, dry_run) = (args.mutating.reason.as_deref(), args.mutating.dry_run);
    out.choose(&["time"]);
    let mut rows = out.stream::<ExpireRow>()?;
    let (mut outage, selector) = (Outage::default(), ActivitySelector::new(&args.activities)?);
    let mut statuses = HashMap::new();
    loop {
        let began = Instant::now();
        warnings.next_round();
        // Another round is soon: the holds of other servers need not wait for a failover.
        store.begin_round(Some(store.servers.shortest_patience().min(every)));
        let round = selector.fitting(store, &mut warnings).and_then(|activities| {
            let mut failed = Vec::new();
            for (at, activity) in activities.iter().enumerate().take_while(|_| !interrupt::requested()) {
                let mut row = ExpireRow::new(activity);
                let expired = expire(activity, &mut row, reason, dry_run, store, &mut warnings);
                failed.extend(expired.err().map(|error| (at, error)));
                let is_known = statuses.insert(activity.clone(), row.status) == Some(row.status);
                if row.has_news(&args.activities) && (row.holds > 0 || !is_known) {
                    rows.push(&ExpireRow { time: Some(own_clock()), ..row })?;
                }
            }
            name_failures(&activities, failed).map_or(Ok(()), Err)
        });
        match round {
            Ok(()) => outage.ended(),
            Err(failure) => outage.began(failure, |text| terminal.warn(text))?,
        }
        rows.flush()?;
        if !rounds::wait(every, began, || rows.reader_left()) {
            break;
        }
    }
    rows.finish()?;
    Ok(if interrupt::requested() { Exit::Interrupted } else { Exit::Done })
}

/// Expires all that is overdue of an activity, call by call. Whatever fails, the row has what was done, and the items whose
/// order could not be asked about; those of before are tried first.
pub(crate) fn expire(
    activity: &ActivityId,
    row: &mut ExpireRow,
    reason: Option<&str>,
    dry_run: bool,
    store: &mut Store,
    warnings: &mut Warnings,
) -> Result<(), StoreError> {
    let (mut items, mut failed) = (std::mem::take(&mut row.undecided), None);
    if dry_run {
        // Another try finds the same again.
        *row = ExpireRow::new(activity);
    }
    loop {
        let expired = holds::expire(store, activity, reason, dry_run);
        let failure = expired.as_ref().map_or_else(Some, |(_, unreached)| unreached.as_ref());
        row.was_resent |= matches!(failure, Some(StoreError::Unknown { .. }));
        let (expired, unreached) = expired?;
        (row.status, row.stock) = (expired.status, expired.stock);
        row.holds += expired.holds;
        row.units += expired.units;
        row.was_resent |= expired.was_resent;
        match expired.corrupt {
            Some(Corrupt { key, what }) if row.holds > 0 => warnings.warn(format!("key `{key}` {what}")),
            corrupt => warn_of_corrupt(warnings, corrupt.as_ref()),
        }
        items.extend(expired.left);
        if dry_run {
            // Which way they were decided, only a write says for certain.
            let all = items.len();
            items.retain(|item| item.order.is_none());
            if items.len() < all || expired.has_more {
                row.is_left = true;
                warnings.warn(format!("`{activity}`: a dry run shows 500 holds at most, and none of orders over several slots: more may be overdue"));
            }
        }
        let (left, undecidable) = expire_items(items.drain(..), row, store);
        failed = failed.or(unreached).or(undecidable);
        if !left.is_empty() {
            row.is_left = true;
            warnings.warn(format!(
                "`{activity}`: {} cannot be expired: who holds them has fewer units (docs/holds.md), or a record is damaged",
                named(&left, MAX_NAMED)
            ));
        }
        // A dry run finds the same again.
        row.is_cut_short = expired.has_more && interrupt::requested();
        if !expired.has_more || dry_run || row.is_cut_short {
            if row.was_resent {
                warnings.warn(format!(
                    "`{activity}`: a reply was lost; what that call expired is not counted here: `seckill ledger {activity:#}` shows it"
                ));
            }
            return failed.map_or(Ok(()), Err);
        }
    }
}

/// Ends items of orders of several slots, each as its order was decided. Gives the ids that nothing could be done about, and why the
/// first of those that are undecided is.
fn expire_items(
    items: impl Iterator<Item = LeftHold>,
    row: &mut ExpireRow,
    store: &mut Store,
) -> (Vec<String>, Option<StoreError>) {
    let (mut left, mut failed) = (Vec::new(), None);
    for item in items {
        match multi_orders::expire_item(store, &item) {
            // Those of other primaries end all the same.
            Err(error) => {
                failed.get_or_insert(error);
                row.undecided.push(item);
            }
            Ok(Some((step, settled))) if settled.status.is_done() => {
                if step == Step::Release {
                    row.holds += 1;
                    row.units += settled.quantity.unwrap_or_default();
                }
            }
            Ok(_) => left.push(item.request),
        }
    }
    (left, failed)
}
