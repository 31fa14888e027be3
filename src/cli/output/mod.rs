//! The only code that prints. Data goes to stdout; notes, progress, questions and errors to stderr.
//!
//! A command declares its rows by `row!` (`row`) and hands them to [`Output`], which prints them in a `format`: whole or as a
//! `stream`, for people as a `table` or on a `screen`. `sink` is standard output, `terminal` what this process may show,
//! `error` how it fails, `file` what it writes elsewhere, `text` what makes texts safe, coloured and short.

pub mod error;
pub mod file;
pub mod format;
mod progress;
mod renaming;
mod row;
mod screen;
pub mod sink;
mod stream;
mod table;
pub mod terminal;
#[cfg(test)]
mod tests;
pub mod text;

use std::io::{self, Write};
use std::ops::Deref;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::cli::failure::{Exit, Failure, Result};
use crate::cli::output::sink::Sink;

pub use crate::cli::output::error::{report, report_usage};
pub use crate::cli::output::file::{OutputFile, PrivateFile};
pub use crate::cli::output::format::Format;
pub use crate::cli::output::progress::Progress;
pub(crate) use crate::cli::output::renaming::Printed;
pub use crate::cli::output::renaming::Renaming;
pub(crate) use crate::cli::output::row::row;
pub use crate::cli::output::row::{Chosen, Column, Field, Row};
pub use crate::cli::output::screen::{Frame, Key, Screen, restore as restore_screen};
pub(crate) use crate::cli::output::sink::unencodable;
pub use crate::cli::output::stream::RowStream;
pub use crate::cli::output::table::cell::{Cell, Tone};
pub use crate::cli::output::terminal::{ColorChoice, Terminal, Warnings};
pub use crate::cli::output::text::{bars, bytes, counted, duration, hanging, named, plural, wrapped};

/// Where a command puts what it found, in the form the user asked for.
pub struct Output {
    format: Format,
    terminal: Terminal,
    sink: Sink,
    /// Whether nothing is changed, which each row says.
    is_dry: bool,
    /// Whether csv begins with a byte order mark.
    pub bom: bool,
    /// The server that is changed, if it is still to be named.
    target: Option<String>,
    /// Optional columns that rows have.
    chosen: Chosen,
    /// Other names for the fields of rows.
    renaming: Option<Renaming>,
    /// Files of the command that no output may replace, each with what becomes of it: `read` or `written`.
    used: Vec<(PathBuf, &'static str)>,
}

/// What it says beside its results, and asks, goes through its terminal.
impl Deref for Output {
    type Target = Terminal;

    fn deref(&self) -> &Terminal {
        &self.terminal
    }
}

impl Output {
    pub fn new(format: Format, color: ColorChoice, quiet: bool, verbose: bool) -> Self {
        Self::to(io::stdout(), format, Terminal::new(color, quiet, verbose))
    }

    /// Some other writer for the data.
    pub fn to(writer: impl Write + Send + 'static, format: Format, terminal: Terminal) -> Self {
        Self {
            format,
            terminal,
            sink: Sink::new(Box::new(writer), terminal.shows_data),
            is_dry: false,
            bom: false,
            target: None,
            chosen: &[],
            renaming: None,
            used: Vec::new(),
        }
    }

    /// For a run that changes nothing: from now on each row has `dry_run: true`, and tables say so.
    pub fn set_dry_run(&mut self, is_dry: bool) {
        self.is_dry = is_dry;
    }

    /// From now on rows have these of their optional columns.
    pub fn choose(&mut self, columns: Chosen) {
        self.chosen = columns;
    }

    /// From now on the fields of rows have other names. Tables, and values that are no rows, keep theirs.
    pub fn set_names(&mut self, renaming: Option<Renaming>) {
        self.renaming = renaming;
    }

    /// One that prints nothing, and protects the same files.
    pub fn unseen(&self) -> Self {
        let silent = Terminal { notes: false, details: false, progress: false, ..self.terminal };
        Self { used: self.used.clone(), ..Self::to(io::sink(), Format::Table, silent) }
    }

    /// From now on no output replaces these files, which are `read` or `written`; `-` is standard input.
    pub fn protect(&mut self, how: &'static str, paths: impl IntoIterator<Item = impl Into<PathBuf>>) {
        self.used.extend(paths.into_iter().map(|path| (path.into(), how)));
    }

    /// Begins the file that the flag `flag` names.
    ///
    /// # Errors
    /// It cannot be written, or has the results, messages or another file of the command.
    pub fn create(&self, flag: &str, path: &Path) -> Result<OutputFile> {
        OutputFile::create(flag, path, &self.used)
    }

    /// What is printed of a failure that nobody is left to report.
    pub fn last_words(&self, failure: &Failure) -> String {
        error::text(failure, self.format, ColorChoice::Never)
    }

    /// From now on commands that messages name have these options, such as ` -l sku`: they are for the same server and layout.
    pub fn name_commands_with(&mut self, options: String) {
        self.terminal.options = options.leak();
    }

    /// Names the server that is changed, on standard error. With json, jsonl and yaml, if no person reads that, an error is
    /// one object and nothing else: then it is a field of the object, and else said at the end.
    pub fn set_target(&mut self, target: &str) {
        match self.format.is_nested() && !self.terminal.is_read {
            true => self.target = Some(target.to_owned()),
            false => self.note(format!("on {target}")),
        }
    }

