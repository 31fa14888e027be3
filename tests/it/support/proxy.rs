//! A bad network between the tool and a server, and a count of what went over it.
//!
//! It passes whole commands and replies on, so that a fault hits exactly the one a test names. It is
//! not made for large replies, each of which is held until it is whole, nor for pushes (RESP3).

use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tempfile::TempDir;

use super::resp::{command_name, take_value};
use super::seckill::{Call, seckill};
use super::{PATIENCE, TestRedis, short_temp_dir};

/// What happens to a command.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Fault {
    /// The server never sees it, and the connection breaks.
    LoseRequest,
    /// The server runs it, and the connection breaks before the reply is passed on.
    LoseReply,
    /// Nobody hears of it again, and the connection stays. `deliver_late` lets it run after all.
    HangRequest,
    /// The server runs it; the reply is swallowed, and the connection stays.
    HangReply,
    /// That many bytes of it reach the server, then the connection breaks.
    CutRequest(usize),
    /// The server runs it; that many bytes of the reply come back, then the connection breaks.
    CutReply(usize),
    /// That many bytes of it reach the server, and nothing more; the connection stays.
    StallRequest(usize),
    /// The server runs it; that many bytes of the reply come back, and nothing more; the connection stays.
    StallReply(usize),
    /// The server runs it; its reply comes when the test calls `release`.
    Hold,
    /// The server refuses it with these words, and nothing of it runs; what is in flight behind it runs.
    Refuse(&'static str),
    #[allow(dead_code, reason = "for tests/torture")]
    /// The server runs it; its reply comes that much later.
    Delay(Duration),
    #[allow(dead_code, reason = "for tests/torture")]
    /// The connection breaks. The command reaches the server on another connection, just before the next command or,
    /// if there is none, when the test calls `deliver_rest`.
    Late,
    #[allow(dead_code, reason = "for tests/torture")]
    /// As `Late`, but long after the next command was answered: 20 commands later, or at `deliver_rest`.
    Later,
    #[allow(dead_code, reason = "for tests/torture")]
    /// The server runs it, and the connection breaks before the reply; then as `Late`: it runs twice.
    Twice,
}

