//! `seckill reconcile`: prove that stock, participants and ledger agree, or say where they do not.

mod fix;
mod orders;
mod report;
mod wanted;

use std::collections::HashSet;

use anyhow::Result;
use fix::FixArgs;
use orders::OrdersArgs;
use wanted::Wanted;

use super::hints;
use super::session::Session;
use crate::inventory::audit::{MissingOrders, judge};
use crate::inventory::book::Compared;
use crate::inventory::drift::{Audit, Verdict};
use crate::inventory::failure::{Exit, Failure};
use crate::inventory::id::ActivityId;
use crate::inventory::number::Units;
use crate::output::{Format, Output};
use crate::store::Store;

/// Compare stock, participants, ledger and order records
///
/// Exit code 7 if they differ.
///
/// Exact while the sale goes on: every counter is compared with the ledger at one instant, and nothing stands
/// still meanwhile. An activity without a ledger is scanned until two scans are alike; one that is being written
/// stays `unsettled`.
///
/// Order records are summed by user; rows below zero are refunds. They are compared with the ledger as of their
/// own time. A column `ledger` may hold the id of the ledger entry that a record was made of.
#[derive(Debug, clap::Args)]
pub struct ReconcileArgs {
    /// Activities to audit [default: all preheated]
    ///
    /// By default also those that the order records name; with a fixture, the fixture's.
    #[arg(value_name = "ACTIVITY")]
    activities: Vec<ActivityId>,
    /// Audit the activities of a fixture against its totals
    #[arg(short, long, value_name = "FIXTURE")]
    fixture: Option<String>,
    /// Total of the one ACTIVITY, if its preheat was wrong
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    total: Option<Units>,
    #[command(flatten)]
    orders: OrdersArgs,
    #[command(flatten)]
    fix: FixArgs,
}

/// Audits what is asked for, and says what differs.
pub fn run(args: &ReconcileArgs, session: &mut Session) -> Result<Exit> {
    let (wanted, of_fixture) = Wanted::of(args)?;
    if args.fix.fix && args.orders.is_pipe() {
        return Err(Failure::usage("`--fix` does not believe `--orders -`: a pipe hides an export that failed")
            .hint("write a file, or give the export as `--orders-cmd CMD`, whose exit status is checked")
            .into());
    }
    let mut store = session.store(session.layout(of_fixture)?)?;
    let named: Vec<ActivityId> = wanted.iter().map(|wanted| wanted.activity.clone()).collect();
    let mut orders = args.orders.read(&named, &mut store, &session.out)?;
    let wanted = match wanted.is_empty() {
        false => wanted,
        true => Wanted::all(orders.as_ref(), &mut store)?,
    };
    let progress = session.out.progress("auditing", wanted.len() as u64);
    let mut audits = Vec::with_capacity(wanted.len());
    let mut untold = HashSet::new();
    for Wanted { activity, total } in &wanted {
        let compared = orders.as_mut().map(|orders| orders.of(activity));
        if compared.as_ref().is_some_and(|compared| compared.records.rows == 0) {
            untold.insert(activity.to_string());
        }
        audits.push(audited(&mut store, activity, *total, compared, args.fix.missing_orders())?);
        progress.inc(1);
    }
    progress.finish();
    hints::warn_of_replica(&mut store, &session.out);
    finish(audits, &untold, &args.fix, &mut store, &mut session.out)
}

/// Shows what was found, and does about it what is asked for.
fn finish(
    audits: Vec<Audit>,
    untold: &HashSet<String>,
    fix: &FixArgs,
    store: &mut Store,
    out: &mut Output,
) -> Result<Exit> {
    report::tell(&audits, out);
    fix.write(&audits, out)?;
    if fix.emit.is_some() {
        FixArgs::print(&audits, out)?;
    } else if out.format() == Format::Table || !fix.fix {
        report::report(&audits, None, out)?;
    }
    if !fix.fix {
        return Ok(exit(&audits));
    }
    let fixed = fix.fix(&audits, untold, store, out);
    if fix.emit.is_none() {
        let rows = fixed.as_deref().ok();
        match out.format() {
            Format::Table => out.table(Some("repairs"), rows.unwrap_or_default())?,
            _ => report::report(&audits, rows, out)?,
        }
    }
    let rows = fixed?;
    let done = rows.iter().filter(|row| row.is_done()).count();
    if !fix.mutating.dry_run {
        out.note(format!("{done} of {} repairs are in force", rows.len()));
    }
    // What was found is right now, but for what could not be repaired.
    let all = done == rows.len() && audits.iter().all(|audit| audit.plan.kept.is_empty());
    let fixable = audits.iter().all(|audit| matches!(audit.verdict, Verdict::Match | Verdict::Drift));
    Ok(if all && fixable && !(fix.emit.is_some() && audits.iter().any(|audit| !audit.missing_orders.is_empty())) {
        Exit::Done
    } else {
        exit(&audits)
    })
}

/// The verdict about one activity, as a step of a fixture wants it.
///
/// # Errors
/// Whatever keeps the server from answering.
pub fn audit(store: &mut Store, activity: &ActivityId, total: Option<Units>) -> Result<Verdict> {
    Ok(audited(store, activity, total, None, MissingOrders::Repair)?.verdict)
}

fn audited(
    store: &mut Store,
    activity: &ActivityId,
    total: Option<Units>,
    compared: Option<Compared>,
    missing_orders: MissingOrders,
) -> Result<Audit> {
    Ok(judge(store.audit(activity, total.map(Units::get), compared)?, missing_orders))
}

/// 7 where anything differs or cannot be told, 3 where there is no such activity.
fn exit(audits: &[Audit]) -> Exit {
    match verdict(audits) {
        Verdict::Match => Exit::Done,
        Verdict::NotPreheated => Exit::Refused,
        Verdict::Unproven | Verdict::Unsettled | Verdict::Drift => Exit::Drift,
    }
}

/// The verdict about all of them.
fn verdict(audits: &[Audit]) -> Verdict {
    Verdict::worst(audits.iter().map(|audit| audit.verdict))
}
