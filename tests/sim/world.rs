//! A network and processes in virtual time: real client code in coroutines that run one at a time, sockets to the simulated server
//! between them, all from one seed.
//!
//! A process runs until it waits: for bytes, for time to pass, or for something to do. Then the next event happens, and the clock
//! jumps to it. What a process sends may be late, lost with its connection, or run after the process gave up.

use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, VecDeque};
use std::fmt;
use std::io::{self, ErrorKind, Read, Write};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr;
use std::rc::Rc;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult, Yielder};
use seckill::internals::{Endpoint, RealSystem, Socket, System};

use super::keys::{Bytes, Reply, integer};
use super::random::Random;
use super::replica::Replica;
use super::script::Engine;
use super::server;
use super::slots::{self, NODES, Slots, node_at};

/// What a process does: it gets something to do, does it, and says how it ended, again and again, until there is nothing more.
pub type Work<Op, Done> = fn(Arc<dyn System>, &mut dyn FnMut(Done) -> Option<Op>);

/// How bad things may become, in percent of what is sent.
#[derive(Debug, Clone, Copy)]
pub struct Faults {
    /// The connection breaks before it arrives.
    pub lost: u64,
    /// The connection breaks before the reply does.
    pub unanswered: u64,
    /// It takes seconds.
    pub late: u64,
    /// The script dies after some writes, and with it the connection.
    pub cut: u64,
    /// The server has lost its scripts when it arrives.
    pub flushed: u64,
}

impl Faults {
    pub const NONE: Self = Self { lost: 0, unanswered: 0, late: 0, cut: 0, flushed: 0 };

    /// Each of them never, as often, or three times as often.
    pub fn times(self, random: &mut Random) -> Self {
        let mut times = |chance: u64| chance * random.pick(&[0, 1, 3]);
        Self {
            lost: times(self.lost),
            unanswered: times(self.unanswered),
            late: times(self.late),
            cut: times(self.cut),
            flushed: times(self.flushed),
        }
    }
}

/// What goes wrong with one thing that is sent.
#[derive(Debug, Clone, Copy)]
pub enum Strike {
    /// The connection breaks before it arrives.
    Lost,
    /// The connection breaks before the reply does.
    Unanswered,
    /// It takes longer, by that in microseconds.
    Late(u64),
    /// The script dies after that number of writes.
    Cut(u32),
}

/// What becomes of the server.
#[derive(Debug, Clone, Copy)]
pub enum Failure {
    /// It starts again with all that it had but its scripts.
    Restart,
    /// It is gone, and its replica takes over with what it has.
    Failover,
    /// Its replica takes over with what it has, and whoever is connected to it is refused from then on.
    Switch,
}

/// What happened, for those who watch.
pub enum Turn<Done> {
    /// A process is done with what it had to do.
    Idle(usize, Done),
    /// An idle process has rested.
    Rested(usize),
    /// The server ran a command; whether it was cut.
    Executed(bool),
    /// A process was killed, in the middle of what it did.
    Killed(usize),
    /// A process panicked.
    Crashed(String),
    /// Nothing will ever happen again.
    Over,
}

/// What a process asks for.
enum Ask<Done> {
    /// To what is at that place.
    Connect(usize),
    Write(usize, Vec<u8>),
    Read(usize),
    Sleep(Duration),
    Next(Done),
}

/// What it gets.
enum Answer<Op> {
    Go,
    Connected(usize),
    Bytes(Vec<u8>),
    Failed(ErrorKind),
    Do(Op),
    /// It is killed, or has nothing to do any more.
    End,
}

/// The code of a process, which returns what it panicked with.
type Code<Op, Done> = Coroutine<Answer<Op>, Ask<Done>, Option<String>>;

/// Unwinds a process that is killed.
struct Killed;

enum Event {
    /// Bytes come to the server, or, if they are lost, the end of their connection.
    Arrive { connection: usize, bytes: Vec<u8>, dice: Dice },
    /// Bytes come to the process, or the end of the connection.
    Reply { connection: usize, bytes: Option<Vec<u8>> },
    /// A process has waited long enough, if it still waits for that.
    Wake { process: usize, wait: u64 },
    /// The replica of a node, if it is that of this number, has got all up to an offset.
    Replicate { node: usize, replica: u64, offset: u64 },
    /// Another replica of a node has got all that there is.
    Follow(usize),
    /// A key of a slot that moves is next.
    MoveKey(u16),
    /// A `WAIT` has lasted long enough.
    WaitOver(u64),
}

