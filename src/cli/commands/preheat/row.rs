//! The rows of `preheat`.

use crate::cli::error::{Error, Result};
use crate::cli::failure::Exit;
use crate::cli::output::{Cell, Output, row};
use crate::model::activity::{Action, Preheated};
use crate::model::status::Status;

row! {
    /// What was done to one activity, or would be.
    pub(super) struct PreheatRow<'a> as row from (preheated: &'a Preheated, is_planned: bool) {
        activity: &'a str = preheated.activity.as_str(), flexible;
        action: Action = preheated.action => Cell::text(row.action.name());
        status: Status = preheated.status => match row.status {
            Status::Ok if row.is_planned => Cell::text("planned"),
            status => Cell::status(status),
        };
        data total_before: Option<u64> = preheated.total_before;
        total: Option<u64> = preheated.total => moved(row.total_before, row.total);
        data stock_before: Option<u64> = preheated.stock_before;
        stock: Option<u64> = preheated.stock => moved(row.stock_before, row.stock);
        per_user_limit: Option<u64> as "limit" = preheated.per_user_limit;
        /// Chosen if an activity of the result is sharded.
        optional shards: Option<u64> = preheated.shards => Cell::known(row.shards);
        /// Whether it is shown before it is done.
        hidden is_planned: bool = is_planned;
    }
    changed if row.status == Status::Ok && row.action != Action::Unchanged
}

/// Shows what was done, until something failed.
pub(super) fn show(results: &[Preheated], failed: Option<Error>, out: &mut Output) -> Result<Exit> {
    let rows: Vec<PreheatRow<'_>> = results.iter().map(|result| PreheatRow::new(result, false)).collect();
    out.array_until::<_, Error>(&rows, failed)?;
    let refused = results.iter().any(|result| !result.status.is_done());
    Ok(if refused { Exit::Refused } else { Exit::Done })
}

/// `50 → 80` if a number changes, else the number.
fn moved(before: Option<u64>, after: Option<u64>) -> Cell {
    match (before, after) {
        (Some(before), Some(after)) if before != after => Cell::number(format!("{before} → {after}")),
        (_, after) => Cell::known(after),
    }
}
