//! A plan of repairs: one JSON object a line, as an audit wrote it.

use crate::audit::plan::repair::{Repair, incomplete};
use crate::cli::input::error::InputError;
use crate::cli::input::names::quoted;
use crate::cli::input::plan_row::PlanRow;
use crate::cli::input::problem::{Location, Problem, Problems};
use crate::cli::input::source::Source;
use crate::model::id::{ActivityId, RequestId, StoredUser, UserId};
use crate::model::number::MOST_UNITS;

/// Reads a plan; `-` is standard input.
pub fn read(path: &str) -> Result<Vec<Repair>, InputError> {
    let source = Source::read(path)?;
    let mut problems = Problems::of(&source.name);
    let mut repairs = Vec::new();
    for (text, line) in source.text.lines().zip(1..).filter(|(text, _)| !text.trim().is_empty()) {
        match repair(text) {
            Ok(repair) => repairs.push(repair),
            Err((column, why)) => {
                problems.report(Problem::new(Location { line, column }, why));
            }
        }
    }
    problems.end()?;
    if let Some(raise) = incomplete(&repairs) {
        return Err(InputError::invalid(format!(
            "`{}` is not a whole plan: `{}` of activity `{}` raises the stock, and repairs that come before it are missing",
            source.name, raise.id, raise.activity
        ))
        .with_hint("write the plan again with `seckill reconcile --plan FILE`, and apply all of it"));
    }
    Ok(repairs)
}

/// Reads one line: a repair, or where and why it is none.
fn repair(text: &str) -> Result<Repair, (usize, String)> {
    let row: PlanRow = serde_json::from_str(text).map_err(|error| unreadable(text, &error))?;
    let repair = Repair::try_from(row).map_err(|why| (text.len(), why))?;
    let wrong = if !ActivityId::fits(&repair.activity) {
        format!("activity: `{}` is not {}", repair.activity.escape_debug(), ActivityId::EXPECTED)
    } else if !RequestId::fits(&repair.id) {
        format!("id: `{}` is not {}", repair.id.escape_debug(), RequestId::EXPECTED)
    } else if let Some(user) = repair.user.as_ref().filter(|user| !StoredUser::fits(user)) {
        format!("user: `{}` is not {}", user.to_string().escape_debug(), UserId::EXPECTED)
    } else if repair.from > Some(MOST_UNITS)
        || repair.to > MOST_UNITS
        || repair.stock_change.unsigned_abs() > MOST_UNITS
    {
        "a count is past 9007199254740991".to_owned()
    } else {
        return Ok(repair);
    };
    Err((1, wrong))
}

/// Fields and what each must be, for errors.
const FIELDS: [(&str, &str); 12] = [
    ("id", "a text"),
    ("layout", "a layout, such as \"seckill\""),
    ("activity", "a text"),
    ("class", "a class of differences, such as \"missing_order\""),
    ("user", "a text or null"),
    ("user_hex", "a text of hexadecimal digits, two a byte"),
    ("from", "a whole number of units, without leading zero, or null"),
    ("to", "a whole number of units, without leading zero"),
    ("stock_change", "a whole number of units, such as 5 or -5"),
    ("reversed", "an array of request ids"),
    ("epoch", "a whole number or null"),
    ("repairs", "a whole number or null"),
];

/// Where and why a line cannot be read: the field whose value serde_json stopped at, if it was at one.
fn unreadable(text: &str, error: &serde_json::Error) -> (usize, String) {
    let message = error.to_string();
    let message = message.split(" at line ").next().unwrap_or(&message);
    let read = text.get(..error.column()).unwrap_or(text);
    let name_of = |(name, expected): &(&'static str, &'static str)| {
        let at = read.rfind(&format!("\"{name}\":"))?;
        Some((at + name.len() + 3, *name, *expected))
    };
    let is_of_a_value = ["invalid type", "invalid value", "invalid number", "unknown variant", "number out of range"]
        .iter()
        .any(|known| message.starts_with(known));
    match FIELDS.iter().filter_map(name_of).max() {
        Some((start, name, expected)) if is_of_a_value => {
            let value = text[start..].trim_start();
            let value = value.split([',', '}']).next().unwrap_or_default().trim_end();
            let column = text[..start].chars().count() + 1;
            (column, format!("{name}: {} is not {expected}", quoted(value)))
        }
        _ if error.is_data() => (error.column().max(1), message.to_owned()),
        _ => (error.column().max(1), format!("not a JSON object: {message}")),
    }
}
