//! Rows as `mysql --batch` prints them: a header, tabs between values, `\t`, `\n`, `\\` and `\0` for what would
//! break a line, no quotes, and `NULL` for nothing.

use std::borrow::Cow;

use super::super::columns::{Columns, Refusal};
use super::super::problem::{Location, Problem, Problems};
use super::jsonl::line;
use super::lines::{Lines, column_of, utf8};
use super::row::{Column, OrderRow, Shape};
use super::separated::{header_failure, places};
use super::{Next, RowError};
use crate::cli::input::InputError;

/// The rows of one input.
pub(super) struct Batch {
    /// Our columns, and the index of each in a record.
    columns: Vec<(Column, usize)>,
    width: usize,
    header: Vec<u8>,
    ignored: Vec<String>,
}

impl Batch {
    pub(super) fn new(lines: &mut Lines, names: &Columns, shape: &Shape) -> Result<Self, InputError> {
        let found = loop {
            match line(lines)? {
                Next::NotYet => lines.wait_or_stop()?,
                other => break other,
            }
        };
        let wrong = |message: String, hint: Option<String>| {
            Problems::only(lines.name(), Problem::new(Location { line: 1, column: 1 }, message).hint(hint))
        };
        if found != Next::Row {
            return Err(wrong(super::separated::no_header(names, shape), None));
        }
        let text = match utf8(lines, record(lines.raw())) {
            Ok(text) => text,
            Err(error) => return Err(header_failure(lines, error)),
        };
        let header: Vec<String> = text.split('\t').map(|name| plain(name).into_owned()).collect();
        let found = names.find(&header).map_err(|Refusal { message, hint }| wrong(message, hint))?;
        let columns = places(&found.places, shape);
        Ok(Self { columns, width: header.len(), header: lines.raw().to_vec(), ignored: found.ignored })
    }

    pub(super) fn header(&self) -> &[u8] {
        &self.header
    }

    pub(super) fn ignored(&self) -> &[String] {
        &self.ignored
    }

    pub(super) fn next(&mut self, lines: &mut Lines, row: &mut OrderRow) -> Result<Next, RowError> {
        let next = line(lines)?;
        if next != Next::Row {
            return Ok(next);
        }
        row.set_line(lines.line());
        let text = utf8(lines, record(lines.raw()))?;
        let count = text.split('\t').count();
        if count != self.width {
            return Err(
                lines.bad(0, format!("{count} values, but the header has {}: was the file cut short?", self.width))
            );
        }
        for (column, at) in &self.columns {
            match text.split('\t').nth(*at) {
                // It is not counted as 1.
                Some("NULL") if *column == Column::Quantity => row.set(*column, "NULL"),
                None | Some("NULL") => (),
                Some(value) => row.set(*column, &plain(value)),
            }
        }
        Ok(Next::Row)
    }

    /// The column where a value of a record begins, counted in characters.
    pub(super) fn place(&self, raw: &[u8], column: Column) -> usize {
        let nth = self.columns.iter().find(|(known, _)| *known == column).map_or(0, |(_, at)| *at);
        let start: usize = raw.split(|byte| *byte == b'\t').take(nth).map(|value| value.len() + 1).sum();
        column_of(raw, start)
    }
}

/// A line without its end.
fn record(raw: &[u8]) -> &[u8] {
    let raw = raw.strip_suffix(b"\n").unwrap_or(raw);
    raw.strip_suffix(b"\r").unwrap_or(raw)
}

/// A value without its escapes.
fn plain(value: &str) -> Cow<'_, str> {
    if !value.contains('\\') {
        return Cow::Borrowed(value);
    }
    let mut text = String::with_capacity(value.len());
    let mut rest = value.chars();
    while let Some(c) = rest.next() {
        match (c, rest.clone().next()) {
            ('\\', Some(escaped @ ('t' | 'n' | '0' | '\\'))) => {
                text.push(match escaped {
                    't' => '\t',
                    'n' => '\n',
                    '0' => '\0',
                    _ => '\\',
                });
                rest.next();
            }
            _ => text.push(c),
        }
    }
    Cow::Owned(text)
}
