//! What somebody should look at, of one activity.

use std::time::{Duration, Instant};

use crate::cli::commands::inspect::rows::ActivityRow;
use crate::cli::output::Tone;
use crate::cli::output::text::counted;
use crate::model::activity::State;
use crate::model::status::Status;
use crate::names;
use crate::read::watch::View;

/// How long a write of somebody else is shown.
const FOREIGN_SHOWN: Duration = Duration::from_secs(60);

names! {
    /// Why somebody should look, the worst first.
    #[derive(PartialOrd, Ord)]
    pub enum Alarm {
        /// A key holds what it must not.
        Corrupt = "corrupt",
        /// There are rules, but no stock key.
        StockGone = "stock_gone",
        /// There is nothing.
        NotPreheated = "not_preheated",
        /// More is left than there ever was.
        AboveTotal = "stock_above_total",
        /// The stock changed outside the scripts.
        ForeignWriter = "foreign_writer",
        /// Fewer units are left than somebody wants.
        LowStock = "low_stock",
        /// It is paused.
        Paused = "paused",
    }
}

impl Alarm {
    /// What is wrong with an activity.
    pub(super) fn of(view: &View, row: &ActivityRow, now: Instant) -> Vec<Self> {
        let snapshot = &view.snapshot;
        let is_foreign = view.foreign_write.is_some_and(|at| now.saturating_duration_since(at) < FOREIGN_SHOWN);
        let is_missing = snapshot.status == Status::NotPreheated;
        let found = [
            (Self::Corrupt, snapshot.status == Status::Corrupt),
            (Self::StockGone, is_missing && snapshot.meta.is_some()),
            (Self::NotPreheated, is_missing && snapshot.meta.is_none()),
            (Self::AboveTotal, row.sold.is_some_and(|sold| sold < 0)),
            (Self::ForeignWriter, is_foreign),
            (Self::LowStock, row.alert == Some(true)),
            (Self::Paused, row.state == State::Paused.name()),
        ];
        found.into_iter().filter_map(|(alarm, is_on)| is_on.then_some(alarm)).collect()
    }

    /// In a sentence, for people.
    pub(super) fn sentence(self, view: &View, row: &ActivityRow) -> String {
        match self {
            Self::Corrupt => match &view.snapshot.corrupt {
                Some(corrupt) => format!("key `{}` {}", corrupt.key, corrupt.what),
                None => "corrupt: `seckill inspect` has more".to_owned(),
            },
            Self::StockGone => "the stock key is gone (evicted? expired?): nobody can buy".to_owned(),
            Self::NotPreheated => "does not exist in this layout: nobody can buy".to_owned(),
            Self::AboveTotal => format!("the stock is {} above the total", row.sold.unwrap_or_default().unsigned_abs()),
            Self::ForeignWriter => "stock changed outside the scripts: see `seckill reconcile`".to_owned(),
            Self::LowStock => match row.stock {
                Some(0) => "nothing is left".to_owned(),
                stock => format!("{} left", counted(stock.unwrap_or_default(), "unit")),
            },
            Self::Paused if view.snapshot.meta.as_ref().is_some_and(|meta| meta.withdrawn.is_some()) => {
                "paused, its stock withdrawn".to_owned()
            }
            Self::Paused => "paused".to_owned(),
        }
    }

    pub(super) fn tone(self) -> Tone {
        match self {
            Self::LowStock | Self::Paused => Tone::Warn,
            _ => Tone::Bad,
        }
    }
}
