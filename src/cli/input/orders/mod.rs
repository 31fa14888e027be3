//! Files of orders: csv, tsv and jsonl, read a row at a time in constant memory. Which of them an input is, its name or first line says.
//!
//! A bulk run reads orders with it, and an audit reads order records: what differs is a [`Shape`].

mod blocks;
mod file_order;
mod jsonl;
mod row;
mod separated;
#[cfg(test)]
mod tests;

use std::path::Path;

use crate::cli::failure::{Failure, Result};
use crate::cli::input::columns::Columns;
use crate::cli::input::error::{Problem, Problems};
use crate::cli::input::orders::jsonl::JsonLines;
use crate::names;

pub use crate::cli::input::columns::Mapping;
pub(super) use crate::cli::input::orders::blocks::Lines;
pub use crate::cli::input::orders::blocks::{Blocks, ContentDigests};
pub use crate::cli::input::orders::file_order::FileOrder;
pub(crate) use crate::cli::input::orders::row::is_rounded;
pub use crate::cli::input::orders::row::{Column, OrderRow, Quantities, Shape};
pub(super) use crate::cli::input::orders::separated::Separated;

/// What came of asking for the next row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    Row,
    /// Nothing has arrived yet; see [`Blocks::wait`]. Never of a regular file.
    NotYet,
    End,
}

/// Why there is no row.
#[derive(Debug)]
pub enum RowError {
    /// This line is not valid; the next one may be.
    Bad(Problem),
    /// The input cannot be read on.
    Fatal(Failure),
}

impl From<Failure> for RowError {
    fn from(error: Failure) -> Self {
        Self::Fatal(error)
    }
}

/// Rows of one input, in its order.
pub struct OrderReader {
    /// What they are read of, and the last one as it is written.
    pub(crate) lines: Lines,
    /// The form that was recognised: with it the input is read the same way again.
    pub(crate) format: RowFormat,
    form: Form,
    shape: Shape,
    columns: Columns<Column>,
}

enum Form {
    Separated(Separated<Column>),
    Json(JsonLines),
}

impl OrderReader {
    /// Begins to read: recognises the dialect and, of csv and tsv, the header.
    ///
    /// # Errors
    /// Usage, if the header lacks a column that is wanted; or the input cannot be read.
    pub fn new(blocks: Blocks, format: RowFormat, mapping: &Mapping, shape: Shape) -> Result<Self> {
        let columns = Columns::new(shape.required, shape.optional, mapping)?;
        let mut lines = Lines::new(blocks);
        lines.begin()?;
        let name = lines.name().to_owned();
        let first_line = if format.dialect.is_none() { lines.first_line()? } else { &[] };
        let (dialect, delimiter) = format.of(&name, first_line)?;
        let form = match dialect {
            Dialect::Jsonl => Form::Json(JsonLines::new(columns.clone(), &shape)),
            _ => {
                let opened = Separated::open(dialect, delimiter, &mut lines, &columns);
                Form::Separated(opened.map_err(|error| match error {
                    RowError::Fatal(failure) => failure,
                    RowError::Bad(problem) => Problems::only(&name, problem),
                })?)
            }
        };
        let format =
            RowFormat { dialect: Some(dialect), delimiter: Some(delimiter).filter(|_| dialect == Dialect::Csv) };
        Ok(Self { lines, format, form, shape, columns })
    }

    /// Reads the next row into `row`, which is only valid after [`Next::Row`].
    ///
    /// # Errors
    /// The line is bad, and another call reads the next one; or nothing more can be read.
    pub fn next(&mut self, row: &mut OrderRow) -> Result<Next, RowError> {
        row.clear();
        let next = match &mut self.form {
            Form::Separated(form) => form.next(&mut self.lines, row)?,
            Form::Json(form) => form.next(&mut self.lines, row)?,
        };
        if next == Next::Row {
            row.line = self.lines.line;
            row.check(&self.shape, &self.columns).map_err(|wrong| RowError::Bad(self.problem(wrong)))?;
        }
        Ok(next)
    }

    /// Reads the next row, however long it takes to arrive; false at the end.
    pub fn read(&mut self, row: &mut OrderRow) -> Result<bool, RowError> {
        loop {
            match self.next(row)? {
                Next::Row => return Ok(true),
                Next::End => return Ok(false),
                Next::NotYet => self.lines.blocks.wait_or_stop()?,
            }
        }
    }

