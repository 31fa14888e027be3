//! A window over the blocks of an input: the record being read is always whole in it.

use crate::cli::failure::Failure;
use crate::cli::input::error::{self, utf16};
use crate::cli::input::orders::blocks::{BlockRead, Blocks};
use crate::cli::input::orders::{Next, RowError};
use crate::cli::input::problem::{Location, Problem};

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
    line: u64,
    next_line: u64,
    ended: bool,
}

impl Lines {
    pub(crate) fn new(blocks: Blocks) -> Self {
        Self { blocks, data: Vec::new(), start: 0, record: 0..0, line: 0, next_line: 1, ended: false }
    }

    /// Waits for the first bytes, and passes a byte order mark.
    pub(crate) fn begin(&mut self) -> Result<(), Failure> {
        while self.data.len() < 3 && self.fill()? != Next::End {
            self.blocks.wait_or_stop()?;
        }
        if error::is_utf16(&self.data[..self.data.len().min(4)]) {
            return Err(utf16(self.name()));
        }
        if self.data.starts_with(b"\xef\xbb\xbf") {
            self.start = 3;
        }
        Ok(())
    }

    /// The first line, or as much of it as is there.
    pub(crate) fn first_line(&mut self) -> Result<&[u8], Failure> {
        while !self.data[self.start..].contains(&b'\n') && self.data.len() < LONGEST && self.fill()? != Next::End {
            self.blocks.wait_or_stop()?;
        }
        Ok(self.data[self.start..].split(|byte| *byte == b'\n').next().unwrap_or_default())
    }

    pub(crate) fn name(&self) -> &str {
        self.blocks.name()
    }

    pub(crate) fn line(&self) -> u64 {
        self.line
    }

    /// The record that was read last, with its line end.
    pub(crate) fn raw(&self) -> &[u8] {
        &self.data[self.record.clone()]
    }

    /// Skips empty lines; false if nothing is left.
    pub(crate) fn skip_empty(&mut self) -> bool {
        while let Some(byte) = self.data.get(self.start) {
            match byte {
                b'\n' => self.next_line += 1,
                b'\r' => (),
                _ => return true,
            }
            self.start += 1;
        }
        false
    }

    /// What was read and not yet used.
    pub(crate) fn rest(&self) -> &[u8] {
        &self.data[self.start..]
    }

    /// Takes the next bytes of [`rest`](Self::rest) as a record.
    pub(crate) fn take(&mut self, length: usize) {
        self.record = self.start..self.start + length;
        self.start += length;
        self.line = self.next_line;
        self.next_line += memchr::memchr_iter(b'\n', &self.data[self.record.clone()]).count() as u64;
    }

    /// Reads on: [`Next::Row`] says that there is more in [`rest`](Self::rest).
    pub(crate) fn fill(&mut self) -> Result<Next, Failure> {
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
        Ok(match self.blocks.fill(&mut self.data)? {
            BlockRead::Bytes => Next::Row,
            BlockRead::NotYet => Next::NotYet,
            BlockRead::End => {
                self.ended = true;
                Next::End
            }
        })
    }

    /// A problem of the record that was read last, at a byte of it.
    pub(crate) fn bad(&self, byte: usize, message: impl Into<String>) -> RowError {
        RowError::Bad(self.problem(byte, message.into(), None))
    }

    /// The same, with the next step.
    pub(crate) fn problem(&self, byte: usize, message: String, hint: Option<String>) -> Problem {
        problem(self.line, column_of(self.raw(), byte), message, hint)
    }
}

/// A problem at a line and column, as editors count them.
pub(crate) fn problem(line: u64, column: usize, message: String, hint: Option<String>) -> Problem {
    Problem::new(Location { line: usize::try_from(line).unwrap_or(usize::MAX), column }, message).hint(hint)
}

/// The column of a byte of a record, counted from 1 in characters.
pub(crate) fn column_of(raw: &[u8], byte: usize) -> usize {
    String::from_utf8_lossy(&raw[..byte.min(raw.len())]).chars().count() + 1
}

/// The record as text.
pub(crate) fn utf8<'a>(lines: &Lines, bytes: &'a [u8]) -> Result<&'a str, RowError> {
    std::str::from_utf8(bytes).map_err(|_| {
        let raw = lines.raw();
        let valid = std::str::from_utf8(raw).err().map_or(0, |error| error.valid_up_to());
        let byte = raw.get(valid).copied().unwrap_or_default();
        if error::is_gbk(raw) {
            let message = format!("byte `0x{byte:02x}` is not UTF-8: the file seems to be GBK");
            return RowError::Bad(lines.problem(valid, message, Some(error::hint("GBK"))));
        }
        lines.bad(valid, format!("byte `0x{byte:02x}` is not UTF-8"))
    })
}
