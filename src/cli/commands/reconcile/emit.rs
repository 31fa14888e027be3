//! `--emit`: units that no order record has, as order rows to be delivered again.

use serde::Serialize;

use crate::audit::result::{Audit, MissingOrder};
use crate::cli::commands::stored_user::{self, UserHex, user_hex};
use crate::cli::error::Result;
use crate::cli::output::columns;
use crate::cli::output::{Format, Output, OutputError};
use crate::model::id::StoredUser;

/// Differences that can be printed as order rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
#[value(rename_all = "snake_case")]
pub enum Emit {
    /// Units that were taken and that no order record has; of a user who has some records, the rest
    MissingOrder,
}

/// An order that no record has.
#[derive(Serialize)]
struct EmittedRow<'a> {
    activity: &'a str,
    user: Option<&'a StoredUser>,
    quantity: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    user_hex: UserHex,
}

impl<'a> EmittedRow<'a> {
    fn new(activity: &'a str, missing: &'a MissingOrder, format: Format) -> Self {
        let user = missing.user.as_ref();
        Self { activity, user, quantity: missing.quantity, user_hex: user_hex(user, format) }
    }
}

columns!(row: EmittedRow<'_> {
    activity;
    user => stored_user::cell(row.user);
    quantity;
    data user_hex;
});

/// Prints what is to be delivered again, a JSON object a line unless another format is asked for.
pub fn print(audits: &[Audit], out: &mut Output) -> Result<(), OutputError> {
    let format = out.format();
    let mut rows = audits.iter().flat_map(|audit| {
        let activity = audit.activity.as_str();
        audit.missing_orders.iter().map(move |missing| EmittedRow::new(activity, missing, format))
    });
    if out.format() == Format::Table {
        return rows.try_for_each(|row| out.line(&serde_json::to_string(&row)?));
    }
    let mut stream = out.stream()?;
    rows.try_for_each(|row| stream.push(&row))?;
    stream.finish()
}
