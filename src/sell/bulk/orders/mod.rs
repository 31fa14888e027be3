//! Orders of one activity each. Those of one activity are sent in batches, in the order of the input; batches of one
//! activity may be in flight together, because the scripts refuse a gap. Small batches of several activities share a
//! call, which decides each of them by itself. An activity with a full batch has a call of
//! its own, the others share one.

mod decode;
mod encode;
mod queue;
#[cfg(test)]
mod tests;
mod window;

use std::collections::HashSet;
use std::time::Duration;

use redis::Value;

use crate::error::{ServerKind, StoreError};
use crate::model::id::StoredUser;
use crate::model::id::interner::Interner;
use crate::model::number::Limit;
use crate::model::order::Corrupt;
use crate::model::order::hold::HoldFor;
use crate::model::status::Status;
use crate::model::time::Millis;
use crate::redis::pipeline::{Call, Link, Pipeline};
use crate::script::reply::Reply;
use crate::sell::bulk::job::JobStates;
use crate::sell::bulk::orders::decode::{BatchReply, Decoded, Expected, OrderReply};
use crate::sell::bulk::orders::encode::Encoder;
use crate::sell::bulk::orders::queue::{Batch, Queue, Schedule, each};
use crate::sell::bulk::orders::window::{FrontRow, HoldDetails, Row, State, Window};
use crate::sell::bulk::{Job, Limits, Operation, Orders, Run, Verdict};
use crate::store::Store;

/// What is done with the orders of a file, and how.
#[derive(Debug, Clone)]
pub(crate) struct OrderOptions {
    /// What is done; not a multi-order.
    pub operation: Operation,
    /// Which job it is.
    pub job: Job,
    /// Why, for the ledger.
    pub reason: Option<String>,
    /// The caller's limit, for activities that another system preheated.
    pub limit: Option<Limit>,
    /// Of holds: for how long.
    pub hold_for: Option<HoldFor>,
    /// Whether the stock and the user's units after each order are wanted.
    pub has_rows: bool,
    /// How much at once, and how fast.
    pub limits: Limits,
    /// The longest outage to wait out.
    pub retry_for: Duration,
}

/// One order as the input has it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BulkOrder<'a> {
    /// The line where it begins; each is higher than the one before.
    pub line: u64,
    /// What is sold; a valid id.
    pub activity: &'a str,
    /// Who buys, or whose hold is ended; empty if the layout records nobody, or if nobody said it.
    pub user: &'a str,
    /// How many units.
    pub quantity: u32,
    /// Its own request id, or empty.
    pub request: &'a str,
    /// Why, or empty.
    pub reason: &'a str,
}

/// One order, and how it ended.
#[derive(Debug)]
pub(crate) struct DecidedOrder<'a> {
    /// The order. That of a hold that it ended has no user.
    pub order: BulkOrder<'a>,
    /// Whose hold it ended, now or before; `None` if there is no such hold, or if rows are not wanted.
    pub hold_user: Option<&'a StoredUser>,
    /// Which activity it is, counted from 0 in the order in which they were named first.
    pub nth: usize,
    /// How it ended.
    pub status: Status,
    /// Units left after it.
    pub stock: Option<u64>,
    /// Units the user holds after it.
    pub bought: Option<u64>,
    /// The deadline of the hold that it made, now or before; `None` if that was returned, or if rows are not wanted.
    pub deadline: Option<Millis>,
}

/// Orders of one activity each, from the first that was not popped.
pub(crate) struct SingleOrders {
    encoder: Encoder,
    operation: Operation,
    has_users: bool,
    has_rows: bool,
    most_orders: usize,
    /// Whether batches may share a call: not if the server, or a proxy before it, refuses such calls.
    can_share: bool,
    window: Window,
    /// By activity.
    queues: Vec<Queue>,
    schedule: Schedule,
    /// The last line that was popped.
    popped: u64,
    /// Shards that need units before anything is sent there.
    held_up: HashSet<u32>,
}

