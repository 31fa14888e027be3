//! One activity at one reading: a row of the frame, or of the output, with what an operator should look at.

use std::time::{Duration, Instant};

use crate::cli::commands::inspect::rows::{ActivityRow, tone};
use crate::cli::commands::inspect::selection::AlertBelow;
use crate::cli::commands::inspect::watch::forecast::{Forecast, History};
use crate::cli::commands::inspect::watch::servers::Figures;
use crate::cli::output::{Cell, Field, Tone, counted, row};
use crate::model::{Kind, Millis, State, Status};
use crate::names;
use crate::read::watch::View;

row! {
    /// An activity at one reading. What is not known is null.
    pub(super) struct WatchRow as row from (
        view: &View, kind: Kind, history: &History, below: Option<AlertBelow>, now: Instant, figures: &Figures
    ) {
        /// The server's clock.
        data time: Millis = snapshot.at;
        flat pub activity: ActivityRow = activity;
        csv alert => row.activity.alert;
        table "" => row.alarms.first().map_or_else(|| Cell::text(" "), |alarm| Cell::text("!").tone(alarm.tone()));
        table "activity" => Cell::id(row.activity.name());
        table "title" => row.activity.title.cell().flexible();
        table "state" => row.state_cell();
        table "stock" => row.activity.stock_cell(None);
        table "sold" => row.activity.share().map_or_else(Cell::unknown, |share| Cell::bar(share).tone(Tone::Info));
        /// Units a second, on average of ten seconds.
        pub rate: Option<f64> as "units/s" = history.rate().filter(|_| !view.is_old).map(rounded) => match row.rate {
            Some(0.0) => Cell::number("0").tone(Tone::Dim),
            Some(rate) => Cell::number(format!("{rate:.1}")),
            None => Cell::known(None::<u64>),
        };
        /// Seconds.
        sold_out_in: Option<u64> as "sold out in" = forecast.and_then(Forecast::seconds)
            => row.forecast.map_or_else(|| Cell::text(""), |forecast| Cell::text(forecast.to_string()));
        /// Entries of the ledger that the slowest consumer group has not acknowledged.
        lag: Option<u64> = lags.reduce(|one, other| Some(one?.max(other?))).flatten() => match row.lag {
            Some(lag) if lag > 0 => Cell::number(lag).tone(Tone::Warn),
            lag => lag.cell(),
        };
        table "buyers" => row.activity.buyers.cell();
        table "total" => row.activity.total.cell();
        table "limit" => row.activity.per_user_limit.cell();
        document pub alarms: Vec<Alarm> = alarms;
        csv alarms => serde_json::to_string(&row.alarms).unwrap_or_default();
        /// The same in all rows of a reading: script calls of all callers, a second.
        data server_calls: Option<f64> = figures.calls.map(rounded);
        data server_errors: Option<f64> = figures.errors.map(rounded);
        /// From 0 to 1.
        data server_success: Option<f64> = figures.success.map(|share| (share * 1e5).floor() / 1e5);
        /// Milliseconds since the server began to count.
        data server_p50: Option<f64> = figures.p50;
        data server_p99: Option<f64> = figures.p99;
        data server_p99_9: Option<f64> = figures.p99_9;
        hidden pub forecast: Option<Forecast> = forecast;
        /// Whether it could not be read this time.
        hidden pub is_old: bool = view.is_old;
    }
    where {
        let snapshot = &view.snapshot;
        // Of what only a backend created, this many are coupons of one unit; else only a scan would tell.
        let held = snapshot.buyers.filter(|_| kind == Kind::Coupon);
        let mut activity = ActivityRow::new(snapshot, held);
        activity.alert = below.and_then(|below| below.marks(&activity));
        let alarms = Alarm::of(view, &activity, now);
        let is_live = activity.state == State::Live.name();
        let ends_in = activity.ends_at.map(|end| Duration::from_millis(end.get().saturating_sub(snapshot.at.get())));
        let steady = history.steady_rate().filter(|_| is_live && !view.is_old);
        let forecast = activity.stock.and_then(|stock| Forecast::of(stock, steady, ends_in));
        // One that is not known may be the slowest.
        let lags = view.groups.iter().flatten().map(|group| group.behind());
    }
}

impl WatchRow {
    fn state_cell(&self) -> Cell {
        let row = &self.activity;
        if self.is_old {
            return Cell::text(format!("{} (old)", row.state)).tone(Tone::Dim);
        }
        Cell::text(row.state).tone(tone(row.state))
    }
}

/// To one digit behind the point: no rate is known better.
fn rounded(rate: f64) -> f64 {
    // Without a minus before a zero.
    (rate * 10.0).round() / 10.0 + 0.0
}

/// The last columns, which go first on a narrow screen.
pub(super) const SPARE: usize = 3;

/// How long a foreign write is shown.
const FOREIGN_SHOWN: Duration = Duration::from_secs(60);

names! {
    /// Why an operator should look, the worst first.
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
        /// Fewer units are left than `--alert-below`.
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
