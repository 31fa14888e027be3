//! Many orders of several activities each: several of them a call, each all or nothing, each applied exactly once.
//!
//! Each carries an id, by which it is known to have been applied. They overlap, so a call that failed must not be
//! overtaken by one that takes from the same activities: the next call is packed while one is in flight, and sent
//! meanwhile only if it shares no activity with it. In what order those two run makes no difference.
//!
//! So calls that name an activity are decided there one after the other, in the order of the input, in every run of the
//! job. The highest line that was decided therefore says what the server knows of the job in that activity; each call
//! says what the run was told, and a server that knows less has forgotten something.

mod call;
mod decode;
mod encode;
mod places;
mod receive;

use std::collections::{HashSet, VecDeque};
use std::time::Duration;

use super::pace::Pace;
use super::recover::Trouble;
use super::{Job, Step};
use crate::inventory::interner::Interner;
use crate::inventory::order::{Corrupt, MultiOrder, MultiOutcome};
use crate::store::scripts::MULTI_DEDUCT;
use crate::store::{Store, StoreError};
use call::{Call, may_follow};
use places::Place;

/// One order of the input.
#[derive(Debug)]
pub struct MultiEntry {
    /// The line where it begins.
    pub line: u64,
    /// The order.
    pub order: MultiOrder,
    /// Whether a refusal is kept under its request, so that another try is told the same: of orders that have no
    /// request of their own, but are a line of a job.
    pub keeps_refusals: bool,
    /// The activities of its items as the run numbers them; [`MultiBulk::push`] fills them in.
    pub activities: Vec<u32>,
}

/// One order that is decided.
#[derive(Debug)]
pub struct MultiDecided<'a> {
    /// The order.
    pub entry: &'a MultiEntry,
    /// How it ended.
    pub outcome: &'a MultiOutcome,
    /// Whether it is `replayed` because it was refused before this run.
    pub is_refused_before: bool,
}

/// What became of an order so far.
#[derive(Debug)]
enum State {
    Waiting,
    Sent,
    Done { outcome: MultiOutcome, is_refused_before: bool },
}

/// A run of multi-orders.
pub struct MultiBulk<'s> {
    store: &'s mut Store,
    job: Job,
    pace: Pace,
    retry_for: Duration,
    /// Orders from the first one that nobody was told of, and that one's number.
    rows: VecDeque<(MultiEntry, State)>,
    first: u64,
    /// The first order that is in no call yet, and how many items wait from there on.
    next: u64,
    waiting: usize,
    /// The next call, before it may be sent.
    ready: Option<Call>,
    flight: VecDeque<Call>,
    weight: usize,
    out: Vec<u8>,
    /// Names of the activities, and what is known of each: a file may name a million.
    names: Interner,
    places: Vec<Place>,
    epochs: Interner,
    /// How many activities the server was not asked about.
    unmet: usize,
    trouble: Option<Trouble>,
    /// Nothing more is sent until nothing is in flight: what follows a call that failed would overtake it.
    is_draining: bool,
    /// Keys that were told of, and those still to be told of.
    known_corrupt: HashSet<String>,
    corrupt: VecDeque<Corrupt>,
}

impl<'s> MultiBulk<'s> {
    /// Loads the script; nothing else is sent yet. `names` are the activities that are known to come.
    ///
    /// # Errors
    /// Any of [`StoreError`].
    pub fn new(
        store: &'s mut Store,
        job: Job,
        pace: Pace,
        retry_for: Duration,
        names: Interner,
    ) -> Result<Self, StoreError> {
        store.server.command(redis::cmd("SCRIPT").arg("LOAD").arg(MULTI_DEDUCT.text))?;
        Ok(Self {
            store,
            job,
            pace,
            retry_for,
            rows: VecDeque::new(),
            first: 0,
            next: 0,
            waiting: 0,
            ready: None,
            flight: VecDeque::new(),
            weight: 0,
            out: Vec::new(),
            places: vec![Place::default(); names.count()],
            unmet: names.count(),
            names,
            epochs: Interner::default(),
            trouble: None,
            is_draining: false,
            known_corrupt: HashSet::new(),
            corrupt: VecDeque::new(),
        })
    }

    /// Whether another order is of use before [`advance`](Self::advance).
    pub fn takes_more(&self) -> bool {
        // One more than fits shows that the call is full.
        self.waiting <= self.most_items()
    }

    /// Whether no order is left.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Whether anything is in flight.
    pub fn is_waiting(&self) -> bool {
        !self.flight.is_empty()
    }

    /// Takes an order.
    pub fn push(&mut self, mut entry: MultiEntry) {
        let numbers = entry.order.items.iter().map(|(activity, _)| self.names.number(activity.as_str().as_bytes()));
        entry.activities = numbers.collect();
        self.unmet += self.names.count() - self.places.len();
        self.places.resize(self.names.count(), Place::default());
        self.waiting += entry.order.items.len();
        self.rows.push_back((entry, State::Waiting));
    }

    /// The next order in the order of the input, where it is decided. [`pop`](Self::pop) goes on to the one behind it.
    pub fn front(&self) -> Option<MultiDecided<'_>> {
        match self.rows.front()? {
            (entry, State::Done { outcome, is_refused_before }) => {
                Some(MultiDecided { entry, outcome, is_refused_before: *is_refused_before })
            }
            _ => None,
        }
    }

    /// The names of the activities, by number.
    pub fn into_names(self) -> Interner {
        self.names
    }

    /// Forgets the first order.
    pub fn pop(&mut self) {
        if self.rows.pop_front().is_some() {
            self.first += 1;
        }
    }

    /// Forgets the orders before the first decided one; false where none is. For a run that ends early.
    pub fn skip_undecided(&mut self) -> bool {
        while !self.rows.is_empty() && self.front().is_none() {
            self.pop();
        }
        !self.rows.is_empty()
    }

    /// Sends what may be sent, or receives what is in flight. `pressing` sends a call that is not full too.
    ///
    /// # Errors
    /// Any of [`StoreError`], when trying again did not help or would not.
    pub fn advance(&mut self, pressing: bool) -> Result<Step, StoreError> {
        if let Some(corrupt) = self.corrupt.pop_front() {
            return Ok(Step::Corrupt(corrupt));
        }
        if self.flight.is_empty() {
            self.is_draining = false;
            if self.trouble.as_ref().is_some_and(|trouble| !trouble.is_over) {
                return Trouble::recover(&mut self.trouble, &mut self.store.server, &MULTI_DEDUCT, self.retry_for);
            }
        }
        if !self.is_draining {
            if self.ready.is_none() && self.unmet > 0 {
                return if self.flight.is_empty() { self.meet() } else { self.receive() };
            }
            if self.ready.is_none() {
                self.ready = self.form(pressing);
            }
            if let Some(call) = self.ready.take_if(|call| may_follow(call, &self.flight, self.weight, &self.pace)) {
                if self.pace.is_due() {
                    self.send(call);
                    return Ok(Step::On);
                }
                self.ready = Some(call);
                if self.flight.is_empty() {
                    self.pace.wait();
                    return Ok(Step::On);
                }
            }
        }
        if self.flight.is_empty() { Ok(Step::Idle) } else { self.receive() }
    }

    /// Forgets all orders, because the input is read again from its begin; nothing is in flight.
    pub fn start_over(&mut self) {
        self.first += self.rows.len() as u64;
        self.rows.clear();
        (self.next, self.waiting, self.ready) = (self.first, 0, None);
        // All is sent again, so that nothing is known of what the server decided.
        self.places.iter_mut().for_each(|place| place.line = 0);
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
}