impl Run<SingleOrders> {
    /// Loads the script. `names` are the activities that are known to come.
    ///
    /// # Errors
    /// Any of [`StoreError`].
    pub(crate) fn new(store: &mut Store, options: OrderOptions, names: Interner) -> Result<Self, StoreError> {
        let OrderOptions { operation, job, reason, limit, hold_for, has_rows, limits, retry_for } = options;
        let kind = store.layout.kind();
        let limit = limit.map(|limit| limit.to_string()).or(hold_for.map(|duration| duration.millis().to_string()));
        let limit = limit.unwrap_or_default();
        let run = [&store.operator, reason.as_deref().unwrap_or_default(), &limit];
        let orders = SingleOrders {
            encoder: Encoder::new(operation, kind, run, [&job.name, &job.digest], has_rows),
            can_share: operation.may_share(),
            operation,
            has_users: kind.has_users(),
            has_rows,
            most_orders: limits.most_orders(),
            window: Window::new(has_rows).with_holds(has_rows && operation.has_holds()),
            queues: Vec::new(),
            schedule: Schedule::new(),
            popped: 0,
            held_up: HashSet::new(),
        };
        let states = JobStates::new(job, operation, store.layout, names, store.servers.system());
        Self::open(store, (limits, retry_for), states, orders)
    }

    /// Adds an order.
    ///
    /// # Errors
    /// It has no user, and its activity is sharded.
    pub(crate) fn push(&mut self, order: &BulkOrder<'_>) -> Result<(), StoreError> {
        let nth = self.states.number(order.activity);
        let nth = self.states.home(nth, order.user.as_bytes(), order.line)?;
        self.orders.push(&self.states, nth, order);
        Ok(())
    }

    /// The first order, if it is decided.
    pub(crate) fn front(&self) -> Option<DecidedOrder<'_>> {
        let FrontRow { row, status, stock, bought, hold } = self.orders.window.front()?;
        let [first, second, reason] =
            self.orders.window.texts(row).map(|text| std::str::from_utf8(text).unwrap_or_default());
        let [user, request] = self.orders.operation.columns([first, second]);
        let nth = self.states.parent(row.activity);
        let activity = self.states.name(nth);
        let order = BulkOrder { line: row.line, activity, user, quantity: row.quantity, request, reason };
        let deadline = hold.and_then(|hold| hold.deadline).map(Millis::new);
        let hold_user = hold.and_then(|hold| hold.user.as_ref());
        Some(DecidedOrder { order, hold_user, nth: nth as usize, status, stock, bought, deadline })
    }
}

impl SingleOrders {
    fn push(&mut self, states: &JobStates, nth: u32, order: &BulkOrder<'_>) {
        self.queues.resize_with(states.count(), Queue::new);
        // A hold is settled by its id, so each has one.
        let own = (self.operation == Operation::Hold && order.request.is_empty())
            .then(|| format!("{}:{}", states.job.name, order.line));
        let [first, second] = self.operation.columns([order.user, own.as_deref().unwrap_or(order.request)]);
        let number = self.window.push(order.line, nth, order.quantity, [first, second, order.reason]);
        self.encoder.has_requests |= !order.request.is_empty();
        self.enqueue(states, nth, number);
    }

    /// Puts a new row into the queue of its activity, or decides it.
    fn enqueue(&mut self, states: &JobStates, nth: u32, number: u64) {
        let (state, queue) = (states.get(nth), &mut self.queues[nth as usize]);
        let line = self.window.row(number).line;
        // Rows that will be shown are sent again for their stock and units, and those with an id because a repair may have taken
        // them back.
        let may_be_reversed = state.is_repaired && (self.encoder.has_requests || self.operation.settles());
        let is_decided = line <= state.watermark && (!self.has_rows && !may_be_reversed || line <= self.popped);
        match state.refusal {
            _ if is_decided => {
                queue.pass(line);
                self.window.row_mut(number).state = State::Decided(Status::Replayed);
            }
            Some(status) => {
                queue.pass(line);
                self.window.row_mut(number).state = State::Decided(status);
            }
            None => {
                queue.append(number, &mut self.window);
                self.mark_ready(states, nth);
            }
        }
    }

    fn mark_ready(&mut self, states: &JobStates, nth: u32) {
        let queue = &mut self.queues[nth as usize];
        if queue.waiting as usize >= self.most_orders && !queue.is_ready && !self.held_up.contains(&nth) {
            queue.is_ready = true;
            self.schedule.push(states.lane(nth), nth);
        }
    }

    /// Says which lanes have activities.
    fn use_lanes(&mut self, states: &JobStates) {
        (0..states.count_u32()).for_each(|nth| self.schedule.use_lane(states.lane(nth)));
    }

