//! The rows of a ledger: one for each order of an entry, or one for an entry without orders.

use serde::Serialize;

use crate::cli::output::{Cell, Row};
use seckill::inventory::id::{ActivityId, StoredUser, UserId};
use seckill::inventory::ledger::{Entry, EntryId, Op, OrderTexts};
use seckill::inventory::time::Millis;

/// One thing that happened. `(activity, id, n)` is a key.
#[derive(Debug, Serialize)]
pub struct LedgerRow {
    activity: String,
    id: EntryId,
    /// Numbers the orders of an entry, from 1 on.
    n: usize,
    time: Millis,
    op: String,
    user: Option<String>,
    quantity: Option<i64>,
    stock: Option<u64>,
    request: Option<String>,
    by: Option<String>,
    reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    user_hex: Option<String>,
}

impl Row for LedgerRow {
    const FIELDS: &'static [&'static str] =
        &["activity", "id", "n", "time", "op", "user", "quantity", "stock", "request", "by", "reason"];
    const IS_SPARSE: bool = true;
    /// Without the key of the row, which is for programs: a terminal needs the room for the reason.
    const HEADINGS: &'static [&'static str] =
        &["activity", "time", "op", "user", "quantity", "stock", "request", "by", "reason"];

    fn cells(&self) -> Vec<Cell> {
        let text = |text: Option<&String>| Cell::text(text.map(String::as_str).unwrap_or_default()).flexible();
        let hex = self.user_hex.as_ref().map(|hex| format!("hex:{hex}"));
        vec![
            Cell::text(&self.activity).flexible(),
            Cell::text(self.time.to_second().to_string()),
            Cell::text(&self.op),
            text(self.user.as_ref().or(hex.as_ref())),
            Cell::known(self.quantity),
            Cell::known(self.stock),
            text(self.request.as_ref()),
            text(self.by.as_ref()),
            text(self.reason.as_ref()),
        ]
    }
}

/// The rows of an entry, of all users or of one, each given to `each`.
///
/// # Errors
/// Whatever `each` fails with.
pub fn each_row<E>(
    activity: &ActivityId,
    entry: &Entry,
    only: Option<&UserId>,
    mut each: impl FnMut(LedgerRow) -> Result<(), E>,
) -> Result<(), E> {
    let text = |field: &Option<Vec<u8>>| field.as_ref().map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    let (op, by, reason) = (String::from_utf8_lossy(&entry.op).into_owned(), text(&entry.by), text(&entry.reason));
    let known = Op::named(&entry.op);
    let is_repair = known == Some(Op::Repair);
    // What cannot be read is shown as far as it goes; an audit names it.
    let orders = entry.rows().unwrap_or_default();
    let whole = [OrderTexts([const { None }; 4])];
    let orders = if orders.is_empty() { &whole[..] } else { &orders[..] };
    let names = entry.line_names(orders.len());
    for (nth, order) in orders.iter().enumerate() {
        if only.is_some_and(|user| user.as_str().as_bytes() != order.user()) {
            continue;
        }
        let units = |field: &Option<Vec<u8>>| i64::try_from(Entry::count(field.as_deref())?).ok();
        let quantity = match known {
            Some(Op::Repair) => order.count(2).zip(order.count(1)).map(|(to, from)| to - from),
            Some(Op::Deduct | Op::Refund) => order.count(1),
            Some(Op::Pause | Op::Resume) => units(&entry.withdrawn),
            _ => units(&entry.total),
        };
        let request = order.text(2).filter(|_| !is_repair).map(str::to_owned);
        each(LedgerRow {
            activity: activity.to_string(),
            id: entry.id,
            n: nth + 1,
            time: entry.id.at(),
            op: op.clone(),
            user: order.text(0).map(str::to_owned),
            quantity,
            stock: Entry::count(entry.stock.as_deref()),
            request: request.or_else(|| names.get(nth).cloned()),
            by: by.clone(),
            reason: order.text(3).map(str::to_owned).or_else(|| reason.clone()),
            user_hex: StoredUser::new(order.user()).user_hex(),
        })?;
    }
    Ok(())
}
