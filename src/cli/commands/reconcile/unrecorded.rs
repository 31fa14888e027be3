//! Activities with sales of which the order records have no row. A user each would hide all else, and often it is the
//! export that is at fault: so it is one difference with a count, and nothing is done about it unasked.

use crate::audit::class::Class;
use crate::audit::result::Audit;
use crate::cli::output::Output;
use crate::model::id::ActivityId;

/// Notes about single activities; of more only the number is said.
const MOST_NOTES: usize = 5;

/// Activities that `--fix` and `--emit` leave out.
#[derive(Default)]
pub struct LeftOut(Vec<ActivityId>);

impl LeftOut {
    /// Adds an activity that neither the command line names nor any order row, if it has sales that are missing there.
    pub fn record(&mut self, audit: &Audit) {
        if audit.differences.iter().any(|difference| difference.class == Class::MissingOrder) {
            self.0.push(audit.activity.clone());
        }
    }

    /// Says which they are.
    pub fn report(&self, out: &Output) {
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
