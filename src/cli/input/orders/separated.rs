//! Rows of separated values: a header, then a record a line. The values of csv and tsv are quoted if need be. Those that
//! `mysql --batch` prints have no quotes, but `\t`, `\n`, `\\` and `\0` for what would break a line, and `NULL` for nothing.

use std::borrow::Cow;
use std::ops::Range;

use crate::cli::failure::Result;
use crate::cli::input::columns::Columns;
use crate::cli::input::error::{Location, Problem, listed};
use crate::cli::input::orders::blocks::{Lines, column_of, utf8};
use crate::cli::input::orders::row::{Column, OrderRow, Shape};
use crate::cli::input::orders::{Next, RowError};

/// What is said of text after a closing quote, and the next step.
pub(crate) const AFTER_QUOTE: [&str; 2] =
    ["text after a closing quote", "write a quote inside quotes twice: `\"a\"\"b\"`"];

/// The records of one input, its header read.
pub(crate) struct Separated {
    delimiter: u8,
    /// Whether values may be quoted; else they may have escapes.
    has_quotes: bool,
    record: Record,
    /// Our columns, and the index of each in a record.
    columns: Vec<(Column, usize)>,
    width: usize,
    /// The header, unchanged, with its line end.
    pub(crate) header: Vec<u8>,
    pub(crate) ignored: Vec<String>,
}

impl Separated {
    /// Reads the header.
    pub(crate) fn open(
        delimiter: u8,
        has_quotes: bool,
        lines: &mut Lines,
        names: &Columns,
        shape: &Shape,
    ) -> Result<Self, RowError> {
        let (record, columns, header, ignored) = (Record::default(), Vec::new(), Vec::new(), Vec::new());
        let mut opened = Self { delimiter, has_quotes, record, columns, width: 0, header, ignored };
        loop {
            match opened.record(lines)? {
                Next::Row => break,
                Next::NotYet => lines.blocks.wait_or_stop()?,
                Next::End => {
                    let wanted: Vec<&str> = (0..shape.columns().count()).map(|index| names.name(index)).collect();
                    let message = format!("nothing here, expected a header with {}", listed(&wanted));
                    return Err(RowError::Bad(Problem::new(Location::START, message)));
                }
            }
        }
        let text = utf8(lines, lines.raw())?;
        let name = |value: &Range<usize>| {
            let name = opened.plain(&text[value.clone()]);
            if has_quotes { name.trim().to_owned() } else { name.into_owned() }
        };
        let texts: Vec<String> = opened.record.values.iter().map(name).collect();
        let found = names.find(&texts).map_err(RowError::Bad)?;
        opened.columns = shape.columns().zip(found.indexes).filter_map(|(column, at)| Some((column, at?))).collect();
        Ok(Self { width: texts.len(), header: lines.raw().to_vec(), ignored: found.ignored, ..opened })
    }

    /// Reads the next record into a row.
    pub(crate) fn next(&mut self, lines: &mut Lines, row: &mut OrderRow) -> Result<Next, RowError> {
        let next = self.record(lines)?;
        if next != Next::Row {
            return Ok(next);
        }
        row.set_line(lines.line());
        let count = self.record.values.len();
        if count != self.width {
            let plural = if count == 1 && self.has_quotes { "" } else { "s" };
            let guess = if self.has_quotes { "" } else { ": was the file cut short?" };
            return Err(lines.bad(0, format!("{count} value{plural}, but the header has {}{guess}", self.width)));
        }
        let text = utf8(lines, lines.raw())?;
        for (column, at) in &self.columns {
            let value = &text[self.record.values[*at].clone()];
            // A quantity that is not there is not counted as 1.
            if self.has_quotes || value != "NULL" || *column == Column::Quantity {
                row.set(*column, &self.plain(value));
            }
        }
        Ok(Next::Row)
    }

    /// The column where the value of a record begins, counted in characters.
    pub(crate) fn value_column(&self, raw: &[u8], column: Column) -> usize {
        let at = self.columns.iter().find(|(known, _)| *known == column).map_or(0, |(_, at)| *at);
        column_of(raw, self.record.values.get(at).map_or(0, |value| value.start))
    }

    /// Finds the values of the next record.
    fn record(&mut self, lines: &mut Lines) -> Result<Next, RowError> {
        if !self.has_quotes {
            let next = lines.read_line()?;
            self.record.split(lines.raw(), self.delimiter);
            return Ok(next);
        }
        loop {
            if lines.skip_empty() {
                self.record.scan(lines.rest(), self.delimiter);
                if self.record.is_ended {
                    break;
                }
            }
            match lines.fill()? {
                Next::Row => (),
                Next::End if !lines.rest().is_empty() => break,
                next => return Ok(next),
            }
        }
        lines.take(self.record.length);
        if self.record.is_open {
            return Err(lines.bad(0, "a quote is not closed: was the file cut short?"));
        }
        if let Some(at) = self.record.after_quote {
            let [message, hint] = AFTER_QUOTE.map(str::to_owned);
            return Err(RowError::Bad(lines.problem(at, message, Some(hint))));
        }
        Ok(Next::Row)
    }

