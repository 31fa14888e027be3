//! How much goes at once, and how soon the next may follow.

use std::num::NonZeroU32;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// What a call weighs beside its orders: about so many orders' time of the server.
pub(super) const CALL: usize = 12;

/// How far a run that could not keep its rate may catch up.
const SLACK: Duration = Duration::from_millis(50);

/// The pace of a run.
#[derive(Debug, Clone)]
pub struct Pace {
    orders: usize,
    calls: usize,
    rate: Option<Rate>,
}

#[derive(Debug, Clone)]
struct Rate {
    per_order: Duration,
    due: Instant,
}

impl Pace {
    /// Others hardly notice: their p99 stays about a millisecond.
    pub fn gentle() -> Self {
        Self { orders: 128, calls: 2, rate: None }
    }

    /// As fast as the server can; others wait a few milliseconds.
    pub fn fast() -> Self {
        Self { orders: 256, calls: 4, rate: None }
    }

    /// At most so many orders a second, in steps of a hundredth of a second: the last call goes
    /// that much before its time, which is all by which a short run is too fast.
    #[must_use]
    pub fn bounded(mut self, orders_a_second: NonZeroU32) -> Self {
        let rate = orders_a_second.get();
        self.orders = self.orders.min((rate / 100).max(1) as usize);
        self.rate = Some(Rate { per_order: Duration::from_secs(1) / rate, due: Instant::now() });
        self
    }

    /// The most orders of a call.
    pub(super) fn most_orders(&self) -> usize {
        self.orders
    }

    /// The most weight in flight.
    pub(super) fn most_weight(&self) -> usize {
        self.calls * (self.orders + CALL)
    }

    pub(super) fn is_due(&self) -> bool {
        self.rate.as_ref().is_none_or(|rate| Instant::now() >= rate.due)
    }

    /// Waits until it is due, but not so long that nobody could interrupt it.
    pub(super) fn wait(&self) {
        if let Some(rate) = &self.rate {
            sleep(rate.due.saturating_duration_since(Instant::now()).min(Duration::from_millis(100)));
        }
    }

    pub(super) fn sent(&mut self, orders: usize) {
        if let Some(rate) = &mut self.rate {
            let now = Instant::now();
            let orders = u32::try_from(orders).unwrap_or(u32::MAX);
            rate.due = rate.due.max(now.checked_sub(SLACK).unwrap_or(now)) + rate.per_order * orders;
        }
    }
}
