//! Calls of a script to one server, several of them in flight.
//!
//! A [`Pipeline`] owns all that belongs to one connection: the connection itself, the buffer, the calls in flight and
//! their weight, the outage if there is one, the limits and the rate. It sends, receives, reconnects, loads the script
//! when the server has lost it, and backs off. A call comes back with its reply, or to be sent again. What may be sent
//! when, and what a reply means, is up to its owner, who may hold several: one for each node.

mod limits;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use redis::{ServerError, Value};

use crate::error::{Redirection, Result, StoreError};
use crate::redis::cluster::server::Server;
use crate::redis::connection::resp::{ASKING, reply_behind};
pub(crate) use crate::redis::pipeline::limits::Limits;
use crate::redis::pipeline::limits::RateLimit;
use crate::redis::pipeline::limits::{Attempt, Outage};
use crate::redis::system::System;
use crate::script::Script;

/// The longest sleep, so that a run can be interrupted.
pub(crate) const NAP: Duration = Duration::from_millis(100);

/// What a call costs beside its orders: about as much of the server's time as so many orders.
const CALL_WEIGHT: usize = 12;

/// What the server says that has lost its scripts: it restarted, or somebody flushed them.
const NO_SCRIPT: &str = "NOSCRIPT";

/// See the [module](self).
pub(crate) struct Pipeline<C> {
    /// What it is connected to.
    pub(crate) server: Server,
    system: Arc<dyn System>,
    script: &'static Script,
    limits: Limits,
    rate: Option<RateLimit>,
    retry_for: Duration,
    buffer: Vec<u8>,
    /// Weight of the calls in the buffer, which are in flight already, and their orders.
    buffered: usize,
    buffered_orders: usize,
    /// The calls whose replies have not come yet.
    pub(crate) in_flight: VecDeque<C>,
    /// Whether each of them was sent behind `ASKING`, whose reply comes first.
    asked: VecDeque<bool>,
    weight: usize,
    outage: Option<Outage>,
    /// Whether the connection broke since [`begin_check`](Self::begin_check): the server may have restarted without what came last.
    pub(crate) was_lost: bool,
    /// Nothing is sent until nothing is in flight: what follows a call that failed would overtake it.
    is_draining: bool,
}

impl<C: PipelinedCall> Pipeline<C> {
    /// Sends nothing. The script is loaded if the server has lost it. An outage longer than `retry_for` is an error.
    pub(crate) fn new(server: Server, script: &'static Script, limits: Limits, retry_for: Duration) -> Self {
        let system = Arc::clone(server.target.system());
        Self {
            server,
            script,
            rate: limits.rate_limit(&system),
            system,
            limits,
            retry_for,
            buffer: Vec::new(),
            buffered: 0,
            buffered_orders: 0,
            in_flight: VecDeque::new(),
            asked: VecDeque::new(),
            weight: 0,
            outage: None,
            was_lost: false,
            is_draining: false,
        }
    }

    /// Another one with the same rate limit.
    pub(crate) fn sibling(&self, server: Server) -> Self {
        let rate = self.rate.clone();
        Self { rate, ..Self::new(server, self.script, self.limits.clone(), self.retry_for) }
    }

    /// What it can do. `wants_to_send`: whether the owner has a call.
    pub(crate) fn readiness(&self, wants_to_send: bool) -> Readiness {
        if let Some(outage) = self.outage.as_ref().filter(|outage| self.is_idle() && !outage.has_answered) {
            return Readiness::Outage(outage.due(self.retry_for));
        }
        if wants_to_send && self.has_room() {
            match &self.rate {
                Some(rate) if !rate.is_due() && self.is_idle() => return Readiness::At(rate.due.get()),
                Some(rate) if !rate.is_due() => {}
                _ => return Readiness::Send,
            }
        }
        if self.is_idle() { Readiness::Idle } else { Readiness::Replies }
    }

    /// Whether no reply is to come.
    pub(crate) fn is_idle(&self) -> bool {
        self.in_flight.is_empty()
    }

    /// Whether a call may be sent now, except for the rate limit.
    pub(crate) fn has_room(&self) -> bool {
        (self.is_idle() || !self.is_draining)
            && self.outage.as_ref().is_none_or(|outage| outage.has_answered)
            && self.weight <= self.limits.most_weight() / 2
    }

    /// Whether another call fits into what is written at once.
    pub(crate) fn buffer_has_room(&self) -> bool {
        self.buffered < self.limits.most_weight() / 2
    }

    /// Waits for what comes next, or says that it is time to send. `wants_to_send`: whether the owner has a call.
    ///
    /// # Errors
    /// The server refused a call in a way that does not pass, or an outage lasts too long. The call is dropped.
    pub(crate) fn advance(&mut self, wants_to_send: bool) -> Result<Event<C>> {
        match self.readiness(wants_to_send) {
            Readiness::Outage(_) => self.reconnect(),
            Readiness::Send => Ok(Event::Send),
            Readiness::At(due) => {
                self.system.sleep(due.saturating_duration_since(self.system.now()).min(NAP));
                Ok(Event::Waited)
            }
            Readiness::Replies => self.receive(),
            Readiness::Idle => Ok(Event::Idle),
        }
    }

