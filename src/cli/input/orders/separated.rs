//! Rows of csv and tsv: a header, then a record a line, quoted if need be.
//! Rows as `mysql --batch` prints them: a header, tabs between values, `\t`, `\n`, `\\` and `\0` for what would
//! break a line, no quotes, and `NULL` for nothing.

use std::borrow::Cow;

use csv_core::{ReadRecordResult, Reader, ReaderBuilder};

use crate::cli::failure::Result;
use crate::cli::input::columns::{Columns, Refusal};
use crate::cli::input::error::{Location, Problem, Problems, listed};
use crate::cli::input::orders::blocks::{Lines, column_of, utf8};
use crate::cli::input::orders::jsonl::line;
use crate::cli::input::orders::row::{Column, OrderRow, Shape};
use crate::cli::input::orders::{Next, RowError};

/// The records of one input.
pub(crate) struct Separated {
    reader: Reader,
    delimiter: u8,
    /// The values of the record being read, one behind the other, and where each of them ends.
    values: Vec<u8>,
    ends: Vec<usize>,
    /// How much of the record being read was fed to the reader, and how much came out of it.
    fed: usize,
    values_len: usize,
    ends_len: usize,
    /// Whether the record has no quotes: its values are those of the line itself, with delimiters between them.
    is_plain: bool,
}

impl Separated {
    pub(crate) fn new(delimiter: u8) -> Self {
        Self {
            reader: ReaderBuilder::new().delimiter(delimiter).build(),
            delimiter,
            values: vec![0; 512],
            ends: vec![0; 16],
            fed: 0,
            values_len: 0,
            ends_len: 0,
            is_plain: false,
        }
    }

    /// Reads the first record.
    pub(crate) fn header(&mut self, lines: &mut Lines, names: &Columns, shape: &Shape) -> Result<Header> {
        let found = loop {
            match self.record(lines) {
                Ok(Next::NotYet) => lines.blocks.wait_or_stop()?,
                other => break other,
            }
        };
        let texts = found.and_then(|found| match found {
            Next::Row => self.texts(lines).map(Some),
            _ => Ok(None),
        });
        let texts = texts.map(|texts| Some(texts?.into_iter().map(|name| name.trim().to_owned()).collect()));
        Header::of(lines, texts, names, shape)
    }

    pub(crate) fn next(&mut self, lines: &mut Lines, header: &Header, row: &mut OrderRow) -> Result<Next, RowError> {
        let next = self.record(lines)?;
        if next != Next::Row {
            return Ok(next);
        }
        row.set_line(lines.line());
        if self.ends_len != header.width {
            let message = format!("{}, but the header has {}", values(self.ends_len), header.width);
            return Err(lines.bad(0, message));
        }
        let values = if self.is_plain { lines.raw() } else { &self.values };
        let text = utf8(lines, &values[..self.values_len])?;
        for (column, at) in &header.columns {
            let start = if *at == 0 { 0 } else { self.ends[at - 1] + usize::from(self.is_plain) };
            // A character may be split between two values.
            let value = text.get(start..self.ends[*at]).ok_or_else(|| lines.bad(0, "a value is not UTF-8"))?;
            row.set(*column, value);
        }
        Ok(Next::Row)
    }

    /// The column where a value of a record begins, counted in characters.
    pub(crate) fn value_column(&self, raw: &[u8], index: usize) -> usize {
        column_of(raw, scan(raw, self.delimiter).0.get(index).copied().unwrap_or(0))
    }

