//! Orders of several activities each, all or nothing: several of them a call.
//!
//! They overlap, so a call that failed must not be overtaken by one that names an activity of it: two calls are in
//! flight together only if they share no activity, and in what order those run makes no difference. Calls that name an
//! activity are therefore decided there in the order of the input, in every run of the job, and the watermark says
//! what the job has decided there.

mod call;
mod decode;
mod encode;

use std::collections::VecDeque;
use std::time::Duration;

use redis::Value;

use super::job::JobStates;
use super::{Job, Limits, Operation, Orders, Run, Verdict};
use crate::inventory::interner::Interner;
use crate::inventory::order::{MultiOrder, MultiOutcome, Outcome};
use crate::inventory::status::Status;
use crate::store::pipeline::{Link, Pipeline};
use crate::store::scripts::MULTI_DEDUCT;
use crate::store::{Store, StoreError};
use call::{Attempt, MultiCall};
use decode::{Decoded, decode};
use encode::encode;

/// One order of the input.
#[derive(Debug)]
pub struct BulkMultiOrder {
    /// The line where it begins.
    pub line: u64,
    /// The order.
    pub order: MultiOrder,
    /// Whether a refusal is stored under its request, so that another try gets the same answer: of orders that have no
    /// request of their own.
    pub keeps_refusals: bool,
    /// Its activities by number, in the order of its items; [`Run::push`] fills them in.
    pub activities: Vec<u32>,
}

/// One order, and how it ended.
#[derive(Debug)]
pub struct DecidedMultiOrder<'a> {
    /// The order.
    pub order: &'a BulkMultiOrder,
    /// How it ended.
    pub outcome: &'a MultiOutcome,
    /// Whether it is `replayed` because it was refused before this run.
    pub is_refused_before: bool,
}

#[derive(Debug)]
enum State {
    Waiting,
    Sent,
    Decided { outcome: MultiOutcome, is_refused_before: bool },
}

/// Multi-orders, from the first that was not popped.
pub struct MultiOrders {
    kind: String,
    operator: String,
    most_items: usize,
    rows: VecDeque<(BulkMultiOrder, State)>,
    /// The number of the first.
    first: u64,
    /// The number of the first order that is in no call yet, and how many items wait from there on.
    next: u64,
    waiting: usize,
    /// The next call, formed while others are in flight.
    ready: Option<MultiCall>,
}

impl Run<MultiOrders> {
    /// Loads the script. `names` are the activities that are known to come.
    ///
    /// # Errors
    /// Any of [`StoreError`].
    pub fn new(
        store: &mut Store,
        job: Job,
        limits: Limits,
        retry_for: Duration,
        names: Interner,
    ) -> Result<Self, StoreError> {
        let orders = MultiOrders {
            kind: store.kind(),
            operator: store.operator.clone(),
            // An item takes the server longer than an order of one activity does.
            most_items: (limits.most_orders() / 2).max(1),
            rows: VecDeque::new(),
            first: 0,
            next: 0,
            waiting: 0,
            ready: None,
        };
        let states = JobStates::new(job, Operation::MultiDeduct, store.layout, names);
        Self::open(store, &MULTI_DEDUCT, (limits, retry_for), states, orders)
    }

    /// Adds an order.
    pub fn push(&mut self, mut order: BulkMultiOrder) {
        let items = &order.order.items;
        order.activities = items.iter().map(|(activity, _)| self.states.number(activity.as_str())).collect();
        self.orders.waiting += items.len();
        self.orders.rows.push_back((order, State::Waiting));
    }

    /// The first order, if it is decided.
    pub fn front(&self) -> Option<DecidedMultiOrder<'_>> {
        match self.orders.rows.front()? {
            (order, State::Decided { outcome, is_refused_before }) => {
                Some(DecidedMultiOrder { order, outcome, is_refused_before: *is_refused_before })
            }
            _ => None,
        }
    }
}

impl MultiOrders {
    /// Each order of a call was decided, but in activities that refuse as a whole the watermark has not moved.
    fn decided(&mut self, states: &mut JobStates, call: &MultiCall, outcomes: Vec<MultiOutcome>, refusing: &[usize]) {
        if call.attempt == Attempt::Decided {
            self.mark(call, outcomes.into_iter().map(decided_before));
            return;
        }
        let mut refuses = false;
        for (which, nth) in call.activities.iter().enumerate() {
            let state = states.get_mut(*nth);
            if !refusing.contains(&which) {
                state.watermark = call.last;
                continue;
            }
            let rows = self.rows_of(call).zip(&outcomes);
            let mut items = rows.flat_map(|(order, outcome)| order.activities.iter().zip(&outcome.items));
            let refusal = items.find(|(named, item)| *named == nth && refuses_as_a_whole(item.status));
            state.refusal = refusal.map(|(_, item)| item.status);
            refuses |= state.refusal.is_some();
        }
        let decided = outcomes.into_iter().map(|outcome| State::Decided { outcome, is_refused_before: false });
        self.mark(call, decided);
        // The next call may name the activity.
        if refuses {
            self.dissolve_ready();
        }
    }

    /// Dissolves the next call; it is formed again.
    fn dissolve_ready(&mut self) {
        if let Some(ready) = self.ready.take() {
            self.waiting += ready.items;
            self.next = self.next.min(ready.first);
        }
    }

