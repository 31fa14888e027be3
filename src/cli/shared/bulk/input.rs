//! The file of a run: what is read of it, and what becomes of its bad lines. Its check reads it whole, and reports what is wrong with it
//! before anything is applied.

use std::collections::HashMap;

use crate::cli::failure::{Exit, Failure, Result};
use crate::cli::input::orders::{
    Blocks, Column, ContentDigests, Dialect, FileOrder, Mapping, Next, OrderReader, Quantities, RowError, RowFormat,
    Shape,
};
use crate::cli::input::{Problems, columns};
use crate::cli::output::{Output, OutputFile, row};
use crate::cli::shared::bulk::RunArgs;
use crate::cli::{input, interrupt};
use crate::error::StoreError;
use crate::model::{ActivityId, Interner, Layout};
use crate::sell::bulk::Operation;
use crate::store::Store;

/// The columns of orders. The request id of a hold says how many units end, and whose they are unless the activity is sharded.
fn shape(operation: Operation, layout: Layout) -> Shape {
    use Column::{Activity, Items, Quantity, Reason, Request, User};
    let (required, optional): (&[Column], &[Column]) = match (operation, layout.kind().has_users()) {
        (Operation::Confirm | Operation::Release, _) => (&[Activity, Request], &[User, Reason]),
        (Operation::MultiDeduct, true) => (&[User, Items], &[Request, Reason]),
        (Operation::MultiDeduct, false) => (&[Items], &[User, Request, Reason]),
        (_, true) => (&[Activity, User], &[Quantity, Request, Reason]),
        (_, false) => (&[Activity], &[User, Quantity, Request, Reason]),
    };
    Shape { required, optional, quantities: Quantities::Orders, layout: Some(layout) }
}

/// A file that was opened.
pub(crate) struct Input {
    pub(crate) reader: OrderReader,
    mapping: Mapping,
    shape: Shape,
    /// Whether the columns that are ignored were named.
    has_named_ignored: bool,
}

impl Input {
    /// Opens orders of an operation.
    pub(crate) fn open(
        from: &str,
        format: RowFormat,
        mapping: Mapping,
        operation: Operation,
        layout: Layout,
    ) -> Result<Self> {
        let (blocks, shape) = (Blocks::open(from)?, shape(operation, layout));
        let reader = OrderReader::new(blocks, format, &mapping, shape)?;
        Ok(Self { reader, mapping, shape, has_named_ignored: false })
    }

    /// The same file from its beginning, which must have the same content.
    pub(crate) fn again(self, expected: &ContentDigests) -> Result<Self> {
        let format = self.reader.format;
        let blocks = self.reader.lines.blocks.again(expected.clone())?;
        let reader = OrderReader::new(blocks, format, &self.mapping, self.shape)?;
        Ok(Self { reader, ..self })
    }

    /// Which columns are ignored, in words; only once.
    pub(crate) fn ignored(&mut self) -> Option<String> {
        let text = columns::ignored(self.reader.ignored()).filter(|_| !self.has_named_ignored);
        self.has_named_ignored |= text.is_some();
        text
    }

    /// Which columns the mapping ignores, as a part of the job's stored digest.
    pub(crate) fn unmapped(&self) -> String {
        // Which columns jsonl has is known only at its end.
        let is_there = |ours: &str| {
            self.reader.header().is_empty() || self.reader.ignored().iter().any(|name| columns::is_same(ours, name))
        };
        self.mapping.ignored(is_there)
    }

    /// How the input is read, as a part of the job's name and stored digest.
    pub(crate) fn reading(&self) -> String {
        let format = self.reader.format;
        let delimiter = match format.delimiter {
            None | Some(b',') => String::new(),
            Some(byte) => format!(" {byte}"),
        };
        format!("{}{delimiter} {}", format.dialect.map_or("", Dialect::stored_name), self.mapping.text())
    }
}

/// Lines that are not valid.
pub(crate) struct BadLines {
    pub(crate) problems: Problems,
    /// The file for them, which is not at its path yet.
    rejects: Option<OutputFile>,
    /// The path of that file, once it is there.
    written: Option<String>,
}

