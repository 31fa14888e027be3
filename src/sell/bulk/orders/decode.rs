//! Replies to batches of orders: see the headers of `deduct.lua`, `refund.lua` and `mixed_orders.lua`.

use redis::Value;

use crate::error::StoreError;
use crate::model::id::StoredUser;
use crate::model::ledger::users_of_column;
use crate::model::number::whole;
use crate::model::order::Corrupt;
use crate::model::status::Status;
use crate::script::MIXED_ORDERS;
use crate::script::keys::Keys;
use crate::script::reply::Reply;

/// The reply to one batch.
#[derive(Debug)]
pub(crate) enum Decoded<'a> {
    /// Each order was decided, now or before.
    Decided(Packed<'a>),
    /// The whole activity is refused; lines up to this one were decided before.
    Refused { status: Status, line: u64, corrupt: Option<Corrupt> },
    /// Lines before this batch are not decided yet: this one was decided last.
    Gap { line: u64 },
    /// The activity was reset.
    OtherEpoch,
    /// The job's name was used for something else.
    OtherJob,
}

/// `letters stock refused [bought …]`.
#[derive(Debug)]
pub(crate) struct Packed<'a> {
    letters: &'a str,
    /// The stock before the call.
    pub(crate) stock: u64,
    /// How many orders the job refused so far.
    pub(crate) refused: u64,
    bought: Option<&'a str>,
    /// A JSON array of texts, in any encoding.
    users: Option<&'a [u8]>,
}

impl<'a> Packed<'a> {
    /// `may_stop`: the call may have ended before all of its orders.
    fn of(bytes: &'a [u8], count: usize, may_stop: bool) -> Option<Self> {
        // Nothing before the users has a bracket.
        let (text, users) = match memchr::memchr(b'[', bytes) {
            Some(at) => (bytes[..at].strip_suffix(b" ")?, Some(&bytes[at..])),
            None => (bytes, None),
        };
        let mut words = std::str::from_utf8(text).ok()?.splitn(4, ' ');
        let (letters, stock, refused) = (words.next()?, whole(words.next()?)?, whole(words.next()?)?);
        let fits = letters.len() == count || may_stop && letters.len() < count;
        fits.then_some(Self { letters, stock, refused, bought: words.next(), users })
    }

    /// How many orders it decided.
    pub(crate) fn count(&self) -> usize {
        self.letters.len()
    }

    /// Splits off what replies of holds have before what users hold.
    pub(crate) fn split_extra(&mut self) -> Option<&'a str> {
        let rest = self.bought?;
        let (extra, bought) = rest.split_once(' ').map_or((rest, None), |(extra, bought)| (extra, Some(bought)));
        self.bought = bought;
        Some(extra)
    }

    /// The users of holds, which `settle` has behind what they hold: empty for one that does not exist.
    pub(crate) fn users(&self) -> Option<Vec<StoredUser>> {
        users_of_column(self.users?).filter(|users| users.len() == self.letters.len())
    }

    fn decode(bytes: &'a [u8], count: usize, may_stop: bool) -> Option<Self> {
        let packed = Self::of(bytes, count, may_stop)?;
        (packed.orders().count() == packed.count()).then_some(packed)
    }

    /// How many orders the job refused: what a repair took back had been applied.
    pub(crate) fn refusals(&self) -> usize {
        self.letters.bytes().filter(|letter| !b"oOrbV".contains(letter)).count()
    }

    /// Status of each order, and what its user holds after it. A letter that no header names ends them.
    /// In the middle: whether it took units again that had expired.
    pub(crate) fn orders(&self) -> impl Iterator<Item = (Status, bool, Option<u64>)> + use<'a> {
        let mut bought = self.bought.map(|bought| bought.split(' '));
        self.letters.bytes().map_while(move |letter| {
            let held = bought.as_mut().and_then(Iterator::next).and_then(whole);
            Some((status_of(letter)?, letter == b'O', held))
        })
    }
}

/// The quantities of holds.
pub(crate) fn quantities_of(text: &str) -> impl Iterator<Item = u32> {
    numbers_of(text)
}

/// The deadlines of holds in Unix ms; none of an order that has no hold.
pub(crate) fn deadlines_of(text: &str) -> impl Iterator<Item = Option<u64>> {
    numbers_of(text).map(|deadline| Some(deadline).filter(|deadline| *deadline > 0))
}

/// Numbers joined by commas: one of all orders, or that of each.
fn numbers_of<T: std::str::FromStr + Copy>(text: &str) -> impl Iterator<Item = T> {
    let common = if text.contains(',') { None } else { text.parse().ok() };
    let mut each = text.split(',');
    std::iter::from_fn(move || common.or_else(|| each.next()?.parse().ok()))
}

fn status_of(letter: u8) -> Option<Status> {
    Some(match letter {
        b'o' | b'O' => Status::Ok,
        b'r' => Status::Replayed,
        b'l' => Status::LimitExceeded,
        b's' => Status::OutOfStock,
        b'x' => Status::ExceedsBought,
        b'q' => Status::RequestConflict,
        b'c' => Status::Corrupt,
        b'h' => Status::NotHeld,
        b'v' | b'V' => Status::Expired,
        b'f' => Status::Confirmed,
        b'b' => Status::Reversed,
        _ => return None,
    })
}

impl<'a> Decoded<'a> {
    /// Decodes a reply that is not an error, to a batch of so many orders.
    pub(crate) fn decode(
        value: &'a Value,
        (count, may_stop): (usize, bool),
        keys: &Keys,
        reply: &Reply<'_>,
    ) -> Result<Self, StoreError> {
        match value {
            Value::BulkString(bytes) => {
                Packed::decode(bytes, count, may_stop).map(Self::Decided).ok_or_else(|| reply.invalid(value))
            }
            Value::Array(values) => Self::of_status(values, keys, reply),
            other => Err(reply.invalid(other)),
        }
    }

