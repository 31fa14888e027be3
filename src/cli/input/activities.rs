//! A list of activities in csv or tsv: what a fixture says, a row an activity, for lists that are too long for YAML.

use std::collections::HashMap;
use std::fmt::Display;
use std::str::FromStr;

use crate::cli::failure::{Failure, Result};
use crate::cli::input::columns::{self, Columns, Mapping};
use crate::cli::input::error::{Location, Problem, Problems, quoted};
use crate::cli::input::orders::{Dialect, Quotes, RowFormat, is_rounded, line_ends};
use crate::cli::input::source::Source;
use crate::cli::input::window::WindowTime;
use crate::model::{ActivityId, FieldChange, Limit, Plan, Units};

/// The columns, named as the fields of a fixture. The first two are required.
const COLUMNS: [&str; 7] = ["id", "stock", "per_user_limit", "title", "starts_at", "ends_at", "ledger"];

pub struct List {
    pub plans: Vec<Plan>,
    /// Which columns are ignored, in words.
    pub ignored: Option<String>,
}

/// Reads a list; `-` is standard input.
///
/// # Errors
/// One failure for all that is wrong with it.
pub fn read(path: &str, mapping: &Mapping, format: RowFormat) -> Result<List> {
    let columns = Columns::new(&COLUMNS[..2], &COLUMNS[2..], mapping)?;
    let source = Source::read(path)?;
    let first = source.text.lines().next().unwrap_or_default();
    let (dialect, delimiter) = format.of(&source.name, first.as_bytes())?;
    if !matches!(dialect, Dialect::Csv | Dialect::Tsv) {
        return Err(Failure::usage(format!("{}: a list of activities is csv or tsv", quoted(&source.name)))
            .hint("a fixture in YAML can say the same"));
    }
    let mut problems = Problems::of(&source.name);
    let list = rows(&source, delimiter, &columns, &mut problems);
    problems.end()?;
    Ok(list)
}

fn rows(source: &Source, delimiter: u8, columns: &Columns, problems: &mut Problems) -> List {
    let bytes = source.text.as_bytes();
    let mut reader = csv::ReaderBuilder::new().delimiter(delimiter).flexible(true).from_reader(bytes);
    let mut list = List { plans: Vec::new(), ignored: None };
    let header: Vec<String> = match reader.headers() {
        Ok(header) => header.iter().map(|name| name.trim().to_owned()).collect(),
        Err(error) => {
            problems.report(Problem::new(Location::START, error.to_string()));
            return list;
        }
    };
    let found = match Quotes::of(&bytes[..offset(reader.position().byte())], delimiter).fault() {
        Some((_, message, hint)) => Err(Problem::new(Location::START, message).hint(hint.map(str::to_owned))),
        None if header.is_empty() => Err(columns.no_header()),
        None => columns.find(&header),
    };
    let found = match found {
        Ok(found) => found,
        Err(problem) => {
            problems.report(problem);
            return list;
        }
    };
    list.ignored = columns::ignored(&found.ignored);
    let mut seen: HashMap<ActivityId, usize> = HashMap::new();
    let mut record = csv::StringRecord::new();
    let (mut line, mut counted) = (1, 0);
    loop {
        match reader.read_record(&mut record) {
            Ok(true) => {}
            Ok(false) => return list,
            Err(error) => {
                problems.report(Problem::new(Location::START, error.to_string()));
                return list;
            }
        }
        let start = record.position().map_or(0, |at| offset(at.byte()));
        let raw = bytes.get(start..offset(reader.position().byte())).unwrap_or_default();
        // What is left of the line end before it, and empty lines.
        let raw_start = raw.iter().position(|byte| !b"\r\n".contains(byte)).unwrap_or_default();
        line += offset(line_ends(&bytes[counted..start + raw_start], b'\n'));
        counted = start + raw_start;
        let (width, columns) = (header.len(), &found.indexes);
        let mut row = Row { width, columns, record: &record, line, problems: &mut *problems };
        if let Some((_, message, hint)) = Quotes::of(&raw[raw_start..], delimiter).fault() {
            row.report(message.to_owned(), hint);
            continue;
        }
        let Some(plan) = row.plan() else { continue };
        match seen.insert(plan.id.clone(), line) {
            Some(first) => {
                let message = format!("activity `{}` is given twice, first in line {first}", plan.id);
                problems.report(Problem::new(Location { line, column: 1 }, message));
            }
            None => list.plans.push(plan),
        }
    }
}