    fn put_batch_back(&mut self, states: &JobStates, batch: &Batch) {
        if let Some(status) = states.get(batch.activity).refusal {
            each(batch, &mut self.window, |row| row.state = State::Decided(status));
            return;
        }
        self.queues[batch.activity as usize].put_back(batch, &mut self.window);
        self.schedule.put_back(states.lane(batch.activity), batch.first);
        self.mark_ready(states, batch.activity);
    }
}

impl Orders for SingleOrders {
    type Call = OrderCall;

    fn accepts_more(&self) -> bool {
        self.schedule.is_hungry() && !self.window.is_full()
    }

    fn is_full(&self) -> bool {
        self.window.is_full()
    }

    fn is_empty(&self) -> bool {
        self.window.is_empty()
    }

    fn wants_to_send<'c>(
        &mut self,
        states: &JobStates,
        lane: usize,
        _in_flight: impl Iterator<Item = &'c OrderCall>,
        flush: bool,
    ) -> bool {
        self.schedule.has_ready(lane)
            || (flush && self.schedule.find_oldest(lane, states, &self.window, &self.held_up).is_some())
    }

    fn send<L: Link>(&mut self, states: &JobStates, lane: usize, pipeline: &mut Pipeline<OrderCall, L>, flush: bool) {
        while pipeline.buffer_has_room() {
            let Some(call) = self.next_call(states, lane, flush) else { break };
            let asks = call.batches.iter().any(|batch| states.asks(batch.activity));
            pipeline.push(call, asks, |out, call| self.encoder.encode(out, &call.batches, states, &self.window));
        }
    }

    fn reply(&mut self, states: &mut JobStates, call: OrderCall, value: Value) -> Result<Vec<Verdict>, StoreError> {
        if let Value::ServerError(_) = value {
            // See `OrderCall::handles`.
            self.can_share = false;
            self.put_back(states, call, false);
            return Ok(vec![Verdict::Retry(None)]);
        }
        match call.batches[..] {
            [batch] => Ok(vec![self.reply_to_batch(states, batch, &value)?]),
            _ => self.reply_to_all(states, &call, &value),
        }
    }

    fn put_back(&mut self, states: &JobStates, call: OrderCall, _may_have_run: bool) {
        call.batches.iter().for_each(|batch| self.put_batch_back(states, batch));
    }

    fn is_decided(&self) -> bool {
        self.window.front().is_some()
    }

    fn pop(&mut self) {
        if let Some(line) = self.window.pop() {
            self.popped = self.popped.max(line);
        }
    }

    fn split(&mut self, states: &JobStates, parent: u32) -> Result<(), StoreError> {
        self.queues.resize_with(states.count(), Queue::new);
        self.queues[parent as usize] = Queue::new();
        let (first, end) = self.window.span();
        for number in first..end {
            let row = self.window.row(number);
            if row.activity != parent || row.state != State::Waiting {
                continue;
            }
            let [first, second, _] = self.window.texts(row);
            let [user, _] = self.operation.columns([first, second]);
            let shard = states.home(parent, user, row.line)?;
            let row = self.window.row_mut(number);
            (row.activity, row.next, row.state) = (shard, 0, State::Waiting);
            self.schedule.put_back(states.lane(shard), number);
            self.enqueue(states, shard, number);
        }
        Ok(())
    }

    fn release(&mut self, states: &JobStates, nth: u32) {
        self.held_up.remove(&nth);
        if let Some(first) = self.queues[nth as usize].first_waiting() {
            self.schedule.put_back(states.lane(nth), first);
            self.mark_ready(states, nth);
        }
    }

    fn restart(&mut self, states: &mut JobStates) {
        self.held_up.clear();
        self.window.clear();
        self.schedule.clear(self.schedule.count());
        self.queues.iter_mut().for_each(|queue| *queue = Queue::new());
        self.use_lanes(states);
    }

    fn distributed(&mut self, states: &JobStates, lanes: usize) {
        self.queues.resize_with(states.count(), Queue::new);
        self.schedule.clear(lanes);
        // Batches of several slots may not share a call.
        self.can_share = false;
        self.use_lanes(states);
        for nth in 0..states.count_u32() {
            self.queues[nth as usize].is_ready = false;
            self.mark_ready(states, nth);
        }
    }
}

/// What another activity in a call costs the server, in orders: its keys, which are in no cache if there are thousands of
/// activities, and its ledger entry. With it, other clients wait no longer than for a full batch of one activity.
const ACTIVITY_WEIGHT: usize = 20;