/// What becomes of something that was sent.
#[derive(Clone, Copy)]
struct Dice {
    is_lost: bool,
    is_unanswered: bool,
    is_flushed: bool,
    cut_after: Option<u32>,
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct At {
    us: u64,
    number: u64,
    event: usize,
}

#[derive(Default)]
struct Connection {
    process: usize,
    place: usize,
    /// The next command is behind `ASKING`.
    asks: bool,
    /// A command of its transaction was refused.
    aborts: bool,
    /// The commands of its transaction.
    queued: Option<Vec<Vec<Bytes>>>,
    /// Keys that it watches, and whether one of them was written since.
    watched: BTreeSet<Bytes>,
    is_touched: bool,
    received: Vec<u8>,
    inbox: Vec<u8>,
    is_broken: bool,
    /// It leads to the only server, which is a replica now.
    is_demoted: bool,
    /// The offset of what came on it.
    written: u64,
    /// When the last bytes arrive, in each direction: those that follow cannot be earlier.
    arrives: u64,
    replies: u64,
}

/// A connection that waits until replicas have what came on it.
struct Waiting {
    number: u64,
    connection: usize,
    replicas: i64,
}

/// What a process waits for.
enum Wait {
    Connect(usize),
    Bytes(usize),
    Time,
    Work,
}

struct Process<Op, Done> {
    /// `None`: it has ended.
    code: Option<Code<Op, Done>>,
    waits: Option<(u64, Wait)>,
    random: Random,
    faults: Faults,
    /// After how many waits it is killed.
    killed_after: Option<u64>,
}

pub struct World<Op: 'static, Done: 'static> {
    engine: Rc<Engine>,
    clock: Arc<AtomicU64>,
    events: Vec<Option<Event>>,
    queue: BinaryHeap<Reverse<At>>,
    connections: Vec<Connection>,
    processes: Vec<Process<Op, Done>>,
    waits: u64,
    work: Work<Op, Done>,
    /// Of each node.
    followers: [Option<Replica>; NODES],
    /// How many replicas there were.
    replicas: u64,
    /// How many writes were sent to replicas, or would have been.
    pub written: u64,
    waiting: Vec<Waiting>,
    /// How many things were sent, and what goes wrong with the one of that number.
    pub sent: u64,
    pub strike: Option<(u64, Strike)>,
    /// Of a cluster.
    pub slots: Option<Slots>,
    /// Until when each node accepts nobody, and until when it has not read its data. One server is the first.
    down_until: [u64; NODES],
    loading_until: [u64; NODES],
    /// What the server ran since a story looked; nothing if none is written.
    pub ran: Option<Vec<String>>,
}

impl<Op: 'static, Done: 'static> World<Op, Done> {
    pub fn new(engine: &Rc<Engine>, work: Work<Op, Done>) -> Self {
        let clock = Arc::new(AtomicU64::new(engine.server.borrow().us));
        Self {
            engine: Rc::clone(engine),
            clock,
            events: Vec::new(),
            queue: BinaryHeap::new(),
            connections: Vec::new(),
            processes: Vec::new(),
            waits: 0,
            work,
            followers: [None, None],
            replicas: 0,
            written: 0,
            waiting: Vec::new(),
            sent: 0,
            strike: None,
            slots: None,
            down_until: [0; NODES],
            loading_until: [0; NODES],
            ran: None,
        }
    }

    /// The server's clock, in microseconds.
    pub fn us(&self) -> u64 {
        self.clock.load(Ordering::Relaxed)
    }

