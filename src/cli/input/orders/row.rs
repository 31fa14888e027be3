//! One row: the texts of its columns in one reused buffer, and the rules they must keep.

use crate::cli::failure::Result;
use crate::cli::input::columns::Columns;
use crate::cli::input::error::quoted;
use crate::model::number::{MAX_QUANTITY, MAX_UNITS, whole};
use crate::model::order::MAX_REASON;
use crate::model::{ActivityId, EntryId, Layout, Quantity, RequestId, UserId};
use crate::names;

names! {
    pub enum Column {
        Activity = "activity",
        User = "user",
        Quantity = "quantity",
        /// Names the order.
        Request = "request",
        Reason = "reason",
        /// The ledger entry that an order record was made of.
        Ledger = "ledger",
        /// Units by activity, of a multi-order in jsonl.
        Items = "items",
    }
}

/// Which quantities are valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Quantities {
    /// Those of one order: 1 to 1,000,000,000.
    Orders,
    /// Those of order records: also refunds, which are negative, and 0.
    Records,
}

/// What is wanted of an input.
#[derive(Debug, Clone, Copy)]
pub struct Shape {
    /// Columns that must be there, with a value in every row.
    pub required: &'static [Column],
    /// Columns that may be there.
    pub optional: &'static [Column],
    /// Which quantities are valid; a row without the column has 1.
    pub quantities: Quantities,
    /// The layout that must be able to keep the activities; `None` if they are only read.
    pub layout: Option<Layout>,
}

impl Shape {
    /// Why an activity is not one of the layout.
    pub(crate) fn refuses(&self, activity: &ActivityId) -> Option<String> {
        self.layout.and_then(|layout| layout.check_id(activity).err())
    }
}

/// What is wrong with a value.
#[derive(Debug)]
pub(crate) struct Wrong {
    pub(crate) column: Column,
    pub(crate) message: String,
    pub(crate) hint: Option<String>,
}

/// One row, in buffers that are used again for the next.
#[derive(Debug, Default)]
pub struct OrderRow {
    /// The number of the line where the row begins.
    pub line: u64,
    text: String,
    /// The range of each column in `text`; `None` if the column is absent.
    values: [Option<(u32, u32)>; Column::ALL.len()],
    /// 1 if there is no such column.
    pub quantity: i64,
    /// The last activity that was found valid: most rows name it again.
    valid_activity: String,
}

impl OrderRow {
    pub(crate) fn clear(&mut self) {
        self.text.clear();
        self.values = Default::default();
    }

    pub(crate) fn set(&mut self, column: Column, text: &str) {
        let start = self.text.len();
        self.text.push_str(text);
        // A record is far shorter than 4 GB.
        let span = (start as u32, self.text.len() as u32);
        self.values[column as usize] = Some(span);
    }

    /// Sets a column that is null: it is absent. A quantity that is not there is not 1, nor no activity the one that is named.
    pub(crate) fn set_null(&mut self, column: Column, text: &str) {
        match column {
            Column::Quantity => self.set(column, text),
            Column::Activity => self.set(column, ""),
            _ => {}
        }
    }

    /// The text of a column; `None` if there is none.
    pub fn get(&self, column: Column) -> Option<&str> {
        self.values[column as usize].map(|(start, end)| &self.text[start as usize..end as usize])
    }

    /// The text of a column; empty if there is none.
    pub fn text(&self, column: Column) -> &str {
        self.get(column).unwrap_or_default()
    }

