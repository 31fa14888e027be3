//! Standard output: buffered, escaped where a person would see it raw, with errors that can be told from others.

use std::io::{self, BufWriter, Write};

use super::escape::escape_data;

/// Bytes kept until they are written at once.
const BUFFER: usize = 64 * 1024;

/// Standard output could not be written.
#[derive(Debug, thiserror::Error)]
#[error("cannot write to standard output: {0}")]
pub struct Unwritable(#[from] io::Error);

/// Whether nobody reads standard output any more, as in `seckill inspect … | head -1`. A broken connection to the
/// server is another error, and not meant here.
pub fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.downcast_ref::<Unwritable>().is_some_and(|unwritable| unwritable.0.kind() == io::ErrorKind::BrokenPipe)
}

/// Where data goes.
pub(super) struct Sink {
    out: BufWriter<Box<dyn Write + Send>>,
    /// Whether a terminal shows what is written.
    escaping: bool,
    /// An unfinished line: a character may come in two writes.
    line: Vec<u8>,
    /// Whether anything was written, so that a table knows to keep its distance.
    pub(super) used: bool,
}

impl Sink {
    pub(super) fn new(out: Box<dyn Write + Send>, escaping: bool) -> Self {
        Self { out: BufWriter::with_capacity(BUFFER, out), escaping, line: Vec::new(), used: false }
    }

    /// Writes text that is safe already and may hold colours.
    pub(super) fn write_safe(&mut self, text: &str) -> Result<(), Unwritable> {
        self.used = true;
        Ok(self.out.write_all(text.as_bytes())?)
    }

    /// Writes bytes of data, all of them.
    pub(super) fn write_data(&mut self, bytes: &[u8]) -> Result<(), Unwritable> {
        Ok(self.write_all(bytes)?)
    }

    /// Shows what was written.
    pub(super) fn show(&mut self) -> Result<(), Unwritable> {
        Ok(self.flush()?)
    }

    /// Writes the unfinished line up to `end`, escaped.
    fn write_escaped(&mut self, end: usize) -> io::Result<()> {
        let text = String::from_utf8_lossy(&self.line[..end]);
        self.out.write_all(escape_data(&text).as_bytes())?;
        self.line.drain(..end);
        Ok(())
    }
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.used = true;
        if !self.escaping {
            return self.out.write(bytes);
        }
        self.line.extend_from_slice(bytes);
        if let Some(last) = self.line.iter().rposition(|byte| *byte == b'\n') {
            self.write_escaped(last + 1)?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.write_escaped(self.line.len())?;
        self.out.flush()
    }
}
