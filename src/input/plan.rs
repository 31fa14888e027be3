//! A plan of repairs: one JSON object a line, as an audit wrote it.

use super::problem::{Location, Problem, Problems};
use super::source::Source;
use crate::inventory::failure::Failure;
use crate::inventory::id::{ActivityId, RequestId, StoredUser, UserId};
use crate::inventory::number::MOST_UNITS;
use crate::inventory::repair::Repair;

/// Reads a plan; `-` is standard input.
///
/// # Errors
/// It cannot be read, or a line is no repair.
pub fn read(path: &str) -> Result<Vec<Repair>, Failure> {
    let source = Source::read(path)?;
    let mut problems = Problems::of(&source.name);
    let mut repairs = Vec::new();
    for (text, line) in source.text.lines().zip(1..).filter(|(text, _)| !text.trim().is_empty()) {
        match repair(text) {
            Ok(repair) => repairs.push(repair),
            Err((column, why)) => {
                problems.tell(Problem::new(Location { line, column }, why));
            }
        }
    }
    problems.end()?;
    Ok(repairs)
}

/// Reads one line: a repair, or where and why it is none.
fn repair(text: &str) -> Result<Repair, (usize, String)> {
    let repair: Repair = serde_json::from_str(text).map_err(|error| {
        let why = error.to_string();
        (error.column().max(1), why.split(" at line ").next().unwrap_or(&why).to_owned())
    })?;
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
