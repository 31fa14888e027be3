//! How much is sent at once, how fast, and in an outage of the server when to try again: with a backoff that doubles.

use std::cell::Cell;
use std::num::NonZeroU32;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::error::StoreError;
use crate::redis::call::retry::{LONGEST_PAUSE, SHORTEST_PAUSE};
use crate::redis::pipeline::{CALL_WEIGHT, NAP};
use crate::redis::system::System;

/// By how much a run that could not keep its rate may exceed it later.
const BURST: Duration = Duration::from_millis(50);

/// How much is in flight at most, and the rate limit.
#[derive(Debug, Clone)]
pub(crate) struct Limits {
    /// The most orders of a call.
    pub(crate) orders: usize,
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

/// What is over sooner is not reported.
const SILENT: Duration = Duration::from_millis(500);

/// The server is gone, or refuses calls, since when.
#[derive(Debug)]
pub(crate) struct Outage {
    pub(crate) since: Instant,
    next_try: Instant,
    pub(crate) backoff: Duration,
    /// The latest error.
    pub(crate) error: StoreError,
    /// Whether calls were in flight when the connection broke: nobody knows whether they ran.
    may_have_run: bool,
    /// Whether the server answers again; only a call that succeeds ends the outage. Until then nothing is sent but attempts to reconnect.
    pub(crate) has_answered: bool,
    is_reported: bool,
}

/// What to do about an outage now.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Attempt {
    Now,
    Wait(Duration),
    Report,
    GiveUp,
}

impl Outage {
    /// One that begins now. The first attempt comes at once: a script that is not there only needs to be loaded.
    pub(crate) fn new(now: Instant, error: StoreError, may_have_run: bool) -> Self {
        Self {
            since: now,
            next_try: now,
            backoff: SHORTEST_PAUSE,
            error,
            may_have_run,
            has_answered: false,
            is_reported: false,
        }
    }

    /// Records a failure: the first one, or one more of an outage that is not over.
    pub(crate) fn record(outage: &mut Option<Self>, now: Instant, error: StoreError, may_have_run: bool) {
        let Some(outage) = outage else {
            *outage = Some(Self::new(now, error, may_have_run));
            return;
        };
        outage.next_try = now + outage.backoff;
        outage.backoff = (outage.backoff * 2).min(LONGEST_PAUSE);
        outage.may_have_run |= may_have_run;
        outage.has_answered = false;
        outage.error = error;
    }

    /// What to do now. `Report` comes once.
    pub(crate) fn attempt(&mut self, now: Instant, retry_for: Duration) -> Attempt {
        let lasted = now.duration_since(self.since);
        if lasted >= retry_for {
            return Attempt::GiveUp;
        }
        if !self.is_reported && lasted >= SILENT {
            self.is_reported = true;
            return Attempt::Report;
        }
        match self.next_try.saturating_duration_since(now) {
            Duration::ZERO => Attempt::Now,
            pause => Attempt::Wait(pause.min(NAP)),
        }
    }

    /// When there is something to do about it next.
    pub(crate) fn due(&self, retry_for: Duration) -> Instant {
        let report = if self.is_reported { self.next_try } else { self.since + SILENT };
        self.next_try.min(report).min(self.since + retry_for)
    }

    /// The same outage for the server that took over: it answers, and has not settled what may have run.
    pub(crate) fn taken_over(&self) -> Self {
        Self { error: self.error.clone(), has_answered: true, ..*self }
    }

    /// The error for calls of which nobody knows whether they ran.
    pub(crate) fn unsettled(&self, server: &str) -> Option<StoreError> {
        let error = || StoreError::Unknown { server: server.to_owned(), why: self.error.to_string(), recovery: None };
        self.may_have_run.then(error)
    }
}
