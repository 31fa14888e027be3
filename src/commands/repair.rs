//! `seckill repair`: apply a plan that `reconcile` wrote.

use anyhow::Result;
use serde::Serialize;

use super::session::Session;
use crate::cli::Mutating;
use crate::input::plan;
use crate::inventory::drift::Class;
use crate::inventory::failure::{Exit, Failure};
use crate::inventory::id::StoredUser;
use crate::inventory::repair::{Repair, Repaired};
use crate::output::{Cell, Row, Tone};
use crate::store::Store;

/// Apply a plan of repairs that reconcile wrote
///
/// Each repair is applied where everything still is as the audit found it, and once: the same plan again is
/// `replayed`. Where somebody else repaired or reset the activity since, its repairs are `stale`.
#[derive(Debug, clap::Args)]
pub struct RepairArgs {
    /// Plan of `reconcile --plan`; - is standard input
    #[arg(value_name = "FILE")]
    file: String,
    /// Reason, kept in the ledger
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    #[command(flatten)]
    mutating: Mutating,
}

/// One repair, and what became of it.
#[derive(Debug, Serialize)]
pub struct RepairRow {
    activity: String,
    user: Option<StoredUser>,
    class: Class,
    from: Option<u64>,
    to: u64,
    stock_change: i64,
    status: Repaired,
    id: String,
}

impl RepairRow {
    /// The row of a repair.
    pub fn new(repair: &Repair, status: Repaired) -> Self {
        Self {
            activity: repair.activity.clone(),
            user: repair.user.clone(),
            class: repair.class,
            from: repair.from,
            to: repair.to,
            stock_change: repair.stock_change,
            status,
            id: repair.id.clone(),
        }
    }

    /// Whether it is in force.
    pub fn is_done(&self) -> bool {
        self.status.is_done()
    }
}

impl Row for RepairRow {
    const FIELDS: &'static [&'static str] =
        &["activity", "user", "class", "from", "to", "stock_change", "status", "id"];
    const HEADINGS: &'static [&'static str] = &["activity", "user", "class", "units", "stock", "status"];

    fn cells(&self) -> Vec<Cell> {
        let units = match (&self.user, self.from == Some(self.to)) {
            (None, true) => Cell::unknown(),
            (_, true) => Cell::text(format!("{} noted", self.to)),
            _ => match self.from {
                Some(from) => Cell::text(format!("{from} → {}", self.to)),
                None => Cell::text(format!("? → {}", self.to)),
            },
        };
        let tone = match self.status {
            Repaired::Ok => Tone::Good,
            Repaired::Replayed | Repaired::Planned => Tone::Info,
            _ => Tone::Bad,
        };
        vec![
            Cell::text(&self.activity).flexible(),
            self.user.as_ref().map_or_else(Cell::unknown, |user| Cell::text(user.to_string()).flexible()),
            Cell::text(self.class.name()),
            units,
            Cell::number(if self.stock_change == 0 { "0".to_owned() } else { format!("{:+}", self.stock_change) }),
            Cell::text(self.status.name()).tone(tone),
        ]
    }

    fn is_change(&self) -> bool {
        self.status == Repaired::Ok
    }
}

/// Applies a plan.
pub fn run(args: &RepairArgs, session: &mut Session) -> Result<Exit> {
    let repairs = plan::read(&args.file)?;
    let Some(first) = repairs.first() else {
        session.out.note(format!("`{}` holds no repairs", args.file));
        return Ok(Exit::Done);
    };
    if let Some(other) = repairs.iter().find(|repair| repair.layout != first.layout) {
        return Err(Failure::usage(format!(
            "`{}` has repairs of the layouts `{}` and `{}`",
            args.file,
            first.layout.name(),
            other.layout.name()
        ))
        .hint("apply those of each layout by themselves")
        .into());
    }
    let mut store = session.store(session.layout(Some(first.layout))?)?;
    let repairs: Vec<&Repair> = repairs.iter().collect();
    if !args.mutating.dry_run {
        let what = total_moved(&repairs);
        session.out.confirm(&format!("Apply {} repairs ({what})?", repairs.len()), args.mutating.yes)?;
    }
    let rows = apply(&repairs, args.mutating.dry_run, args.reason.as_deref(), &mut store)?;
    session.out.set_dry_run(args.mutating.dry_run);
    session.out.array(&rows)?;
    if rows.iter().any(|row| row.status == Repaired::Stale) {
        session.out.hint("it was reset or repaired since the audit: run `seckill reconcile` again");
    }
    Ok(if rows.iter().all(RepairRow::is_done) { Exit::Done } else { Exit::Refused })
}

/// Applies repairs, those of one activity and one audit at a time, and says what became of each.
pub fn apply(repairs: &[&Repair], dry_run: bool, reason: Option<&str>, store: &mut Store) -> Result<Vec<RepairRow>> {
    let same = |one: &&Repair, other: &&Repair| {
        (&one.activity, one.epoch, one.repairs) == (&other.activity, other.epoch, other.repairs)
    };
    let mut rows = Vec::with_capacity(repairs.len());
    for group in repairs.chunk_by(same) {
        let done = store.repair(&group[0].activity.parse()?, group, dry_run, reason)?;
        rows.extend(group.iter().zip(done).map(|(repair, status)| RepairRow::new(repair, status)));
    }
    Ok(rows)
}

/// What repairs do to stocks, in words.
pub fn total_moved(repairs: &[&Repair]) -> String {
    let sum = |raised: bool| {
        let changes = repairs.iter().map(|repair| repair.stock_change).filter(|change| (*change > 0) == raised);
        changes.map(i64::unsigned_abs).sum::<u64>()
    };
    format!("{} units back to stock, {} out of stock", sum(true), sum(false))
}
