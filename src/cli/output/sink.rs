//! Standard output: buffered, escaped if a person would see it raw.
//!
//! Writing never fails for who writes. A reader that closed the pipe, or a full disk, must not stop a command in the
//! middle of its work, so the sink remembers the first error and drops all further data. [`Output::end`] reports it.
//!
//! [`Output::end`]: crate::cli::output::Output::end

use std::io::{self, BufWriter, Write};
use std::thread::sleep;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FileType, fstat};
use rustix::io::ioctl_fionread;
use serde::Serialize;
use serde_yaml::Value;

use crate::cli::failure::{Cause, Exit, Failure, Result};
use crate::cli::output::text::escape_data;

/// Bytes kept until they are written at once.
const BUFFER: usize = 64 * 1024;

/// Standard output that cannot be written.
pub(crate) fn stdout_failure(error: &io::Error) -> Failure {
    let cause = Cause::Output { is_closed: error.kind() == io::ErrorKind::BrokenPipe };
    Failure { cause, ..Failure::failed(format!("cannot write to standard output: {}", crate::error::cause(error))) }
}

/// A value that the format has no text for.
pub(crate) fn unencodable(error: impl Into<anyhow::Error>) -> Failure {
    Failure::from(error.into().context("cannot encode the result"))
}

pub(crate) struct Sink {
    out: BufWriter<Box<dyn Write + Send>>,
    /// Whether a terminal shows what is written.
    escaping: bool,
    /// An unfinished line: a character may come in two writes.
    line: Vec<u8>,
    /// Whether anything was written, so that a table knows to keep its distance.
    pub(crate) used: bool,
    /// The first error. All data after it is dropped.
    lost: Option<Failure>,
    /// Changes whose rows were not flushed yet. YAML's values keep the order of their fields, JSON's do not.
    changes: Vec<Value>,
}

impl Sink {
    pub(crate) fn new(out: Box<dyn Write + Send>, escaping: bool) -> Self {
        let out = BufWriter::with_capacity(BUFFER, out);
        Self { out, escaping, line: Vec::new(), used: false, lost: None, changes: Vec::new() }
    }

    /// Writes text that is safe already and may hold colours.
    pub(crate) fn write_safe(&mut self, text: &str) {
        self.used = true;
        self.put(text.as_bytes());
    }

    /// Writes bytes of data, all of them.
    pub(crate) fn write_data(&mut self, bytes: &[u8]) {
        self.used = true;
        if !self.escaping {
            self.put(bytes);
            return;
        }
        self.line.extend_from_slice(bytes);
        if let Some(last) = self.line.iter().rposition(|byte| *byte == b'\n') {
            self.put_escaped(last + 1);
        }
    }

    /// Shows what was written.
    pub(crate) fn show(&mut self) {
        self.put_escaped(self.line.len());
        if self.lost.is_none() {
            match self.out.flush() {
                Ok(()) => self.changes.clear(),
                Err(error) => self.lose(error),
            }
        }
    }

    /// Why nothing is written any more.
    pub(crate) fn lost(&self) -> Option<&Failure> {
        self.lost.as_ref()
    }

    /// Keeps a row that reports a change until it was flushed: if it cannot be, standard error gets it instead.
    pub(crate) fn keep_change(&mut self, row: &impl Serialize) -> Result<()> {
        if !self.lost.as_ref().is_some_and(Failure::is_broken_pipe) {
            self.changes.push(serde_yaml::to_value(row).map_err(unencodable)?);
        }
        Ok(())
    }

    /// The error and the changes that standard output did not get; nothing if a reader closed the pipe.
    pub(crate) fn take_lost(&mut self) -> Option<(Failure, Vec<Value>)> {
        let lost = self.lost.take_if(|lost| !lost.is_broken_pipe())?;
        Some((lost, std::mem::take(&mut self.changes)))
    }

    fn put(&mut self, bytes: &[u8]) {
        if self.lost.is_none()
            && let Err(error) = self.out.write_all(bytes)
        {
            self.lose(error);
        }
    }

    fn lose(&mut self, error: io::Error) {
        self.lost = Some(stdout_failure(&error));
        // What is buffered is dropped too, or it would be tried again at the end.
        let nowhere = BufWriter::with_capacity(0, Box::new(io::sink()) as Box<dyn Write + Send>);
        drop(std::mem::replace(&mut self.out, nowhere).into_parts());
    }

    /// Writes the unfinished line up to `end`, escaped.
    fn put_escaped(&mut self, end: usize) {
        let text = escape_data(&String::from_utf8_lossy(&self.line[..end])).into_owned();
        self.put(text.as_bytes());
        self.line.drain(..end);
    }
}

/// The failure of a command whose data nobody got. A command that failed as well keeps its own exit code and hint.
pub(crate) fn output_lost(why: Failure, changes: Vec<Value>, ended: Result<Exit>) -> Failure {
    let mut failure = match ended {
        Ok(_) => why,
        // A run that stopped because of it has said so.
        Err(failure) if failure.message.contains(&why.message) => failure,
        Err(failure) => Failure { message: format!("{}; and {why}", failure.message), ..failure },
    };
    failure.hint = failure.hint.or_else(|| {
        Some(match changes.is_empty() {
            true => "send the output to where there is room, and run the command again".to_owned(),
            false => "what is listed as changed is done: do not repeat it".to_owned(),
        })
    });
    Failure { changes: Some(changes), ..failure }
}

/// A change in words: `activity 1001, user 7, …`. What is not known is left out.
pub(crate) fn in_words(change: &Value) -> String {
    let fields = change.as_mapping().into_iter().flatten();
    let known = fields.filter(|(_, value)| !value.is_null());
    known.map(|(name, value)| format!("{} {}", text(name), text(value))).collect::<Vec<_>>().join(", ")
}

fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => serde_json::to_string(other).unwrap_or_default(),
    }
}

/// Whether the reader of a pipe is gone. What is no pipe always has a reader.
pub(crate) fn reader_left() -> bool {
    let out = io::stdout();
    let is_pipe = fstat(&out).is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Fifo);
    let mut fds = [PollFd::new(&out, PollFlags::empty())];
    is_pipe && poll(&mut fds, Some(&Timespec::default())).is_ok() && fds[0].revents().contains(PollFlags::ERR)
}

/// Waits while bytes of ours are in a pipe; what is no pipe has taken what was written.
///
/// # Errors
/// A broken pipe: the reader is gone, and what was left in the pipe with it.
pub(crate) fn wait_until_taken() -> io::Result<()> {
    let out = io::stdout();
    if FileType::from_raw_mode(fstat(&out)?.st_mode) != FileType::Fifo {
        return Ok(());
    }
    let mut pause = Duration::from_micros(50);
    while ioctl_fionread(&out)? > 0 {
        let mut fds = [PollFd::new(&out, PollFlags::empty())];
        poll(&mut fds, Some(&Timespec::default()))?;
        if fds[0].revents().contains(PollFlags::ERR) {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(20));
    }
    Ok(())
}
