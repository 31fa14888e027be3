//! `reconcile --every`: audits again and again, and repairs what stays different.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use crate::audit::ledger_state::transfers::BrokenTransfer;
use crate::audit::plan::repair::Repair;
use crate::audit::result::{Audit, Verdict};
use crate::cli::args;
use crate::cli::commands::reconcile::wanted::AuditTarget;
use crate::cli::commands::reconcile::{ReconcileArgs, audited, metrics, report};
use crate::cli::failure::{Cause, Exit, Failure, Result};
use crate::cli::interrupt;
use crate::cli::output::{Cell, Output, Warnings, counted, row};
use crate::cli::shared::rounds::{self, Outage};
use crate::cli::shared::session::own_clock;
use crate::model::Millis;
use crate::model::number::signed;
use crate::store::Store;

/// Flags of the service.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Service")]
pub(super) struct ServiceArgs {
    /// Audit again every DURATION, until Ctrl-C
    ///
    /// Shows a row of an activity when what is found of it changes, and when something was repaired. With `-o prometheus --to FILE` the
    /// file is written anew each time.
    #[arg(long, value_name = "DURATION", group = "rounds", value_parser = rounds::every, conflicts_with_all = ["emit", "plan", "differences", "dry_run", "wait_replicas", "expect_rows"])]
    pub every: Option<Duration>,
    /// Repair only what has differed that long
    ///
    /// And in two audits: what the database is about to write is not lost.
    #[arg(long, value_name = "DURATION", default_value = "2m", requires = "rounds", value_parser = args::duration)]
    grace: Duration,
}

impl ServiceArgs {
    /// Refuses what a service cannot be asked, or could not read a second time.
    pub(super) fn check(&self, args: &ReconcileArgs, has_metrics: bool) -> Result<()> {
        if self.every.is_none() {
            return Ok(());
        }
        if args.fix.fix && !args.fix.mutating.yes {
            return Err(
                Failure::usage("`--every` cannot ask before each repair").hint("add `--yes`, or leave out `--fix`")
            );
        }
        if args.fixture.as_deref() == Some("-") || args.orders.is_pipe() {
            return Err(Failure::usage("`--every` reads its input each time, and a pipe can be read once")
                .hint("give a file, or `--orders-cmd CMD`"));
        }
        if has_metrics && !args.metrics.has_file() {
            return Err(Failure::usage("`--every` writes metrics into a file").hint("add `--to FILE`"));
        }
        Ok(())
    }
}

row! {
    /// What an audit of the service found of an activity.
    #[derive(Clone, PartialEq, Eq)]
    struct RoundRow as row from (audit: &Audit, applied: usize) {
        /// Of the audit, by this machine's clock.
        time: Millis = own_clock() => Cell::printed_at(row.time);
        activity: String = audit.activity.to_string(), flexible;
        verdict: Verdict = audit.verdict;
        differences: u64 = report::count(&audit.differences);
        /// Repairs that have not been wanted for long enough.
        waiting: usize = audit.plan.repairs.len() + audit.plan.transfers.len() - applied;
        /// Repairs that were applied.
        repaired: usize = applied;
    }
    changed if row.repaired > 0
}

/// Audits until Ctrl-C, or until nobody reads any more.
pub(super) fn run(args: &ReconcileArgs, every: Duration, store: &mut Store, out: &mut Output) -> Result<Exit> {
    interrupt::stop_gracefully();
    let terminal = out.terminal();
    // Each audit would say the same again.
    let mut unseen = out.unseen();
    let has_metrics = args.metrics.are_wanted(out.format())?;
    let mut rows = if has_metrics { None } else { Some(out.stream::<RoundRow>()?) };
    let (waiting, warnings) = (HashMap::new(), Warnings::new(terminal));
    let mut service = Service { args, waiting, is_over_limit: false, has_older_records: false, warnings };
    let (mut shown, mut outage, mut failed) = (HashMap::new(), Outage::default(), None);
    for round in 0u64.. {
        let began = Instant::now();
        let mut found = Vec::new();
        let ended = match has_metrics {
            true => args.metrics.write("reconcile", store, &mut unseen, |store, unseen, text| {
                let audits = service.audit(store, unseen, &mut found)?;
                metrics::add(&audits, began.elapsed(), text);
                Ok(Exit::Done)
            }),
            false => service.audit(store, &mut unseen, &mut found).map(|_| Exit::Done),
        };
        for row in found {
            let known = shown.insert(row.activity.clone(), row.clone());
            let is_news = row.repaired > 0 || known.is_none_or(|known| RoundRow { time: row.time, ..known } != row);
            match &mut rows {
                Some(rows) if is_news => rows.push(&row)?,
                None if row.repaired > 0 => {
                    terminal.note(format!("`{}`: {} applied", row.activity, counted(row.repaired, "repair")));
                }
                _ => {}
            }
        }
        match ended {
            Ok(_) => {
                outage.ended();
                failed = None;
            }
            // The next round would be the one that Ctrl-C ends.
            Err(_) if interrupt::requested() => {}
            // An export that failed may succeed the next time; usage that is wrong in the first round stays so.
            Err(failure) if matches!(failure.cause, Cause::Export) || failure.is_own() && round > 0 => {
                if failed.as_ref() != Some(&failure.message) {
                    terminal.warn(format!("{}; trying again", failure.message));
                }
                failed = Some(failure.message);
            }
            Err(failure) => outage.began(failure, |text| terminal.warn(text))?,
        }
        if let Some(rows) = &mut rows {
            rows.flush()?;
        }
        if !rounds::wait(every, began, || rows.as_ref().is_some_and(|rows| rows.reader_left())) {
            break;
        }
    }
    if let Some(rows) = rows {
        rows.finish()?;
    }
    Ok(if interrupt::requested() { Exit::Interrupted } else { Exit::Done })
}