impl BadLines {
    /// None yet. The file for them is created now, so that a path that cannot be written is known before anything is
    /// applied.
    pub(crate) fn new(input: &Input, args: &RunArgs, dry_run: bool, out: &Output) -> Result<Self> {
        let mut rejects = None;
        if let Some(path) = &args.rejects {
            let mut file = out.create("--rejects", path)?;
            if !dry_run {
                let header = input.reader.header();
                file.append(header)?;
                file.append(if header.is_empty() || header.ends_with(b"\n") { b"" } else { b"\n" })?;
                rejects = Some(file);
            }
        }
        Ok(Self { problems: Problems::of(input.reader.lines.name()), rejects, written: None })
    }

    /// Records one.
    pub(crate) fn add(&mut self, problem: input::Problem, reader: &OrderReader) -> Result<()> {
        self.problems.report(problem);
        if let Some(file) = &mut self.rejects {
            let raw = reader.lines.raw();
            file.append(raw)?;
            file.append(if raw.ends_with(b"\n") { b"" } else { b"\n" })?;
        }
        Ok(())
    }

    /// Puts the collected lines at their path: there are no more.
    pub(crate) fn commit(&mut self) -> Result<()> {
        if let Some(file) = self.rejects.take() {
            let path = file.path.display().to_string();
            file.commit()?;
            self.written = Some(path);
        }
        Ok(())
    }

