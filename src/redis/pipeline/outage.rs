//! An outage of the server, and when to try again: with a backoff that doubles.

use std::time::{Duration, Instant};

use crate::error::StoreError;
use crate::redis::pipeline::NAP;

/// The first backoff, and the longest.
const SHORTEST: Duration = Duration::from_millis(20);
const LONGEST: Duration = Duration::from_secs(1);

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
    /// Whether the server answers again; only a call that succeeds ends the outage.
    is_closed: bool,
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
        Self { since: now, next_try: now, backoff: SHORTEST, error, may_have_run, is_closed: false, is_reported: false }
    }

    /// Records a failure: the first one, or one more of an outage that is not over.
    pub(crate) fn record(outage: &mut Option<Self>, now: Instant, error: StoreError, may_have_run: bool) {
        let Some(outage) = outage else {
            *outage = Some(Self::new(now, error, may_have_run));
            return;
        };
        outage.next_try = now + outage.backoff;
        outage.backoff = (outage.backoff * 2).min(LONGEST);
        outage.may_have_run |= may_have_run;
        outage.is_closed = false;
        outage.error = error;
    }

    /// Whether nothing may be sent but attempts to reconnect.
    pub(crate) fn is_open(&self) -> bool {
        !self.is_closed
    }

    /// The server answers again.
    pub(crate) fn close(&mut self) {
        self.is_closed = true;
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
        Self { error: self.error.clone(), is_closed: true, ..*self }
    }

    /// The error for calls of which nobody knows whether they ran.
    pub(crate) fn unsettled(&self, server: &str) -> Option<StoreError> {
        let error = || StoreError::Unknown { server: server.to_owned(), why: self.error.to_string(), recovery: None };
        self.may_have_run.then(error)
    }
}
