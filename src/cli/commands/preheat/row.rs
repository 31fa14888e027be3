//! The row of `preheat`.

use serde::Serialize;

use crate::cli::output::{Cell, Row};
use seckill::inventory::activity::{Action, Preheated};
use seckill::inventory::status::Status;

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
    /// What was done, or would be.
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

impl Row for PreheatRow<'_> {
    const FIELDS: &'static [&'static str] =
        &["activity", "action", "status", "total_before", "total", "stock_before", "stock", "per_user_limit"];
    const HEADINGS: &'static [&'static str] = &["activity", "action", "status", "total", "stock", "limit"];

    fn cells(&self) -> Vec<Cell> {
        vec![
            Cell::text(self.activity).flexible(),
            Cell::text(self.action.name()),
            match self.status {
                Status::Ok if self.is_planned => Cell::text("planned"),
                status => Cell::status(status),
            },
            moved(self.total_before, self.total),
            moved(self.stock_before, self.stock),
            Cell::known(self.per_user_limit),
        ]
    }

    fn is_change(&self) -> bool {
        !self.is_planned && self.status == Status::Ok && self.action != Action::Unchanged
    }
}

/// `50 → 80` where a number moves, else the number.
fn moved(before: Option<u64>, after: Option<u64>) -> Cell {
    match (before, after) {
        (Some(before), Some(after)) if before != after => Cell::number(format!("{before} → {after}")),
        (_, after) => Cell::known(after),
    }
}