    /// A value without its quotes or escapes.
    fn plain<'v>(&self, value: &'v str) -> Cow<'v, str> {
        if self.has_quotes { unquoted(value) } else { unescaped(value) }
    }
}

/// Where the values of a record are, with their quotes.
#[derive(Default)]
struct Record {
    values: Vec<Range<usize>>,
    /// Its bytes, with its line end.
    length: usize,
    /// Whether it has a line end; without one, it is a record only at the end of the input.
    is_ended: bool,
    /// Whether its last value lacks a closing quote.
    is_open: bool,
    /// Where text follows a closing quote: `"a"b`. Most parsers read `ab` there, or shift what follows.
    after_quote: Option<usize>,
}

impl Record {
    /// Finds the values of a line that has no quotes.
    fn split(&mut self, line: &[u8], delimiter: u8) {
        self.values.clear();
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let mut start = 0;
        for value in line.split(|byte| *byte == delimiter) {
            self.values.push(start..start + value.len());
            start += value.len() + 1;
        }
    }

    /// Finds the values of the record that a text begins with.
    fn scan(&mut self, text: &[u8], delimiter: u8) {
        self.values.clear();
        (self.is_open, self.after_quote) = (false, None);
        let ends_value = |byte: u8| byte == delimiter || byte == b'\n' || byte == b'\r';
        // Most bytes are above all of these.
        let highest = delimiter.max(b'\r');
        let mut start = 0;
        loop {
            let mut at = start;
            if text.get(at) == Some(&b'"') {
                let closing = closing_quote(text, at + 1);
                self.is_open = closing.is_none();
                at = closing.map_or(text.len(), |closing| closing + 1);
                if text.get(at).is_some_and(|byte| !ends_value(*byte)) {
                    self.after_quote = self.after_quote.or(Some(at));
                }
            }
            let rest = text[at..].iter().position(|byte| *byte <= highest && ends_value(*byte));
            let end = rest.map_or(text.len(), |rest| at + rest);
            self.values.push(start..end);
            if text.get(end) != Some(&delimiter) {
                let line_end = if text[end..].starts_with(b"\r\n") { 2 } else { 1 };
                self.is_ended = end < text.len();
                self.length = text.len().min(end + line_end);
                return;
            }
            start = end + 1;
        }
    }
}

/// The quote that closes a value, past those that are doubled.
fn closing_quote(text: &[u8], mut at: usize) -> Option<usize> {
    loop {
        at += memchr::memchr(b'"', &text[at..])?;
        if text.get(at + 1) != Some(&b'"') {
            return Some(at);
        }
        at += 2;
    }
}

/// A record of a text that is in memory.
pub(crate) struct TextRecord<'t> {
    /// The number of its first line.
    pub(crate) line: usize,
    pub(crate) values: Vec<Cow<'t, str>>,
    /// Whether text follows a closing quote.
    pub(crate) has_text_after_quote: bool,
}

/// The records of a text, one after the other.
pub(crate) fn records(mut text: &str, delimiter: u8) -> impl Iterator<Item = TextRecord<'_>> {
    let (mut record, mut next_line) = (Record::default(), 1);
    std::iter::from_fn(move || {
        let begin = text.find(|c| c != '\r' && c != '\n')?;
        let line = next_line + text[..begin].matches('\n').count();
        text = &text[begin..];
        record.scan(text.as_bytes(), delimiter);
        let values = record.values.iter().map(|value| unquoted(&text[value.clone()])).collect();
        next_line = line + text[..record.length].matches('\n').count();
        text = &text[record.length..];
        Some(TextRecord { line, values, has_text_after_quote: record.after_quote.is_some() })
    })
}

/// A value without its quotes.
fn unquoted(value: &str) -> Cow<'_, str> {
    let Some(value) = value.strip_prefix('"') else { return Cow::Borrowed(value) };
    let value = value.strip_suffix('"').unwrap_or(value);
    if value.contains('"') { Cow::Owned(value.replace("\"\"", "\"")) } else { Cow::Borrowed(value) }
}

/// A value without its escapes.
fn unescaped(value: &str) -> Cow<'_, str> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_behind_empty_lines_has_its_own_line() {
        let text = "id,stock\r\n\n\n1,\"a\n\"\"b\"\"\"\n\n\"x\"y,\"2\"\r\"3,4";
        let shown = records(text, b',').map(|record| {
            let values: Vec<String> = record.values.iter().map(ToString::to_string).collect();
            (record.line, values.join("|"), record.has_text_after_quote)
        });
        assert_eq!(
            shown.collect::<Vec<_>>(),
            [
                (1, "id|stock".to_owned(), false),
                (4, "1|a\n\"b\"".to_owned(), false),
                (7, "x\"y|2".to_owned(), true),
                (7, "3,4".to_owned(), false)
            ]
        );
    }
}