/// Batches of different activities, sent in one call.
#[derive(Debug)]
pub(crate) struct OrderCall {
    pub(crate) batches: Vec<Batch>,
    orders: usize,
}

impl OrderCall {
    fn new(batch: Batch) -> Self {
        Self { orders: batch.count, batches: vec![batch] }
    }

    fn push(&mut self, batch: Batch) {
        self.orders += batch.count;
        self.batches.push(batch);
    }

    fn names(&self, nth: u32) -> bool {
        self.batches.iter().any(|batch| batch.activity == nth)
    }
}

impl Call for OrderCall {
    fn orders(&self) -> usize {
        self.orders
    }

    fn weight(&self) -> usize {
        self.orders + ACTIVITY_WEIGHT * (self.batches.len() - 1)
    }

    /// The proxies of some clouds refuse scripts that compute which of their keys they use, and calls whose keys are
    /// not of one slot; they do so before the script runs.
    fn handles(&self, error: &StoreError) -> bool {
        let StoreError::Server { kind, why } = error else { return false };
        let is_refused = match kind {
            ServerKind::Other => why.starts_with("ERR ") && !why.contains("user_script"),
            ServerKind::CrossSlot => true,
            _ => false,
        };
        is_refused && self.batches.len() > 1
    }
}

impl SingleOrders {
    /// The next call: of an activity that has a full batch, or with `flush` of those of the oldest rows that wait.
    pub(crate) fn next_call(&mut self, states: &JobStates, lane: usize, flush: bool) -> Option<OrderCall> {
        while let Some(nth) = self.schedule.pop(lane) {
            self.queues[nth as usize].is_ready = false;
            if self.held_up.contains(&nth) {
                continue;
            }
            if let Some(batch) = self.take(states, nth) {
                return Some(OrderCall::new(batch));
            }
        }
        if !flush {
            return None;
        }
        let first = self.find_oldest(states, lane)?;
        let mut call = OrderCall::new(self.take(states, first)?);
        while let Some(nth) = self.find_oldest(states, lane) {
            let weight = call.weight() + ACTIVITY_WEIGHT + self.queues[nth as usize].waiting as usize;
            if weight > self.most_orders || call.names(nth) || !self.may_share(states, first, nth) {
                break;
            }
            call.push(self.take(states, nth)?);
        }
        Some(call)
    }

    /// Whether batches of these activities may be in one call: the one place that decides it.
    fn may_share(&self, states: &JobStates, one: u32, other: u32) -> bool {
        // A call to a shard may end before its last order.
        self.can_share && !states.is_shard(one) && !states.is_shard(other)
    }

    fn find_oldest(&mut self, states: &JobStates, lane: usize) -> Option<u32> {
        self.schedule.find_oldest(lane, states, &self.window, &self.held_up)
    }

    fn take(&mut self, states: &JobStates, nth: u32) -> Option<Batch> {
        let may_borrow = states.is_shard(nth) && self.operation.takes_units();
        let fewer = if may_borrow { states.fewer_than(nth) } else { None };
        // A hold has at least one unit; how many, the call says that ends before it.
        let borrows = |row: &Row| may_borrow && fewer.is_none_or(|fewer| u64::from(row.quantity.max(1)) < fewer);
        let batch = self.queues[nth as usize].take(nth, self.most_orders, &mut self.window, borrows);
        self.mark_ready(states, nth);
        batch
    }
}

