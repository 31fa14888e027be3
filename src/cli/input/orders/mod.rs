//! Files of orders: csv, tsv and jsonl, read a row at a time in constant memory.
//!
//! A bulk run reads orders with it, and an audit reads order records: what differs is a [`Shape`].

mod blocks;
mod dialect;
mod jsonl;
mod lines;
mod row;
mod separated;
#[cfg(test)]
mod tests;

use std::time::Duration;

use crate::cli::failure::Failure;
use crate::cli::input::columns::Columns;
use crate::cli::input::orders::jsonl::JsonLines;
use crate::cli::input::orders::lines::Lines;
use crate::cli::input::orders::separated::Batch;
use crate::cli::input::orders::separated::Separated;
use crate::cli::input::problem::Problem;

pub use crate::cli::input::columns::Mapping;
pub use crate::cli::input::orders::blocks::{Blocks, Checked};
pub use crate::cli::input::orders::dialect::{Delimiter, Dialect, RowFormat};
pub use crate::cli::input::orders::jsonl::FileOrder;
pub(crate) use crate::cli::input::orders::row::is_rounded;
pub use crate::cli::input::orders::row::{Column, OrderRow, Quantities, Shape};
pub(crate) use crate::cli::input::orders::separated::after_quote;

/// What came of asking for the next row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    Row,
    /// Nothing has arrived yet; see [`OrderReader::wait`]. Never of a regular file.
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
    lines: Lines,
    format: RowFormat,
    form: Form,
    shape: Shape,
    columns: Columns,
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
    /// Usage, if the header lacks a column that is wanted; or the input cannot be read.
    pub fn new(blocks: Blocks, format: RowFormat, mapping: &Mapping, shape: Shape) -> Result<Self, Failure> {
        let columns = shape.names(mapping)?;
        let mut lines = Lines::new(blocks);
        lines.begin()?;
        let name = lines.name().to_owned();
        let first_line = if format.dialect.is_none() { lines.first_line()? } else { &[] };
        let (dialect, delimiter) = format.of(&name, first_line)?;
        let form = match dialect {
            Dialect::Csv | Dialect::Tsv => {
                Form::Separated(Box::new(Separated::new(&mut lines, delimiter.get(), &columns, &shape)?))
            }
            Dialect::Mysql => Form::Batch(Batch::new(&mut lines, &columns, &shape)?),
            Dialect::Jsonl => Form::Json(JsonLines::new(columns.clone(), &shape)),
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
            Form::Batch(form) => form.next(&mut self.lines, row)?,
            Form::Json(form) => form.next(&mut self.lines, row)?,
        };
        if next == Next::Row {
            row.check(&self.shape, &self.columns).map_err(|wrong| RowError::Bad(self.problem(row, wrong)))?;
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

    pub fn wait(&mut self, at_most: Duration) {
        self.lines.blocks.wait(at_most);
    }

    /// The last line that was read, unchanged and with its line end, for a file of rejects.
    pub fn raw(&self) -> &[u8] {
        self.lines.raw()
    }

    /// The header of csv and tsv, unchanged; empty for jsonl.
    pub fn header(&self) -> &[u8] {
        match &self.form {
            Form::Separated(form) => &form.header.raw,
            Form::Batch(form) => &form.header.raw,
            Form::Json(_) => &[],
        }
    }

    /// The form that was recognised: with it the input is read the same way again.
    pub fn format(&self) -> RowFormat {
        self.format
    }

    /// Columns that are ignored; in jsonl those of the rows that were read, as far as they are kept.
    pub fn ignored(&self) -> &[String] {
        match &self.form {
            Form::Separated(form) => &form.header.ignored,
            Form::Batch(form) => &form.header.ignored,
            Form::Json(form) => form.ignored(),
        }
    }

    pub(crate) fn column_name(&self, column: Column) -> &str {
        self.shape.number(column).map_or(column.name(), |index| self.columns.name(index))
    }

    pub fn name(&self) -> &str {
        self.lines.name()
    }

    /// What was read so far: of a file that was read to its end, what it is.
    pub fn checked(&self) -> Checked {
        self.lines.blocks.checked()
    }

    pub fn into_blocks(self) -> Blocks {
        self.lines.blocks
    }

    fn problem(&self, row: &OrderRow, wrong: row::Wrong) -> Problem {
        let column = match &self.form {
            Form::Separated(form) => form.value_column(self.lines.raw(), wrong.column),
            Form::Batch(form) => form.value_column(self.lines.raw(), wrong.column),
            Form::Json(_) => jsonl::value_column(self.lines.raw(), self.column_name(wrong.column)),
        };
        lines::problem(row.line(), column, wrong.message, wrong.hint)
    }
}
