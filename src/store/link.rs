//! One connection for commands and their replies. Without TLS we read replies ourselves, so that a hostile or broken
//! server cannot fill the memory: redis-rs has no bound. Over TLS it reads them.

use std::io::{self, BufRead, BufReader, Read, Write};

use redis::{Cmd, Connection, ConnectionLike, RedisError, RedisResult, Value};

use super::wire::Socket;

/// Bytes read at once.
const BUFFER: usize = 64 * 1024;
/// The most bytes of one reply, with what its parts take beside their text. A page of a sale has some kilobytes, the
/// ledger's largest some megabytes.
const MOST_BYTES: usize = 64 * 1024 * 1024;
/// The longest line: a status, an error, a length.
const MOST_LINE: usize = 64 * 1024;
/// How deep lists may be in each other.
const MOST_DEPTH: usize = 16;

/// A connection.
pub enum Link {
    /// Over TCP or a unix socket.
    Plain(Plain),
    /// Over TLS.
    Tls(Box<Connection>),
}

/// A socket whose replies are bounded.
pub struct Plain(BufReader<Box<dyn Socket>>);

impl Plain {
    /// Over an open socket.
    pub fn over(socket: Box<dyn Socket>) -> Self {
        Self(BufReader::with_capacity(BUFFER, socket))
    }
}

impl Link {
    /// Sends a command, and gives its reply: an error of the server is a value too.
    pub fn req_command(&mut self, command: &Cmd) -> RedisResult<Value> {
        self.send_packed_command(&command.get_packed_command())?;
        self.recv_response()
    }

    /// Sends packed commands, and gives the reply of each.
    pub fn req_packed_commands(&mut self, packed: &[u8], count: usize) -> RedisResult<Vec<Value>> {
        match self {
            Self::Plain(_) => {
                self.send_packed_command(packed)?;
                (0..count).map(|_| self.recv_response()).collect()
            }
            Self::Tls(connection) => connection.req_packed_commands(packed, 0, count),
        }
    }

    /// Sends packed commands.
    pub fn send_packed_command(&mut self, packed: &[u8]) -> RedisResult<()> {
        match self {
            Self::Plain(plain) => Ok(plain.0.get_mut().write_all(packed)?),
            Self::Tls(connection) => connection.send_packed_command(packed),
        }
    }

    /// The reply that comes next.
    pub fn recv_response(&mut self) -> RedisResult<Value> {
        match self {
            Self::Plain(plain) => plain.value(MOST_DEPTH, &mut { MOST_BYTES }),
            Self::Tls(connection) => connection.recv_response(),
        }
    }
}

impl Plain {
    /// The next value, if it takes no more than the bytes that are left.
    fn value(&mut self, depth: usize, left: &mut usize) -> RedisResult<Value> {
        let line = self.line()?;
        let text = line.strip_suffix(b"\r\n").unwrap_or(&line);
        let length = |number: &[u8]| -> RedisResult<Option<usize>> {
            let number = std::str::from_utf8(number).ok().and_then(|number| number.parse::<i64>().ok());
            match number.ok_or_else(|| invalid("a length that is no number"))? {
                -1 => Ok(None),
                number => usize::try_from(number).map(Some).map_err(|_| invalid("a negative length")),
            }
        };
        match text {
            [b'$', number @ ..] => match length(number)? {
                Some(length) => self.text(length, left).map(Value::BulkString),
                None => Ok(Value::Nil),
            },
            [b'*', number @ ..] => {
                let Some(count) = length(number)? else { return Ok(Value::Nil) };
                if depth == 0 {
                    return Err(oversized());
                }
                // Before any of them is read: the list alone may be too large.
                take(left, count.saturating_mul(size_of::<Value>()))?;
                (0..count).map(|_| self.value(depth - 1, left)).collect::<RedisResult<_>>().map(Value::Array)
            }
            // Statuses, numbers and errors, which redis-rs tells apart.
            _ => redis::parse_redis_value(&line),
        }
    }

    fn line(&mut self) -> RedisResult<Vec<u8>> {
        let mut line = Vec::new();
        (&mut self.0).take(MOST_LINE as u64).read_until(b'\n', &mut line)?;
        match line.last() {
            Some(b'\n') => Ok(line),
            _ if line.len() >= MOST_LINE => Err(oversized()),
            _ => Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
        }
    }

    fn text(&mut self, length: usize, left: &mut usize) -> RedisResult<Vec<u8>> {
        take(left, length)?;
        // It grows with what comes, not with what is announced.
        let mut text = Vec::new();
        let read = (&mut self.0).take(length as u64).read_to_end(&mut text)?;
        let mut end = [0; 2];
        if read < length {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
        }
        self.0.read_exact(&mut end)?;
        Ok(text)
    }
}

fn take(left: &mut usize, bytes: usize) -> RedisResult<()> {
    *left = left.checked_sub(bytes).ok_or_else(oversized)?;
    Ok(())
}

fn oversized() -> RedisError {
    io::Error::other("its reply is larger than any of a sale, and was not read to the end").into()
}

fn invalid(what: &str) -> RedisError {
    io::Error::new(io::ErrorKind::InvalidData, format!("its reply has {what}")).into()
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;

    /// What comes from a server, a few bytes a read: some first, then the same without end.
    struct Replies {
        first: VecDeque<u8>,
        then: &'static [u8],
    }

    impl Read for Replies {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            if self.first.is_empty() {
                self.first.extend(self.then);
            }
            let read = self.first.len().min(buffer.len()).min(7);
            self.first.drain(..read).zip(buffer).for_each(|(byte, place)| *place = byte);
            Ok(read)
        }
    }

    impl Write for Replies {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn link(first: &[u8], then: &'static [u8]) -> Link {
        Link::Plain(Plain::over(Box::new(Replies { first: first.to_vec().into(), then })))
    }

    #[test]
    fn replies_are_read_as_redis_rs_reads_them() {
        let all: [&[u8]; 8] = [
            b"+OK\r\n",
            b"+PONG\r\n",
            b":-7\r\n",
            b"$3\r\na\nb\r\n",
            b"$-1\r\n",
            b"*3\r\n:1\r\n$0\r\n\r\n*1\r\n$-1\r\n",
            b"*-1\r\n",
            b"-NOSCRIPT no such script\r\n",
        ];
        let mut link = link(&all.concat(), b"");
        for reply in all {
            let expected = redis::parse_redis_value(reply);
            assert_eq!(format!("{:?}", link.recv_response()), format!("{expected:?}"));
        }
        assert!(link.recv_response().unwrap_err().is_connection_dropped());
    }

    #[test]
    fn a_reply_that_ends_early_is_a_broken_connection() {
        for part in [&b"$5\r\nab"[..], b"*2\r\n:1\r\n", b"+O", b"$2\r\nab"] {
            assert!(link(part, b"").recv_response().unwrap_err().is_connection_dropped(), "{part:?}");
        }
        for wrong in [&b"$x\r\n"[..], b"*-2\r\n", b"$9223372036854775808\r\n"] {
            assert!(link(wrong, b"").recv_response().unwrap_err().is_io_error(), "{wrong:?}");
        }
    }

    #[test]
    fn a_reply_without_end_is_an_error_before_it_fills_the_memory() {
        for (first, then) in [
            (&b"$1700000000\r\n"[..], &b"0000000"[..]),
            (b"*200000000\r\n", b":1\r\n"),
            (b"+", b"0000000"),
            (b"*1\r\n", b"*1\r\n"),
        ] {
            let error = link(first, then).recv_response().unwrap_err();
            assert!(error.to_string().contains("larger than any of a sale"), "{error}");
        }
    }
}
