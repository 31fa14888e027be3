//! Replies to batches of orders: see the headers of the scripts for files.

use redis::Value;

use crate::error::Result;
use crate::model::ledger::column;
use crate::model::number::whole;
use crate::model::status::call_code::{GAP, OTHER_EPOCH, OTHER_JOB};
use crate::model::{Bought, Corrupt, Status, StoredUser};
use crate::script::keys::Keys;
use crate::script::reply::{Reply, corrupt};
use crate::sell::bulk::Operation;
use crate::sell::bulk::columns::status_of;

/// The letters of all scripts for orders of one activity. What refuses the whole activity may also be kept under the id of one order.
const LETTERS: &[u8] = b"oOrlsxqchvVfbpne";
/// Those of the script for multi-orders, where an activity may refuse an item though another one has units for its own.
const MULTI_LETTERS: &[u8] = b"ordlstknepqcb";

/// What a batch was sent for, which its reply must fit.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Expected {
    pub(crate) operation: Operation,
    /// How many orders it has.
    pub(crate) count: usize,
    /// Whether the call may have ended before all of them.
    pub(crate) may_stop: bool,
    pub(crate) has_rows: bool,
}

/// The reply to one batch.
#[derive(Debug)]
pub(crate) enum Decoded {
    /// Each order was decided, now or before.
    Decided(BatchReply),
    /// The whole activity is refused; lines up to this one were decided before.
    Refused { status: Status, line: u64, corrupt: Option<Corrupt> },
    /// No order was looked at.
    Unread(Unread),
}

/// Why a script did not look at any order.
#[derive(Debug)]
pub(crate) enum Unread {
    /// Lines before these are not decided yet: this one was decided last.
    Gap { line: u64 },
    /// The activity was reset, or preheated for the first time.
    OtherEpoch { epoch: String },
    /// The job's name was used for something else.
    OtherJob,
}

/// `letters stock refused [extra] [bought …] [users]`.
#[derive(Debug)]
pub(crate) struct BatchReply {
    /// The stock before the call.
    pub(crate) stock: Option<u64>,
    /// How many orders the job refused so far.
    pub(crate) refused: u64,
    /// How many of these it refused: what a repair took back had been applied.
    pub(crate) refused_here: usize,
    /// The first orders of the batch, or all.
    pub(crate) orders: Vec<OrderReply>,
    /// The units of the hold before which the call ended.
    pub(crate) next_quantity: Option<u32>,
    /// Of multi-orders: what refuses the whole activity, whose watermark has not moved then, and what is corrupt there.
    pub(crate) refusal: Option<Status>,
    pub(crate) corrupt: Option<Corrupt>,
}

/// How one order of a batch ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct OrderReply {
    pub(crate) status: Status,
    /// Whether it took units again that had expired.
    pub(crate) takes_again: bool,
    /// What its user holds after it.
    pub(crate) bought: Option<Bought>,
    /// The units of a hold that it ended.
    pub(crate) quantity: Option<u32>,
    /// The deadline of a hold that it made, in Unix ms.
    pub(crate) deadline: Option<u64>,
    /// Whose hold it ended; nobody has one that does not exist.
    pub(crate) user: Option<StoredUser>,
}

