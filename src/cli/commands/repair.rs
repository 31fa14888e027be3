//! `seckill repair`: apply a plan that `reconcile` wrote.

use std::collections::{HashMap, HashSet};

use anyhow::Context;

use crate::audit::apply;
use crate::audit::class::Class;
use crate::audit::ledger_state::transfers::BrokenTransfer;
use crate::audit::plan::repair::{Repair, Repaired};
use crate::cli::args::Mutating;
use crate::cli::failure::{Exit, Failure, Result};
use crate::cli::input::plan;
use crate::cli::interrupt;
use crate::cli::output::{Cell, Format, Output, Terminal, Tone, counted, row};
use crate::cli::shared::session::Session;
use crate::model::number::signed;
use crate::model::{ActivityId, StoredUser};
use crate::store::Store;

/// Apply a plan of repairs that reconcile wrote
///
/// Each repair is applied once, and only if the user's units are still as audited, in the ledger that was audited, else it
/// is `changed`. The same plan again is `replayed`. If the activity was reset since the audit, or a repair of it was
/// applied or tried, its repairs are `stale`.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "
# Write a plan, review it, apply it
seckill reconcile 1001 --plan plan.jsonl
seckill repair plan.jsonl --dry-run
seckill repair plan.jsonl
")]
pub struct RepairArgs {
    /// Plan of `reconcile --plan`; - is standard input
    #[arg(value_name = "FILE")]
    file: String,
    #[command(flatten)]
    mutating: Mutating,
}

row! {
    pub struct RepairRow as row from (repair: &Repair, status: Repaired) {
        activity: String = repair.activity.clone(), flexible;
        user: Option<StoredUser> = repair.user.clone(), flexible;
        class: Class = repair.class => Cell::text(row.class.name());
        table "units" => row.units_cell();
        data from: Option<u64> = repair.from;
        data to: u64 = repair.to;
        stock_change: i64 as "stock" = repair.stock_change => Cell::number(match row.stock_change {
            0 => "0".to_owned(),
            change => format!("{change:+}"),
        });
        status: Repaired = status => Cell::text(row.status.name()).tone(match row.status {
            Repaired::Ok => Tone::Good,
            Repaired::Replayed | Repaired::Planned => Tone::Info,
            _ => Tone::Bad,
        });
        data id: String = repair.id.clone();
        sparse user_hex: Option<String> = repair.user.as_ref().and_then(StoredUser::user_hex);
    }
    changed if row.status == Repaired::Ok
}

impl RepairRow {
    /// The row of a transfer between shards: of the one whose stock moves.
    pub fn of_transfer(transfer: &BrokenTransfer, status: Repaired) -> Self {
        let BrokenTransfer { class, id, donor, home, units, .. } = transfer;
        let arrives = *class != Class::UnbackedTransfer;
        Self {
            activity: if arrives { home } else { donor }.to_string(),
            user: None,
            class: *class,
            from: Some(0),
            to: 0,
            // By how much the repair moves the stock.
            stock_change: if arrives { signed(*units) } else { -signed(*units) },
            status,
            id: id.clone(),
            user_hex: None,
        }
    }

    pub fn is_done(&self) -> bool {
        self.status.is_done()
    }

    /// `2 → 3`: the user's units before and after it.
    fn units_cell(&self) -> Cell {
        let Self { user, from, to, .. } = self;
        match (user, from) {
            (None, Some(from)) if from == to => Cell::unknown(),
            (_, Some(from)) if from == to => Cell::text(format!("{to} recorded")),
            (_, Some(from)) => Cell::text(format!("{from} → {to}")),
            (_, None) => Cell::text(format!("? → {to}")),
        }
    }
}

