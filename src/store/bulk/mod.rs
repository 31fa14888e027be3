//! Many orders, as fast as the server takes them, each applied exactly once.
//!
//! Rows go into a window, in the order of the input. Those of one activity are sent together, a batch a call, with
//! more than one call in flight; the script's watermark keeps them in order and applies none of them twice, so a
//! batch whose reply was lost is simply sent again. Rows leave the window in the order of the input, decided.

mod meet;
mod multi;
mod orders;
mod pace;
mod receive;
mod recover;
mod send;
mod terms;

use std::collections::VecDeque;

use super::scripts::{DEDUCT, REFUND, Script};
use super::{Store, StoreError};
use crate::inventory::id::ActivityId;
use crate::inventory::interner::Interner;
use crate::inventory::layout::Kind;
use crate::inventory::status::Status;
pub use multi::{MultiBulk, MultiDecided, MultiEntry};
use orders::encode::Encoder;
use orders::queue::{Batch, Queue};
use orders::window::{self, Window};
pub use pace::Pace;
use recover::Trouble;
pub use terms::{Decided, Entry, Job, Operation, Step, Terms};

/// A run.
pub struct Bulk<'s> {
    store: &'s mut Store,
    terms: Terms,
    script: &'static Script,
    kind: Kind,
    encoder: Encoder,
    window: Window,
    /// Names of the activities, and what is known of each: a file may name a million.
    names: Interner,
    queues: Vec<Queue>,
    epochs: Interner,
    /// The activity of the last row: most rows name it again.
    last: u32,
    /// How many activities the server was not asked about.
    unmet: usize,
    /// Activities that have a full batch.
    ready: VecDeque<u32>,
    /// All rows before this one are sent or decided.
    oldest: u64,
    flight: VecDeque<Batch>,
    weight: usize,
    out: Vec<u8>,
    trouble: Option<Trouble>,
    /// Nothing more is sent until nothing is in flight: what follows a batch that failed would overtake it.
    is_draining: bool,
    /// The last line that was told of.
    told: u64,
}

