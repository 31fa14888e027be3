//! Rows of a result, one after the other, in constant memory.

use std::time::{Duration, Instant};

use serde::ser::SerializeTuple;
use serde::{Serialize, Serializer};

use crate::cli::failure::Result;
use crate::cli::output::format::Format;
use crate::cli::output::renaming::Printed;
use crate::cli::output::row::{Chosen, Column, Row};
use crate::cli::output::sink::{stdout_failure, unencodable};
use crate::cli::output::table::Table;
use crate::cli::output::table::cell::Cell;
use crate::cli::output::text::{Tone, escape, paint};
use crate::cli::output::{Output, format, no_form, sink};

/// Rows of a table that decide its widths.
const PAGE: usize = 1000;

/// A reader of a pipe waits no longer than this for a row that another one follows.
const SHOWN_AFTER: Duration = Duration::from_millis(100);

/// Bytes of most rows of csv.
const CSV_BUFFER: usize = 512;

/// The title of a table of a dry run.
const DRY_RUN: &str = "Dry run: nothing was changed";

/// Rows being printed. Call [`finish`](Self::finish) when there are no more.
pub struct RowStream<'a> {
    out: &'a mut Output,
    form: Form,
    /// The row that is being encoded.
    buffer: Vec<u8>,
    shown: Instant,
    /// Whether a row that cannot be written is an error; else the work continues, and the end reports it.
    is_strict: bool,
}

/// The format of the rows, and what must be known between two of them.
enum Form {
    Separated(Box<csv::WriterBuilder>),
    Lines,
    Json { empty: bool },
    Yaml { empty: bool },
    Names,
    Table(Page),
}

/// A table.
struct Page {
    title: Option<String>,
    headings: Vec<&'static str>,
    /// Rows that wait for the widths to be decided, and how many decide them.
    rows: Vec<Vec<Cell>>,
    most: usize,
    /// The widths, once they are.
    table: Option<Table>,
}

impl<'a> RowStream<'a> {
    /// For rows like these.
    pub(crate) fn new<T: Row>(out: &'a mut Output, format: Format) -> Result<Self> {
        let form = match format {
            Format::Csv | Format::Tsv => {
                if out.bom && format == Format::Csv && !out.sink.used {
                    out.sink.write_data("\u{feff}".as_bytes());
                }
                let mut builder = csv::WriterBuilder::new();
                builder.delimiter(if format == Format::Tsv { b'\t' } else { b',' });
                builder.has_headers(false).buffer_capacity(CSV_BUFFER);
                Form::Separated(Box::new(builder))
            }
            Format::Jsonl => Form::Lines,
            Format::Json => Form::Json { empty: true },
            Format::Yaml => Form::Yaml { empty: true },
            Format::Name if T::NAME.is_some() => Form::Names,
            Format::Name | Format::Prometheus => return Err(no_form(format)),
            Format::Table => return Ok(Self::table::<T>(out, None, PAGE)),
        };
        let mut stream = Self { out, form, buffer: Vec::new(), shown: Instant::now(), is_strict: false };
        if let Form::Separated(builder) = &stream.form {
            let Output { renaming, chosen, is_dry, .. } = &*stream.out;
            let name = |field| renaming.as_ref().map_or(field, |renaming| renaming.name(field));
            let names = Column::names(T::FIELDS, chosen).into_iter().map(name).chain(is_dry.then_some("dry_run"));
            builder.from_writer(&mut stream.buffer).write_record(names).map_err(unencodable)?;
            stream.out.sink.write_data(&stream.buffer);
        }
        Ok(stream)
    }

    /// A table whose widths are decided by its first rows, at most that number.
    pub(crate) fn table<T: Row>(out: &'a mut Output, title: Option<&str>, most: usize) -> Self {
        let headings = Column::names(T::HEADINGS, out.chosen);
        let page = Page { title: title.map(str::to_owned), headings, rows: Vec::new(), most, table: None };
        Self { out, form: Form::Table(page), buffer: Vec::new(), shown: Instant::now(), is_strict: false }
    }

    /// From now on a row that cannot be written is an error, also if the reader only closed the pipe: for a run that
    /// prints a row per order, and stops when nobody takes them.
    #[must_use]
    pub fn strict(mut self) -> Self {
        self.is_strict = true;
        self
    }

    /// Whether rows are dropped because standard output cannot be written: a command that only reads may stop.
    pub fn is_lost(&self) -> bool {
        self.out.sink.lost().is_some()
    }

    /// Whether nobody reads any more, also if nothing was written since: a command that waits for more may stop.
    pub fn reader_left(&self) -> bool {
        self.is_lost() || sink::reader_left()
    }

    fn checked(&self) -> Result<()> {
        match self.out.sink.lost() {
            Some(lost) if self.is_strict => Err(lost.clone()),
            _ => Ok(()),
        }
    }

    /// Adds a row: its fields are those of the rows that the stream is for.
    pub fn push<T: Row>(&mut self, row: &T) -> Result<()> {
        let is_change = !self.out.is_dry && row.is_change();
        match &mut self.form {
            Form::Table(Page { table: Some(table), .. }) => {
                self.out.sink.write_safe(&table.line(&row.cells(self.out.chosen)));
            }
            Form::Table(page) => {
                page.rows.push(row.cells(self.out.chosen));
                if page.rows.len() >= page.most {
                    page.decide(self.out, false);
                }
            }
            form => {
                self.buffer.clear();
                form.encode(row, self.out, &mut self.buffer)?;
                self.out.sink.write_data(&self.buffer);
            }
        }
        if is_change {
            self.out.sink.keep_change(row)?;
        }
        let is_waiting = matches!(&self.form, Form::Table(Page { table: None, .. }));
        if !is_waiting && (self.out.terminal.shows_data || self.shown.elapsed() >= SHOWN_AFTER) {
            return self.show();
        }
        self.checked()
    }

