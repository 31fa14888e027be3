//! Sends until there is an answer, or no hope of one. Nothing else sends a call again that may have run.
//!
//! With a replica that must have what was written before anything else is done, `WAIT` is behind the calls, on the same connection, in
//! one write. Scans have their attempts from here, too.

use std::time::{Duration, Instant};

use redis::{Cmd, ToRedisArgs, Value};

use crate::error::{Recovery, Result, ServerKind, StoreError};
use crate::redis::call::exchange::{CallFailure, ReplicaWait, Sending};
use crate::redis::call::{Call, RetrySafety, Try};
use crate::redis::cluster::Servers;
use crate::script::reply::Reply;

/// The replies to calls, and who has what they wrote.
#[derive(Debug, Default)]
pub(crate) struct Answer {
    pub(crate) values: Vec<Value>,
    /// How many replicas have it; `None` if there is none to have it, or nobody waited.
    pub(crate) replicas: Option<u64>,
    /// The node that replied.
    pub(crate) node: usize,
    /// Whether an [idempotent](RetrySafety::Idempotent) call may have run before this reply's, so that a copy may still come.
    pub(crate) was_resent: bool,
}

impl Answer {
    /// The reply to the only call.
    pub(crate) fn value(mut self) -> Value {
        self.values.pop().unwrap_or(Value::Nil)
    }

    /// Whether a replica has it, or there is none to have it.
    pub(crate) fn is_replicated(&self) -> bool {
        self.replicas.is_none_or(|replicas| replicas > 0)
    }
}

impl Servers {
    /// Sends one call, again if that is safe, and gives its reply.
    ///
    /// # Errors
    /// Any of [`StoreError`].
    pub(crate) fn call(&mut self, call: &Call) -> Result<Value> {
        self.send(std::slice::from_ref(call), None, None).map(Answer::value)
    }

    /// Sends one command about a key that only reads (or may be sent twice) and gives its reply.
    pub(crate) fn command(&mut self, key: &str, command: &Cmd) -> Result<Value> {
        self.call(&Call::command(key, command)).map_err(|error| error.of_key(key))
    }

    /// The same for one that any node can answer.
    pub(crate) fn ask_any(&mut self, command: &Cmd) -> Result<Value> {
        self.call(&Call::keyless(command))
    }

    /// Fields of a hash; `None` for each that is not there.
    pub(crate) fn fields<F: ToRedisArgs>(
        &mut self,
        key: &str,
        fields: impl IntoIterator<Item = F>,
    ) -> Result<Vec<Option<Vec<u8>>>> {
        let mut command = redis::cmd("HMGET");
        command.arg(key);
        fields.into_iter().for_each(|field| _ = command.arg(field));
        let values = Reply::of_command("HMGET").array(self.command(key, &command)?)?.into_iter();
        Ok(values.map(|value| if let Value::BulkString(text) = value { Some(text) } else { None }).collect())
    }

    /// Sends calls of one slot until there is an answer, or no hope of one within three timeouts. An earlier try may be `lost`.
    /// With `wait` it waits for replicas, if the slot has one; what is sent again is written again, so that the wait covers it.
    ///
    /// # Errors
    /// Any of [`StoreError`].
    pub(crate) fn send(
        &mut self,
        calls: &[Call],
        wait: Option<ReplicaWait>,
        lost: Option<&StoreError>,
    ) -> Result<Answer> {
        let Some(first) = calls.first() else { return Ok(Answer::default()) };
        let mut node = first.node.unwrap_or_else(|| self.node_of(first.slot));
        if let Some(error) = self.why_given_up(node).filter(|_| lost.is_none()) {
            return Err(error.clone());
        }
        let patience = self.patience;
        if self.was_waited_for(node) {
            self.patience = Some(Duration::ZERO);
        }
        let sent = self.try_with_retry(first, calls, wait, lost, &mut node).map_err(|error| self.explained(error));
        self.patience = patience;
        if let (Err(error), Some(given_up)) = (&sent, &mut self.given_up)
            && !error.is_of_call()
        {
            given_up.insert(node, error.clone().of_unsent());
        }
        sent.map_err(|error| match calls.iter().find(|call| call.called_script().is_some()) {
            Some(call) => call.named_in(error),
            None => error,
        })
    }

