//! When an activity will be sold out, if it sells on as it does: by units a second, from how many were sold at each reading.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Further ahead nothing is said.
const MAX_SECONDS: f64 = 24.0 * 3600.0;

/// What comes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Forecast {
    /// It is sold out then.
    SoldOutIn(Duration),
    /// Its window ends before; the units that are left then.
    EndsWith(u64),
}

impl Forecast {
    /// The forecast of a stock that falls by `rate` units a second, in a window that ends in `ends_in`.
    pub(super) fn of(stock: u64, rate: Option<f64>, ends_in: Option<Duration>) -> Option<Self> {
        let rate = rate.filter(|rate| *rate > 0.0 && stock > 0)?;
        let seconds = stock as f64 / rate;
        match ends_in {
            Some(end) if end.as_secs_f64() < seconds => {
                let left = stock as f64 - rate * end.as_secs_f64();
                Some(Self::EndsWith(left.max(1.0) as u64))
            }
            _ => (seconds <= MAX_SECONDS).then(|| Self::SoldOutIn(Duration::from_secs_f64(seconds))),
        }
    }

    /// Seconds until it is sold out.
    pub(super) fn seconds(self) -> Option<u64> {
        match self {
            Self::SoldOutIn(time) => Some(time.as_secs()),
            Self::EndsWith(_) => None,
        }
    }
}

impl std::fmt::Display for Forecast {
    /// No more exact than it can be: `~3 m 20 s`, `~45 left`.
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::SoldOutIn(time) => formatter.write_str(&in_words(time.as_secs())),
            Self::EndsWith(left) => write!(formatter, "~{} left", rounded(*left)),
        }
    }
}

fn in_words(seconds: u64) -> String {
    let to = |step: u64| (seconds + step / 2) / step * step;
    match seconds {
        0..=4 => "now".to_owned(),
        5..=57 => format!("~{} s", to(5)),
        58..=594 => match (to(10) / 60, to(10) % 60) {
            (minutes, 0) => format!("~{minutes} m"),
            (minutes, seconds) => format!("~{minutes} m {seconds} s"),
        },
        595..=3569 => format!("~{} m", to(60) / 60),
        _ => match (to(600) / 3600, to(600) % 3600 / 60) {
            (hours, 0) => format!("~{hours} h"),
            (hours, minutes) => format!("~{hours} h {minutes} m"),
        },
    }
}

/// To two digits.
fn rounded(count: u64) -> u64 {
    let step = 10_u64.pow(count.checked_ilog10().unwrap_or(0).saturating_sub(1));
    count / step * step
}

/// What a rate is an average of: short enough to follow a sale, long enough to be read.
const WINDOW: Duration = Duration::from_secs(10);
/// What a forecast looks back at.
const STEADY_WINDOW: Duration = Duration::from_secs(30);
/// What it needs to have seen at least.
const STEADY_SPAN: Duration = Duration::from_secs(5);
const STEADY_SAMPLES: usize = 4;
const STEADY_UNITS: i64 = 10;

/// How many units of an activity were sold at each of the last readings. Refunds count against it.
#[derive(Debug, Default)]
pub(super) struct History {
    /// Of one sale: a reset begins another.
    epoch: Option<u64>,
    samples: VecDeque<(Instant, i64)>,
}

impl History {
    /// Adds a reading. `sold` may be any number that grows by one with each unit that is sold.
    pub(super) fn add(&mut self, at: Instant, sold: i64, epoch: Option<u64>) {
        if self.epoch != epoch || self.samples.back().is_some_and(|(last, _)| *last >= at) {
            self.samples.clear();
        }
        self.epoch = epoch;
        self.samples.push_back((at, sold));
        // One that is older stays: it is where the window begins if readings are rare.
        while self.samples.get(1).is_some_and(|(second, _)| at.duration_since(*second) >= STEADY_WINDOW) {
            self.samples.pop_front();
        }
    }

    /// Units a second; negative while more come back than go. `None` before the second reading.
    pub(super) fn rate(&self) -> Option<f64> {
        let (last, _) = self.samples.back()?;
        let before = self.samples.iter().rev().nth(1)?;
        let first = self.samples.iter().find(|(at, _)| last.duration_since(*at) <= WINDOW);
        let from = first.filter(|(at, _)| at < last).unwrap_or(before);
        self.between(*from, *self.samples.back()?)
    }

