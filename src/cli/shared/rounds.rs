//! Services: the same again and again, until Ctrl-C.

use std::time::{Duration, Instant};

use crate::cli::args::duration_in;
use crate::cli::failure::{Failure, Result};
use crate::cli::interrupt;
use crate::error::{Recovery, StoreError};

/// How often a service does its work.
pub fn every(text: &str) -> Result<Duration, String> {
    duration_in(Duration::from_millis(10).., text, "expected a duration from 10ms, such as 1s")
}

/// Waits until the next round of a service, whose last one began then. False if it is over: on Ctrl-C, or once `reader_left`.
pub fn wait(every: Duration, began: Instant, reader_left: impl Fn() -> bool) -> bool {
    loop {
        if interrupt::requested() || reader_left() {
            return false;
        }
        let left = every.saturating_sub(began.elapsed());
        if left.is_zero() {
            return true;
        }
        std::thread::sleep(left.min(Duration::from_millis(50)));
    }
}

/// Says once that a server does not answer, as long as it does not.
#[derive(Debug, Default)]
pub struct Outage {
    is_said: bool,
}

impl Outage {
    /// What failed, if a later round may succeed; else the failure, which ends the service.
    ///
    /// # Errors
    /// The failure.
    pub fn began(&mut self, failure: Failure, warn: impl FnOnce(String)) -> Result<()> {
        let is_passing = |error: &StoreError| {
            // The next round is that call.
            let is_made_again = matches!(error, StoreError::Unknown { recovery: Some(Recovery::SameCall), .. });
            error.is_retryable() || is_made_again
        };
        if !failure.store().is_some_and(is_passing) {
            return Err(failure);
        }
        if !std::mem::replace(&mut self.is_said, true) {
            warn(format!("{}; trying again", failure.message));
        }
        Ok(())
    }

    /// The server answered.
    pub fn ended(&mut self) {
        self.is_said = false;
    }
}
