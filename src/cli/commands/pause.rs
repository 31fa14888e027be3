//! `seckill pause` and `seckill resume`: refuse every purchase for a while, and allow them again.

use crate::admin::pause::{self, Pause, Paused, Pausing};
use crate::cli::args::Mutating;
use crate::cli::failure::{Exit, Result};
use crate::cli::output::{Output, counted, row};
use crate::cli::shared::outcome::{each_reached, warn_of_corrupt};
use crate::cli::shared::{hints, selection};
use crate::model::{ActivityId, Corrupt, Snapshot, Status};
use crate::read::whole;
use crate::store::Store;

/// Refuse all purchases of an activity until it is resumed
///
/// Purchases return `paused`; refunds and audits continue. A backend's plain script ignores this, unless the stock is
/// withdrawn: an activity with `ledger: false`, which such a script sells, is `paused_here_only` (exit 3) without it.
#[derive(Debug, clap::Args)]
#[command(override_usage = "seckill pause [OPTIONS] ACTIVITY...|--all")]
#[command(after_long_help = "
seckill pause 1001 1002 --reason 'wrong price'
# The emergency stop: after one question, or at once with --yes
seckill pause 'sku-*'
seckill pause --all --withdraw-stock --yes
")]
pub struct PauseArgs {
    #[command(flatten)]
    pub(super) which: ActivityArgs,
    /// Stop plain scripts too: move the stock aside
    ///
    /// Until `resume` they find 0 units, and what they give back themselves: pause again then.
    #[arg(long)]
    withdraw_stock: bool,
}

/// Allow purchases of a paused activity again
///
/// A withdrawn stock returns, with what was refunded to it meanwhile.
#[derive(Debug, clap::Args)]
#[command(override_usage = "seckill resume [OPTIONS] ACTIVITY...|--all")]
#[command(after_long_help = "
seckill resume 1001 1002
seckill resume --all
")]
pub struct ResumeArgs {
    #[command(flatten)]
    pub(super) which: ActivityArgs,
}

#[derive(Debug, clap::Args)]
pub(super) struct ActivityArgs {
    /// Activities to pause or resume, or patterns such as 'sku-*'
    #[arg(value_name = "ACTIVITY", required_unless_present = "all")]
    pub(super) activities: Vec<ActivityId>,
    /// All preheated activities
    #[arg(long, conflicts_with = "activities")]
    all: bool,
    #[command(flatten)]
    pub(super) mutating: Mutating,
}

row! {
    struct PauseRow<'a> as row from (id: &'a ActivityId, paused: &Paused) {
        activity: &'a str = id.as_str(), flexible;
        status: Status = paused.status;
        state: Option<String> = paused.state.clone();
    }
    changed if matches!(row.status, Status::Ok | Status::PausedHereOnly)
}

/// Pauses.
pub fn pause(args: &PauseArgs, store: &mut Store, out: &mut Output) -> Result<Exit> {
    set(&args.which, Pause::Pause { withdraw_stock: args.withdraw_stock }, store, out)
}

/// Resumes.
pub fn resume(args: &ResumeArgs, store: &mut Store, out: &mut Output) -> Result<Exit> {
    set(&args.which, Pause::Resume, store, out)
}

fn set(which: &ActivityArgs, to: Pause, store: &mut Store, out: &mut Output) -> Result<Exit> {
    let dry_run = which.mutating.dry_run;
    let pausing = Pausing { to, reason: which.mutating.reason.as_deref(), dry_run };
    let activities = chosen(which, to, store, out)?;
    let mut reached: Vec<Option<Paused>> = vec![None; activities.len()];
    let failed = each_reached(&activities, store, |at, store| {
        let paused = pause::set_reached(store, &activities[at], pausing)?;
        let (moved, was_partial) = reached[at].as_ref().map_or((0, false), |before| (before.moved, before.is_partial));
        let (moved, is_partial) =
            (paused.moved + moved, paused.is_partial || was_partial && paused.unreached.is_some());
        let paused = reached[at].insert(Paused { moved, is_partial, ..paused });
        paused.unreached.clone().map_or(Ok(()), Err)
    });
    // Some shards may be paused.
    let is_partial = reached.iter().flatten().any(|paused| paused.is_partial);
    let failed = failed.map(|failure| if is_partial { failure.in_part() } else { failure });
    let mut reached: Vec<(&ActivityId, Paused)> =
        activities.iter().zip(reached).filter_map(|(activity, paused)| Some((activity, paused?))).collect();
    let mut warnings = out.warnings();
    for (activity, paused) in &reached {
        match &paused.corrupt {
            Some(Corrupt { key, what }) if paused.is_partial => warnings.warn(format!("key `{key}` {what}")),
            corrupt => warn_of_corrupt(&mut warnings, corrupt.as_ref()),
        }
        explain(activity, paused, to, dry_run, out);
    }
    warnings.end();
    // An archived activity is an error only if it is named.
    let archived: Vec<&ActivityId> = reached
        .extract_if(.., |(activity, paused)| {
            paused.status == Status::Ended && !paused.is_partial && !which.activities.contains(activity)
        })
        .map(|(activity, _)| activity)
        .collect();
    if !archived.is_empty() {
        out.note(format!("archived, and left as before: {}", selection::in_words(&archived)));
    }
    reached.retain(|(_, paused)| paused.unreached.is_none());
    let rows: Vec<PauseRow<'_>> = reached.iter().map(|(activity, paused)| PauseRow::new(activity, paused)).collect();
    out.array_until(&rows, failed)?;
    let of_status = |status| {
        let matching = reached.iter().filter(move |(_, paused)| paused.status == status);
        matching.map(|(activity, _)| *activity).collect::<Vec<_>>()
    };
    let is_changed = !of_status(Status::Ok).is_empty();
    let is_plain_pause = to == Pause::Pause { withdraw_stock: false } && of_status(Status::PausedHereOnly).is_empty();
    if is_plain_pause && (is_changed || sells_elsewhere(&of_status(Status::Replayed), store)) {
        out.note("a backend's plain script ignores this; `--withdraw-stock` stops it too");
    }
    hints::other_layouts(of_status(Status::NotPreheated), store, out);
    // Nor does a replica refuse what changes nothing.
    hints::warn_of_dry_replica(dry_run || !is_changed, store, out);
    Ok(Exit::done_if(rows.iter().all(|row| row.status.is_done())))
}

