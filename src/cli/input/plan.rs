//! A plan of repairs: one JSON object a line, as an audit wrote it.

use std::collections::HashMap;

use crate::audit::plan::repair::{Repair, incomplete};
use crate::cli::failure::{Failure, Result};
use crate::cli::input::error::{Location, Problem, Problems, json_message, quoted};
use crate::cli::input::source::Source;
use crate::model::number::MAX_UNITS;
use crate::model::{ActivityId, EntryId, RequestId, StoredUser, UserId};

/// Reads a plan; `-` is standard input.
pub fn read(path: &str) -> Result<Vec<Repair>> {
    let source = Source::read(path)?;
    let mut problems = Problems::of(&source.name);
    let mut repairs = Vec::new();
    // The line of each: two of the same units, or of two audits, would each be applied to what one of them found.
    let (mut lines, mut audits) = (HashMap::new(), HashMap::new());
    for (text, line) in source.text.lines().zip(1..).filter(|(text, _)| !text.trim().is_empty()) {
        match repair(text) {
            Ok(repair) => {
                let of = (repair.layout, repair.activity.clone(), repair.epoch, repair.repairs);
                let units = repair.user.as_ref().map_or_else(|| repair.class.name().to_owned(), StoredUser::hex);
                let seen = repair.audited_entry.clone().map(|entry| (line, entry));
                let other = seen.and_then(|seen| {
                    let first = audits.entry(of.clone()).or_insert_with(|| seen.clone());
                    (first.1 != seen.1).then_some((first.0, "of another audit"))
                });
                let same = lines.insert((of, units), line).map(|first| (first, "of the same units"));
                if let Some((first, what)) = same.or(other) {
                    let why = format!("a repair {what} is on line {first}: are there two plans in the file?");
                    problems.report(Problem::new(Location { line, column: 1 }, why));
                }
                repairs.push(repair);
            }
            Err((column, why)) => {
                problems.report(Problem::new(Location { line, column }, why));
            }
        }
    }
    problems.end()?;
    if let Some(raise) = incomplete(&repairs) {
        return Err(Failure::usage(format!(
            "`{}` is not a whole plan: `{}` of activity `{}` raises the stock, and repairs that come before it are missing",
            source.name, raise.id, raise.activity
        ))
        .hint("write the plan again with `seckill reconcile --plan FILE`, and apply all of it"));
    }
    Ok(repairs)
}

/// Reads one line: a repair, or where and why it is none.
fn repair(text: &str) -> Result<Repair, (usize, String)> {
    let mut repair: Repair = serde_json::from_str(text).map_err(|error| unreadable(text, &error))?;
    complete(&mut repair).map_err(|why| (text.chars().count(), why))?;
    let wrong = if !ActivityId::fits(&repair.activity) {
        format!("activity: `{}` is not {}", repair.activity.escape_debug(), ActivityId::EXPECTED)
    } else if !RequestId::fits(&repair.id) {
        format!("id: `{}` is not {}", repair.id.escape_debug(), RequestId::EXPECTED)
    } else if let Some(user) = repair.user.as_ref().filter(|user| !StoredUser::fits(user)) {
        format!("user: `{}` is not {}", user.to_string().escape_debug(), UserId::EXPECTED)
    } else if repair.from > Some(MAX_UNITS) || repair.to > MAX_UNITS || repair.stock_change.unsigned_abs() > MAX_UNITS {
        "a count is past 9007199254740991".to_owned()
    } else {
        return Ok(repair);
    };
    Err((1, wrong))
}

/// Fields and what each must be, for errors.
const FIELDS: [(&str, &str); 15] = [
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
    ("after", "the id of an entry, such as \"1762790400000-0\", or null"),
    ("audited_stock", "a whole number of units or null"),
    ("audited_entry", "the id of an entry, such as \"1762790400000-0\", or null"),
    ("epoch", "a whole number or null"),
    ("repairs", "a whole number or null"),
];

/// Where and why a line cannot be read: the field whose value serde_json stopped at, if it was at one.
fn unreadable(text: &str, error: &serde_json::Error) -> (usize, String) {
    let message = json_message(error);
    // It may stop within a character.
    let end = (error.column()..text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(text.len());
    let read = &text[..end];
    let column = read.chars().count().max(1);
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
        _ if error.is_data() => (column, message),
        _ => (column, format!("not a JSON object: {message}")),
    }
}

/// Completes a repair that was read, and says what is wrong with it as a whole.
fn complete(repair: &mut Repair) -> Result<(), String> {
    if let Some(hex) = &repair.user_hex {
        if repair.user.is_some() {
            return Err("user and user_hex: give one of them".to_owned());
        }
        let wrong = || format!("user_hex: `{}` is not hexadecimal digits, two a byte", hex.escape_debug());
        repair.user = Some(StoredUser::of_hex(hex).ok_or_else(wrong)?);
    }
    if let Some(entry) = &repair.audited_entry {
        entry.parse::<EntryId>().map_err(|why| format!("audited_entry: {why}"))?;
    }
    if repair.audited_stock.is_none() && repair.user.is_none() && repair.stock_change > 0 && repair.from.is_some() {
        return Err(
            "audited_stock is missing: a repair that raises the stock needs the stock as it was audited".to_owned()
        );
    }
    if repair.reversed.is_none() && repair.takes_units() {
        return Err(
            "reversed is missing: a repair that takes units from a user ends the request ids behind them; write the \
                    plan again with `seckill reconcile --plan FILE`"
                .to_owned(),
        );
    }
    match repair.reversed().iter().find(|request| !RequestId::fits(request)) {
        Some(request) => Err(format!("reversed: `{}` is not {}", request.escape_debug(), RequestId::EXPECTED)),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::class::Class;

    #[test]
    fn a_repair_is_an_object_whose_user_is_a_text_or_bytes_in_hex() {
        let (user, reversed) = (Some(StoredUser::new("a")), Some(vec!["order-1".to_owned()]));
        let given = Repair { user, reversed, ..Repair::sample() }.named(7);
        let row = serde_json::to_string(&given).unwrap();
        assert_eq!(repair(&row).ok(), Some(given));
        assert!(repair(&row.replace("\"user\":\"a\"", "\"user\":\"a\",\"user_hex\":\"61\"")).is_err());
        assert!(repair("1").unwrap_err().1.contains("expected an object"));
    }

    #[test]
    fn a_file_has_the_plan_of_one_audit() {
        let of = |class, entry: &str| {
            let audited_entry = Some(entry.to_owned());
            let lowers = Repair { class, user: None, stock_change: -1, audited_entry, ..Repair::sample() };
            serde_json::to_string(&lowers.named(7)).unwrap() + "\n"
        };
        let read_both = |rows: [String; 2]| {
            let file = tempfile::NamedTempFile::new().unwrap();
            std::fs::write(file.path(), rows.concat()).unwrap();
            read(file.path().to_str().unwrap()).map(|repairs| repairs.len()).map_err(|failure| failure.message)
        };
        let first = of(Class::Conservation, "5-0");
        assert_eq!(read_both([first.clone(), of(Class::CounterDrift, "5-0")]), Ok(2));
        assert!(read_both([first.clone(), first.clone()]).unwrap_err().contains("of the same units is on line 1"));
        assert!(
            read_both([first, of(Class::CounterDrift, "6-0")]).unwrap_err().contains("of another audit is on line 1")
        );
    }
}