    /// Reads one record into the buffers.
    fn record(&mut self, lines: &mut Lines) -> Result<Next, RowError> {
        if self.fed == 0 {
            (self.values_len, self.ends_len) = (0, 0);
            while !lines.skip_empty() {
                let next = lines.fill()?;
                if next != Next::Row {
                    return Ok(next);
                }
            }
            self.is_plain = self.plain_record(lines);
            if self.is_plain {
                return Ok(Next::Row);
            }
        }
        let mut at_end = false;
        loop {
            let rest = &lines.rest()[self.fed..];
            if rest.is_empty() && !at_end {
                match lines.fill()? {
                    Next::Row => (),
                    Next::NotYet => return Ok(Next::NotYet),
                    Next::End => at_end = true,
                }
                continue;
            }
            let (values, ends) = (&mut self.values[self.values_len..], &mut self.ends[self.ends_len..]);
            let (result, read, value_bytes, value_ends) = self.reader.read_record(rest, values, ends);
            self.fed += read;
            self.values_len += value_bytes;
            self.ends_len += value_ends;
            match result {
                ReadRecordResult::InputEmpty => (),
                ReadRecordResult::OutputFull => self.values.resize(self.values.len() * 2, 0),
                ReadRecordResult::OutputEndsFull => self.ends.resize(self.ends.len() * 2, 0),
                ReadRecordResult::End => return Ok(Next::End),
                ReadRecordResult::Record => {
                    lines.take(self.fed);
                    self.fed = 0;
                    if at_end && scan(lines.raw(), self.delimiter).1 {
                        return Err(lines.bad(0, "a quote is not closed: was the file cut short?"));
                    }
                    let has_quotes = memchr::memchr(b'"', lines.raw()).is_some();
                    if has_quotes && let Some(at) = after_quote(lines.raw(), self.delimiter) {
                        let message = "text after a closing quote".to_owned();
                        let hint = "write a quote inside quotes twice: `\"a\"\"b\"`".to_owned();
                        return Err(RowError::Bad(lines.problem(at, message, Some(hint))));
                    }
                    return Ok(Next::Row);
                }
            }
        }
    }

    /// Reads a record that is one whole line without quotes, as nearly all are: three times as fast as the parser, and
    /// for lines this short also faster than a search for each of the bytes that count.
    fn plain_record(&mut self, lines: &mut Lines) -> bool {
        let rest = lines.rest();
        let highest = self.delimiter.max(b'"');
        for (at, byte) in rest.iter().copied().enumerate() {
            if byte > highest {
                continue;
            }
            let is_end = byte == b'\n' || (byte == b'\r' && rest.get(at + 1) == Some(&b'\n'));
            if byte == self.delimiter || is_end {
                if self.ends_len == self.ends.len() {
                    self.ends.resize(self.ends.len() * 2, 0);
                }
                self.ends[self.ends_len] = at;
                self.ends_len += 1;
                if is_end {
                    self.values_len = at;
                    lines.take(at + 1 + usize::from(byte == b'\r'));
                    return true;
                }
            } else if byte == b'"' || byte == b'\r' {
                break;
            }
        }
        self.ends_len = 0;
        false
    }

    /// The values of the record that was read last.
    fn texts<'t>(&'t self, lines: &'t Lines) -> Result<Vec<&'t str>, RowError> {
        let values = if self.is_plain { lines.raw() } else { &self.values };
        let mut start = 0;
        let texts = self.ends[..self.ends_len].iter().map(|end| {
            let value = utf8(lines, &values[start..*end]);
            start = *end + usize::from(self.is_plain);
            value
        });
        texts.collect()
    }
}

fn values(count: usize) -> String {
    if count == 1 { "1 value".to_owned() } else { format!("{count} values") }
}

/// Where text follows a closing quote: `"a"b`. Most parsers read `ab` there, or shift what follows.
pub(crate) fn after_quote(raw: &[u8], delimiter: u8) -> Option<usize> {
    let (mut at, mut begins) = (0, true);
    while at < raw.len() {
        if !begins || raw[at] != b'"' {
            begins = raw[at] == delimiter;
            at += 1;
            continue;
        }
        // A quoted value: to its closing quote, past those that are doubled.
        at += 1;
        loop {
            at += memchr::memchr(b'"', &raw[at..])? + 1;
            if raw.get(at) != Some(&b'"') {
                break;
            }
            at += 1;
        }
        match raw.get(at) {
            None | Some(b'\r' | b'\n') => return None,
            Some(byte) if *byte == delimiter => begins = false,
            Some(_) => return Some(at),
        }
    }
    None
}

