//! What is stored under a request id: the digest of its order, with a status in front if it was refused or reversed.

use crate::model::id::StoredUser;
use crate::model::status::Status;

/// What a request id did.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct RequestRecord {
    /// `Ok` if it was applied.
    pub status: Status,
    /// The operation.
    pub op: String,
    /// Units; `None` of an order of several activities.
    pub quantity: Option<i64>,
    /// Whose order it is.
    pub user: StoredUser,
}

impl RequestRecord {
    /// Reads a record; `None` if its status is not known.
    pub(crate) fn read(record: &[u8]) -> Option<Self> {
        let split = |bytes: &'_ [u8]| {
            let at = bytes.iter().position(|byte| *byte == b'\t')?;
            Some((std::str::from_utf8(&bytes[..at]).ok()?.to_owned(), bytes[at + 1..].to_vec()))
        };
        let (status, digest) = match split(record) {
            Some((code, digest)) if code.starts_with('-') => (Status::of_code(code.parse().ok()?)?, digest),
            _ => (Status::Ok, record.to_vec()),
        };
        // A purchase of one unit is the user alone.
        let Some((order, user)) = split(&digest) else {
            let (op, user) = ("deduct".to_owned(), StoredUser::new(digest));
            return Some(Self { status, op, quantity: Some(1), user });
        };
        let (op, quantity) = order.split_once(' ').unwrap_or(("deduct", &order));
        // Of several activities, the rest is a digest.
        let quantity = quantity.parse().ok().filter(|_| op != "multi_deduct");
        Some(Self { status, op: op.to_owned(), quantity, user: StoredUser::new(user) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_request_id_stores_is_read_back() {
        for (text, status, op, quantity, user) in [
            ("7", Status::Ok, "deduct", Some(1), "7"),
            ("-3 a", Status::Ok, "deduct", Some(1), "-3 a"),
            ("2\tann b", Status::Ok, "deduct", Some(2), "ann b"),
            ("refund 2\t7", Status::Ok, "refund", Some(2), "7"),
            ("-3\t7", Status::OutOfStock, "deduct", Some(1), "7"),
            ("-2\t4\t7", Status::LimitExceeded, "deduct", Some(4), "7"),
            ("-16\thold 2\t7", Status::Reversed, "hold", Some(2), "7"),
            ("multi_deduct 0f1e\t7", Status::Ok, "multi_deduct", None, "7"),
            ("multi_deduct 0123\t7", Status::Ok, "multi_deduct", None, "7"),
            ("-1\tmulti_deduct 0f1e\t7", Status::Refused, "multi_deduct", None, "7"),
        ] {
            let read = RequestRecord::read(text.as_bytes()).unwrap();
            let wanted = RequestRecord { status, op: op.to_owned(), quantity, user: StoredUser::new(user) };
            assert_eq!(read, wanted, "{text}");
        }
        assert_eq!(RequestRecord::read(b"-77\t7"), None);
    }
}