impl BatchReply {
    /// Reads a reply; `None` if it does not fit.
    fn read(bytes: &[u8], expected: Expected) -> Option<Self> {
        let Expected { operation, count, may_stop, has_rows } = expected;
        // Only users have a tab in front.
        let (text, users) = match memchr::memchr(b'\t', bytes) {
            Some(at) => (&bytes[..at], Some(&bytes[at + 1..])),
            None => (bytes, None),
        };
        let mut words = std::str::from_utf8(text).ok()?.splitn(4, ' ');
        let (letters, stock, refused) = (words.next()?, words.next()?, whole(words.next()?)?);
        let is_multi = operation == Operation::MultiDeduct;
        // An activity that does not exist has none.
        let stock = if is_multi && stock == "-" { None } else { Some(whole(stock)?) };
        let replied = if is_multi { MULTI_LETTERS } else { LETTERS };
        let (extra, bought) = match words.next() {
            Some(rest) if operation.has_holds() => {
                rest.split_once(' ').map_or((Some(rest), None), |(extra, bought)| (Some(extra), Some(bought)))
            }
            rest => (None, rest),
        };
        let mut bought = bought.map(|bought| bought.split(' '));
        let mut quantities = extra.filter(|_| operation.settles()).map(numbers_of::<u32>);
        let mut deadlines = extra.filter(|_| !operation.settles()).map(numbers_of::<u64>);
        let users = if operation.settles() && has_rows {
            let users: Vec<&[u8]> = column(users?).collect();
            (users.len() == letters.len().max(1)).then_some(users)?
        } else {
            Vec::new()
        };
        let shown = bought.clone().map_or(0, Iterator::count);
        let fits = (letters.len() == count || may_stop && letters.len() < count)
            && (!is_multi || shown == 0 || shown == count);
        let mut users = users.into_iter();
        let order = |letter: u8| {
            Some(OrderReply {
                status: status_of(letter, replied)?,
                takes_again: letter == b'O',
                bought: bought.as_mut().and_then(Iterator::next).and_then(|units| match units {
                    "?" if is_multi => Some(Bought::Unknown),
                    units => whole(units).map(Bought::Units),
                }),
                quantity: quantities.as_mut().map(|quantities| quantities.next().unwrap_or_default()),
                deadline: deadlines.as_mut().and_then(Iterator::next).filter(|deadline| *deadline > 0),
                user: users.next().filter(|user| !user.is_empty()).map(StoredUser::new),
            })
        };
        let orders = letters.bytes().map(order).collect::<Option<Vec<_>>>()?;
        let refused_here = letters.bytes().filter(|letter| !b"oOrbV".contains(letter)).count();
        let next_quantity = quantities.as_mut().and_then(Iterator::next);
        let (refusal, corrupt) = (None, None);
        fits.then_some(Self { stock, refused, refused_here, orders, next_quantity, refusal, corrupt })
    }

    /// Reads that of one activity of multi-orders: a text, or `{text, status, n, value}`.
    pub(crate) fn of_activity(value: &Value, expected: Expected, keys: &Keys, reply: &Reply<'_>) -> Result<Self> {
        let parts = if let Value::Array(parts) = value { parts.as_slice() } else { std::slice::from_ref(value) };
        let text = reply.text(parts.first())?.unwrap_or_default();
        let read = Self::read(text.as_bytes(), expected).ok_or_else(|| reply.invalid(&text))?;
        // Whether an order is refused, only all its items say.
        let mut read = Self { refused_here: 0, ..read };
        if let [_, code, key, wrong] = parts {
            let Value::Int(code) = code else { return Err(reply.invalid(value)) };
            read.refusal = Status::of_code(*code);
            if let Some(key) = reply.count(Some(key))? {
                let key = usize::try_from(key).ok().filter(|key| (1..=keys.in_order().count()).contains(key));
                let key = key.ok_or_else(|| reply.invalid(value))?;
                read.corrupt = Some(corrupt(keys, key, reply.text(Some(wrong))?.as_deref()));
            }
        }
        Ok(read)
    }
}

impl Unread {
    /// Reads a code, and the line or the epoch that comes with it; `None` for another reply.
    pub(crate) fn read(code: Option<&Value>, detail: Option<&Value>, reply: &Reply<'_>) -> Result<Option<Self>> {
        Ok(match code {
            Some(Value::Int(GAP)) => Some(Self::Gap { line: reply.count(detail)?.unwrap_or_default() }),
            Some(Value::Int(OTHER_EPOCH)) => Some(Self::OtherEpoch { epoch: reply.text(detail)?.unwrap_or_default() }),
            Some(Value::Int(OTHER_JOB)) => Some(Self::OtherJob),
            _ => None,
        })
    }
}

/// Numbers joined by commas: one of all orders, or that of each.
fn numbers_of<T: std::str::FromStr + Copy>(text: &str) -> impl Iterator<Item = T> {
    let common = if text.contains(',') { None } else { text.parse().ok() };
    let mut each = text.split(',');
    std::iter::from_fn(move || common.or_else(|| each.next()?.parse().ok()))
}

impl Decoded {
    /// Decodes a reply that is not an error.
    pub(crate) fn decode(value: &Value, expected: Expected, keys: &Keys, reply: &Reply<'_>) -> Result<Self> {
        match value {
            Value::BulkString(bytes) => {
                BatchReply::read(bytes, expected).map(Self::Decided).ok_or_else(|| reply.invalid(value))
            }
            Value::Array(values) => Self::of_status(values, keys, reply),
            other => Err(reply.invalid(other)),
        }
    }

