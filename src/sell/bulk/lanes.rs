//! The connections of a run: one to a single server, or a lane for each primary of a cluster that serves an activity.
//!
//! A lane is a pipeline, and each activity's calls go through the lane of its slot. When a slot has moved or a primary is
//! lost, the lane drains first; then its activities are distributed anew. The script's watermark forbids that a call
//! overtakes another or is applied twice, so a wrong lane costs time only.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use redis::{Cmd, Value};

use crate::error::{Redirection, Result, ServerKind, StoreError};
use crate::redis::call;
use crate::redis::cluster::Servers;
use crate::redis::pipeline::{Event, NAP, Pipeline, PipelinedCall, Readiness};

/// All lanes of a run.
pub(crate) struct Lanes<C> {
    /// The servers, by connections of their own: nothing that a lane has in flight is waited for.
    pub(crate) servers: Servers,
    lanes: Vec<Lane<C>>,
    /// Slots that are moving, and the lane of the node that imports each: calls go there, each behind `ASKING`.
    asks: HashMap<u16, usize>,
    /// The lane that had its turn last.
    last: usize,
}

struct Lane<C> {
    /// The node's number.
    node: usize,
    pipeline: Pipeline<C>,
    /// When something was sent or received last.
    active: Instant,
    /// Whether its activities must be distributed anew once nothing is in flight.
    is_stale: bool,
    /// Whether the map was read since the last attempt to reconnect.
    has_new_map: bool,
    /// Redirections since the last call that succeeded.
    redirections: u32,
}

impl<C> Lane<C> {
    fn new(node: usize, pipeline: Pipeline<C>, active: Instant) -> Self {
        Self { node, pipeline, active, is_stale: false, has_new_map: false, redirections: 0 }
    }
}

impl<C: PipelinedCall> Lanes<C> {
    /// One lane, to the node whose number is given.
    pub(crate) fn new(servers: Servers, node: usize, pipeline: Pipeline<C>) -> Self {
        let lane = Lane::new(node, pipeline, servers.system().now());
        Self { servers, lanes: vec![lane], asks: HashMap::new(), last: 0 }
    }

    /// How many lanes there are.
    pub(crate) fn count(&self) -> usize {
        self.lanes.len()
    }

    /// The connection of a lane.
    pub(crate) fn pipeline(&mut self, lane: usize) -> &mut Pipeline<C> {
        &mut self.lanes[lane].pipeline
    }

    /// The lane of a slot, and whether calls go there behind `ASKING`.
    pub(crate) fn lane_of(&mut self, slot: Option<u16>) -> (usize, bool) {
        if !self.servers.is_cluster() {
            return (0, false);
        }
        match slot.and_then(|slot| self.asks.get(&slot)) {
            Some(lane) => (*lane, true),
            None => (self.lane_to(self.servers.node_of(slot)), false),
        }
    }

    fn lane_to(&mut self, node: usize) -> usize {
        if let Some(known) = self.lanes.iter().position(|lane| lane.node == node) {
            return known;
        }
        let server = self.servers.node(node).take();
        let now = self.servers.system().now();
        self.lanes.push(Lane::new(node, self.lanes[0].pipeline.sibling(server), now));
        self.lanes.len() - 1
    }

    /// Whether no reply is to come, anywhere.
    pub(crate) fn are_idle(&self) -> bool {
        self.lanes.iter().all(|lane| lane.pipeline.is_idle())
    }

    /// Whether [`read`](Self::read) may be called: nothing is in flight, and there is no outage of a server.
    pub(crate) fn can_read(&self) -> bool {
        self.are_idle() && self.lanes.iter().all(|lane| lane.pipeline.has_room())
    }

    /// Whether a connection broke since the last check: what came last may be lost.
    pub(crate) fn was_lost(&self) -> bool {
        self.lanes.iter().any(|lane| lane.pipeline.was_lost)
    }

    /// Whether a server may not be the primary any more.
    pub(crate) fn may_move(&self) -> bool {
        self.servers.is_cluster() || self.lanes[0].pipeline.may_move()
    }

    /// Gets ready to ask whoever serves now, with nothing in flight.
    pub(crate) fn begin_check(&mut self) {
        self.lanes.iter_mut().for_each(|lane| lane.pipeline.begin_check());
    }

    /// A lane whose activities must be distributed anew, and that has nothing in flight.
    pub(crate) fn next_stale(&mut self) -> Option<usize> {
        let lane = self.lanes.iter().position(|lane| lane.is_stale && lane.pipeline.is_idle())?;
        self.lanes[lane].is_stale = false;
        Some(lane)
    }