    /// One failure for all of them.
    pub(crate) fn failure(self) -> Option<Failure> {
        let correct = match &self.written {
            Some(path) => format!("correct them in `{path}` and apply that file alone"),
            None => "correct them and apply them alone: the whole file, corrected, would be another job".to_owned(),
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

/// A file that may be applied.
pub(crate) struct CheckedInput {
    pub(crate) input: Input,
    /// The digest of its content; `None` if it can be read only once, and was not read yet.
    pub(crate) content: Option<ContentDigests>,
    pub(crate) bad: BadLines,
    pub(crate) rows: u64,
    totals: Totals,
    /// Of each activity, the first line that names no user, if the request id is what a line names.
    pub(crate) nameless: Vec<(String, u64)>,
    /// What was read of an input that can be read only once.
    pub(crate) begin: Begin,
}

/// The beginning of an input that can be read only once: as far as its first order, which says whether it is another one.
#[derive(Default)]
pub(crate) struct Begin {
    /// The digest of header and first order.
    pub(crate) content: ContentDigests,
    pub(crate) order: Option<FileOrder>,
    /// Whether there is nothing behind it, or nothing that may be applied.
    pub(crate) has_ended: bool,
}

impl Begin {
    /// Waits for the first order.
    ///
    /// # Errors
    /// The user asked to stop, or the input cannot be read.
    fn read(input: &mut Input, bad: &mut BadLines, keep_going: bool) -> Result<Self> {
        let mut order = FileOrder::default();
        loop {
            match order.read(&mut input.reader) {
                Ok(Next::Row) => {
                    let texts = [input.reader.header(), input.reader.lines.raw()].map(<[u8]>::trim_ascii_end);
                    let content = ContentDigests::of(&texts.join(&b'\n'));
                    return Ok(Self { content, order: Some(order), has_ended: false });
                }
                Ok(Next::End) => return Ok(Self { has_ended: true, ..Self::default() }),
                Ok(Next::NotYet) => input.reader.lines.blocks.wait_or_stop()?,
                Err(RowError::Bad(problem)) => {
                    bad.add(problem, &input.reader)?;
                    if !keep_going {
                        return Ok(Self { has_ended: true, ..Self::default() });
                    }
                    if interrupt::requested() {
                        input.reader.lines.blocks.wait_or_stop()?;
                    }
                }
                Err(RowError::Fatal(failure)) => return Err(failure),
            }
        }
    }
}

row! {
    /// What is asked of one activity.
    struct TotalRow<'a> as row {
        activity: &'a str, flexible;
        orders: u64;
        /// `None` of holds, which have their units themselves.
        units: Option<u64>;
    }
}

/// The activities of a file, in the order in which they are named first.
#[derive(Default)]
struct Totals {
    names: Interner,
    /// Orders and units of each, only for a dry run.
    of: Vec<(u64, u64)>,
}

impl Totals {
    fn add(&mut self, activity: &str, units: u64, is_counted: bool) -> u32 {
        let index = self.names.number(activity.as_bytes());
        if is_counted {
            self.of.resize(self.names.count(), (0, 0));
            let total = &mut self.of[index as usize];
            *total = (total.0 + 1, total.1 + units);
        }
        index
    }
}

/// Reads a regular file whole, and with `--dry-run` any other too; else only its first order. `None` if the user asked to stop.
pub(crate) fn check(
    mut input: Input,
    args: &RunArgs,
    operation: Operation,
    dry_run: bool,
    out: &Output,
) -> Result<Option<CheckedInput>> {
    let mut bad = BadLines::new(&input, args, dry_run, out)?;
    let mut totals = Totals::default();
    let mut nameless = HashMap::new();
    let mut rows = 0;
    input.ignored().iter().for_each(|text| out.note(text));
    let is_regular = input.reader.lines.blocks.is_regular();
    if !is_regular && !dry_run {
        let begin = Begin::read(&mut input, &mut bad, args.keep_going)?;
        return Ok(Some(CheckedInput { input, content: None, bad, rows, totals, nameless: Vec::new(), begin }));
    }
    let progress = out.progress("checking", 0);
    let mut order = FileOrder::default();
    loop {
        if interrupt::requested() {
            progress.finish();
            out.note("stopped while the file was checked; nothing was applied");
            return Ok(None);
        }
        match order.read(&mut input.reader) {
            Ok(Next::Row) => {
                let is_nameless = operation.settles() && order.row.text(Column::User).is_empty();
                order.each(|activity, units| {
                    let index = totals.add(activity, units, dry_run);
                    if is_nameless {
                        nameless.entry(index).or_insert(order.row.line);
                    }
                });
                rows += 1;
                if rows % 4096 == 0 {
                    progress.inc(4096);
                }
            }
            Ok(Next::NotYet) => input.reader.lines.blocks.wait(std::time::Duration::from_millis(100)),
            Ok(Next::End) => break,
            Err(RowError::Bad(problem)) => bad.add(problem, &input.reader)?,
            Err(RowError::Fatal(failure)) => return Err(failure),
        }
    }
    progress.finish();
    input.ignored().iter().for_each(|text| out.note(text));
    if bad.problems.any() && !args.keep_going {
        return bad.refusal().map_or(Ok(None), Err);
    }
    bad.commit()?;
    let content = (is_regular && !dry_run).then(|| input.reader.lines.blocks.checked());
    if let Some(content) = &content {
        input = input.again(content)?;
    }
    let name = |index| String::from_utf8_lossy(totals.names.name(index)).into_owned();
    let mut nameless: Vec<(String, u64)> = nameless.into_iter().map(|(index, line)| (name(index), line)).collect();
    nameless.sort_by_key(|(_, line)| *line);
    Ok(Some(CheckedInput { input, content, bad, rows, totals, nameless, begin: Begin::default() }))
}

impl CheckedInput {
    /// Shows what would be applied.
    ///
    /// # Errors
    /// A line needs a user and names none, as in the run itself.
    pub(crate) fn show(self, store: &mut Store, out: &mut Output) -> Result<Exit> {
        let names: Vec<ActivityId> =
            self.nameless.iter().map(|(activity, _)| ActivityId::validated(activity.as_bytes())).collect();
        for ((activity, line), shards) in self.nameless.into_iter().zip(store.shards_of_each(&names)?) {
            if shards.is_some() {
                return Err(StoreError::NoUser { activity, line: Some(line) }.into());
            }
        }
        let mut rows = out.stream::<TotalRow<'_>>()?;
        for ((orders, units), index) in self.totals.of.iter().zip(0..) {
            let activity = std::str::from_utf8(self.totals.names.name(index)).unwrap_or_default();
            // An order has at least one.
            rows.push(&TotalRow { activity, orders: *orders, units: Some(*units).filter(|units| *units > 0) })?;
        }
        rows.finish()?;
        self.bad.failure().map_or(Ok(Exit::Done), Err)
    }

    /// The activities that are named; none of what was not read yet.
    pub(crate) fn take_names(&mut self) -> Interner {
        std::mem::take(&mut self.totals.names)
    }
}
