//! What bytes go through: a TCP or unix socket, with TLS or without.

use std::io::{self, Read, Write};
use std::net::TcpStream;
#[cfg(unix)]
use std::os::fd::{AsFd, BorrowedFd};

use crate::redis::connect::tls::Encrypted;

/// What bytes go through.
pub trait Socket: Read + Write + Send {
    /// What becomes readable when bytes come; `None` if that does not tell all, as with TLS, which keeps some back.
    #[cfg(unix)]
    fn fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// The socket itself, also with TLS: for who reads until nothing is left.
    #[cfg(unix)]
    fn inner_fd(&self) -> Option<BorrowedFd<'_>> {
        self.fd()
    }

    /// From now on neither reading nor writing waits.
    ///
    /// # Errors
    /// The system cannot do that.
    fn stop_waiting(&self) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

impl Socket for TcpStream {
    #[cfg(unix)]
    fn fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.as_fd())
    }

    fn stop_waiting(&self) -> io::Result<()> {
        self.set_nonblocking(true)
    }
}

#[cfg(unix)]
impl Socket for std::os::unix::net::UnixStream {
    fn fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.as_fd())
    }

    fn stop_waiting(&self) -> io::Result<()> {
        self.set_nonblocking(true)
    }
}

impl Socket for Encrypted {
    #[cfg(unix)]
    fn inner_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.socket().as_fd())
    }

    fn stop_waiting(&self) -> io::Result<()> {
        self.socket().set_nonblocking(true)
    }
}
