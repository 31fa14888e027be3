//! A connection whose replies are read as they come in: for what is long, where redis-rs would hold a reply back until
//! it is whole and copy every part of it. Over TLS there is none; what is long then goes through redis-rs.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::ops::Range;

use redis::{ConnectionAddr, RedisError, Value};

use super::connect::Target;
use super::error::StoreError;
use super::reply::Reply;

/// Bytes read at once; a longer reply makes the buffer grow.
const BUFFER: usize = 64 * 1024;

/// The most bytes that are held of a reply. A page of a sale has some kilobytes; a hostile server sends without end.
const MOST_HELD: usize = 64 * 1024 * 1024;
/// The most parts of a list whose parts are copied, and how deep such lists may be in each other.
const MOST_PARTS: usize = 1 << 20;
const MOST_DEPTH: usize = 16;

/// What bytes go through.
pub trait Socket: Read + Write + Send {}

impl<S: Read + Write + Send> Socket for S {}

/// A connection, and what came in on it and was not taken yet.
pub struct Wire {
    socket: Box<dyn Socket>,
    target: Target,
    buffer: Vec<u8>,
    /// Where the unread bytes of the buffer begin, and where they end.
    taken: usize,
    filled: usize,
}

impl Wire {
    /// Connects, logs in and chooses the database; `None` over TLS.
    ///
    /// # Errors
    /// The server cannot be reached, or refuses the login.
    pub fn connect(target: &Target) -> Result<Option<Self>, StoreError> {
        let socket = open(target).map_err(|error| target.unreachable(&RedisError::from(error)))?;
        let Some(socket) = socket else { return Ok(None) };
        let mut wire = Self::over(socket, target.clone());
        for command in target.handshake() {
            wire.send(&command.get_packed_command())?;
            wire.status()?;
        }
        Ok(Some(wire))
    }

    fn over(socket: Box<dyn Socket>, target: Target) -> Self {
        Self { socket, target, buffer: vec![0; BUFFER], taken: 0, filled: 0 }
    }

    /// Sends packed commands.
    ///
    /// # Errors
    /// The connection broke.
    pub fn send(&mut self, packed: &[u8]) -> Result<(), StoreError> {
        self.socket.write_all(packed).map_err(|error| self.broken(error))
    }

    /// The status that comes next, whatever it says.
    ///
    /// # Errors
    /// The connection broke, the server answered with an error, or what comes is no status.
    pub fn status(&mut self) -> Result<(), StoreError> {
        let (_, end) = self.head(b'+', 0)?;
        self.taken += end;
        Ok(())
    }

    /// Whatever comes next, if it is a small one: its parts are copied.
    ///
    /// # Errors
    /// As [`Wire::array`], and what is neither number, text, nothing nor a list of such.
    pub fn value(&mut self) -> Result<Value, StoreError> {
        self.value_within(MOST_DEPTH)
    }

    fn value_within(&mut self, depth: usize) -> Result<Value, StoreError> {
        let end = self.line(0)?;
        let line = &self.buffer[self.taken..self.taken + end];
        let text = line.strip_suffix(b"\r\n").unwrap_or(line);
        match text {
            b"$-1" | b"*-1" => self.taken += end,
            [b'$', ..] => return Ok(Value::BulkString(self.texts(1)?.concat())),
            [b'*', ..] => {
                let count = self.array()?;
                if count > MOST_PARTS || depth == 0 {
                    return Err(self.oversized());
                }
                let values = (0..count).map(|_| self.value_within(depth - 1));
                return values.collect::<Result<_, _>>().map(Value::Array);
            }
            [b':', number @ ..] => {
                let number = std::str::from_utf8(number).ok().and_then(|number| number.parse().ok());
                let number = number.ok_or_else(|| self.unfit(text))?;
                self.taken += end;
                return Ok(Value::Int(number));
            }
            [b'-', ..] => return Err(self.refused(line)),
            _ => return Err(self.unfit(text)),
        }
        Ok(Value::Nil)
    }

    /// The number of parts of the array that comes next.
    ///
    /// # Errors
    /// The connection broke, the server answered with an error, or what comes is no array.
    pub fn array(&mut self) -> Result<usize, StoreError> {
        let (count, end) = self.head(b'*', 0)?;
        self.taken += end;
        Ok(count)
    }

    /// The next so many texts. They stand in the buffer until something else is read.
    ///
    /// # Errors
    /// As [`Wire::array`].
    pub fn texts(&mut self, count: usize) -> Result<Vec<&[u8]>, StoreError> {
        let mut places: Vec<Range<usize>> = Vec::new();
        let mut at = 0;
        for _ in 0..count {
            let (length, start) = self.head(b'$', at)?;
            let end = start + length;
            at = end + 2;
            while self.filled - self.taken < at {
                self.fill()?;
            }
            places.push(start..end);
        }
        let texts = &self.buffer[self.taken..];
        self.taken += at;
        Ok(places.into_iter().map(|place| &texts[place]).collect())
    }

