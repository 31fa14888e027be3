//! Says which of thousands of connections have something to read.

use std::io;
use std::os::fd::AsRawFd;
use std::time::Duration;

use crate::redis::connection::Connection;

/// Connections by number.
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
