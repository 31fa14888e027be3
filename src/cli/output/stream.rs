//! Rows of a result, one after the other, in constant memory.

use std::time::{Duration, Instant};

use serde::ser::SerializeTuple;
use serde::{Serialize, Serializer};

use crate::cli::failure::{Failure, Result};
use crate::cli::output::Output;
use crate::cli::output::format::Format;
use crate::cli::output::renaming::{Renamed, Renaming};
use crate::cli::output::row::{Chosen, Column, Row};
use crate::cli::output::sink::{Sink, stdout_failure, unencodable};
use crate::cli::output::table::Table;
use crate::cli::output::table::cell::Cell;
use crate::cli::output::terminal::Terminal;

/// Rows of a table that decide its widths.
const PAGE: usize = 1000;

/// A reader of a pipe waits no longer than this for a row that another one follows.
const SHOWN_AFTER: Duration = Duration::from_millis(100);

/// Rows being printed. Call [`finish`](Self::finish) when there are no more.
pub struct RowStream<'a> {
    rows: Rows<'a>,
    terminal: Terminal,
    shown: Instant,
    is_dry: bool,
    chosen: Chosen,
    /// Other names for the fields.
    renaming: Option<Renaming>,
    /// Whether a row that cannot be written is an error; else the work continues, and the end reports it.
    is_strict: bool,
}