    /// Starts a process, which waits for something to do. Its clock is ahead of the server's by `skew_ms`.
    pub fn start(&mut self, seed: u64, skew_ms: i64) -> usize {
        let number = self.processes.len();
        let line = Arc::new(Line(AtomicPtr::default()));
        let machine = Machine {
            line: Arc::clone(&line),
            clock: Arc::clone(&self.clock),
            skew_ms,
            began: (Instant::now(), self.us()),
            random: Mutex::new(Random::of_step(seed, 0)),
        };
        let work = self.work;
        let code = Coroutine::with_stack(free_stack(), move |yielder, _| {
            line.0.store(ptr::from_ref(yielder).cast_mut(), Ordering::Relaxed);
            let mut next = |done| match line.ask(Ask::Next(done)) {
                Answer::Do(op) => Some(op),
                _ => None,
            };
            let ended = catch_unwind(AssertUnwindSafe(|| work(Arc::new(machine), &mut next)));
            ended.err().filter(|panic| !panic.is::<Killed>()).map(|panic| {
                let text = panic.downcast_ref::<String>().cloned();
                text.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string)).unwrap_or_default()
            })
        });
        let random = Random::of_step(seed, 1);
        self.processes.push(Process {
            code: Some(code),
            waits: None,
            random,
            faults: Faults::NONE,
            killed_after: None,
        });
        // It asks for work first.
        self.run(number, Answer::Go);
        number
    }

    /// Gives an idle process something to do. What it sends meets these faults, as the numbers say.
    pub fn give(
        &mut self,
        process: usize,
        op: Op,
        random: Random,
        faults: Faults,
        killed_after: Option<u64>,
    ) -> Option<Turn<Done>> {
        let one = &mut self.processes[process];
        (one.random, one.faults) = (random, faults);
        let turn = self.answer(process, Answer::Do(op));
        self.processes[process].killed_after = killed_after;
        turn
    }

    /// An idle process waits until then.
    pub fn rest(&mut self, process: usize, us: u64) {
        self.waits += 1;
        self.processes[process].waits = Some((self.waits, Wait::Work));
        let wait = self.waits;
        self.at(self.us() + us, Event::Wake { process, wait });
    }

    /// An idle process has nothing to do any more, and ends.
    pub fn retire(&mut self, process: usize) {
        self.processes[process].waits = None;
        self.run(process, Answer::End);
    }

    /// Lets things happen until one of them matters.
    pub fn turn(&mut self) -> Turn<Done> {
        while let Some(Reverse(At { us, event, .. })) = self.queue.pop() {
            self.clock.store(us, Ordering::Relaxed);
            self.engine.server.borrow_mut().us = us;
            match self.events[event].take().expect("an event happens once") {
                Event::Arrive { connection, bytes, dice } => {
                    if let Some(was_cut) = self.arrive(connection, bytes, dice) {
                        return Turn::Executed(was_cut);
                    }
                }
                Event::Reply { connection, bytes } => {
                    let one = &mut self.connections[connection];
                    match bytes {
                        Some(bytes) if one.inbox.is_empty() => one.inbox = bytes,
                        Some(bytes) => one.inbox.extend(bytes),
                        None => one.is_broken = true,
                    }
                    let process = one.process;
                    let answer = match &self.processes[process].waits {
                        Some((_, Wait::Bytes(of))) if *of == connection => self.read(connection),
                        _ => None,
                    };
                    if let Some(turn) = answer.and_then(|answer| self.answer(process, answer)) {
                        return turn;
                    }
                }
                Event::Wake { process, wait } => {
                    let Some((_, waits)) = self.processes[process].waits.take_if(|(number, _)| *number == wait) else {
                        continue;
                    };
                    let answer = match waits {
                        Wait::Work => return Turn::Rested(process),
                        Wait::Time => Answer::Go,
                        Wait::Bytes(_) => Answer::Failed(ErrorKind::WouldBlock),
                        Wait::Connect(place) if !self.is_up(place) => Answer::Failed(ErrorKind::ConnectionRefused),
                        Wait::Connect(place) => {
                            self.connections.push(Connection { process, place, ..Connection::default() });
                            Answer::Connected(self.connections.len() - 1)
                        }
                    };
                    if let Some(turn) = self.answer(process, answer) {
                        return turn;
                    }
                }
                Event::Replicate { node, replica, offset } => self.replicated(node, replica, offset),
                Event::Follow(node) => self.follow(node),
                Event::MoveKey(slot) => self.move_key(slot),
                Event::WaitOver(number) => {
                    let at = self.waiting.iter().position(|waiting| waiting.number == number);
                    if let Some(waiting) = at.map(|at| self.waiting.swap_remove(at)) {
                        self.reply_to_wait(waiting.connection);
                    }
                }
            }
        }
        Turn::Over
    }

    /// How many servers there are, without their replicas.
    pub fn nodes(&self) -> usize {
        if self.slots.is_some() { NODES } else { 1 }
    }

    /// Whether anybody accepts a connection at a place.
    fn is_up(&self, place: usize) -> bool {
        let is_there = self.is_primary(place) || self.followers[node_at(place)].is_some();
        is_there && self.us() >= self.down_until[node_at(place)]
    }

    fn is_primary(&self, place: usize) -> bool {
        self.slots.as_ref().is_none_or(|slots| slots.is_primary(place))
    }

    /// From now on a replica follows a node.
    pub fn follow(&mut self, node: usize) {
        let mut server = self.engine.server.borrow_mut();
        server.log.get_or_insert_default();
        self.replicas += 1;
        let mut keys = server.keys.clone();
        if let Some(slots) = &self.slots {
            keys.0.retain(|key, _| slots.is_served(node, key));
        }
        self.followers[node] = Some(Replica::of(keys, self.written, self.replicas));
        drop(server);
        self.note_followers();
    }

    fn note_followers(&mut self) {
        let followed = self.followers.each_ref().map(Option::is_some);
        self.engine.server.borrow_mut().is_followed = followed[0];
        self.slots.iter_mut().for_each(|slots| slots.followed = followed);
    }

    /// For a while the replica of a node gets nothing.
    pub fn stall(&mut self, node: usize, us: u64) {
        let until = self.us() + us;
        self.followers[node].iter_mut().for_each(|replica| replica.stalled_until = until);
    }

    /// A node whose replica gets nothing now.
    pub fn stalled(&self) -> Option<usize> {
        let is_stalled = |replica: &Replica| replica.stalled_until > self.us();
        self.followers.iter().position(|replica| replica.as_ref().is_some_and(is_stalled))
    }

    /// A slot moves to the other node of the cluster.
    pub fn begin_move(&mut self, slot: u16) {
        if self.slots.as_mut().is_some_and(|slots| slots.begin_move(slot)) {
            self.at(self.us() + 5000, Event::MoveKey(slot));
        }
    }

    fn move_key(&mut self, slot: u16) {
        let server = self.engine.server.borrow();
        let Some(key) = self.slots.as_mut().and_then(|slots| slots.move_key(slot, &server.keys)) else { return };
        self.connections.iter_mut().for_each(|connection| connection.is_touched |= connection.watched.contains(&key));
        // Who moves keys waits for replicas.
        for (node, replica) in self.followers.iter_mut().enumerate() {
            let is_there = self.slots.as_ref().is_some_and(|slots| slots.is_served(node, &key));
            if let Some(replica) = replica {
                replica.apply(self.written);
                replica.set(&key, server.keys.0.get(&key).filter(|_| is_there));
            }
        }
        drop(server);
        self.at(self.us() + 30_000, Event::MoveKey(slot));
    }

    /// Runs a command at the node that a connection leads to, if the node serves it.
    fn serve(&mut self, connection: usize, command: &[Bytes]) -> Option<Reply> {
        let to = &mut self.connections[connection];
        let (place, asks) = (to.place, std::mem::replace(&mut to.asks, command[0] == b"ASKING"));
        if let Some(slots) = &self.slots
            && let Some(refusal) = slots.reply(place, command, asks, &self.engine.server.borrow().keys)
        {
            to.aborts |= to.queued.is_some();
            return Some(refusal);
        }
        match &command[0][..] {
            b"WATCH" => {
                to.watched.extend(command[1..].iter().cloned());
                self.engine.server.borrow_mut().touched.get_or_insert_default();
                return Some(Reply::Status("OK"));
            }
            b"EXEC" => {
                to.watched.clear();
                let (is_touched, aborts) = (std::mem::take(&mut to.is_touched), std::mem::take(&mut to.aborts));
                if aborts || is_touched {
                    to.queued = None;
                    let text = "EXECABORT Transaction discarded because of previous errors.";
                    return Some(if aborts { Reply::Error(text.to_owned()) } else { Reply::Nil });
                }
            }
            _ => {}
        }
        self.engine.server.borrow_mut().queued = to.queued.take();
        let reply = self.serve_at(place, command);
        self.connections[connection].queued = self.engine.server.borrow_mut().queued.take();
        self.note_touched();
        reply
    }

    /// Connections that watch a key that was written take note of it.
    fn note_touched(&mut self) {
        let touched = self.engine.server.borrow_mut().touched.as_mut().map(std::mem::take).unwrap_or_default();
        for connection in self.connections.iter_mut().filter(|it| !touched.is_empty() && !it.watched.is_empty()) {
            connection.is_touched |= touched.iter().any(|key| connection.watched.contains(key));
        }
    }

    /// Runs a command at a place.
    fn serve_at(&mut self, place: usize, command: &[Bytes]) -> Option<Reply> {
        let Some(slots) = &mut self.slots else { return server::serve(&self.engine, command) };
        // Scripts are loaded at each place.
        let mut server = self.engine.server.borrow_mut();
        server.loaded = Some(std::mem::take(&mut slots.loaded[place]));
        server.is_followed = slots.followed[node_at(place)];
        drop(server);
        let reply = server::serve(&self.engine, command);
        slots.loaded[place] = self.engine.server.borrow_mut().loaded.take().unwrap_or_default();
        slots.note_run(node_at(place), command);
        reply
    }

    /// Something becomes of a node: up to which write nothing is lost, and how many are. `None`: nothing happens, because it has no
    /// replica.
    pub fn fail(&mut self, node: usize, failure: Failure, random: &mut Random) -> Option<(u64, usize)> {
        let kept = match failure {
            Failure::Restart => (self.written, 0),
            Failure::Failover | Failure::Switch => {
                let replica = self.followers[node].take()?;
                let kept = replica.kept(self.written);
                let mut server = self.engine.server.borrow_mut();
                match &mut self.slots {
                    Some(slots) => slots.promote(node, &mut server.keys, replica.promoted()),
                    None => server.keys = replica.promoted(),
                }
                drop(server);
                self.note_followers();
                self.at(self.us() + 1000 * (1 + random.below(4000)), Event::Follow(node));
                kept
            }
        };
        self.forget_scripts(node);
        if !matches!(failure, Failure::Switch) {
            self.restart(node, random);
        }
        let of_node = |waiting: &mut Waiting| node_at(self.connections[waiting.connection].place) == node;
        let interrupted: Vec<Waiting> = self.waiting.extract_if(.., of_node).collect();
        for waiting in interrupted {
            let why = "UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)";
            self.reply(waiting.connection, &Reply::Error(why.to_owned()));
        }
        if self.slots.is_none() && matches!(failure, Failure::Switch) {
            self.connections.iter_mut().for_each(|connection| connection.is_demoted = true);
        }
        Some(kept)
    }

    /// A node has lost its scripts.
    fn forget_scripts(&mut self, node: usize) {
        match &mut self.slots {
            Some(slots) => slots.forget_scripts(node),
            None => self.engine.server.borrow_mut().loaded = Some(BTreeSet::new()),
        }
    }

    /// A node starts again with all that it had but its scripts.
    pub fn restart(&mut self, node: usize, random: &mut Random) {
        let now = self.us();
        self.forget_scripts(node);
        self.down_until[node] = now + 1000 * random.below(2000);
        self.loading_until[node] = self.down_until[node] + 1000 * random.below(1000);
        for connection in 0..self.connections.len() {
            let one = &mut self.connections[connection];
            if node_at(one.place) == node && !std::mem::replace(&mut one.is_broken, true) {
                self.at(now + 200, Event::Reply { connection, bytes: None });
            }
        }
    }

    /// Sends the replica of a node what a call of a process wrote; false if it wrote nothing.
    fn replicate(&mut self, process: usize, node: usize) -> bool {
        let writes = self.engine.server.borrow_mut().log.as_mut().map(std::mem::take).unwrap_or_default();
        if writes.is_empty() {
            return false;
        }
        let before = self.written;
        self.written += writes.len() as u64;
        let (now, offset) = (self.us(), self.written);
        let lag = 300 + self.processes[process].random.below(1500);
        if let Some(follower) = &mut self.followers[node] {
            let (us, replica) = (follower.send(before, writes, now, lag), follower.number);
            self.at(us, Event::Replicate { node, replica, offset });
        }
        true
    }

    /// Which node serves a key now.
    fn node_of(&self, key: &Bytes) -> usize {
        self.slots.as_ref().map_or(0, |slots| (0..NODES).find(|node| slots.is_served(*node, key)).unwrap_or(0))
    }

    /// Runs a command at once, over no connection that could fail; `None` if the node of its key serves nobody.
    pub fn run_now(&mut self, process: usize, command: &[Bytes]) -> Option<Reply> {
        let node = self.node_of(&command[1]);
        if self.us() < self.loading_until[node] {
            return None;
        }
        let reply = server::serve(&self.engine, command);
        // Also what a call wrote before it was cut: later, it would reach a replica that was made with it.
        self.replicate(process, node);
        self.note_touched();
        reply
    }

    /// The time of a key is over, if its node serves anybody: false if it does not.
    pub fn expire(&mut self, process: usize, key: &Bytes) -> bool {
        let (node, is_done) = (self.node_of(key), self.run_now(process, &["DEL".into(), key.clone()]).is_some());
        if let Some(follower) = self.followers[node].as_mut().filter(|_| is_done) {
            follower.expire(key, self.written);
        }
        is_done
    }

    fn replicated(&mut self, node: usize, replica: u64, offset: u64) {
        let follower = self.followers[node].as_mut().filter(|follower| follower.number == replica);
        let Some(follower) = follower else { return };
        follower.apply(offset);
        let waiting = std::mem::take(&mut self.waiting);
        let is_done = |waiting: &Waiting| self.acknowledged(waiting.connection) >= waiting.replicas;
        let (done, waiting): (Vec<_>, _) = waiting.into_iter().partition(is_done);
        self.waiting = waiting;
        for Waiting { connection, .. } in done {
            self.reply_to_wait(connection);
        }
    }

    /// How many replicas have what came on a connection.
    fn acknowledged(&self, connection: usize) -> i64 {
        let Connection { written, place, .. } = self.connections[connection];
        self.followers[node_at(place)].as_ref().is_some_and(|replica| replica.offset >= written).into()
    }

    /// `WAIT`: replies when so many replicas have what came on a connection, or after so long.
    fn wait(&mut self, connection: usize, command: &[Bytes]) {
        let [_, replicas, ms] = command else { panic!("WAIT has two arguments") };
        let (replicas, ms) = (integer(replicas).expect("a number"), integer(ms).expect("a number"));
        if self.acknowledged(connection) >= replicas {
            return self.reply_to_wait(connection);
        }
        self.waits += 1;
        self.waiting.push(Waiting { number: self.waits, connection, replicas });
        self.at(self.us() + 1000 * ms.cast_unsigned(), Event::WaitOver(self.waits));
    }

    fn reply_to_wait(&mut self, connection: usize) {
        let replicas = Reply::Int(self.acknowledged(connection));
        if let Some(ran) = &mut self.ran {
            let process = self.connections[connection].process;
            ran.push(format!("    p{process} WAIT -> {replicas:?}"));
        }
        self.reply(connection, &replicas);
    }

    fn reply(&mut self, connection: usize, reply: &Reply) {
        let mut bytes = Vec::new();
        server::write(reply, &mut bytes);
        self.send_back(connection, Some(bytes));
    }

    /// Puts a reply on its way, or the end of the connection.
    fn send_back(&mut self, connection: usize, bytes: Option<Vec<u8>>) {
        let now = self.us();
        let to = &mut self.connections[connection];
        to.replies = to.replies.max(now + 400);
        let at = to.replies;
        let bytes = bytes.filter(|_| !to.is_broken);
        self.at(at, Event::Reply { connection, bytes });
    }

    fn at(&mut self, us: u64, event: Event) {
        self.events.push(Some(event));
        let number = self.events.len() as u64;
        self.queue.push(Reverse(At { us, number, event: self.events.len() - 1 }));
    }

    /// Lets a process continue with an answer until it waits again.
    fn answer(&mut self, process: usize, answer: Answer<Op>) -> Option<Turn<Done>> {
        let one = &mut self.processes[process];
        one.waits = None;
        let is_over = match &mut one.killed_after {
            Some(0) => true,
            Some(left) => {
                *left -= 1;
                false
            }
            None => false,
        };
        self.run(process, if is_over { Answer::End } else { answer })
    }

    /// Runs a process until it waits.
    fn run(&mut self, process: usize, mut answer: Answer<Op>) -> Option<Turn<Done>> {
        loop {
            let one = &mut self.processes[process];
            let code = one.code.as_mut().expect("a process that waits has not ended");
            let ask = match code.resume(answer) {
                CoroutineResult::Yield(ask) => ask,
                CoroutineResult::Return(crash) => {
                    let stack = one.code.take().expect("it was there").into_stack();
                    STACKS.with_borrow_mut(|free| free.push(stack));
                    return Some(crash.map_or(Turn::Killed(process), Turn::Crashed));
                }
            };
            let (after, wait) = match ask {
                Ask::Write(connection, bytes) => {
                    self.send(process, connection, bytes);
                    answer = Answer::Go;
                    continue;
                }
                Ask::Read(connection) => match self.read(connection) {
                    Some(answer) => return self.answer(process, answer),
                    None => (TIMEOUT, Wait::Bytes(connection)),
                },
                Ask::Sleep(duration) => (duration, Wait::Time),
                Ask::Connect(place) => (Duration::from_micros(300), Wait::Connect(place)),
                Ask::Next(done) => return Some(Turn::Idle(process, done)),
            };
            self.waits += 1;
            self.processes[process].waits = Some((self.waits, wait));
            let (us, wait) = (self.us() + u64::try_from(after.as_micros()).unwrap_or(u64::MAX / 2), self.waits);
            self.at(us, Event::Wake { process, wait });
            return None;
        }
    }

    /// Puts bytes on their way.
    fn send(&mut self, process: usize, connection: usize, bytes: Vec<u8>) {
        let Process { random, faults, .. } = &mut self.processes[process];
        // No order arrives in the ms in which it is sent: what is newer than an export is known to the ms.
        let mut us = 1000 + random.below(2000);
        if random.percent(faults.late) {
            us += random.below(5_000_000);
        }
        let [mut is_lost, mut is_unanswered, is_flushed] =
            [faults.lost, faults.unanswered, faults.flushed].map(|chance| random.percent(chance));
        let cut_after = random.below(9) as u32;
        let mut cut_after = random.percent(faults.cut).then_some(cut_after);
        self.sent += 1;
        match self.strike.filter(|(number, _)| *number == self.sent) {
            Some((_, Strike::Lost)) => is_lost = true,
            Some((_, Strike::Unanswered)) => is_unanswered = true,
            Some((_, Strike::Late(more))) => us += more,
            Some((_, Strike::Cut(writes))) => cut_after = Some(writes),
            None => {}
        }
        let to = &mut self.connections[connection];
        to.arrives = to.arrives.max(self.clock.load(Ordering::Relaxed) + us);
        let at = to.arrives;
        self.at(at, Event::Arrive { connection, bytes, dice: Dice { is_lost, is_unanswered, is_flushed, cut_after } });
    }

    /// What the server does with bytes: `None` if it runs nothing, else whether it was cut.
    fn arrive(&mut self, connection: usize, bytes: Vec<u8>, dice: Dice) -> Option<bool> {
        let now = self.us();
        let to = &mut self.connections[connection];
        if to.is_broken {
            return None;
        }
        if dice.is_lost {
            to.is_broken = true;
            self.at(now + 200, Event::Reply { connection, bytes: None });
            return None;
        }
        if to.received.is_empty() {
            to.received = bytes;
        } else {
            to.received.extend(bytes);
        }
        if dice.is_flushed {
            self.forget_scripts(node_at(self.connections[connection].place));
        }
        let (mut replies, mut ran, mut was_cut) = (Vec::new(), false, false);
        while let Some((command, length)) = server::command(&self.connections[connection].received) {
            self.connections[connection].received.drain(..length);
            ran = true;
            let refusal = self.refusal(connection);
            let place = self.connections[connection].place;
            if command[0] == b"WAIT" && refusal.is_none() && self.is_primary(place) {
                self.send_back(connection, Some(std::mem::take(&mut replies)));
                self.wait(connection, &command);
                continue;
            }
            self.engine.server.borrow_mut().cut_after = dice.cut_after;
            let reply = refusal.or_else(|| self.serve(connection, &command));
            self.engine.server.borrow_mut().cut_after = None;
            if self.replicate(self.connections[connection].process, node_at(place)) {
                self.connections[connection].written = self.written;
            }
            if let Some(ran) = &mut self.ran {
                let process = self.connections[connection].process;
                ran.push(format!("    p{process} {}", server::shown(&command, reply.as_ref())));
            }
            let Some(reply) = reply else {
                was_cut = true;
                break;
            };
            server::write(&reply, &mut replies);
        }
        if !ran {
            return None;
        }
        self.connections[connection].is_broken |= was_cut || dice.is_unanswered;
        if self.connections[connection].is_broken || !replies.is_empty() {
            self.send_back(connection, Some(replies));
        }
        Some(was_cut)
    }

    /// What a server that cannot serve replies to everything.
    fn refusal(&self, connection: usize) -> Option<Reply> {
        let text = match () {
            () if self.connections[connection].is_demoted => "READONLY You can't write against a read only replica.",
            () if self.us() < self.loading_until[node_at(self.connections[connection].place)] => {
                "LOADING Redis is loading the dataset in memory"
            }
            () => return None,
        };
        Some(Reply::Error(text.to_owned()))
    }

    /// What reading gives now; `None`: nothing yet.
    fn read(&mut self, connection: usize) -> Option<Answer<Op>> {
        let of = &mut self.connections[connection];
        match of.inbox.is_empty() {
            false => Some(Answer::Bytes(std::mem::take(&mut of.inbox))),
            true => of.is_broken.then_some(Answer::Failed(ErrorKind::ConnectionReset)),
        }
    }
}

