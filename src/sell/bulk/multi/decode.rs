//! Replies to some orders of a job: see the header of `multi_deduct.lua`.

use redis::Value;

use crate::error::StoreError;
use crate::model::number::whole;
use crate::model::order::{Bought, Corrupt};
use crate::model::status::Status;
use crate::model::status::{call_code::GAP, call_code::OTHER_EPOCH, call_code::OTHER_JOB};
use crate::script::MULTI_DEDUCT;
use crate::script::keys::Keys;
use crate::script::reply::Reply;
use crate::sell::bulk::columns::status_of;
use crate::sell::multi_orders::{bought, corrupt_value};

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

/// `letters stock refused whole corrupt [bought …]` of one activity.
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
    fn of(text: &str, count: usize, keys: &[Keys]) -> Option<Self> {
        let mut words = text.split(' ');
        let statuses: Vec<Status> =
            words.next()?.bytes().map(|letter| status_of(letter, LETTERS)).collect::<Option<_>>()?;
        let stock = words.next()?;
        let (refused, code, corrupt) = (whole(words.next()?)?, words.next()?, words.next()?);
        let refusal = if code == "0" { None } else { Some(Status::of_code(code.parse().ok()?)?) };
        let corrupt = if corrupt == "-" { None } else { Some(corrupt_value(corrupt, keys)?) };
        let stock = if stock == "-" { None } else { Some(whole(stock)?) };
        let bought: Vec<_> = words.map(bought).collect();
        let is_complete = statuses.len() == count && (bought.is_empty() || bought.len() == count);
        is_complete.then_some(Self { statuses, stock, refused, refusal, corrupt, bought })
    }
}

/// Decodes a reply that is not an error. `keys` and `counts` are those of each activity.
pub(crate) fn decode(value: Value, keys: &[Keys], counts: impl Iterator<Item = usize>) -> Result<Decoded, StoreError> {
    let reply = Reply::of(&MULTI_DEDUCT);
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
    let columns = values.iter().zip(counts).map(|(value, count)| {
        let text = reply.text(Some(value))?.unwrap_or_default();
        DecodedColumn::of(&text, count, keys).ok_or_else(|| reply.invalid(&text))
    });
    Ok(Decoded::Columns(columns.collect::<Result<_, _>>()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::layout::Layout;

    #[test]
    fn a_column_has_the_status_of_each_item() {
        let keys = [Keys::of(Layout::Seckill, &"a".parse().unwrap())];
        let column = DecodedColumn::of("ods 7 2 0 - 1 ? 0", 3, &keys).unwrap();
        assert_eq!(column.statuses, [Status::Ok, Status::Refused, Status::OutOfStock]);
        assert_eq!((column.stock, column.refused, column.refusal), (Some(7), 2, None));
        assert_eq!(column.bought, [Some(Bought::Units(1)), Some(Bought::Unknown), Some(Bought::Units(0))]);
        let column = DecodedColumn::of("c - 0 -11 1,6162", 1, &keys).unwrap();
        assert_eq!((column.stock, column.refusal), (None, Some(Status::Corrupt)));
        assert_eq!(column.corrupt.unwrap().key, "seckill:stock:a");
        for invalid in ["oo 7 0 0 -", "x 7 0 0 -", "o 7 0 0", "o 7 0 0 - 1 2", "o 7 0 5 -", "o 7 0 0 9,61"] {
            assert!(DecodedColumn::of(invalid, 1, &keys).is_none(), "{invalid}");
        }
    }
}
