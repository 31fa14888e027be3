//! A list of activities in csv or tsv: what a fixture says, a row an activity, for lists that are too long for YAML.

use std::collections::HashMap;
use std::fmt::Display;
use std::str::FromStr;

use crate::cli::failure::{Failure, Result};
use crate::cli::input::columns::{self, Columns, Mapping};
use crate::cli::input::error::{Problems, quoted};
use crate::cli::input::orders::{Dialect, Lines, Next, RowError, RowFormat, Separated, is_rounded};
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
    let first = source.text.lines().find(|line| !line.is_empty()).unwrap_or_default();
    let (dialect, delimiter) = format.of(&source.name, first.as_bytes())?;
    if !matches!(dialect, Dialect::Csv | Dialect::Tsv) {
        return Err(Failure::usage(format!("{}: a list of activities is csv or tsv", quoted(&source.name)))
            .hint("a fixture in YAML can say the same"));
    }
    let (mut problems, lines) = (Problems::of(&source.name), Lines::of_text(&source.name, source.text));
    let list = rows(lines, (dialect, delimiter), &columns, &mut problems).map_err(|error| match error {
        RowError::Fatal(failure) => failure,
        RowError::Bad(problem) => Problems::only(&source.name, problem.of_line()),
    })?;
    problems.end()?;
    Ok(list)
}

/// Reads the header, and the rows that are valid; reports those that are not.
fn rows(
    mut lines: Lines,
    (dialect, delimiter): (Dialect, u8),
    columns: &Columns<&'static str>,
    problems: &mut Problems,
) -> Result<List, RowError> {
    let mut values = Separated::open(dialect, delimiter, &mut lines, columns)?;
    let mut list = List { plans: Vec::new(), ignored: columns::ignored(&values.ignored) };
    let mut seen: HashMap<ActivityId, u64> = HashMap::new();
    loop {
        match values.record(&mut lines) {
            Ok(Next::Row) => {}
            Ok(Next::End | Next::NotYet) => return Ok(list),
            Err(RowError::Bad(problem)) => {
                problems.report(problem.of_line());
                continue;
            }
            Err(fatal) => return Err(fatal),
        }
        let mut row = Row { values: &values, lines: &lines, problems };
        let Some(plan) = row.plan() else { continue };
        match seen.insert(plan.id.clone(), lines.line) {
            Some(first) => row.report(format!("activity `{}` is given twice, first in line {first}", plan.id), None),
            None => list.plans.push(plan),
        }
    }
}

/// The record that was read last.
struct Row<'a> {
    values: &'a Separated<&'static str>,
    lines: &'a Lines,
    problems: &'a mut Problems,
}

impl Row<'_> {
    fn plan(&mut self) -> Option<Plan> {
        let (count, width) = (self.values.count(), self.values.width);
        if count != width {
            self.report(format!("{count} values, but the header has {width}"), None);
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

    fn required<T: FromStr>(&mut self, name: &'static str, expected: &str) -> Option<T> {
        let text = self.text(name).unwrap_or_default().to_owned();
        self.parsed(name, &text, expected)
    }

    /// The outer `None` if it is wrong; an empty value is none.
    fn optional<T: FromStr>(&mut self, name: &'static str, expected: &str) -> Option<Option<T>> {
        match self.text(name).unwrap_or_default().to_owned() {
            text if text.is_empty() => Some(None),
            text => self.parsed(name, &text, expected).map(Some),
        }
    }

    /// An empty value keeps what there is.
    fn clearable<T>(&mut self, name: &'static str, expected: &str) -> Option<FieldChange<T>>
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

    fn text(&self, name: &'static str) -> Option<&str> {
        self.values.value(self.lines, name)
    }

    fn report(&mut self, message: String, hint: Option<&str>) {
        self.problems.report(self.lines.problem(0, message, hint.map(str::to_owned)));
    }
}