    /// The rate, if it was long and steady enough to say what comes: neither half is more than twice as quick as the
    /// other.
    pub(super) fn steady_rate(&self) -> Option<f64> {
        let (first, last) = (*self.samples.front()?, *self.samples.back()?);
        let span = last.0.duration_since(first.0);
        if self.samples.len() < STEADY_SAMPLES || span < STEADY_SPAN || last.1 - first.1 < STEADY_UNITS {
            return None;
        }
        let middle =
            *self.samples.iter().min_by_key(|(at, _)| (first.0 + span / 2).max(*at) - (first.0 + span / 2).min(*at))?;
        let (one, other) = (self.between(first, middle)?, self.between(middle, last)?);
        let is_steady = one > 0.0 && other > 0.0 && one <= 2.0 * other && other <= 2.0 * one;
        if is_steady { self.between(first, last) } else { None }
    }

    // Units are below 2^53.
    fn between(&self, from: (Instant, i64), to: (Instant, i64)) -> Option<f64> {
        let seconds = to.0.duration_since(from.0).as_secs_f64();
        (seconds > 0.0).then(|| to.1.saturating_sub(from.1) as f64 / seconds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_forecast_needs_a_rate_and_something_to_sell() {
        let soon = Some(Forecast::SoldOutIn(Duration::from_secs(200)));
        assert_eq!(Forecast::of(2000, Some(10.0), None), soon);
        assert_eq!(Forecast::of(2000, Some(10.0), Some(Duration::from_secs(300))), soon);
        for (stock, rate) in [(2000, None), (0, Some(10.0)), (10, Some(0.0)), (10, Some(-3.0)), (100_000, Some(1.0))] {
            assert_eq!(Forecast::of(stock, rate, None), None, "{stock} {rate:?}");
        }
    }

    #[test]
    fn a_window_that_ends_before_leaves_units() {
        let end = Forecast::of(2000, Some(10.0), Some(Duration::from_secs(60))).unwrap();
        assert_eq!((end, end.seconds(), end.to_string()), (Forecast::EndsWith(1400), None, "~1400 left".to_owned()));
        assert_eq!(Forecast::of(100_000, Some(1.0), Some(Duration::from_secs(1))), Some(Forecast::EndsWith(99_999)));
        assert_eq!(Forecast::EndsWith(99_999).to_string(), "~99000 left");
    }

    #[test]
    fn a_time_is_said_no_more_exactly_than_it_is_known() {
        for (seconds, words) in [
            (3, "now"),
            (6, "~5 s"),
            (43, "~45 s"),
            (57, "~55 s"),
            (58, "~1 m"),
            (202, "~3 m 20 s"),
            (594, "~9 m 50 s"),
            (595, "~10 m"),
            (3569, "~59 m"),
            (3570, "~1 h"),
            (12_000, "~3 h 20 m"),
            (86_400, "~24 h"),
        ] {
            assert_eq!(in_words(seconds), words, "{seconds}");
        }
    }

    fn history(samples: &[(u64, i64)]) -> History {
        let begin = Instant::now();
        let mut history = History::default();
        for (second, sold) in samples {
            history.add(begin + Duration::from_secs(*second), *sold, Some(1));
        }
        history
    }

    #[test]
    fn a_rate_is_the_average_of_ten_seconds() {
        assert_eq!(history(&[(0, 5)]).rate(), None);
        assert_eq!(history(&[(0, 5), (2, 25)]).rate(), Some(10.0));
        let long: Vec<(u64, i64)> = (0..30).map(|second| (second, if second < 20 { 0 } else { 100 })).collect();
        assert_eq!(history(&long[..25]).rate(), Some(10.0));
        assert_eq!(history(&long).rate(), Some(10.0));
        // Rare readings: the last two.
        assert_eq!(history(&[(0, 0), (60, 60), (120, 180)]).rate(), Some(2.0));
        assert_eq!(history(&[(0, 20), (2, 10)]).rate(), Some(-5.0), "refunds");
    }

    #[test]
    fn another_sale_has_a_rate_of_its_own() {
        let mut history = history(&[(0, 100), (2, 200)]);
        let later = Instant::now() + Duration::from_secs(4);
        history.add(later, 0, Some(2));
        assert_eq!(history.rate(), None);
        history.add(later + Duration::from_secs(1), 3, Some(2));
        assert_eq!(history.rate(), Some(3.0));
    }

    #[test]
    fn only_a_rate_that_lasts_is_steady() {
        assert_eq!(history(&[(0, 0), (2, 20), (4, 40), (6, 60)]).steady_rate(), Some(10.0));
        for unsteady in [
            &[(0, 0), (2, 20), (4, 40)][..],
            &[(0, 0), (1, 10), (2, 20), (3, 30)],
            &[(0, 0), (2, 1), (4, 2), (6, 3)],
            &[(0, 0), (2, 90), (4, 95), (6, 100)],
            &[(0, 0), (2, 0), (4, 0), (6, 100)],
            &[(0, 100), (2, 80), (4, 40), (6, 0)],
        ] {
            assert_eq!(history(unsteady).steady_rate(), None, "{unsteady:?}");
        }
    }
}
