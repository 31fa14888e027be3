//! Replies to some orders of a job: see the header of `multi_deduct_file.lua`.

use redis::Value;

use crate::error::StoreError;
use crate::model::number::whole;
use crate::model::order::{Bought, Corrupt};
use crate::model::status::Status;
use crate::model::status::{call_code::GAP, call_code::OTHER_EPOCH, call_code::OTHER_JOB};
use crate::script::keys::Keys;
use crate::script::reply::{Reply, corrupt};
use crate::sell::bulk::columns::status_of;
use crate::sell::multi_orders::bought;

/// The reply to one call. Activities are numbered from 0 in the order of the call.
#[derive(Debug)]
pub(crate) enum Decoded {
    /// The items of each activity.
    Columns(Vec<DecodedColumn>),
    /// The job has decided up to this line in this activity, and no further.
    Gap { nth: usize, line: u64 },
    /// The activity was reset.
    OtherEpoch { nth: usize, epoch: String },
    /// The job's name was used for another input.
    OtherJob { nth: usize },
}

const LETTERS: &[u8] = b"ordlstknepqcb";

/// `letters stock refused [bought …]` of one activity, and what refuses it or is corrupt there.
#[derive(Debug)]
pub(crate) struct DecodedColumn {
    /// The status of each item.
    pub(crate) statuses: Vec<Status>,
    /// The stock before the call.
    pub(crate) stock: Option<u64>,
    /// How many of its items the job has refused so far.
    pub(crate) refused: u64,
    /// What refuses the whole activity.
    pub(crate) refusal: Option<Status>,
    pub(crate) corrupt: Option<Corrupt>,
    /// What each user holds after the item; empty if that was not wanted.
    pub(crate) bought: Vec<Option<Bought>>,
}

impl DecodedColumn {
    fn of(text: &str, count: usize) -> Option<Self> {
        let mut words = text.split(' ');
        let statuses: Vec<Status> =
            words.next()?.bytes().map(|letter| status_of(letter, LETTERS)).collect::<Option<_>>()?;
        let (stock, refused) = (words.next()?, whole(words.next()?)?);
        let stock = if stock == "-" { None } else { Some(whole(stock)?) };
        let bought: Vec<_> = words.map(bought).collect();
        let is_complete = statuses.len() == count && (bought.is_empty() || bought.len() == count);
        is_complete.then_some(Self { statuses, stock, refused, refusal: None, corrupt: None, bought })
    }

    /// A text, or an array of it, what refuses the whole activity, and which key holds what it must not.
    fn read(reply: &Reply<'_>, value: &Value, count: usize, keys: &Keys) -> Result<Self, StoreError> {
        let parts = if let Value::Array(parts) = value { parts.as_slice() } else { std::slice::from_ref(value) };
        let text = reply.text(parts.first())?.unwrap_or_default();
        let mut column = Self::of(&text, count).ok_or_else(|| reply.invalid(&text))?;
        if let [_, code, key, wrong] = parts {
            let Value::Int(code) = code else { return Err(reply.invalid(value)) };
            column.refusal = Status::of_code(*code);
            if let Some(key) = reply.count(Some(key))? {
                let key = usize::try_from(key).ok().filter(|key| (1..=keys.in_order().count()).contains(key));
                let key = key.ok_or_else(|| reply.invalid(value))?;
                column.corrupt = Some(corrupt(keys, key, reply.text(Some(wrong))?.as_deref()));
            }
        }
        Ok(column)
    }
}

/// Decodes a reply that is not an error. `keys` and `counts` are those of each activity.
pub(crate) fn decode(
    reply: &Reply<'_>,
    value: Value,
    keys: &[Keys],
    counts: impl Iterator<Item = usize>,
) -> Result<Decoded, StoreError> {
    let values = reply.array(value)?;
    if let Some(Value::Int(code)) = values.first() {
        let nth = reply.count(values.get(1))?.and_then(|nth| usize::try_from(nth).ok()).unwrap_or_default();
        let nth = nth.checked_sub(1).filter(|nth| *nth < keys.len());
        let nth = nth.ok_or_else(|| reply.invalid(&values))?;
        return match *code {
            GAP => Ok(Decoded::Gap { nth, line: reply.count(values.get(2))?.unwrap_or_default() }),
            OTHER_EPOCH => Ok(Decoded::OtherEpoch { nth, epoch: reply.text(values.get(2))?.unwrap_or_default() }),
            OTHER_JOB => Ok(Decoded::OtherJob { nth }),
            _ => Err(reply.invalid(values)),
        };
    }
    if values.len() != keys.len() {
        return Err(reply.invalid(values));
    }
    let columns = values.iter().zip(counts).zip(keys);
    let columns = columns.map(|((value, count), keys)| DecodedColumn::read(reply, value, count, keys));
    Ok(Decoded::Columns(columns.collect::<Result<_, _>>()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::layout::Layout;

    #[test]
    fn a_column_has_the_status_of_each_item() {
        let keys = Keys::of(Layout::Seckill, &"a".parse().unwrap());
        let reply = Reply::of_command("a script");
        let text = |text: &str| Value::SimpleString(text.to_owned());
        let read = |value: &Value, count| DecodedColumn::read(&reply, value, count, &keys);
        let column = read(&text("ods 7 2 1 ? 0"), 3).unwrap();
        assert_eq!(column.statuses, [Status::Ok, Status::Refused, Status::OutOfStock]);
        assert_eq!((column.stock, column.refused, column.refusal), (Some(7), 2, None));
        assert_eq!(column.bought, [Some(Bought::Units(1)), Some(Bought::Unknown), Some(Bought::Units(0))]);
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
