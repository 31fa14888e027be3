//! The sale over time, as rows and as the columns of a chart.

use serde::Serialize;

use crate::model::Millis;
use crate::model::number::signed;
use crate::report::Sales;
use crate::report::timeline::UnitMoves;

/// What happened in some time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(super) struct Period {
    pub from: Millis,
    pub to: Millis,
    /// Units.
    pub bought: u64,
    pub returned: u64,
    /// Units that users hold at its end.
    pub sold: i64,
    /// The total at its end.
    pub total: Option<i64>,
}

/// The part of a sale that is worth looking at, in periods of one width.
#[derive(Debug)]
pub(super) struct Series {
    pub from: Millis,
    pub to: Millis,
    /// Milliseconds of a period.
    pub width: u64,
    /// One after the other, from the first order on.
    pub periods: Vec<Period>,
    /// What happened after that, if anything did.
    pub later: Option<Period>,
    /// Units sold and total before the first period.
    pub sold_before: i64,
    pub total_before: Option<i64>,
}

impl Series {
    /// `None` if nobody bought. It begins with the window if the first order came soon.
    pub(super) fn new(sales: &Sales, starts_at: Option<Millis>) -> Option<Self> {
        let span = sales.timeline.span()?;
        let (mut sold, mut total) = (sales.sold_before, sales.total_before.map(signed));
        let (sold_before, total_before) = (sold, total);
        let mut period = |from: u64, to: u64, moved: &UnitMoves| {
            sold = sold.saturating_add(moved.sold);
            total = total.map(|total| total.saturating_add(moved.total));
            let (from, to) = (Millis::new(from), Millis::new(to));
            Period { from, to, bought: moved.bought, returned: moved.returned, sold, total }
        };
        let mut at = span.from.get();
        let mut periods = Vec::new();
        let nothing = UnitMoves::default();
        while at < span.to.get() {
            let moved = span.buckets.get(periods.len()).unwrap_or(&nothing);
            periods.push(period(at, at + span.width, moved));
            at += span.width;
        }
        let later = (span.later != nothing).then(|| period(at, span.last.get() + 1, &span.later));
        let wait = starts_at.map(|start| (start, span.from.get().saturating_sub(start.get())));
        let length = span.to.get() - span.from.get();
        let begins = wait.filter(|(start, wait)| *start <= span.from && wait.saturating_mul(2) <= length);
        let from = begins.map_or(span.from, |(start, _)| start);
        Some(Self { from, to: span.to, width: span.width, periods, later, sold_before, total_before })
    }

    /// The periods in which something moved.
    pub(super) fn moving(&self) -> Vec<Period> {
        let (mut sold, mut total) = (self.sold_before, self.total_before);
        let mut moves = |period: &Period| {
            let before = (std::mem::replace(&mut sold, period.sold), std::mem::replace(&mut total, period.total));
            period.bought > 0 || period.returned > 0 || before != (period.sold, period.total)
        };
        self.periods.iter().chain(&self.later).copied().filter(|period| moves(period)).collect()
    }

    /// The periods, and before them the time since the window began.
    fn all(&self) -> Vec<Period> {
        let (first, sold, total) = (self.periods[0].from.get(), self.sold_before, self.total_before);
        let mut waited = Vec::new();
        let mut to = first;
        while to > self.from.get() {
            let from = to.saturating_sub(self.width).max(self.from.get());
            waited.push(Period { from: Millis::new(from), to: Millis::new(to), bought: 0, returned: 0, sold, total });
            to = from;
        }
        waited.into_iter().rev().chain(self.periods.iter().copied()).collect()
    }

    /// At most `most` columns of the same width, but for the last.
    pub(super) fn even_columns(&self, most: usize) -> Vec<Period> {
        let all = self.all();
        all.chunks(all.len().div_ceil(most.max(1))).map(merged).collect()
    }

    /// At most `most` columns that all have nearly the same width.
    pub(super) fn columns(&self, most: usize) -> Vec<Period> {
        let all = self.all();
        let count = most.clamp(1, all.len());
        (0..count).map(|index| merged(&all[index * all.len() / count..(index + 1) * all.len() / count])).collect()
    }
}

