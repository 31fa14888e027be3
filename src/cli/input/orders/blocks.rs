//! The bytes of an input, a block at a time, and the window over them that has the record being read whole. A regular file can be read
//! twice, and the second time it must be what it was: every block is compared before anything in it is applied.

use std::fs::File;
use std::io::{self, Read, Seek};
use std::os::fd::AsFd;
use std::os::unix::fs::FileTypeExt;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::Duration;

use crate::cli::failure::{Exit, Failure, Result};
use crate::cli::input::error::{self, Location, Problem, STDIN, quoted, unreadable, utf16};
use crate::cli::input::orders::{Next, RowError};
use crate::cli::interrupt;
use crate::model::archive::Digest;

/// Bytes of a block. Digests are made of whole blocks, so another size makes another digest.
const BLOCK: usize = 256 * 1024;

type BlockDigest = [u8; 16];

pub struct Blocks {
    name: String,
    source: Source,
    digests: Vec<BlockDigest>,
    /// What the blocks must be, the second time.
    expected: Option<ContentDigests>,
    bytes: u64,
}

enum Source {
    File(File),
    Stream(Stream),
}

/// A pipe, a terminal, a socket: a thread waits for it, so that nobody else must.
struct Stream {
    blocks: Receiver<io::Result<Vec<u8>>>,
    peeked: Option<io::Result<Vec<u8>>>,
    ended: bool,
}

impl Stream {
    /// Waits for a block, at most that long.
    fn wait(&mut self, at_most: Duration) {
        if self.peeked.is_none() && !self.ended {
            match self.blocks.recv_timeout(at_most) {
                Ok(block) => self.peeked = Some(block),
                Err(RecvTimeoutError::Disconnected) => self.ended = true,
                Err(RecvTimeoutError::Timeout) => (),
            }
        }
    }
}

/// What a file was when it was read whole.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ContentDigests {
    digests: Vec<BlockDigest>,
    bytes: u64,
}

impl ContentDigests {
    /// That of a text, whatever block it is in.
    pub fn of(text: &[u8]) -> Self {
        Self { digests: vec![Digest::bytes_of(text)], bytes: text.len() as u64 }
    }

    /// A name for this content read in this way: 32 hexadecimal digits.
    pub fn digest(&self, of: &str) -> String {
        let mut digest = Digest::default();
        digest.add(of.as_bytes());
        digest.add(&[0]);
        digest.add(&self.bytes.to_le_bytes());
        self.digests.iter().for_each(|block| digest.add(block));
        digest.finish()[..32].to_owned()
    }
}

impl Blocks {
    /// Opens a path; `-` is standard input.
    pub fn open(path: &str) -> Result<Self> {
        if path == "-" {
            return Ok(Self::standard_input());
        }
        if std::fs::metadata(path).is_ok_and(|about| about.file_type().is_fifo()) {
            // Opening it waits for a writer, which nobody must wait for.
            let name = path.to_owned();
            return Ok(Self::stream_of(path, move || File::open(name)));
        }
        let file = File::open(path).map_err(|error| unreadable(path, &error))?;
        let about = file.metadata().map_err(|error| unreadable(path, &error))?;
        if about.is_dir() {
            return Err(unreadable(path, &io::ErrorKind::IsADirectory.into()));
        }
        Ok(if about.is_file() { Self::of(path, Source::File(file)) } else { Self::stream(path, file) })
    }

    /// Standard input: as a file, if the shell opened one for us.
    fn standard_input() -> Self {
        let duplicate = io::stdin().as_fd().try_clone_to_owned().map(File::from);
        if let Ok(mut file) = duplicate
            && file.metadata().is_ok_and(|about| about.is_file())
            && file.stream_position().is_ok_and(|at| at == 0)
        {
            return Self::of(STDIN, Source::File(file));
        }
        Self::stream(STDIN, io::stdin())
    }

    /// Whatever can be read once: the output of a command, say.
    pub fn stream(name: &str, source: impl Read + Send + 'static) -> Self {
        Self::stream_of(name, || Ok(source))
    }

