//! The row of `preheat`.

use serde::Serialize;

use crate::cli::output::Cell;
use crate::cli::output::columns;
use crate::model::activity::{Action, Preheated};
use crate::model::status::Status;

/// What was done to one activity, or would be.
#[derive(Debug, Serialize)]
pub struct PreheatRow<'a> {
    activity: &'a str,
    action: Action,
    status: Status,
    total_before: Option<u64>,
    total: Option<u64>,
    stock_before: Option<u64>,
    stock: Option<u64>,
    per_user_limit: Option<u64>,
    /// Whether it is shown before it is done.
    #[serde(skip)]
    is_planned: bool,
}

impl<'a> PreheatRow<'a> {
    pub fn new(preheated: &'a Preheated) -> Self {
        Self {
            activity: preheated.activity.as_str(),
            action: preheated.action,
            status: preheated.status,
            total_before: preheated.total_before,
            total: preheated.total,
            stock_before: preheated.stock_before,
            stock: preheated.stock,
            per_user_limit: preheated.per_user_limit,
            is_planned: false,
        }
    }

    /// What will be done.
    pub fn planned(preheated: &'a Preheated) -> Self {
        Self { is_planned: true, ..Self::new(preheated) }
    }
}

columns!(row: PreheatRow<'_> {
    activity => Cell::text(row.activity).flexible();
    action => Cell::text(row.action.name());
    status => match row.status {
        Status::Ok if row.is_planned => Cell::text("planned"),
        status => Cell::status(status),
    };
    data total_before;
    total => moved(row.total_before, row.total);
    data stock_before;
    stock => moved(row.stock_before, row.stock);
    per_user_limit as "limit";
}, changed if row.status == Status::Ok && row.action != Action::Unchanged);

/// `50 → 80` if a number changes, else the number.
fn moved(before: Option<u64>, after: Option<u64>) -> Cell {
    match (before, after) {
        (Some(before), Some(after)) if before != after => Cell::number(format!("{before} → {after}")),
        (_, after) => Cell::known(after),
    }
}
