//! What bytes go through: a TCP or unix socket, with TLS or without.

use std::io::{Read, Write};
use std::net::TcpStream;
#[cfg(unix)]
use std::os::fd::{AsFd, BorrowedFd};

use super::tls::Encrypted;

/// What bytes go through.
pub trait Socket: Read + Write + Send {
    /// What becomes readable when bytes come; `None` if that does not tell all, as with TLS, which keeps some back.
    #[cfg(unix)]
    fn fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}

impl Socket for TcpStream {
    #[cfg(unix)]
    fn fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.as_fd())
    }
}

#[cfg(unix)]
impl Socket for std::os::unix::net::UnixStream {
    fn fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.as_fd())
    }
}

impl Socket for Encrypted {}
