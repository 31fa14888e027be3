//! Shows the plan, asks, applies it, and shows what came of it.

use std::collections::{BTreeMap, HashSet};

use crate::admin::{activities, preheat};
use crate::cli::commands::preheat::explain::PreheatRow;
use crate::cli::commands::preheat::{PreheatArgs, explain};
use crate::cli::error::advice;
use crate::cli::failure::{Exit, Failure, Result};
use crate::cli::output::{Format, Output};
use crate::cli::shared::hints;
use crate::model::activity::{Action, Plan, Preheat, Preheated};
use crate::model::id::ActivityId;
use crate::model::status::Status;
use crate::store::Store;

/// Rows of a plan that a terminal shows before it asks; the others are counted.
const MAX_PLANNED: usize = 20;

/// Shows the plan or carries it out, one activity at a time.
pub(super) fn apply(plans: &[Plan], args: &PreheatArgs, store: &mut Store, out: &mut Output) -> Result<Exit> {
    let how = match (args.update, args.if_total, args.reset) {
        (true, Some(total), _) => Preheat::UpdateFrom(total.get()),
        (true, None, _) => Preheat::Update,
        (_, _, true) => Preheat::Reset,
        _ => Preheat::Create,
    };
    let reason = args.mutating.reason.as_deref();
    explain::warn_of_past(plans, out);
    let planned = plan(plans, how, store, out)?;
    if planned.iter().any(|result| result.shards.is_some()) {
        out.choose(&["shards"]);
    }
    let mut results = planned.clone();
    let mut failed = None;
    let mut is_explained = false;
    if !args.mutating.dry_run {
        let question = if args.mutating.yes { None } else { explain::question_of_reset(&planned, store)? };
        if let Some(question) = question {
            is_explained = show_plan(&planned, how, out)?;
            out.confirm(&question, false)?;
        }
        warn_of_eviction(store, out);
        // What an earlier call made so is waited for too.
        let unchanged = results.iter().filter(|result| result.action == Action::Unchanged);
        unchanged.for_each(|result| store.changed(&result.activity));
        failed = carry_out(plans, how, reason, store, &mut results, out).err();
    }
    let missing = results.iter().filter(|result| result.status == Status::NotPreheated);
    hints::other_layouts(missing.map(|result| &result.activity), store, out);
    hints::order_sets(results.iter().map(|result| &result.activity), store, out);
    if !is_explained || results != planned && results.iter().any(|result| !result.status.is_done()) {
        explain(&results, how, out);
    }
    explain::show(&results, failed, out)
}

/// What would become of each activity.
pub fn plan(plans: &[Plan], how: Preheat, store: &mut Store, out: &Output) -> Result<Vec<Preheated>> {
    let progress = out.progress("planning", plans.len() as u64);
    let all: Vec<&Plan> = plans.iter().collect();
    let mut planned = BTreeMap::new();
    preheat::preheat_all(store, &all, how, true, None, |plan, result| {
        progress.inc(1);
        planned.insert(plan, result);
    })?;
    progress.finish();
    Ok(planned.into_values().collect())
}

/// Shows a person what the question is about: false if only the result is shown.
fn show_plan(planned: &[Preheated], how: Preheat, out: &mut Output) -> Result<bool> {
    if out.format() != Format::Table || !out.terminal().shows_data {
        return Ok(false);
    }
    let concerned: Vec<&Preheated> = planned.iter().filter(|result| result.action != Action::Unchanged).collect();
    if concerned.is_empty() {
        return Ok(false);
    }
    let rows: Vec<PreheatRow<'_>> =
        concerned.iter().take(MAX_PLANNED).map(|result| PreheatRow::new(result, true)).collect();
    out.table(Some("Plan"), &rows)?;
    if concerned.len() > MAX_PLANNED {
        out.note(format!("and {} activities more", concerned.len() - MAX_PLANNED));
    }
    explain(planned, how, out);
    Ok(true)
}

/// Does what was planned. If that fails, only the results of what was done, or needed nothing, are left.
fn carry_out(
    plans: &[Plan],
    how: Preheat,
    reason: Option<&str>,
    store: &mut Store,
    results: &mut Vec<Preheated>,
    out: &Output,
) -> Result<()> {
    let unchanged: Vec<&ActivityId> =
        results.iter().filter(|result| result.action == Action::Unchanged).map(|result| &result.activity).collect();
    preheat::restore_index(store, &unchanged)?;
    let moves = |result: &Preheated| {
        matches!(result.action, Action::Create | Action::Update | Action::Reset) && result.status == Status::Ok
    };
    let due: Vec<usize> = (0..plans.len()).filter(|plan| moves(&results[*plan])).collect();
    let progress = out.progress("preheating", due.len() as u64);
    let mut left: HashSet<usize> = due.iter().copied().collect();
    // What a reset found absent is only created: nobody was asked about what another system made meanwhile.
    let (created, others): (Vec<usize>, Vec<usize>) =
        due.iter().partition(|plan| how == Preheat::Reset && results[**plan].action == Action::Create);
    let mut done = Ok(());
    for (how, group) in [(Preheat::Create, created), (how, others)] {
        let group_plans: Vec<&Plan> = group.iter().map(|plan| &plans[*plan]).collect();
        done = preheat::preheat_all(store, &group_plans, how, false, reason, |at, result| {
            progress.inc(1);
            results[group[at]] = result.of_plan(&results[group[at]]);
            left.remove(&group[at]);
        });
        if done.is_err() {
            break;
        }
    }
    progress.finish();
    let Err(error) = done else { return Ok(()) };
    let (advice, mut failure) = (advice(&error), Failure::from(error));
    if left.len() < due.len() {
        out.warn(format!("{} of {} activities are done, as shown", due.len() - left.len(), due.len()));
        // Without a word that nothing was changed.
        failure.hint = advice;
    }
    let mut plan = 0;
    results.retain(|_| {
        plan += 1;
        !left.contains(&(plan - 1))
    });
    Err(failure)
}

/// Stock that is evicted in mid-sale is lost.
fn warn_of_eviction(store: &mut Store, out: &Output) {
    // A server that does not let us ask is not worth an error.
    if let Ok(Some(policy)) = activities::eviction_policy(store)
        && policy != "noeviction"
    {
        out.warn(format!("the server's maxmemory-policy is `{policy}`: stock and buyers may vanish in mid-sale"));
        out.hint("`noeviction` is the only right policy for a sale: CONFIG SET maxmemory-policy noeviction");
    }
}
