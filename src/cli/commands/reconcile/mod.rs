//! `seckill reconcile`: prove that stock, participants and ledger agree, or say what differs.

mod fix;
mod metrics;
mod orders;
mod report;
mod service;
mod wanted;

use std::time::Instant;

use crate::audit::class::Class;
use crate::audit::judgement::judge;
use crate::audit::judgement::sharded::judge_shards;
use crate::audit::ledger_state::Compared;
use crate::audit::plan::MissingOrders;
use crate::audit::read::{self, shards};
use crate::audit::result::{Audit, Verdict};
use crate::cli::commands::reconcile::fix::FixArgs;
use crate::cli::commands::reconcile::orders::OrdersArgs;
use crate::cli::commands::reconcile::service::ServiceArgs;
use crate::cli::commands::reconcile::wanted::AuditTarget;
use crate::cli::failure::{Exit, Failure, Result};
use crate::cli::input::records::Sharded;
use crate::cli::output::{Format, Output, counted};
use crate::cli::shared::hints;
use crate::cli::shared::metrics_file::MetricsArgs;
use crate::cli::shared::selection::find;
use crate::cli::shared::session::Session;
use crate::model::{ActivityId, Layout, Snapshot, Units};
use crate::read::whole;
use crate::store::Store;

/// Compare stock, participants, ledger and order records
///
/// `match` (exit code 0) means that nothing differs and something proves it: a whole ledger, order records, or the
/// total. Otherwise the verdict is `drift`, `unsettled` (it changed during the audit and has no ledger) or `unproven`
/// (exit code 7), or `not_preheated` (exit code 3).
///
/// The audit is exact during the sale: every counter is compared with the ledger at one instant. An activity
/// without a ledger is scanned until two scans are equal.
///
/// Order records are summed by user; negative rows are refunds. They are compared with the ledger as of their own
/// time. A column `ledger` may hold the id of the ledger entry that a record was made of.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "
# An audit for Prometheus, whatever it finds
seckill reconcile -o prometheus --to /var/lib/prometheus/node-exporter/audit.prom
# All preheated activities
seckill reconcile
# Against an export of the orders
seckill reconcile 1001 --orders orders.csv --map user=buyer_id,activity=sku
# Against the database; a failed export is noticed
seckill reconcile --orders-cmd 'mysql --batch shop -e \"select …\"' --format mysql
# What the database lacks, to be delivered to it again
seckill reconcile 1001 --orders orders.csv --emit missing_order -o csv
# As a service: repairs what has differed for two minutes, in two audits
seckill reconcile --orders-cmd 'psql --csv -c \"select …\"' --every 1m --fix --yes
# Repair what differs: see the plan first
seckill reconcile 1001 --fix --dry-run
seckill reconcile 1001 --fix
")]
pub struct ReconcileArgs {
    /// Activities to audit, or patterns [default: all preheated]
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
    /// Print a row per difference
    ///
    /// In csv, tsv and jsonl instead of a row per activity. Tables show the first 20 without it. json and yaml always
    /// have all.
    #[arg(long, conflicts_with = "emit")]
    differences: bool,
    /// Exit with 0 for this verdict (VERDICT: unproven)
    ///
    /// For an activity without a whole ledger, order records or a conclusive total, of which nothing differs.
    #[arg(long, value_name = "VERDICT", value_parser = ["unproven"], hide_possible_values = true)]
    accept: Option<String>,
    #[command(flatten)]
    orders: OrdersArgs,
    #[command(flatten)]
    fix: FixArgs,
    #[command(flatten)]
    service: ServiceArgs,
    #[command(flatten)]
    metrics: MetricsArgs,
}

