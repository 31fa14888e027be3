//! What the three plain commands say of an activity, and what a difference means.

use redis::Value;

use crate::error::{ServerKind, StoreError};
use crate::model::number::whole_bytes;
use crate::model::status::Status;
use crate::redis::call::exchange::CallFailure;
use crate::redis::call::fan_out::CallOutcome;

/// Stock, rules with withdrawn units, and units of open holds, as the server sent them; `None` of a key of another type.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Raw {
    stock: Option<Value>,
    meta: Option<Value>,
    holds: Option<Value>,
}

/// What has to be asked for after a reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    /// Nothing.
    None,
    /// The stock moved by this many units, or open holds changed, and nothing else did.
    Sold(u64),
    /// All of it.
    Whole,
}

impl Raw {
    /// The answers to GET and twice HMGET.
    pub(crate) fn read(stock: CallOutcome, meta: CallOutcome, holds: CallOutcome) -> Result<Self, CallFailure> {
        Ok(Self { stock: value(stock)?, meta: value(meta)?, holds: value(holds)? })
    }

    /// The number in the stock key.
    pub(crate) fn stock(&self) -> Option<u64> {
        match &self.stock {
            Some(Value::BulkString(text)) => whole_bytes(text),
            _ => None,
        }
    }

    /// Units that are held open.
    pub(crate) fn holds(&self) -> Option<u64> {
        match &self.holds {
            Some(Value::Array(fields)) => match &fields[..] {
                [Value::BulkString(text)] => whole_bytes(text),
                _ => Some(0),
            },
            _ => None,
        }
    }

    /// What changed since another reading, whose status was that.
    pub(crate) fn since(&self, before: &Self, status: Status) -> Change {
        match (self.stock(), before.stock()) {
            _ if self == before => Change::None,
            (Some(now), Some(then)) if self.meta == before.meta && self.holds().is_some() && status.is_done() => {
                Change::Sold(now.abs_diff(then))
            }
            _ => Change::Whole,
        }
    }
}

fn value(answer: CallOutcome) -> Result<Option<Value>, CallFailure> {
    match answer {
        Err(CallFailure::Refused(StoreError::Server { kind: ServerKind::WrongType, .. })) => Ok(None),
        answer => answer.map(Some),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(stock: Option<&str>, rules: &str) -> Raw {
        held(stock, rules, None)
    }

    fn held(stock: Option<&str>, rules: &str, holds: Option<&str>) -> Raw {
        let text = |text: &str| Value::BulkString(text.as_bytes().to_vec());
        let meta = Value::Array(vec![text(rules), Value::Nil]);
        let holds = Value::Array(vec![holds.map_or(Value::Nil, text)]);
        Raw::read(Ok(stock.map_or(Value::Nil, text)), Ok(meta), Ok(holds)).unwrap()
    }

    #[test]
    fn only_stock_and_holds_that_moved_need_no_whole_reading() {
        let before = raw(Some("5"), "live");
        let since = |now: Raw| now.since(&before, Status::Ok);
        assert_eq!(since(raw(Some("5"), "live")), Change::None);
        assert_eq!(since(raw(Some("3"), "live")), Change::Sold(2));
        let confirmed = held(Some("5"), "live", Some("2"));
        assert_eq!((before.holds(), confirmed.holds(), since(confirmed)), (Some(0), Some(2), Change::Sold(0)));
        assert_eq!(since(held(Some("3"), "live", Some("x"))), Change::Whole);
        for other in [raw(Some("5"), "paused"), raw(Some("3"), "paused"), raw(None, "live"), raw(Some("x"), "live")] {
            assert_eq!(since(other), Change::Whole);
        }
        assert_eq!(raw(Some("3"), "live").since(&before, Status::Corrupt), Change::Whole);
    }

    #[test]
    fn what_stays_corrupt_is_not_read_again_and_again() {
        let wrong =
            || Err(CallFailure::Refused(StoreError::Server { kind: ServerKind::WrongType, why: String::new() }));
        let corrupt = Raw::read(wrong(), Ok(Value::Nil), wrong()).unwrap();
        assert_eq!(corrupt.since(&corrupt.clone(), Status::Corrupt), Change::None);
        assert_eq!(corrupt.stock(), None);
    }
}
