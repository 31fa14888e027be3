//! The rows of one activity that wait: a list through the window. And which activity's orders are sent next, on each lane.

use std::collections::VecDeque;

use crate::model::status::Status;
use crate::sell::bulk::orders::window::{Row, State, Window};

/// No row: counts never get there.
const NO_ROW: u64 = u64::MAX;

/// There may be a million of them, so each of its bytes is a megabyte.
#[derive(Debug)]
pub(crate) struct Queue {
    /// How many rows wait.
    pub(crate) waiting: u32,
    /// Whether it is listed as one that has a full batch.
    pub(crate) is_ready: bool,
    /// The first row that waits, and the row that was linked last.
    head: u64,
    tail: u64,
    /// The activity's line before the first that waits.
    pub(crate) before: u64,
}

/// Consecutive rows of one activity, sent in one call.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Batch {
    pub(crate) activity: u32,
    pub(crate) first: u64,
    pub(crate) count: usize,
    /// The line of this activity before the first.
    pub(crate) before: u64,
    /// Whether the call ends before an order that the stock of a shard does not cover.
    pub(crate) borrows: bool,
}

impl Queue {
    pub(crate) fn new() -> Self {
        Self { waiting: 0, is_ready: false, head: 0, tail: NO_ROW, before: 0 }
    }

    /// A row that needs no call: it was decided before, or the activity refuses all.
    pub(crate) fn pass(&mut self, line: u64) {
        if self.waiting == 0 {
            self.before = line;
        }
    }

    /// Links a new row behind the last one of the activity.
    /// Their distance is less than 2^32.
    pub(crate) fn link(&mut self, number: u64, window: &mut Window) {
        if self.tail != NO_ROW && self.tail >= window.span().0 {
            window.row_mut(self.tail).next = (number - self.tail) as u32;
        }
        self.tail = number;
    }

    /// Adds a new row to those that wait.
    pub(crate) fn append(&mut self, number: u64, window: &mut Window) {
        self.link(number, window);
        if self.waiting == 0 {
            self.head = number;
        }
        self.waiting += 1;
    }

