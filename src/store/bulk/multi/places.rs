//! What the run knows of its job in each activity: asked before the first order that names it, and learnt from replies.

use super::super::meet::{AT_ONCE, Standing, ask};
use super::super::{Job, Step};
use super::{MultiBulk, MultiEntry};
use crate::inventory::id::ActivityId;
use crate::inventory::number::whole;
use crate::inventory::status::Status;
use crate::store::StoreError;

/// What the run knows of one activity.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Place {
    /// The number of the sale's epoch, as the run numbers them, plus 1; 0 until the server was asked.
    epoch: u32,
    /// What refuses the whole activity for the rest of the run.
    pub(super) shut: Option<Status>,
    /// The last line that the server is known to have decided there.
    pub(super) line: u64,
}

impl MultiBulk<'_> {
    /// Asks about the activities that are new.
    ///
    /// # Errors
    /// Any of [`StoreError`]; the job was something else among them.
    pub fn meet(&mut self) -> Result<Step, StoreError> {
        let mut next = 0;
        while self.unmet > 0 && next < self.places.len() {
            if (self.store.stop)() {
                break;
            }
            let new = (next..self.places.len()).filter(|nth| self.places[*nth].epoch == 0);
            let some: Vec<usize> = new.take(AT_ONCE).collect();
            next = some.last().map_or(self.places.len(), |last| last + 1);
            #[allow(clippy::cast_possible_truncation)] // Names have such numbers.
            let activities: Vec<ActivityId> =
                some.iter().map(|nth| ActivityId::validated(self.names.name(*nth as u32))).collect();
            let standings = match ask(self.store, &self.job, "multi_deduct", &activities) {
                Ok(standings) => standings,
                Err(error) => return self.refused(error),
            };
            for ((nth, activity), Standing { epoch, record }) in some.into_iter().zip(&activities).zip(standings) {
                if record.as_ref().is_some_and(|record| is_of_another(record, &self.job)) {
                    return Err(self.job.was_other(activity));
                }
                let line = record.as_deref().and_then(|record| record.split(' ').next()).and_then(whole);
                self.places[nth].line = line.unwrap_or_default();
                self.set_epoch(nth, &epoch);
                self.unmet -= 1;
            }
        }
        Ok(Step::On)
    }

    pub(super) fn set_epoch(&mut self, nth: usize, epoch: &str) {
        self.places[nth].epoch = self.epochs.number(epoch.as_bytes()) + 1;
    }

    /// The epoch of an activity; empty if nothing was preheated.
    pub(super) fn epoch(&self, nth: usize) -> &[u8] {
        match self.places[nth].epoch {
            0 => b"",
            number => self.epochs.name(number - 1),
        }
    }

    /// Whether nothing was preheated and nothing decided when the server was asked.
    pub(super) fn is_new(&self, nth: usize) -> bool {
        self.epoch(nth).is_empty() && self.places[nth].line == 0
    }

    /// Whether the job decided an order before: it came that far in all activities of the order.
    pub(super) fn is_decided(&self, entry: &MultiEntry) -> bool {
        entry.activities.iter().all(|nth| self.places[*nth as usize].line >= entry.line)
    }

    /// What refuses an item of an order because the activity refused an order before, if anything does.
    pub(super) fn shut(&self, entry: &MultiEntry) -> bool {
        entry.activities.iter().any(|nth| self.places[*nth as usize].shut.is_some())
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