    fn stream_of<R: Read>(name: &str, open: impl FnOnce() -> io::Result<R> + Send + 'static) -> Self {
        interrupt::listen();
        // Two blocks: one is read while the other is worked on, and a full channel holds the writer back.
        let (sender, blocks) = sync_channel(2);
        std::thread::spawn(move || {
            let mut source = match open() {
                Ok(source) => source,
                Err(error) => {
                    // If that fails, nobody is left to report it to.
                    let _ = sender.send(Err(error));
                    return;
                }
            };
            loop {
                let mut block = vec![0; BLOCK / 4];
                let read = match source.read(&mut block) {
                    Ok(0) => return,
                    Ok(count) => {
                        block.truncate(count);
                        Ok(block)
                    }
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                    Err(error) => Err(error),
                };
                let failed = read.is_err();
                if sender.send(read).is_err() || failed {
                    return;
                }
            }
        });
        Self::of(name, Source::Stream(Stream { blocks, peeked: None, ended: false }))
    }

    fn of(name: &str, source: Source) -> Self {
        Self { name: name.to_owned(), source, digests: Vec::new(), expected: None, bytes: 0 }
    }

    /// Whether it can be read again from its start.
    pub fn is_regular(&self) -> bool {
        matches!(self.source, Source::File(_))
    }

    /// Whether there are no bytes at all; waits for the first of a stream.
    pub fn is_empty(&mut self) -> bool {
        match &mut self.source {
            Source::File(file) => file.metadata().is_ok_and(|about| about.len() == 0),
            Source::Stream(stream) => {
                stream.wait(Duration::MAX);
                stream.peeked.is_none()
            }
        }
    }

    /// What was read so far: of a file that was read to its end, what it is.
    pub fn checked(&self) -> ContentDigests {
        ContentDigests { digests: self.digests.clone(), bytes: self.bytes }
    }

    /// Begins again; from now on each block must be what it was.
    ///
    /// # Errors
    /// Not a regular file, or it cannot be read.
    pub fn again(mut self, expected: ContentDigests) -> Result<Self> {
        match &mut self.source {
            Source::File(file) => file.rewind().map_err(|error| unreadable(&self.name, &error))?,
            Source::Stream(_) => return Err(Failure::failed(format!("`{}` cannot be read again", self.name))),
        }
        Ok(Self { digests: Vec::new(), bytes: 0, expected: Some(expected), ..self })
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Appends the next block; [`Next::Row`] says that there was one.
    pub(crate) fn fill(&mut self, buffer: &mut Vec<u8>) -> Result<Next> {
        match &mut self.source {
            Source::File(file) => {
                let start = buffer.len();
                let read = file.by_ref().take(BLOCK as u64).read_to_end(buffer);
                read.map_err(|error| unreadable(&self.name, &error))?;
                self.note(&buffer[start..])
            }
            Source::Stream(stream) => {
                stream.wait(Duration::ZERO);
                match stream.peeked.take() {
                    None if stream.ended => Ok(Next::End),
                    None => Ok(Next::NotYet),
                    Some(block) => {
                        let block = block.map_err(|error| unreadable(&self.name, &error))?;
                        self.bytes += block.len() as u64;
                        buffer.extend_from_slice(&block);
                        Ok(Next::Row)
                    }
                }
            }
        }
    }

    /// Waits for a block, at most that long.
    pub(crate) fn wait(&mut self, at_most: Duration) {
        if let Source::Stream(stream) = &mut self.source {
            stream.wait(at_most);
        }
    }

    /// The same, unless the user asks to stop: for what must be there before anything else is done.
    pub(crate) fn wait_or_stop(&mut self) -> Result<()> {
        if interrupt::requested() {
            let message = format!("interrupted while waiting for {}: nothing was applied", quoted(&self.name));
            return Err(Failure::new(Exit::Interrupted, message));
        }
        self.wait(Duration::from_millis(100));
        Ok(())
    }

    /// Takes note of a block of a file, and holds it against what it was.
    fn note(&mut self, block: &[u8]) -> Result<Next> {
        let number = self.digests.len();
        let is_end = block.is_empty();
        if !is_end {
            self.digests.push(Digest::bytes_of(block));
            self.bytes += block.len() as u64;
        }
        if let Some(expected) = &self.expected {
            let same = if is_end {
                number == expected.digests.len()
            } else {
                expected.digests.get(number) == self.digests.last()
            };
            if !same {
                return Err(Failure::failed(format!("`{}` changed after it was checked", self.name)).hint(
                    "nothing of what changed was applied; undo the change and give the same command again to resume",
                ));
            }
        }
        Ok(if is_end { Next::End } else { Next::Row })
    }
}

/// The longest record. Without a bound, a file that lacks its line ends would be read into memory whole.
const LONGEST: usize = 4 * 1024 * 1024;

/// Bytes that were read and not yet used.
pub(crate) struct Lines {
    pub(crate) blocks: Blocks,
    data: Vec<u8>,
    /// Where the next record begins.
    start: usize,
    /// The range of the record that was read last.
    record: std::ops::Range<usize>,
    /// The number of the line where the last record began, and of the one behind it.
    pub(crate) line: u64,
    next_line: u64,
    /// The last byte that was passed: a `\n` behind a `\r` ends the same line.
    before: u8,
    /// Whether lines end with `\n` alone: a `\r` in one is a part of its text.
    has_bare_returns: bool,
    ended: bool,
}

/// How many lines end in a text behind this byte: by `\n`, `\r\n` or `\r`.
fn line_ends(text: &[u8], before: u8) -> u64 {
    let ends = |at: &usize| text[*at] == b'\r' || at.checked_sub(1).map_or(before, |last| text[last]) != b'\r';
    memchr::memchr2_iter(b'\n', b'\r', text).filter(ends).count() as u64
}

impl Lines {
    pub(crate) fn new(blocks: Blocks) -> Self {
        Self {
            blocks,
            data: Vec::new(),
            start: 0,
            record: 0..0,
            line: 0,
            next_line: 1,
            before: 0,
            has_bare_returns: false,
            ended: false,
        }
    }

