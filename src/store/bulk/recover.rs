//! Trouble with the server, and how a run gets over it.

use std::thread::sleep;
use std::time::{Duration, Instant};

use redis::{RedisError, ServerError, Value};

use super::super::StoreError;
use super::super::call::Server;
use super::super::error::ServerKind;
use super::super::scripts::Script;
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

impl Trouble {
    /// Takes note of trouble: the first, or one more.
    pub(super) fn note(slot: &mut Option<Self>, error: StoreError, is_doubtful: bool) {
        let now = Instant::now();
        match slot {
            Some(trouble) => {
                trouble.next_try = now + trouble.pause;
                trouble.pause = (trouble.pause * 2).min(LONGEST);
                trouble.is_doubtful |= is_doubtful;
                trouble.is_over = false;
                trouble.error = error;
            }
            // The first try comes at once: a script that is not there only needs to be loaded.
            slot @ None => {
                *slot = Some(Self {
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

    /// Takes note that the server refused a call, and nothing of it ran: some refusals pass. One that does not comes back.
    pub(super) fn refused(
        slot: &mut Option<Self>,
        server: &mut Server,
        error: StoreError,
        is_idle: bool,
    ) -> Option<StoreError> {
        if !may_pass(&error) {
            return Some(error);
        }
        if may_have_moved(&error) && is_idle {
            server.disconnect();
        }
        Self::note(slot, error, false);
        None
    }

    /// Takes note that the server has the script no longer, where an error says so; else says what it means.
    pub(super) fn answered(
        slot: &mut Option<Self>,
        server: &Server,
        script: &Script,
        error: ServerError,
    ) -> Option<StoreError> {
        let error = RedisError::from(error);
        if error.code() == Some("NOSCRIPT") {
            let reply = error.to_string();
            Self::note(slot, StoreError::Reply { what: script.name.to_owned(), reply }, false);
            return None;
        }
        let target = &server.target;
        Some(StoreError::of_reply(&error, &target.shown).unwrap_or_else(|| target.unreachable(&error)))
    }

    /// Tries to get over the trouble, a short while at a time.
    pub(super) fn recover(
        slot: &mut Option<Self>,
        server: &mut Server,
        script: &Script,
        retry_for: Duration,
    ) -> Result<Step, StoreError> {
        let Some(trouble) = slot else { return Ok(Step::On) };
        let now = Instant::now();
        if now.duration_since(trouble.since) >= retry_for {
            return Err(trouble.unsettled(server));
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
        match load(server, script) {
            Ok(()) => trouble.is_over = true,
            Err(error @ (StoreError::Login { .. } | StoreError::Permission { .. })) => return Err(error),
            Err(error) => Self::note(slot, error, false),
        }
        Ok(Step::On)
    }

    /// How a run ends that did not get over its trouble.
    fn unsettled(&self, server: &Server) -> StoreError {
        self.doubt(server).unwrap_or_else(|| self.error.clone())
    }

    /// The error for calls of which nobody knows whether they ran.
    pub(super) fn doubt(&self, server: &Server) -> Option<StoreError> {
        let server = server.target.shown.clone();
        self.is_doubtful.then(|| StoreError::Unknown { server, why: self.error.to_string(), settle: None })
    }
}

/// Whether the server refused a call, nothing of it ran, and another try may help.
fn may_pass(error: &StoreError) -> bool {
    match error {
        StoreError::Server { kind, .. } => kind.may_pass(),
        StoreError::Unreachable { .. } | StoreError::Timeout { .. } => true,
        _ => false,
    }
}

/// Whether the address may lead to another server by now, one that takes writes.
fn may_have_moved(error: &StoreError) -> bool {
    matches!(error, StoreError::Server { kind: ServerKind::ReadOnly, .. })
}

/// The reply that comes next.
pub(super) fn next_reply(server: &mut Server) -> Result<Value, StoreError> {
    let received = server.connection()?.recv_response();
    received.map_err(|error| server.target.unreachable(&error))
}

/// Connects if need be, and loads the script: it may be another server by now.
fn load(server: &mut Server, script: &Script) -> Result<(), StoreError> {
    let loaded = server.connection()?.req_command(redis::cmd("SCRIPT").arg("LOAD").arg(script.text));
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
        let is_idle = self.flight.is_empty();
        match Trouble::refused(&mut self.trouble, &mut self.store.server, error, is_idle) {
            Some(error) => {
                // What else is in flight should be told of before the run ends.
                self.drain()?;
                Err(error)
            }
            None => Ok(Step::On),
        }
    }

    pub(super) fn in_trouble(&mut self, error: StoreError, is_doubtful: bool) {
        Trouble::note(&mut self.trouble, error, is_doubtful);
    }

    /// Tries to get over the trouble, a short while at a time.
    pub(super) fn recover(&mut self) -> Result<Step, StoreError> {
        Trouble::recover(&mut self.trouble, &mut self.store.server, self.script, self.terms.retry_for)
    }
}
