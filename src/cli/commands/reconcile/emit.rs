//! `--emit`: units that no order record has, as order rows to be delivered again.

use serde::ser::{Serialize, SerializeStruct, Serializer};

use crate::cli::commands::stored_user::{self, has_hex_column, serialize_hex};
use crate::cli::error::Result;
use crate::cli::output::{Cell, Format, Output, OutputError, Row};
use seckill::inventory::audit::{Audit, MissingOrder};

/// Differences that can be printed as order rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
#[value(rename_all = "snake_case")]
pub enum Emit {
    /// Units that were taken and that no order record has; of a user who has some records, the rest
    MissingOrder,
}

/// An order that no record has.
struct EmittedRow<'a> {
    activity: &'a str,
    missing: &'a MissingOrder,
    has_hex_column: bool,
}

impl Serialize for EmittedRow<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut row = serializer.serialize_struct("EmittedRow", Self::FIELDS.len())?;
        row.serialize_field("activity", self.activity)?;
        row.serialize_field("user", &self.missing.user)?;
        row.serialize_field("quantity", &self.missing.quantity)?;
        serialize_hex(&mut row, self.missing.user.as_ref(), self.has_hex_column)?;
        row.end()
    }
}

impl Row for EmittedRow<'_> {
    const FIELDS: &'static [&'static str] = &["activity", "user", "quantity", "user_hex"];
    const HEADINGS: &'static [&'static str] = &["activity", "user", "quantity"];

    fn cells(&self) -> Vec<Cell> {
        let user = stored_user::cell(self.missing.user.as_ref());
        vec![Cell::text(self.activity), user, Cell::number(self.missing.quantity)]
    }
}

/// Prints what is to be delivered again, a JSON object a line unless another format is asked for.
pub fn print(audits: &[Audit], out: &mut Output) -> Result<(), OutputError> {
    let has_hex_column = has_hex_column(out.format());
    let mut rows = audits.iter().flat_map(|audit| {
        let activity = audit.activity.as_str();
        audit.missing_orders.iter().map(move |missing| EmittedRow { activity, missing, has_hex_column })
    });
    if out.format() == Format::Table {
        return rows.try_for_each(|row| out.line(&serde_json::to_string(&row)?));
    }
    let mut stream = out.stream()?;
    rows.try_for_each(|row| stream.push(&row))?;
    stream.finish()
}
