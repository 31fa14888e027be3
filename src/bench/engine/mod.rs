//! Drives all clients on one thread: a client with a reply is read, a client that is free gets the next order. A connection
//! that breaks is given up and opened again, with what was sent on it.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, VecDeque};
use std::time::{Duration, Instant};

use redis::{RedisError, Value};

use crate::bench::opener::{Opener, Poller, open_all};
use crate::bench::pace::{Pace, Turn};
use crate::bench::strategy::{Next, Order, Outgoing, Strategy};
use crate::bench::{LoadOptions, Measured, Sale, StrategyName, TIMEOUTS, strategy, write_user};
use crate::error::{Recovery, Result, StoreError};
use crate::model::order::{Corrupt, Items};
use crate::model::status::Status;
use crate::redis::call::Call;
use crate::redis::call::retry::{LONGEST_PAUSE, SHORTEST_PAUSE};
use crate::redis::connect::Target;
use crate::redis::connection::Connection;
use crate::script::keys::Keys;
use crate::script::{DEDUCT, MULTI_DEDUCT};
use crate::store::Store;

/// How often clients are looked at that nothing came from, and the longest wait: a run can be stopped that soon.
const TICK: Duration = Duration::from_millis(50);

/// One client: a connection, and the order that it is at.
struct Client {
    /// `None` while it is opened again.
    connection: Option<Connection>,
    order: Order,
    state: State,
    unsent: Vec<u8>,
    /// For each reply that is to come: whether the strategy waits for it.
    awaited: VecDeque<bool>,
    replies: Vec<Value>,
    /// When something was sent or came last.
    active: Instant,
    /// Of the next pause before another try.
    pause: Duration,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// It has no order.
    Free,
    /// Replies are to come.
    Waiting,
    /// It sends nothing until its timer is due.
    Pausing,
    /// It sends its order once it has a connection.
    Unconnected,
}

/// What a timer is for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Alarm {
    /// The client's order continues.
    Continue,
    /// The strategy keeps what it holds for the client's order.
    Keep,
}

struct Engine<'r> {
    clients: Vec<Client>,
    /// Those that have a connection and no order.
    free: VecDeque<usize>,
    busy: usize,
    strategy: Box<dyn Strategy>,
    sale: &'r Sale,
    slots: Vec<Option<u16>>,
    pace: Pace,
    poller: Poller,
    opener: Opener,
    /// With the number of the order, because a client may be at another one by then.
    timers: BinaryHeap<Reverse<(Instant, usize, u64, Alarm)>>,
    measured: Measured,
    out: Outgoing,
    target: Target,
    must_succeed: bool,
    /// Orders that ended since progress was reported.
    ended: u64,
    /// When an order was answered last, or the run began.
    answered: Instant,
    /// What ends the run.
    fatal: Option<StoreError>,
}

/// Connects all clients, loads the scripts, and drives them until the last order has ended.
///
/// # Errors
/// See [`load`](crate::bench::load).
pub(crate) fn load(
    store: &mut Store,
    sale: &Sale,
    options: &LoadOptions,
    progress: &mut dyn FnMut(u64),
) -> Result<Measured> {
    let slot = |items: &Items| Keys::of(store.layout, &items[0].0).slot();
    let slots: Vec<Option<u16>> = sale.baskets.iter().map(slot).collect();
    let nodes: Vec<usize> = slots.iter().map(|slot| store.servers.node_of(*slot)).collect();
    let targets: Vec<Target> = nodes.iter().map(|node| store.servers.node(*node).target.clone()).collect();
    if options.strategy == StrategyName::Lua {
        let has_several = sale.baskets.iter().any(|items| items.len() > 1);
        let scripts = if has_several { &MULTI_DEDUCT } else { &DEDUCT };
        let script = scripts.of(store.layout.kind());
        for node in nodes.into_iter().collect::<BTreeSet<usize>>() {
            match store.servers.call(&Call::at_node(node, redis::cmd("SCRIPT").arg("LOAD").arg(script.text))) {
                // Who may not do that sends the text with the first orders.
                Ok(_) | Err(StoreError::Permission { .. }) => {}
                Err(error) => return Err(error),
            }
        }
    }
    let stop = store.stop.clone();
    let wanted: Vec<&Target> =
        (0..options.clients).map(|client_index| &targets[client_index % targets.len()]).collect();
    let connections = open_all(&wanted, &*stop)?;
    let failed = |error: std::io::Error| store.servers.target().failed(error);
    let poller = Poller::new(connections.len()).map_err(failed)?;
    for (client_index, connection) in connections.iter().enumerate() {
        poller.add(client_index, connection).map_err(failed)?;
    }
    let began = Instant::now();
    let client = |connection| Client {
        connection: Some(connection),
        order: Order::new(began),
        state: State::Free,
        unsent: Vec::new(),
        awaited: VecDeque::new(),
        replies: Vec::new(),
        active: began,
        pause: SHORTEST_PAUSE,
    };
    let target = store.servers.target().clone();
    let mut engine = Engine {
        free: (0..connections.len()).collect(),
        clients: connections.into_iter().map(client).collect(),
        busy: 0,
        strategy: strategy::of(options.strategy, store, sale),
        sale,
        slots,
        pace: Pace::new(options.pace, began, target.timeout),
        poller,
        opener: Opener::start(store.servers.unconnected_copy()),
        timers: BinaryHeap::new(),
        measured: Measured::new()?,
        out: Outgoing::default(),
        target,
        must_succeed: options.must_succeed,
        ended: 0,
        answered: began,
        fatal: None,
    };
    engine.drive(&*stop, progress)?;
    let mut measured = engine.measured;
    measured.took = engine.answered - began;
    measured.dropped = engine.pace.dropped;
    Ok(measured)
}

