//! What a run would change that it did not create: it asks first, and invents no buyers for it.

use std::collections::HashSet;

use crate::cli::error::Result;
use crate::cli::failure::Failure;
use crate::cli::input::yaml::fixture::{Fixture, FixtureOperation};
use crate::cli::output::Output;
use crate::model::activity::{Action, Preheated, Snapshot};
use crate::model::id::ActivityId;
use crate::model::status::Status;
use crate::read::whole;
use crate::store::Store;

/// Activities that a question names; the others are counted.
const MAX_NAMED: usize = 10;

/// Asks before steps change activities that exist already.
///
/// # Errors
/// Nobody agreed, or a rush would sell to invented buyers and `yes` does not allow it. Nothing was changed.
pub(super) fn ask(
    fixtures: &[Fixture],
    planned: &[Preheated],
    yes: bool,
    store: &mut Store,
    out: &Output,
) -> Result<()> {
    if yes {
        return Ok(());
    }
    let existing = existing(fixtures, planned, store)?;
    if existing.is_empty() {
        return Ok(());
    }
    for fixture in fixtures {
        for step in &fixture.steps {
            if let FixtureOperation::Rush(rush) = &step.operation
                && let Some(known) = existing.iter().find(|known| rush.activities().any(|it| *it == known.activity))
            {
                return Err(rush_refused(&known.activity, &format!("{}:{}: ", fixture.file, step.at)).into());
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
    Ok(out.confirm(&format!("Change activities that exist already on `{server}`: {}?", named.join(", ")), false)?)
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
    let created: HashSet<&ActivityId> =
        planned.iter().filter(|result| result.action == Action::Create).map(|result| &result.activity).collect();
    let mut seen = HashSet::new();
    let changed: Vec<ActivityId> = fixtures
        .iter()
        .flat_map(|fixture| &fixture.steps)
        .filter(|step| !matches!(step.operation, FixtureOperation::Reconcile { .. }))
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
        (_, _, Some(buyers)) => format!("{buyers} buyers"),
        _ => "units sold unknown".to_owned(),
    }
}
