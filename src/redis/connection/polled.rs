//! A connection that never waits, for who has thousands of them on one thread.

use std::io;
use std::os::fd::BorrowedFd;

use redis::Value;

use crate::error::StoreError;
use crate::redis::connection::Connection;

/// Bytes of a buffer that grows if a reply needs more.
const BUFFER: usize = 512;

impl Connection {
    /// From now on only [`try_send`](Self::try_send) and [`try_reply`](Self::try_reply) are of use. Nothing that came is
    /// unread.
    ///
    /// # Errors
    /// The system cannot do that.
    pub(crate) fn stop_waiting(&mut self) -> Result<(), StoreError> {
        self.socket.stop_waiting().map_err(|error| self.broken(error))?;
        self.buffer = vec![0; BUFFER];
        (self.start, self.end) = (0, 0);
        Ok(())
    }

    /// What becomes readable when bytes come; with TLS, bytes of which some may be no reply.
    pub(crate) fn inner_fd(&self) -> Option<BorrowedFd<'_>> {
        self.socket.inner_fd()
    }

    /// Writes what the socket accepts, and removes it from `unsent`; true if nothing is left to be written.
    ///
    /// # Errors
    /// The connection broke.
    pub(crate) fn try_send(&mut self, unsent: &mut Vec<u8>) -> Result<bool, StoreError> {
        let mut sent = 0;
        let written = loop {
            if sent == unsent.len() {
                break self.socket.flush();
            }
            match self.socket.write(&unsent[sent..]) {
                Ok(0) => break Err(io::ErrorKind::WriteZero.into()),
                Ok(some) => sent += some,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => break Err(error),
            }
        };
        unsent.drain(..sent);
        match written {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
            Err(error) => Err(self.broken(error)),
        }
    }

    /// The reply that comes next, if all of it is here; an error reply is a value too.
    ///
    /// # Errors
    /// The connection broke, or what comes is no reply of a sale.
    pub(crate) fn try_reply(&mut self) -> Result<Option<Value>, StoreError> {
        loop {
            if has_reply(&self.buffer[self.start..self.end]) {
                return self.reply().map(Some);
            }
            self.make_room()?;
            match self.socket.read(&mut self.buffer[self.end..]) {
                Ok(0) => return Err(self.broken(io::ErrorKind::UnexpectedEof.into())),
                Ok(read) => self.end += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                Err(error) => return Err(self.broken(error)),
            }
        }
    }
}

/// Whether bytes begin with a whole reply. What is none at all counts as one: whoever reads it says so.
fn has_reply(bytes: &[u8]) -> bool {
    let (mut at, mut left) = (0_usize, 1_usize);
    while left > 0 {
        let Some(line) = bytes.get(at..) else { return false };
        let Some(end) = memchr::memchr(b'\n', line) else { return false };
        let line = line[..end].trim_ascii_end();
        let number = || std::str::from_utf8(line.get(1..)?).ok()?.parse::<usize>().ok();
        at = at.saturating_add(end + 1);
        left -= 1;
        match line.first() {
            // -1 is none, and has no text.
            Some(b'$') => at = number().map_or(at, |length| at.saturating_add(length).saturating_add(2)),
            Some(b'*') => left = left.saturating_add(number().unwrap_or(0)),
            _ => {}
        }
    }
    at <= bytes.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_is_there_when_its_last_byte_is() {
        let replies: [&[u8]; 8] = [
            b"+OK\r\n",
            b"-ERR no\r\n",
            b":1\r\n",
            b"$-1\r\n",
            b"$4\r\na\nb\n\r\n",
            b"*0\r\n",
            b"*3\r\n:1\r\n*2\r\n$0\r\n\r\n$-1\r\n:2\r\n",
            b"*-1\r\n",
        ];
        for reply in replies {
            for end in 0..reply.len() {
                assert!(!has_reply(&reply[..end]), "{end} of {reply:?}");
            }
            assert!(has_reply(reply), "{reply:?}");
            assert!(has_reply(&[reply, b"+more"].concat()), "{reply:?}");
        }
        assert!(!has_reply(b"$18446744073709551615\r\n"), "no length overflows");
    }
}
