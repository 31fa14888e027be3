//! Opens the connections of all clients before the first order, and again, on a thread of its own, those that broke: a
//! server that is gone must not hold up the others.

use std::io;
use std::os::fd::AsRawFd;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use crate::error::{Result, StoreError};
use crate::redis::cluster::Servers;
use crate::redis::connect::Target;
use crate::redis::connection::Connection;
use crate::redis::sentinel::connect;

/// Connections that are opened at the same time.
const AT_ONCE: usize = 8;
/// Between two attempts, and between two looks at the map of a cluster.
const PAUSE: Duration = Duration::from_millis(100);
/// Files that the process has open beside those of clients, and some to spare.
const OTHER_FILES: u64 = 40;

/// Allows the process as many open files as its clients need.
///
/// # Errors
/// The system allows fewer: how many clients there may be.
pub(crate) fn prepare_files(clients: usize) -> Result<(), usize> {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    let needed = clients as u64 + OTHER_FILES;
    // Who cannot ask finds out when the files are opened.
    let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else { return Ok(()) };
    if soft >= needed {
        return Ok(());
    }
    if hard < needed || setrlimit(Resource::RLIMIT_NOFILE, needed, hard).is_err() {
        return Err(usize::try_from(hard.saturating_sub(OTHER_FILES)).unwrap_or(usize::MAX));
    }
    Ok(())
}

/// Opens a connection to each target. All have replied when this returns: a server that accepts no more says so now.
pub(crate) fn open_all(targets: &[&Target], stop: &(dyn Fn() -> bool + Send + Sync)) -> Result<Vec<Connection>> {
    let share = targets.len().div_ceil(AT_ONCE).max(1);
    let opened: Vec<Result<Vec<Connection>>> = thread::scope(|scope| {
        let open = |targets: &[&Target]| {
            let wanted = targets.iter().take_while(|_| !stop());
            wanted.map(|target| open(target)).collect()
        };
        let threads: Vec<_> = targets.chunks(share).map(|targets| scope.spawn(move || open(targets))).collect();
        let ended = threads.into_iter().map(thread::ScopedJoinHandle::join);
        ended.map(|opened| opened.unwrap_or_else(|_| Ok(Vec::new()))).collect()
    });
    let mut all = Vec::with_capacity(targets.len());
    for some in opened {
        all.extend(some?);
    }
    Ok(all)
}

fn open(target: &Target) -> Result<Connection> {
    let mut connection = connect(target)?;
    match connection.request(&redis::cmd("PING")) {
        // Who may not ask got a reply too.
        Ok(_) | Err(StoreError::Permission { .. }) => {}
        Err(error) => return Err(error),
    }
    connection.stop_waiting()?;
    Ok(connection)
}

/// A connection for a client, or why there is none.
pub(crate) type Opened = (usize, Result<Connection>);

/// Opens connections that broke, one after the other.
pub(crate) struct Opener {
    wanted: Sender<(usize, Option<u16>)>,
    opened: Receiver<Opened>,
}

impl Opener {
    /// The servers are those of the run, without connections.
    pub(crate) fn start(servers: Servers) -> Self {
        let (wanted, jobs) = channel::<(usize, Option<u16>)>();
        let (results, opened) = channel();
        // It ends with the run, whatever it is at.
        thread::spawn(move || serve(servers, &jobs, &results));
        Self { wanted, opened }
    }

    /// Asks for a connection to the node that serves a slot.
    pub(crate) fn ask(&self, client: usize, slot: Option<u16>) {
        // It is there as long as this is.
        let _ = self.wanted.send((client, slot));
    }

    /// The next connection that is there, or could not be made.
    pub(crate) fn next(&self) -> Option<Opened> {
        self.opened.try_recv().ok()
    }
}

fn serve(mut servers: Servers, jobs: &Receiver<(usize, Option<u16>)>, results: &Sender<Opened>) {
    let mut looked: Option<Instant> = None;
    while let Ok((client, slot)) = jobs.recv() {
        // A lost connection may be a failover, and a redirection is a slot that moved.
        if servers.is_cluster() && looked.is_none_or(|looked| looked.elapsed() >= PAUSE) {
            let _ = servers.read_map(None);
            looked = Some(Instant::now());
        }
        let node = servers.node_of(slot);
        let opened = open(&servers.node(node).target);
        if opened.is_err() {
            thread::sleep(PAUSE);
        }
        if results.send((client, opened)).is_err() {
            return;
        }
    }
}

/// Says which of thousands of connections, by number, have something to read.
pub(crate) struct Poller {
    poll: mio::Poll,
    events: mio::Events,
}

impl Poller {
    pub(crate) fn new(connections: usize) -> io::Result<Self> {
        Ok(Self { poll: mio::Poll::new()?, events: mio::Events::with_capacity(connections.clamp(64, 1024)) })
    }

    /// From now on [`wait`](Self::wait) names the number when bytes come; with `writes` also when bytes can be written.
    pub(crate) fn add(&self, number: usize, connection: &Connection) -> io::Result<()> {
        self.with(connection, |registry, socket| registry.register(socket, mio::Token(number), mio::Interest::READABLE))
    }

    /// Whether the number is also named when bytes can be written.
    pub(crate) fn set_writes(&self, number: usize, connection: &Connection, writes: bool) -> io::Result<()> {
        let both = mio::Interest::READABLE | mio::Interest::WRITABLE;
        let interest = if writes { both } else { mio::Interest::READABLE };
        self.with(connection, |registry, socket| registry.reregister(socket, mio::Token(number), interest))
    }

    fn with(
        &self,
        connection: &Connection,
        action: impl FnOnce(&mio::Registry, &mut mio::unix::SourceFd<'_>) -> io::Result<()>,
    ) -> io::Result<()> {
        let socket = connection.inner_fd().ok_or(io::ErrorKind::Unsupported)?.as_raw_fd();
        action(self.poll.registry(), &mut mio::unix::SourceFd(&socket))
    }

    /// Waits until something comes. A number is named once: its client is read until nothing is left, or until all that
    /// was asked for is there.
    pub(crate) fn wait(&mut self, at_most: Duration, ready: &mut Vec<usize>) -> io::Result<()> {
        ready.clear();
        match self.poll.poll(&mut self.events, Some(at_most)) {
            Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
            _ => ready.extend(self.events.iter().map(|event| event.token().0)),
        }
        Ok(())
    }
}
