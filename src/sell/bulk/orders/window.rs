//! The rows from the first one that is not reported yet to the last one that was read, in the order of the input.

use std::collections::VecDeque;
use std::ops::Range;

use crate::model::{Bought, Status, StoredUser};

/// The most rows, and the most bytes of their texts: about 14 MB if both are reached, which only an input can that mixes
/// many activities. A larger window makes fuller batches of it, and so less work for the server.
const MAX_ROWS: usize = 256 * 1024;
const MAX_BYTES: usize = 8 * 1024 * 1024;
const _: () = assert!(MAX_BYTES < 1 << 24, "see `Row::text`");

/// What became of a row so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    Waiting,
    Sent,
    Decided(Status),
}

/// One order, or one item of a multi-order, in 24 bytes.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) line: u64,
    pub(crate) activity: u32,
    /// The distance to the next row of the same activity; 0 if there is none yet.
    pub(crate) next: u32,
    pub(crate) quantity: u32,
    /// Where its texts begin, as the low bytes of a number that only grows: a window has less than 16 MB of them.
    text: [u8; 3],
    pub(crate) state: State,
}

impl Row {
    fn text(&self) -> u32 {
        let [low, middle, high] = self.text;
        u32::from_le_bytes([low, middle, high, 0])
    }
}

/// Bytes of a length: those of the texts come before them.
const LENGTH: usize = size_of::<u16>();

/// What a reply says of the hold of a row.
#[derive(Debug, Default)]
pub(crate) struct HoldDetails {
    /// Its deadline, in Unix ms.
    pub(crate) deadline: Option<u64>,
    /// Its user, if the input does not say it.
    pub(crate) user: Option<StoredUser>,
}

/// Rows by number, counted from the first one that was ever pushed.
#[derive(Debug, Default)]
pub(crate) struct Window {
    rows: VecDeque<Row>,
    /// Stock and the user's units after each row, if they are wanted.
    details: Option<VecDeque<(Option<u64>, Option<Bought>)>>,
    /// Details of the hold of each row, if they are wanted.
    holds: Option<VecDeque<HoldDetails>>,
    first: u64,
    text: Vec<u8>,
    text_start: u32,
}

impl Window {
    pub(crate) fn new(has_details: bool, has_holds: bool) -> Self {
        Self { details: has_details.then(VecDeque::new), holds: has_holds.then(VecDeque::new), ..Self::default() }
    }