    /// The number behind a type's letter, `at` bytes from the first unread one, and where its line ends, likewise.
    /// A status has none: 0.
    fn head(&mut self, letter: u8, at: usize) -> Result<(usize, usize), StoreError> {
        let end = self.line(at)?;
        let line = &self.buffer[self.taken + at..self.taken + end];
        let text = line.strip_suffix(b"\r\n").unwrap_or(line);
        match text.split_first() {
            Some((first, _)) if *first == letter && letter == b'+' => Ok((0, end)),
            // No text has 4 GB; -1 stands for none at all, which no page holds.
            Some((first, number)) if *first == letter => std::str::from_utf8(number)
                .ok()
                .and_then(|number| number.parse::<u32>().ok())
                .and_then(|number| Some((usize::try_from(number).ok()?, end)))
                .ok_or_else(|| self.unfit(text)),
            Some((b'-', _)) => Err(self.refused(line)),
            _ => Err(self.unfit(text)),
        }
    }

    /// Where the line ends that begins `at` bytes from the first unread one.
    fn line(&mut self, at: usize) -> Result<usize, StoreError> {
        let mut looked = at;
        loop {
            let unread = &self.buffer[self.taken..self.filled];
            match memchr::memchr(b'\n', &unread[looked..]) {
                Some(found) => return Ok(looked + found + 1),
                None => looked = unread.len(),
            }
            self.fill()?;
        }
    }

    /// Reads what is there, and waits where nothing is.
    fn fill(&mut self) -> Result<(), StoreError> {
        if self.filled == self.buffer.len() {
            if self.taken == 0 {
                if self.buffer.len() >= MOST_HELD {
                    return Err(self.oversized());
                }
                self.buffer.resize(self.buffer.len() * 2, 0);
            } else {
                self.buffer.copy_within(self.taken.., 0);
                self.filled -= self.taken;
                self.taken = 0;
            }
        }
        loop {
            match self.socket.read(&mut self.buffer[self.filled..]) {
                Ok(0) => return Err(self.broken(io::ErrorKind::UnexpectedEof.into())),
                Ok(read) => {
                    self.filled += read;
                    return Ok(());
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.broken(error)),
            }
        }
    }

    fn broken(&self, error: io::Error) -> StoreError {
        self.target.unreachable(&RedisError::from(error))
    }

    /// What an error reply means; redis-rs reads it.
    fn refused(&self, line: &[u8]) -> StoreError {
        match redis::parse_redis_value(line) {
            Ok(Value::ServerError(error)) => {
                let error = RedisError::from(error);
                StoreError::of_reply(&error, &self.target.shown).unwrap_or_else(|| self.target.unreachable(&error))
            }
            _ => self.unfit(line),
        }
    }

    fn oversized(&self) -> StoreError {
        StoreError::Oversized { server: self.target.shown.clone() }
    }

    fn unfit(&self, line: &[u8]) -> StoreError {
        Reply::of_command("SCAN").unfit(String::from_utf8_lossy(line))
    }
}

