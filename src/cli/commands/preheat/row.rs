//! The rows of `preheat`.

use crate::cli::error::{Error, Result};
use crate::cli::failure::Exit;
use crate::cli::output::row;
use crate::cli::output::{Cell, Output};
use crate::model::activity::{Action, Preheated};
use crate::model::status::Status;

row! {
    /// What was done to one activity, or would be.
    pub(super) struct PreheatRow<'a> as row {
        activity: &'a str, flexible;
        action: Action => Cell::text(row.action.name());
        status: Status => match row.status {
            Status::Ok if row.is_planned => Cell::text("planned"),
            status => Cell::status(status),
        };
        data total_before: Option<u64>;
        total: Option<u64> => moved(row.total_before, row.total);
        data stock_before: Option<u64>;
        stock: Option<u64> => moved(row.stock_before, row.stock);
        per_user_limit: Option<u64> as "limit";
        /// Chosen if an activity of the result is sharded.
        optional shards: Option<u64> => Cell::known(row.shards);
        /// Whether it is shown before it is done.
        hidden is_planned: bool;
    }
    changed if row.status == Status::Ok && row.action != Action::Unchanged
}

impl<'a> PreheatRow<'a> {
    pub(super) fn new(preheated: &'a Preheated) -> Self {
        Self {
            activity: preheated.activity.as_str(),
            action: preheated.action,
            status: preheated.status,
            total_before: preheated.total_before,
            total: preheated.total,
            stock_before: preheated.stock_before,
            stock: preheated.stock,
            per_user_limit: preheated.per_user_limit,
            shards: preheated.shards,
            is_planned: false,
        }
    }

    /// What will be done.
    pub(super) fn planned(preheated: &'a Preheated) -> Self {
        Self { is_planned: true, ..Self::new(preheated) }
    }
}

/// Shows what was done, until something failed.
pub(super) fn show(results: &[Preheated], failed: Option<Error>, out: &mut Output) -> Result<Exit> {
    let rows: Vec<PreheatRow<'_>> = results.iter().map(PreheatRow::new).collect();
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
