//! Rows of separated values: a header, then a record a line. The values of csv and tsv are quoted if need be. Those that
//! `mysql --batch` prints have no quotes, but `\t`, `\n`, `\\` and `\0` for what would break a line, and `NULL` for nothing.

use std::borrow::Cow;
use std::fmt::Display;
use std::ops::Range;

use csv_core::{ReadRecordResult, Reader, ReaderBuilder};

use crate::cli::failure::Result;
use crate::cli::input::columns::{Columns, separated_by};
use crate::cli::input::orders::blocks::{Lines, utf8};
use crate::cli::input::orders::row::{Column, OrderRow};
use crate::cli::input::orders::{Dialect, Next, RowError};

/// The records of one input, its header read. `C` names a column.
pub(crate) struct Separated<C> {
    delimiter: u8,
    /// Whether values may be quoted; else they may have escapes.
    has_quotes: bool,
    /// Whether quoted values may have line ends.
    has_long_rows: bool,
    record: Record,
    /// Our columns, and the index of each in a record.
    columns: Vec<(C, usize)>,
    pub(crate) width: usize,
    /// The header, unchanged, with its line end.
    pub(crate) header: Vec<u8>,
    pub(crate) ignored: Vec<String>,
}

impl<C: Copy + PartialEq + Display> Separated<C> {
    /// Reads the header.
    pub(crate) fn open(
        dialect: Dialect,
        delimiter: u8,
        lines: &mut Lines,
        columns: &Columns<C>,
    ) -> Result<Self, RowError> {
        let reader = Box::new(ReaderBuilder::new().delimiter(delimiter).build());
        let record = Record { reader, ..Record::default() };
        let (found, header, ignored) = (Vec::new(), Vec::new(), Vec::new());
        let (has_quotes, has_long_rows) = (dialect != Dialect::Mysql, dialect == Dialect::Csv);
        let mut opened =
            Self { delimiter, has_quotes, has_long_rows, record, columns: found, width: 0, header, ignored };
        loop {
            match opened.record(lines)? {
                Next::Row => break,
                Next::NotYet => lines.blocks.wait_or_stop()?,
                Next::End => return Err(RowError::Bad(columns.no_header())),
            }
        }
        let name = |value: &Range<usize>| {
            let name = opened.plain(utf8(lines, &opened.record.text(lines.raw())[value.clone()])?);
            Ok::<_, RowError>(if has_quotes { name.trim().to_owned() } else { name.into_owned() })
        };
        let texts: Vec<String> = opened.record.values.iter().map(name).collect::<Result<_, _>>()?;
        let found = columns.find(&texts).map_err(|mut problem| {
            let is_of_csv = |hint: &&mut String| dialect != Dialect::Csv && hint.contains("--delimiter");
            if let Some(hint) = problem.hint.as_mut().filter(is_of_csv) {
                hint.push_str("; it is for csv: by its name, or `--format csv`");
            }
            RowError::Bad(problem)
        })?;
        let header = lines.raw().to_vec();
        Ok(Self { width: texts.len(), header, columns: found.columns, ignored: found.ignored, ..opened })
    }

    /// The value of a column in the record that was read last; `None` if there is no such column.
    pub(crate) fn value<'v>(&'v self, lines: &'v Lines, column: C) -> Option<&'v str> {
        let (_, at) = self.columns.iter().find(|(known, _)| *known == column)?;
        std::str::from_utf8(self.record.text(lines.raw()).get(self.record.values.get(*at)?.clone())?).ok()
    }

    /// The byte where a value of a record begins.
    pub(crate) fn value_start(&self, raw: &[u8], column: C) -> usize {
        let at = self.columns.iter().find(|(known, _)| *known == column).map_or(0, |(_, at)| *at);
        let start = match self.record.has_quotes {
            true => Quotes::of(raw, self.delimiter).starts.get(at).copied(),
            false => self.record.values.get(at).map(|value| value.start),
        };
        start.unwrap_or_default()
    }

    /// How many values the record has that was read last.
    pub(crate) fn count(&self) -> usize {
        self.record.values.len()
    }

    /// Finds the values of the next record.
    pub(crate) fn record(&mut self, lines: &mut Lines) -> Result<Next, RowError> {
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
        if !self.record.has_quotes {
            return Ok(Next::Row);
        }
        let fault = Quotes::of(lines.raw(), self.delimiter).fault(lines.raw(), self.width == 0);
        let fault = fault.or_else(|| {
            let is_long = !self.has_long_rows && memchr::memchr2(b'\n', b'\r', lines.raw().trim_ascii_end()).is_some();
            let hint =
                "rows that a database printed have no quotes: `--format mysql`; else name it .csv and give `--delimiter '\\t'`";
            is_long.then(|| (0, "a quoted value of several lines in tsv", Some(hint.to_owned())))
        });
        match fault {
            Some((at, message, hint)) => Err(RowError::Bad(lines.problem(at, message.to_owned(), hint))),
            None => Ok(Next::Row),
        }
    }

    /// A value without its escapes, if it may have some.
    fn plain<'v>(&self, value: &'v str) -> Cow<'v, str> {
        if self.has_quotes { Cow::Borrowed(value) } else { unescaped(value) }
    }
}

