//! Rows as `mysql --batch` prints them: a header, tabs between values, `\t`, `\n`, `\\` and `\0` for what would
//! break a line, no quotes, and `NULL` for nothing.

use std::borrow::Cow;

use crate::cli::failure::Failure;
use crate::cli::input::columns::Columns;
use crate::cli::input::orders::jsonl::line;
use crate::cli::input::orders::lines::{Lines, column_of, utf8};
use crate::cli::input::orders::row::{Column, OrderRow, Shape};
use crate::cli::input::orders::separated::Header;
use crate::cli::input::orders::{Next, RowError};

/// The rows of one input.
pub(crate) struct Batch {
    pub(crate) header: Header,
}

impl Batch {
    pub(crate) fn new(lines: &mut Lines, names: &Columns, shape: &Shape) -> Result<Self, Failure> {
        let found = loop {
            match line(lines)? {
                Next::NotYet => lines.blocks.wait_or_stop()?,
                other => break other,
            }
        };
        let texts = match found {
            Next::Row => utf8(lines, record(lines.raw()))
                .map(|text| Some(text.split('\t').map(|name| plain(name).into_owned()).collect())),
            _ => Ok(None),
        };
        Ok(Self { header: Header::of(lines, texts, names, shape)? })
    }

    pub(crate) fn next(&mut self, lines: &mut Lines, row: &mut OrderRow) -> Result<Next, RowError> {
        let next = line(lines)?;
        if next != Next::Row {
            return Ok(next);
        }
        row.set_line(lines.line());
        let text = utf8(lines, record(lines.raw()))?;
        let count = text.split('\t').count();
        if count != self.header.width {
            return Err(lines
                .bad(0, format!("{count} values, but the header has {}: was the file cut short?", self.header.width)));
        }
        for (column, at) in &self.header.columns {
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
    pub(crate) fn value_column(&self, raw: &[u8], column: Column) -> usize {
        let before = raw.split(|byte| *byte == b'\t').take(self.header.index(column));
        let start: usize = before.map(|value| value.len() + 1).sum();
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