/// Audits what is asked for, and says what differs.
pub fn run(args: &ReconcileArgs, session: &mut Session) -> Result<Exit> {
    if args.fixture.as_deref() == Some("-") && args.orders.file() == Some("-") {
        return Err(Failure::usage("standard input cannot be both the fixture and the order records")
            .hint("give one of them as a file"));
    }
    let has_metrics = args.metrics.are_wanted(session.out.format())?;
    args.service.check(args, has_metrics)?;
    let (wanted, of_fixture) = AuditTarget::of(args)?;
    if args.fix.fix && args.orders.is_pipe() {
        return Err(Failure::usage("`--fix` does not believe `--orders -`: a pipe hides an export that failed")
            .hint("write a file, or give the export as `--orders-cmd CMD`, whose exit status is checked"));
    }
    args.fix.check(&session.out)?;
    if has_metrics && args.service.every.is_none() && (args.fix.fix || args.fix.emit.is_some() || args.differences) {
        return Err(Failure::usage(
            "`-o prometheus` prints an audit alone, without `--fix`, `--emit` and `--differences`",
        )
        .hint("leave one of them out; `--plan FILE` writes the repairs for `seckill repair`"));
    }
    session.out.protect("read", args.fixture.as_deref().into_iter().chain(args.orders.file()));
    let plan_file = args.fix.plan.as_ref().map(|path| session.out.create("--plan", path)).transpose()?;
    session.out.protect("written", &args.fix.plan);
    let layout = session.layout(of_fixture)?;
    let mut store = match args.fix.fix {
        true => session.store_to_change(layout, &args.fix.mutating, wanted.iter().map(|it| &it.activity))?,
        false => session.store(layout)?,
    };
    if let Some(every) = args.service.every {
        return service::run(args, every, &mut store, &mut session.out);
    }
    let audit = |store: &mut Store, out: &Output| {
        let wanted = AuditTarget::matching(wanted, args, store, None)?;
        let (audits, left_out) = audited(args, wanted, store, out)?;
        warn(&audits, args, store, out);
        plan_file.map_or(Ok(()), |file| args.fix.write(&audits, file, out))?;
        Ok::<_, Failure>((audits, left_out))
    };
    if has_metrics {
        return args.metrics.write("reconcile", &mut store, &mut session.out, |store, out, metrics| {
            let began = Instant::now();
            let (audits, _) = audit(store, out)?;
            metrics::add(&audits, began.elapsed(), metrics);
            Ok(exit(audits.iter().map(|audit| audit.verdict), args.accept.is_some()))
        });
    }
    let audited = audit(&mut store, &session.out)?;
    finish(&audited, args, &mut store, &mut session.out)
}

/// Audits, and the activities that neither the command line names nor any order row, if they have sales that are missing there.
type Audited = (Vec<Audit>, Vec<ActivityId>);

/// Audits what is wanted.
fn audited(args: &ReconcileArgs, wanted: Vec<AuditTarget>, store: &mut Store, out: &Output) -> Result<Audited> {
    let named: Vec<ActivityId> = wanted.iter().map(|wanted| wanted.activity.clone()).collect();
    let sharded = wanted::of(&named, store)?;
    if args.orders.is_given() && store.layout() == Layout::Cluster {
        refuse_shards(&named)?;
    }
    let mut orders = args.orders.begin(named, sharded.clone(), store, out)?;
    let wanted = if wanted.is_empty() { AuditTarget::all(orders.as_ref(), store)? } else { wanted };
    let missing_orders = if args.fix.emit.is_some() { MissingOrders::Emit } else { MissingOrders::Repair };
    let progress = out.progress("auditing", wanted.len() as u64);
    let (mut audits, mut left_out) = (Vec::with_capacity(wanted.len()), Vec::new());
    for target in &wanted {
        let is_named = args.activities.contains(&target.activity);
        let compared = |of: &ActivityId| orders.as_mut().map(|orders| orders.of(of, is_named));
        let (audit, is_unrecorded) = audit_one(target, &sharded, missing_orders, compared, store)?;
        if is_unrecorded && !is_named && audit.differences.iter().any(|it| it.class == Class::MissingOrder) {
            left_out.push(audit.activity.clone());
        }
        audits.push(audit);
        progress.inc(1);
    }
    progress.finish();
    orders.map_or(Ok(()), |orders| orders.finish(&args.orders, out))?;
    leave_out_archived(&mut audits, args, store, out)?;
    Ok((audits, left_out))
}

