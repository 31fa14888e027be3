//! How much is sent at once, and how fast.

use std::cell::Cell;
use std::num::NonZeroU32;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::redis::pipeline::CALL_WEIGHT;
use crate::redis::system::System;

/// By how much a run that could not keep its rate may exceed it later.
const BURST: Duration = Duration::from_millis(50);

/// How much is in flight at most, and the rate limit.
#[derive(Debug, Clone)]
pub(crate) struct Limits {
    orders: usize,
    calls: usize,
    rate: Option<NonZeroU32>,
}

impl Limits {
    /// For a server that others use: their p99 stays about a millisecond.
    pub(crate) fn shared() -> Self {
        Self { orders: 128, calls: 2, rate: None }
    }

    /// As fast as the server can; other clients wait a few milliseconds.
    pub(crate) fn fast() -> Self {
        Self { orders: 256, calls: 4, rate: None }
    }

    /// So many orders a call.
    #[must_use]
    pub(crate) fn with_orders(mut self, orders: usize) -> Self {
        self.orders = orders.max(1);
        self
    }

    /// At most so many orders a second, a hundredth of them a call: the last call is sent that much too early, which
    /// is all by which a short run exceeds the rate.
    #[must_use]
    pub(crate) fn with_rate(mut self, orders_per_second: NonZeroU32) -> Self {
        self.orders = self.orders.min((orders_per_second.get() / 100).max(1) as usize);
        self.rate = Some(orders_per_second);
        self
    }

    /// The most orders of a call.
    pub(crate) fn most_orders(&self) -> usize {
        self.orders
    }

    /// The most weight in flight.
    pub(crate) fn most_weight(&self) -> usize {
        self.calls * (self.orders + CALL_WEIGHT)
    }

    pub(crate) fn rate_limit(&self, system: &Arc<dyn System>) -> Option<RateLimit> {
        let per_order = Duration::from_secs(1) / self.rate?.get();
        Some(RateLimit { system: Arc::clone(system), per_order, due: Rc::new(Cell::new(system.now())) })
    }
}

/// When the next call may be sent; a clone shares it.
#[derive(Debug, Clone)]
pub(crate) struct RateLimit {
    system: Arc<dyn System>,
    per_order: Duration,
    pub(crate) due: Rc<Cell<Instant>>,
}

impl RateLimit {
    pub(crate) fn is_due(&self) -> bool {
        self.system.now() >= self.due.get()
    }

    /// Counts orders that are sent now.
    pub(crate) fn spend(&self, orders: usize) {
        let now = self.system.now();
        let orders = u32::try_from(orders).unwrap_or(u32::MAX);
        self.due.set(self.due.get().max(now.checked_sub(BURST).unwrap_or(now)) + self.per_order * orders);
    }
}