/// Where the values of a record begin, and whether it ends inside quotes. Only errors ask for it.
fn scan(raw: &[u8], delimiter: u8) -> (Vec<usize>, bool) {
    let (mut starts, mut quoted, mut at) = (vec![0], false, 0);
    while at < raw.len() {
        let begins = starts.last() == Some(&at);
        match raw[at] {
            b'"' if quoted && raw.get(at + 1) == Some(&b'"') => at += 1,
            b'"' if quoted => quoted = false,
            b'"' if begins => quoted = true,
            byte if byte == delimiter && !quoted => starts.push(at + 1),
            _ => (),
        }
        at += 1;
    }
    (starts, quoted)
}

/// What the first record names.
#[derive(Default)]
pub(crate) struct Header {
    /// Our columns, and the index of each in a record.
    pub(crate) columns: Vec<(Column, usize)>,
    pub(crate) width: usize,
    /// Unchanged, with its line end.
    pub(crate) raw: Vec<u8>,
    pub(crate) ignored: Vec<String>,
}

impl Header {
    /// The record that was read last as a header. `texts` are its names; `None` if the input has no record.
    pub(crate) fn of(
        lines: &Lines,
        texts: Result<Option<Vec<String>>, RowError>,
        names: &Columns,
        shape: &Shape,
    ) -> Result<Self> {
        let wrong = |message: String, hint: Option<String>| {
            Problems::only(lines.name(), Problem::new(Location { line: 1, column: 1 }, message).hint(hint))
        };
        let texts = match texts {
            Ok(Some(texts)) => texts,
            Ok(None) => {
                let wanted: Vec<&str> = (0..shape.columns().count()).map(|index| names.name(index)).collect();
                return Err(wrong(format!("nothing here, expected a header with {}", listed(&wanted)), None));
            }
            Err(RowError::Fatal(failure)) => return Err(failure),
            Err(RowError::Bad(problem)) => return Err(Problems::only(lines.name(), problem)),
        };
        let found = names.find(&texts).map_err(|Refusal { message, hint }| wrong(message, hint))?;
        let columns = shape.columns().zip(found.indexes).filter_map(|(column, at)| Some((column, at?)));
        Ok(Self { columns: columns.collect(), width: texts.len(), raw: lines.raw().to_vec(), ignored: found.ignored })
    }

    /// The index of a column in a record.
    pub(crate) fn index(&self, column: Column) -> usize {
        self.columns.iter().find(|(known, _)| *known == column).map_or(0, |(_, at)| *at)
    }
}

/// Reads the first line of what `mysql --batch` prints.
pub(crate) fn batch_header(lines: &mut Lines, names: &Columns, shape: &Shape) -> Result<Header> {
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
    Header::of(lines, texts, names, shape)
}

/// Reads the next line of it.
pub(crate) fn next_of_batch(lines: &mut Lines, header: &Header, row: &mut OrderRow) -> Result<Next, RowError> {
    let next = line(lines)?;
    if next != Next::Row {
        return Ok(next);
    }
    row.set_line(lines.line());
    let text = utf8(lines, record(lines.raw()))?;
    let count = text.split('\t').count();
    if count != header.width {
        let message = format!("{count} values, but the header has {}: was the file cut short?", header.width);
        return Err(lines.bad(0, message));
    }
    for (column, at) in &header.columns {
        match text.split('\t').nth(*at) {
            // It is not counted as 1.
            Some("NULL") if *column == Column::Quantity => row.set(*column, "NULL"),
            None | Some("NULL") => (),
            Some(value) => row.set(*column, &plain(value)),
        }
    }
    Ok(Next::Row)
}

/// The column where a value of such a line begins, counted in characters.
pub(crate) fn column_in_batch(raw: &[u8], index: usize) -> usize {
    let before = raw.split(|byte| *byte == b'\t').take(index);
    column_of(raw, before.map(|value| value.len() + 1).sum())
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