    fn rows_of(&self, call: &MultiCall) -> impl Iterator<Item = &BulkMultiOrder> {
        let from = self.index(call.first);
        self.rows.range(from..from + call.count).map(|(order, _)| order)
    }

    fn mark(&mut self, call: &MultiCall, states: impl Iterator<Item = State>) {
        let from = self.index(call.first);
        self.rows.range_mut(from..from + call.count).zip(states).for_each(|((_, state), new)| *state = new);
    }

    // Numbers are those of orders that were not popped.
    #[allow(clippy::cast_possible_truncation)]
    fn index(&self, number: u64) -> usize {
        number.saturating_sub(self.first) as usize
    }
}

impl Orders for MultiOrders {
    type Call = MultiCall;

    fn accepts_more(&self) -> bool {
        // One more than fits shows that the call is full.
        self.waiting <= self.most_items
    }

    fn is_full(&self) -> bool {
        false
    }

    fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    fn wants_to_send<'c>(
        &mut self,
        states: &JobStates,
        mut in_flight: impl Iterator<Item = &'c MultiCall>,
        flush: bool,
    ) -> bool {
        if self.ready.is_none() {
            self.ready = self.form(states, flush);
        }
        self.ready.as_ref().is_some_and(|call| in_flight.all(|before| before.is_disjoint(call)))
    }

    fn send<L: Link>(&mut self, states: &JobStates, pipeline: &mut Pipeline<MultiCall, L>, _flush: bool) {
        let Some(call) = self.ready.take() else { return };
        self.mark(&call, std::iter::repeat_with(|| State::Sent));
        let known = call.activities.iter().map(|nth| (states.epoch(*nth), states.get(*nth).watermark));
        let known: Vec<_> = known.collect();
        let run = [self.kind.as_str(), &self.operator];
        pipeline.push(call, |out, call| encode(out, run, &states.job, call, known.into_iter()));
    }

    fn reply(&mut self, states: &mut JobStates, call: MultiCall, value: Value) -> Result<Verdict, StoreError> {
        let orders: Vec<&MultiOrder> = self.rows_of(&call).map(|order| &order.order).collect();
        match decode(value, &call.asked, &orders)? {
            Decoded::Decided { outcomes, refusing } => {
                let items = outcomes.iter().flat_map(|outcome| &outcome.items);
                let corrupt = items.filter_map(|item| item.corrupt.clone()).collect();
                self.decided(states, &call, outcomes, &refusing);
                Ok(Verdict::Decided(corrupt))
            }
            Decoded::Gap { nth, line } => {
                let nth = call.activities[nth];
                self.put_back(states, call, false);
                Ok(Verdict::Rewind { nth, line })
            }
            Decoded::OtherEpoch { nth, epoch } => {
                let nth = call.activities[nth];
                self.put_back(states, call, false);
                // It was preheated meanwhile, and nothing was sold before.
                if states.epoch(nth).is_empty() && states.get(nth).watermark == 0 {
                    states.set_epoch(nth, &epoch);
                    return Ok(Verdict::Retry(None));
                }
                Err(StoreError::Reset { activity: states.name(nth).to_owned() })
            }
            Decoded::OtherJob { nth } => Err(states.other_job(call.activities[nth])),
        }
    }

    /// If it may have run, what refuses an order now is stored: else the first try, arriving late, could still take
    /// what is reported as refused.
    fn put_back(&mut self, _states: &JobStates, call: MultiCall, may_have_run: bool) {
        self.mark(&call, std::iter::repeat_with(|| State::Waiting));
        self.next = self.next.min(call.first);
        self.waiting += call.items;
        self.dissolve_ready();
        if may_have_run {
            let from = self.index(call.first);
            self.rows.range_mut(from..from + call.count).for_each(|(order, _)| order.keeps_refusals = true);
        }
    }

    fn is_decided(&self) -> bool {
        matches!(self.rows.front(), Some((_, State::Decided { .. })))
    }

    fn pop(&mut self) {
        if self.rows.pop_front().is_some() {
            self.first += 1;
        }
    }

    fn restart(&mut self, states: &mut JobStates) {
        self.first += self.rows.len() as u64;
        self.rows.clear();
        (self.next, self.waiting, self.ready) = (self.first, 0, None);
        // All is sent again, so that nothing is known of what the server decided.
        states.iter_mut().for_each(|state| state.watermark = 0);
    }
}

/// The state of an order that the job decided before this run, from what looking it up gave: it is replayed, whatever
/// it was then. Only an activity that is gone, or corrupt, keeps its status.
fn decided_before(mut outcome: MultiOutcome) -> State {
    let is_gone = |item: &Outcome| matches!(item.status, Status::NotPreheated | Status::Corrupt);
    if outcome.items.iter().any(is_gone) {
        return State::Decided { outcome, is_refused_before: false };
    }
    let is_refused_before = outcome.status != Status::Replayed;
    outcome.status = Status::Replayed;
    outcome.items.iter_mut().for_each(|item| item.status = Status::Replayed);
    State::Decided { outcome, is_refused_before }
}

/// Whether a status is that of a whole activity.
fn refuses_as_a_whole(status: Status) -> bool {
    matches!(status, Status::NotPreheated | Status::Corrupt | Status::Paused | Status::NotStarted | Status::Ended)
}