/// Applies a plan.
pub fn run(args: &RepairArgs, session: &mut Session) -> Result<Exit> {
    let repairs = plan::read(&args.file)?;
    let Some(first) = repairs.first() else {
        session.out.note(format!("`{}` holds no repairs", args.file));
        if session.out.format() != Format::Table {
            session.out.array::<RepairRow>(&[])?;
        }
        return Ok(Exit::Done);
    };
    if let Some(other) = repairs.iter().find(|repair| repair.layout != first.layout) {
        return Err(Failure::usage(format!(
            "`{}` has repairs of the layouts `{}` and `{}`",
            args.file,
            first.layout.name(),
            other.layout.name()
        ))
        .hint("apply those of each layout by themselves"));
    }
    let layout = session.layout(Some(first.layout))?;
    // An audit of a sharded activity names the shards to repair.
    let mut store = session.store_to_change(layout, &args.mutating, [])?;
    let repairs: Vec<&Repair> = repairs.iter().collect();
    let out = &mut session.out;
    if !args.mutating.dry_run && !args.mutating.yes {
        confirm(&repairs, &[], out)?;
    }
    let (rows, error) = apply(&repairs, &args.mutating, &mut store);
    let shown = out.array_until(&rows, error);
    hint(&rows, out);
    shown?;
    Ok(Exit::done_if(rows.iter().all(RepairRow::is_done)))
}

/// Says what to do about repairs that were not applied.
pub fn hint(rows: &[RepairRow], out: &Output) {
    let is_stale = rows.iter().any(|row| row.status == Repaired::Stale);
    if is_stale {
        out.hint("it was reset since the audit, or a repair was applied or tried: run `seckill reconcile` again");
    }
    let is_short = |row: &&RepairRow| row.status == Repaired::OutOfStock;
    if let Some(row) = rows.iter().find(is_short) {
        out.hint(match row.class {
            Class::UnbackedTransfer => {
                "its shards have too few units: `seckill refund` returns what is sold; then audit again"
            }
            _ => {
                "more is sold than there is: `seckill preheat --update --stock N` raises the total, or `seckill refund` gives units back; \
                 `seckill pause --withdraw-stock` first, or they are sold at once; then audit again with `--fix`, before `seckill resume`"
            }
        });
    }
    let has_moved = |row: &RepairRow| match row.status {
        Repaired::ExceedsBought | Repaired::ExceedsTotal | Repaired::RequestConflict => true,
        status => status == Repaired::Changed && row.user.is_some(),
    };
    if !is_stale && rows.iter().any(has_moved) {
        out.hint("it is not as it was audited: run `seckill reconcile` again; if that shows the same, a script of yours returned units that are held open: `--orders FILE` records them again");
    }
    if rows.iter().any(|row| row.status == Repaired::NotPreheated) {
        out.hint(
            "was it archived, or is this another server? `seckill preheat --restore DIR` brings an archived one back",
        );
    }
    if rows.iter().any(|row| row.status == Repaired::Changed && row.user.is_none()) {
        out.hint(
            "units were sold or given back since the audit: pause the sale (`--withdraw-stock` if a backend sells with \
             a plain script), then run `seckill reconcile` again",
        );
    }
}

/// A row of each repair that was decided, in their order, and why there are no more.
pub type AppliedRepairs = (Vec<RepairRow>, Option<Failure>);