/// The rows in their format, and what must be known between two of them.
enum Rows<'a> {
    Separated(Box<csv::Writer<&'a mut Sink>>),
    Plain { sink: &'a mut Sink, buffer: Vec<u8>, form: Form },
}

enum Form {
    Lines,
    Json { empty: bool },
    Yaml { empty: bool },
    Names,
    Table(Page),
}

/// A table: rows that wait for its widths to be decided, then the table.
enum Page {
    Waiting { headings: Vec<&'static str>, rows: Vec<Vec<Cell>> },
    Decided { table: Table, line: String },
}

impl<'a> RowStream<'a> {
    /// For rows like these.
    pub(crate) fn new<T: Row>(out: &'a mut Output, format: Format) -> Result<Self> {
        let (terminal, is_dry, chosen, renaming) = (out.terminal, out.is_dry, out.chosen, out.renaming.clone());
        let sink = &mut out.sink;
        if out.bom && format == Format::Csv && !sink.used {
            sink.write_data("\u{feff}".as_bytes());
        }
        let plain = |sink, form| Rows::Plain { sink, buffer: Vec::new(), form };
        let rows = match format {
            Format::Csv => separated::<T>(sink, b',', is_dry, chosen, renaming.as_ref())?,
            Format::Tsv => separated::<T>(sink, b'\t', is_dry, chosen, renaming.as_ref())?,
            Format::Jsonl => plain(sink, Form::Lines),
            Format::Json => plain(sink, Form::Json { empty: true }),
            Format::Yaml => plain(sink, Form::Yaml { empty: true }),
            Format::Name if T::NAME.is_some() => plain(sink, Form::Names),
            Format::Name | Format::Prometheus => return Err(crate::cli::output::no_form(format)),
            Format::Table => {
                let headings = Column::names(T::HEADINGS, chosen);
                plain(sink, Form::Table(Page::Waiting { headings, rows: Vec::new() }))
            }
        };
        Ok(Self { rows, terminal, shown: Instant::now(), is_dry, chosen, renaming, is_strict: false })
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
        self.lost().is_some()
    }

    /// Whether nobody reads any more, also if nothing was written since: a command that waits for more may stop.
    pub fn reader_left(&self) -> bool {
        self.is_lost() || crate::cli::output::sink::reader_left()
    }

    fn lost(&self) -> Option<&Failure> {
        match &self.rows {
            Rows::Separated(writer) => writer.get_ref().lost(),
            Rows::Plain { sink, .. } => sink.lost(),
        }
    }

    fn checked(&self) -> Result<()> {
        match self.lost() {
            Some(lost) if self.is_strict => Err(lost.clone()),
            _ => Ok(()),
        }
    }

    /// Adds a row: its fields are those of the rows that the stream is for.
    pub fn push<T: Row>(&mut self, row: &T) -> Result<()> {
        let is_change = !self.is_dry && row.is_change();
        match &mut self.rows {
            Rows::Separated(writer) => {
                writer.serialize(Record { row, chosen: self.chosen, is_dry: self.is_dry }).map_err(unencodable)?;
                if is_change {
                    writer.get_ref().keep_change(row)?;
                }
            }
            Rows::Plain { sink, buffer, form } => {
                match form {
                    Form::Table(page) => page.push(row, sink, &self.terminal, self.chosen, self.is_dry),
                    Form::Names => {
                        let name = T::NAME.map_or("", |name| name(row));
                        sink.write_data(format!("{name}\n").as_bytes());
                    }
                    _ => {
                        buffer.clear();
                        match (&self.renaming, self.is_dry) {
                            (Some(renaming), false) => form.encode(&Renamed(row, renaming), buffer)?,
                            (Some(renaming), true) => form.encode(&Dry::new(&Renamed(row, renaming)), buffer)?,
                            (None, true) => form.encode(&Dry::new(row), buffer)?,
                            (None, false) => form.encode(row, buffer)?,
                        }
                        sink.write_data(buffer);
                    }
                }
                if is_change {
                    sink.keep_change(row)?;
                }
            }
        }
        let is_page = matches!(&self.rows, Rows::Plain { form: Form::Table(Page::Waiting { .. }), .. });
        if !is_page && (self.terminal.shows_data || self.shown.elapsed() >= SHOWN_AFTER) {
            return self.show();
        }
        self.checked()
    }

    /// Shows what was pushed, before a wait that may be long.
    pub fn flush(&mut self) -> Result<()> {
        if let Rows::Plain { sink, form: Form::Table(page), .. } = &mut self.rows {
            page.decide(sink, &self.terminal, self.is_dry, false);
        }
        self.show()
    }

    /// Shows what was pushed, and waits until the reader of a pipe has taken it.
    ///
    /// # Errors
    /// The reader is gone, and did not take all of it.
    pub fn taken(&mut self) -> Result<()> {
        self.flush()?;
        if let Some(lost) = self.lost() {
            return Err(lost.clone());
        }
        crate::cli::output::sink::taken().map_err(|error| stdout_failure(&error))
    }

    /// Ends the result.
    pub fn finish(mut self) -> Result<()> {
        if let Rows::Plain { sink, form, .. } = &mut self.rows {
            match form {
                Form::Json { empty: true } => sink.write_data(b"[]\n"),
                Form::Json { empty: false } => sink.write_data(b"\n]\n"),
                Form::Yaml { empty: true } => sink.write_data(b"[]\n"),
                Form::Table(Page::Waiting { rows, .. }) if rows.is_empty() => self.terminal.note("nothing to show"),
                Form::Table(page) => page.decide(sink, &self.terminal, self.is_dry, true),
                _ => (),
            }
        }
        self.flush()
    }

    fn show(&mut self) -> Result<()> {
        self.shown = Instant::now();
        match &mut self.rows {
            Rows::Separated(writer) => writer.flush().map_err(|error| stdout_failure(&error))?,
            Rows::Plain { sink, .. } => sink.show(),
        }
        self.checked()
    }
}

/// A row of a dry run: it says so itself, so that nobody who keeps it takes it for a change.
#[derive(Serialize)]
pub(crate) struct Dry<'a, T> {
    #[serde(flatten)]
    row: &'a T,
    dry_run: bool,
}

impl<'a, T> Dry<'a, T> {
    pub(crate) fn new(row: &'a T) -> Self {
        Self { row, dry_run: true }
    }
}

impl Form {
    fn encode<T: Serialize>(&mut self, row: &T, buffer: &mut Vec<u8>) -> Result<()> {
        match self {
            Self::Lines => {
                serde_json::to_writer(&mut *buffer, row).map_err(unencodable)?;
                buffer.push(b'\n');
            }
            // A row a line: an array of a million can be read with `less`, and two of them compared with `diff`.
            Self::Json { empty } => {
                buffer.extend_from_slice(if *empty { b"[\n  " } else { b",\n  " });
                serde_json::to_writer(&mut *buffer, row).map_err(unencodable)?;
                *empty = false;
            }
            Self::Yaml { empty } => {
                crate::cli::output::format::yaml::encode(&[row], buffer).map_err(unencodable)?;
                *empty = false;
            }
            Self::Names | Self::Table(_) => (),
        }
        Ok(())
    }
}

impl Page {
    fn push<T: Row>(&mut self, row: &T, sink: &mut Sink, terminal: &Terminal, chosen: Chosen, is_dry: bool) {
        match self {
            Self::Waiting { rows, .. } => {
                rows.push(row.cells(chosen));
                if rows.len() >= PAGE {
                    self.decide(sink, terminal, is_dry, false);
                }
            }
            Self::Decided { table, line } => {
                line.clear();
                table.line(&row.cells(chosen), line);
                sink.write_safe(line);
            }
        }
    }

    /// Decides the widths from the rows that are there, and prints those; `is_all` if no others come.
    fn decide(&mut self, sink: &mut Sink, terminal: &Terminal, is_dry: bool, is_all: bool) {
        if let Self::Waiting { headings, rows } = self
            && !rows.is_empty()
        {
            let table = crate::cli::output::draw(None, is_dry, headings, rows, sink, terminal);
            match is_all {
                true => crate::cli::output::end(&table, headings, rows, sink, terminal),
                false => crate::cli::output::note_hidden(&table.hidden, terminal),
            }
            *self = Self::Decided { table, line: String::new() };
        }
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

/// A writer of separated values, its header written.
fn separated<'a, T: Row>(
    sink: &'a mut Sink,
    delimiter: u8,
    is_dry: bool,
    chosen: Chosen,
    renaming: Option<&Renaming>,
) -> Result<Rows<'a>> {
    let mut writer = csv::WriterBuilder::new().delimiter(delimiter).has_headers(false).from_writer(sink);
    let name = |field: &'static str| renaming.map_or(field, |renaming| renaming.name(field)).to_owned();
    let fields = Column::names(T::FIELDS, chosen).into_iter().map(name).chain(is_dry.then(|| "dry_run".to_owned()));
    writer.write_record(fields).map_err(unencodable)?;
    Ok(Rows::Separated(Box::new(writer)))
}
