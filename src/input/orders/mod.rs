//! Files of orders: csv, tsv and jsonl, read a row at a time in constant memory.
//!
//! A bulk run reads orders with it, and an audit reads order records: what differs is a [`Shape`].

mod batch;
mod blocks;
mod dialect;
mod jsonl;
mod lines;
mod mapping;
mod multi;
mod row;
mod separated;
#[cfg(test)]
mod tests;

use std::time::Duration;

pub use blocks::{Blocks, Checked};
pub use dialect::Dialect;
pub use mapping::Mapping;
pub use multi::MultiRow;
pub use row::{Column, OrderRow, Quantities, Shape};

use super::problem::Problem;
use crate::inventory::failure::Failure;
use batch::Batch;
use jsonl::JsonLines;
use lines::Lines;
use separated::Separated;

/// What came of asking for the next row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// A row.
    Row,
    /// Nothing has arrived yet; see [`OrderReader::wait`]. Never of a regular file.
    NotYet,
    /// The end.
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
    fn from(failure: Failure) -> Self {
        Self::Fatal(failure)
    }
}

/// Rows of one input, in its order.
pub struct OrderReader {
    lines: Lines,
    dialect: Dialect,
    form: Form,
    shape: Shape,
    mapping: Mapping,
}

enum Form {
    Separated(Box<Separated>),
    Batch(Batch),
    Json(JsonLines),
}

impl OrderReader {
    /// Begins to read: recognises the dialect and, of csv and tsv, the header.
    ///
    /// # Errors
    /// Usage, where the header lacks a column that is wanted; or the input cannot be read.
    pub fn new(blocks: Blocks, dialect: Option<Dialect>, mapping: &Mapping, shape: Shape) -> Result<Self, Failure> {
        let mut lines = Lines::new(blocks);
        lines.begin()?;
        let dialect = match dialect {
            Some(dialect) => dialect,
            None => {
                let name = lines.name().to_owned();
                Dialect::of(&name, lines.first_line()?)
            }
        };
        let form = match dialect {
            Dialect::Csv => Form::Separated(Box::new(Separated::new(&mut lines, b',', mapping, &shape)?)),
            Dialect::Tsv => Form::Separated(Box::new(Separated::new(&mut lines, b'\t', mapping, &shape)?)),
            Dialect::Mysql => Form::Batch(Batch::new(&mut lines, mapping, &shape)?),
            Dialect::Jsonl => Form::Json(JsonLines::new(mapping, &shape)),
        };
        Ok(Self { lines, dialect, form, shape, mapping: mapping.clone() })
    }

    /// Reads the next row into `row`, which is only valid after [`Next::Row`].
    ///
    /// # Errors
    /// The line is bad, and another call goes on behind it; or nothing more can be read.
    pub fn next(&mut self, row: &mut OrderRow) -> Result<Next, RowError> {
        row.clear();
        let next = match &mut self.form {
            Form::Separated(form) => form.next(&mut self.lines, row)?,
            Form::Batch(form) => form.next(&mut self.lines, row)?,
            Form::Json(form) => form.next(&mut self.lines, row)?,
        };
        if next == Next::Row {
            row.check(&self.shape, &self.mapping).map_err(|wrong| RowError::Bad(self.problem(row, wrong)))?;
        }
        Ok(next)
    }

    /// Reads the next row, however long it takes to arrive; false at the end.
    ///
    /// # Errors
    /// As [`next`](Self::next).
    pub fn read(&mut self, row: &mut OrderRow) -> Result<bool, RowError> {
        loop {
            match self.next(row)? {
                Next::Row => return Ok(true),
                Next::End => return Ok(false),
                Next::NotYet => self.wait(Duration::from_secs(1)),
            }
        }
    }

    /// Waits until something arrives, at most that long.
    pub fn wait(&mut self, at_most: Duration) {
        self.lines.wait(at_most);
    }

    /// The last line that was read, as it stands in the input, with its line end: what a file of rejects takes.
    pub fn raw(&self) -> &[u8] {
        self.lines.raw()
    }

    /// The header of csv and tsv as it stands in the input; empty for jsonl.
    pub fn header(&self) -> &[u8] {
        match &self.form {
            Form::Separated(form) => form.header(),
            Form::Batch(form) => form.header(),
            Form::Json(_) => &[],
        }
    }

    /// In what form the rows stand there.
    pub fn dialect(&self) -> Dialect {
        self.dialect
    }

    /// What messages call the input.
    pub fn name(&self) -> &str {
        self.lines.name()
    }

    /// What was read so far: of a file that was read to its end, what it is.
    pub fn checked(&self) -> Checked {
        self.lines.checked()
    }

    /// The blocks below.
    pub fn into_blocks(self) -> Blocks {
        self.lines.into_blocks()
    }

    fn problem(&self, row: &OrderRow, wrong: row::Wrong) -> Problem {
        let column = match &self.form {
            Form::Separated(form) => form.place(self.lines.raw(), wrong.column),
            Form::Batch(form) => form.place(self.lines.raw(), wrong.column),
            Form::Json(_) => jsonl::place(self.lines.raw(), self.mapping.name(wrong.column)),
        };
        lines::problem(row.line(), column, wrong.message, wrong.hint)
    }
}
