//! Sends until there is an answer, or no hope of one: the only place where a call is sent a second time.

use redis::{Cmd, Value};

use crate::error::{Recovery, StoreError};
use crate::redis::call::attempts::Attempts;
use crate::redis::call::exchange::{CallFailure, ReplicaWait, Sending};
use crate::redis::call::replicated::ReplicaAck;
use crate::redis::call::{Call, RetrySafety, Try};
use crate::redis::cluster::Servers;

/// The reply to a call.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) value: Value,
    /// Whether an [idempotent](RetrySafety::Idempotent) call may have run before this reply's, so that a copy may still come.
    pub(crate) was_resent: bool,
}

impl From<ReplicaAck> for Answer {
    fn from(mut ack: ReplicaAck) -> Self {
        Self { value: ack.values.pop().unwrap_or(Value::Nil), was_resent: ack.was_resent }
    }
}

impl Servers {
    /// Sends one call, again if that is safe, and gives its reply.
    ///
    /// # Errors
    /// Any of [`StoreError`].
    pub(crate) fn call(&mut self, call: &Call) -> Result<Value, StoreError> {
        self.answer(call).map(|answer| answer.value)
    }

    /// The same with whether it may have run twice.
    ///
    /// # Errors
    /// Any of [`StoreError`].
    pub(crate) fn answer(&mut self, call: &Call) -> Result<Answer, StoreError> {
        self.send_with_retry(std::slice::from_ref(call), None, None).map(Answer::from)
    }

    /// The same for a call whose earlier try was lost, for the reason given.
    pub(super) fn answer_after(&mut self, call: &Call, lost: &StoreError) -> Result<Answer, StoreError> {
        self.send_with_retry(std::slice::from_ref(call), None, Some(lost)).map(Answer::from)
    }

    /// Sends one command about a key that only reads (or may be sent twice) and gives its reply.
    pub(crate) fn command(&mut self, key: &str, command: &Cmd) -> Result<Value, StoreError> {
        self.call(&Call::command(key, command))
    }

    /// The same for one that any node can answer.
    pub(crate) fn ask_any(&mut self, command: &Cmd) -> Result<Value, StoreError> {
        self.call(&Call::keyless(command))
    }

    /// The same for one that a certain node must answer.
    pub(crate) fn ask_node(&mut self, node: usize, command: &Cmd) -> Result<Value, StoreError> {
        self.call(&Call::at_node(node, command))
    }

    /// Sends calls of one slot until there is an answer, or no hope of one within three timeouts. An earlier try may be `lost`.
    pub(super) fn send_with_retry(
        &mut self,
        calls: &[Call],
        wait: Option<ReplicaWait>,
        lost: Option<&StoreError>,
    ) -> Result<ReplicaAck, StoreError> {
        let sent = self.try_with_retry(calls, wait, lost).map_err(|error| self.explained(error));
        sent.map_err(|error| match calls.iter().find(|call| call.called_script().is_some()) {
            Some(call) => call.named_in(error),
            None => error,
        })
    }

    fn try_with_retry(
        &mut self,
        calls: &[Call],
        wait: Option<ReplicaWait>,
        lost: Option<&StoreError>,
    ) -> Result<ReplicaAck, StoreError> {
        self.check_layout()?;
        let Some(first) = calls.first() else { return Ok(ReplicaAck::default()) };
        let mut attempts = Attempts::new(self);
        let mut doubt = Doubt::new(self, calls);
        if let Some(error) = lost {
            doubt.add(error)?;
        }
        let mut by_text = false;
        loop {
            let (node, asks) = match first.node {
                Some(node) => (node, false),
                None => attempts.node(self, first.slot),
            };
            let sending = Sending { attempt: doubt.attempt, asks, wait: wait.filter(|_| self.is_followed(node)) };
            let failure = match self.node(node).exchange(calls, sending, by_text) {
                Ok((values, replicas)) => {
                    return Ok(ReplicaAck { values, replicas, node, was_resent: doubt.attempt == Try::Retry });
                }
                // EVAL loads and runs in one; what ran already is replayed.
                Err(CallFailure::NoScript) if !by_text => {
                    by_text = true;
                    attempts.ask_again(asks, node);
                    continue;
                }
                Err(failure @ (CallFailure::NoScript | CallFailure::NotReplicated)) => return Err(failure.into_error()),
                Err(CallFailure::Unsent(error)) if doubt.why.is_none() && !self.may_recover(&error) => {
                    return Err(error);
                }
                Err(CallFailure::Unsent(error)) => error,
                Err(CallFailure::Refused(error)) => {
                    self.learn(&error)?;
                    if !error.is_transient() && !self.may_recover(&error) {
                        // If it is the reply to a retry, what became of the first try is not known.
                        return Err(doubt.unknown_after_retry(error.to_string()).unwrap_or(error));
                    }
                    error
                }
                Err(CallFailure::Lost(error)) => {
                    doubt.add(&error)?;
                    error
                }
            };
            let recovered = match first.node {
                Some(_) => attempts.wait(self, failure),
                None => self.recover(&mut attempts, first.slot, node, failure),
            };
            recovered.map_err(|error| doubt.end(error))?;
        }
    }
}

/// What is not known of calls whose connection broke.
struct Doubt<'c> {
    calls: &'c [Call],
    server: String,
    /// How the next try is sent.
    attempt: Try,
    /// Why the last connection broke.
    why: Option<String>,
}

impl<'c> Doubt<'c> {
    fn new(servers: &Servers, calls: &'c [Call]) -> Self {
        Self { calls, server: servers.target().shown.clone(), attempt: Try::First, why: None }
    }

    /// A connection broke after calls were sent.
    ///
    /// # Errors
    /// They must not be sent again.
    fn add(&mut self, error: &StoreError) -> Result<(), StoreError> {
        match self.calls.iter().map(|call| call.safety).max() {
            Some(RetrySafety::AtMostOnce) => return Err(self.unknown(error.why())),
            Some(RetrySafety::Idempotent) => self.attempt = Try::Retry,
            _ => {}
        }
        self.why = Some(error.why());
        Ok(())
    }

    /// The error for calls that will not be sent again.
    fn end(&self, error: StoreError) -> StoreError {
        self.why.clone().and_then(|why| self.unknown_after_retry(why)).unwrap_or(error)
    }

    /// The error for calls that may have run, if anybody has to find out.
    fn unknown_after_retry(&self, why: String) -> Option<StoreError> {
        (self.attempt == Try::Retry && self.recovery().is_some()).then(|| self.unknown(why))
    }

    fn unknown(&self, why: String) -> StoreError {
        StoreError::Unknown { server: self.server.clone(), why, recovery: self.recovery() }
    }

    fn recovery(&self) -> Option<Recovery> {
        self.calls.iter().find_map(|call| call.recovery.clone())
    }
}
