//! Many orders of several activities each: several of them a call, each all or nothing, each applied exactly once.
//!
//! They overlap, so no watermark can order them: each carries an id, and a call that failed must not be overtaken by one
//! that takes from the same activities. So the next call is packed while one is in flight, and sent meanwhile only if it
//! shares no activity with it: in what order those two run makes no difference.

use std::collections::{HashSet, VecDeque};
use std::time::Duration;

use redis::{RedisError, Value};

use super::super::call::evaluate;
use super::super::multi_orders::Asked;
use super::super::scripts::MULTI_DEDUCT;
use super::super::{Store, StoreError};
use super::Step;
use super::pace::{self, Pace};
use super::recover::{Trouble, may_have_moved, may_pass};
use crate::inventory::id::ActivityId;
use crate::inventory::order::{Corrupt, MultiOrder, MultiOutcome};

/// One order of the input.
#[derive(Debug)]
pub struct MultiEntry {
    /// The line where it begins.
    pub line: u64,
    /// The order.
    pub order: MultiOrder,
    /// Whether a refusal is kept under its request, so that another try is told the same: of orders that have no
    /// request of their own, but are a line of a job.
    pub keeps_refusals: bool,
}

/// What became of an order so far.
#[derive(Debug)]
enum State {
    Waiting,
    Sent,
    Done(MultiOutcome),
}

/// Consecutive orders, sent in one call.
#[derive(Debug)]
struct Call {
    /// The number of the first, and how many they are.
    first: u64,
    count: usize,
    activities: HashSet<ActivityId>,
    items: usize,
    weight: usize,
    asked: Asked,
    packed: Vec<u8>,
}

/// A run of multi-orders.
pub struct MultiBulk<'s> {
    store: &'s mut Store,
    pace: Pace,
    retry_for: Duration,
    /// Orders from the first one that nobody was told of, and that one's number.
    rows: VecDeque<(MultiEntry, State)>,
    first: u64,
    /// The first order that is in no call yet, and how many items wait from there on.
    next: u64,
    waiting: usize,
    /// The next call, before it may be sent.
    ready: Option<Call>,
    flight: VecDeque<Call>,
    weight: usize,
    trouble: Option<Trouble>,
    /// Nothing more is sent until nothing is in flight: what follows a call that failed would overtake it.
    is_draining: bool,
    /// Keys that were told of, and those still to be told of.
    known_corrupt: HashSet<String>,
    corrupt: VecDeque<Corrupt>,
}

impl<'s> MultiBulk<'s> {
    /// Loads the script; nothing else is sent yet.
    ///
    /// # Errors
    /// Any of [`StoreError`].
    pub fn new(store: &'s mut Store, pace: Pace, retry_for: Duration) -> Result<Self, StoreError> {
        store.server.command(redis::cmd("SCRIPT").arg("LOAD").arg(MULTI_DEDUCT.text))?;
        Ok(Self {
            store,
            pace,
            retry_for,
            rows: VecDeque::new(),
            first: 0,
            next: 0,
            waiting: 0,
            ready: None,
            flight: VecDeque::new(),
            weight: 0,
            trouble: None,
            is_draining: false,
            known_corrupt: HashSet::new(),
            corrupt: VecDeque::new(),
        })
    }

    /// Whether another order is of use before [`advance`](Self::advance).
    pub fn takes_more(&self) -> bool {
        // One more than fits shows that the call is full.
        self.waiting <= self.most_items()
    }

    /// Whether no order is left.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Whether anything is in flight.
    pub fn is_waiting(&self) -> bool {
        !self.flight.is_empty()
    }

    /// Takes an order.
    pub fn push(&mut self, entry: MultiEntry) {
        self.waiting += entry.order.items.len();
        self.rows.push_back((entry, State::Waiting));
    }

    /// The next order in the order of the input, where it is decided. [`pop`](Self::pop) goes on to the one behind it.
    pub fn front(&self) -> Option<(&MultiEntry, &MultiOutcome)> {
        match self.rows.front()? {
            (entry, State::Done(outcome)) => Some((entry, outcome)),
            _ => None,
        }
    }

