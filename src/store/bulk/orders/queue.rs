//! The rows of one activity that wait for their turn, and what its job has decided.

use super::window::{Row, State, Window};
use crate::inventory::status::Status;

/// No row, and no epoch: counts never get there.
const NO_ROW: u64 = u64::MAX;
const NOT_ASKED: u32 = u32::MAX;

/// One activity of a run. There may be a million of them, so each of its bytes is a megabyte.
#[derive(Debug)]
pub(crate) struct Queue {
    /// The last line that the job is known to have decided.
    pub(crate) line: u64,
    /// How many lines the job has refused, all told, and how many of them this run.
    pub(crate) refused: u32,
    pub(crate) refused_now: u32,
    /// What refuses the whole activity for the rest of the run.
    pub(crate) shut: Option<Status>,
    /// Whether it stands in the line of those that have a full batch.
    pub(crate) is_ready: bool,
    /// Rows that wait; the first of them; the last row that was linked; the line before the first.
    pub(crate) waiting: u32,
    /// The epoch at the run's begin, as the run numbers them.
    epoch: u32,
    head: u64,
    tail: u64,
    before: u64,
}

/// Consecutive rows of one activity, sent in one call.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Batch {
    pub(crate) activity: u32,
    pub(crate) first: u64,
    pub(crate) count: usize,
    /// The line of this activity before the first.
    pub(crate) before: u64,
}

impl Queue {
    pub(crate) fn new() -> Self {
        Self {
            line: 0,
            refused: 0,
            refused_now: 0,
            shut: None,
            is_ready: false,
            waiting: 0,
            epoch: NOT_ASKED,
            head: 0,
            tail: NO_ROW,
            before: 0,
        }
    }

    /// The number of the epoch at the run's begin; `None` until the server was asked.
    pub(crate) fn epoch(&self) -> Option<u32> {
        Some(self.epoch).filter(|epoch| *epoch != NOT_ASKED)
    }

    pub(crate) fn set_epoch(&mut self, epoch: u32) {
        self.epoch = epoch;
    }

    /// A row that needs no call: it was decided before, or the activity is shut.
    pub(crate) fn pass(&mut self, line: u64) {
        if self.waiting == 0 {
            self.before = line;
        }
    }

    /// Links a new row at the end.
    #[allow(clippy::cast_possible_truncation)] // Rows of one window are less than 2^32 apart.
    pub(crate) fn append(&mut self, number: u64, window: &mut Window) {
        if self.tail != NO_ROW && self.tail >= window.span().0 {
            window.row_mut(self.tail).next = (number - self.tail) as u32;
        }
        self.tail = number;
        if self.waiting == 0 {
            self.head = number;
        }
        self.waiting += 1;
    }

    /// Takes the next rows, at most so many, as a batch. A decided row between them ends the batch: the script must
    /// see a gap there, if it is one.
    pub(crate) fn take(&mut self, activity: u32, most: usize, window: &mut Window) -> Option<Batch> {
        let mut batch: Option<Batch> = None;
        while self.waiting > 0 {
            let row = window.row_mut(self.head);
            if row.state == State::Waiting {
                match &mut batch {
                    None => batch = Some(Batch { activity, first: self.head, count: 1, before: self.before }),
                    Some(batch) if batch.count < most => batch.count += 1,
                    Some(_) => break,
                }
                row.state = State::Sent;
                self.waiting -= 1;
            } else if batch.is_some() {
                break;
            }
            self.before = row.line;
            self.head += u64::from(row.next);
            // The last row links to none: `append` sets the head when rows wait again.
            if row.next == 0 {
                break;
            }
        }
        batch
    }

    /// Puts the rows of a batch back: it did not run, or nobody knows. Batches come back in the order in which they
    /// were sent, so the first one has the first row.
    pub(crate) fn put_back(&mut self, batch: &Batch, window: &mut Window) {
        if self.waiting == 0 || batch.first < self.head {
            self.head = batch.first;
            self.before = batch.before;
        }
        #[allow(clippy::cast_possible_truncation)] // Rows of one window are less than 2^32.
        let count = batch.count as u32;
        self.waiting += count;
        each(batch, window, |_, row| row.state = State::Waiting);
    }

    /// From now on all rows of the activity are answered like this, unsent.
    pub(crate) fn shut(&mut self, status: Status, window: &mut Window) {
        self.shut = Some(status);
        while self.waiting > 0 {
            let row = window.row_mut(self.head);
            if row.state == State::Waiting {
                row.done(status, None, None);
                self.waiting -= 1;
            }
            self.before = row.line;
            self.head += u64::from(row.next);
            if row.next == 0 {
                break;
            }
        }
    }

    /// Forgets all rows: the window was cleared, and the input is read from its begin.
    pub(crate) fn start_over(&mut self) {
        (self.waiting, self.head, self.tail, self.before, self.is_ready) = (0, 0, NO_ROW, 0, false);
    }
}

/// Goes through the rows of a batch, counting from 0.
pub(crate) fn each(batch: &Batch, window: &mut Window, mut visit: impl FnMut(usize, &mut Row)) {
    let mut number = batch.first;
    for nth in 0..batch.count {
        let row = window.row_mut(number);
        visit(nth, row);
        number += u64::from(row.next);
    }
}
