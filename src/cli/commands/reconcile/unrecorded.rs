//! Activities with sales of which the order records have no row. A user each would hide all else, and often it is the
//! export that is at fault: so it is one difference with a count, and nothing is done about it unasked.

use crate::audit::class::Class;
use crate::audit::result::{Audit, MissingOrder};
use crate::cli::error::Result;
use crate::cli::output::{Format, Output, OutputError, row};
use crate::model::id::{ActivityId, StoredUser};

/// Notes about single activities; of more only the number is said.
const MAX_NOTES: usize = 5;

/// Activities that `--fix` and `--emit` leave out.
#[derive(Default)]
pub(super) struct LeftOut(Vec<ActivityId>);

impl LeftOut {
    /// Adds an activity that neither the command line names nor any order row, if it has sales that are missing there.
    pub(super) fn record(&mut self, audit: &Audit) {
        if audit.differences.iter().any(|difference| difference.class == Class::MissingOrder) {
            self.0.push(audit.activity.clone());
        }
    }

    /// Says which they are.
    pub(super) fn report(&self, out: &Output) {
        for activity in self.0.iter().take(MAX_NOTES) {
            out.note(format!("`{activity}` was left out: it has sales, and the order records have no row of it"));
        }
        if self.0.len() > MAX_NOTES {
            out.note(format!("{} more such activities were left out", self.0.len() - MAX_NOTES));
        }
        if let Some(activity) = self.0.first() {
            out.hint(format!(
                "is the export incomplete? If these orders are missing indeed, name the activity: \
                 `seckill reconcile {activity} …`"
            ));
        }
    }
}

/// Differences that can be printed as order rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
#[value(rename_all = "snake_case")]
pub(super) enum Emit {
    /// Units that were taken and that no order record has; of a user who has some records, the rest
    MissingOrder,
}

row! {
    /// An order that no record has.
    struct EmittedRow<'a> as row from (activity: &'a str, missing: &'a MissingOrder) {
        activity: &'a str = activity;
        user: Option<&'a StoredUser> = missing.user.as_ref(), flexible;
        quantity: u64 = missing.quantity;
        sparse user_hex: Option<String> = missing.user.as_ref().and_then(StoredUser::user_hex);
    }
}

/// Prints what is to be delivered again, a JSON object a line unless another format is asked for.
pub(super) fn print(audits: &[Audit], out: &mut Output) -> Result<(), OutputError> {
    let mut rows = audits.iter().flat_map(|audit| {
        let activity = audit.activity.as_str();
        audit.missing_orders.iter().map(move |missing| EmittedRow::new(activity, missing))
    });
    if out.format() == Format::Table {
        return rows.try_for_each(|row| out.line(&serde_json::to_string(&row)?));
    }
    let mut stream = out.stream()?;
    rows.try_for_each(|row| stream.push(&row))?;
    stream.finish()
}
