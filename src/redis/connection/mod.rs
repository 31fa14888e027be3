//! One connection: commands out, replies in. We read replies ourselves, over TLS too, so that a hostile or broken server
//! cannot fill the memory (redis-rs has no bound), and so that the texts of a long reply are not copied.
//!
//! One that stopped waiting never waits, for who has thousands of them on one thread.

pub(crate) mod resp;
#[cfg(test)]
mod tests;

use std::io::{self, Read, Write};
use std::ops::Range;
use std::os::fd::BorrowedFd;

use redis::{Cmd, Value};

use crate::error::{Result, StoreError};
use crate::redis::connect::Target;
use crate::redis::system::Socket;
use crate::script::reply::Reply;

/// Bytes read at once, at first.
const FIRST_READ: usize = 512;
/// The most bytes read at once; a text that is borrowed from the buffer may make it grow further.
const MAX_READ: usize = 64 * 1024;
/// The most bytes of one reply, with what its parts take beside their text. A page of a sale has some kilobytes, the
/// ledger's largest some megabytes.
const MAX_BYTES: usize = 64 * 1024 * 1024;
/// The longest line: a status, an error, a length.
const MAX_LINE: usize = 64 * 1024;
/// How deep lists may be in each other.
const MAX_DEPTH: usize = 16;

/// A connection, and what came in on it and was not read yet.
pub(crate) struct Connection {
    socket: Box<dyn Socket>,
    /// The server that was reached: behind sentinels, the primary that they named.
    pub(crate) target: Target,
    buffer: Vec<u8>,
    /// The unread bytes of the buffer.
    start: usize,
    end: usize,
}

impl Connection {
    /// Connects, logs in and chooses the database, each within the timeout.
    ///
    /// # Errors
    /// The server cannot be reached, or refuses the login.
    pub(crate) fn open(target: &Target) -> Result<Self> {
        let socket = target.open(target.timeout).map_err(|error| target.failed(error))?;
        let mut connection = Self::over(socket, target.clone());
        for command in &target.handshake() {
            connection.request(command).map_err(|error| target.refused(error))?;
        }
        Ok(connection)
    }

    /// What becomes readable when bytes come; `None` if bytes are here already.
    pub(crate) fn drained_socket(&self) -> Option<&dyn Socket> {
        (self.start == self.end).then_some(&*self.socket)
    }

    fn over(socket: Box<dyn Socket>, target: Target) -> Self {
        Self { socket, target, buffer: vec![0; FIRST_READ], start: 0, end: 0 }
    }

    /// Sends packed commands.
    ///
    /// # Errors
    /// The connection broke.
    pub(crate) fn send(&mut self, packed: &[u8]) -> Result<()> {
        let sent = self.socket.write_all(packed).and_then(|()| self.socket.flush());
        sent.map_err(|error| self.target.failed(error))
    }

    /// The reply that comes next, whole; an error reply is a value too.
    ///
    /// # Errors
    /// The connection broke, or what comes is no reply of a sale.
    pub(crate) fn reply(&mut self) -> Result<Value> {
        self.part(MAX_DEPTH, &mut { MAX_BYTES })
    }

    /// The reply that comes next, whole.
    ///
    /// # Errors
    /// As [`reply`](Self::reply), or the server replied with an error.
    pub(crate) fn value(&mut self) -> Result<Value> {
        self.reply()?.extract_error().map_err(|error| StoreError::of_reply(&error, &self.target.shown))
    }

    /// Sends one command and gives its reply.
    ///
    /// # Errors
    /// As [`value`](Self::value).
    pub(crate) fn request(&mut self, command: &Cmd) -> Result<Value> {
        match self.send(&command.get_packed_command()) {
            Ok(()) => self.value(),
            // A server that accepts no more clients says so, and closes.
            Err(closed @ StoreError::Unreachable { .. }) => match self.value() {
                Err(said @ (StoreError::Server { .. } | StoreError::Login { .. })) => Err(said),
                _ => Err(closed),
            },
            Err(error) => Err(error),
        }
    }

    /// The number of parts of the array that comes next.
    ///
    /// # Errors
    /// As [`value`](Self::value), or what comes is no array.
    pub(crate) fn array(&mut self) -> Result<usize> {
        self.skip_head(b'*')
    }

