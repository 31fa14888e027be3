//! The only code that prints. Data goes to stdout; notes, progress, questions and errors to stderr.

pub mod cell;
pub mod confirm;
pub mod error;
pub mod escape;
pub mod file;
mod fit;
pub mod format;
pub mod notes;
mod paint;
pub mod progress;
pub mod rows;
pub mod sink;
mod table;
mod taken;
pub mod terminal;
#[cfg(test)]
mod tests;
mod yaml;

use std::io::{self, Write};

use anyhow::Result;
use serde::Serialize;

pub use cell::{Cell, Tone};
pub use error::{report, report_usage};
pub use file::OutputFile;
pub use format::Format;
pub use progress::Progress;
pub use rows::{Row, RowStream};
pub use sink::is_broken_pipe;
pub use terminal::{ColorChoice, Terminal};

use crate::inventory::failure::Failure;
use sink::Sink;
use table::Table;

/// Where a command puts what it found, in the form the user asked for.
pub struct Output {
    format: Format,
    terminal: Terminal,
    sink: Sink,
}

impl Output {
    /// Standard output, as the flags and the environment want it.
    pub fn new(format: Format, color: ColorChoice, quiet: bool, verbose: bool) -> Self {
        Self::to(io::stdout(), format, Terminal::new(color, quiet, verbose))
    }

    /// Some other place for the data.
    pub fn to(place: impl Write + Send + 'static, format: Format, terminal: Terminal) -> Self {
        Self { format, terminal, sink: Sink::new(Box::new(place), terminal.shows_data) }
    }

    /// The form the user asked for.
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
            Format::Json | Format::Yaml => self.document(row),
            _ => self.array(std::slice::from_ref(row)),
        }
    }

    /// Prints rows: an array for machines, a table for people.
    pub fn array<T: Row>(&mut self, rows: &[T]) -> Result<()> {
        if self.format == Format::Table && !rows.is_empty() {
            return self.table(None, rows);
        }
        let mut stream = self.stream::<T>()?;
        rows.iter().try_for_each(|row| stream.push(row))?;
        stream.finish()
    }

    /// Prints rows as they come, in constant memory; the same text as [`array`](Self::array).
    pub fn stream<T: Row>(&mut self) -> Result<RowStream<'_, T>> {
        RowStream::new(self)
    }

    /// Prints a nested value. The caller has rows for the formats that are flat.
    pub fn document<T: Serialize>(&mut self, value: &T) -> Result<()> {
        let mut text = Vec::new();
        match self.format {
            Format::Json => serde_json::to_writer_pretty(&mut text, value)?,
            Format::Jsonl => serde_json::to_writer(&mut text, value)?,
            Format::Yaml => yaml::encode(value, &mut text)?,
            Format::Table | Format::Csv | Format::Tsv => {
                return Err(Failure::usage(format!("this result has no form as {}", self.format.name()))
                    .hint("`-o json`, `jsonl` and `yaml` show it")
                    .into());
            }
        }
        if !text.ends_with(b"\n") {
            text.push(b'\n');
        }
        self.sink.write_data(&text)?;
        Ok(self.sink.show()?)
    }

    /// Prints a table for people, whatever the format, with a blank line between it and what came before.
    pub fn table<T: Row>(&mut self, title: Option<&str>, rows: &[T]) -> Result<()> {
        if rows.is_empty() {
            self.terminal
                .note(format!("{}nothing to show", title.map(|title| format!("{title}: ")).unwrap_or_default()));
            return Ok(());
        }
        if self.sink.used {
            self.sink.write_safe("\n")?;
        }
        if let Some(title) = title {
            let mut line = String::new();
            paint::paint(&mut line, &escape::escape(title), Tone::Strong, self.terminal.colours_data);
            line.push('\n');
            self.sink.write_safe(&line)?;
        }
        let rows: Vec<Vec<Cell>> = rows.iter().map(Row::cells).collect();
        draw(T::HEADINGS, &rows, &mut self.sink, &self.terminal)?;
        Ok(self.sink.show()?)
    }

    /// Prints one line.
    pub fn line(&mut self, text: &str) -> Result<()> {
        self.text(text)?;
        self.text("\n")
    }

    /// Prints a text exactly as it is.
    pub fn text(&mut self, text: &str) -> Result<()> {
        self.sink.write_data(text.as_bytes())?;
        Ok(self.sink.show()?)
    }

    /// Says something good to know; not with `--quiet`.
    pub fn note(&self, text: impl AsRef<str>) {
        self.terminal.note(text);
    }

    /// Says the next step; not with `--quiet`.
    pub fn hint(&self, text: impl AsRef<str>) {
        self.terminal.hint(text);
    }

    /// Says what to look after, even with `--quiet`.
    pub fn warn(&self, text: impl AsRef<str>) {
        self.terminal.warn(text);
    }

    /// Says something for who wants to know more; only with `--verbose`.
    pub fn detail(&self, text: impl AsRef<str>) {
        self.terminal.detail(text);
    }

    /// Asks before something is lost; see [`Terminal::confirm`].
    pub fn confirm(&self, question: &str, yes: bool) -> Result<()> {
        self.terminal.confirm(question, yes)
    }

    /// Shows how far work of that many steps has come; 0 where nobody knows how many.
    pub fn progress(&self, label: &str, total: u64) -> Progress {
        Progress::new(&self.terminal, label, total)
    }
}

/// Draws the first rows of a table, and says which columns had no room.
fn draw(headings: &[&str], rows: &[Vec<Cell>], sink: &mut Sink, terminal: &Terminal) -> Result<Table> {
    let table = Table::new(headings, rows, terminal.width, terminal.colours_data);
    sink.write_safe(&table.page(rows))?;
    if !table.hidden().is_empty() {
        let hidden = table.hidden().join(", ");
        terminal.note(format!("no room for {hidden}; another `--output` has everything"));
    }
    Ok(table)
}
