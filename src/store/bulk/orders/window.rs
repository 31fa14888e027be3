//! The rows between the one that was read last and the first one that nobody was told of yet: a bounded stretch of
//! the input, kept in its order.

use std::collections::VecDeque;

use crate::inventory::status::Status;

/// The most rows, and the most bytes of their texts. A wider window makes fuller batches of an input that mixes many
/// activities, and takes more memory.
const MOST_ROWS: usize = 64 * 1024;
const MOST_BYTES: usize = 3 * 1024 * 1024;

/// Nothing is known; a count never gets there.
const NOTHING: u64 = u64::MAX;

/// What became of a row so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// Nothing.
    Waiting,
    /// It is in flight.
    Sent,
    /// It is decided.
    Done(Status),
}

/// One row.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) line: u64,
    pub(crate) activity: u32,
    /// How far on the next row of the same activity is; 0 where there is none yet.
    pub(crate) next: u32,
    pub(crate) quantity: u32,
    pub(crate) state: State,
    request_len: u8,
    user_len: u16,
    reason_len: u32,
    text: u64,
    stock: u64,
    bought: u64,
}

impl Row {
    pub(crate) fn done(&mut self, status: Status, stock: Option<u64>, bought: Option<u64>) {
        self.state = State::Done(status);
        self.stock = stock.unwrap_or(NOTHING);
        self.bought = bought.unwrap_or(NOTHING);
    }

    pub(crate) fn stock(&self) -> Option<u64> {
        Some(self.stock).filter(|stock| *stock != NOTHING)
    }

    pub(crate) fn bought(&self) -> Option<u64> {
        Some(self.bought).filter(|bought| *bought != NOTHING)
    }

    pub(crate) fn has_request(&self) -> bool {
        self.request_len > 0
    }

    pub(crate) fn has_reason(&self) -> bool {
        self.reason_len > 0
    }
}

/// Rows by number, counted from the first one that was ever pushed.
#[derive(Debug, Default)]
pub(crate) struct Window {
    rows: VecDeque<Row>,
    first: u64,
    text: Vec<u8>,
    text_start: u64,
}

impl Window {
    pub(crate) fn is_full(&self) -> bool {
        self.rows.len() >= MOST_ROWS || self.text.len() >= MOST_BYTES
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The number of the first row, and the number behind the last.
    pub(crate) fn span(&self) -> (u64, u64) {
        (self.first, self.first + self.rows.len() as u64)
    }

    /// Adds a row and gives its number. All lengths are bounded by the reader.
    #[allow(clippy::cast_possible_truncation)]
    pub(crate) fn push(&mut self, line: u64, activity: u32, quantity: u32, texts: [&str; 3]) -> u64 {
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

    pub(crate) fn row(&self, number: u64) -> &Row {
        &self.rows[self.place(number)]
    }

    pub(crate) fn row_mut(&mut self, number: u64) -> &mut Row {
        let place = self.place(number);
        &mut self.rows[place]
    }

    /// User, request and reason of a row.
    pub(crate) fn texts(&self, row: &Row) -> [&[u8]; 3] {
        let rest = &self.text[self.offset(row.text)..];
        let (user, rest) = rest.split_at(usize::from(row.user_len));
        let (request, rest) = rest.split_at(usize::from(row.request_len));
        [user, request, &rest[..row.reason_len as usize]]
    }

    /// The first row, where it is decided.
    pub(crate) fn front_done(&self) -> Option<(&Row, Status)> {
        match self.rows.front()? {
            row @ Row { state: State::Done(status), .. } => Some((row, *status)),
            _ => None,
        }
    }

    /// The first row.
    pub(crate) fn front(&self) -> Option<&Row> {
        self.rows.front()
    }

    /// Forgets the first row.
    pub(crate) fn pop(&mut self) {
        self.rows.pop_front();
        self.first += 1;
        let used = self.rows.front().map_or(self.text.len(), |row| self.offset(row.text));
        // Moving what is left costs little where most is gone.
        if used >= 64 * 1024 && used * 2 >= self.text.len() {
            self.text.drain(..used);
            self.text_start += used as u64;
        }
    }

    /// Forgets all rows.
    pub(crate) fn clear(&mut self) {
        self.first += self.rows.len() as u64;
        self.rows.clear();
        self.text_start += self.text.len() as u64;
        self.text.clear();
    }

    // Numbers come from this window; one that has left it is a bug, which an index out of bounds tells.
    #[allow(clippy::cast_possible_truncation)]
    fn place(&self, number: u64) -> usize {
        (number - self.first) as usize
    }

    #[allow(clippy::cast_possible_truncation)]
    fn offset(&self, text: u64) -> usize {
        (text - self.text_start) as usize
    }
}
