//! The activities of a fixture, made what they should be before its steps are done.

use crate::admin::preheat;
use crate::cli::error::Result;
use crate::cli::failure::Failure;
use crate::cli::input::yaml::fixture::Fixture;
use crate::cli::output::Output;
use crate::model::activity::{Action, Plan, Preheat, Preheated};
use crate::model::id::ActivityId;
use crate::store::Store;

pub(super) struct FixturePreheat {
    /// One of them was refused, and none was created.
    pub refused: bool,
    /// Some activity is as the fixture says, but has sold already.
    pub sold_before: bool,
    pub created: Vec<ActivityId>,
}

/// What would become of a fixture's activities.
pub(super) fn plan(fixture: &Fixture, store: &mut Store, out: &Output) -> Result<Vec<Preheated>> {
    let plans = fitted(fixture, store)?;
    crate::cli::commands::preheat::plan(&plans, Preheat::Create, store, out)
}

fn fitted(fixture: &Fixture, store: &Store) -> Result<Vec<Plan>> {
    let fit = |plan: &Plan| plan.clone().fitted(store.layout());
    let fitted = fixture.activities.iter().map(fit).collect::<Result<_, _>>();
    fitted.map_err(|why| Failure::usage(format!("{}: {why}", fixture.file)).into())
}

/// Creates what is not there, as it was planned.
pub(super) fn preheat(
    fixture: &Fixture,
    mut results: Vec<Preheated>,
    reason: Option<&str>,
    dry_run: bool,
    store: &mut Store,
    out: &Output,
) -> Result<FixturePreheat> {
    if !dry_run {
        let plans = fitted(fixture, store)?;
        let due: Vec<usize> = (0..plans.len()).filter(|plan| results[*plan].action == Action::Create).collect();
        let missing: Vec<&Plan> = due.iter().map(|plan| &plans[*plan]).collect();
        let progress = out.progress("preheating", missing.len() as u64);
        preheat::preheat_all(store, &missing, Preheat::Create, false, reason, |plan, result| {
            progress.inc(1);
            results[due[plan]] = result.of_plan(&results[due[plan]]);
        })?;
        progress.finish();
        // Somebody else may have been quicker.
        if results.iter().any(|result| !result.status.is_done()) {
            return Ok(refused(fixture, &results, out));
        }
    }
    let is_created = |result: &&Preheated| result.action == Action::Create;
    let created: Vec<ActivityId> = results.iter().filter(is_created).map(|result| result.activity.clone()).collect();
    let kept = results.len() - created.len();
    let said_created = match created.len() {
        0 => None,
        count => Some(format!("{count} {}", if dry_run { "to be created" } else { "created" })),
    };
    let kept = (kept > 0).then(|| format!("{kept} there already"));
    let said: Vec<String> = said_created.into_iter().chain(kept).collect();
    if !said.is_empty() {
        out.note(format!("activities of `{}`: {}", fixture.file, said.join(", ")));
    }
    let sold_before = results.iter().any(|result| result.action == Action::Unchanged && result.stock != result.total);
    Ok(FixturePreheat { refused: false, sold_before, created })
}

/// Says in what the activities differ that are there already.
pub(super) fn refused(fixture: &Fixture, results: &[Preheated], out: &Output) -> FixturePreheat {
    crate::cli::commands::preheat::explain(results, Preheat::Create, out);
    out.warn(format!("`{}` was not run: not every activity is as it says", fixture.file));
    FixturePreheat { refused: true, sold_before: false, created: Vec::new() }
}
