//! The file of a run: what is read of it, and where its bad lines go.

use std::fs::File;
use std::io::Write;
use std::path::PathBuf;

use anyhow::Result;

use super::args::{BulkArgs, RunArgs};
use crate::input::Problems;
use crate::input::orders::{Blocks, Checked, Column, Dialect, Mapping, OrderReader, Quantities, Shape};
use crate::input::{self};
use crate::inventory::failure::{Failure, cause};
use crate::inventory::layout::Layout;

/// Columns of orders, where users are recorded and where they are not.
const ORDERS: Shape = Shape {
    required: &[Column::Activity, Column::User],
    optional: &[Column::Quantity, Column::Request, Column::Reason],
    quantities: Quantities::Orders,
};
const USERLESS: Shape = Shape {
    required: &[Column::Activity],
    optional: &[Column::User, Column::Quantity, Column::Request, Column::Reason],
    quantities: Quantities::Orders,
};

/// The same of orders of several activities.
const MULTI: Shape = Shape {
    required: &[Column::User, Column::Items],
    optional: &[Column::Request, Column::Reason],
    quantities: Quantities::Orders,
};
const USERLESS_MULTI: Shape = Shape {
    required: &[Column::Items],
    optional: &[Column::User, Column::Request, Column::Reason],
    quantities: Quantities::Orders,
};

/// A file that was opened.
pub(super) struct Input {
    /// As it was given.
    pub(super) from: String,
    pub(super) reader: OrderReader,
    pub(super) is_regular: bool,
    dialect: Dialect,
    mapping: Mapping,
    shape: Shape,
}

impl Input {
    /// Orders of one activity each.
    pub(super) fn of_orders(from: &str, args: &BulkArgs, layout: Layout) -> Result<Self> {
        let shape = if layout.kind().has_users() { ORDERS } else { USERLESS };
        let columns: Vec<Column> = shape.columns().collect();
        Self::new(from, args.format, args.mapping(&columns)?, shape)
    }

    /// Orders of several activities each.
    pub(super) fn of_multi_orders(from: &str, layout: Layout) -> Result<Self> {
        let shape = if layout.kind().has_users() { MULTI } else { USERLESS_MULTI };
        Self::new(from, Some(Dialect::Jsonl), Mapping::default(), shape)
    }

    fn new(from: &str, dialect: Option<Dialect>, mapping: Mapping, shape: Shape) -> Result<Self> {
        let blocks = Blocks::open(from)?;
        let is_regular = blocks.is_regular();
        let reader = OrderReader::new(blocks, dialect, &mapping, shape)?;
        let dialect = reader.dialect();
        Ok(Self { from: from.to_owned(), reader, is_regular, dialect, mapping, shape })
    }

    /// The same file from its begin, which must be what it was.
    pub(super) fn again(self, expected: &Checked) -> Result<Self> {
        let blocks = self.reader.into_blocks().again(expected.clone())?;
        let reader = OrderReader::new(blocks, Some(self.dialect), &self.mapping, self.shape)?;
        Ok(Self { reader, ..self })
    }

    /// How the input is read, as a text: alike where orders come out alike.
    pub(super) fn way(&self) -> String {
        format!("{:?} {}", self.reader.dialect(), self.mapping.text())
    }
}

/// Lines that are not valid.
pub(super) struct BadLines {
    pub(super) count: u64,
    problems: Problems,
    rejects: Option<(PathBuf, File)>,
}

impl BadLines {
    /// None yet. The file for them is made now, so that a path that cannot be written is known before anything is
    /// applied.
    pub(super) fn new(name: &str, args: &RunArgs, from: &str, dry_run: bool) -> Result<Self> {
        let rejects = match &args.rejects {
            Some(path) if !dry_run => {
                let same = |one: &std::path::Path| one.canonicalize().ok();
                if same(path).is_some() && same(path) == same(std::path::Path::new(from)) {
                    return Err(Failure::usage("`--rejects` is the file that is read").into());
                }
                let file = File::create(path).map_err(|error| unwritable(path, &error))?;
                Some((path.clone(), file))
            }
            _ => None,
        };
        Ok(Self { count: 0, problems: Problems::of(name), rejects })
    }

    /// Takes note of one.
    pub(super) fn add(&mut self, problem: input::Problem, reader: &OrderReader) -> Result<()> {
        self.count += 1;
        self.problems.tell(problem);
        if let Some((path, file)) = &mut self.rejects {
            let mut line = if self.count == 1 { reader.header().to_vec() } else { Vec::new() };
            if !line.is_empty() {
                line.truncate(line.trim_ascii_end().len());
                line.push(b'\n');
            }
            let raw = reader.raw();
            let end = raw.iter().rposition(|byte| !matches!(byte, b'\r' | b'\n')).map_or(0, |last| last + 1);
            line.extend_from_slice(&raw[..end]);
            line.push(b'\n');
            file.write_all(&line).map_err(|error| unwritable(path, &error))?;
        }
        Ok(())
    }

    /// One failure for all of them.
    pub(super) fn failure(self) -> Option<Failure> {
        let mended = match &self.rejects {
            Some((path, _)) => format!("mend them in `{}` and apply that file alone", path.display()),
            None => "mend them and apply them alone: the whole file, mended, would be another job".to_owned(),
        };
        self.problems.end().err().map(|failure| failure.hint(mended))
    }

    /// The failure where nothing of the file was applied.
    pub(super) fn refusal(self) -> Option<Failure> {
        self.problems.end().err().map(|failure| match failure.hint {
            Some(_) => failure,
            None => failure.hint("nothing was applied; `--keep-going` applies the other lines"),
        })
    }
}

fn unwritable(path: &std::path::Path, error: &std::io::Error) -> Failure {
    Failure::failed(format!("cannot write `{}`: {}", path.display(), cause(error)))
}
