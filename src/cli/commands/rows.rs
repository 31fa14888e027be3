//! What commands that move units have in common: their row, their exit code, what is asked of a user.

use serde::Serialize;

use crate::cli::commands::hints;
use crate::cli::error::Result;
use crate::cli::failure::{Exit, Failure};
use crate::cli::output::columns;
use crate::cli::output::{Cell, Field, Output, Row, Warnings};
use crate::model::id::{ActivityId, RequestId, StoredUser, UserId};
use crate::model::layout::Layout;
use crate::model::number::Limit;
use crate::model::order::{Bought, Corrupt, Outcome};
use crate::model::status::Status;
use crate::store::Store;

#[derive(Debug, Serialize)]
pub struct OutcomeRow<'a> {
    pub(crate) activity: &'a str,
    pub(crate) user: Option<&'a str>,
    pub(crate) quantity: Option<u64>,
    pub(crate) status: Status,
    pub(crate) stock: Option<u64>,
    pub(crate) bought: Option<Bought>,
    pub(crate) request: Option<&'a str>,
    /// Of a user who is not UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    user_hex: Option<String>,
}

impl<'a> OutcomeRow<'a> {
    /// The row of an outcome. A dry run has no request.
    pub fn new(
        activity: &'a ActivityId,
        user: Option<&'a UserId>,
        request: Option<&'a RequestId>,
        outcome: &Outcome,
    ) -> Self {
        Self {
            activity: activity.as_str(),
            user: user.map(UserId::as_str),
            quantity: outcome.quantity,
            status: outcome.status,
            stock: outcome.stock,
            bought: outcome.bought,
            request: request.map(RequestId::as_str),
            user_hex: None,
        }
    }

    /// The row of a user as stored, whose id may be no text.
    pub fn stored(
        activity: &'a ActivityId,
        user: Option<&'a StoredUser>,
        request: Option<&'a RequestId>,
        outcome: &Outcome,
    ) -> Self {
        let (text, user_hex) = (user.and_then(StoredUser::text), user.and_then(StoredUser::user_hex));
        Self { user: text, user_hex, ..Self::new(activity, None, request, outcome) }
    }

    fn user_cell(&self) -> Cell {
        match &self.user_hex {
            Some(hex) => Cell::text(format!("hex:{hex}")).flexible(),
            None => Cell::text(self.user.unwrap_or_default()).flexible(),
        }
    }
}

columns!(row: OutcomeRow<'_> {
    activity => Cell::text(row.activity).flexible();
    user => row.user_cell();
    quantity;
    status;
    stock;
    bought;
    request;
}, changed if row.status == Status::Ok);

/// An order of a user who was given as bytes, or is no text: csv has a column for them.
#[derive(Debug, Serialize)]
#[serde(transparent)]
pub struct HexOutcomeRow<'a>(pub OutcomeRow<'a>);

columns!(row: HexOutcomeRow<'_> {
    activity => Cell::text(row.0.activity).flexible();
    user => row.0.user_cell();
    quantity => row.0.quantity.cell();
    status => row.0.status.cell();
    stock => row.0.stock.cell();
    bought => row.0.bought.cell();
    request => row.0.request.cell();
    data user_hex;
}, sparse = true, changed if row.0.is_change());

/// 0 if nothing was refused, else 3.
pub fn exit_of(status: Status) -> Exit {
    if status.is_done() { Exit::Done } else { Exit::Refused }
}

/// Warns of a key that is corrupt.
pub fn warn_of_corrupt(warnings: &mut Warnings, corrupt: Option<&Corrupt>) {
    if let Some(Corrupt { key, what }) = corrupt {
        warnings.warn(format!("key `{key}` {what}; nothing was changed"));
    }
}

/// Shows how an order or a refund ended, with what helps to read that.
pub fn show<T: Row>(
    row: &T,
    activity: &ActivityId,
    outcome: &Outcome,
    dry_run: bool,
    store: &mut Store,
    out: &mut Output,
) -> Result<Exit> {
    out.set_dry_run(dry_run);
    warn_of_corrupt(&mut out.warnings(), outcome.corrupt.as_ref());
    out.object(row)?;
    if outcome.status == Status::NotPreheated {
        hints::other_layouts([activity], store, out);
    }
    hints::reversed([outcome.status].into_iter(), out);
    hints::window(activity, outcome.status, store, out);
    Ok(exit_of(outcome.status))
}

/// Refuses an order without a user, unless the layout records none.
pub fn required_user<U>(user: Option<&U>, layout: Layout) -> Result<()> {
    if user.is_none() && layout.kind().has_users() {
        return Err(Failure::usage(format!("`--user` is missing: the layout `{}` records who bought", layout.name()))
            .hint("give `--user USER`; only the layout `product` does without")
            .into());
    }
    Ok(())
}

/// Refuses a limit that the layout cannot keep.
pub fn fitting_limit(limit: Option<Limit>, layout: Layout) -> Result<()> {
    let Some(limit) = limit else { return Ok(()) };
    let kind = layout.kind();
    if !kind.has_users() || (kind.records_once() && limit.get() != 1) {
        let why = if kind.has_users() { "records a user once: the limit is always 1" } else { "knows no users" };
        return Err(Failure::usage(format!("`--per-user-limit {limit}`: the layout `{}` {why}", layout.name()))
            .hint("leave `--per-user-limit` out")
            .into());
    }
    Ok(())
}