    /// A lane has no activities any more; these have them.
    pub(crate) fn hand_over(&mut self, from: usize, to: impl Fn(usize) -> bool) {
        let mut lane = self.lanes.remove(from);
        let others = self.lanes.iter_mut().enumerate().filter(|(at, _)| to(at + usize::from(*at >= from)));
        lane.pipeline.hand_over(others.map(|(_, lane)| &mut lane.pipeline));
        self.lanes.insert(from, lane);
    }

    /// A node named another one for a slot. The map is read with the first such reply.
    ///
    /// # Errors
    /// The layout has no keys for a cluster.
    pub(crate) fn redirected(&mut self, lane: usize, to: &Redirection) -> Result<()> {
        self.servers.found_cluster()?;
        let from = self.lanes[lane].node;
        if to.is_ask {
            let node = self.servers.redirect(from, to);
            let target = self.lane_to(node);
            self.asks.insert(to.slot, target);
        } else {
            self.asks.remove(&to.slot);
            if self.servers.has_map || self.servers.read_map(None).is_err() {
                self.servers.redirect(from, to);
            }
        }
        let lane = &mut self.lanes[lane];
        lane.is_stale = true;
        lane.redirections += 1;
        if lane.redirections > 1 {
            lane.pipeline.back_off(match to.is_ask {
                // The other node has not all of the keys either.
                true => to.moving_error(),
                // The nodes do not agree.
                false => StoreError::Redirected(to.clone()),
            });
        }
        Ok(())
    }

    /// A call of a lane did what it should.
    pub(crate) fn succeeded(&mut self, lane: usize) {
        let lane = &mut self.lanes[lane];
        lane.redirections = 0;
        lane.pipeline.succeeded();
    }

    /// The error for calls that were in flight when a connection broke, and were not settled since.
    pub(crate) fn unsettled(&self) -> Option<StoreError> {
        self.lanes.iter().find_map(|lane| lane.pipeline.unsettled())
    }

    /// Waits for what comes next on any lane. `wants_to_send` says whether there is a call for a lane that has room.
    ///
    /// # Errors
    /// As [`Pipeline::advance`].
    pub(crate) fn advance(
        &mut self,
        mut wants_to_send: impl FnMut(usize, &VecDeque<C>) -> bool,
    ) -> Result<(usize, Event<C>)> {
        if !self.servers.is_cluster() {
            let pipeline = &mut self.lanes[0].pipeline;
            let wants = pipeline.has_room() && wants_to_send(0, &pipeline.in_flight);
            let event = pipeline.advance(wants)?;
            if matches!(&event, Event::Outage(StoreError::Server { kind: ServerKind::ClusterDown, .. })) {
                self.read_map(None)?;
            }
            return Ok((0, event));
        }
        let now = self.servers.system().now();
        let mut next: Option<Instant> = None;
        for lane_index in (0..self.lanes.len()).map(|lane_index| (self.last + 1 + lane_index) % self.lanes.len()) {
            let lane = &self.lanes[lane_index];
            let wants = lane.pipeline.has_room() && wants_to_send(lane_index, &lane.pipeline.in_flight);
            match lane.pipeline.readiness(wants) {
                Readiness::Send => {
                    self.last = lane_index;
                    self.lanes[lane_index].active = now;
                    return Ok((lane_index, Event::Send));
                }
                Readiness::Outage(due) if due <= now => return Ok((lane_index, self.end_outage(lane_index)?)),
                Readiness::Outage(due) | Readiness::At(due) => next = Some(next.map_or(due, |next| next.min(due))),
                Readiness::Replies | Readiness::Idle => {}
            }
        }
        let wait = next.map_or(NAP, |next| next.saturating_duration_since(now).min(NAP));
        if self.are_idle() {
            if next.is_none() {
                return Ok((0, Event::Idle));
            }
            self.servers.system().sleep(wait);
            return Ok((0, Event::Waited));
        }
        match self.wait_for_reply(wait) {
            Some(lane_index) => {
                self.lanes[lane_index].active = self.servers.system().now();
                Ok((lane_index, self.lanes[lane_index].pipeline.receive()?))
            }
            None => Ok(self.find_silent()),
        }
    }

