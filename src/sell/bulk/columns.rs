//! Columns of a job's call: what each order of it has, as one argument. And the letters of its reply.

use hashbrown::HashSet;

use crate::model::status::Status;
use crate::redis::connection::resp::{argument, decimal, number};

/// Whether no text of a column comes twice, but for the empty one.
pub(crate) fn are_distinct<'a>(texts: impl Iterator<Item = &'a [u8]>) -> bool {
    let mut seen = HashSet::new();
    texts.filter(|text| !text.is_empty()).all(|text| seen.insert(text))
}

/// Whether any order has a text in a column.
pub(crate) fn is_given<'a>(mut texts: impl Iterator<Item = &'a [u8]>) -> bool {
    texts.any(|text| !text.is_empty())
}

/// Writes columns behind their lengths, which come first.
#[derive(Debug, Default)]
pub(crate) struct Columns {
    buffer: Vec<u8>,
}

impl Columns {
    /// Appends texts without tabs.
    pub(crate) fn texts<'a>(&mut self, out: &mut Vec<u8>, texts: impl Iterator<Item = &'a [u8]>) {
        self.column(out, texts, Vec::extend_from_slice, b'\t');
    }

    /// Appends the quantity of all orders, or if they differ that of each.
    pub(crate) fn quantities(&mut self, out: &mut Vec<u8>, quantities: impl Iterator<Item = u64> + Clone) {
        let first = quantities.clone().next().unwrap_or_default();
        if quantities.clone().all(|quantity| quantity == first) {
            number(out, first);
        } else {
            self.column(out, quantities, decimal, b'\t');
        }
    }

    /// Appends lines, each higher than the one before: `first-last` if they follow each other, else each of them.
    pub(crate) fn lines(&mut self, out: &mut Vec<u8>, lines: impl Iterator<Item = u64> + Clone) {
        self.buffer.clear();
        let first = lines.clone().next().unwrap_or_default();
        let (count, last) = lines.clone().fold((0, first), |(count, _), line| (count + 1, line));
        if last - first + 1 == count {
            decimal(&mut self.buffer, first);
            self.buffer.push(b'-');
            decimal(&mut self.buffer, last);
        } else {
            return self.column(out, lines, decimal, b' ');
        }
        argument(out, &self.buffer);
    }

    /// Appends what `write` appends of each value, with a separator between them.
    fn column<T>(
        &mut self,
        out: &mut Vec<u8>,
        values: impl Iterator<Item = T>,
        write: impl Fn(&mut Vec<u8>, T),
        separator: u8,
    ) {
        self.buffer.clear();
        for (index, value) in values.enumerate() {
            if index > 0 {
                self.buffer.push(separator);
            }
            write(&mut self.buffer, value);
        }
        argument(out, &self.buffer);
    }
}

/// The status that a letter of a reply says, if it is one of those that its script replies.
pub(crate) fn status_of(letter: u8, replied: &[u8]) -> Option<Status> {
    if !replied.contains(&letter) {
        return None;
    }
    Some(match letter {
        b'o' | b'O' => Status::Ok,
        b'r' => Status::Replayed,
        b'd' => Status::Refused,
        b'l' => Status::LimitExceeded,
        b's' => Status::OutOfStock,
        b't' => Status::NotPreheated,
        b'k' => Status::Sharded,
        b'n' => Status::NotStarted,
        b'e' => Status::Ended,
        b'p' => Status::Paused,
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

#[cfg(test)]
mod tests {
    use super::*;

    /// The argument that a column is.
    fn written(write: impl FnOnce(&mut Columns, &mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        write(&mut Columns::default(), &mut out);
        let text = String::from_utf8(out).unwrap();
        text.split_once("\r\n").unwrap().1.trim_end_matches("\r\n").to_owned()
    }

    #[test]
    fn texts_have_tabs_between_them() {
        let texts = ["", "7", "", "用户", "q\"uote \\ back"];
        let column = written(|columns, out| columns.texts(out, texts.iter().map(|text| text.as_bytes())));
        assert_eq!(column.split('\t').collect::<Vec<_>>(), texts);
    }

    #[test]
    fn what_all_orders_have_is_written_once() {
        let quantities = |given: &[u64]| written(|columns, out| columns.quantities(out, given.iter().copied()));
        assert_eq!((quantities(&[3, 3]), quantities(&[3, 10])), ("3".to_owned(), "3\t10".to_owned()));
        let lines = |given: &[u64]| written(|columns, out| columns.lines(out, given.iter().copied()));
        assert_eq!((lines(&[7, 8, 9]), lines(&[7]), lines(&[7, 9, 12])), ("7-9".into(), "7-7".into(), "7 9 12".into()));
    }
}
