//! The rows of a ledger: one for each order of an entry, or one for an entry without orders.

use crate::audit::ledger_state::transfers::Direction;
use crate::cli::output::{Cell, Field, row};
use crate::model::id::{ActivityId, StoredUser, UserId};
use crate::model::ledger::{Entry, EntryId, Op, OrderTexts};
use crate::model::time::Millis;

row! {
    /// One thing that happened. `(activity, id, n)` is a key.
    pub struct LedgerRow as row {
        activity: String, flexible;
        data pub(crate) id: EntryId;
        /// Numbers the orders of an entry, from 1 on.
        data pub(crate) n: usize;
        pub(crate) time: Millis;
        pub(crate) op: String;
        pub(crate) user: Option<String> => row.user_cell();
        pub(crate) quantity: Option<i64>;
        pub(crate) stock: Option<u64>;
        pub(crate) request: Option<String>, flexible;
        pub(crate) by: Option<String>, flexible;
        pub(crate) reason: Option<String>, flexible;
        /// The other shard of a transfer.
        nested shard: Option<String>;
        nested pub(crate) user_hex: Option<String>;
    }
}

// Without `id` and `n` in tables: they give the reason room, and only machines need them.

impl LedgerRow {
    fn user_cell(&self) -> Cell {
        let hex = self.user_hex.as_ref().map(|hex| format!("hex:{hex}"));
        self.user.clone().or(hex).cell().flexible()
    }
}

/// The rows of an entry, of all users or of one, each given to `each` with what the entry has of that order.
pub fn each_row<E>(
    activity: &ActivityId,
    entry: &Entry,
    only: Option<&UserId>,
    mut each: impl FnMut(LedgerRow, &OrderTexts) -> Result<(), E>,
) -> Result<(), E> {
    let text = |field: &Option<Vec<u8>>| field.as_ref().map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    let (op, by, reason) = (String::from_utf8_lossy(&entry.op).into_owned(), text(&entry.by), text(&entry.reason));
    let known = entry.known_op();
    let is_repair = known == Some(Op::Repair);
    // What cannot be read is shown as far as it goes; an audit names it.
    let orders = entry.rows().unwrap_or_default();
    let whole = [OrderTexts([const { None }; 4])];
    let orders = if orders.is_empty() { &whole[..] } else { &orders[..] };
    let names = entry.line_names(orders.len());
    for (index, order) in orders.iter().enumerate() {
        if only.is_some_and(|user| user.as_str().as_bytes() != order.user()) {
            continue;
        }
        let units = |field: &Option<Vec<u8>>| i64::try_from(Entry::count(field.as_deref())?).ok();
        let quantity = match known {
            Some(Op::Repair) => order.count(2).zip(order.count(1)).map(|(to, from)| to - from),
            Some(Op::Deduct | Op::Refund | Op::Hold | Op::Confirm | Op::Release | Op::Expire) => order.count(1),
            Some(Op::Pause | Op::Resume) => units(&entry.withdrawn),
            Some(Op::Lend | Op::Borrow) => units(&entry.units),
            _ => units(&entry.total),
        };
        let request = order.text(2).filter(|_| !is_repair).map(str::to_owned);
        let shard = known.and_then(Direction::of).zip(entry.other_shard()).map(|(direction, number)| {
            let parent = activity.parent().map_or_else(|| activity.clone(), |(parent, _)| parent);
            (direction, parent.shard(number).to_string())
        });
        let way = shard.as_ref().map(|(direction, shard)| match direction {
            Direction::Lend => format!("to {shard}"),
            Direction::Borrow => format!("from {shard}"),
        });
        let row = LedgerRow {
            activity: activity.to_string(),
            id: entry.id,
            n: index + 1,
            time: entry.id.at(),
            op: op.clone(),
            user: order.text(0).map(str::to_owned),
            quantity,
            stock: Entry::count(entry.stock.as_deref()),
            request: request.or_else(|| names.get(index).cloned()).or_else(|| text(&entry.transfer)),
            by: by.clone(),
            reason: order.text(3).map(str::to_owned).or_else(|| reason.clone()).or(way),
            shard: shard.map(|(_, shard)| shard),
            user_hex: StoredUser::new(order.user()).user_hex(),
        };
        each(row, order)?;
    }
    Ok(())
}