impl<Op, Done> Drop for World<Op, Done> {
    fn drop(&mut self) {
        for process in 0..self.processes.len() {
            if self.processes[process].code.is_some() {
                self.run(process, Answer::End);
            }
        }
    }
}

thread_local! {
    /// Stacks of processes that have ended.
    static STACKS: RefCell<Vec<DefaultStack>> = const { RefCell::new(Vec::new()) };
}

fn free_stack() -> DefaultStack {
    STACKS.with_borrow_mut(Vec::pop).unwrap_or_default()
}

/// How long a process waits for a reply.
pub const TIMEOUT: Duration = Duration::from_secs(1);

/// What a process asks the world through, once it runs.
struct Line<Op, Done>(AtomicPtr<Yielder<Answer<Op>, Ask<Done>>>);

impl<Op, Done> Line<Op, Done> {
    fn ask(&self, ask: Ask<Done>) -> Answer<Op> {
        // SAFETY: what has the line is called by the coroutine of the process, which ends before what it yields through does.
        unsafe { &*self.0.load(Ordering::Relaxed) }.suspend(ask)
    }

    /// What it gets for it; a process that is killed ends here.
    fn wait_for(&self, ask: Ask<Done>) -> Answer<Op> {
        match self.ask(ask) {
            Answer::End => resume_unwind(Box::new(Killed)),
            answer => answer,
        }
    }
}

