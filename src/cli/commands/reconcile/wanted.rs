//! Which activities are audited: those that are named, else a fixture's, else all that were preheated and all that the
//! order records name.

use std::collections::HashSet;

use crate::admin::activities;
use crate::cli::commands::reconcile::ReconcileArgs;
use crate::cli::commands::reconcile::orders::Orders;
use crate::cli::failure::{Exit, Failure, Result};
use crate::cli::input::records::Sharded;
use crate::cli::input::yaml::fixture;
use crate::cli::output::Warnings;
use crate::cli::shared::hints;
use crate::cli::shared::selection::{self, ActivitySelector, find};
use crate::model::{ActivityId, Layout, Units};
use crate::read::index;
use crate::script::keys::Keys;
use crate::store::Store;

/// An activity to audit.
pub(super) struct AuditTarget {
    pub activity: ActivityId,
    /// The total that it should have, if the command line or a fixture says it.
    pub total: Option<Units>,
}

impl AuditTarget {
    /// The activities that the command line names or that a fixture has, and the fixture's layout; none if neither is
    /// given.
    pub(super) fn of(args: &ReconcileArgs) -> Result<(Vec<Self>, Option<Layout>)> {
        if args.total.is_some() && args.activities.len() != 1 {
            return Err(total_of_several());
        }
        match &args.fixture {
            Some(file) => Self::of_fixture(file, args),
            None => {
                let mut seen = HashSet::new();
                let named = args.activities.iter().filter(|activity| seen.insert(*activity));
                Ok((named.map(|activity| Self { activity: activity.clone(), total: args.total }).collect(), None))
            }
        }
    }

    /// The activities of a fixture with their totals; of them only those that are named, if any are.
    fn of_fixture(file: &str, args: &ReconcileArgs) -> Result<(Vec<Self>, Option<Layout>)> {
        let fixture = fixture::read(file)?;
        let ids: Vec<ActivityId> = fixture.activities.iter().map(|plan| plan.id.clone()).collect();
        for named in &args.activities {
            if !selection::matches_any(named, &ids)? {
                return Err(Failure::usage(format!("`{file}` has no activity `{named}`")));
            }
        }
        let selected = ActivitySelector::new(&args.activities)?.among(&ids);
        let wanted: Vec<Self> = fixture
            .activities
            .into_iter()
            .filter(|plan| selected.contains(&plan.id))
            .map(|plan| Self { activity: plan.id, total: args.total.or(plan.total) })
            .collect();
        if wanted.is_empty() {
            return Err(Failure::usage(format!("`{file}` has no activities")));
        }
        Ok((wanted, fixture.layout))
    }

    /// The same with the preheated activities that match a pattern of the command line in its place. A service has `warnings`, and waits
    /// for what matches.
    ///
    /// # Errors
    /// A pattern that cannot be read, or that no preheated activity matches; a total of several activities.
    pub(super) fn matching(
        wanted: Vec<Self>,
        args: &ReconcileArgs,
        store: &mut Store,
        warnings: Option<&mut Warnings>,
    ) -> Result<Vec<Self>> {
        if args.fixture.is_some() || !args.activities.iter().any(selection::is_pattern) {
            return Ok(wanted);
        }
        let selector = ActivitySelector::new(&args.activities)?;
        let found = match warnings {
            Some(warnings) => selector.fitting(store, warnings)?,
            None => selector.activities(store)?,
        };
        if args.total.is_some() && found.len() > 1 {
            return Err(total_of_several());
        }
        Ok(found.into_iter().map(|activity| Self { activity, total: args.total }).collect())
    }

    /// All activities that were preheated, and then those that only the order records name.
    ///
    /// # Errors
    /// There are none, order records name a shard, or the index does not name one that was preheated: then nobody knows which
    /// others exist.
    pub(super) fn all(orders: Option<&Orders>, store: &mut Store) -> Result<Vec<Self>> {
        let mut activities = activities::preheated(store)?;
        let known: HashSet<&str> = activities.iter().map(ActivityId::as_str).collect();
        let recorded: Vec<ActivityId> = orders
            .into_iter()
            .flat_map(Orders::named)
            .filter(|activity| !known.contains(activity.as_str()))
            .cloned()
            .collect();
        for activity in &recorded {
            if index::has_meta(store, activity)? {
                // The index names no shard.
                store.layout().check_id(activity).map_err(Failure::usage)?;
                return Err(index_is_lost(activity, store));
            }
        }
        activities.extend(recorded);
        if activities.is_empty() {
            return Err(hints::nothing_to("audit", store));
        }
        Ok(activities.into_iter().map(|activity| Self { activity, total: None }).collect())
    }
}

fn total_of_several() -> Failure {
    Failure::usage("`--total` is of one activity: name it").hint("`seckill reconcile ACTIVITY --total N`")
}

fn index_is_lost(activity: &ActivityId, store: &Store) -> Failure {
    let index = Keys::index(store.layout);
    let message = format!(
        "`{activity}` was preheated, but the index `{index}` does not name it: it was lost, and others may be \
         missing too; nothing was audited"
    );
    Failure::new(Exit::Refused, message)
        .hint("`seckill inspect --scan` finds all activities; audit them by name: `seckill reconcile ACTIVITY…`")
}

/// Those of some activities that are sharded, or of all that were preheated if none are named.
pub(super) fn of(named: &[ActivityId], store: &mut Store) -> Result<Sharded> {
    if named.is_empty() && store.layout() == Layout::Cluster {
        return find(&activities::preheated(store)?, store);
    }
    find(named, store)
}