/// What is remembered from one audit to the next.
struct Service<'a> {
    args: &'a ReconcileArgs,
    /// When each repair was first wanted; those that the last audit wanted, too.
    waiting: HashMap<String, Instant>,
    /// Whether more repairs were ready than may be applied at once.
    is_over_limit: bool,
    /// Whether order records are older than a sale that they mention.
    has_older_records: bool,
    /// Patterns that nothing fits.
    warnings: Warnings,
}

impl Service<'_> {
    /// Audits once, and repairs what has been wanted for long enough. What was found of each activity goes to `rows`, also if
    /// something fails then.
    fn audit(&mut self, store: &mut Store, out: &mut Output, rows: &mut Vec<RoundRow>) -> Result<Vec<Audit>> {
        let (wanted, _) = AuditTarget::of(self.args)?;
        self.warnings.next_round();
        let wanted = AuditTarget::matching(wanted, self.args, store, Some(&mut self.warnings))?;
        // Without a target, all would be audited.
        let (audits, _) = match wanted.is_empty() && !self.args.activities.is_empty() {
            true => Default::default(),
            false => audited(self.args, wanted, store, out)?,
        };
        let now = Instant::now();
        let old = std::mem::take(&mut self.waiting);
        let mut ready = Vec::with_capacity(audits.len());
        for audit in &audits {
            let wanted = audit.plan.repairs.iter().map(key).chain(audit.plan.transfers.iter().map(key_of_transfer));
            self.waiting.extend(wanted.map(|key| {
                let since = old.get(&key).copied().unwrap_or(now);
                (key, since)
            }));
            let is_ready = |key: String| old.get(&key).is_some_and(|since| since.elapsed() >= self.args.service.grace);
            ready.push(ready_of(audit, is_ready));
        }
        let count: usize = ready.iter().map(|(repairs, transfers)| repairs.len() + transfers.len()).sum();
        let most = self.args.fix.max_repairs;
        let was_over = std::mem::replace(&mut self.is_over_limit, count > most);
        if self.is_over_limit && !was_over && self.args.fix.fix {
            let ready = counted(count, "repair");
            out.terminal().warn(format!("{ready} ready, more than `--max-repairs {most}`: none is applied"));
        }
        let is_older = audits.iter().any(|audit| audit.records_are_older && !audit.plan.repairs.is_empty());
        let was_older = std::mem::replace(&mut self.has_older_records, is_older);
        if is_older && !was_older && self.args.fix.fix {
            out.terminal().warn(
                "the order records are older than a sale that they mention: nothing of it is repaired before they are exported again",
            );
        }
        let mut failed = None;
        for (audit, (repairs, transfers)) in audits.iter().zip(ready) {
            let may_repair = self.args.fix.fix && !self.is_over_limit && failed.is_none();
            let (applied, error) = match may_repair {
                true => self.args.fix.carry_out(&repairs, &transfers, store),
                false => Default::default(),
            };
            failed = failed.or(error);
            let repaired = applied.iter().filter(|row| row.is_done()).count();
            rows.push(RoundRow::new(audit, repaired));
        }
        failed.map_or(Ok(audits), Err)
    }
}

/// What may be repaired of an activity now. What raises the stock waits for all of the others. Nothing by order records that are
/// older than the sale: only a human knows whether they are of this one.
fn ready_of(audit: &Audit, is_ready: impl Fn(String) -> bool) -> (Vec<&Repair>, Vec<&BrokenTransfer>) {
    let plan = &audit.plan;
    if audit.records_are_older {
        return Default::default();
    }
    let mut repairs: Vec<&Repair> = plan.repairs.iter().filter(|repair| is_ready(key(repair))).collect();
    let transfers: Vec<_> = plan.transfers.iter().filter(|transfer| is_ready(key_of_transfer(transfer))).collect();
    if repairs.len() + transfers.len() < plan.repairs.len() + plan.transfers.len() {
        repairs.retain(|repair| !repair.raises_stock());
    }
    (repairs, transfers)
}

/// Names what a repair corrects, and the orders that it ends: the next order on its way to the database has as many units, and is
/// another, and so is that of the next sale. It stays the same if the user buys meanwhile.
fn key(repair: &Repair) -> String {
    let ended = repair.reversed().join("\t");
    // What is refunded meanwhile makes no other repair of the same orders.
    let gained = repair.from.filter(|_| ended.is_empty()).map(|from| signed(repair.to) - signed(from));
    let change = if ended.is_empty() { repair.stock_change } else { 0 };
    let user = repair.user.as_ref().map(ToString::to_string).unwrap_or_default();
    format!("{}\t{:?}\t{}\t{user}\t{gained:?}\t{change}\t{ended}", repair.activity, repair.epoch, repair.class.name())
}

fn key_of_transfer(transfer: &BrokenTransfer) -> String {
    format!("{}\t{}", transfer.class.name(), transfer.id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_order_on_its_way_is_not_as_old_as_the_one_before() {
        let ending = |id: &str| Repair { reversed: Some(vec![id.to_owned()]), ..Repair::sample() };
        assert_eq!(key(&ending("r1")), key(&Repair { from: Some(3), to: 2, ..ending("r1") }));
        assert_ne!(key(&ending("r1")), key(&ending("r2")));
        assert_ne!(key(&ending("r1")), key(&Repair { epoch: Some(9), ..ending("r1") }));
    }
}