    fn of_status(values: &[Value], keys: &Keys, reply: &Reply<'_>) -> Result<Self> {
        if let Some(why) = Unread::read(values.first(), values.get(1), reply)? {
            return Ok(Self::Unread(why));
        }
        let status = reply.status(values.first())?;
        let (line, found) = match status {
            Status::Corrupt => (0, Some(reply.corrupt(values, keys)?)),
            Status::Sharded => (0, None),
            _ => (reply.count(values.get(2))?.unwrap_or_default(), None),
        };
        Ok(Self::Refused { status, line, corrupt: found })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::layout::Layout;

    const DEDUCTS: Expected = Expected { operation: Operation::Deduct, count: 1, may_stop: false, has_rows: true };
    const ENDS: Expected = Expected { operation: Operation::Confirm, ..DEDUCTS };

    #[test]
    fn a_reply_of_other_orders_than_the_call_had_is_none() {
        assert!(BatchReply::read(b"ors 7 2", Expected { count: 2, ..DEDUCTS }).is_none());
        assert!(BatchReply::read(b"t 7 2", DEDUCTS).is_none(), "a letter of another script");
        for invalid in ["o 7 0 1 4", "o 7 0 1 4\ta\tb"] {
            assert!(BatchReply::read(invalid.as_bytes(), ENDS).is_none(), "{invalid}");
        }
    }

    #[test]
    fn a_call_may_end_before_its_first_or_its_second_order() {
        let stopping = Expected { count: 2, may_stop: true, ..ENDS };
        let ended = BatchReply::read(b" 5 0 3 \t", stopping).unwrap();
        assert_eq!((ended.orders.len(), ended.next_quantity), (0, Some(3)));
        let ended = BatchReply::read(b"o 5 0", Expected { operation: Operation::Deduct, ..stopping }).unwrap();
        assert_eq!((ended.orders.len(), ended.next_quantity), (1, None));
        assert!(BatchReply::read(b"oo 5 0", Expected { may_stop: true, ..DEDUCTS }).is_none());
    }

    #[test]
    fn one_quantity_is_that_of_all_orders() {
        let equal = BatchReply::read(b"oo 5 0 3", Expected { count: 2, has_rows: false, ..ENDS }).unwrap();
        assert!(equal.orders.iter().all(|order| order.quantity == Some(3)));
    }

    #[test]
    fn a_reply_to_multi_orders_has_the_status_of_each_item_of_an_activity() {
        let keys = Keys::of(Layout::Seckill, &"a".parse().unwrap());
        let reply = Reply::of_command("a script");
        let text = |text: &str| Value::SimpleString(text.to_owned());
        let expected = |count| Expected { operation: Operation::MultiDeduct, count, ..DEDUCTS };
        let read = |value: &Value, count| BatchReply::of_activity(value, expected(count), &keys, &reply);
        let column = read(&text("ods 7 2 1 ? 0"), 3).unwrap();
        let units = [Bought::Units(1), Bought::Unknown, Bought::Units(0)];
        assert!(column.orders.iter().map(|item| item.bought).eq(units.map(Some)));
        let statuses = [Status::Ok, Status::Refused, Status::OutOfStock];
        assert!(column.orders.iter().map(|item| item.status).eq(statuses));
        assert_eq!((column.stock, column.refused, column.refusal), (Some(7), 2, None));
        let refused = |code, key| Value::Array(vec![text("c - 0"), Value::Int(code), Value::Int(key), text("ab")]);
        let column = read(&refused(-11, 1), 1).unwrap();
        assert_eq!((column.stock, column.refusal), (None, Some(Status::Corrupt)));
        let corrupt = column.corrupt.unwrap();
        assert!(corrupt.key == "seckill:stock:a" && corrupt.what.contains("ab"), "{corrupt:?}");
        assert!(read(&refused(-11, 9), 1).is_err());
        for invalid in ["oo 7 0", "x 7 0", "o 7", "o 7 0 1 2", "o - x"] {
            assert!(read(&text(invalid), 1).is_err(), "{invalid}");
        }
    }
}