/// What a person should know of the audits.
fn warn(audits: &[Audit], args: &ReconcileArgs, store: &mut Store, out: &Output) {
    report::warn(audits, args.accept.is_some(), out);
    let missing = audits.iter().filter(|audit| audit.verdict == Verdict::NotPreheated);
    hints::other_layouts(missing.map(|audit| &audit.activity), store, out);
    let unclear = audits.iter().filter(|audit| audit.verdict != Verdict::Match);
    hints::order_sets(unclear.map(|audit| &audit.activity), store, out);
    hints::warn_of_replica(store, out);
}

/// Order records name activities: compared with one shard, the users of all others would be missing.
fn refuse_shards(named: &[ActivityId]) -> Result<()> {
    match named.iter().find_map(|activity| Some((activity, activity.parent()?.0))) {
        Some((shard, parent)) => Err(Failure::usage(format!(
            "`{shard}` is a shard, and order records are of activities: they cannot be compared with a part of `{parent}`"
        ))
        .hint(format!("`seckill reconcile {parent:#} --orders …` compares each row at the user's shard"))),
        None => Ok(()),
    }
}

/// What is archived has nothing to audit here: an activity that is named is `not_preheated`, and others are left out.
///
/// # Errors
/// All of them are left out.
fn leave_out_archived(audits: &mut Vec<Audit>, args: &ReconcileArgs, store: &mut Store, out: &Output) -> Result<()> {
    let missing = audits.iter().filter(|audit| audit.verdict == Verdict::NotPreheated);
    let missing: Vec<ActivityId> = missing.map(|audit| audit.activity.clone()).collect();
    let missing = whole::wholes(store, &missing)?.into_iter().filter(Snapshot::is_archived);
    let archived: Vec<ActivityId> = missing.map(|snapshot| snapshot.activity).collect();
    if archived.is_empty() {
        return Ok(());
    }
    if args.activities.is_empty() && args.fixture.is_none() {
        audits.retain(|audit| !archived.contains(&audit.activity));
        let are = if archived.len() == 1 { "is" } else { "are" };
        let found = format!("{} {are} archived", counted(archived.len(), "activity"));
        let uncompared = if args.orders.is_given() { "; order records are not compared with archives" } else { "" };
        if audits.is_empty() {
            return Err(Failure::new(Exit::Refused, format!("nothing to audit: {found}{uncompared}"))
                .hint("`seckill preheat --restore DIR` brings one back to be audited"));
        }
        out.note(format!("{found} and left out{uncompared}"));
    } else {
        for activity in archived {
            out.note(format!("`{activity}` is archived: `seckill preheat --restore DIR` brings it back to be audited"));
        }
    }
    Ok(())
}

/// Audits an activity, sharded or not, and says whether the order records have no row of it.
fn audit_one(
    AuditTarget { activity, total }: &AuditTarget,
    sharded: &Sharded,
    missing_orders: MissingOrders,
    mut compared: impl FnMut(&ActivityId) -> Option<Compared>,
    store: &mut Store,
) -> Result<(Audit, bool)> {
    let total = total.map(Units::get);
    if let Some(shards) = sharded.get(activity) {
        let found = shards::audit_shards(store, activity, shards, total, compared)?;
        let is_unrecorded = found.parts.iter().all(|shard| shard.evidence.ledger.is_unrecorded());
        return Ok((judge_shards(found, missing_orders), is_unrecorded));
    }
    let evidence = read::audit(store, activity, total, compared(activity))?;
    let is_unrecorded = evidence.ledger.is_unrecorded();
    Ok((judge(evidence, missing_orders), is_unrecorded))
}

