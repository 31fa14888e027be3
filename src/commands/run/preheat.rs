//! The activities of a fixture, made what they should be before its steps are done.

use std::collections::BTreeMap;

use anyhow::Result;

use crate::input::fixture::Fixture;
use crate::inventory::activity::{Action, Plan, Preheat, Preheated};
use crate::inventory::failure::Failure;
use crate::output::Output;
use crate::store::Store;

/// How it went.
pub struct Summary {
    /// One of them was refused, and none was created.
    pub refused: bool,
    /// Some activity is as the fixture says, but has sold already.
    pub sold_before: bool,
}

/// Creates what is not there. All are looked at before the first one is created.
pub fn preheat(fixture: &Fixture, dry_run: bool, store: &mut Store, out: &Output) -> Result<Summary> {
    let layout = store.layout();
    let plans = fixture
        .activities
        .iter()
        .map(|plan| plan.clone().fitted(layout).map_err(|why| Failure::usage(format!("{}: {why}", fixture.file))))
        .collect::<Result<Vec<_>, _>>()?;
    let all: Vec<&Plan> = plans.iter().collect();
    let progress = out.progress("planning", plans.len() as u64);
    let mut looked = BTreeMap::new();
    store.preheat_all(&all, Preheat::Create, true, None, |nth, result| {
        progress.inc(1);
        looked.insert(nth, result);
    })?;
    let mut results: Vec<Preheated> = looked.into_values().collect();
    progress.finish();
    if results.iter().any(|result| !result.status.is_done()) {
        return Ok(refused(fixture, &results, out));
    }
    if !dry_run {
        let places: Vec<usize> = (0..plans.len()).filter(|nth| results[*nth].action == Action::Create).collect();
        let missing: Vec<&Plan> = places.iter().map(|nth| &plans[*nth]).collect();
        let progress = out.progress("preheating", missing.len() as u64);
        store.preheat_all(&missing, Preheat::Create, false, None, |nth, result| {
            progress.inc(1);
            results[places[nth]] = result.of_plan(&results[places[nth]]);
        })?;
        progress.finish();
        // Somebody else may have been quicker.
        if results.iter().any(|result| !result.status.is_done()) {
            return Ok(refused(fixture, &results, out));
        }
    }
    let created = results.iter().filter(|result| result.action == Action::Create).count();
    let kept = results.len() - created;
    let created = match created {
        0 => None,
        count => Some(format!("{count} {}", if dry_run { "to be created" } else { "created" })),
    };
    let kept = (kept > 0).then(|| format!("{kept} there already"));
    let said: Vec<String> = created.into_iter().chain(kept).collect();
    if !said.is_empty() {
        out.note(format!("activities of `{}`: {}", fixture.file, said.join(", ")));
    }
    let sold_before = results.iter().any(|result| result.action == Action::Unchanged && result.stock != result.total);
    Ok(Summary { refused: false, sold_before })
}

/// Says in what the activities differ that are there already.
fn refused(fixture: &Fixture, results: &[Preheated], out: &Output) -> Summary {
    crate::commands::preheat::tell(results, Preheat::Create, out);
    out.warn(format!("`{}` was not run: not every activity is as it says", fixture.file));
    Summary { refused: true, sold_before: false }
}