/// Opens the socket, each step within the timeout; `None` over TLS.
pub(super) fn open(target: &Target) -> io::Result<Option<Box<dyn Socket>>> {
    match &target.address.addr() {
        ConnectionAddr::Tcp(host, port) => {
            let mut failed = io::ErrorKind::NotFound.into();
            for address in (host.as_str(), *port).to_socket_addrs()? {
                match TcpStream::connect_timeout(&address, target.timeout) {
                    Ok(stream) => {
                        stream.set_nodelay(true)?;
                        stream.set_read_timeout(Some(target.timeout))?;
                        stream.set_write_timeout(Some(target.timeout))?;
                        return Ok(Some(Box::new(stream)));
                    }
                    Err(error) => failed = error,
                }
            }
            Err(failed)
        }
        #[cfg(unix)]
        ConnectionAddr::Unix(path) => {
            let stream = std::os::unix::net::UnixStream::connect(path)?;
            stream.set_read_timeout(Some(target.timeout))?;
            stream.set_write_timeout(Some(target.timeout))?;
            Ok(Some(Box::new(stream)))
        }
        _ => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::time::Duration;

    use super::*;

    /// Gives what it holds piece by piece, and then nothing more.
    struct Pieces(VecDeque<io::Result<Vec<u8>>>);

    impl Read for Pieces {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let Some(piece) = self.0.pop_front() else { return Ok(0) };
            let mut piece = piece?;
            let read = piece.len().min(buffer.len());
            buffer[..read].copy_from_slice(&piece[..read]);
            if read < piece.len() {
                self.0.push_front(Ok(piece.split_off(read)));
            }
            Ok(read)
        }
    }

    impl Write for Pieces {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn wire(pieces: impl IntoIterator<Item = io::Result<Vec<u8>>>) -> Wire {
        let target = Target::new("redis://127.0.0.1:1", "the URL", Duration::from_secs(1)).unwrap();
        Wire::over(Box::new(Pieces(pieces.into_iter().collect())), target)
    }

    fn whole(bytes: &[u8]) -> Wire {
        wire([Ok(bytes.to_vec())])
    }

    #[test]
    fn a_page_is_read_the_same_wherever_it_is_split() {
        let page = b"*2\r\n$2\r\n17\r\n*4\r\n$3\r\na\nb\r\n$1\r\n2\r\n$0\r\n\r\n$2\r\n10\r\n*0\r\n";
        for split in 0..page.len() {
            let interrupted = Err(io::ErrorKind::Interrupted.into());
            let mut wire = wire([Ok(page[..=split].to_vec()), interrupted, Ok(page[split + 1..].to_vec())]);
            assert_eq!(wire.array().unwrap(), 2);
            assert_eq!(wire.texts(1).unwrap(), [b"17"]);
            assert_eq!(wire.array().unwrap(), 4);
            assert_eq!(wire.texts(4).unwrap(), [&b"a\nb"[..], b"2", b"", b"10"]);
            assert_eq!(wire.array().unwrap(), 0);
            assert!(wire.texts(0).unwrap().is_empty());
        }
    }

    #[test]
    fn a_value_is_read_with_all_its_parts() {
        let mut wire = whole(b"+OK\r\n*5\r\n:-7\r\n$2\r\na\n\r\n$-1\r\n*1\r\n:1\r\n*0\r\n*-1\r\n-ERR no\r\n");
        wire.status().unwrap();
        let text = Value::BulkString(b"a\n".to_vec());
        let inner = [Value::Int(-7), text, Value::Nil, Value::Array(vec![Value::Int(1)]), Value::Array(Vec::new())];
        assert_eq!(wire.value().unwrap(), Value::Array(inner.to_vec()));
        assert_eq!(wire.value().unwrap(), Value::Nil);
        assert!(matches!(wire.value().unwrap_err(), StoreError::Server { .. }));
        assert!(matches!(whole(b":x\r\n").value().unwrap_err(), StoreError::Reply { .. }));
        assert!(matches!(whole(b"+OK\r\n").value().unwrap_err(), StoreError::Reply { .. }));
    }

    #[test]
    fn the_buffer_moves_what_is_unread_and_grows_only_for_what_does_not_fit() {
        let text =
            |byte: u8, length: usize| [format!("${length}\r\n").as_bytes(), &vec![byte; length], b"\r\n"].concat();
        let many: Vec<u8> = (0..100).flat_map(|byte| text(byte, 1000)).collect();
        let mut wire = whole(&[many, text(b'x', BUFFER)].concat());
        for byte in 0..100 {
            assert_eq!(wire.texts(1).unwrap(), [vec![byte; 1000]]);
        }
        assert_eq!(wire.buffer.len(), BUFFER);
        assert_eq!(wire.texts(1).unwrap(), [vec![b'x'; BUFFER]]);
        assert_eq!(wire.buffer.len(), 2 * BUFFER);
    }

    /// Repeats a piece without end, after a first one.
    struct Endless(&'static [u8], &'static [u8]);

    impl Read for Endless {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let piece = std::mem::replace(&mut self.0, self.1);
            let read = piece.len().min(buffer.len());
            buffer[..read].copy_from_slice(&piece[..read]);
            Ok(read)
        }
    }

    impl Write for Endless {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_hostile_reply_is_an_error_before_it_fills_the_memory() {
        const ZEROS: &[u8] = &[b'0'; BUFFER];
        let target = Target::new("redis://127.0.0.1:1", "the URL", Duration::from_secs(1)).unwrap();
        for (first, then) in
            [(&b"$1700000000\r\n"[..], ZEROS), (b"+", ZEROS), (b"*200000000\r\n", b":1\r\n"), (b"*1\r\n", b"*1\r\n")]
        {
            let mut wire = Wire::over(Box::new(Endless(first, then)), target.clone());
            assert!(matches!(wire.value().unwrap_err(), StoreError::Oversized { .. }));
            assert!(wire.buffer.len() <= MOST_HELD);
        }
    }

    #[test]
    fn failures_are_told_apart() {
        let told = |mut wire: Wire| wire.array().unwrap_err();
        assert!(matches!(told(whole(b"-NOPERM no `hscan`\r\n")), StoreError::Permission { .. }));
        assert!(matches!(told(whole(b"-LOADING wait\r\n")), error if error.passes()));
        assert!(matches!(told(whole(b"+OK\r\n")), StoreError::Reply { .. }));
        assert!(matches!(told(whole(b"*-1\r\n")), StoreError::Reply { .. }));
        assert!(matches!(told(whole(b"*2")), StoreError::Unreachable { .. }));
        assert!(matches!(told(wire([Err(io::ErrorKind::WouldBlock.into())])), StoreError::Timeout { .. }));
    }
}