/// Shows what was found, and does about it what is asked for. Nothing that is printed decides what is repaired.
fn finish(audited: &Audited, args: &ReconcileArgs, store: &mut Store, out: &mut Output) -> Result<Exit> {
    let (audits, left_out) = audited;
    let fix = &args.fix;
    let title = if fix.mutating.dry_run { "repairs that would be applied" } else { "repairs" };
    out.set_dry_run(fix.mutating.dry_run);
    if fix.emit.is_some() {
        report::emit(audits, out)?;
    } else if out.format() == Format::Table || !fix.fix {
        report::show(audits, None, args, out)?;
    }
    if fix.fix || fix.emit.is_some() || fix.plan.is_some() {
        report::note_left_out(left_out, out);
    }
    if !fix.fix {
        return Ok(exit(audits.iter().map(|audit| audit.verdict), args.accept.is_some()));
    }
    let fixed = fix.fix(audits, store, out);
    if fix.emit.is_none() {
        let rows = fixed.as_ref().ok().map(|(rows, _)| rows.as_slice());
        match (out.format(), rows) {
            (Format::Table, None | Some([])) => (),
            (Format::Table, Some(rows)) => out.table(Some(title), rows)?,
            (_, rows) => report::show(audits, rows, args, out)?,
        }
    }
    let (rows, error) = fixed?;
    let done = rows.iter().filter(|row| row.is_done()).count();
    let wanted: usize = audits.iter().map(|audit| audit.plan.repairs.len() + audit.plan.transfers.len()).sum();
    out.note(match (wanted, fix.mutating.dry_run) {
        (0, _) if audits.iter().any(|it| !matches!(it.verdict, Verdict::Match | Verdict::NotPreheated)) => {
            "nothing is repaired".to_owned()
        }
        (0, _) => "there is nothing to repair".to_owned(),
        (_, true) => format!("dry run: {done} of {} would be applied", counted(wanted, "repair")),
        (_, false) => applied(done, wanted, error.as_ref()),
    });
    // If one is not applied, it drifts still: no other verdict outweighs that.
    let is_repaired = done == wanted && !fix.mutating.dry_run;
    let verdict = |audit: &Audit| if is_repaired { fix.verdict_after(audit) } else { audit.verdict };
    match error {
        Some(error) => Err(if done > 0 { error.in_part() } else { error }),
        None => Ok(exit(audits.iter().map(verdict), args.accept.is_some())),
    }
}

/// How many repairs were applied, as far as replies say.
fn applied(done: usize, wanted: usize, error: Option<&Failure>) -> String {
    let known = if error.is_some_and(|error| error.exit == Exit::Unknown) { "known to be " } else { "" };
    format!("{done} of {} {known}applied", counted(wanted, "repair"))
}

/// The verdict about one activity, as a step of a fixture wants it.
pub fn audit(store: &mut Store, activity: &ActivityId, total: Option<Units>) -> Result<Verdict> {
    let sharded = find(std::slice::from_ref(activity), store)?;
    let target = AuditTarget { activity: activity.clone(), total };
    Ok(audit_one(&target, &sharded, MissingOrders::Repair, |_| None, store)?.0.verdict)
}

/// 7 if anything differs or cannot be proven, 3 if there is no such activity.
fn exit(verdicts: impl Iterator<Item = Verdict>, accepts_unproven: bool) -> Exit {
    let accepted = |verdict: &Verdict| *verdict == Verdict::Unproven && accepts_unproven;
    match Verdict::worst(verdicts.filter(|verdict| !accepted(verdict))) {
        Verdict::Match => Exit::Done,
        Verdict::NotPreheated => Exit::Refused,
        Verdict::Unproven | Verdict::Unsettled | Verdict::Drift => Exit::Drift,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repair_whose_reply_is_lost_is_not_counted_out() {
        let lost = Failure::new(Exit::Unknown, "lost");
        assert_eq!(applied(0, 1, Some(&lost)), "0 of 1 repair known to be applied");
        assert_eq!(applied(0, 1, Some(&Failure::failed("refused"))), "0 of 1 repair applied");
    }
}
