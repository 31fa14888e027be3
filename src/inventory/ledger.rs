//! The ledger: one entry for everything that changed an activity.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use serde::de::{IgnoredAny, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::number::whole;
use super::time::Millis;

/// Names an entry: the server's clock in Unix ms, and a number within that millisecond.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EntryId {
    millis: u64,
    number: u64,
}

impl EntryId {
    /// Before all entries.
    pub const ZERO: Self = Self { millis: 0, number: 0 };

    /// When it was written.
    pub fn at(self) -> Millis {
        Millis::new(self.millis)
    }

    /// The last that could be written before an instant.
    pub fn before(at: Millis) -> Self {
        match at.get().checked_sub(1) {
            Some(millis) => Self { millis, number: u64::MAX },
            None => Self::ZERO,
        }
    }

    /// The id right before this one.
    pub fn previous(self) -> Self {
        match (self.number.checked_sub(1), self.millis.checked_sub(1)) {
            (Some(number), _) => Self { number, ..self },
            (None, Some(millis)) => Self { millis, number: u64::MAX },
            (None, None) => Self::ZERO,
        }
    }

    /// The first that could be written at an instant.
    pub fn first_at(at: Millis) -> Self {
        Self { millis: at.get(), number: 0 }
    }
}

impl FromStr for EntryId {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.split_once('-')
            .and_then(|(millis, number)| Some(Self { millis: whole(millis)?, number: whole(number)? }))
            .ok_or_else(|| format!("`{}` is not a ledger entry's id, such as 1762790400000-0", text.escape_debug()))
    }
}

impl fmt::Display for EntryId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}-{}", self.millis, self.number)
    }
}

impl Serialize for EntryId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// What an entry says was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Op {
    /// The activity began, with a total.
    Preheat,
    /// It was taken over, with a total: what was before is in a checkpoint, or in the ledger.
    Adopt,
    /// Its total, limit, title or window moved.
    Update,
    /// Units were taken.
    Deduct,
    /// Units came back.
    Refund,
    /// Purchases were refused from here on.
    Pause,
    /// Purchases were allowed again.
    Resume,
    /// What users hold was set right.
    Repair,
}

impl Op {
    /// Every operation and its name.
    pub const ALL: [(Self, &'static str); 8] = [
        (Self::Preheat, "preheat"),
        (Self::Adopt, "adopt"),
        (Self::Update, "update"),
        (Self::Deduct, "deduct"),
        (Self::Refund, "refund"),
        (Self::Pause, "pause"),
        (Self::Resume, "resume"),
        (Self::Repair, "repair"),
    ];

    /// The operation of that name.
    pub fn named(name: &[u8]) -> Option<Self> {
        Self::ALL.iter().find(|(_, known)| known.as_bytes() == name).map(|(op, _)| *op)
    }
}

/// One entry as the server keeps it. Texts stay bytes until somebody wants them.
#[derive(Debug, Clone)]
pub struct Entry {
    /// Its name.
    pub id: EntryId,
    /// What was done.
    pub op: Vec<u8>,
    /// Who did it.
    pub by: Option<Vec<u8>>,
    /// Why.
    pub reason: Option<Vec<u8>>,
    /// Units left after it.
    pub stock: Option<Vec<u8>>,
    /// The total from here on, of a preheat and an update.
    pub total: Option<Vec<u8>>,
    /// Units that a pause withdrew from the stock, or that a resume returned.
    pub withdrawn: Option<Vec<u8>>,
    /// The epoch that a preheat began.
    pub epoch: Option<Vec<u8>>,
    /// Its orders, or its repairs, as JSON.
    pub orders: Option<Vec<u8>>,
    /// The job of a file of orders, if not all of its orders have a request id.
    pub job: Option<Vec<u8>>,
    /// The file's lines of these orders: `first-last`, or each of them.
    pub lines: Option<Vec<u8>>,
}

impl Entry {
    /// An entry of which only the name is known.
    pub fn new(id: EntryId) -> Self {
        let op = Vec::new();
        Self {
            id,
            op,
            by: None,
            reason: None,
            stock: None,
            total: None,
            withdrawn: None,
            epoch: None,
            orders: None,
            job: None,
            lines: None,
        }
    }

    /// A field of digits.
    pub fn count(field: Option<&[u8]>) -> Option<u64> {
        whole(std::str::from_utf8(field?).ok()?)
    }

    /// By how much it moved the stock, if it is an order, a pause or what ends one; `None` of anything else, and if it
    /// cannot be read.
    pub fn stock_change(&self) -> Option<i64> {
        let sign = match Op::named(&self.op)? {
            Op::Deduct => -1,
            Op::Refund => 1,
            // The stock counts what is withdrawn.
            Op::Pause | Op::Resume => return Some(0),
            _ => return None,
        };
        let units: Option<i64> = self.rows().ok()?.iter().map(|order| order.count(1)).sum();
        Some(sign * units?)
    }

    /// What names its orders that have no request id, if it is of a job: `<job>:<line>` of each.
    pub fn line_names(&self, count: usize) -> Vec<String> {
        let text = |field: &Option<Vec<u8>>| String::from_utf8(field.clone()?).ok();
        let Some((job, named)) = text(&self.job).zip(text(&self.lines)) else { return Vec::new() };
        lines(&named, count).into_iter().map(|line| format!("{job}:{line}")).collect()
    }