    /// The next value, which is a number.
    ///
    /// # Errors
    /// As [`array`](Self::array).
    pub(crate) fn number(&mut self) -> Result<usize> {
        self.skip_head(b':')
    }

    /// The next so many texts, borrowed until something else is read.
    ///
    /// # Errors
    /// As [`array`](Self::array).
    pub(crate) fn texts(&mut self, count: usize) -> Result<Vec<&[u8]>> {
        let mut ranges: Vec<Range<usize>> = Vec::new();
        let mut at = 0;
        for _ in 0..count {
            let range = self.text_at(&mut at)?;
            ranges.push(range);
        }
        let texts = &self.buffer[self.start..];
        self.start += at;
        Ok(ranges.into_iter().map(|range| &texts[range]).collect())
    }

    /// The same, of which some may be absent.
    ///
    /// # Errors
    /// As [`array`](Self::array).
    pub(crate) fn optional_texts(&mut self, count: usize) -> Result<Vec<Option<&[u8]>>> {
        const ABSENT: &[u8] = b"$-1\r\n";
        let mut ranges: Vec<Option<Range<usize>>> = Vec::new();
        let mut at = 0;
        for _ in 0..count {
            let end = self.line(at)?;
            let is_absent = &self.buffer[self.start + at..self.start + end] == ABSENT;
            let range = if is_absent { None } else { Some(self.text_at(&mut at)?) };
            at = at.max(end);
            ranges.push(range);
        }
        let texts = &self.buffer[self.start..];
        self.start += at;
        Ok(ranges.into_iter().map(|range| range.map(|range| &texts[range])).collect())
    }

    /// Where the text is that begins `at` bytes from the first unread one, likewise; then `at` is behind it.
    fn text_at(&mut self, at: &mut usize) -> Result<Range<usize>> {
        let (length, start) = self.head(b'$', *at)?;
        let end = start + length;
        *at = end + 2;
        while self.end - self.start < *at {
            self.fill()?;
        }
        Ok(start..end)
    }

    /// The next value, if it takes no more than the bytes that are left.
    fn part(&mut self, depth: usize, left: &mut usize) -> Result<Value> {
        let end = self.line(0)?;
        let line = &self.buffer[self.start..self.start + end];
        match line.trim_ascii_end() {
            b"$-1" | b"*-1" => {
                self.start += end;
                Ok(Value::Nil)
            }
            [b'$', ..] => {
                let length = self.skip_head(b'$')?;
                self.take(left, length)?;
                self.text(length).map(Value::BulkString)
            }
            [b'*', ..] => {
                let count = self.skip_head(b'*')?;
                if depth == 0 {
                    return Err(self.oversized());
                }
                // Before any of them is read: the list alone may be too large.
                self.take(left, count.saturating_mul(size_of::<Value>()))?;
                (0..count).map(|_| self.part(depth - 1, left)).collect::<Result<_, _>>().map(Value::Array)
            }
            [b':', number @ ..] => {
                let number = std::str::from_utf8(number).ok().and_then(|number| number.parse().ok());
                let value = number.map(Value::Int).ok_or_else(|| self.unexpected(line))?;
                self.start += end;
                Ok(value)
            }
            // Statuses and errors, which redis-rs distinguishes.
            text => {
                let value = redis::parse_redis_value(line).map_err(|_| self.unexpected(text))?;
                self.start += end;
                Ok(value)
            }
        }
    }

    /// Copies a text. It grows with what comes, not with what is announced.
    fn text(&mut self, length: usize) -> Result<Vec<u8>> {
        let mut text = Vec::new();
        while text.len() < length + 2 {
            if self.start == self.end {
                self.fill()?;
            }
            let some = (length + 2 - text.len()).min(self.end - self.start);
            text.extend_from_slice(&self.buffer[self.start..self.start + some]);
            self.start += some;
        }
        text.truncate(length);
        Ok(text)
    }