    fn of_status(values: &[Value], keys: &Keys, reply: &Reply<'_>) -> Result<Self, StoreError> {
        let line = |at: usize| Ok::<_, StoreError>(reply.count(values.get(at))?.unwrap_or_default());
        match values.first() {
            Some(Value::Int(-20)) => Ok(Self::Gap { line: line(1)? }),
            Some(Value::Int(-21)) => Ok(Self::OtherEpoch),
            Some(Value::Int(-22)) => Ok(Self::OtherJob),
            first => {
                let status = reply.status(first)?;
                let (line, corrupt) = match status {
                    Status::Corrupt => (0, Some(reply.corrupt(values, keys)?)),
                    Status::Sharded => (0, None),
                    _ => (line(2)?, None),
                };
                Ok(Self::Refused { status, line, corrupt })
            }
        }
    }
}

/// Decodes the reply to batches that share a call, of so many orders each; `None` for one that was left alone.
pub(crate) fn decode_mixed(
    value: &Value,
    counts: impl ExactSizeIterator<Item = usize>,
) -> Result<Vec<Option<Packed<'_>>>, StoreError> {
    let invalid = || Reply::of(&MIXED_ORDERS).invalid(value);
    let Value::Array(values) = value else { return Err(invalid()) };
    if values.len() != counts.len() {
        return Err(invalid());
    }
    let batches = values.iter().zip(counts).map(|(value, count)| match value {
        Value::BulkString(bytes) if bytes == b"-" => Ok(None),
        Value::BulkString(bytes) => Packed::decode(bytes, count, false).map(Some).ok_or_else(invalid),
        _ => Err(invalid()),
    });
    batches.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packed_reply_has_the_status_of_each_order() {
        let packed = Packed::of(b"ors 7 2 1 1 0", 3, false).unwrap();
        assert_eq!((packed.stock, packed.refused), (7, 2));
        let orders: Vec<_> = packed.orders().collect();
        let expected = [(Status::Ok, Some(1)), (Status::Replayed, Some(1)), (Status::OutOfStock, Some(0))];
        assert_eq!(orders, expected.map(|(status, held)| (status, false, held)));
        assert!(Packed::of(b"ors 7 2", 2, false).is_none());
        assert_eq!(Packed::of(b"o 7 0", 1, false).unwrap().orders().next(), Some((Status::Ok, false, None)));
        let mut settled = Packed::of(b"oOh 7 1 2,1,0 4 1 0 [\"a [b\",\"7\",\"\"]", 3, false).unwrap();
        assert_eq!(settled.users().unwrap(), ["a [b", "7", ""].map(StoredUser::new));
        assert_eq!(quantities_of(settled.split_extra().unwrap()).collect::<Vec<_>>(), [2, 1, 0]);
        let orders: Vec<_> = settled.orders().collect();
        let expected = [(Status::Ok, false, Some(4)), (Status::Ok, true, Some(1)), (Status::NotHeld, false, Some(0))];
        assert_eq!(orders, expected);
        // A call that ended before its first order, and one that ended before its second.
        let mut ended = Packed::of(b" 5 0 3  []", 2, true).unwrap();
        assert_eq!((ended.count(), ended.users()), (0, Some(Vec::new())));
        assert_eq!(ended.split_extra().map(|quantities| quantities_of(quantities).next()), Some(Some(3)));
        assert_eq!(Packed::of(b"o 5 0", 2, true).unwrap().count(), 1);
        assert!(Packed::of(b"oo 5 0", 1, true).is_none());
        let bytes = Packed::of(b"o 7 0 1 4 [\"\xc4\xe3\"]", 1, false).unwrap();
        assert_eq!(bytes.users().unwrap(), [StoredUser::new(&b"\xc4\xe3"[..])]);
        for invalid in ["o 7 0 1 4", "o 7 0 1 4 [\"a\"", "o 7 0 1 4 [\"a\",\"b\"]", "o 7 0 1 4 [7]"] {
            assert!(Packed::of(invalid.as_bytes(), 1, false).unwrap().users().is_none(), "{invalid}");
        }
        assert_eq!(quantities_of("3").take(2).collect::<Vec<_>>(), [3, 3]);
        assert_eq!(deadlines_of("17,0,18").collect::<Vec<_>>(), [Some(17), None, Some(18)]);
        assert_eq!(deadlines_of("0").take(2).collect::<Vec<_>>(), [None, None]);
    }

    #[test]
    fn a_mixed_reply_has_one_text_for_each_batch_and_a_dash_for_one_that_is_left() {
        let reply = |texts: &[&str]| {
            Value::Array(texts.iter().map(|text| Value::BulkString(text.as_bytes().to_vec())).collect())
        };
        let value = reply(&["os 7 1", "-", "o 1 0"]);
        let batches = decode_mixed(&value, [2, 3, 1].into_iter()).unwrap();
        let stocks: Vec<_> = batches.iter().map(|packed| packed.as_ref().map(|packed| packed.stock)).collect();
        assert_eq!(stocks, [Some(7), None, Some(1)]);
        for invalid in [reply(&["os 7 1", "-"]), reply(&["os 7 1", "-", "oo 1 0"]), reply(&["oz 7 1", "-", "o 1 0"])] {
            assert!(decode_mixed(&invalid, [2, 3, 1].into_iter()).is_err(), "{invalid:?}");
        }
        assert!(decode_mixed(&Value::Nil, [1].into_iter()).is_err());
    }
}