    /// Whether the rate allows one order more, which the owner sends by other means; else it waits a short while.
    pub(crate) fn take_turn(&mut self) -> bool {
        let Some(rate) = &self.rate else { return true };
        let is_due = rate.is_due();
        match is_due {
            true => rate.spend(1),
            false => self.system.sleep(rate.due.get().saturating_duration_since(self.system.now()).min(NAP)),
        }
        is_due
    }

    /// Adds a call to the buffer; with `asks` behind `ASKING`, for a node that is importing the call's slot.
    pub(crate) fn push(&mut self, call: C, asks: bool, encode: impl FnOnce(&mut Vec<u8>, &C)) {
        if self.is_idle() {
            self.is_draining = false;
        }
        if asks {
            self.buffer.extend_from_slice(ASKING);
        }
        self.asked.push_back(asks);
        encode(&mut self.buffer, &call);
        self.buffered += CALL_WEIGHT + call.weight();
        self.buffered_orders += call.orders();
        self.weight += CALL_WEIGHT + call.weight();
        self.in_flight.push_back(call);
    }

    /// Writes the buffer. A connection that breaks gives all calls in flight back.
    pub(crate) fn flush(&mut self) -> Event<C> {
        if let Some(rate) = &self.rate {
            rate.spend(self.buffered_orders);
        }
        (self.buffered, self.buffered_orders) = (0, 0);
        let sent = self.server.write(&self.buffer);
        self.buffer.clear();
        match sent {
            Ok(()) => Event::Waited,
            Err(error) => self.lose_connection(error),
        }
    }

    /// Receives the next reply.
    ///
    /// # Errors
    /// As [`advance`](Self::advance).
    pub(crate) fn receive(&mut self) -> Result<Event<C>> {
        if self.is_idle() {
            return Ok(Event::Idle);
        }
        let asks = self.asked.pop_front().unwrap_or(false);
        let value = match reply_behind(asks, || self.server.read()) {
            Ok(value) => value,
            Err(error) => return Ok(self.lose_connection(error)),
        };
        let Some(call) = self.in_flight.pop_front() else { return Ok(Event::Idle) };
        self.weight -= CALL_WEIGHT + call.weight();
        let Value::ServerError(error) = value else { return Ok(Event::Reply(call, value)) };
        if error.code() == NO_SCRIPT {
            self.back_off(self.meaning(error));
        } else {
            let meaning = self.meaning(error.clone());
            if call.handles(&meaning) {
                return Ok(Event::Reply(call, Value::ServerError(error)));
            }
            if let StoreError::Redirected(to) = meaning {
                self.is_draining = true;
                return Ok(Event::Redirected { call, to });
            }
            self.refused(meaning)?;
        }
        Ok(Event::Retry(vec![call]))
    }

    /// Sends commands that only read, with nothing in flight, and gives their replies; `None` if that must be tried
    /// again later. A key of another type is a value.
    ///
    /// # Errors
    /// As [`advance`](Self::advance).
    pub(crate) fn request(&mut self, packed: &[u8], count: usize) -> Result<Option<Vec<Value>>> {
        let server = &mut self.server;
        let replies = server.write(packed).and_then(|()| (0..count).map(|_| server.read()).collect::<Result<_, _>>());
        let replies: Vec<Value> = match replies {
            Ok(replies) => replies,
            Err(error) => {
                self.was_lost = true;
                self.refused(error)?;
                return Ok(None);
            }
        };
        let failed = replies.iter().find_map(|reply| match reply {
            Value::ServerError(error) if error.code() != "WRONGTYPE" => Some(error.clone()),
            _ => None,
        });
        match failed {
            Some(error) => {
                let error = self.meaning(error);
                self.refused(error).map(|()| None)
            }
            None => Ok(Some(replies)),
        }
    }

    /// Whether the server may not be the primary any more.
    pub(crate) fn may_move(&self) -> bool {
        self.server.target.primary_name().is_some()
    }

    /// Gets ready to ask, with nothing in flight, whoever serves now.
    pub(crate) fn begin_check(&mut self) {
        self.was_lost = false;
        if self.may_move() {
            self.server.disconnect();
        }
    }

    /// The last call did what it should: an outage is over.
    pub(crate) fn succeeded(&mut self) {
        self.outage = None;
    }

    /// A call that was replied to must be sent again, after all that is in flight. With `why` it failed, and the next
    /// one has to wait.
    pub(crate) fn retry(&mut self, why: Option<StoreError>) {
        self.is_draining = true;
        if let (Some(why), None) = (why, &self.outage) {
            self.outage = Some(Outage::new(self.system.now(), why, false));
        }
    }