    /// Forgets the first order.
    pub fn pop(&mut self) {
        if self.rows.pop_front().is_some() {
            self.first += 1;
        }
    }

    /// Forgets the orders before the first decided one; false where none is. For a run that ends early.
    pub fn skip_undecided(&mut self) -> bool {
        while !self.rows.is_empty() && self.front().is_none() {
            self.pop();
        }
        !self.rows.is_empty()
    }

    /// Sends what may be sent, or receives what is in flight. `pressing` sends a call that is not full too.
    ///
    /// # Errors
    /// Any of [`StoreError`], when trying again did not help or would not.
    pub fn advance(&mut self, pressing: bool) -> Result<Step, StoreError> {
        if let Some(corrupt) = self.corrupt.pop_front() {
            return Ok(Step::Corrupt(corrupt));
        }
        if self.flight.is_empty() {
            self.is_draining = false;
            if self.trouble.as_ref().is_some_and(|trouble| !trouble.is_over) {
                return Trouble::recover(&mut self.trouble, &mut self.store.server, &MULTI_DEDUCT, self.retry_for);
            }
        }
        if !self.is_draining {
            if self.ready.is_none() {
                self.ready = self.form(pressing);
            }
            if let Some(call) = self.ready.take_if(|call| may_follow(call, &self.flight, self.weight, &self.pace)) {
                if self.pace.is_due() {
                    self.send(call);
                    return Ok(Step::On);
                }
                self.ready = Some(call);
                if self.flight.is_empty() {
                    self.pace.wait();
                    return Ok(Step::On);
                }
            }
        }
        if self.flight.is_empty() { Ok(Step::Idle) } else { self.receive() }
    }

    /// Receives what is in flight and sends nothing more.
    ///
    /// # Errors
    /// Any of [`StoreError`].
    pub fn drain(&mut self) -> Result<(), StoreError> {
        while !self.flight.is_empty() {
            self.receive()?;
        }
        Ok(())
    }

    /// The most items of a call: one takes the server longer than an order of one activity does.
    fn most_items(&self) -> usize {
        (self.pace.most_orders() / 2).max(1)
    }

    /// The next orders as a call; `None` where there are too few of them, unless it is `pressing`.
    fn form(&mut self, pressing: bool) -> Option<Call> {
        let mut from = self.place(self.next);
        while self.rows.get(from).is_some_and(|(_, state)| !matches!(state, State::Waiting)) {
            from += 1;
        }
        let (mut count, mut items, mut is_full) = (0, 0, false);
        let keeps_refusals = self.rows.get(from)?.0.keeps_refusals;
        for (entry, state) in self.rows.range(from..) {
            let more = entry.order.items.len();
            // One order may have more items than a call should.
            is_full = count > 0
                && (items + more > self.most_items()
                    || entry.keeps_refusals != keeps_refusals
                    || !matches!(state, State::Waiting));
            if is_full {
                break;
            }
            (count, items) = (count + 1, items + more);
        }
        if !(is_full || pressing || items >= self.most_items()) {
            return None;
        }
        let orders: Vec<&MultiOrder> = self.rows.range(from..from + count).map(|(entry, _)| &entry.order).collect();
        let activities = orders.iter().flat_map(|order| &order.items).map(|(activity, _)| activity.clone()).collect();
        let asked = Asked::of(self.store.layout, &orders);
        let mode = if keeps_refusals { "retry" } else { "first" };
        let mut arguments = vec![self.store.kind(), self.store.operator.clone(), mode.to_owned()];
        arguments.extend_from_slice(&asked.orders);
        let packed = evaluate("EVALSHA", &MULTI_DEDUCT.sha1, &asked.names(), &arguments).get_packed_command();
        let first = self.first + from as u64;
        self.next = first + count as u64;
        self.waiting -= items;
        Some(Call { first, count, activities, weight: pace::CALL + 2 * items, items, asked, packed })
    }

    fn send(&mut self, call: Call) {
        self.mark(&call, || State::Sent);
        self.weight += call.weight;
        self.pace.sent(call.count);
        let server = &mut self.store.server;
        let sent = server.connection().map(|connection| connection.send_packed_command(&call.packed));
        let sent = sent.and_then(|sent| sent.map_err(|error| server.target.unreachable(&error)));
        self.flight.push_back(call);
        if let Err(error) = sent {
            self.lose_connection(error);
        }
    }

