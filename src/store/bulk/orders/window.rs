//! The rows from the first one that is not reported yet to the last one that was read, in the order of the input.

use std::collections::VecDeque;

use crate::inventory::status::Status;

/// The most rows, and the most bytes of their texts. A larger window makes fuller batches of an input that mixes many
/// activities, and takes more memory.
const MOST_ROWS: usize = 64 * 1024;
const MOST_BYTES: usize = 3 * 1024 * 1024;

/// Nothing is known; a count never gets there.
const NOTHING: u64 = u64::MAX;

/// What became of a row so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    Waiting,
    Sent,
    Decided(Status),
}

/// One row.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) line: u64,
    pub(super) activity: u32,
    /// The distance to the next row of the same activity; 0 if there is none yet.
    pub(super) next: u32,
    pub(super) quantity: u32,
    pub(super) state: State,
    request_len: u8,
    user_len: u16,
    reason_len: u32,
    text: u64,
    stock: u64,
    bought: u64,
}

impl Row {
    pub(super) fn decide(&mut self, status: Status, stock: Option<u64>, bought: Option<u64>) {
        self.state = State::Decided(status);
        self.stock = stock.unwrap_or(NOTHING);
        self.bought = bought.unwrap_or(NOTHING);
    }

    pub(super) fn stock(&self) -> Option<u64> {
        Some(self.stock).filter(|stock| *stock != NOTHING)
    }

    pub(super) fn bought(&self) -> Option<u64> {
        Some(self.bought).filter(|bought| *bought != NOTHING)
    }

    pub(super) fn has_request(&self) -> bool {
        self.request_len > 0
    }

    pub(super) fn has_reason(&self) -> bool {
        self.reason_len > 0
    }
}

/// Rows by number, counted from the first one that was ever pushed.
#[derive(Debug, Default)]
pub(super) struct Window {
    rows: VecDeque<Row>,
    first: u64,
    text: Vec<u8>,
    text_start: u64,
}

impl Window {
    pub(super) fn is_full(&self) -> bool {
        self.rows.len() >= MOST_ROWS || self.text.len() >= MOST_BYTES
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The number of the first row, and the number behind the last.
    pub(super) fn span(&self) -> (u64, u64) {
        (self.first, self.first + self.rows.len() as u64)
    }

    /// Adds a row and gives its number. All lengths are bounded by the reader.
    #[allow(clippy::cast_possible_truncation)]
    pub(super) fn push(&mut self, line: u64, activity: u32, quantity: u32, texts: [&str; 3]) -> u64 {
        let [user, request, reason] = texts;
        let text = self.text_start + self.text.len() as u64;
        for part in texts {
            self.text.extend_from_slice(part.as_bytes());
        }
        self.rows.push_back(Row {
            line,
            activity,
            next: 0,
            quantity,
            state: State::Waiting,
            request_len: request.len() as u8,
            user_len: user.len() as u16,
            reason_len: reason.len() as u32,
            text,
            stock: NOTHING,
            bought: NOTHING,
        });
        self.first + self.rows.len() as u64 - 1
    }

    pub(super) fn row(&self, number: u64) -> &Row {
        &self.rows[self.index(number)]
    }

    pub(super) fn row_mut(&mut self, number: u64) -> &mut Row {
        let index = self.index(number);
        &mut self.rows[index]
    }

    /// User, request and reason of a row.
    pub(super) fn texts(&self, row: &Row) -> [&[u8]; 3] {
        let rest = &self.text[self.offset(row.text)..];
        let (user, rest) = rest.split_at(usize::from(row.user_len));
        let (request, rest) = rest.split_at(usize::from(row.request_len));
        [user, request, &rest[..row.reason_len as usize]]
    }

    /// The first row, if it is decided.
    pub(super) fn front_decided(&self) -> Option<(&Row, Status)> {
        match self.rows.front()? {
            row @ Row { state: State::Decided(status), .. } => Some((row, *status)),
            _ => None,
        }
    }

    /// Removes the first row and gives its line.
    pub(super) fn pop(&mut self) -> Option<u64> {
        let line = self.rows.pop_front()?.line;
        self.first += 1;
        let used = self.rows.front().map_or(self.text.len(), |row| self.offset(row.text));
        // Moving what is left costs little if most is gone.
        if used >= 64 * 1024 && used * 2 >= self.text.len() {
            self.text.drain(..used);
            self.text_start += used as u64;
        }
        Some(line)
    }

    /// Removes all rows.
    pub(super) fn clear(&mut self) {
        self.first += self.rows.len() as u64;
        self.rows.clear();
        self.text_start += self.text.len() as u64;
        self.text.clear();
    }

    // Numbers come from this window; one that has left it is a bug.
    #[allow(clippy::cast_possible_truncation)]
    fn index(&self, number: u64) -> usize {
        (number - self.first) as usize
    }

    #[allow(clippy::cast_possible_truncation)]
    fn offset(&self, text: u64) -> usize {
        (text - self.text_start) as usize
    }
}
