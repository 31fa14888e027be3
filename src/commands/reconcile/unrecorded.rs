//! Activities with sales of which the order records have no row. A user each would hide all else, and often it is the
//! export that is at fault: so it is one difference with a count, and nothing is done about it unasked.

use crate::inventory::drift::{Audit, Class, Difference};
use crate::inventory::id::ActivityId;
use crate::output::Output;

/// Notes about single activities; of more only the number is said.
const MOST_NOTES: usize = 5;

/// Activities that `--fix` and `--emit` leave out.
#[derive(Default)]
pub struct LeftOut(Vec<ActivityId>);

impl LeftOut {
    /// Adds an activity that the command line doesn't name, if it sold and the order records don't mention it.
    pub fn note(&mut self, audit: &Audit) {
        let is_unrecorded = |difference: &Difference| {
            difference.class == Class::MissingOrder && difference.user.is_none() && audit.plan.repairs.is_empty()
        };
        if audit.differences.iter().any(is_unrecorded) {
            self.0.push(audit.activity.clone());
        }
    }

    /// Says which they are.
    pub fn tell(&self, out: &Output) {
        for activity in self.0.iter().take(MOST_NOTES) {
            out.note(format!("`{activity}` was left out: it has sales, and the order records have no row of it"));
        }
        if self.0.len() > MOST_NOTES {
            out.note(format!("{} more such activities were left out", self.0.len() - MOST_NOTES));
        }
        if let Some(activity) = self.0.first() {
            out.hint(format!(
                "is the export incomplete? If these orders are missing indeed, name the activity: \
                 `seckill reconcile {activity} …`"
            ));
        }
    }
}