    /// Those of a text that was read whole.
    pub(crate) fn of_text(name: &str, text: String) -> Self {
        let stream = Stream { blocks: sync_channel(0).1, peeked: None, ended: true };
        Self { data: text.into_bytes(), ended: true, ..Self::new(Blocks::of(name, Source::Stream(stream))) }
    }

    /// Waits for the first bytes, and passes a byte order mark.
    pub(crate) fn begin(&mut self) -> Result<()> {
        while self.data.len() < 3 && self.fill()? != Next::End {
            self.blocks.wait_or_stop()?;
        }
        if error::is_utf16(&self.data[..self.data.len().min(4)]) {
            return Err(utf16(self.name()));
        }
        if self.data.starts_with(b"\xef\xbb\xbf") {
            self.start = 3;
        }
        self.skip_empty();
        Ok(())
    }

    /// The first line, or as much of it as is there.
    pub(crate) fn first_line(&mut self) -> Result<&[u8]> {
        self.skip_empty();
        while !self.rest().contains(&b'\n') && self.data.len() < LONGEST && self.fill()? != Next::End {
            self.blocks.wait_or_stop()?;
            self.skip_empty();
        }
        Ok(self.data[self.start..].split(|byte| *byte == b'\n').next().unwrap_or_default())
    }

    pub(crate) fn name(&self) -> &str {
        self.blocks.name()
    }

    /// The record that was read last, with its line end.
    pub(crate) fn raw(&self) -> &[u8] {
        &self.data[self.record.clone()]
    }

    /// Skips empty lines; false if nothing is left.
    pub(crate) fn skip_empty(&mut self) -> bool {
        let is_end = |byte: &&u8| matches!(byte, b'\n' | b'\r');
        self.pass(self.rest().iter().take_while(is_end).count());
        !self.rest().is_empty()
    }

    /// What was read and not yet used.
    pub(crate) fn rest(&self) -> &[u8] {
        &self.data[self.start..]
    }

