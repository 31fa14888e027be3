//! A loader: a shell command that gets rows on its standard input, and says by its exit status whether it has them.

use std::io::{self, ErrorKind, Write};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};

use crate::cli::commands::ledger::rows::LedgerRow;
use crate::cli::error::Result;
use crate::cli::failure::Failure;
use crate::cli::output::text::counted;
use crate::cli::output::{Format, Output, Renaming, Terminal};
use crate::error::cause;

/// Runs a command for every batch of rows.
pub(super) struct Loader {
    command: String,
    batch: usize,
    format: Format,
    names: Option<Renaming>,
}

impl Loader {
    /// A command, the most rows that it gets at once, their format, and other names for their fields.
    pub(super) fn new(command: &str, batch: usize, format: Format, names: Option<Renaming>) -> Self {
        Self { command: command.to_owned(), batch, format, names }
    }

    pub(super) fn batch(&self) -> usize {
        self.batch
    }

    /// Runs the command for these rows.
    ///
    /// # Errors
    /// It cannot be run, or did not end with 0: it may have some of the rows, or none.
    pub(super) fn load(&self, rows: &[LedgerRow]) -> Result<()> {
        let input = self.encode(rows)?;
        let failed = |why: String| {
            Failure::failed(format!(
                "`{}` {why}: nothing is acknowledged of {}",
                self.command,
                counted(rows.len(), "row")
            ))
            .hint("the same command delivers them again")
        };
        let unusable = |error: io::Error| failed(format!("cannot be run ({})", cause(&error)));
        let mut child =
            Command::new("sh").arg("-c").arg(&self.command).stdin(Stdio::piped()).spawn().map_err(unusable)?;
        // Its end of the pipe is closed by the drop, which is how it knows that this is all.
        let written = child.stdin.take().map_or(Ok(()), |mut stdin| stdin.write_all(&input));
        let status = child.wait().map_err(unusable)?;
        if !status.success() {
            return Err(failed(match status.code() {
                Some(code) => format!("ended with {code}"),
                None => "was ended by a signal".to_owned(),
            })
            .into());
        }
        match written {
            // It had enough: that it ended with 0 is what counts.
            Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(unusable(error).into()),
            _ => Ok(()),
        }
    }

    fn encode(&self, rows: &[LedgerRow]) -> Result<Vec<u8>> {
        let buffer = Buffer::default();
        let mut out = Output::to(buffer.clone(), self.format, Terminal::default());
        out.set_names(self.names.clone());
        out.array(rows)?;
        drop(out);
        Ok(std::mem::take(&mut *buffer.0.lock().unwrap_or_else(PoisonError::into_inner)))
    }
}

/// Bytes that an [`Output`] writes and we read back.
#[derive(Clone, Default)]
struct Buffer(Arc<Mutex<Vec<u8>>>);

impl Write for Buffer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