/// An offset into a text that is held in memory.
fn offset(at: u64) -> usize {
    usize::try_from(at).unwrap_or(usize::MAX)
}

struct Row<'a> {
    width: usize,
    /// The index of each column of ours.
    columns: &'a [Option<usize>],
    record: &'a csv::StringRecord,
    line: usize,
    problems: &'a mut Problems,
}

impl Row<'_> {
    fn plan(&mut self) -> Option<Plan> {
        if self.record.len() != self.width {
            self.report(format!("{} values, but the header has {}", self.record.len(), self.width), None);
            return None;
        }
        let id = self.text("id").filter(|id| id.starts_with(|c: char| c.is_ascii_digit()) && is_rounded(id));
        if let Some(id) = id.map(quoted) {
            self.report(
                format!("id: {id} is a number that was rounded"),
                Some("a spreadsheet did that: format the column as text, and export it again"),
            );
            return None;
        }
        let plan = Plan {
            id: self.required("id", ActivityId::EXPECTED)?,
            total: Some(self.required("stock", Units::EXPECTED)?),
            per_user_limit: self.clearable::<Limit>("per_user_limit", Limit::EXPECTED)?,
            title: self.optional("title", "a text")?,
            starts_at: self.clearable::<WindowTime>("starts_at", WindowTime::EXPECTED)?.map(|time| time.0),
            ends_at: self.clearable::<WindowTime>("ends_at", WindowTime::EXPECTED)?.map(|time| time.0),
            ledger: self.optional("ledger", "`true` or `false`")?,
            shards: None,
        };
        if let (Some(start), Some(end)) = (plan.starts_at.value(), plan.ends_at.value())
            && start >= end
        {
            self.report(format!("the window ends ({end}) before it starts ({start})"), None);
            return None;
        }
        Some(plan)
    }

    fn required<T: FromStr>(&mut self, name: &str, expected: &str) -> Option<T> {
        let text = self.text(name).unwrap_or_default().to_owned();
        self.parsed(name, &text, expected)
    }

    /// The outer `None` if it is wrong; an empty value is none.
    fn optional<T: FromStr>(&mut self, name: &str, expected: &str) -> Option<Option<T>> {
        match self.text(name).unwrap_or_default().to_owned() {
            text if text.is_empty() => Some(None),
            text => self.parsed(name, &text, expected).map(Some),
        }
    }

    /// An empty value keeps what there is.
    fn clearable<T>(&mut self, name: &str, expected: &str) -> Option<FieldChange<T>>
    where
        T: FromStr<Err: Display>,
    {
        self.optional::<FieldChange<T>>(name, &format!("{expected}, or none")).map(Option::unwrap_or_default)
    }

    fn parsed<T: FromStr>(&mut self, name: &str, text: &str, expected: &str) -> Option<T> {
        let value = text.parse().ok();
        if value.is_none() {
            self.report(format!("{name}: {} is not {expected}", quoted(text)), None);
        }
        value
    }

    fn text(&self, name: &str) -> Option<&str> {
        let index = COLUMNS.iter().position(|known| *known == name)?;
        self.record.get(self.columns[index]?)
    }

    fn report(&mut self, message: String, hint: Option<&str>) {
        let problem = Problem::new(Location { line: self.line, column: 1 }, message);
        self.problems.report(problem.hint(hint.map(str::to_owned)));
    }
}
