//! A bad network between the tool and a server, and a count of what went over it.
//!
//! It passes whole commands and replies on, so that a fault hits exactly the one a test names. It is
//! not made for large replies, because each is held until it is complete, nor for RESP3.

mod link;
mod network;

use std::io::Write;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tempfile::TempDir;

use link::read_value;
use network::{Network, State};

use super::seckill::{Call, seckill};
use super::{PATIENCE, Running, TestCluster, TestRedis, short_temp_dir};

/// What happens to a command.
#[allow(dead_code, reason = "some are for tests/torture")]
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
    /// The server runs it; that many bytes of the reply come back, and nothing more; the connection stays.
    StallReply(usize),
    /// The server runs it; its reply comes when the test calls `release`.
    Hold,
    /// It goes to the server, and what is behind it, when the test calls `release`.
    HoldRequest,
    /// The server refuses it with these words, and nothing of it runs; what is in flight behind it runs.
    Refuse(&'static str),
    /// The server never sees it; this is the reply, as it goes over the wire.
    Reply(&'static str),
    /// The server runs it; its reply comes that much later.
    Delay(Duration),
    /// The connection breaks. The command reaches the server on another connection, just before the next command or,
    /// if there is none, when the test calls `deliver_rest`.
    Late,
    /// As `Late`, but long after the next command was answered: 20 commands later, or at `deliver_rest`.
    Later,
    /// The server runs it, and the connection breaks before the reply; then as `Late`: it runs twice.
    Twice,
}

/// Which command a fault happens to.
#[derive(Clone, Debug, PartialEq)]
pub enum When {
    /// That of this number from now on, counted from 1 over all connections.
    Command(usize),
    /// The next one of that name, such as `EVALSHA`.
    Next(&'static str),
    /// Every one that has this text in it.
    With(String),
    /// Every one.
    Always,
}

/// Listens on a socket of its own; gone, with all its connections, when this value goes.
pub struct Proxy {
    dir: TempDir,
    /// The port of a proxy that is met over TCP.
    port: Option<u16>,
    network: Arc<Network>,
    listener: Option<JoinHandle<()>>,
}

impl Proxy {
    /// A network without faults, in front of that server.
    pub fn before(redis: &TestRedis) -> Self {
        let dir = short_temp_dir();
        let listener = UnixListener::bind(dir.path().join("proxy.sock")).expect("a socket");
        let network = Network { server: redis.socket(), ..Network::default() };
        Self::serve(dir, None, network, move || listener.accept().ok().map(|(client, _)| client))
    }

    /// Opens each connection that `accept` gives.
    fn serve(
        dir: TempDir,
        port: Option<u16>,
        network: Network,
        mut accept: impl FnMut() -> Option<UnixStream> + Send + 'static,
    ) -> Self {
        let network = Arc::new(network);
        let shared = Arc::clone(&network);
        let listener = thread::spawn(move || while accept().is_some_and(|client| shared.open(client)) {});
        Self { dir, port, network, listener: Some(listener) }
    }

    /// A network without faults before each node of a cluster. Nodes that name each other, in redirections and maps, name
    /// these proxies: nothing gets by them.
    pub fn before_all(cluster: &TestCluster) -> Vec<Self> {
        let bind = || TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
        let listeners: Vec<TcpListener> = cluster.nodes().iter().map(|_| bind()).collect();
        let ports = listeners.iter().map(|listener| listener.local_addr().expect("an address").port());
        let nodes = cluster.nodes().iter().map(|node| node.port().expect("a node's port"));
        let names: Vec<(u16, u16)> = nodes.zip(ports).collect();
        let face = |(node, listener): (&TestRedis, TcpListener)| {
            let names = names.clone();
            let port = listener.local_addr().expect("an address").port();
            let network = Network { server: node.socket(), names, ..Network::default() };
            Self::serve(short_temp_dir(), Some(port), network, move || {
                let (client, _) = listener.accept().ok()?;
                client.set_nodelay(true).ok();
                // Both are streams of bytes: from here on nothing asks for the kind of socket.
                Some(UnixStream::from(OwnedFd::from(client)))
            })
        };
        cluster.nodes().iter().zip(listeners).map(face).collect()
    }

    /// Runs the tool against the server behind.
    pub fn seckill<const N: usize>(&self, args: [&str; N]) -> Call {
        seckill(args).env("SECKILL_URL", &self.url())
    }

    pub fn url(&self) -> String {
        match self.port {
            Some(port) => format!("redis://127.0.0.1:{port}"),
            None => format!("unix://{}", self.socket().display()),
        }
    }

    pub fn socket(&self) -> PathBuf {
        self.dir.path().join("proxy.sock")
    }

    /// Arms one fault; the one before, if it has not happened yet, will not.
    pub fn inject(&self, when: When, fault: Fault) {
        let mut state = self.network.state();
        let when = match when {
            When::Command(n) => When::Command(n + state.commands.len()),
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
        // It was counted a moment before it is held.
        let none = |state: &mut State| state.held.is_empty();
        let held =
            self.network.changed.wait_timeout_while(self.network.state(), PATIENCE, none).unwrap().0.held.split_off(0);
        assert!(!held.is_empty(), "no request was held back");
        for command in held {
            let mut server = UnixStream::connect(&self.network.server).unwrap();
            server.write_all(&command).unwrap();
            read_value(&mut server, &mut Vec::new()).expect("the server's reply");
        }
    }

    /// Asks `fate` for the fault of each command from now on, by its name; what `inject` arms comes first.
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

    /// Waits until a `Hold` holds: the server has run that command, and what came before it is answered.
    #[track_caller]
    pub fn wait_until_held(&self) {
        let not_yet = |state: &mut State| !state.is_holding;
        let is_holding =
            self.network.changed.wait_timeout_while(self.network.state(), PATIENCE, not_yet).unwrap().0.is_holding;
        assert!(is_holding, "nothing is held after {:?}", self.commands());
    }

    /// Starts a call, and lets it come as far as that command, whose reply is held: until `release` it waits in its midst,
    /// however slow the machine is.
    #[track_caller]
    pub fn start_and_hold(&self, when: When, call: Call) -> Running {
        self.inject(when, Fault::Hold);
        let running = call.spawn();
        self.wait_until_held();
        running
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

    /// Waits until clients have sent that many commands, but no longer than that; false if they have not.
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
        // Wakes the listener, which then ends.
        match self.port {
            Some(port) => drop(TcpStream::connect(("127.0.0.1", port))),
            None => drop(UnixStream::connect(self.socket())),
        }
        if let Some(listener) = self.listener.take() {
            listener.join().ok();
        }
    }
}