    /// Holds the values against their rules.
    pub(crate) fn check(&mut self, shape: &Shape, columns: &Columns<Column>) -> Result<(), Wrong> {
        for column in shape.required {
            if self.get(*column).is_none() {
                let message =
                    format!("`{}` is missing, expected {}", columns.name(*column), expected(*column, shape.quantities));
                return Err(Wrong { column: *column, message, hint: None });
            }
        }
        // A row that has no such column has no units of its own.
        self.quantity = i64::from(columns.get(Column::Quantity).is_some());
        for column in Column::ALL.iter().copied() {
            let Some((start, end)) = self.values[column as usize] else { continue };
            let text = &self.text[start as usize..end as usize];
            let is_id = matches!(column, Column::Activity | Column::User | Column::Request);
            if is_id && text.as_bytes().first().is_some_and(u8::is_ascii_digit) && is_rounded(text) {
                let message = format!("{}: {} is a number that was rounded", columns.name(column), quoted(text));
                let hint = "a spreadsheet did that: export the ids again, with the column formatted as text".to_owned();
                return Err(Wrong { column, message, hint: Some(hint) });
            }
            if matches!(column, Column::User | Column::Request) && text == "\\N"
                || column == Column::Request && text.eq_ignore_ascii_case("null")
            {
                let message =
                    format!("{}: {} is no id, but what a database prints for none", columns.name(column), quoted(text));
                let or_empty = if shape.optional.contains(&column) { "; in others leave the value empty" } else { "" };
                let hint = format!("rows that a database printed are read with `--format mysql`{or_empty}");
                return Err(Wrong { column, message, hint: Some(hint) });
            }
            let fits = match column {
                Column::Activity => !text.is_empty() && text == self.valid_activity || ActivityId::fits(text),
                Column::User => is_plain(text) && text.len() <= 256 || UserId::fits(text),
                // One that is padded is no id of an order.
                Column::Request => RequestId::fits(text) && text.trim_ascii().len() == text.len(),
                Column::Quantity => match signed(text, shape.quantities) {
                    Some(quantity) => {
                        self.quantity = quantity;
                        true
                    }
                    None => false,
                },
                Column::Ledger => text.is_empty() || text.parse::<EntryId>().is_ok(),
                // A call has the reasons of its orders with tabs between them.
                Column::Reason => text.len() <= MAX_REASON && !text.contains('\t'),
                Column::Items => true,
            };
            // A column that may be absent may be empty, but for those that `set_null` keeps.
            let is_never_empty = matches!(column, Column::Quantity | Column::Activity);
            let absent = text.is_empty() && !is_never_empty && shape.optional.contains(&column);
            if absent {
                self.values[column as usize] = None;
            } else if !fits {
                let message =
                    format!("{}: {} is not {}", columns.name(column), quoted(text), expected(column, shape.quantities));
                let is_null = column == Column::Quantity && text.eq_ignore_ascii_case("null");
                let hint =
                    is_null.then(|| "a quantity that is null is not counted as 1: give each row a number".to_owned());
                return Err(Wrong { column, message, hint });
            }
        }
        let activity =
            self.values[Column::Activity as usize].map_or("", |(start, end)| &self.text[start as usize..end as usize]);
        if activity != self.valid_activity {
            if let Some(why) = activity.parse().ok().and_then(|activity| shape.refuses(&activity)) {
                let message = format!("{}: {why}", columns.name(Column::Activity));
                return Err(Wrong { column: Column::Activity, message, hint: None });
            }
            self.valid_activity.clear();
            self.valid_activity.push_str(activity);
        }
        Ok(())
    }
}

/// Whether an id is a number as spreadsheets and floating point print it: `1.2346E+17`. `1e3` is an id.
pub(crate) fn is_rounded(text: &str) -> bool {
    let Some((mantissa, exponent)) = text.split_once(['E', 'e']) else { return false };
    let is_digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let (whole, fraction) =
        mantissa.split_once(['.', ',']).map_or((mantissa, None), |(whole, rest)| (whole, Some(rest)));
    let is_number = is_digits(whole) && fraction.is_none_or(is_digits);
    match exponent.strip_prefix('+') {
        Some(exponent) => is_number && is_digits(exponent),
        // As Java prints it: from 10^7 on.
        None => {
            is_number
                && fraction.is_some()
                && is_digits(exponent)
                && exponent.parse().is_ok_and(|exponent: u32| exponent >= 7)
        }
    }
}

/// Printable ASCII without a space: nearly every id.
fn is_plain(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| (b'!'..=b'~').contains(&byte))
}

fn signed(text: &str, quantities: Quantities) -> Option<i64> {
    let (sign, digits, most) = match (quantities, text.strip_prefix('-')) {
        (Quantities::Orders, _) => (1, text, MAX_QUANTITY),
        (Quantities::Records, Some("0")) => return None,
        (Quantities::Records, Some(digits)) => (-1, digits, MAX_UNITS),
        (Quantities::Records, None) => (1, text, MAX_UNITS),
    };
    let number =
        whole(digits).filter(|number| *number <= most && (quantities == Quantities::Records || *number > 0))?;
    i64::try_from(number).ok().map(|number| sign * number)
}

/// What a column must hold, for errors.
pub(crate) fn expected(column: Column, quantities: Quantities) -> &'static str {
    match (column, quantities) {
        (Column::Activity, _) => ActivityId::EXPECTED,
        (Column::User, _) => UserId::EXPECTED,
        (Column::Request, _) => "a request id: 1 to 128 printable ASCII characters, without a space at either end",
        (Column::Quantity, Quantities::Orders) => Quantity::EXPECTED,
        (Column::Quantity, Quantities::Records) => {
            "a whole number of at most 9007199254740991, negative for a refund, without leading zero"
        }
        (Column::Reason, _) => "a reason of 1 to 1,024 bytes without a tab",
        (Column::Ledger, _) => "the id of a ledger entry, such as 1762790400000-0",
        (Column::Items, _) => "an object of activities and quantities, such as {\"1001\":2}",
    }
}