impl SingleOrders {
    /// Reads the reply to one batch.
    pub(crate) fn reply_to_batch(
        &mut self,
        states: &mut JobStates,
        batch: Batch,
        value: &Value,
    ) -> Result<Verdict, StoreError> {
        let nth = batch.activity;
        let reply = Reply::of(self.operation.script(states.layout.kind()));
        match Decoded::decode(value, self.expected(&batch), &states.keys(nth), &reply)? {
            Decoded::Decided(batch_reply) => {
                if let Some(rest) = self.decided(states, &batch, batch_reply) {
                    self.held_up.insert(nth);
                    self.put_batch_back(states, &rest);
                    let quantity = u64::from(self.window.row(rest.first).quantity);
                    return Ok(Verdict::Short { nth, quantity });
                }
            }
            // A reset made it a sharded one, or gave it other shards.
            Decoded::Refused { status, .. }
                if status == Status::Sharded || status == Status::NotPreheated && states.is_shard(nth) =>
            {
                return Err(StoreError::Reset { activity: states.shown_name(nth).to_owned() });
            }
            Decoded::Refused { status, line, corrupt } => {
                self.refused(states, &batch, status, line);
                return Ok(Verdict::Decided(corrupt.into_iter().collect::<Vec<Corrupt>>()));
            }
            Decoded::Gap { line } => {
                let is_overtaking = self.queues[nth as usize].has_before(&batch);
                self.put_batch_back(states, &batch);
                let state = states.get_mut(nth);
                // An earlier batch was not decided, and waits again.
                if state.refusal.is_some() || is_overtaking {
                    return Ok(Verdict::Retry(None));
                }
                // The server has lost lines, or a batch before this one is still to be sent again.
                if line < state.watermark {
                    state.watermark = line;
                    return Ok(Verdict::Rewind { nth, line });
                }
                return Ok(Verdict::Retry(Some(reply.invalid(value))));
            }
            Decoded::OtherEpoch => {
                return Err(StoreError::Reset { activity: states.shown_name(nth).to_owned() });
            }
            Decoded::OtherJob => return Err(states.other_job(nth)),
        }
        Ok(Verdict::Decided(Vec::new()))
    }

    /// Reads the reply to batches that share a call, each as if it were alone; an error of one is returned once all are read.
    pub(crate) fn reply_to_all(
        &mut self,
        states: &mut JobStates,
        call: &OrderCall,
        value: &Value,
    ) -> Result<Vec<Verdict>, StoreError> {
        match value {
            Value::Array(values) if values.len() == call.batches.len() => {
                let replies = call.batches.iter().zip(values);
                let verdicts: Vec<_> =
                    replies.map(|(batch, value)| self.reply_to_batch(states, *batch, value)).collect();
                verdicts.into_iter().collect()
            }
            other => Err(Reply::of(self.operation.script(states.layout.kind())).invalid(other)),
        }
    }

    /// What the reply to a batch must fit.
    fn expected(&self, batch: &Batch) -> Expected {
        let (count, may_stop) = (batch.count, batch.borrows);
        Expected { operation: self.operation, count, may_stop, has_rows: self.has_rows }
    }

    /// The first orders of a batch, or all, were decided. Gives those that were not.
    fn decided(&mut self, states: &mut JobStates, batch: &Batch, reply: BatchReply) -> Option<Batch> {
        // What is left in a shard says little of the sale.
        let is_shard = states.is_shard(batch.activity);
        states.found_stock(batch.activity, reply.stock);
        let (mut stock, mut number, mut before) = (reply.stock, batch.first, batch.before);
        let count = batch.count - reply.orders.len();
        for OrderReply { status, takes_again, bought, quantity, deadline, user } in reply.orders {
            let row = self.window.row_mut(number);
            row.quantity = quantity.unwrap_or(row.quantity);
            if status == Status::Ok {
                stock = self.operation.stock_after(stock, row.quantity, takes_again);
            }
            row.state = State::Decided(status);
            before = row.line;
            let next = number + u64::from(row.next);
            let bought = bought.filter(|_| self.has_users && (user.is_some() || !self.operation.settles()));
            let hold = HoldDetails { deadline, user };
            self.window.set_details(number, Some(stock).filter(|_| !is_shard), bought, hold);
            number = next;
        }
        let state = states.get_mut(batch.activity);
        if count < batch.count {
            state.watermark = state.watermark.max(before);
        }
        state.refused = state.refused.max(u32::try_from(reply.refused).unwrap_or(u32::MAX));
        state.refused_now += u32::try_from(reply.refused_here).unwrap_or(u32::MAX);
        if count > 0
            && let Some(quantity) = reply.next_quantity
        {
            self.window.row_mut(number).quantity = quantity;
        }
        (count > 0).then_some(Batch { first: number, count, before, ..*batch })
    }

    /// The whole activity is refused, now and for the rest of the run. Lines up to the watermark were decided before.
    fn refused(&mut self, states: &mut JobStates, batch: &Batch, status: Status, watermark: u64) {
        each(batch, &mut self.window, |row: &mut Row| {
            row.state = State::Decided(if row.line <= watermark { Status::Replayed } else { status });
        });
        let state = states.get_mut(batch.activity);
        state.watermark = state.watermark.max(watermark);
        state.refusal = Some(status);
        self.queues[batch.activity as usize].refuse_all(status, &mut self.window);
    }
}
