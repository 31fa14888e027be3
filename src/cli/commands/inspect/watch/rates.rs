//! Units a second, from how many were sold at each reading.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

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

    #[allow(clippy::cast_precision_loss)] // Units are below 2^53.
    fn between(&self, from: (Instant, i64), to: (Instant, i64)) -> Option<f64> {
        let seconds = to.0.duration_since(from.0).as_secs_f64();
        (seconds > 0.0).then(|| to.1.saturating_sub(from.1) as f64 / seconds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
