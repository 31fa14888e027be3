//! The activities of a fixture, made what they should be before its steps are done. Before a run changes what it did not create, it asks.

use std::collections::HashSet;

use crate::admin::preheat;
use crate::cli::args::Mutating;
use crate::cli::commands::preheat::PreheatRow;
use crate::cli::failure::{Failure, Result};
use crate::cli::input::yaml::fixture::{Fixture, FixtureOperation};
use crate::cli::output::{Output, counted};
use crate::model::{Action, ActivityId, Plan, PreheatMode, Preheated, Snapshot, Status};
use crate::read::whole;
use crate::store::Store;

/// What would become of a fixture's activities.
pub(super) fn plan(fixture: &Fixture, store: &mut Store, out: &Output) -> Result<Vec<Preheated>> {
    let plans = fitted(fixture, store)?;
    let (planned, done) = crate::cli::commands::preheat::plan(&plans, PreheatMode::Create, store, out);
    done?;
    Ok(planned.into_values().collect())
}

fn fitted(fixture: &Fixture, store: &Store) -> Result<Vec<Plan>> {
    let fit = |plan: &Plan| plan.clone().fitted(store.layout());
    let fitted = fixture.activities.iter().map(fit).collect::<Result<_, _>>();
    fitted.map_err(|why| Failure::usage(format!("{}: {why}", fixture.file)))
}

/// Creates what is not there, as it was planned, and gives what came of each activity; `None` if one of them was refused.
pub(super) fn preheat(
    fixture: &Fixture,
    mut results: Vec<Preheated>,
    mutating: &Mutating,
    store: &mut Store,
    out: &mut Output,
) -> Result<Option<Vec<Preheated>>> {
    let Mutating { reason, dry_run, .. } = mutating;
    if !*dry_run {
        let plans = fitted(fixture, store)?;
        let due: Vec<usize> = (0..plans.len()).filter(|plan| results[*plan].action == Action::Create).collect();
        let missing: Vec<&Plan> = due.iter().map(|plan| &plans[*plan]).collect();
        let progress = out.progress("preheating", missing.len() as u64);
        preheat::preheat_all(store, &missing, PreheatMode::Create, false, reason.as_deref(), |plan, result| {
            progress.inc(1);
            results[due[plan]] = result.of_plan(&results[due[plan]]);
        })?;
        progress.finish();
        let rows: Vec<PreheatRow<'_>> = results.iter().map(|result| PreheatRow::new(result, false)).collect();
        out.keep_changes(&rows)?;
        // Somebody else may have been quicker.
        if results.iter().any(|result| !result.status.is_done()) {
            refused(fixture, &results, out);
            return Ok(None);
        }
    }
    let created = created(&results).count();
    let words = if *dry_run { "to be created" } else { "created" };
    let said =
        [(created, words), (results.len() - created, "there already")].into_iter().filter(|(count, _)| *count > 0);
    let said: Vec<String> = said.map(|(count, words)| format!("{count} {words}")).collect();
    if !said.is_empty() {
        out.note(format!("activities of `{}`: {}", fixture.file, said.join(", ")));
    }
    Ok(Some(results))
}

/// The activities that were created, or are to be.
pub(super) fn created(results: &[Preheated]) -> impl Iterator<Item = &ActivityId> {
    results.iter().filter(|result| result.action == Action::Create).map(|result| &result.activity)
}

/// Says in what the activities differ that are there already.
pub(super) fn refused(fixture: &Fixture, results: &[Preheated], out: &Output) {
    crate::cli::commands::preheat::explain(results, PreheatMode::Create, out);
    out.warn(format!("`{}` was not run: not every activity is as it says", fixture.file));
}

/// Activities that a question names; the others are counted.
const MAX_NAMED: usize = 10;

/// Asks before steps change activities that exist already.
///
/// # Errors
/// Nobody agreed, or a rush would sell to invented buyers. Nothing was changed.
pub(super) fn ask(fixtures: &[Fixture], planned: &[Preheated], store: &mut Store, out: &Output) -> Result<()> {
    let existing = existing(fixtures, planned, store)?;
    if existing.is_empty() {
        return Ok(());
    }
    for fixture in fixtures {
        for step in &fixture.steps {
            if let FixtureOperation::Rush(rush) = &step.operation
                && let Some(known) = existing.iter().find(|known| rush.activities().any(|it| *it == known.activity))
            {
                return Err(rush_refused(&known.activity, &format!("{}:{}: ", fixture.file, step.at)));
            }
        }
    }
    let mut named: Vec<String> = existing
        .iter()
        .take(MAX_NAMED)
        .map(|snapshot| format!("`{}` ({})", snapshot.activity, sold(snapshot)))
        .collect();
    if existing.len() > MAX_NAMED {
        named.push(format!("{} more", existing.len() - MAX_NAMED));
    }
    let server = store.server_name();
    out.confirm(&format!("Change activities that exist already on `{server}`: {}?", named.join(", ")), false)
}

/// The error for a rush on an activity that this run did not create.
pub(super) fn rush_refused(activity: &ActivityId, place: &str) -> Failure {
    Failure::usage(format!(
        "{place}a rush would sell `{activity}` to invented buyers, and this run did not create that activity"
    ))
    .hint("give the fixture activities of its own; `--yes` allows the rush all the same")
}

/// Activities that steps change and that no fixture creates, as they are now.
fn existing(fixtures: &[Fixture], planned: &[Preheated], store: &mut Store) -> Result<Vec<Snapshot>> {
    let created: HashSet<&ActivityId> = created(planned).collect();
    let mut seen = HashSet::new();
    let changed: Vec<ActivityId> = fixtures
        .iter()
        .flat_map(|fixture| &fixture.steps)
        .filter(|step| !step.operation.is_audit())
        .flat_map(|step| step.operation.activities())
        .filter(|activity| !created.contains(activity) && seen.insert(*activity))
        .cloned()
        .collect();
    let mut snapshots = whole::wholes(store, &changed)?;
    snapshots.retain(|snapshot| snapshot.status != Status::NotPreheated || snapshot.meta.is_some());
    Ok(snapshots)
}

/// `27 of 50 units sold`, as far as that is known.
fn sold(snapshot: &Snapshot) -> String {
    match (snapshot.meta.as_ref().map(|meta| meta.total), snapshot.stock, snapshot.buyers) {
        (Some(total), Some(stock), _) => format!("{} of {total} units sold", total.saturating_sub(stock)),
        (_, _, Some(buyers)) => counted(buyers, "buyer"),
        _ => "units sold unknown".to_owned(),
    }
}