    /// Takes the next rows, at most so many, as a batch: all of them `borrow`, or none. A decided row between them ends the
    /// batch: the script must see a gap there, if it is one.
    pub(crate) fn take(
        &mut self,
        activity: u32,
        most: usize,
        window: &mut Window,
        borrows: impl Fn(&Row) -> bool,
    ) -> Option<Batch> {
        let mut batch: Option<Batch> = None;
        let mut is_ended = false;
        while self.waiting > 0 {
            let row = window.row_mut(self.head);
            match (&mut batch, row.state == State::Waiting) {
                (None, true) => {
                    let (first, before, borrows) = (self.head, self.before, borrows(row));
                    batch = Some(Batch { activity, first, count: 1, before, borrows });
                }
                (Some(batch), true) if batch.count < most && !is_ended && batch.borrows == borrows(row) => {
                    batch.count += 1;
                }
                // The head stays at a row that waits: any other may be reported and gone before the next batch is taken.
                (Some(_), true) => break,
                (batch, false) => is_ended = batch.is_some(),
            }
            if row.state == State::Waiting {
                row.state = State::Sent;
                self.waiting -= 1;
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
        self.waiting += batch.count as u32; // Rows of one window are less than 2^32.
        each(batch, window, |row| row.state = State::Waiting);
    }

    /// The first row that waits.
    pub(crate) fn first_waiting(&self) -> Option<u64> {
        (self.waiting > 0).then_some(self.head)
    }

    /// Whether rows before those of a batch that was sent wait again.
    pub(crate) fn has_before(&self, batch: &Batch) -> bool {
        self.waiting > 0 && self.head < batch.first
    }

    /// Decides all rows that wait, unsent.
    pub(crate) fn refuse_all(&mut self, status: Status, window: &mut Window) {
        while let Some(batch) = self.take(0, usize::MAX, window, |_| false) {
            each(&batch, window, |row| row.state = State::Decided(status));
        }
    }
}

/// Visits the rows of a batch.
pub(crate) fn each(batch: &Batch, window: &mut Window, mut visit: impl FnMut(&mut Row)) {
    let mut number = batch.first;
    for _ in 0..batch.count {
        let row = window.row_mut(number);
        visit(row);
        number += u64::from(row.next);
    }
}

/// What waits, by lane; at least one.
#[derive(Debug)]
pub(crate) struct Schedule {
    lanes: Vec<Waiting>,
}

/// What waits for one lane.
#[derive(Debug, Clone, Default)]
pub(super) struct Waiting {
    /// Activities that have a full batch.
    ready: VecDeque<u32>,
    /// All rows of the lane before this one are sent or decided.
    pub(super) oldest: u64,
    /// Whether any activity is on the lane.
    is_used: bool,
}

impl Schedule {
    pub(crate) fn new() -> Self {
        Self { lanes: vec![Waiting { is_used: true, ..Waiting::default() }] }
    }

    /// Forgets all, for so many lanes.
    pub(crate) fn clear(&mut self, lanes: usize) {
        self.lanes = vec![Waiting::default(); lanes];
        self.lanes[0].is_used = lanes == 1;
    }

    /// How many lanes there are.
    pub(crate) fn count(&self) -> usize {
        self.lanes.len()
    }

    /// An activity is on a lane.
    pub(crate) fn use_lane(&mut self, lane: usize) {
        self.lane(lane).is_used = true;
    }

    /// An activity has a full batch.
    pub(crate) fn push(&mut self, lane: usize, activity: u32) {
        self.lane(lane).ready.push_back(activity);
    }

    /// The next activity that has a full batch.
    pub(crate) fn pop(&mut self, lane: usize) -> Option<u32> {
        self.lane(lane).ready.pop_front()
    }

    pub(crate) fn has_ready(&self, lane: usize) -> bool {
        self.lanes.get(lane).is_some_and(|lane| !lane.ready.is_empty())
    }

    /// Whether a lane has no full batch to send next.
    pub(crate) fn is_hungry(&self) -> bool {
        self.lanes.iter().any(|lane| lane.is_used && lane.ready.is_empty())
    }

    /// A row of a lane waits again.
    pub(crate) fn put_back(&mut self, lane: usize, number: u64) {
        let lane = self.lane(lane);
        lane.oldest = lane.oldest.min(number);
    }

    pub(super) fn lane(&mut self, lane: usize) -> &mut Waiting {
        if lane >= self.lanes.len() {
            self.lanes.resize(lane + 1, Waiting::default());
        }
        &mut self.lanes[lane]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_that_another_run_decided_may_be_gone_before_the_next_batch_is_taken() {
        let (mut queue, mut window) = (Queue::new(), Window::new(false, false));
        for line in 1..=6 {
            let number = window.push(line, 0, 1, ["u", "", ""]);
            queue.append(number, &mut window);
        }
        let decided =
            |batch: &Batch, window: &mut Window| each(batch, window, |row| row.state = State::Decided(Status::Ok));
        let first = queue.take(0, 2, &mut window, |_| false).unwrap();
        let second = queue.take(0, 2, &mut window, |_| false).unwrap();
        // The first did not run, but another run of the job decided its lines, so that the second could follow.
        queue.put_back(&first, &mut window);
        decided(&second, &mut window);
        let again = queue.take(0, 4, &mut window, |_| false).unwrap();
        assert_eq!((again.first, again.count), (first.first, 2));
        decided(&again, &mut window);
        assert_eq!([(); 4].map(|()| window.pop()), [Some(1), Some(2), Some(3), Some(4)]);
        let last = queue.take(0, 4, &mut window, |_| false).unwrap();
        assert_eq!((last.first, last.count, last.before, queue.waiting), (4, 2, 4, 0));
    }
}