/// Which command a fault happens to.
#[derive(Clone, Debug, PartialEq)]
pub enum When {
    /// The n-th from now on, counted from 1 over all connections.
    Nth(usize),
    /// The next one of that name, such as `EVALSHA`.
    Next(&'static str),
    /// Every one.
    Always,
}

/// Listens on a socket of its own; gone, with all its connections, when this value goes.
pub struct Proxy {
    dir: TempDir,
    network: Arc<Network>,
    listener: Option<JoinHandle<()>>,
}

impl Proxy {
    /// A network without faults, in front of that server.
    pub fn before(redis: &TestRedis) -> Self {
        let dir = short_temp_dir();
        let listener = UnixListener::bind(dir.path().join("proxy.sock")).expect("a socket");
        let network = Arc::new(Network { server: redis.socket(), ..Network::default() });
        let shared = Arc::clone(&network);
        let listener = thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                if !shared.open(client) {
                    return;
                }
            }
        });
        Self { dir, network, listener: Some(listener) }
    }

    /// Runs the tool against the server behind.
    pub fn seckill<const N: usize>(&self, args: [&str; N]) -> Call {
        seckill(args).env("SECKILL_URL", &self.url())
    }

    pub fn url(&self) -> String {
        format!("unix://{}", self.socket().display())
    }

    pub fn socket(&self) -> PathBuf {
        self.dir.path().join("proxy.sock")
    }

    /// Arms one fault; the one before, if it has not happened yet, will not.
    pub fn inject(&self, when: When, fault: Fault) {
        let mut state = self.network.state();
        let when = match when {
            When::Nth(n) => When::Nth(n + state.commands.len()),
            other => other,
        };
        state.armed = Some((when, fault));
    }

    /// From now on nothing happens to any command.
    pub fn heal(&self) {
        let mut state = self.network.state();
        state.armed = None;
        state.decide = None;
    }

    /// Lets the server run, now, what a `HangRequest` kept from it: the retry came first.
    pub fn deliver_late(&self) {
        let held = std::mem::take(&mut self.network.state().held);
        assert!(!held.is_empty(), "no request was held back");
        for command in held {
            let mut server = UnixStream::connect(&self.network.server).unwrap();
            server.write_all(&command).unwrap();
            read_value(&mut server, &mut Vec::new()).expect("the server's reply");
        }
    }

    #[allow(dead_code, reason = "for tests/torture")]
    /// Asks for the fate of each command from now on, by its name; what `inject` arms comes first.
    pub fn decide(&self, fate: impl FnMut(&str) -> Option<Fault> + Send + 'static) {
        self.network.state().decide = Some(Box::new(fate));
    }

    #[allow(dead_code, reason = "for tests/torture")]
    /// Once all clients have hung up: the server has run whatever they sent, and now every call that is late or comes
    /// twice and was not delivered yet.
    pub fn deliver_rest(&self) {
        let open = |state: &mut State| state.directions > 0;
        drop(self.network.changed.wait_timeout_while(self.network.state(), PATIENCE, open).unwrap());
        // What is in a socket before a round of the server's event loop has been run after the next one.
        let ping = b"*1\r\n$4\r\nPING\r\n".to_vec();
        self.network.deliver(vec![ping.clone(), ping]);
        let late = std::mem::take(&mut self.network.state().late);
        self.network.deliver(late.into_iter().map(|(_, command)| command).collect());
    }

    /// Waits until a `Hold` holds, but no longer than that; false where none does.
    pub fn try_wait_until_held(&self, at_most: Duration) -> bool {
        let not_yet = |state: &mut State| !state.is_holding;
        self.network.changed.wait_timeout_while(self.network.state(), at_most, not_yet).unwrap().0.is_holding
    }

    /// Waits until a `Hold` holds: the server has run that command, and what came before it is answered.
    #[track_caller]
    pub fn wait_until_held(&self) {
        assert!(self.try_wait_until_held(PATIENCE), "nothing is held after {:?}", self.commands());
    }

    /// Lets the reply go that a `Hold` holds.
    #[track_caller]
    pub fn release(&self) {
        let was_holding = std::mem::take(&mut self.network.state().is_holding);
        assert!(was_holding, "nothing is held");
        self.network.changed.notify_all();
    }

    /// Connections that clients have opened.
    pub fn connections(&self) -> usize {
        self.network.state().connections
    }

    /// How often a client sent something after it had every reply it waited for: what a network with
    /// a latency would make it wait for.
    pub fn round_trips(&self) -> usize {
        self.network.state().round_trips
    }

    /// The names of all commands so far, also of those that a fault hit.
    pub fn commands(&self) -> Vec<String> {
        self.network.state().commands.clone()
    }

    /// Waits until clients have sent that many commands, but no longer than that; false where they have not.
    pub fn try_wait_for_commands(&self, count: usize, at_most: Duration) -> bool {
        let few = |state: &mut State| state.commands.len() < count;
        let (state, _) = self.network.changed.wait_timeout_while(self.network.state(), at_most, few).unwrap();
        state.commands.len() >= count
    }

    /// Waits until clients have sent that many commands.
    #[track_caller]
    pub fn wait_for_commands(&self, count: usize) {
        let state = self.network.state();
        let few = |state: &mut State| state.commands.len() < count;
        let (state, waited) = self.network.changed.wait_timeout_while(state, PATIENCE, few).unwrap();
        let sent = state.commands.clone();
        drop(state);
        assert!(!waited.timed_out(), "waited for {count} commands, saw {sent:?}");
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let open = {
            let mut state = self.network.state();
            state.closing = true;
            state.is_holding = false;
            std::mem::take(&mut state.open)
        };
        self.network.changed.notify_all();
        for stream in open {
            stream.shutdown(Shutdown::Both).ok();
        }
        UnixStream::connect(self.socket()).ok(); // wakes the listener, which then ends
        if let Some(listener) = self.listener.take() {
            listener.join().ok();
        }
    }
}

/// Says what happens to a command of this name.
type Decide = Box<dyn FnMut(&str) -> Option<Fault> + Send>;

/// What all connections share.
#[derive(Default)]
struct Network {
    server: PathBuf,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    armed: Option<(When, Fault)>,
    connections: usize,
    /// Threads that pass on what they read.
    directions: usize,
    round_trips: usize,
    commands: Vec<String>,
    held: Vec<Vec<u8>>,
    decide: Option<Decide>,
    /// Calls that come late, each with the number of the command before which it comes.
    late: Vec<(usize, Vec<u8>)>,
    /// Whether a reply waits for `release`.
    is_holding: bool,
    open: Vec<UnixStream>,
    closing: bool,
}

