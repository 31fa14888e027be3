//! Trouble with the server, and how a run gets over it.

use std::thread::sleep;
use std::time::{Duration, Instant};

use redis::{ConnectionLike, RedisError, Value};

use super::super::StoreError;
use super::super::error::ServerKind;
use super::{Bulk, Step};

/// The first wait, and the longest.
const SHORTEST: Duration = Duration::from_millis(20);
const LONGEST: Duration = Duration::from_secs(1);

/// What is wrong, since when.
#[derive(Debug)]
pub(super) struct Trouble {
    since: Instant,
    next_try: Instant,
    pause: Duration,
    error: StoreError,
    /// Whether a call was sent of which nobody knows whether it ran.
    is_doubtful: bool,
    /// Whether the server could be asked since; only a decided batch ends the trouble.
    pub(super) is_over: bool,
    is_told: bool,
}

impl Bulk<'_> {
    /// Writes what was built.
    pub(super) fn write(&mut self) -> Result<(), StoreError> {
        let server = &mut self.store.server;
        let sent = server.connection()?.send_packed_command(&self.out);
        sent.map_err(|error| server.target.unreachable(&error))
    }

    /// The connection broke: what is in flight may have run, or not, and is sent again.
    pub(super) fn lose_connection(&mut self, error: StoreError) {
        self.store.server.disconnect();
        let is_doubtful = !self.flight.is_empty();
        self.weight = 0;
        for batch in std::mem::take(&mut self.flight) {
            self.put_back(&batch);
        }
        self.in_trouble(error, is_doubtful);
    }

    /// The server refused a call, and nothing of it ran: some refusals pass.
    pub(super) fn refused(&mut self, error: StoreError) -> Result<Step, StoreError> {
        match &error {
            StoreError::Server { kind, .. } if kind.may_pass() => (),
            StoreError::Unreachable { .. } | StoreError::Timeout { .. } => (),
            _ => {
                // What else is in flight should be told of before the run ends.
                self.drain()?;
                return Err(error);
            }
        }
        if matches!(error, StoreError::Server { kind: ServerKind::ReadOnly, .. }) && self.flight.is_empty() {
            // The address may lead to the new primary by now.
            self.store.server.disconnect();
        }
        self.in_trouble(error, false);
        Ok(Step::On)
    }

    pub(super) fn in_trouble(&mut self, error: StoreError, is_doubtful: bool) {
        let now = Instant::now();
        match &mut self.trouble {
            Some(trouble) => {
                trouble.next_try = now + trouble.pause;
                trouble.pause = (trouble.pause * 2).min(LONGEST);
                trouble.is_doubtful |= is_doubtful;
                trouble.is_over = false;
                trouble.error = error;
            }
            // The first try comes at once: a script that is not there only needs to be loaded.
            trouble @ None => {
                *trouble = Some(Trouble {
                    since: now,
                    next_try: now,
                    pause: SHORTEST,
                    error,
                    is_doubtful,
                    is_over: false,
                    is_told: false,
                });
            }
        }
    }

    /// Tries to get over the trouble, a short while at a time.
    pub(super) fn recover(&mut self) -> Result<Step, StoreError> {
        let Some(trouble) = &mut self.trouble else { return Ok(Step::On) };
        let now = Instant::now();
        if now.duration_since(trouble.since) >= self.terms.retry_for {
            return Err(self.unsettled());
        }
        // What is over within a blink is not worth a word.
        if !trouble.is_told && now.duration_since(trouble.since) >= Duration::from_millis(500) {
            trouble.is_told = true;
            return Ok(Step::Trouble(trouble.error.clone()));
        }
        if now < trouble.next_try {
            sleep((trouble.next_try - now).min(Duration::from_millis(100)));
            return Ok(Step::On);
        }
        match self.load() {
            Ok(()) => {
                if let Some(trouble) = &mut self.trouble {
                    trouble.is_over = true;
                }
            }
            Err(error @ (StoreError::Login { .. } | StoreError::Permission { .. })) => return Err(error),
            Err(error) => self.in_trouble(error, false),
        }
        Ok(Step::On)
    }

    /// How a run ends that did not get over its trouble.
    fn unsettled(&self) -> StoreError {
        let server = self.store.server.target.shown.clone();
        match &self.trouble {
            Some(Trouble { error, is_doubtful: true, .. }) => {
                StoreError::Unknown { server, why: error.to_string(), settle: None }
            }
            Some(Trouble { error, .. }) => error.clone(),
            None => StoreError::Unreachable { server, why: "it did not answer".to_owned() },
        }
    }

    /// Connects if need be, and loads the script: it may be another server by now.
    fn load(&mut self) -> Result<(), StoreError> {
        let text = self.script.text;
        let server = &mut self.store.server;
        let loaded = server.connection()?.req_command(redis::cmd("SCRIPT").arg("LOAD").arg(text));
        let error = match loaded {
            Ok(Value::ServerError(error)) => RedisError::from(error),
            Ok(_) => return Ok(()),
            Err(error) => error,
        };
        match StoreError::of_reply(&error, &server.target.shown) {
            Some(answer) => Err(answer),
            None => {
                server.disconnect();
                Err(server.target.unreachable(&error))
            }
        }
    }
}
