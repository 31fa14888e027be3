//! `inspect --holds`: what is held open, by deadline.

use crate::cli::commands::inspect::{detail, exit, hints, missing, snapshots};
use crate::cli::failure::{Exit, Failure, Result};
use crate::cli::output::{Cell, Output, row};
use crate::model::id::{ActivityId, StoredUser};
use crate::model::order::hold::OpenHold;
use crate::model::time::Millis;
use crate::read::holds;
use crate::store::Store;

row! {
    /// One open hold.
    struct HoldRow<'a> as row {
        activity: &'a str, flexible;
        request: String, flexible;
        user: StoredUser => Cell::text(row.user.to_string()), flexible;
        quantity: u64;
        deadline: Millis;
        nested user_hex: Option<String>;
    }
    named request
}

/// Streams a row for each.
pub(super) fn run(activities: &[ActivityId], overdue: bool, store: &mut Store, out: &mut Output) -> Result<Exit> {
    let snapshots = snapshots(activities, store, out)?;
    let mut warnings = out.warnings();
    snapshots.iter().for_each(|snapshot| detail::warn(&mut warnings, snapshot));
    warnings.end();
    hints::other_layouts(missing(&snapshots), store, out);
    let mut rows = out.stream::<HoldRow<'_>>()?;
    for snapshot in snapshots.iter().filter(|snapshot| snapshot.meta.as_ref().is_some_and(|meta| meta.holds > 0)) {
        let activity = snapshot.activity.as_str();
        for part in snapshot.parts() {
            holds::open_holds(store, &part, overdue, |OpenHold { request, record }| {
                let (user, quantity, deadline) = (record.user, record.quantity, record.deadline);
                let user_hex = user.user_hex();
                rows.push_borrowed(&HoldRow { activity, request, user, quantity, deadline, user_hex })?;
                Ok::<_, Failure>(())
            })?;
        }
    }
    rows.finish()?;
    Ok(exit(snapshots.iter().all(|snapshot| snapshot.status.is_done())))
}