impl Network {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Serves one connection from two threads, one a direction. False where the proxy is closing.
    fn open(self: &Arc<Self>, client: UnixStream) -> bool {
        let mut state = self.state();
        if state.closing {
            return false;
        }
        state.connections += 1;
        // A server that is down shows as a connection that closes at once.
        let Ok(link) = Link::new(client, &self.server) else {
            return true;
        };
        state.directions += 2;
        state.open.extend([link.client.try_clone(), link.server.try_clone()].map(Result::unwrap));
        drop(state);
        let link = Arc::new(link);
        let (commands, replies) = ((Arc::clone(&link), Arc::clone(self)), (link, Arc::clone(self)));
        thread::spawn(move || {
            let (link, network) = commands;
            link.pass_commands(&network);
            link.close();
            network.close();
        });
        thread::spawn(move || {
            let (link, network) = replies;
            link.pass_replies(&network);
            link.answer_no_more();
            link.close();
            network.close();
        });
        true
    }

    fn close(&self) {
        self.state().directions -= 1;
        self.changed.notify_all();
    }

    /// Holds a reply until it is released, or until the proxy goes.
    fn hold(&self) {
        let mut state = self.state();
        state.is_holding = !state.closing;
        self.changed.notify_all();
        drop(self.changed.wait_while(state, |state| state.is_holding).unwrap());
    }

    /// Takes note of a command, and says what happens to it.
    fn fate(&self, command: &[u8], starts_round_trip: bool) -> Option<Fault> {
        let mut state = self.state();
        let name = command_name(command);
        state.commands.push(name.clone());
        state.round_trips += usize::from(starts_round_trip);
        self.changed.notify_all();
        let number = state.commands.len();
        let (due, later) = std::mem::take(&mut state.late).into_iter().partition(|(due, _)| *due <= number);
        state.late = later;
        let armed = state.fate_of_last();
        match armed {
            Some(Fault::Late | Fault::Twice) => state.late.push((number + 1, command.to_vec())),
            Some(Fault::Later) => state.late.push((number + 20, command.to_vec())),
            _ => {}
        }
        drop(state);
        let due: Vec<(usize, Vec<u8>)> = due;
        self.deliver(due.into_iter().map(|(_, command)| command).collect());
        armed
    }

    /// Lets the server run these calls, each on a connection of its own. Nobody reads what it replies, and a server that
    /// is down never hears of them.
    fn deliver(&self, calls: Vec<Vec<u8>>) {
        for call in calls {
            let Ok(mut server) = UnixStream::connect(&self.server) else { continue };
            server.set_read_timeout(Some(PATIENCE)).ok();
            if server.write_all(&call).is_ok() {
                read_value(&mut server, &mut Vec::new());
            }
        }
    }
}

impl State {
    /// What happens to the command that came last.
    fn fate_of_last(&mut self) -> Option<Fault> {
        let name = self.commands.last()?;
        let Some((when, fault)) = self.armed.clone() else {
            return self.decide.as_mut()?(name);
        };
        let hit = match when {
            When::Nth(n) => n == self.commands.len(),
            When::Next(wanted) => name == wanted,
            When::Always => true,
        };
        if hit && when != When::Always {
            self.armed = None;
        }
        hit.then_some(fault)
    }
}

/// One client, and the server it believes it speaks to.
struct Link {
    client: UnixStream,
    server: UnixStream,
    in_flight: Mutex<InFlight>,
    answered: Condvar,
}

#[derive(Default)]
struct InFlight {
    /// That of each command whose reply is still to come; replies come in the same order.
    fates: VecDeque<Option<Fault>>,
    reply_under_way: bool,
}

impl Link {
    fn new(client: UnixStream, server: &Path) -> std::io::Result<Self> {
        let server = UnixStream::connect(server)?;
        Ok(Self { client, server, in_flight: Mutex::default(), answered: Condvar::new() })
    }

    fn close(&self) {
        self.client.shutdown(Shutdown::Both).ok();
        self.server.shutdown(Shutdown::Both).ok();
    }

