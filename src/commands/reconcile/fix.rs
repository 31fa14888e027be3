//! What is done about what differs: a plan, shown, written down or applied.

use std::collections::HashSet;

use anyhow::Result;
use serde::Serialize;

use crate::cli::Mutating;
use crate::commands::repair::{RepairRow, apply, total_moved};
use crate::inventory::audit::MissingOrders;
use crate::inventory::drift::Audit;
use crate::inventory::failure::{Exit, Failure, cause};
use crate::inventory::id::StoredUser;
use crate::inventory::repair::{Repair, Repaired};
use crate::output::{Cell, Format, Output, Row};
use crate::store::Store;

/// Flags about repairs.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Repair")]
pub struct FixArgs {
    /// Show the repairs, ask, and apply them
    ///
    /// Each is applied only if the data is still as audited.
    #[arg(long)]
    pub fix: bool,
    /// Refuse to do more repairs
    #[arg(long, value_name = "N", default_value = "100", requires = "fix")]
    pub max_repairs: usize,
    /// Write the repairs to a file for `seckill repair`
    #[arg(long, value_name = "FILE")]
    pub plan: Option<String>,
    /// Print missing orders as rows (CLASS: missing_order)
    ///
    /// They replace the report and are excluded from `--fix`: redeliver them with `deduct --from`.
    #[arg(long, value_name = "CLASS", value_enum, hide_possible_values = true, requires = "records")]
    pub emit: Option<Emit>,
    /// Reason, kept in the ledger
    #[arg(long, value_name = "TEXT", requires = "fix")]
    pub reason: Option<String>,
    #[command(flatten)]
    pub mutating: Mutating,
}

/// Differences that can be printed as order rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
#[value(rename_all = "snake_case")]
pub enum Emit {
    /// Units that were taken and that no order record has
    MissingOrder,
}

/// An order that no record has.
#[derive(Debug, Serialize)]
struct EmittedRow<'a> {
    activity: &'a str,
    user: Option<&'a str>,
    quantity: u64,
}

impl Row for EmittedRow<'_> {
    const FIELDS: &'static [&'static str] = &["activity", "user", "quantity"];
    const HEADINGS: &'static [&'static str] = Self::FIELDS;

    fn cells(&self) -> Vec<Cell> {
        vec![Cell::text(self.activity), Cell::text(self.user.unwrap_or_default()), Cell::number(self.quantity)]
    }
}

impl FixArgs {
    /// What is done about units that no order record has.
    pub fn missing_orders(&self) -> MissingOrders {
        if self.emit.is_some() { MissingOrders::Emit } else { MissingOrders::Repair }
    }

    /// Prints what is to be delivered again, a JSON object a line unless another form is asked for.
    pub fn print(audits: &[Audit], out: &mut Output) -> Result<()> {
        let rows = audits.iter().flat_map(|audit| {
            audit.missing_orders.iter().map(|missing| EmittedRow {
                activity: audit.activity.as_str(),
                user: missing.user.as_ref().and_then(StoredUser::text),
                quantity: missing.quantity,
            })
        });
        if out.format() == Format::Table {
            return rows.into_iter().try_for_each(|row| out.line(&serde_json::to_string(&row)?));
        }
        let mut stream = out.stream()?;
        for row in rows {
            stream.push(&row)?;
        }
        stream.finish()
    }

    /// Writes the plan to its file.
    pub fn write(&self, audits: &[Audit], out: &Output) -> Result<()> {
        let Some(path) = &self.plan else { return Ok(()) };
        let mut text = String::new();
        for repair in audits.iter().flat_map(|audit| &audit.plan.repairs) {
            text.push_str(&serde_json::to_string(repair)?);
            text.push('\n');
        }
        std::fs::write(path, &text)
            .map_err(|error| Failure::failed(format!("cannot write the plan `{path}`: {}", cause(&error))))?;
        out.note(format!("{} repairs written; apply them with `seckill repair {path}`", text.lines().count()));
        Ok(())
    }

    /// Applies the plans after asking, and says what became of each repair.
    ///
    /// # Errors
    /// Nothing was repaired: there are too many repairs, the records are not to be trusted, or nobody said yes.
    pub fn fix(
        &self,
        audits: &[Audit],
        untold: &HashSet<String>,
        store: &mut Store,
        out: &mut Output,
    ) -> Result<Vec<RepairRow>> {
        let repairs: Vec<&Repair> = audits.iter().flat_map(|audit| &audit.plan.repairs).collect();
        if let Some(audit) =
            audits.iter().find(|audit| untold.contains(audit.activity.as_str()) && !audit.plan.repairs.is_empty())
        {
            return Err(Failure::usage(format!(
                "the order records hold no row of `{}`, so nothing was repaired",
                audit.activity
            ))
            .hint("a truncated export looks just like this; name the activities that the records are about")
            .into());
        }
        for audit in audits {
            for (class, count, why) in &audit.plan.kept {
                out.warn(format!("{}: {count} {} not repaired: {why}", audit.activity, class.name()));
            }
        }
        if repairs.len() > self.max_repairs {
            return Err(Failure::new(
                Exit::Drift,
                format!(
                    "{} repairs are wanted, more than `--max-repairs {}`; nothing was repaired",
                    repairs.len(),
                    self.max_repairs
                ),
            )
            .hint("look at them first (`--plan FILE`), then raise `--max-repairs`")
            .into());
        }
        if repairs.is_empty() {
            return Ok(Vec::new());
        }
        if self.mutating.dry_run {
            let rows = repairs.iter().map(|repair| RepairRow::new(repair, Repaired::Planned)).collect();
            out.set_dry_run(true);
            return Ok(rows);
        }
        if out.format() == Format::Table && !self.mutating.yes {
            let rows: Vec<RepairRow> = repairs.iter().map(|repair| RepairRow::new(repair, Repaired::Planned)).collect();
            out.table(Some("plan"), &rows)?;
        }
        let what = total_moved(&repairs);
        out.confirm(&format!("Apply {} repairs ({what})?", repairs.len()), self.mutating.yes)?;
        apply(&repairs, false, self.reason.as_deref(), store)
    }
}