/// Applies repairs, those of one activity and one audit at a time.
pub fn apply(repairs: &[&Repair], mutating: &Mutating, store: &mut Store) -> AppliedRepairs {
    let Mutating { reason, dry_run, .. } = mutating;
    // Those of an audit belong together, wherever a plan has them; of the shards of an activity those come last that get units back.
    let mut first = HashMap::new();
    let mut repairs: Vec<&Repair> = repairs.to_vec();
    let raising: HashSet<_> = repairs.iter().filter(|repair| repair.raises_stock()).map(|it| it.audit()).collect();
    for (at, repair) in repairs.iter().enumerate() {
        first.entry((whole_of(repair), None)).or_insert(at);
        first.entry((whole_of(repair), Some(repair.audit()))).or_insert(at);
    }
    repairs.sort_by_cached_key(|it| {
        (first[&(whole_of(it), None)], raising.contains(&it.audit()), first[&(whole_of(it), Some(it.audit()))])
    });
    interrupt::stop_gracefully();
    let mut rows = Vec::new();
    // Activities with a shard that lacks what comes before any raise: their units are needed there.
    let mut short = HashSet::new();
    let groups = repairs.chunk_by(|one, other| one.audit() == other.audit());
    let failed = groups.into_iter().try_for_each(|group| {
        if interrupt::requested() {
            return Err(interrupted(rows.len(), repairs.len()));
        }
        let activity: ActivityId = group[0].activity.parse().context("the activity of a repair")?;
        let is_late = |repair: &&Repair| short.contains(&whole_of(repair)) && repair.raises_stock();
        let (late, now): (Vec<&Repair>, Vec<&Repair>) = group.iter().copied().partition(is_late);
        let done = if now.is_empty() {
            Vec::new()
        } else {
            apply::repair(store, &activity, &now, *dry_run, reason.as_deref())?
        };
        let lacks = |(repair, done): (&&Repair, &Repaired)| !repair.raises_stock() && !done.is_done();
        if activity.parent().is_some() && now.iter().zip(&done).any(lacks) {
            short.insert(whole_of(group[0]));
        }
        rows.extend(now.iter().zip(done).map(|(repair, status)| RepairRow::new(repair, status)));
        rows.extend(late.iter().map(|repair| RepairRow::new(repair, Repaired::Stale)));
        Ok(())
    });
    (rows, failed.err())
}

/// The activity that a repair is of, whichever of its shards.
fn whole_of(repair: &Repair) -> String {
    repair.activity.parse::<ActivityId>().map_or_else(|_| repair.activity.clone(), |id| id.whole().to_string())
}

fn interrupted(done: usize, all: usize) -> Failure {
    Failure::new(Exit::Interrupted, format!("interrupted after {done} of {all} repairs"))
        .hint("give the same command again: a repair that was applied is never applied twice")
}

/// Repairs of a plan that are shown before a question; of more only the number is.
const MAX_SHOWN: usize = 100;

/// Asks whether to apply repairs, of transfers too, and shows them first, on standard error as the question.
///
/// # Errors
/// Nobody said yes.
pub fn confirm(repairs: &[&Repair], transfers: &[&BrokenTransfer], out: &Output) -> Result<()> {
    let planned = |repair: &&Repair| RepairRow::new(repair, Repaired::Planned);
    let of_transfer = |transfer: &&BrokenTransfer| RepairRow::of_transfer(transfer, Repaired::Planned);
    let rows: Vec<RepairRow> = transfers.iter().map(of_transfer).chain(repairs.iter().map(planned)).collect();
    if out.terminal().asks {
        show_plan(&rows, out)?;
    }
    let sum = |raised: bool| {
        let changes = rows.iter().map(|row| row.stock_change).filter(|change| (*change > 0) == raised);
        changes.map(i64::unsigned_abs).fold(0, u64::saturating_add)
    };
    let (count, back) = (counted(rows.len(), "repair"), counted(sum(true), "unit"));
    out.confirm(&format!("Apply {count} ({back} back to stock, {} out of stock)?", sum(false)), false)
}

fn show_plan(rows: &[RepairRow], out: &Output) -> Result<()> {
    let terminal = out.terminal();
    let terminal = Terminal { colours_data: terminal.colours_notes, ..terminal };
    let shown = &rows[..rows.len().min(MAX_SHOWN)];
    let mut stderr = Output::to(std::io::stderr(), Format::Table, terminal);
    // A table keeps its distance from what was written before, which the report on standard output was.
    stderr.text("");
    stderr.table(Some("plan"), shown)?;
    if rows.len() > shown.len() {
        out.note(format!("{} more repairs; `--plan FILE` writes all of them", rows.len() - shown.len()));
    }
    Ok(())
}
