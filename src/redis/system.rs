//! The seam: all that the library asks of the machine that it runs on. What implements [`System`] otherwise is a simulation.
//!
//! Nothing else in the library opens a socket, reads a clock, sleeps, or draws a number or an id (`clippy.toml`); load tests,
//! embedded servers and the command line do.

#![allow(clippy::disallowed_methods, reason = "this is the one place for them")]

use std::fmt;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use redis::ConnectionAddr;

use crate::model::id::RequestId;
use crate::redis::tls::{Encrypted, Tls};

/// What the library asks of the machine that it runs on. Each target has one, and everything that is made of the target.
pub trait System: fmt::Debug + Send + Sync {
    /// Opens a socket.
    ///
    /// # Errors
    /// Nobody is there, or not in time.
    fn connect(&self, endpoint: &Endpoint) -> io::Result<Box<dyn Socket>>;

    /// The clock that never goes back.
    fn now(&self) -> Instant;

    /// The wall clock, since 1970.
    fn unix_time(&self) -> Duration;

    /// Waits for a duration.
    fn sleep(&self, duration: Duration);

    /// A number that nobody can guess.
    fn random(&self) -> u64;

    /// Waits until bytes can be read from one of some sockets: which one, the first if there are several. `None` if none came
    /// in time.
    fn wait_readable(&self, sockets: &[&dyn Socket], at_most: Duration) -> Option<usize>;

    /// An id that nobody has used, and that sorts by time: a UUIDv7.
    fn unique_id(&self) -> uuid::Uuid {
        let millis = u64::try_from(self.unix_time().as_millis()).unwrap_or_default();
        let random = u128::from(self.random()) << 64 | u128::from(self.random());
        let [_, _, _, _, _, _, random @ ..] = random.to_be_bytes();
        uuid::Builder::from_unix_timestamp_millis(millis, &random).into_uuid()
    }
}

/// Where a socket leads to.
#[derive(Debug, Clone)]
pub struct Endpoint {
    pub(crate) address: ConnectionAddr,
    /// Of a server with TLS.
    pub(crate) tls: Option<Arc<Tls>>,
    /// How long each step may take: to connect, to read, to write.
    pub(crate) timeout: Duration,
}

impl fmt::Display for Endpoint {
    /// `host:port`, or the path of a unix socket.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.address.fmt(f)
    }
}

/// What bytes go through.
pub trait Socket: Read + Write + Send {
    /// What becomes readable when bytes come; `None` if that does not tell all, as with TLS, which keeps some back.
    fn fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// The descriptor itself, also with TLS: for a reader that reads until nothing is left.
    fn inner_fd(&self) -> Option<BorrowedFd<'_>> {
        self.fd()
    }

    /// From now on neither reading nor writing waits.
    ///
    /// # Errors
    /// The system cannot do that.
    fn stop_waiting(&self) -> io::Result<()> {
        let fd = self.inner_fd().ok_or(io::ErrorKind::Unsupported)?;
        Ok(rustix::io::ioctl_fionbio(fd, true)?)
    }
}

/// The machine itself: sockets with TLS, its clocks, its randomness.
#[derive(Debug, Clone, Copy, Default)]
pub struct RealSystem;

impl RealSystem {
    /// For targets that share it.
    pub(crate) fn shared() -> Arc<dyn System> {
        Arc::new(Self)
    }
}

impl System for RealSystem {
    fn connect(&self, endpoint: &Endpoint) -> io::Result<Box<dyn Socket>> {
        match &endpoint.address {
            ConnectionAddr::Tcp(host, port) => Ok(Box::new(dial(host, *port, endpoint.timeout)?)),
            ConnectionAddr::TcpTls { host, port, .. } => match &endpoint.tls {
                Some(tls) => Ok(Box::new(tls.wrap(dial(host, *port, endpoint.timeout)?, host)?)),
                None => Err(io::ErrorKind::Unsupported.into()),
            },
            ConnectionAddr::Unix(path) => {
                let stream = std::os::unix::net::UnixStream::connect(path)?;
                stream.set_read_timeout(Some(endpoint.timeout))?;
                stream.set_write_timeout(Some(endpoint.timeout))?;
                Ok(Box::new(stream))
            }
            // redis-rs may learn to reach servers in other ways.
            _ => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    fn now(&self) -> Instant {
        Instant::now()
    }

    fn unix_time(&self) -> Duration {
        SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
    }

    fn sleep(&self, duration: Duration) {
        std::thread::sleep(duration);
    }

    fn random(&self) -> u64 {
        // The keys of a hash are drawn by the system.
        RandomState::new().build_hasher().finish()
    }

    fn wait_readable(&self, sockets: &[&dyn Socket], at_most: Duration) -> Option<usize> {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        // Without a descriptor a socket cannot be polled: reading it shows whether bytes are there.
        if let Some(unknown) = sockets.iter().position(|socket| socket.fd().is_none()) {
            return Some(unknown);
        }
        let fds = sockets.iter().filter_map(|socket| socket.fd());
        let mut fds: Vec<PollFd<'_>> = fds.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
        let at_most = Timespec::try_from(at_most).ok();
        poll(&mut fds, at_most.as_ref()).ok()?;
        fds.iter().position(|fd| !fd.revents().is_empty())
    }

    fn unique_id(&self) -> uuid::Uuid {
        uuid::Uuid::now_v7()
    }
}

impl RequestId {
    /// A new id that nobody has used: a UUIDv7, so that ids sort by time.
    pub fn unique() -> Self {
        Self::of_uuid(RealSystem.unique_id())
    }
}

fn dial(host: &str, port: u16, timeout: Duration) -> io::Result<TcpStream> {
    let mut failed = io::ErrorKind::NotFound.into();
    for address in (host, port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, timeout) {
            Ok(stream) => {
                stream.set_nodelay(true)?;
                stream.set_read_timeout(Some(timeout))?;
                stream.set_write_timeout(Some(timeout))?;
                return Ok(stream);
            }
            Err(error) => failed = error,
        }
    }
    Err(failed)
}

impl Socket for TcpStream {
    fn fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.as_fd())
    }
}

impl Socket for std::os::unix::net::UnixStream {
    fn fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.as_fd())
    }
}

impl Socket for Encrypted {
    fn inner_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.socket().as_fd())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine whose clock does not move and whose numbers are all the same.
    #[derive(Debug)]
    struct Still(u64);

    impl System for Still {
        fn connect(&self, _: &Endpoint) -> io::Result<Box<dyn Socket>> {
            Err(io::ErrorKind::Unsupported.into())
        }

        fn now(&self) -> Instant {
            Instant::now()
        }

        fn unix_time(&self) -> Duration {
            Duration::from_millis(0x0123_4567_89ab)
        }

        fn sleep(&self, _: Duration) {}

        fn random(&self) -> u64 {
            self.0
        }

        fn wait_readable(&self, _: &[&dyn Socket], _: Duration) -> Option<usize> {
            None
        }
    }

    #[test]
    fn an_id_is_of_the_systems_clock_and_numbers_alone() {
        let id = |random| Still(random).unique_id().to_string();
        assert_eq!(id(0), "01234567-89ab-7000-8000-000000000000");
        assert_eq!(id(u64::MAX), "01234567-89ab-7fff-bfff-ffffffffffff");
        assert_ne!(RealSystem.random(), RealSystem.random());
    }
}