    /// The header of csv and tsv, unchanged; empty for jsonl.
    pub fn header(&self) -> &[u8] {
        match &self.form {
            Form::Separated(form) => &form.header,
            Form::Json(_) => &[],
        }
    }

    /// Columns that are ignored; in jsonl those of the rows that were read, as far as they are kept.
    pub fn ignored(&self) -> &[String] {
        match &self.form {
            Form::Separated(form) => &form.ignored,
            Form::Json(form) => &form.ignored,
        }
    }

    fn problem(&self, wrong: row::Wrong) -> Problem {
        let start = match &self.form {
            Form::Separated(form) => form.value_start(self.lines.raw(), wrong.column),
            Form::Json(_) => jsonl::value_start(self.lines.raw(), self.columns.name(wrong.column)),
        };
        self.lines.problem(start, wrong.message, wrong.hint)
    }
}

names! {
    /// The form of an input.
    #[derive(clap::ValueEnum)]
    pub enum Dialect {
        /// Comma separated, with a header
        Csv = "csv",
        /// Tab separated, with a header
        Tsv = "tsv",
        /// One JSON object a line
        Jsonl = "jsonl",
        /// What `mysql --batch` prints: tabs, backslash escapes, NULL
        Mysql = "mysql",
    }
}

/// Reads what separates the values of csv.
pub fn delimiter(text: &str) -> Result<u8, String> {
    match text.as_bytes() {
        b"\\t" => Ok(b'\t'),
        [byte] if byte.is_ascii() && !byte.is_ascii_alphanumeric() && !b"\"\r\n\0".contains(byte) => Ok(*byte),
        _ => Err("expected one ASCII character such as `;`, no letter, digit or quote; `\\t` is a tab".to_owned()),
    }
}

/// The form that the caller gives: `--format` and `--delimiter`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RowFormat {
    /// The form; by name and first line, if it is not given.
    pub dialect: Option<Dialect>,
    /// The delimiter, of csv only.
    pub delimiter: Option<u8>,
}

impl RowFormat {
    /// The form of an input, and its delimiter.
    ///
    /// # Errors
    /// Usage: a delimiter is given, and this is not csv.
    pub fn of(self, name: &str, first_line: &[u8]) -> Result<(Dialect, u8)> {
        let named = self.dialect.or_else(|| Dialect::of_name(name));
        match (named, self.delimiter) {
            (None | Some(Dialect::Csv), Some(delimiter)) => Ok((Dialect::Csv, delimiter)),
            (Some(other), Some(_)) => {
                Err(Failure::usage(format!("`--delimiter` is for csv, and this is {}", other.name()))
                    .hint("give `--format csv` too if it is csv, or leave `--delimiter` out"))
            }
            (None, None) if first_line.trim_ascii_start().starts_with(b"[") => {
                Err(Failure::usage(format!("{name}:1:1: a JSON array, expected one object a line"))
                    .hint("`jq -c '.[]' FILE` writes one object a line"))
            }
            (named, None) => {
                let dialect = named.unwrap_or_else(|| Dialect::of_first_line(first_line));
                Ok((dialect, if matches!(dialect, Dialect::Tsv | Dialect::Mysql) { b'\t' } else { b',' }))
            }
        }
    }
}

impl Dialect {
    /// Its name in the digest of a job. It is stored: another name would apply a file a second time.
    pub fn stored_name(self) -> &'static str {
        match self {
            Self::Csv => "Csv",
            Self::Tsv => "Tsv",
            Self::Jsonl => "Jsonl",
            Self::Mysql => "Mysql",
        }
    }

    /// What the name of a file says.
    fn of_name(name: &str) -> Option<Self> {
        let extension = Path::new(name).extension().map(|it| it.to_string_lossy().to_ascii_lowercase());
        match extension.as_deref() {
            Some("csv") => Some(Self::Csv),
            Some("tsv" | "tab") => Some(Self::Tsv),
            Some("jsonl" | "ndjson") => Some(Self::Jsonl),
            _ => None,
        }
    }

    /// What the first line looks like.
    fn of_first_line(line: &[u8]) -> Self {
        match line {
            _ if line.trim_ascii_start().starts_with(b"{") => Self::Jsonl,
            _ if line.contains(&b'\t') && !line.contains(&b',') => Self::Tsv,
            _ => Self::Csv,
        }
    }
}