    /// Sends commands that only read, with nothing in flight, and gives their replies; `None` if that must be tried again
    /// later. Each comes with its key.
    ///
    /// # Errors
    /// As [`Pipeline::request`].
    pub(crate) fn read(&mut self, commands: &[(String, Cmd)]) -> Result<Option<Vec<Value>>> {
        if !self.servers.is_cluster() {
            let packed: Vec<u8> = commands.iter().flat_map(|(_, command)| command.get_packed_command()).collect();
            return match self.lanes[0].pipeline.request(&packed, commands.len()) {
                // It is a cluster, which nobody said.
                Err(StoreError::Redirected(_)) => {
                    self.servers.found_cluster()?;
                    self.servers.read_map(None).map(|()| None)
                }
                replies => replies,
            };
        }
        let calls: Vec<_> = commands.iter().map(|(key, command)| call::Call::command(key, command)).collect();
        let patience = self.servers.patience.replace(Duration::ZERO);
        let answers = self.servers.call_all(&calls);
        self.servers.patience = patience;
        let mut replies = Vec::with_capacity(answers.len());
        for (answer, call) in answers.into_iter().zip(&calls) {
            match answer {
                Ok(answer) => replies.push(answer.value()),
                Err(StoreError::Server { kind: ServerKind::WrongType, .. }) => replies.push(Value::Nil),
                Err(error) => return self.unread(call.slot, error).map(|()| None),
            }
        }
        Ok(Some(replies))
    }

    /// Records why the node of a slot gave no reply: it is an outage of its lane.
    fn unread(&mut self, slot: Option<u16>, error: StoreError) -> Result<()> {
        let lane = self.lane_to(self.servers.node_of(slot));
        let pipeline = &mut self.lanes[lane].pipeline;
        match error {
            // The nodes do not agree.
            StoreError::Redirected(_) => pipeline.back_off(error),
            error => pipeline.refused(error)?,
        }
        Ok(())
    }

    /// Receives a reply of any lane.
    ///
    /// # Errors
    /// As [`Pipeline::receive`].
    pub(crate) fn receive(&mut self) -> Result<(usize, Event<C>)> {
        let lane = self.lanes.iter().position(|lane| !lane.pipeline.is_idle());
        lane.map_or(Ok((0, Event::Idle)), |lane_index| Ok((lane_index, self.lanes[lane_index].pipeline.receive()?)))
    }

    /// Does something about an outage: asks another node who serves the slots now, then tries to reconnect.
    fn end_outage(&mut self, lane_index: usize) -> Result<Event<C>> {
        let node = self.lanes[lane_index].node;
        if !self.lanes[lane_index].has_new_map {
            self.lanes[lane_index].has_new_map = true;
            if self.read_map(Some(node))? {
                self.asks.clear();
                self.lanes[lane_index].is_stale = true;
                return Ok(Event::Waited);
            }
        }
        self.lanes[lane_index].has_new_map = false;
        self.lanes[lane_index].pipeline.advance(false)
    }

    /// Reads the map again; false if nobody gave it.
    ///
    /// # Errors
    /// Nobody serves any slot, and no failover ends that.
    fn read_map(&mut self, but: Option<usize>) -> Result<bool> {
        match self.servers.read_map(but) {
            Err(error @ StoreError::Server { kind: ServerKind::NoSlots, .. }) => Err(error),
            read => Ok(read.is_ok()),
        }
    }

    /// Waits until a lane has a reply: which one.
    fn wait_for_reply(&self, at_most: Duration) -> Option<usize> {
        let turns = (0..self.lanes.len()).map(|turn| (self.last + 1 + turn) % self.lanes.len());
        let waiting: Vec<usize> = turns.filter(|lane_index| !self.lanes[*lane_index].pipeline.is_idle()).collect();
        let mut sockets = Vec::with_capacity(waiting.len());
        for lane_index in &waiting {
            match self.lanes[*lane_index].pipeline.server.drained_socket() {
                Some(socket) => sockets.push(socket),
                // Bytes are here already.
                None => return Some(*lane_index),
            }
        }
        self.servers.system().wait_readable(&sockets, at_most).map(|found| waiting[found])
    }

    /// Gives up a connection on which no reply came in time.
    fn find_silent(&mut self) -> (usize, Event<C>) {
        let timeout = self.servers.target().timeout;
        let now = self.servers.system().now();
        let silent = |lane: &Lane<C>| !lane.pipeline.is_idle() && now - lane.active >= timeout;
        let Some(lane_index) = self.lanes.iter().position(silent) else { return (0, Event::Waited) };
        let lane = &mut self.lanes[lane_index];
        let waited = humantime::format_duration(timeout).to_string();
        let server = lane.pipeline.server.target.shown.clone();
        (lane_index, lane.pipeline.lose_connection(StoreError::Timeout { server, waited }))
    }
}