    /// The number behind a type's letter, `at` bytes from the first unread one, and where its line ends, likewise.
    fn head(&mut self, letter: u8, at: usize) -> Result<(usize, usize)> {
        let end = self.line(at)?;
        let line = &self.buffer[self.start + at..self.start + end];
        match line.trim_ascii_end().split_first() {
            // No text has 4 GB; -1 would be none at all.
            Some((first, number)) if *first == letter => std::str::from_utf8(number)
                .ok()
                .and_then(|number| number.parse::<u32>().ok())
                .and_then(|number| Some((usize::try_from(number).ok()?, end)))
                .ok_or_else(|| self.unexpected(line)),
            Some((b'-', _)) => match redis::parse_redis_value(line) {
                Ok(Value::ServerError(error)) => Err(StoreError::of_reply(&error.into(), &self.target.shown)),
                _ => Err(self.unexpected(line)),
            },
            _ => Err(self.unexpected(line)),
        }
    }

    fn skip_head(&mut self, letter: u8) -> Result<usize> {
        let (number, end) = self.head(letter, 0)?;
        self.start += end;
        Ok(number)
    }

    /// Where the line ends that begins `at` bytes from the first unread one.
    fn line(&mut self, at: usize) -> Result<usize> {
        let mut searched = at;
        loop {
            let unread = &self.buffer[self.start..self.end];
            match memchr::memchr(b'\n', &unread[searched..]) {
                Some(found) => return Ok(searched + found + 1),
                None => searched = unread.len(),
            }
            if searched - at >= MAX_LINE {
                return Err(self.oversized());
            }
            self.fill()?;
        }
    }

    /// Makes room in the buffer for what comes: for more at once, as long as what came filled it.
    fn make_room(&mut self) -> Result<()> {
        let was_full = self.end == self.buffer.len();
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        } else if was_full && self.start > 0 {
            self.buffer.copy_within(self.start.., 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        let is_full = self.end == self.buffer.len();
        if is_full && self.buffer.len() >= MAX_BYTES {
            return Err(self.oversized());
        }
        if is_full || was_full && self.buffer.len() < MAX_READ {
            self.buffer.resize(self.buffer.len() * 2, 0);
        }
        Ok(())
    }

    /// Reads what is there, or waits for it.
    fn fill(&mut self) -> Result<()> {
        self.make_room()?;
        self.read_some().map_err(|error| self.target.failed(error))
    }

    /// Reads what has come into the room that there is.
    fn read_some(&mut self) -> io::Result<()> {
        loop {
            match self.socket.read(&mut self.buffer[self.end..]) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(read) => {
                    self.end += read;
                    return Ok(());
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn take(&self, left: &mut usize, bytes: usize) -> Result<()> {
        *left = left.checked_sub(bytes).ok_or_else(|| self.oversized())?;
        Ok(())
    }

    fn oversized(&self) -> StoreError {
        StoreError::Oversized { server: self.target.shown.clone() }
    }

    fn unexpected(&self, line: &[u8]) -> StoreError {
        Reply::of_command(&self.target.shown).invalid(String::from_utf8_lossy(line.trim_ascii_end()))
    }
}

impl Connection {
    /// From now on only [`try_send`](Self::try_send) and [`try_reply`](Self::try_reply) are of use.
    ///
    /// # Errors
    /// The system cannot do that.
    pub(crate) fn stop_waiting(&mut self) -> Result<()> {
        self.socket.stop_waiting().map_err(|error| self.target.failed(error))
    }

    /// What becomes readable when bytes come; with TLS, bytes of which some may be no reply.
    pub(crate) fn inner_fd(&self) -> Option<BorrowedFd<'_>> {
        self.socket.inner_fd()
    }

    /// Writes what the socket accepts, and removes it from `unsent`; true if nothing is left to be written.
    ///
    /// # Errors
    /// The connection broke.
    pub(crate) fn try_send(&mut self, unsent: &mut Vec<u8>) -> Result<bool> {
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
            Err(error) => Err(self.target.failed(error)),
        }
    }

    /// The reply that comes next, if all of it is here; an error reply is a value too.
    ///
    /// # Errors
    /// The connection broke, or what comes is no reply of a sale.
    pub(crate) fn try_reply(&mut self) -> Result<Option<Value>> {
        loop {
            if has_reply(&self.buffer[self.start..self.end]) {
                return self.reply().map(Some);
            }
            self.make_room()?;
            match self.read_some() {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                Err(error) => return Err(self.target.failed(error)),
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
