//! When orders start: each as soon as a client is free, or at a fixed rate, whether or not clients are free.

use std::num::NonZeroU32;
use std::time::{Duration, Instant};

/// When orders start, and how many.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PaceOptions {
    /// Orders a second; without it a client that is free starts the next one at once.
    pub rate: Option<NonZeroU32>,
    /// When no more start.
    pub until: Until,
}

/// When no more orders start.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Until {
    /// After this many orders.
    Orders(u64),
    /// After this time.
    Elapsed(Duration),
}

impl Until {
    /// How many orders there will be, if that is known.
    pub(crate) fn orders(self) -> Option<u64> {
        match self {
            Self::Orders(orders) => Some(orders),
            Self::Elapsed(_) => None,
        }
    }
}

/// The orders of a run, from its beginning on.
#[derive(Debug)]
pub(crate) struct Pace {
    options: PaceOptions,
    began: Instant,
    next: u64,
    /// An order that no client could start within this time is dropped.
    patience: Duration,
    pub(crate) dropped: u64,
    is_stopped: bool,
}

/// What comes next.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// The order of that number, from 0; its time counts from then on.
    Order(u64, Instant),
    /// None before that.
    NotBefore(Instant),
    /// None any more.
    Over,
}

impl Pace {
    pub(crate) fn new(options: PaceOptions, began: Instant, patience: Duration) -> Self {
        Self { options, began, next: 0, patience, dropped: 0, is_stopped: false }
    }

    /// No more orders start.
    pub(crate) fn stop(&mut self) {
        self.is_stopped = true;
    }

    /// Whether an order starts now or later, if a client is free.
    pub(crate) fn has_more(&self, now: Instant) -> bool {
        !self.is_stopped
            && match self.options.until {
                Until::Orders(most) => self.next < most,
                Until::Elapsed(most) => self.intended(now) - self.began < most,
            }
    }

    fn intended(&self, now: Instant) -> Instant {
        self.options.rate.map_or(now, |rate| self.began + after(self.next, rate))
    }

    /// The order that a client starts which is free now.
    pub(crate) fn turn(&mut self, now: Instant) -> Turn {
        loop {
            if !self.has_more(now) {
                return Turn::Over;
            }
            let intended = self.intended(now);
            if intended > now {
                return Turn::NotBefore(intended);
            }
            let number = self.next;
            self.next += 1;
            if now - intended <= self.patience {
                return Turn::Order(number, intended);
            }
            self.dropped += 1;
        }
    }
}

/// How long after the first one an order starts.
fn after(number: u64, rate: NonZeroU32) -> Duration {
    let nanos = u128::from(number) * 1_000_000_000 / u128::from(rate.get());
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pace(rate: Option<u32>, until: Until) -> (Pace, Instant) {
        let began = Instant::now();
        let options = PaceOptions { rate: rate.and_then(NonZeroU32::new), until };
        (Pace::new(options, began, Duration::from_secs(1)), began)
    }

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn without_a_rate_an_order_starts_when_a_client_is_free() {
        let (mut pace, began) = pace(None, Until::Orders(2));
        assert_eq!(pace.turn(began + MS), Turn::Order(0, began + MS));
        assert_eq!(pace.turn(began + 9 * MS), Turn::Order(1, began + 9 * MS));
        assert_eq!(pace.turn(began + 10 * MS), Turn::Over);
    }

    #[test]
    fn with_a_rate_time_counts_from_the_intended_start() {
        let (mut pace, began) = pace(Some(100), Until::Elapsed(30 * MS));
        assert_eq!(pace.turn(began), Turn::Order(0, began));
        assert_eq!(pace.turn(began + MS), Turn::NotBefore(began + 10 * MS));
        // No client was free meanwhile.
        assert_eq!(pace.turn(began + 500 * MS), Turn::Order(1, began + 10 * MS));
        assert_eq!(pace.turn(began + 500 * MS), Turn::Order(2, began + 20 * MS));
        assert_eq!(pace.turn(began + 500 * MS), Turn::Over, "the fourth would start after the end");
        assert_eq!(pace.dropped, 0);
    }

    #[test]
    fn an_order_that_no_client_starts_in_time_is_dropped_and_counted() {
        let (mut pace, began) = pace(Some(100), Until::Orders(10));
        assert_eq!(pace.turn(began + 1035 * MS), Turn::Order(4, began + 40 * MS));
        assert_eq!(pace.dropped, 4);
        pace.stop();
        assert_eq!(pace.turn(began + 1035 * MS), Turn::Over);
    }
}
