//! The header of csv, tsv and mysql: which of our columns it has, and at which index.

use crate::cli::input::InputError;
use crate::cli::input::columns::{Columns, Refusal};
use crate::cli::input::names::listed;
use crate::cli::input::orders::RowError;
use crate::cli::input::orders::lines::Lines;
use crate::cli::input::orders::row::{Column, Shape};
use crate::cli::input::problem::{Location, Problem, Problems};

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
    pub(crate) fn index(&self, column: Column) -> usize {
        self.columns.iter().find(|(known, _)| *known == column).map_or(0, |(_, at)| *at)
    }
}
