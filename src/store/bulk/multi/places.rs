//! What the run knows of its job in each activity: asked before the activity is named first, and learnt from replies.

use super::super::meet::{AT_ONCE, Standing, ask};
use super::super::{Job, Step};
use super::MultiBulk;
use super::call::Call;
use crate::inventory::id::ActivityId;
use crate::store::StoreError;

/// What the run knows of one activity.
#[derive(Debug)]
pub(super) struct Place {
    /// The sale that the run is bound to; empty where nothing was preheated.
    pub(super) epoch: String,
    /// The last line of a call that was decided there, in this reading of the input.
    pub(super) line: u64,
}

impl MultiBulk<'_> {
    /// Asks about activities that will be named.
    ///
    /// # Errors
    /// Any of [`StoreError`]; the job was something else among them.
    pub fn meet<'a>(&mut self, activities: impl Iterator<Item = &'a str>) -> Result<Step, StoreError> {
        // Whoever names them has validated the ids.
        let activities: Vec<ActivityId> = activities.filter_map(|activity| activity.parse().ok()).collect();
        self.ask(&activities)
    }

    /// The activities of a call that were not asked about.
    pub(super) fn unmet(&self, call: &Call) -> Vec<ActivityId> {
        let is_new = |activity: &&ActivityId| !self.places.contains_key(*activity);
        call.asked.activities.iter().filter(is_new).cloned().collect()
    }

    pub(super) fn ask(&mut self, activities: &[ActivityId]) -> Result<Step, StoreError> {
        for some in activities.chunks(AT_ONCE) {
            let some: Vec<&ActivityId> = some.iter().collect();
            let standings = match ask(self.store, &self.job, "multi_deduct", &some) {
                Ok(standings) => standings,
                Err(error) => return self.refused(error),
            };
            for (activity, Standing { epoch, record }) in some.into_iter().zip(standings) {
                if record.is_some_and(|record| is_of_another(&record, &self.job)) {
                    return Err(self.job.was_other(activity));
                }
                self.places.insert(activity.clone(), Place { epoch, line: 0 });
            }
        }
        Ok(Step::On)
    }
}

/// Whether `line`, or `line digest`, is what another input left under the job's name.
fn is_of_another(record: &str, job: &Job) -> bool {
    record.split_once(' ').map_or("", |(_, digest)| digest) != job.digest_to_keep()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_of_the_job_whose_digest_it_has() {
        let job = Job { name: "night".to_owned(), digest: "a b".to_owned() };
        assert!(!is_of_another("7 a b", &job));
        assert!(is_of_another("7 a", &job) && is_of_another("7", &job));
        let job = Job { name: "a".to_owned(), digest: "a".to_owned() };
        assert!(!is_of_another("7", &job) && is_of_another("7 a", &job));
    }
}