/// The machine that a process runs on.
struct Machine<Op, Done> {
    line: Arc<Line<Op, Done>>,
    clock: Arc<AtomicU64>,
    skew_ms: i64,
    began: (Instant, u64),
    random: Mutex<Random>,
}

impl<Op, Done> fmt::Debug for Machine<Op, Done> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "a process, {} ms ahead", self.skew_ms)
    }
}

impl<Op: 'static, Done: 'static> System for Machine<Op, Done> {
    fn connect(&self, endpoint: &Endpoint) -> io::Result<Box<dyn Socket>> {
        match self.line.wait_for(Ask::Connect(slots::place_at(&endpoint.to_string()))) {
            Answer::Connected(connection) => {
                Ok(Box::new(Wire { connection, line: Arc::clone(&self.line), rest: VecDeque::new() }))
            }
            Answer::Failed(kind) => Err(kind.into()),
            _ => unreachable!("a process that connects gets a connection"),
        }
    }

    fn now(&self) -> Instant {
        let (began, us) = self.began;
        began + Duration::from_micros(self.clock.load(Ordering::Relaxed) - us)
    }

    fn unix_time(&self) -> Duration {
        Duration::from_micros(self.clock.load(Ordering::Relaxed).saturating_add_signed(self.skew_ms * 1000))
    }

    fn sleep(&self, duration: Duration) {
        self.line.wait_for(Ask::Sleep(duration));
    }

    fn random(&self) -> u64 {
        self.random.lock().expect("a process has one thread").below(u64::MAX)
    }

    fn wait_readable(&self, sockets: &[&dyn Socket], at_most: Duration) -> Option<usize> {
        // It knows that these have no descriptor, and are read one by one.
        RealSystem.wait_readable(sockets, at_most)
    }
}

/// The end of a connection that a process has.
struct Wire<Op, Done> {
    connection: usize,
    line: Arc<Line<Op, Done>>,
    /// What came and was not read yet.
    rest: VecDeque<u8>,
}

impl<Op, Done> Socket for Wire<Op, Done> {}

impl<Op, Done> Write for Wire<Op, Done> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.line.wait_for(Ask::Write(self.connection, bytes.to_vec()));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<Op, Done> Read for Wire<Op, Done> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.rest.is_empty() {
            match self.line.wait_for(Ask::Read(self.connection)) {
                Answer::Bytes(bytes) => self.rest.extend(bytes),
                Answer::Failed(kind) => return Err(kind.into()),
                _ => unreachable!("a process that reads gets bytes"),
            }
        }
        self.rest.read(buffer)
    }
}