    pub(crate) fn is_full(&self) -> bool {
        self.rows.len() >= MAX_ROWS || self.text.len() >= MAX_BYTES
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The number of the first row, and the number behind the last.
    pub(crate) fn span(&self) -> (u64, u64) {
        (self.first, self.first + self.rows.len() as u64)
    }

    /// Adds a row and gives its number. The reader bounds all texts: a reason has 1024 bytes, an id 256.
    pub(crate) fn push(&mut self, line: u64, activity: u32, quantity: u32, texts: [&str; 3]) -> u64 {
        let [low, middle, high, _] = self.text_start.wrapping_add(self.text.len() as u32).to_le_bytes();
        for part in texts {
            self.text.extend_from_slice(&(part.len() as u16).to_le_bytes());
        }
        for part in texts {
            self.text.extend_from_slice(part.as_bytes());
        }
        self.push_row(Row { line, activity, next: 0, quantity, text: [low, middle, high], state: State::Waiting })
    }

    /// Adds another item of the multi-order whose first item has this number.
    pub(crate) fn push_item(&mut self, of: u64, activity: u32, quantity: u32) -> u64 {
        let Row { line, text, .. } = *self.row(of);
        self.push_row(Row { line, activity, next: 0, quantity, text, state: State::Waiting })
    }

    fn push_row(&mut self, row: Row) -> u64 {
        self.details.iter_mut().for_each(|details| details.push_back((None, None)));
        self.holds.iter_mut().for_each(|holds| holds.push_back(HoldDetails::default()));
        self.rows.push_back(row);
        self.first + self.rows.len() as u64 - 1
    }

    pub(crate) fn row(&self, number: u64) -> &Row {
        &self.rows[self.index(number)]
    }

    pub(crate) fn row_mut(&mut self, number: u64) -> &mut Row {
        let index = self.index(number);
        &mut self.rows[index]
    }

    /// User, request and reason of a row.
    pub(crate) fn texts(&self, row: &Row) -> [&[u8]; 3] {
        let (lengths, mut rest) = self.text[self.offset(row)..].split_at(3 * LENGTH);
        [0, 1, 2].map(|at| {
            let length = u16::from_le_bytes([lengths[at * LENGTH], lengths[at * LENGTH + 1]]);
            rest.split_off(..usize::from(length)).unwrap_or_default()
        })
    }

    /// Records the stock and the user's units after a row, and its hold, as far as they are wanted.
    pub(crate) fn set_details(&mut self, number: u64, stock: Option<u64>, bought: Option<Bought>, hold: HoldDetails) {
        let index = self.index(number);
        if let Some(details) = &mut self.details {
            details[index] = (stock, bought);
        }
        if let Some(holds) = &mut self.holds {
            holds[index] = hold;
        }
    }

    /// How a row ended; `None` if it is not decided, or there is no such row.
    pub(crate) fn status(&self, number: u64) -> Option<Status> {
        match self.rows.get(self.index(number))?.state {
            State::Decided(status) => Some(status),
            State::Waiting | State::Sent => None,
        }
    }

    /// The stock and the user's units after a row, and its hold, as far as they are known.
    pub(crate) fn details(&self, number: u64) -> (Option<u64>, Option<Bought>, Option<&HoldDetails>) {
        let index = self.index(number);
        let (stock, bought) = self.details.as_ref().map_or((None, None), |details| details[index]);
        (stock, bought, self.holds.as_ref().map(|holds| &holds[index]))
    }

    /// The rows of an order, from its first one on: all that have its line.
    pub(crate) fn order(&self, first: u64) -> Range<u64> {
        let rows = self.rows.range(self.index(first).min(self.rows.len())..);
        let line = rows.clone().next().map(|row| row.line);
        first..first + rows.take_while(|row| Some(row.line) == line).count() as u64
    }

    /// Removes the first row and gives its line.
    pub(crate) fn pop(&mut self) -> Option<u64> {
        let line = self.rows.pop_front()?.line;
        self.details.iter_mut().for_each(|details| _ = details.pop_front());
        self.holds.iter_mut().for_each(|holds| _ = holds.pop_front());
        self.first += 1;
        let used = self.rows.front().map_or(self.text.len(), |row| self.offset(row));
        // Moving what is left costs little if most is gone.
        if used >= 64 * 1024 && used * 2 >= self.text.len() {
            self.text.drain(..used);
            self.text_start = self.text_start.wrapping_add(used as u32);
        }
        Some(line)
    }

    /// Removes all rows.
    pub(crate) fn clear(&mut self) {
        self.first += self.rows.len() as u64;
        self.rows.clear();
        self.details.iter_mut().for_each(VecDeque::clear);
        self.holds.iter_mut().for_each(VecDeque::clear);
        self.text_start = self.text_start.wrapping_add(self.text.len() as u32);
        self.text.clear();
    }

    // Numbers come from this window; one that has left it is a bug.
    fn index(&self, number: u64) -> usize {
        (number - self.first) as usize
    }

    fn offset(&self, row: &Row) -> usize {
        (row.text().wrapping_sub(self.text_start) % (1 << 24)) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_found_when_their_positions_wrap_around() {
        let mut window = Window { text_start: u32::MAX - 100_000, ..Window::new(true, false) };
        assert_eq!(size_of::<Row>(), 24);
        for line in 0..200_000_u64 {
            let user = format!("user-{line}");
            let number = window.push(line, 0, 1, [&user, "r", "why"]);
            window.row_mut(number).state = State::Decided(Status::Ok);
            window.set_details(number, Some(line), None, HoldDetails::default());
            if line >= 1000 {
                let expected = format!("user-{}", line - 1000);
                let front = window.span().0;
                assert_eq!(window.status(front), Some(Status::Ok));
                assert_eq!(window.texts(window.row(front)), [expected.as_bytes(), b"r", b"why"]);
                assert!(matches!(window.details(front), (Some(stock), None, None) if stock == line - 1000));
                assert_eq!(window.pop(), Some(line - 1000));
            }
        }
        window.clear();
        let number = window.push(7, 0, 1, ["a", "", ""]);
        assert_eq!(window.texts(window.row(number))[0], b"a");
    }

    #[test]
    fn texts_of_any_length_are_kept() {
        let mut window = Window::new(false, false);
        let texts = [0, 1, 127, 128, 256, 1024].map(|length| "x".repeat(length));
        for user in &texts {
            for reason in &texts {
                let number = window.push(1, 0, 1, [user, "r", reason]);
                let expected = [user.as_bytes(), b"r", reason.as_bytes()];
                assert_eq!(window.texts(window.row(number)), expected);
            }
        }
    }
}
