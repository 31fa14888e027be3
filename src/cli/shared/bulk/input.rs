//! The file of a run: what is read of it, and what becomes of its bad lines.

use crate::cli::error::Result;
use crate::cli::failure::Failure;
use crate::cli::input::orders::{
    Blocks, Checked, Column, Delimiter, Dialect, Mapping, OrderReader, Quantities, RowFormat, Shape,
};
use crate::cli::input::{self, Problems, columns};
use crate::cli::output::OutputFile;
use crate::cli::shared::bulk::{BulkArgs, RunArgs};
use crate::model::layout::Layout;
use crate::sell::bulk::Operation;

/// Columns of orders, if users are recorded and if they are not.
const ORDERS: Shape = Shape {
    required: &[Column::Activity, Column::User],
    optional: &[Column::Quantity, Column::Request, Column::Reason],
    quantities: Quantities::Orders,
    layout: None,
};
const USERLESS: Shape = Shape {
    required: &[Column::Activity],
    optional: &[Column::User, Column::Quantity, Column::Request, Column::Reason],
    quantities: Quantities::Orders,
    layout: None,
};

/// Ends of holds: the request id says how many units, and whose they are unless the activity is sharded.
const SETTLED: Shape = Shape {
    required: &[Column::Activity, Column::Request],
    optional: &[Column::User, Column::Reason],
    quantities: Quantities::Orders,
    layout: None,
};

/// The same of orders of several activities.
const MULTI: Shape = Shape {
    required: &[Column::User, Column::Items],
    optional: &[Column::Request, Column::Reason],
    quantities: Quantities::Orders,
    layout: None,
};
const USERLESS_MULTI: Shape = Shape {
    required: &[Column::Items],
    optional: &[Column::User, Column::Request, Column::Reason],
    quantities: Quantities::Orders,
    layout: None,
};

/// A file that was opened.
pub(crate) struct Input {
    /// As it was given.
    pub(crate) from: String,
    pub(crate) reader: OrderReader,
    pub(crate) is_regular: bool,
    mapping: Mapping,
    shape: Shape,
    /// Whether the columns that are ignored were named.
    has_named_ignored: bool,
}

impl Input {
    /// Orders of one activity each.
    pub(crate) fn of_orders(from: &str, args: &BulkArgs, layout: Layout, operation: Operation) -> Result<Self> {
        let shape = match layout.kind().has_users() {
            _ if operation.settles() => SETTLED,
            true => ORDERS,
            false => USERLESS,
        };
        Self::new(from, args.format(), args.mapping()?, Shape { layout: Some(layout), ..shape })
    }

    /// Orders of several activities each.
    pub(crate) fn of_multi_orders(from: &str, layout: Layout) -> Result<Self> {
        let shape = if layout.kind().has_users() { MULTI } else { USERLESS_MULTI };
        let format = RowFormat { dialect: Some(Dialect::Jsonl), delimiter: None };
        Self::new(from, format, Mapping::default(), Shape { layout: Some(layout), ..shape })
    }

    fn new(from: &str, format: RowFormat, mapping: Mapping, shape: Shape) -> Result<Self> {
        let blocks = Blocks::open(from)?;
        let is_regular = blocks.is_regular();
        let reader = OrderReader::new(blocks, format, &mapping, shape)?;
        Ok(Self { from: from.to_owned(), reader, is_regular, mapping, shape, has_named_ignored: false })
    }

    /// The same file from its beginning, which must have the same content.
    pub(crate) fn again(self, expected: &Checked) -> Result<Self> {
        let format = self.reader.format();
        let blocks = self.reader.into_blocks().again(expected.clone())?;
        let reader = OrderReader::new(blocks, format, &self.mapping, self.shape)?;
        Ok(Self { reader, ..self })
    }

    /// Which columns are ignored, in words; only once.
    pub(crate) fn ignored(&mut self) -> Option<String> {
        let text = columns::ignored(self.reader.ignored()).filter(|_| !self.has_named_ignored);
        self.has_named_ignored |= text.is_some();
        text
    }

    /// How the input is read, as a part of the job's stored digest: equal if the same orders come out.
    pub(crate) fn reading(&self) -> String {
        reading(self.reader.format(), &self.mapping)
    }
}

fn reading(format: RowFormat, mapping: &Mapping) -> String {
    let delimiter = match format.delimiter.map(Delimiter::get) {
        None | Some(b',') => String::new(),
        Some(byte) => format!(" {byte}"),
    };
    format!("{}{delimiter} {}", format.dialect.map_or("", Dialect::stored_name), mapping.text())
}

/// Lines that are not valid.
pub(crate) struct BadLines {
    pub(crate) count: u64,
    problems: Problems,
    rejects: Rejects,
}

/// Where lines that are not valid are collected.
enum Rejects {
    /// Nowhere.
    Unwanted,
    /// In a file that is not at its path yet.
    Open(OutputFile),
    /// In the file of that path.
    Written(String),
}

impl BadLines {
    /// None yet. The file for them is created now, so that a path that cannot be written is known before anything is
    /// applied.
    pub(crate) fn new(input: &Input, args: &RunArgs, dry_run: bool) -> Result<Self> {
        let mut rejects = Rejects::Unwanted;
        if let Some(path) = &args.rejects {
            let mut file = OutputFile::create("--rejects", path, &[&input.from])?;
            if !dry_run {
                let header = input.reader.header();
                file.append(header)?;
                file.append(if header.is_empty() || header.ends_with(b"\n") { b"" } else { b"\n" })?;
                rejects = Rejects::Open(file);
            }
        }
        Ok(Self { count: 0, problems: Problems::of(input.reader.name()), rejects })
    }

    /// Records one.
    pub(crate) fn add(&mut self, problem: input::Problem, reader: &OrderReader) -> Result<()> {
        self.count += 1;
        self.problems.report(problem);
        if let Rejects::Open(file) = &mut self.rejects {
            let raw = reader.raw();
            file.append(raw)?;
            file.append(if raw.ends_with(b"\n") { b"" } else { b"\n" })?;
        }
        Ok(())
    }

    /// Puts the collected lines at their path: there are no more.
    pub(crate) fn commit(&mut self) -> Result<()> {
        match std::mem::replace(&mut self.rejects, Rejects::Unwanted) {
            Rejects::Open(file) => {
                let path = file.path().display().to_string();
                file.commit()?;
                self.rejects = Rejects::Written(path);
            }
            other => self.rejects = other,
        }
        Ok(())
    }

    /// One failure for all of them.
    pub(crate) fn failure(self) -> Option<Failure> {
        let correct = match &self.rejects {
            Rejects::Written(path) => format!("correct them in `{path}` and apply that file alone"),
            _ => "correct them and apply them alone: the whole file, corrected, would be another job".to_owned(),
        };
        self.problems.end().err().map(|error| error.hint(correct))
    }

    /// The failure if nothing of the file was applied.
    pub(crate) fn refusal(self) -> Option<Failure> {
        self.problems.end().err().map(|failure| match failure.hint {
            Some(_) => failure,
            None => failure.hint("nothing was applied; `--keep-going` applies the other lines"),
        })
    }
}