    /// The same for a first call and the others, with the node that was tried last.
    fn try_with_retry(
        &mut self,
        first: &Call,
        calls: &[Call],
        wait: Option<ReplicaWait>,
        lost: Option<&StoreError>,
        tried: &mut usize,
    ) -> Result<Answer> {
        self.check_layout()?;
        let mut attempts = Attempts::new(self);
        let mut doubt = Doubt::new(self, calls);
        if let Some(error) = lost {
            doubt.server.clone_from(&self.node(*tried).target.shown);
            doubt.add(error)?;
        }
        let mut by_text = false;
        loop {
            let (node, asks) = match first.node {
                Some(node) => (node, false),
                None => attempts.node(self, first.slot),
            };
            *tried = node;
            let sending = Sending { attempt: doubt.attempt, asks, wait };
            let failure = match self.node(node).exchange(calls, sending, by_text) {
                Ok((values, replicas)) => {
                    return Ok(Answer { values, replicas, node, was_resent: doubt.attempt == Try::Retry });
                }
                // EVAL loads and runs in one; what ran already is replayed.
                Err(CallFailure::NoScript) if !by_text => {
                    by_text = true;
                    attempts.ask = asks.then_some(node);
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
                    doubt.server.clone_from(&self.node(node).target.shown);
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
    fn add(&mut self, error: &StoreError) -> Result<()> {
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

/// The first pause before another attempt, and the longest.
pub(crate) const SHORTEST_PAUSE: Duration = Duration::from_millis(20);
pub(crate) const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// How long a cluster may take to replace a primary: `cluster-node-timeout` of 15 s and an election. Sentinels take as
/// long as `down-after-milliseconds` and some seconds.
const FAILOVER: Duration = Duration::from_secs(30);
/// Attempts without a pause between them, at other nodes: more means that the nodes do not agree.
const QUICK: u32 = 5;

/// See the [module](self).
pub(crate) struct Attempts {
    began: Instant,
    pause: Duration,
    /// Attempts at other nodes.
    others: u32,
    /// The node that the next attempt, and only that, goes to.
    ask: Option<usize>,
}

impl Attempts {
    /// None yet.
    pub(crate) fn new(servers: &Servers) -> Self {
        Self { began: servers.system().now(), pause: SHORTEST_PAUSE, others: 0, ask: None }
    }

    /// The node of the next attempt, and whether it is to be sent `ASKING` first.
    pub(crate) fn node(&mut self, servers: &Servers, slot: Option<u16>) -> (usize, bool) {
        match self.ask.take() {
            Some(node) => (node, true),
            None => (servers.node_of(slot), false),
        }
    }

    /// Whether the next attempt, at another node, needs no pause.
    fn is_quick(&mut self) -> bool {
        self.others += 1;
        !self.others.is_multiple_of(QUICK)
    }

    /// Waits before the next attempt; an error if there should be none.
    pub(crate) fn wait(&mut self, servers: &Servers, error: StoreError) -> Result<()> {
        let shortest = servers.shortest_patience();
        let failover = if servers.has_failover() { shortest.max(FAILOVER) } else { shortest };
        let most = servers.patience.unwrap_or(failover);
        let is_over = servers.system().now() - self.began + self.pause >= most
            || servers.stop.as_ref().is_some_and(|stop| stop());
        // What sends a reply that no sale has is no server of ours, now or later.
        if matches!(error, StoreError::Oversized { .. }) || is_over {
            return Err(servers.explained(error));
        }
        servers.system().sleep(self.pause);
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        Ok(())
    }
}

impl Servers {
    /// Whether another node, or the same one later, may do what failed.
    pub(crate) fn may_recover(&self, error: &StoreError) -> bool {
        match error {
            StoreError::Redirected(_) => true,
            StoreError::Server { kind: ServerKind::ReadOnly, .. } => self.is_cluster(),
            error if error.is_connection() => self.is_cluster(),
            other => other.is_transient(),
        }
    }

    /// Gets ready for another attempt at a call that failed at a node: follows a redirection, finds out who serves the
    /// slot now, waits.
    ///
    /// # Errors
    /// There should be no other attempt.
    pub(crate) fn recover(
        &mut self,
        attempts: &mut Attempts,
        slot: Option<u16>,
        node: usize,
        error: StoreError,
    ) -> Result<()> {
        self.learn(&error)?;
        match &error {
            StoreError::Redirected(to) => {
                let target = self.redirect(node, to);
                attempts.ask = to.is_ask.then_some(target);
                if attempts.is_quick() {
                    return Ok(());
                }
            }
            // It is there, and serves the slot.
            StoreError::Server { kind: ServerKind::Moving | ServerKind::Busy, .. } => {}
            _ if !self.is_cluster() => {}
            // A seed that is down: the next one.
            _ if error.is_connection() && self.has_other(slot, node) && attempts.is_quick() => return Ok(()),
            _ => return self.wait_for_failover(attempts, node, error),
        }
        attempts.wait(self, error)
    }

    /// Waits until another node may serve what one that failed served.
    ///
    /// # Errors
    /// It has waited for long enough.
    pub(crate) fn wait_for_failover(&mut self, attempts: &mut Attempts, node: usize, error: StoreError) -> Result<()> {
        match self.read_map(Some(node)) {
            // No failover ends that.
            Err(error @ StoreError::Server { kind: ServerKind::NoSlots, .. }) => return Err(error),
            // Nobody was ever there: it is the address that is wrong.
            Err(_) if !self.was_reached() => {
                return Err(StoreError::Unreachable { server: self.target().shown.clone(), why: error.why() });
            }
            _ => {}
        }
        attempts.wait(self, error)
    }
}

impl Servers {
    /// Sends a call, again and again, until a replica has what it wrote, if there is a replica, or until it has taken so long: the
    /// last reply, and whether a replica has it.
    ///
    /// # Errors
    /// Any of [`StoreError`].
    pub(crate) fn call_until_replicated(&mut self, call: &Call, at_most: Duration) -> Result<(Value, bool)> {
        let began = self.system().now();
        loop {
            let wait = ReplicaWait::for_one(self.target().timeout / 2);
            let answer = self.send(std::slice::from_ref(call), Some(wait), None)?;
            let is_replicated = answer.is_replicated();
            if is_replicated || self.system().now() - began >= at_most {
                return Ok((answer.value(), is_replicated));
            }
        }
    }
}
