//! What a load test saw.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use crate::error::StoreError;
use crate::model::order::Corrupt;
use crate::model::status::Status;

/// An hour: what takes longer counts as that.
const LONGEST_NANOS: u64 = 3_600_000_000_000;

/// What came of the orders of a load test.
#[derive(Debug)]
pub(crate) struct Measured {
    /// Nanoseconds of each order that was answered, with three digits.
    latencies: Histogram<u64>,
    /// How many orders ended with each status.
    pub statuses: BTreeMap<Status, u64>,
    /// Orders without an answer: an error of the server, no reply in time, given up.
    pub errors: u64,
    /// The first of them.
    pub first_error: Option<StoreError>,
    /// Orders that were never sent, because no client was free for them.
    pub dropped: u64,
    /// How often part of an order was done again.
    pub retries: u64,
    /// From the start to the last reply.
    pub took: Duration,
    /// A key that holds what it must not.
    pub corrupt: Option<Corrupt>,
    /// Whether it was asked to stop.
    pub is_cut_short: bool,
}

impl Measured {
    pub(crate) fn new() -> Result<Self, StoreError> {
        let latencies = Histogram::new_with_bounds(1, LONGEST_NANOS, 3).map_err(|error| StoreError::Reply {
            what: "the histogram of latencies".to_owned(),
            reply: error.to_string(),
        })?;
        Ok(Self {
            latencies,
            statuses: BTreeMap::new(),
            errors: 0,
            first_error: None,
            dropped: 0,
            retries: 0,
            took: Duration::ZERO,
            corrupt: None,
            is_cut_short: false,
        })
    }

    /// Counts an order that was answered.
    pub(crate) fn answered(&mut self, status: Status, started: Instant, now: Instant) {
        let nanos = u64::try_from((now - started).as_nanos()).unwrap_or(u64::MAX);
        self.latencies.saturating_record(nanos.min(LONGEST_NANOS));
        *self.statuses.entry(status).or_default() += 1;
    }

    /// Counts an order without an answer.
    pub(crate) fn failed(&mut self, error: StoreError) {
        self.errors += 1;
        self.first_error.get_or_insert(error);
    }

    /// Orders that were answered.
    pub(crate) fn answers(&self) -> u64 {
        self.statuses.values().sum()
    }

    /// Orders that ended with a status.
    pub(crate) fn of(&self, status: Status) -> u64 {
        self.statuses.get(&status).copied().unwrap_or_default()
    }

    /// Orders that were answered, a second.
    #[allow(clippy::cast_precision_loss, reason = "a rate is shown, not counted with")]
    pub(crate) fn per_second(&self) -> f64 {
        self.answers() as f64 / self.took.as_secs_f64().max(0.000_001)
    }

    /// The mean latency; `None` if nothing was answered.
    pub(crate) fn mean(&self) -> Option<Duration> {
        let nanos = self.latencies.mean();
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is between two u64")]
        (!self.latencies.is_empty()).then(|| Duration::from_nanos(nanos as u64))
    }

    /// The latency that this share of all answers kept, in percent; `None` if nothing was answered.
    pub(crate) fn percentile(&self, percent: f64) -> Option<Duration> {
        (!self.latencies.is_empty()).then(|| Duration::from_nanos(self.latencies.value_at_percentile(percent)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latencies_of_all_sizes_are_recorded_within_a_thousandth() {
        let mut measured = Measured::new().unwrap();
        assert_eq!((measured.mean(), measured.percentile(50.0)), (None, None));
        let began = Instant::now();
        for millis in 1..=1000 {
            measured.answered(Status::Ok, began, began + Duration::from_millis(millis));
        }
        let is_near = |found: Option<Duration>, millis: f64| {
            let found = found.unwrap().as_secs_f64() * 1000.0;
            assert!((found - millis).abs() <= millis / 900.0, "{found} ms, not {millis}");
        };
        is_near(measured.mean(), 500.5);
        is_near(measured.percentile(50.0), 500.0);
        is_near(measured.percentile(99.0), 990.0);
        measured.answered(Status::OutOfStock, began, began + Duration::from_secs(3600));
        is_near(measured.percentile(100.0), 3_600_000.0);
        measured.answered(Status::OutOfStock, began, began + Duration::from_secs(7200));
        is_near(measured.percentile(100.0), 3_600_000.0);
        assert_eq!((measured.answers(), measured.of(Status::Ok)), (1002, 1000));
    }
}