impl Separated<Column> {
    /// Reads the next record into a row.
    pub(crate) fn next(&mut self, lines: &mut Lines, row: &mut OrderRow) -> Result<Next, RowError> {
        let next = self.record(lines)?;
        if next != Next::Row {
            return Ok(next);
        }
        let count = self.count();
        if count != self.width {
            let plural = if count == 1 && self.has_quotes { "" } else { "s" };
            let guess = if self.has_quotes { "" } else { ": was the file cut short?" };
            return Err(lines.bad(0, format!("{count} value{plural}, but the header has {}{guess}", self.width)));
        }
        let text = utf8(lines, self.record.text(lines.raw()))?;
        for (column, at) in &self.columns {
            // A character may be split between two values.
            let value = text.get(self.record.values[*at].clone());
            let value = value.ok_or_else(|| lines.bad(0, "a value is not UTF-8"))?;
            if !self.has_quotes && matches!(value, "NULL" | "\\N") {
                row.set_null(*column, value);
            } else {
                row.set(*column, &self.plain(value));
            }
        }
        Ok(Next::Row)
    }
}

/// A record, and where its values are.
#[derive(Default)]
struct Record {
    reader: Box<Reader>,
    /// The values of one with quotes, as the parser says, one behind the other, and room; those of any other are in the line itself.
    text: Vec<u8>,
    has_quotes: bool,
    values: Vec<Range<usize>>,
    ends: Vec<usize>,
    /// Its bytes, with its line end.
    length: usize,
    /// Whether it has a line end; without one, it is a record only at the end of the input.
    is_ended: bool,
}

impl Record {
    /// What the values are in, of the record that is `raw`.
    fn text<'r>(&'r self, raw: &'r [u8]) -> &'r [u8] {
        let end = self.values.last().map_or(0, |value| value.end);
        if self.has_quotes { &self.text[..end] } else { raw }
    }

    /// Finds the values of a line that has no quotes.
    fn split(&mut self, line: &[u8], delimiter: u8) {
        self.has_quotes = false;
        self.values.clear();
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let mut start = 0;
        for value in line.split(|byte| *byte == delimiter) {
            self.values.push(start..start + value.len());
            start += value.len() + 1;
        }
    }

    /// Finds the values of the record that a text begins with. Nearly all have no quotes, and need no parser.
    fn scan(&mut self, text: &[u8], delimiter: u8) {
        let line = memchr::memchr2(b'\n', b'\r', text);
        let end = line.unwrap_or(text.len());
        (self.is_ended, self.length) = (line.is_some(), end);
        if memchr::memchr(b'"', &text[..end]).is_some() {
            self.parse(text);
        } else {
            self.split(&text[..end], delimiter);
        }
        if self.is_ended {
            self.length += if text[self.length..].starts_with(b"\r\n") { 2 } else { 1 };
        }
    }

    /// The same of one that has quotes, but for its line end.
    fn parse(&mut self, text: &[u8]) {
        self.reader.reset();
        self.has_quotes = true;
        self.text.resize(text.len(), 0);
        // One behind each delimiter, and one more.
        self.ends.resize(text.len() + 1, 0);
        let (result, read, _, ends) = self.reader.read_record(text, &mut self.text, &mut self.ends);
        self.is_ended = result == ReadRecordResult::Record;
        self.length = if self.is_ended { read - 1 } else { text.len() };
        if !self.is_ended {
            self.reader.read_record(&[], &mut [], &mut self.ends[ends..]);
        }
        let mut start = 0;
        self.values.clear();
        for end in &self.ends[..ends + usize::from(!self.is_ended)] {
            self.values.push(start..*end);
            start = *end;
        }
    }
}

/// What a parser does not say of a record with quotes.
#[derive(Default)]
struct Quotes {
    /// Where each value begins.
    starts: Vec<usize>,
    /// Whether its last value lacks a closing quote.
    is_open: bool,
    /// Where text follows a closing quote: `"a"b`. Most parsers read `ab` there, or shift what follows.
    text_after: Option<usize>,
}

impl Quotes {
    fn of(record: &[u8], delimiter: u8) -> Self {
        let mut quotes = Self::default();
        let mut start = 0;
        loop {
            quotes.starts.push(start);
            let mut at = start;
            if record.get(at) == Some(&b'"') {
                let Some(closing) = closing_quote(record, at + 1) else { return Self { is_open: true, ..quotes } };
                at = closing + 1;
                if !matches!(record.get(at), None | Some(b'\n' | b'\r')) && record[at] != delimiter {
                    quotes.text_after = quotes.text_after.or(Some(at));
                }
            }
            let Some(end) = memchr::memchr(delimiter, &record[at.min(record.len())..]) else { return quotes };
            start = at + end + 1;
        }
    }

    /// What is wrong: where, in words, and the next step.
    fn fault(&self, record: &[u8], is_header: bool) -> Option<(usize, &'static str, Option<String>)> {
        if self.is_open {
            return Some((0, "a quote is not closed: was the file cut short?", None));
        }
        let at = self.text_after?;
        let hint = match record[at] {
            delimiter @ (b';' | b'|' | b'\t' | b',') if is_header => separated_by(delimiter.into()),
            _ => "write a quote inside quotes twice: `\"a\"\"b\"`".to_owned(),
        };
        Some((at, "text after a closing quote", Some(hint)))
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