    /// Takes the next bytes of [`rest`](Self::rest) as a record.
    pub(crate) fn take(&mut self, length: usize) {
        self.record = self.start..self.start + length;
        self.line = self.next_line;
        self.pass(length);
    }

    /// Passes bytes, and counts the lines that end in them.
    fn pass(&mut self, length: usize) {
        let passed = &self.data[self.start..self.start + length];
        self.next_line += match self.has_bare_returns {
            true => memchr::memchr_iter(b'\n', passed).count() as u64,
            false => line_ends(passed, self.before),
        };
        self.before = passed.last().copied().unwrap_or(self.before);
        self.start += length;
    }

    /// Reads on: [`Next::Row`] says that there is more in [`rest`](Self::rest).
    pub(crate) fn fill(&mut self) -> Result<Next> {
        if self.ended {
            return Ok(Next::End);
        }
        self.data.drain(..self.start);
        self.start = 0;
        self.record = 0..0;
        if self.data.len() > LONGEST {
            return Err(Failure::usage(format!(
                "{}:{}: a row is longer than {LONGEST} bytes: is a quote not closed?",
                self.name(),
                self.next_line
            )));
        }
        let next = self.blocks.fill(&mut self.data)?;
        self.ended = next == Next::End;
        Ok(next)
    }

    /// Takes the next line that holds something as a record.
    pub(crate) fn read_line(&mut self) -> Result<Next> {
        self.has_bare_returns = true;
        loop {
            self.skip_empty();
            match memchr::memchr(b'\n', self.rest()) {
                Some(end) => self.take(end + 1),
                None => match self.fill()? {
                    Next::Row => continue,
                    Next::End if !self.rest().is_empty() => self.take(self.rest().len()),
                    next => return Ok(next),
                },
            }
            if !self.raw().trim_ascii().is_empty() {
                return Ok(Next::Row);
            }
        }
    }

    /// A problem of the record that was read last, at a byte of it.
    pub(crate) fn bad(&self, byte: usize, message: impl Into<String>) -> RowError {
        RowError::Bad(self.problem(byte, message.into(), None))
    }

    /// The same, with the next step.
    pub(crate) fn problem(&self, byte: usize, message: String, hint: Option<String>) -> Problem {
        // A record with quotes may be of several lines.
        let before = &self.raw()[..byte.min(self.raw().len())];
        let start = memchr::memrchr2(b'\n', b'\r', before).filter(|_| !self.has_bare_returns).map_or(0, |at| at + 1);
        let line = self.line + line_ends(&before[..start], 0);
        let column = String::from_utf8_lossy(&before[start..]).chars().count() + 1;
        Problem::new(Location { line: usize::try_from(line).unwrap_or(usize::MAX), column }, message).hint(hint)
    }

    /// Whether it can be read only once, while it arrives.
    pub(crate) fn is_stream(&self) -> bool {
        matches!(self.blocks.source, Source::Stream(_))
    }
}

/// The record as text.
pub(crate) fn utf8<'a>(lines: &Lines, bytes: &'a [u8]) -> Result<&'a str, RowError> {
    std::str::from_utf8(bytes).map_err(|_| {
        let raw = lines.raw();
        let valid = std::str::from_utf8(raw).err().map_or(0, |error| error.valid_up_to());
        let byte = raw.get(valid).copied().unwrap_or_default();
        let (message, hint) = error::not_utf8(byte, error::is_gbk(raw));
        RowError::Bad(lines.problem(valid, message, hint))
    })
}

#[cfg(test)]
mod tests {
    use super::line_ends;

    #[test]
    fn lines_end_as_in_files_of_unix_windows_and_old_macs() {
        for (text, before, ends) in [
            ("a\nb\n", 0, 2),
            ("a\r\nb\r\n", 0, 2),
            ("a\rb\r", 0, 2),
            ("\n\r\n\r\r", 0, 4),
            ("\nb", b'\r', 0),
            ("\nb", b'a', 1),
        ] {
            assert_eq!(line_ends(text.as_bytes(), before), ends, "{text:?} behind {before}");
        }
    }
}