    /// Until the client hangs up, or a fault does.
    fn pass_commands(&self, network: &Network) -> Option<()> {
        let (mut client, mut server) = (&self.client, &self.server);
        let mut read = Vec::new();
        loop {
            // Commands that arrive together are one round trip, and so are those sent before the
            // last reply was there.
            let arrived_alone = read.is_empty();
            let command = read_value(&mut client, &mut read)?;
            let starts_round_trip = arrived_alone && self.in_flight.lock().unwrap().fates.is_empty();
            let fate = network.fate(&command, starts_round_trip);
            match fate {
                Some(Fault::LoseRequest | Fault::Late | Fault::Later) => {
                    self.wait_for_replies();
                    return None;
                }
                Some(Fault::CutRequest(bytes)) => {
                    self.wait_for_replies();
                    return server.write_all(&command[..bytes.min(command.len())]).ok();
                }
                Some(Fault::HangRequest) => {
                    network.state().held.push(command);
                    return std::io::copy(&mut client, &mut std::io::sink()).map(drop).ok();
                }
                Some(Fault::StallRequest(bytes)) => {
                    server.write_all(&command[..bytes.min(command.len())]).ok()?;
                    return std::io::copy(&mut client, &mut std::io::sink()).map(drop).ok();
                }
                _ => {
                    self.in_flight.lock().unwrap().fates.push_back(fate);
                    let is_refused = matches!(fate, Some(Fault::Refuse(_)));
                    // Something else gets a reply in its turn, which is not passed on.
                    server.write_all(if is_refused { b"*1\r\n$4\r\nPING\r\n" } else { &command }).ok()?;
                }
            }
        }
    }

    /// Until the server hangs up, or a fault does.
    fn pass_replies(&self, network: &Network) -> Option<()> {
        let (mut client, mut server) = (&self.client, &self.server);
        let mut read = Vec::new();
        loop {
            let mut reply = read_value(&mut server, &mut read)?;
            let fate = *self.in_flight.lock().unwrap().fates.front()?;
            match fate {
                Some(Fault::LoseReply | Fault::Twice) => return None,
                Some(Fault::CutReply(bytes)) => {
                    return client.write_all(&reply[..bytes.min(reply.len())]).ok();
                }
                Some(Fault::HangReply) => {
                    self.answer_no_more();
                    return std::io::copy(&mut server, &mut std::io::sink()).map(drop).ok();
                }
                Some(Fault::StallReply(bytes)) => {
                    client.write_all(&reply[..bytes.min(reply.len())]).ok()?;
                    self.answer_no_more();
                    return std::io::copy(&mut server, &mut std::io::sink()).map(drop).ok();
                }
                Some(Fault::Refuse(words)) => reply = format!("-{words}\r\n").into_bytes(),
                Some(Fault::Hold) => network.hold(),
                Some(Fault::Delay(time)) => thread::sleep(time),
                _ => {}
            }
            {
                // Before the client has it: what it then sends is a new round trip.
                let mut in_flight = self.in_flight.lock().unwrap();
                in_flight.fates.pop_front();
                in_flight.reply_under_way = true;
            }
            client.write_all(&reply).ok()?;
            self.in_flight.lock().unwrap().reply_under_way = false;
            self.answered.notify_all();
        }
    }

    /// Nothing is to be waited for any more.
    fn answer_no_more(&self) {
        let mut in_flight = self.in_flight.lock().unwrap();
        in_flight.fates.clear();
        in_flight.reply_under_way = false;
        self.answered.notify_all();
    }

    /// A fault that breaks the connection hits one command, not the replies to those before it.
    fn wait_for_replies(&self) {
        let in_flight = self.in_flight.lock().unwrap();
        let pending = |it: &mut InFlight| it.reply_under_way || !it.fates.is_empty();
        drop(self.answered.wait_timeout_while(in_flight, PATIENCE, pending).unwrap());
    }
}

/// Reads on until a value is whole; None where the other side hung up.
fn read_value(stream: &mut impl Read, read: &mut Vec<u8>) -> Option<Vec<u8>> {
    let mut chunk = [0; 16 * 1024];
    loop {
        if let Some(value) = take_value(read) {
            return Some(value);
        }
        match stream.read(&mut chunk) {
            Ok(count) if count > 0 => read.extend_from_slice(&chunk[..count]),
            _ => return None,
        }
    }
}