/// Merges periods, at least one, into one.
fn merged(periods: &[Period]) -> Period {
    let (first, last) = (periods[0], periods[periods.len() - 1]);
    Period {
        from: first.from,
        bought: periods.iter().fold(0, |sum, period| sum.saturating_add(period.bought)),
        returned: periods.iter().fold(0, |sum, period| sum.saturating_add(period.returned)),
        ..last
    }
}

/// What a rate is counted by, so that it is no small fraction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Pace {
    /// `a second`.
    pub name: &'static str,
    millis: u32,
}

impl Pace {
    /// The shortest in which the busiest of some periods has a unit.
    pub(super) fn of(periods: &[Period]) -> Self {
        let second = Self { name: "a second", millis: 1000 };
        let (minute, hour) = (Self { name: "a minute", millis: 60_000 }, Self { name: "an hour", millis: 3_600_000 });
        let reaches = |pace: &Self| periods.iter().any(|period| pace.bought(period).max(pace.returned(period)) >= 1.0);
        [second, minute].into_iter().find(reaches).unwrap_or(hour)
    }

    /// Units bought.
    pub(super) fn bought(&self, period: &Period) -> f64 {
        self.rate(period, period.bought)
    }

    /// Units returned.
    pub(super) fn returned(&self, period: &Period) -> f64 {
        self.rate(period, period.returned)
    }

    fn rate(&self, period: &Period, units: u64) -> f64 {
        units as f64 * f64::from(self.millis) / (period.to.get() - period.from.get()).max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ledger::Entry;

    fn sales(orders: &[(u64, &str, &str)]) -> Sales {
        let mut sales = Sales::new(None);
        let mut add = |at: u64, op: &str, orders: &str| {
            let entry = Entry::of_orders(&format!("{at}-0"), op, orders);
            sales.add(&Entry { total: Some("100".into()), ..entry });
        };
        add(1000, "preheat", "");
        orders.iter().for_each(|(at, op, units)| add(*at, op, &format!("a {units}")));
        sales
    }

    #[test]
    fn columns_add_up_to_the_sale_however_many_there_are() {
        let orders: Vec<_> = (0..90).map(|index| (50_000 + index * 100, "deduct", "1")).collect();
        let sales = sales(&orders);
        let series = Series::new(&sales, Some(Millis::new(48_000))).unwrap();
        assert_eq!((series.from, series.periods[0].from), (Millis::new(48_000), Millis::new(50_000)));
        for most in [1, 7, 60, 5000] {
            let columns = series.columns(most);
            assert!(columns.len() <= most);
            assert_eq!(columns.iter().map(|column| column.bought).sum::<u64>(), 90);
            assert_eq!((columns[0].from, columns.last().unwrap().to), (series.from, series.to));
            assert!(columns.windows(2).all(|pair| pair[0].to == pair[1].from));
            assert_eq!(columns.last().unwrap().sold, 90);
            let even = series.even_columns(most);
            assert!(even.len() <= most && even.iter().map(|column| column.bought).sum::<u64>() == 90);
        }
    }

    #[test]
    fn rates_are_counted_by_a_time_in_which_there_is_a_unit() {
        let name = |apart: u64| {
            let orders: Vec<_> = (0..900).map(|index| (50_000 + index * apart, "deduct", "1")).collect();
            Pace::of(&Series::new(&sales(&orders), None).unwrap().even_columns(100)).name
        };
        assert_eq!(
            [10, 900, 3000, 600_000, 90_000_000].map(name),
            ["a second", "a second", "a minute", "an hour", "an hour"]
        );
    }

    #[test]
    fn a_window_that_began_long_before_is_left_out_and_what_came_later_is_one_period() {
        let mut orders: Vec<_> = (0..99).map(|index| (500_000 + index, "deduct", "1")).collect();
        orders.push((90_000_000, "refund", "4"));
        let series = Series::new(&sales(&orders), Some(Millis::new(2000))).unwrap();
        assert_eq!(series.from, Millis::new(500_000));
        let later = series.later.unwrap();
        assert_eq!((later.from, later.returned, later.sold), (series.to, 4, 95));
        assert_eq!(later.to, Millis::new(90_000_001));
        assert!(Series::new(&sales(&[]), None).is_none());
    }
}
