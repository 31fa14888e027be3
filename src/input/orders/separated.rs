//! Rows of csv and tsv: a header, then a record a line, quoted where need be.

use std::time::Duration;

use csv_core::{ReadRecordResult, Reader, ReaderBuilder};

use super::super::fields::listed;
use super::super::problem::{Location, Problem, Problems, did_you_mean};
use super::lines::{Lines, column_of, utf8};
use super::mapping::Mapping;
use super::row::{Column, OrderRow, Shape};
use super::{Next, RowError};
use crate::inventory::failure::Failure;

/// The records of one input.
pub(super) struct Separated {
    reader: Reader,
    delimiter: u8,
    /// The values of the record being read, one behind the other, and where each of them ends.
    values: Vec<u8>,
    ends: Vec<usize>,
    /// How much of the record being read was fed to the reader, and how much came out of it.
    fed: usize,
    values_len: usize,
    ends_len: usize,
    /// Where our columns stand.
    columns: Vec<(Column, usize)>,
    width: usize,
    header: Vec<u8>,
}

impl Separated {
    /// Reads the header.
    pub(super) fn new(lines: &mut Lines, delimiter: u8, mapping: &Mapping, shape: &Shape) -> Result<Self, Failure> {
        let mut separated = Self {
            reader: ReaderBuilder::new().delimiter(delimiter).build(),
            delimiter,
            values: vec![0; 512],
            ends: vec![0; 16],
            fed: 0,
            values_len: 0,
            ends_len: 0,
            columns: Vec::new(),
            width: 0,
            header: Vec::new(),
        };
        let found = loop {
            match separated.record(lines) {
                Ok(Next::NotYet) => lines.wait(Duration::from_secs(1)),
                other => break other,
            }
        };
        let told = |problem| {
            let mut problems = Problems::of(lines.name());
            problems.tell(problem);
            problems.end().err().unwrap_or_else(|| Failure::usage("no header"))
        };
        let names = match found {
            Ok(Next::Row) => separated.texts(lines),
            Ok(_) => {
                let wanted: Vec<&str> = shape.columns().map(|column| mapping.name(column)).collect();
                let message = format!("nothing here, expected a header with {}", listed(&wanted));
                return Err(told(Problem::new(Location { line: 1, column: 1 }, message)));
            }
            Err(error) => Err(error),
        };
        let names: Vec<String> = match names {
            Ok(names) => names.into_iter().map(|name| name.trim().to_owned()).collect(),
            Err(RowError::Bad(problem)) => return Err(told(problem)),
            Err(RowError::Fatal(failure)) => return Err(failure),
        };
        separated.columns = found_columns(&names, mapping, shape)
            .map_err(|(message, hint)| told(Problem::new(Location { line: 1, column: 1 }, message).hint(hint)))?;
        separated.width = names.len();
        separated.header = lines.raw().to_vec();
        Ok(separated)
    }

    pub(super) fn header(&self) -> &[u8] {
        &self.header
    }

    /// Reads the next record into a row.
    pub(super) fn next(&mut self, lines: &mut Lines, row: &mut OrderRow) -> Result<Next, RowError> {
        let next = self.record(lines)?;
        if next != Next::Row {
            return Ok(next);
        }
        row.set_line(lines.line());
        if self.ends_len != self.width {
            let message = format!("{}, where the header has {}", values(self.ends_len), self.width);
            return Err(lines.bad(0, message));
        }
        let text = utf8(lines, &self.values[..self.values_len])?;
        for (column, at) in &self.columns {
            let start = if *at == 0 { 0 } else { self.ends[at - 1] };
            // Two halves of a character may meet where two values do.
            let value = text.get(start..self.ends[*at]).ok_or_else(|| lines.bad(0, "a value is not UTF-8"))?;
            row.set(*column, value);
        }
        Ok(Next::Row)
    }

    /// The column where a value of a record begins, counted in characters.
    pub(super) fn place(&self, raw: &[u8], column: Column) -> usize {
        let nth = self.columns.iter().find(|(known, _)| *known == column).map_or(0, |(_, at)| *at);
        column_of(raw, scan(raw, self.delimiter).0.get(nth).copied().unwrap_or(0))
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
                    return Ok(Next::Row);
                }
            }
        }
    }

    /// The values of the record that was read last.
    fn texts(&self, lines: &Lines) -> Result<Vec<&str>, RowError> {
        let mut start = 0;
        let texts = self.ends[..self.ends_len].iter().map(|end| {
            let value = utf8(lines, &self.values[start..*end]);
            start = *end;
            value
        });
        texts.collect()
    }
}

fn values(count: usize) -> String {
    if count == 1 { "1 value".to_owned() } else { format!("{count} values") }
}

/// What is wrong with a header, and a hint.
type Refusal = (String, Option<String>);

/// Where our columns stand in a header, or what is wrong with it and what to do.
pub(super) fn found_columns(
    names: &[String],
    mapping: &Mapping,
    shape: &Shape,
) -> Result<Vec<(Column, usize)>, Refusal> {
    let known: Vec<&str> = names.iter().map(String::as_str).collect();
    let mapped: Vec<Column> = mapping.columns().collect();
    let mut columns = Vec::new();
    for column in shape.columns() {
        let wanted = mapping.name(column);
        let mut places = known.iter().enumerate().filter(|(_, name)| **name == wanted).map(|(at, _)| at);
        match (places.next(), places.next()) {
            (Some(_), Some(_)) => return Err((format!("the header names `{wanted}` twice"), None)),
            (Some(at), None) => columns.push((column, at)),
            (None, _) if shape.required.contains(&column) || mapped.contains(&column) => {
                let message = format!("no column `{wanted}`: the header has {}", listed(&known));
                let hint = did_you_mean(wanted, &known)
                    .unwrap_or_else(|| format!("name the file's own column with `--map {}=ITS_NAME`", column.name()));
                return Err((message, Some(hint)));
            }
            (None, _) => (),
        }
    }
    Ok(columns)
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
