//! The header of csv, tsv and mysql: which of our columns it has, and at which index.

use super::super::columns::{Columns, Refusal};
use super::super::names::listed;
use super::super::problem::{Location, Problem, Problems};
use super::RowError;
use super::lines::Lines;
use super::row::{Column, Shape};
use crate::cli::input::InputError;

#[derive(Default)]
pub(super) struct Header {
    /// Our columns, and the index of each in a record.
    pub(super) columns: Vec<(Column, usize)>,
    pub(super) width: usize,
    /// Unchanged, with its line end.
    pub(super) raw: Vec<u8>,
    pub(super) ignored: Vec<String>,
}

impl Header {
    /// The record that was read last as a header. `texts` are its names; `None` if the input has no record.
    pub(super) fn of(
        lines: &Lines,
        texts: Result<Option<Vec<String>>, RowError>,
        names: &Columns,
        shape: &Shape,
    ) -> Result<Self, InputError> {
        let wrong = |message: String, hint: Option<String>| {
            Problems::only(lines.name(), Problem::new(Location { line: 1, column: 1 }, message).hint(hint))
        };
        let texts = match texts {
            Ok(Some(texts)) => texts,
            Ok(None) => {
                let wanted: Vec<&str> = (0..shape.columns().count()).map(|nth| names.name(nth)).collect();
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
    pub(super) fn index(&self, column: Column) -> usize {
        self.columns.iter().find(|(known, _)| *known == column).map_or(0, |(_, at)| *at)
    }
}