    /// Its orders, one after the other: user, quantity, request, reason; of a repair user, from, to.
    ///
    /// # Errors
    /// What is no list of such texts.
    pub fn rows(&self) -> Result<Vec<OrderTexts<'_>>, String> {
        match &self.orders {
            None => Ok(Vec::new()),
            Some(json) => serde_json::from_slice(json).map_err(|error| error.to_string()),
        }
    }
}

/// The lines that a text names: `first-last`, or each of them; nothing if they are not that many.
fn lines(text: &str, count: usize) -> Vec<u64> {
    let lines: Option<Vec<u64>> = match text.split_once('-') {
        Some((first, last)) => {
            whole(first).zip(whole(last)).map(|(first, last)| (first..=last).take(count + 1).collect())
        }
        None => text.split(' ').map(whole).collect(),
    };
    lines.filter(|lines| lines.len() == count).unwrap_or_default()
}

/// One order of an entry, as texts. They are bytes: a backend may name its users in another encoding than UTF-8.
#[derive(Debug, Clone)]
pub struct OrderTexts<'a>(pub [Option<Cow<'a, [u8]>>; 4]);

impl OrderTexts<'_> {
    /// The user; empty where none is recorded.
    pub fn user(&self) -> &[u8] {
        self.0[0].as_deref().unwrap_or_default()
    }

    /// The count at a place.
    pub fn count(&self, at: usize) -> Option<i64> {
        whole(self.text(at)?).and_then(|count| i64::try_from(count).ok())
    }

    /// The text at a place; `None` if it is empty, missing or not UTF-8.
    pub fn text(&self, at: usize) -> Option<&str> {
        std::str::from_utf8(self.0.get(at)?.as_deref()?).ok().filter(|text| !text.is_empty())
    }
}

impl<'de> Deserialize<'de> for OrderTexts<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Texts;
        impl<'de> Visitor<'de> for Texts {
            type Value = OrderTexts<'de>;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a list of texts: user, quantity, request, reason")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
                let mut texts = [const { None }; 4];
                for text in &mut texts {
                    match list.next_element::<Text<'de>>()? {
                        Some(Text(found)) => *text = Some(found),
                        None => return Ok(OrderTexts(texts)),
                    }
                }
                while list.next_element::<IgnoredAny>()?.is_some() {}
                Ok(OrderTexts(texts))
            }
        }
        deserializer.deserialize_seq(Texts)
    }
}

/// A text that is borrowed if JSON has it as it is.
struct Text<'a>(Cow<'a, [u8]>);

impl<'de> Deserialize<'de> for Text<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Bytes;
        impl<'de> Visitor<'de> for Bytes {
            type Value = Text<'de>;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a text")
            }

            fn visit_borrowed_bytes<E>(self, bytes: &'de [u8]) -> Result<Self::Value, E> {
                Ok(Text(Cow::Borrowed(bytes)))
            }

            fn visit_bytes<E>(self, bytes: &[u8]) -> Result<Self::Value, E> {
                Ok(Text(Cow::Owned(bytes.to_owned())))
            }
        }
        deserializer.deserialize_bytes(Bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_ordered_as_numbers_not_as_text() {
        let id = |text: &str| text.parse::<EntryId>().unwrap();
        assert!(id("9-0") < id("10-0"));
        assert!(id("10-9") < id("10-10"));
        assert_eq!(id("1762790400000-3").to_string(), "1762790400000-3");
        for text in ["", "1", "1-", "-1", "1-2-3", "01-0", "*"] {
            assert!(text.parse::<EntryId>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn lines_are_a_range_or_a_list() {
        assert_eq!(lines("7-9", 3), [7, 8, 9]);
        assert_eq!(lines("7 9 12", 3), [7, 9, 12]);
        assert_eq!(lines("7", 1), [7]);
        for (wrong, count) in [("7-9", 2), ("7-9", 4), ("1-18446744073709551615", 3), ("7 x", 2), ("", 1), ("9-7", 0)] {
            assert!(lines(wrong, count).is_empty(), "{wrong}");
        }
        let mut entry = Entry::new(EntryId::ZERO);
        assert!(entry.line_names(1).is_empty());
        (entry.job, entry.lines) = (Some(b"night".to_vec()), Some(b"2-3".to_vec()));
        assert_eq!(entry.line_names(2), ["night:2", "night:3"]);
    }

    #[test]
    fn orders_are_texts_and_never_numbers() {
        let mut entry = Entry::new(EntryId::ZERO);
        entry.orders = Some(br#"[["0123","2","r\"1"],["\u4e2d","9007199254740991","","why"]]"#.to_vec());
        let rows = entry.rows().unwrap();
        assert_eq!(
            (rows[0].user(), rows[0].count(1), rows[0].text(2), rows[0].text(3)),
            (&b"0123"[..], Some(2), Some("r\"1"), None)
        );
        assert_eq!(
            (rows[1].user(), rows[1].count(1), rows[1].text(3)),
            ("中".as_bytes(), Some(9_007_199_254_740_991), Some("why"))
        );
        // As a backend wrote it that does not speak UTF-8.
        entry.orders = Some(b"[[\"\xc4\xe3\",\"1\",\"\xff\"]]".to_vec());
        let rows = entry.rows().unwrap();
        assert_eq!(
            (rows[0].user(), rows[0].text(0), rows[0].count(1), rows[0].text(2)),
            (&b"\xc4\xe3"[..], None, Some(1), None)
        );
        for wrong in [&b"[[1,2]]"[..], b"{}", b"[[\"a\"", b"[[[97],\"1\"]]"] {
            entry.orders = Some(wrong.to_vec());
            assert!(entry.rows().is_err());
        }
    }
}
