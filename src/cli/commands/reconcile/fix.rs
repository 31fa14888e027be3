//! What is done about what differs: a plan, shown, written down or applied.

use std::path::PathBuf;

use anyhow::Context;

use crate::audit::apply;
use crate::audit::ledger_state::transfers::BrokenTransfer;
use crate::audit::plan::repair::{Repair, Repaired};
use crate::audit::result::{Audit, Verdict};
use crate::cli::args::Mutating;
use crate::cli::commands::repair::{AppliedRepairs, RepairRow, apply, confirm, hint};
use crate::cli::failure::{Exit, Failure, Result};
use crate::cli::output::{Output, OutputFile, counted};
use crate::cli::shared::outcome::until_failed;
use crate::model::number::between;
use crate::model::shell_quoted;
use crate::store::Store;

/// Flags about repairs.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Repair")]
#[command(mut_arg("reason", |arg| arg.requires("fix")))]
#[command(mut_arg("yes", |arg| arg.requires("fix")))]
#[command(mut_arg("wait_replicas", |arg| arg.requires("fix")))]
#[command(mut_arg("confirm", |arg| arg.requires("fix").help("Name of the protected context that is repaired").long_help(
    "Name of the protected context that is repaired\n\nIt answers for scripts; `--yes` alone does not. If the server is of no \
     context, or of another, nothing is changed.",
)))]
pub(super) struct FixArgs {
    /// Show the repairs, ask, and apply them
    ///
    /// Each is applied only if the data is still as audited.
    #[arg(long)]
    pub fix: bool,
    /// Refuse to do more repairs
    #[arg(long, value_name = "N", default_value = "100", requires = "fix", allow_hyphen_values = true, value_parser = between::<usize>(0, 1_000_000))]
    pub max_repairs: usize,
    /// Write the repairs to a file for `seckill repair`
    #[arg(long, value_name = "FILE")]
    pub plan: Option<PathBuf>,
    /// Print missing orders as rows (CLASS: missing_order)
    ///
    /// They replace the report and are excluded from `--fix`. The units are sold: deliver the rows to your order
    /// database again, not to `deduct`.
    #[arg(long, value_name = "CLASS", value_parser = ["missing_order"], hide_possible_values = true, requires = "records")]
    pub emit: Option<String>,
    #[command(flatten)]
    pub mutating: Mutating,
}

impl FixArgs {
    /// Refuses `--fix` if it could only be answered on a terminal that is not there: before the audit, and not only on
    /// the night on which something differs.
    pub(super) fn check(&self, out: &Output) -> Result<()> {
        if self.fix && !self.mutating.yes && !self.mutating.dry_run && !out.terminal().asks {
            return Err(Failure::usage("`--fix` needs confirmation, but stdin is no terminal")
                .hint("`--yes` answers for scripts; `--dry-run` shows what would happen"));
        }
        Ok(())
    }

    /// Writes the plan to its file.
    pub(super) fn write(&self, audits: &[Audit], mut file: OutputFile, out: &Output) -> Result<()> {
        if !self.fix {
            warn_of_kept(audits, out);
        }
        let mut count = 0u64;
        for repair in repairs(audits) {
            let mut line = serde_json::to_vec(repair).context("cannot encode a repair")?;
            line.push(b'\n');
            file.append(&line)?;
            count += 1;
        }
        let path = file.path.display().to_string();
        file.commit()?;
        let transfers: usize = audits.iter().map(|audit| audit.plan.transfers.len()).sum();
        if transfers > 0 {
            out.note(format!(
                "without {}: only `reconcile --fix` repairs what shards lent",
                counted(transfers, "transfer between shards")
            ));
        }
        let is_all = transfers == 0 && audits.iter().all(|audit| audit.plan.kept.is_empty());
        out.note(match (count, is_all) {
            (0, true) => format!("`{path}` is empty: there is nothing to repair"),
            (0, false) => format!("`{path}` is empty: it has no repair of what differs"),
            _ => format!(
                "{} written: `seckill repair {}` applies what it has",
                counted(count, "repair"),
                shell_quoted(&path)
            ),
        });
        Ok(())
    }

    /// Applies the plans after asking.
    ///
    /// # Errors
    /// Nothing was repaired: there are too many repairs, or nobody said yes.
    pub(super) fn fix(&self, audits: &[Audit], store: &mut Store, out: &Output) -> Result<AppliedRepairs> {
        warn_of_kept(audits, out);
        let repairs: Vec<&Repair> = repairs(audits).collect();
        let transfers: Vec<&BrokenTransfer> = audits.iter().flat_map(|audit| &audit.plan.transfers).collect();
        let wanted = repairs.len() + transfers.len();
        if wanted > self.max_repairs {
            return Err(Failure::new(
                Exit::Drift,
                format!(
                    "{} wanted, more than `--max-repairs {}`; nothing was repaired",
                    counted(wanted, "repair"),
                    self.max_repairs
                ),
            )
            .hint("look at them first (`--plan FILE`), then raise `--max-repairs`"));
        }
        let is_dry = self.mutating.dry_run;
        if wanted > 0 && !is_dry && !self.mutating.yes {
            confirm(&repairs, &transfers, out)?;
        }
        let (rows, error) = self.carry_out(&repairs, &transfers, store);
        hint(&rows, out);
        Ok((rows, error))
    }

    /// Repairs transfers between shards, and only then the rest.
    pub(super) fn carry_out(
        &self,
        repairs: &[&Repair],
        transfers: &[&BrokenTransfer],
        store: &mut Store,
    ) -> AppliedRepairs {
        let is_dry = self.mutating.dry_run;
        let (mut rows, mut error) = until_failed(transfers.iter().map(|transfer| {
            let status = if is_dry { Repaired::Ok } else { apply::repair_transfer(store, transfer)? };
            Ok(RepairRow::of_transfer(transfer, status))
        }));
        if error.is_none() {
            let (repaired, failed) = apply(repairs, &self.mutating, store);
            rows.extend(repaired);
            error = failed;
        }
        (rows, error)
    }

    /// What an activity is once all repairs of all plans are applied: in order if it drifted, and all of it could be repaired.
    pub(super) fn verdict_after(&self, audit: &Audit) -> Verdict {
        let is_emitted = self.emit.is_some() && !audit.missing_orders.is_empty();
        let is_planned = !audit.plan.repairs.is_empty() || !audit.plan.transfers.is_empty();
        match audit.verdict {
            Verdict::Drift if is_planned && audit.plan.kept.is_empty() && !is_emitted => Verdict::Match,
            verdict => verdict,
        }
    }
}

/// Says what no repair corrects, and why.
fn warn_of_kept(audits: &[Audit], out: &Output) {
    for audit in audits {
        for (class, count, why) in &audit.plan.kept {
            out.warn(format!("{}: {count} {} not repaired: {why}", audit.activity, class.name()));
        }
    }
}

fn repairs(audits: &[Audit]) -> impl Iterator<Item = &Repair> {
    audits.iter().flat_map(|audit| &audit.plan.repairs)
}