impl Engine<'_> {
    fn drive(&mut self, stop: &dyn Fn() -> bool, progress: &mut dyn FnMut(u64)) -> Result<()> {
        let mut ready = Vec::new();
        let mut next_tick = Instant::now() + TICK;
        loop {
            let now = Instant::now();
            if !self.measured.is_cut_short && stop() {
                self.measured.is_cut_short = true;
                self.pace.stop();
            }
            let next_order = self.start_orders(now);
            if self.busy == 0 && !self.pace.has_more(now) {
                break;
            }
            let due = [Some(next_tick), next_order, self.timers.peek().map(|Reverse((due, ..))| *due)];
            let due = due.into_iter().flatten().min().unwrap_or(next_tick);
            let wait = due.saturating_duration_since(now);
            self.poller.wait(wait, &mut ready).map_err(|error| self.target.failed(error))?;
            for client_index in ready.drain(..) {
                self.receive(client_index);
            }
            let now = Instant::now();
            self.ring(now);
            if now >= next_tick {
                next_tick = now + TICK;
                self.reconnected(now);
                self.find_silent(now);
                self.find_dead(now);
            }
            progress(std::mem::take(&mut self.ended));
        }
        progress(std::mem::take(&mut self.ended));
        self.fatal.take().map_or(Ok(()), Err)
    }

    /// Gives orders to clients that are free; when the next one starts, if none does now.
    fn start_orders(&mut self, now: Instant) -> Option<Instant> {
        while let Some(client_index) = self.free.front().copied() {
            match self.pace.turn(now) {
                Turn::Order(number, started) => {
                    self.free.pop_front();
                    self.start(client_index, number, started, now);
                }
                Turn::NotBefore(at) => return Some(at),
                Turn::Over => return None,
            }
        }
        // All are busy, or have no connection.
        None
    }

    fn start(&mut self, client_index: usize, number: u64, started: Instant, now: Instant) {
        let baskets = self.sale.baskets.len();
        let client = &mut self.clients[client_index];
        let mut user = std::mem::take(&mut client.order.user);
        write_user(&mut user, self.sale.buyers.number(number));
        client.order = Order { number, basket: client_index % baskets, user, started, ..Order::new(now) };
        client.pause = SHORTEST_PAUSE;
        self.busy += 1;
        self.advance(client_index, now);
        self.keep(client_index, now);
    }

    /// Lets the strategy continue with a client's order, and does what it says.
    fn advance(&mut self, client_index: usize, now: Instant) {
        let client = &mut self.clients[client_index];
        self.out.bytes.clear();
        self.out.replies = 0;
        let next = self.strategy.step(&mut client.order, &mut client.replies, now, &mut self.out);
        client.replies.clear();
        match next {
            Next::Replies => {
                client.state = State::Waiting;
                client.awaited.extend(std::iter::repeat_n(true, self.out.replies));
                client.unsent.extend_from_slice(&self.out.bytes);
                self.send(client_index, now);
            }
            Next::Pause(until) => self.pause(client_index, until),
            Next::Done(status, corrupt) => self.end(client_index, Ok((status, corrupt)), now),
            Next::Failed(error) => self.end(client_index, Err(error), now),
        }
    }

    fn send(&mut self, client_index: usize, now: Instant) {
        let client = &mut self.clients[client_index];
        let Some(connection) = &mut client.connection else {
            client.unsent.clear();
            client.awaited.clear();
            (client.order.stage, client.state) = (0, State::Unconnected);
            return;
        };
        client.active = now;
        let was_blocked = client.unsent.len() > self.out.bytes.len();
        let mut sent = connection.try_send(&mut client.unsent);
        if let Ok(is_all) = sent
            && is_all == was_blocked
            && let Err(error) = self.poller.set_writes(client_index, connection, !is_all)
        {
            sent = Err(self.target.failed(error));
        }
        if let Err(error) = sent {
            self.lose(client_index, error, now);
        }
    }

    fn pause(&mut self, client_index: usize, until: Instant) {
        let client = &mut self.clients[client_index];
        client.state = State::Pausing;
        self.timers.push(Reverse((until, client_index, client.order.number, Alarm::Continue)));
    }

    /// Does what timers are due for.
    fn ring(&mut self, now: Instant) {
        while let Some(Reverse((due, client_index, number, alarm))) = self.timers.peek().copied() {
            if due > now {
                return;
            }
            self.timers.pop();
            let client = &mut self.clients[client_index];
            if client.order.number != number || client.state == State::Free {
                continue;
            }
            match alarm {
                Alarm::Continue if client.state == State::Pausing => self.advance(client_index, now),
                Alarm::Continue => {}
                Alarm::Keep => self.keep(client_index, now),
            }
        }
    }

    fn keep(&mut self, client_index: usize, now: Instant) {
        let client = &mut self.clients[client_index];
        self.out.bytes.clear();
        self.out.replies = 0;
        let due = self.strategy.keep(&client.order, now, &mut self.out);
        if client.state == State::Waiting && self.out.replies > 0 {
            let active = client.active;
            client.awaited.extend(std::iter::repeat_n(false, self.out.replies));
            client.unsent.extend_from_slice(&self.out.bytes);
            self.send(client_index, now);
            // It is no sign that the server answers.
            self.clients[client_index].active = active;
        }
        if let Some(due) = due {
            let number = self.clients[client_index].order.number;
            self.timers.push(Reverse((due, client_index, number, Alarm::Keep)));
        }
    }

    /// Reads what came for a client.
    fn receive(&mut self, client_index: usize) {
        if !self.clients[client_index].unsent.is_empty() {
            self.out.bytes.clear();
            self.send(client_index, Instant::now());
        }
        loop {
            let client = &mut self.clients[client_index];
            let Some(connection) = &mut client.connection else { return };
            if client.awaited.is_empty() && client.state != State::Free {
                return;
            }
            match connection.try_reply() {
                Ok(None) => return,
                Ok(Some(value)) => match client.awaited.pop_front() {
                    Some(true) => {
                        client.replies.push(value);
                        if !client.awaited.contains(&true) {
                            self.replied(client_index);
                        }
                    }
                    Some(false) => {}
                    // Nobody asked for it: a server that says why it closes the connection.
                    None => return,
                },
                Err(error) => return self.lose(client_index, error, Instant::now()),
            }
        }
    }

    /// All replies of a step are there.
    fn replied(&mut self, client_index: usize) {
        let now = Instant::now();
        let client = &mut self.clients[client_index];
        client.active = now;
        let Some(error) = client.replies.iter().find_map(error_of) else { return self.advance(client_index, now) };
        let nothing_ran = client.replies.iter().all(|reply| error_of(reply).is_some());
        client.replies.clear();
        if error.code() == Some("NOSCRIPT") && !client.order.by_text {
            client.order.by_text = true;
            client.order.retries += 1;
            return self.restart(client_index, now);
        }
        match StoreError::of_reply(&error, &self.target.shown) {
            meaning @ (StoreError::Permission { .. } | StoreError::Login { .. }) => {
                self.fatal.get_or_insert(meaning.clone());
                self.pace.stop();
                self.end(client_index, Err(meaning), now);
            }
            StoreError::Redirected(to) if !to.is_ask => {
                client.order.retries += 1;
                self.disconnect(client_index);
                self.restart(client_index, now);
            }
            meaning if nothing_ran && self.may_pass(client_index, &meaning, now) => {
                let client = &mut self.clients[client_index];
                client.order.retries += 1;
                client.order.stage = 0;
                let until = now + client.pause;
                client.pause = (client.pause * 2).min(LONGEST_PAUSE);
                self.pause(client_index, until);
            }
            meaning => self.end(client_index, Err(meaning), now),
        }
    }

    /// Whether an order that nothing ran of may be tried again.
    fn may_pass(&self, client_index: usize, error: &StoreError, now: Instant) -> bool {
        let is_in_time = now - self.clients[client_index].order.sent < self.target.timeout * TIMEOUTS;
        is_in_time && (error.is_transient() || matches!(error, StoreError::Redirected(_)))
    }

    fn restart(&mut self, client_index: usize, now: Instant) {
        self.clients[client_index].order.stage = 0;
        self.advance(client_index, now);
    }

    /// An order ended; its client gets the next one if there is one.
    fn end(&mut self, client_index: usize, ended: Result<(Status, Option<Corrupt>)>, now: Instant) {
        let client = &mut self.clients[client_index];
        self.measured.retries += client.order.retries;
        match ended {
            Ok((status, corrupt)) => {
                self.measured.answered(status, client.order.started, now);
                self.measured.corrupt = self.measured.corrupt.take().or(corrupt);
                self.answered = now;
            }
            Err(error) => {
                if self.must_succeed {
                    self.pace.stop();
                    self.fatal.get_or_insert(error.clone());
                }
                self.measured.failed(error);
            }
        }
        client.state = State::Free;
        self.busy -= 1;
        self.ended += 1;
        if client.connection.is_none() {
            return;
        }
        match self.pace.turn(now) {
            Turn::Order(number, started) => self.start(client_index, number, started, now),
            Turn::NotBefore(_) | Turn::Over => self.free.push_back(client_index),
        }
    }

    /// A client's connection broke, or no reply came in time.
    fn lose(&mut self, client_index: usize, error: StoreError, now: Instant) {
        self.disconnect(client_index);
        let is_repeatable = self.strategy.is_repeatable();
        let client = &mut self.clients[client_index];
        match client.state {
            State::Free => self.free.retain(|free| *free != client_index),
            // It is sent once its timer is due.
            State::Pausing | State::Unconnected => {}
            State::Waiting if is_repeatable && now - client.order.sent < self.target.timeout * TIMEOUTS => {
                client.order.retries += 1;
                client.order.may_have_run = true;
                self.restart(client_index, now);
            }
            State::Waiting => {
                let error = if is_repeatable { self.unknown(client_index, &error) } else { error };
                self.end(client_index, Err(error), now);
            }
        }
    }

    /// The error for an order that may have been applied.
    fn unknown(&self, client_index: usize, error: &StoreError) -> StoreError {
        let request = format!("{}-{}", self.sale.run, self.clients[client_index].order.number);
        StoreError::Unknown {
            server: self.target.shown.clone(),
            why: error.why(),
            recovery: Some(Recovery::SameRequest(request)),
        }
    }

    /// Gives up a client's connection, and asks for another one.
    fn disconnect(&mut self, client_index: usize) {
        let client = &mut self.clients[client_index];
        client.connection = None;
        client.unsent.clear();
        client.awaited.clear();
        client.replies.clear();
        self.opener.ask(client_index, self.slots[client_index % self.slots.len()]);
    }

    /// Takes connections that were opened again.
    fn reconnected(&mut self, now: Instant) {
        while let Some((client_index, opened)) = self.opener.next() {
            let added = opened.and_then(|connection| match self.poller.add(client_index, &connection) {
                Ok(()) => Ok(connection),
                Err(error) => Err(self.target.failed(error)),
            });
            let client = &mut self.clients[client_index];
            match added {
                Ok(connection) => {
                    client.connection = Some(connection);
                    match client.state {
                        State::Free => self.free.push_back(client_index),
                        State::Unconnected => self.advance(client_index, now),
                        State::Waiting | State::Pausing => {}
                    }
                }
                Err(error) => {
                    if client.state == State::Unconnected && now - client.order.sent >= self.target.timeout * TIMEOUTS {
                        let error = if client.order.may_have_run { self.unknown(client_index, &error) } else { error };
                        self.end(client_index, Err(error), now);
                    }
                    self.opener.ask(client_index, self.slots[client_index % self.slots.len()]);
                }
            }
        }
    }

    /// Gives up connections on which no reply came in time.
    fn find_silent(&mut self, now: Instant) {
        for client_index in 0..self.clients.len() {
            let client = &self.clients[client_index];
            if client.state == State::Waiting
                && client.connection.is_some()
                && now - client.active >= self.target.timeout
            {
                let error = self.target.failed(std::io::ErrorKind::TimedOut.into());
                self.lose(client_index, error, now);
            }
        }
    }

    /// Ends the run if no client has had a connection for long.
    fn find_dead(&mut self, now: Instant) {
        let is_dead = self.clients.iter().all(|client| client.connection.is_none());
        if is_dead && now - self.answered >= self.target.timeout * TIMEOUTS && self.fatal.is_none() {
            let why = "all connections broke, and none could be opened again".to_owned();
            self.fatal = Some(StoreError::Unreachable { server: self.target.shown.clone(), why });
            self.pace.stop();
            for client_index in 0..self.clients.len() {
                if self.clients[client_index].state == State::Unconnected {
                    let error = self.unknown(
                        client_index,
                        &StoreError::Unreachable { server: self.target.shown.clone(), why: String::new() },
                    );
                    self.end(client_index, Err(error), now);
                }
            }
        }
    }
}

/// The error that a reply is, or that a transaction's reply has.
fn error_of(reply: &Value) -> Option<RedisError> {
    match reply {
        Value::ServerError(error) => Some(error.clone().into()),
        Value::Array(values) => values.iter().find_map(error_of),
        _ => None,
    }
}