/// Whether a plain script may sell an activity that was paused before: one whose stock is not withdrawn.
fn sells_elsewhere(paused: &[&ActivityId], store: &mut Store) -> bool {
    let paused: Vec<ActivityId> = paused.iter().copied().cloned().collect();
    let is_withdrawn = |snapshot: &Snapshot| {
        let withdrawn = snapshot.meta.as_ref().and_then(|meta| meta.withdrawn);
        withdrawn.is_some() && withdrawn == snapshot.stock
    };
    // A user who may not ask gets the note.
    whole::wholes(store, &paused).map_or(true, |snapshots| !snapshots.iter().all(is_withdrawn))
}

/// The activities in the order of the arguments. Those that no argument names are changed after one question.
fn chosen(which: &ActivityArgs, to: Pause, store: &mut Store, out: &Output) -> Result<Vec<ActivityId>> {
    let activities = selection::resolve(&which.activities, store)?;
    let (to_do, verb) = if to == Pause::Resume { ("resume", "Resume") } else { ("pause", "Pause") };
    if activities.is_empty() {
        return Err(hints::nothing_to(to_do, store));
    }
    let is_unnamed = which.all || which.activities.iter().any(selection::is_pattern);
    if is_unnamed && !which.mutating.dry_run {
        let question = format!("{verb} {} on `{}`?", selection::in_words(&activities), store.server_name());
        out.confirm(&question, which.mutating.yes)?;
    }
    Ok(activities)
}

/// What a row has no room for.
fn explain(activity: &ActivityId, paused: &Paused, to: Pause, dry_run: bool, out: &Output) {
    if paused.is_foreign {
        out.note(format!("`{activity}` was created by another system: nothing here says whether it is paused"));
        out.hint(format!("{} takes it over; then it can be paused", hints::preheat(activity, "--adopt")));
    }
    if let Some(lost) = &paused.lost_stock {
        out.warn(format!("the stock key of `{lost}` is gone (evicted? expired?): no units can move"));
        out.hint(format!(
            "`seckill reconcile {activity:#} --fix` restores it if a whole ledger proves how many are left; otherwise \
             it needs all order records (`--orders FILE`)"
        ));
    }
    if paused.is_unfinished {
        out.warn(format!("the preheat of the shards of `{activity}` is unfinished: nobody can buy it yet"));
        out.hint(format!(
            "`seckill inspect {activity:#}` shows it; the `preheat` that began it, given again, finishes it"
        ));
    }
    if paused.is_partial && to == Pause::Resume {
        out.warn(format!("`{activity}` is resumed in part: some of its shards sell, others may still be paused"));
        out.hint(format!(
            "`seckill resume {activity:#}` resumes the others, `seckill pause {activity:#}` stops all of them"
        ));
    } else if paused.is_partial && paused.unreached.is_some() {
        let do_not = if dry_run { "would not" } else { "do not" };
        out.warn(format!(
            "`{activity}` is not reached as a whole: of its shards, only those that are reached {do_not} sell"
        ));
    } else if paused.is_partial {
        let would_be = if dry_run { "would be" } else { "are" };
        out.warn(format!("a shard of `{activity}` cannot be paused; all others {would_be}"));
    }
    if paused.status == Status::Exists {
        out.warn(format!("an adoption of `{activity}` is unfinished: it still needs the stock to be withdrawn"));
        out.hint(format!(
            "{} resumes the adoption, which returns the stock; if it was paused meanwhile, `seckill resume {activity:#}` does so then",
            hints::preheat(activity, "--adopt")
        ));
    }
    if paused.status == Status::PausedHereOnly {
        out.warn(format!(
            "`{activity}` has no ledger because a backend sells it with a plain script, which still sells"
        ));
        out.hint(format!("`seckill pause {activity:#} --withdraw-stock` stops that too"));
    }
    if paused.moved > 0 {
        let units = counted(paused.moved, "unit");
        out.note(match (to, dry_run) {
            (Pause::Resume, false) => format!("{units} of `{activity}` returned to its stock"),
            (Pause::Resume, true) => format!("{units} of `{activity}` would return to its stock"),
            (_, false) => format!("{units} of `{activity}` withdrawn: `seckill resume {activity:#}` returns them"),
            (_, true) => format!("{units} of `{activity}` would be withdrawn"),
        });
    }
}