    /// Shows what was pushed, before a wait that may be long.
    pub fn flush(&mut self) -> Result<()> {
        if let Form::Table(page) = &mut self.form {
            page.decide(self.out, false);
        }
        self.show()
    }

    /// Shows what was pushed, and waits until the reader of a pipe has taken it.
    ///
    /// # Errors
    /// The reader is gone, and did not take all of it.
    pub fn wait_until_taken(&mut self) -> Result<()> {
        self.flush()?;
        if let Some(lost) = self.out.sink.lost() {
            return Err(lost.clone());
        }
        sink::wait_until_taken().map_err(|error| stdout_failure(&error))
    }

    /// Ends the result.
    pub fn finish(mut self) -> Result<()> {
        match &mut self.form {
            Form::Json { empty: true } | Form::Yaml { empty: true } => self.out.sink.write_data(b"[]\n"),
            Form::Json { empty: false } => self.out.sink.write_data(b"\n]\n"),
            Form::Table(Page { title, table: None, rows, .. }) if rows.is_empty() => {
                let title = title.as_ref().map(|title| format!("{title}: ")).unwrap_or_default();
                self.out.note(format!("{title}nothing to show"));
            }
            Form::Table(page) => page.decide(self.out, true),
            Form::Yaml { empty: false } | Form::Separated(_) | Form::Lines | Form::Names => (),
        }
        self.show()
    }

    fn show(&mut self) -> Result<()> {
        self.shown = Instant::now();
        self.out.sink.show();
        self.checked()
    }
}

impl Form {
    /// Appends the text of a row. Those of a table have none by themselves.
    fn encode<T: Row>(&mut self, row: &T, out: &Output, text: &mut Vec<u8>) -> Result<()> {
        let Output { chosen, is_dry, .. } = *out;
        let printed = Printed { row, renaming: out.renaming.as_ref(), is_dry };
        match self {
            Self::Separated(builder) => {
                builder.from_writer(text).serialize(Record { row, chosen, is_dry }).map_err(unencodable)?;
            }
            Self::Lines => {
                serde_json::to_writer(&mut *text, &printed).map_err(unencodable)?;
                text.push(b'\n');
            }
            // A row a line: an array of a million can be read with `less`, and two of them compared with `diff`.
            Self::Json { empty } => {
                text.extend_from_slice(if *empty { b"[\n  " } else { b",\n  " });
                serde_json::to_writer(text, &printed).map_err(unencodable)?;
                *empty = false;
            }
            Self::Yaml { empty } => {
                format::yaml::encode(&[printed], text).map_err(unencodable)?;
                *empty = false;
            }
            Self::Names => {
                text.extend_from_slice(T::NAME.map_or("", |name| name(row)).as_bytes());
                text.push(b'\n');
            }
            Self::Table(_) => (),
        }
        Ok(())
    }
}

impl Page {
    /// Decides the widths from the rows that are there, and prints those below the title, with a blank line between it and
    /// what came before; `is_all` if no others come.
    fn decide(&mut self, out: &mut Output, is_all: bool) {
        if self.table.is_some() || self.rows.is_empty() {
            return;
        }
        let Output { sink, terminal, is_dry, .. } = out;
        let dry = (*is_dry && !sink.used).then_some(DRY_RUN);
        if sink.used {
            sink.write_safe("\n");
        }
        for title in dry.into_iter().chain(self.title.as_deref()) {
            let mut line = String::new();
            paint(&mut line, &escape(title), Tone::Strong, terminal.colours_data);
            sink.write_safe(&format!("{line}\n"));
        }
        let rows = std::mem::take(&mut self.rows);
        let table = Table::new(&self.headings, &rows, terminal.width, terminal.colours_data);
        sink.write_safe(&table.page(&rows));
        let mut hidden = table.hidden.clone();
        if is_all {
            sink.write_safe(&self.lost(&table, &rows, &mut hidden));
        }
        if !hidden.is_empty() {
            terminal.note(format!("no room for {}; another `--output` has everything", hidden.join(", ")));
        }
        self.table = Some(table);
    }

    /// What had no room, or not enough, and is the same in all rows is shown below them: the request id of an order must not
    /// be lost.
    fn lost(&self, table: &Table, rows: &[Vec<Cell>], hidden: &mut Vec<String>) -> String {
        let mut below = String::new();
        for (index, heading) in self.headings.iter().map(|heading| heading.to_uppercase()).enumerate() {
            let cells = || rows.iter().filter_map(|row| row.get(index));
            let is_complete = |cell: &Cell| table.room(index).is_some_and(|columns| cell.is_complete(columns));
            let Some(first) = cells().next().filter(|first| !is_complete(first)) else { continue };
            let text = first.shown(usize::MAX);
            if cells().all(|cell| cell.shown(usize::MAX) == text) {
                hidden.retain(|hidden| *hidden != heading);
                // One that is empty has nothing to lose.
                if !heading.is_empty() && !text.is_empty() {
                    below += &format!("{heading}  {text}\n");
                }
            }
        }
        below
    }
}

/// The values of a row in csv.
struct Record<'a, R> {
    row: &'a R,
    chosen: Chosen,
    is_dry: bool,
}

impl<R: Row> Serialize for Record<'_, R> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut record = serializer.serialize_tuple(R::FIELDS.len())?;
        self.row.record(self.chosen, &mut record)?;
        if self.is_dry {
            record.serialize_element(&true)?;
        }
        record.end()
    }
}