impl<'s> Bulk<'s> {
    /// Loads the script; nothing else is sent yet. `names` are the activities that are known to come.
    ///
    /// # Errors
    /// Any of [`StoreError`].
    pub fn new(store: &'s mut Store, terms: Terms, names: Interner) -> Result<Self, StoreError> {
        let script: &'static Script = match terms.operation {
            Operation::Deduct => &DEDUCT,
            Operation::Refund => &REFUND,
        };
        let kind = store.layout.kind();
        let limit = terms.limit.map(|limit| limit.to_string()).unwrap_or_default();
        let reason = terms.reason.as_deref().unwrap_or_default();
        let run = [kind.name(), &store.operator, reason, &limit, "first"];
        let encoder = Encoder::new(script, run, [&terms.job.name, &terms.job.digest], terms.rows);
        store.server.command(redis::cmd("SCRIPT").arg("LOAD").arg(script.text))?;
        Ok(Self {
            store,
            terms,
            script,
            kind,
            encoder,
            window: Window::default(),
            queues: (0..names.count()).map(|_| Queue::new()).collect(),
            unmet: names.count(),
            names,
            epochs: Interner::default(),
            last: 0,
            ready: VecDeque::new(),
            oldest: 0,
            flight: VecDeque::new(),
            weight: 0,
            out: Vec::new(),
            trouble: None,
            is_draining: false,
            told: 0,
        })
    }

    /// Whether another row can be pushed, and is of use before [`advance`](Self::advance).
    pub fn takes_more(&self) -> bool {
        self.ready.is_empty() && !self.window.is_full()
    }

    /// Whether no more rows fit in before some are told of.
    pub fn is_full(&self) -> bool {
        self.window.is_full()
    }

    /// Whether no row is left.
    pub fn is_empty(&self) -> bool {
        self.window.is_empty()
    }

    /// Whether anything is in flight.
    pub fn is_waiting(&self) -> bool {
        !self.flight.is_empty()
    }

    /// Takes a row.
    pub fn push(&mut self, entry: &Entry<'_>) {
        let nth = self.queue(entry.activity);
        let number = self.window.push(entry.line, nth, entry.quantity, [entry.user, entry.request, entry.reason]);
        let queue = &mut self.queues[nth as usize];
        // Rows are sent again for the stock and the units they tell of, not because they must be.
        let known = entry.line <= queue.line && (!self.terms.rows || entry.line <= self.told);
        match queue.shut {
            _ if known => {
                queue.pass(entry.line);
                self.window.row_mut(number).done(Status::Replayed, None, None);
            }
            Some(status) => {
                queue.pass(entry.line);
                self.window.row_mut(number).done(status, None, None);
            }
            None => {
                queue.append(number, &mut self.window);
                self.make_ready(nth);
            }
        }
    }

    /// The next row in the order of the input, where it is decided. [`pop`](Self::pop) goes on to the one behind it.
    pub fn front(&self) -> Option<Decided<'_>> {
        let (row, status) = self.window.front_done()?;
        Some(self.decided(row, status))
    }

    /// Forgets the first row.
    pub fn pop(&mut self) {
        if let Some(row) = self.window.front() {
            self.told = self.told.max(row.line);
        }
        self.window.pop();
    }

    /// Forgets the rows before the first decided one; false where none is. For a run that ends early.
    pub fn skip_undecided(&mut self) -> bool {
        while !self.window.is_empty() {
            if self.window.front_done().is_some() {
                return true;
            }
            self.window.pop();
        }
        false
    }

    /// Sends what is ready, or receives what is in flight. `pressing` sends batches that are not full too.
    ///
    /// # Errors
    /// Any of [`StoreError`], when trying again did not help or would not.
    pub fn advance(&mut self, pressing: bool) -> Result<Step, StoreError> {
        if self.is_draining && self.flight.is_empty() {
            self.is_draining = false;
        }
        if self.trouble.as_ref().is_some_and(|trouble| !trouble.is_over) && self.flight.is_empty() {
            return self.recover();
        }
        let wants = !self.ready.is_empty() || (pressing && self.find_oldest().is_some());
        if wants && !self.is_draining && self.weight <= self.terms.pace.most_weight() / 2 {
            if self.unmet > 0 {
                return if self.flight.is_empty() { self.meet() } else { self.receive() };
            }
            if self.terms.pace.is_due() {
                return Ok(self.send(pressing));
            }
            if self.flight.is_empty() {
                self.terms.pace.wait();
                return Ok(Step::On);
            }
        }
        if self.flight.is_empty() { Ok(Step::Idle) } else { self.receive() }
    }

    /// The error for orders that were in flight when the connection broke, and were not settled since.
    pub fn doubt(&self) -> Option<StoreError> {
        self.trouble.as_ref().and_then(|trouble| trouble.doubt(&self.store.server))
    }

    /// Receives what is in flight and sends nothing more.
    ///
    /// # Errors
    /// Any of [`StoreError`].
    pub fn drain(&mut self) -> Result<(), StoreError> {
        while !self.flight.is_empty() {
            self.receive()?;
        }
        Ok(())
    }

    /// Forgets all rows, because the input is read again from its begin.
    pub fn start_over(&mut self) {
        self.window.clear();
        self.ready.clear();
        self.oldest = 0;
        for queue in &mut self.queues {
            queue.start_over();
        }
    }

    /// How many orders of each activity the job refused before this run, or in another one at the same time.
    pub fn refused_before(&self) -> impl Iterator<Item = u64> {
        self.queues.iter().map(|queue| u64::from(queue.refused.saturating_sub(queue.refused_now)))
    }

    /// The names of the activities, in the order in which they were named first.
    pub fn into_names(self) -> Interner {
        self.names
    }

    fn activity(&self, nth: u32) -> ActivityId {
        ActivityId::validated(self.names.name(nth))
    }

    fn decided<'a>(&'a self, row: &window::Row, status: Status) -> Decided<'a> {
        let [user, request, reason] = self.window.texts(row).map(|text| std::str::from_utf8(text).unwrap_or_default());
        let activity = std::str::from_utf8(self.names.name(row.activity)).unwrap_or_default();
        let entry = Entry { line: row.line, activity, user, quantity: row.quantity, request, reason };
        Decided { entry, nth: row.activity as usize, status, stock: row.stock(), bought: row.bought() }
    }

    /// The queue of an activity, made now if there is none.
    fn queue(&mut self, activity: &str) -> u32 {
        let is_last = (self.last as usize) < self.names.count() && self.names.name(self.last) == activity.as_bytes();
        if !is_last {
            self.last = self.names.number(activity.as_bytes());
            if self.names.count() > self.queues.len() {
                self.queues.push(Queue::new());
                self.unmet += 1;
            }
        }
        self.last
    }
}