    /// The next call has to wait, longer each time, until one succeeds.
    pub(crate) fn back_off(&mut self, why: StoreError) {
        self.is_draining = true;
        Outage::record(&mut self.outage, self.system.now(), why, false);
    }

    /// Another server took over all that this one served.
    pub(crate) fn hand_over<'o>(&mut self, others: impl Iterator<Item = &'o mut Self>)
    where
        Self: 'o,
    {
        let Some(outage) = self.outage.take() else { return };
        for other in others.filter(|other| other.outage.is_none()) {
            other.outage = Some(outage.taken_over());
        }
    }

    /// The error for calls that were in flight when the connection broke, and were not settled since.
    pub(crate) fn unsettled(&self) -> Option<StoreError> {
        self.outage.as_ref().and_then(|outage| outage.unsettled(&self.server.target.shown))
    }

    /// Records that the server refused what was sent, and nothing of it ran.
    ///
    /// # Errors
    /// It does not pass.
    pub(crate) fn refused(&mut self, error: StoreError) -> Result<()> {
        if !error.is_retryable() {
            return Err(error);
        }
        self.back_off(error);
        Ok(())
    }

    /// The connection broke, or nothing came in time: what is in flight may have run.
    pub(crate) fn lose_connection(&mut self, error: StoreError) -> Event<C> {
        self.server.disconnect();
        self.was_lost = true;
        self.weight = 0;
        self.asked.clear();
        let calls: Vec<C> = std::mem::take(&mut self.in_flight).into();
        let may_have_run = !calls.is_empty();
        Outage::record(&mut self.outage, self.system.now(), error, may_have_run);
        Event::Retry(calls)
    }

    /// Tries to end an outage, a short while at a time.
    fn reconnect(&mut self) -> Result<Event<C>> {
        let Some(outage) = &mut self.outage else { return Ok(Event::Waited) };
        match outage.attempt(self.system.now(), self.retry_for) {
            Attempt::GiveUp => Err(outage.unsettled(&self.server.target.shown).unwrap_or_else(|| outage.error.clone())),
            Attempt::Report => Ok(Event::Outage(outage.error.clone())),
            Attempt::Wait(pause) => {
                self.system.sleep(pause);
                Ok(Event::Waited)
            }
            Attempt::Now => {
                match self.load_script() {
                    Ok(()) => self.outage.iter_mut().for_each(|outage| outage.has_answered = true),
                    Err(error @ (StoreError::Login { .. } | StoreError::Permission { .. })) => return Err(error),
                    Err(error) => Outage::record(&mut self.outage, self.system.now(), error, false),
                }
                Ok(Event::Waited)
            }
        }
    }

    /// Connects if need be, and loads the script: it may be another server by now.
    fn load_script(&mut self) -> Result<()> {
        self.server.ask(redis::cmd("SCRIPT").arg("LOAD").arg(self.script.text)).map(drop)
    }

    fn meaning(&self, error: ServerError) -> StoreError {
        StoreError::of_reply(&error.into(), &self.server.target.shown)
    }
}

/// One call of the script.
pub(crate) trait PipelinedCall {
    /// How many orders it has, for the rate limit.
    fn orders(&self) -> usize;

    /// About how much of the server's time its orders take, in orders of one activity.
    fn weight(&self) -> usize;

    /// Whether an error reply is for the owner, which finds it in [`Event::Reply`]. Nothing of the call ran.
    fn handles(&self, _error: &StoreError) -> bool {
        false
    }
}

/// What a pipeline can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Readiness {
    /// Send now.
    Send,
    /// Send then.
    At(Instant),
    /// Receive a reply.
    Replies,
    /// Do something about an outage then.
    Outage(Instant),
    /// Nothing.
    Idle,
}

/// What became of calls, or of the connection.
#[derive(Debug)]
pub(crate) enum Event<C> {
    /// The server replied to this call, and not with an error, unless the call [`handles`](PipelinedCall::handles) it.
    Reply(C, Value),
    /// These calls must be sent again, in this order, in which they were sent. Nothing is sent before all that is in flight has come back.
    Retry(Vec<C>),
    /// Another node of the cluster serves this call, which did not run. It must be sent again, there; nothing is sent here
    /// before all that is in flight has come back.
    Redirected {
        /// The call.
        call: C,
        /// Where to.
        to: Redirection,
    },
    /// The server has been gone, or refused writes, for half a second; reported once for each outage.
    Outage(StoreError),
    /// It waited a short while.
    Waited,
    /// Nothing is in flight, and nothing is to be sent.
    Idle,
    /// There is room, and the time has come: [`push`](Pipeline::push) calls, then [`flush`](Pipeline::flush).
    Send,
}
