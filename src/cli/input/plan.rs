//! A plan of repairs: one JSON object a line, as an audit wrote it.

use serde::{Deserialize, Serialize};

use crate::audit::class::Class;
use crate::audit::plan::repair::{Audited, Repair, incomplete};
use crate::cli::failure::{Failure, Result};
use crate::cli::input::error::{Location, Problem, Problems, quoted};
use crate::cli::input::source::Source;
use crate::model::number::MAX_UNITS;
use crate::model::{ActivityId, EntryId, Layout, RequestId, StoredUser, UserId};

/// Reads a plan; `-` is standard input.
pub fn read(path: &str) -> Result<Vec<Repair>> {
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
    let row: PlanRow = serde_json::from_str(text).map_err(|error| unreadable(text, &error))?;
    let repair = Repair::try_from(row).map_err(|why| (text.len(), why))?;
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

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlanRow {
    id: String,
    layout: Layout,
    activity: String,
    class: Class,
    user: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    user_hex: Option<String>,
    from: Option<u64>,
    to: u64,
    stock_change: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reversed: Option<Vec<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    after: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    audited_stock: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    audited_entry: Option<String>,
    epoch: Option<u64>,
    repairs: Option<u64>,
}

impl From<&Repair> for PlanRow {
    fn from(repair: &Repair) -> Self {
        let user = repair.user.as_ref();
        Self {
            user: user.and_then(StoredUser::text).map(str::to_owned),
            user_hex: user.and_then(StoredUser::user_hex),
            id: repair.id.clone(),
            layout: repair.layout,
            activity: repair.activity.clone(),
            class: repair.class,
            from: repair.from,
            to: repair.to,
            stock_change: repair.stock_change,
            reversed: repair.takes_units().then(|| repair.reversed.clone()),
            after: repair.after.clone(),
            audited_stock: repair.audited.map(|audited| audited.stock),
            audited_entry: repair.audited.and_then(|audited| audited.last).map(|last| last.to_string()),
            epoch: repair.epoch,
            repairs: repair.repairs,
        }
    }
}

impl TryFrom<PlanRow> for Repair {
    type Error = String;

    fn try_from(row: PlanRow) -> Result<Self, Self::Error> {
        let user = match (row.user, row.user_hex) {
            (Some(_), Some(_)) => return Err("user and user_hex: give one of them".to_owned()),
            (user, None) => user.map(StoredUser::new),
            (None, Some(hex)) => match StoredUser::of_hex(&hex) {
                None => {
                    return Err(format!("user_hex: `{}` is not hexadecimal digits, two a byte", hex.escape_debug()));
                }
                user => user,
            },
        };
        let last = row.audited_entry.map(|entry| entry.parse::<EntryId>()).transpose();
        let last = last.map_err(|why| format!("audited_entry: {why}"))?;
        let audited = row.audited_stock.map(|stock| Audited { stock, last });
        if audited.is_none() && user.is_none() && row.stock_change > 0 && row.from.is_some() {
            return Err(
                "audited_stock is missing: a repair that raises the stock needs the stock as it was audited".to_owned()
            );
        }
        let is_missing = row.reversed.is_none();
        let repair = Self {
            user,
            audited,
            id: row.id,
            layout: row.layout,
            activity: row.activity,
            class: row.class,
            from: row.from,
            to: row.to,
            stock_change: row.stock_change,
            reversed: row.reversed.unwrap_or_default(),
            after: row.after,
            epoch: row.epoch,
            repairs: row.repairs,
        };
        if is_missing && repair.takes_units() {
            return Err("reversed is missing: a repair that takes units from a user ends the request ids behind them; write the \
                        plan again with `seckill reconcile --plan FILE`"
                .to_owned());
        }
        if let Some(request) = repair.reversed.iter().find(|request| !RequestId::fits(request)) {
            return Err(format!("reversed: `{}` is not {}", request.escape_debug(), RequestId::EXPECTED));
        }
        Ok(repair)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(repair: &Repair) -> String {
        serde_json::to_string(&PlanRow::from(repair)).unwrap()
    }

    fn decoded(row: &str) -> Result<Repair, String> {
        serde_json::from_str::<PlanRow>(row).map_err(|error| error.to_string())?.try_into()
    }

    fn repair() -> Repair {
        Repair {
            id: String::new(),
            layout: Layout::Sku,
            activity: "1001".to_owned(),
            class: Class::QuantityMismatch,
            user: Some(StoredUser::new(&b"\xc4\xe3"[..])),
            from: Some(2),
            to: 1,
            stock_change: 1,
            reversed: vec!["order-1".to_owned()],
            after: None,
            audited: None,
            epoch: Some(3),
            repairs: None,
        }
    }

    #[test]
    fn a_plan_row_holds_a_user_that_is_not_utf_8_as_hex() {
        let row = encoded(&repair().named(7));
        assert!(row.contains(r#""user":null,"user_hex":"c4e3""#), "{row}");
        assert_eq!(decoded(&row).unwrap(), repair().named(7));
        let mut plain = repair().named(7);
        plain.user = Some(StoredUser::new("a"));
        (plain.from, plain.after) = (None, Some("x".to_owned()));
        let row = encoded(&plain);
        assert!(row.contains(r#""user":"a","from":null,"to":1"#), "{row}");
        assert_eq!(decoded(&row).unwrap(), plain);
        for (from, to) in [
            ("\"user\":\"a\"", "\"user\":\"a\",\"user_hex\":\"61\""),
            ("\"user\":\"a\"", "\"user\":null,\"user_hex\":\"6\""),
        ] {
            assert!(decoded(&row.replace(from, to)).is_err(), "{to}");
        }
    }
}