    /// Keeps rows that report changes, for a nested value: if standard output cannot be written, standard error names
    /// them. Rows that are printed as rows are kept anyway.
    pub fn keep_changes<T: Row>(&mut self, rows: &[T]) -> Result<()> {
        let mut changes = rows.iter().filter(|row| !self.is_dry && row.is_change());
        changes.try_for_each(|row| self.sink.keep_change(row))
    }

    /// The command is over: if standard output could not be written, that is an error, and the changes that were made
    /// come with it. A reader that closed the pipe changes nothing.
    pub fn end(&mut self, ended: Result<Exit>) -> Result<Exit> {
        self.sink.show();
        if self.is_dry && self.format != Format::Table && ended.is_ok() {
            self.note("dry run: nothing was changed");
        }
        let ended = match self.sink.take_lost() {
            Some((why, changes)) => Err(sink::output_lost(why, changes, ended)),
            None => ended,
        };
        let ended = ended.map_err(|failure| {
            let hint = failure.hint.map(|hint| self.terminal.with_options(&hint));
            Failure { hint, ..failure }
        });
        match (ended, self.target.take()) {
            (Err(failure), target) => Err(Failure { on: target, ..failure }),
            (Ok(exit), target) => {
                target.into_iter().for_each(|target| self.note(format!("on {target}")));
                Ok(exit)
            }
        }
    }

    pub fn format(&self) -> Format {
        self.format
    }

    /// What may be shown: a copy to say something by while rows are streamed.
    pub fn terminal(&self) -> Terminal {
        self.terminal
    }

    /// Prints one row: an object for machines, a table of one row for people.
    pub fn object<T: Row>(&mut self, row: &T) -> Result<()> {
        match self.format {
            Format::Json | Format::Yaml => {
                self.keep_changes(std::slice::from_ref(row))?;
                self.document(row)
            }
            _ => self.array(std::slice::from_ref(row)),
        }
    }

    /// Prints rows: an array for machines, a table for people.
    pub fn array<T: Row>(&mut self, rows: &[T]) -> Result<()> {
        if self.format == Format::Table {
            return self.table(None, rows);
        }
        let mut stream = self.stream::<T>()?;
        rows.iter().try_for_each(|row| stream.push(row))?;
        stream.finish()
    }

    /// Prints the rows of what was done before something failed, if anything was, and gives that failure.
    ///
    /// # Errors
    /// The failure, or rows that have no text.
    pub fn array_until<T: Row>(&mut self, rows: &[T], failed: Option<Failure>) -> Result<()> {
        if failed.is_none() || !rows.is_empty() {
            self.array(rows)?;
        }
        match failed {
            Some(failure) => Err(if rows.is_empty() { failure } else { failure.in_part() }),
            None => Ok(()),
        }
    }

    /// Prints rows as they come, in constant memory; the same text as [`array`](Self::array).
    pub fn stream<T: Row>(&mut self) -> Result<RowStream<'_>> {
        RowStream::new::<T>(self, self.format)
    }

    /// The same for programs: JSON lines instead of a table.
    pub fn stream_of_data<T: Row>(&mut self) -> Result<RowStream<'_>> {
        let format = if self.format == Format::Table { Format::Jsonl } else { self.format };
        RowStream::new::<T>(self, format)
    }

    /// Prints a nested value. The caller has rows for the formats that are flat.
    pub fn document<T: Serialize>(&mut self, value: &T) -> Result<()> {
        let value = &Printed { row: value, renaming: None, is_dry: self.is_dry };
        let mut text = Vec::new();
        match self.format {
            Format::Json => serde_json::to_writer_pretty(&mut text, value).map_err(unencodable)?,
            Format::Jsonl => serde_json::to_writer(&mut text, value).map_err(unencodable)?,
            Format::Yaml => format::yaml::encode(value, &mut text).map_err(unencodable)?,
            Format::Table | Format::Csv | Format::Tsv | Format::Name | Format::Prometheus => {
                return Err(no_form(self.format));
            }
        }
        if !text.ends_with(b"\n") {
            text.push(b'\n');
        }
        self.sink.write_data(&text);
        self.sink.show();
        Ok(())
    }

    /// Prints a table for people, whatever the format.
    pub fn table<T: Row>(&mut self, title: Option<&str>, rows: &[T]) -> Result<()> {
        let mut table = RowStream::table::<T>(self, title, usize::MAX);
        rows.iter().try_for_each(|row| table.push(row))?;
        table.finish()
    }

    pub fn line(&mut self, text: &str) {
        self.text(text);
        self.text("\n");
    }

    /// Prints a line of texts, each in the colour of its tone.
    pub fn parts<T: AsRef<str>>(&mut self, parts: &[(T, Tone)]) {
        let mut line = String::new();
        for (text, tone) in parts {
            text::paint(&mut line, &text::escape(text.as_ref()), *tone, self.terminal.colours_data);
        }
        line.push('\n');
        self.sink.write_safe(&line);
        self.sink.show();
    }

    /// Prints a text exactly as it is.
    pub fn text(&mut self, text: &str) {
        self.sink.write_data(text.as_bytes());
        self.sink.show();
    }

    /// For warnings that may be many: only the first ones are printed, then their number.
    pub fn warnings(&self) -> Warnings {
        Warnings::new(self.terminal)
    }

    /// Shows how far work of that many steps has come; 0 if nobody knows how many.
    pub fn progress(&self, label: &str, total: u64) -> Progress {
        Progress::new(&self.terminal, label, total)
    }
}

/// A nested value, asked for in a flat format.
fn no_form(format: Format) -> Failure {
    let why = format!("this result has no form as {}", format.name());
    Failure::usage(why).hint("`-o json`, `jsonl` and `yaml` show it")
}