    /// Receives the next reply.
    fn receive(&mut self) -> Result<Step, StoreError> {
        let server = &mut self.store.server;
        let received = server.connection().map(|connection| connection.recv_response());
        let value = match received.and_then(|value| value.map_err(|error| server.target.unreachable(&error))) {
            Ok(value) => value,
            Err(error) => {
                self.lose_connection(error);
                return Ok(Step::On);
            }
        };
        let Some(call) = self.flight.pop_front() else { return Ok(Step::On) };
        self.weight -= call.weight;
        if let Value::ServerError(error) = value {
            self.put_back(&call);
            return self.refused(&RedisError::from(error));
        }
        let from = self.place(call.first);
        let orders: Vec<&MultiOrder> =
            self.rows.range(from..from + call.count).map(|(entry, _)| &entry.order).collect();
        let outcomes = call.asked.outcomes(&orders, value)?;
        for corrupt in outcomes.iter().flat_map(|outcome| &outcome.items).filter_map(|item| item.corrupt.as_ref()) {
            if self.known_corrupt.insert(corrupt.key.clone()) {
                self.corrupt.push_back(corrupt.clone());
            }
        }
        for ((_, state), outcome) in self.rows.range_mut(from..).zip(outcomes) {
            *state = State::Done(outcome);
        }
        self.trouble = None;
        Ok(Step::On)
    }

    /// The server refused a call, and nothing of it ran: some refusals pass.
    fn refused(&mut self, error: &RedisError) -> Result<Step, StoreError> {
        let target = &self.store.server.target;
        if error.code() == Some("NOSCRIPT") {
            let error = StoreError::Reply { what: MULTI_DEDUCT.name.to_owned(), reply: error.to_string() };
            Trouble::note(&mut self.trouble, error, false);
            return Ok(Step::On);
        }
        let error = StoreError::of_reply(error, &target.shown).unwrap_or_else(|| target.unreachable(error));
        if !may_pass(&error) {
            // What else is in flight should be told of before the run ends.
            self.drain()?;
            return Err(error);
        }
        if may_have_moved(&error) && self.flight.is_empty() {
            self.store.server.disconnect();
        }
        Trouble::note(&mut self.trouble, error, false);
        Ok(Step::On)
    }

    /// The connection broke: what is in flight may have run, or not. It is sent again, and what refuses it then is
    /// kept: else the first try, arriving late, could still take what was told to be refused.
    fn lose_connection(&mut self, error: StoreError) {
        self.store.server.disconnect();
        let lost = std::mem::take(&mut self.flight);
        self.weight = 0;
        for call in &lost {
            self.put_back(call);
            let from = self.place(call.first);
            self.rows.range_mut(from..from + call.count).for_each(|(entry, _)| entry.keeps_refusals = true);
        }
        Trouble::note(&mut self.trouble, error, !lost.is_empty());
    }

    /// Puts back a call that did not run, or of which nobody knows; the one that is ready would overtake it.
    fn put_back(&mut self, call: &Call) {
        self.is_draining = true;
        self.mark(call, || State::Waiting);
        self.next = self.next.min(call.first);
        if let Some(ready) = self.ready.take() {
            self.waiting += ready.items;
        }
        self.waiting += call.items;
    }

    fn mark(&mut self, call: &Call, state: impl Fn() -> State) {
        let from = self.place(call.first);
        self.rows.range_mut(from..from + call.count).for_each(|(_, now)| *now = state());
    }

    // Numbers come from this window.
    #[allow(clippy::cast_possible_truncation)]
    fn place(&self, number: u64) -> usize {
        number.saturating_sub(self.first) as usize
    }
}

/// Whether a call may be sent while others are in flight.
fn may_follow(call: &Call, flight: &VecDeque<Call>, weight: usize, pace: &Pace) -> bool {
    flight.is_empty()
        || (weight <= pace.most_weight() / 2
            && flight.iter().all(|before| before.activities.is_disjoint(&call.activities)))
}
