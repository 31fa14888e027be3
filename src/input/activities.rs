//! A list of activities in csv or tsv: what a fixture says, a row an activity, for lists that are too long for YAML.

use std::collections::HashMap;
use std::str::FromStr;

use super::fields::listed;
use super::orders::{Dialect, RowFormat};
use super::problem::{Location, Problem, Problems, did_you_mean, quoted};
use super::source::Source;
use crate::inventory::activity::Plan;
use crate::inventory::failure::Failure;
use crate::inventory::id::ActivityId;
use crate::inventory::number::{Limit, Units};
use crate::inventory::time::Millis;

/// The columns, named as the fields of a fixture.
const COLUMNS: [&str; 7] = ["id", "stock", "per_user_limit", "title", "starts_at", "ends_at", "ledger"];

/// Reads a list; `-` is standard input.
///
/// # Errors
/// One failure for all that is wrong with it.
pub fn read(path: &str) -> Result<Vec<Plan>, Failure> {
    let source = Source::read(path)?;
    let first = source.text.lines().next().unwrap_or_default();
    let delimiter = match RowFormat::default().of(&source.name, first.as_bytes())?.0 {
        Dialect::Tsv => b'\t',
        Dialect::Csv => b',',
        _ => {
            return Err(Failure::usage(format!("{}: a list of activities is csv or tsv", quoted(&source.name)))
                .hint("a fixture in YAML can say the same"));
        }
    };
    let mut problems = Problems::of(&source.name);
    let plans = rows(&source, delimiter, &mut problems);
    problems.end()?;
    Ok(plans)
}

fn rows(source: &Source, delimiter: u8, problems: &mut Problems) -> Vec<Plan> {
    let mut reader = csv::ReaderBuilder::new().delimiter(delimiter).flexible(true).from_reader(source.text.as_bytes());
    let top = Location { line: 1, column: 1 };
    let header: Vec<String> = match reader.headers() {
        Ok(header) => header.iter().map(|name| name.trim().to_owned()).collect(),
        Err(error) => {
            problems.tell(Problem::new(top, error.to_string()));
            return Vec::new();
        }
    };
    for (nth, name) in header.iter().enumerate() {
        if !COLUMNS.contains(&name.as_str()) {
            // A column that is only misspelt would be a limit that is not there.
            let message = format!("unknown column {}, expected {}", quoted(name), listed(&COLUMNS));
            problems.tell(Problem::new(top, message).hint(did_you_mean(name, &COLUMNS)));
        } else if header[..nth].contains(name) {
            problems.tell(Problem::new(top, format!("the header names `{name}` twice")));
        }
    }
    for wanted in &COLUMNS[..2] {
        if !header.iter().any(|name| name == wanted) {
            problems.tell(Problem::new(top, format!("no column `{wanted}`")));
        }
    }
    let mut seen: HashMap<ActivityId, usize> = HashMap::new();
    let mut plans = Vec::new();
    for record in reader.records() {
        let record = match record {
            Ok(record) => record,
            Err(error) => {
                problems.tell(Problem::new(top, error.to_string()));
                break;
            }
        };
        let line = record.position().map_or(1, |position| usize::try_from(position.line()).unwrap_or(usize::MAX));
        let mut row = Row { header: &header, record: &record, line, problems: &mut *problems };
        let Some(plan) = row.plan() else { continue };
        match seen.insert(plan.id.clone(), line) {
            Some(first) => {
                let message = format!("activity `{}` is given twice, first in line {first}", plan.id);
                problems.tell(Problem::new(Location { line, column: 1 }, message));
            }
            None => plans.push(plan),
        }
    }
    plans
}

struct Row<'a> {
    header: &'a [String],
    record: &'a csv::StringRecord,
    line: usize,
    problems: &'a mut Problems,
}

impl Row<'_> {
    fn plan(&mut self) -> Option<Plan> {
        if self.record.len() != self.header.len() {
            self.tell(format!("{} values, where the header has {}", self.record.len(), self.header.len()));
            return None;
        }
        let plan = Plan {
            id: self.required("id", ActivityId::EXPECTED)?,
            total: self.required("stock", Units::EXPECTED)?,
            per_user_limit: self.optional("per_user_limit", Limit::EXPECTED)?,
            title: self.optional("title", "a text")?,
            starts_at: self.optional("starts_at", Millis::EXPECTED)?,
            ends_at: self.optional("ends_at", Millis::EXPECTED)?,
            ledger: self.optional("ledger", "`true` or `false`")?,
        };
        if let (Some(start), Some(end)) = (plan.starts_at, plan.ends_at)
            && start >= end
        {
            self.tell(format!("the window ends ({end}) before it starts ({start})"));
            return None;
        }
        Some(plan)
    }

    fn required<T: FromStr>(&mut self, name: &str, expected: &str) -> Option<T> {
        let text = self.text(name).unwrap_or_default().to_owned();
        self.parsed(name, &text, expected)
    }

    /// `None` where it is wrong; an empty value is none.
    #[allow(clippy::option_option)]
    fn optional<T: FromStr>(&mut self, name: &str, expected: &str) -> Option<Option<T>> {
        match self.text(name).unwrap_or_default().to_owned() {
            text if text.is_empty() => Some(None),
            text => self.parsed(name, &text, expected).map(Some),
        }
    }

    fn parsed<T: FromStr>(&mut self, name: &str, text: &str, expected: &str) -> Option<T> {
        let value = text.parse().ok();
        if value.is_none() {
            self.tell(format!("{name}: {} is not {expected}", quoted(text)));
        }
        value
    }

    fn text(&self, name: &str) -> Option<&str> {
        self.record.get(self.header.iter().position(|known| known == name)?)
    }

    fn tell(&mut self, message: String) {
        self.problems.tell(Problem::new(Location { line: self.line, column: 1 }, message));
    }
}
