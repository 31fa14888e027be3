//! Orders that wait, are in flight or are decided. Those of one activity are sent in batches, in the order of the input;
//! batches of one activity may be in flight together, because the scripts refuse a gap. Small batches of several activities
//! share a call, which decides each of them by itself. An activity with a full batch has a call of its own, the others
//! share one. Multi-orders, whose items are rows of the same line, have calls that decide whole orders (`multi.rs`).

mod decode;
mod encode;
mod multi;
mod queue;
mod reply;
#[cfg(test)]
mod tests;
mod window;

use std::collections::{HashSet, VecDeque};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use redis::Value;

use crate::error::{Result, ServerKind, StoreError};
use crate::model::id::StoredUser;
use crate::model::id::interner::Interner;
use crate::model::number::Limit;
use crate::model::order::Bought;
use crate::model::order::hold::HoldFor;
use crate::model::status::Status;
use crate::model::time::Millis;
use crate::redis::pipeline::{Pipeline, PipelinedCall};
use crate::script::keys::Keys;
use crate::sell::bulk::job::JobStates;
use crate::sell::bulk::lanes::Lanes;
use crate::sell::bulk::orders::encode::Encoder;
use crate::sell::bulk::orders::multi::MultiSchedule;
pub(crate) use crate::sell::bulk::orders::multi::status_of_items;
use crate::sell::bulk::orders::queue::{Batch, Queue, Schedule, each};
use crate::sell::bulk::orders::window::{Row, State, Window};
use crate::sell::bulk::{Job, Limits, Operation, Run, Verdict};
use crate::store::Store;

/// What is done with the orders of a file, and how.
#[derive(Debug, Clone)]
pub(crate) struct OrderOptions {
    /// What is done.
    pub operation: Operation,
    /// Which job it is.
    pub job: Job,
    /// Why, for the ledger, unless an order says it itself.
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

/// One order, or one item of a multi-order, and how it ended.
#[derive(Debug)]
pub(crate) struct DecidedOrder<'a> {
    /// The line where it begins.
    pub line: u64,
    /// What is sold.
    pub activity: &'a str,
    /// Who buys; empty if the layout records nobody, or if the order ended a hold.
    pub user: &'a str,
    /// How many units; 0 if the order ends a hold, and no reply said how many it has.
    pub quantity: u32,
    /// Its own request id, or empty.
    pub request: &'a str,
    /// Whose hold it ended, now or before; `None` if there is no such hold, or if rows are not wanted.
    pub hold_user: Option<&'a StoredUser>,
    /// Which activity it is, counted from 0 in the order in which they were named first.
    pub index: usize,
    /// How it ended.
    pub status: Status,
    /// Units left after it.
    pub stock: Option<u64>,
    /// Units the user holds after it.
    pub bought: Option<Bought>,
    /// The deadline of the hold that it made, now or before; `None` if that was returned, or if rows are not wanted.
    pub deadline: Option<Millis>,
}

/// Orders, from the first that was not popped.
pub(crate) struct JobOrders {
    pub(super) states: JobStates,
    encoder: Encoder,
    has_rows: bool,
    most_orders: usize,
    /// Whether batches may share a call: not if the server, or a proxy before it, refuses such calls. On a cluster
    /// multi-orders share one only with those of the same slot.
    can_share: bool,
    window: Window,
    /// By activity.
    queues: Vec<Queue>,
    schedule: Schedule,
    /// The last line that was popped.
    popped: u64,
    /// Shards that need units before anything is sent there.
    held_up: HashSet<u32>,
    /// How many units an order needs there that the stock does not cover. They get them when no other order can be sent: what is in
    /// stock is sold where it is first, which takes fewest transfers.
    pub(super) shorts: VecDeque<(u32, u64)>,
    multi: MultiSchedule,
    /// For multi-orders over several slots, and for what borrows units of other shards.
    pub(super) store: Store,
}

impl Run {
    /// Loads the script. `names` are the activities that are known to come. The run takes the store's connections over; the store makes
    /// others if it is asked again.
    ///
    /// # Errors
    /// Any of [`StoreError`].
    pub(crate) fn new(store: &mut Store, options: OrderOptions, names: Interner) -> Result<Self> {
        let OrderOptions { operation, job, reason, limit, hold_for, has_rows, limits, retry_for } = options;
        let kind = store.layout.kind();
        let has_limit = limit.is_some();
        let limit = limit.map(|limit| limit.to_string()).or(hold_for.map(|duration| duration.millis().to_string()));
        let limit = limit.unwrap_or_default();
        let run = [&store.operator, reason.as_deref().unwrap_or_default(), &limit];
        let states = JobStates::new(job, operation, store.layout, names, store.servers.system());
        let mut orders = JobOrders {
            encoder: Encoder::new(operation, kind, run, [&states.job.name, states.expected_digest()], has_rows),
            states,
            // A call ends at the first activity whose limit is another one, when others before it are decided.
            can_share: operation.may_share() && !has_limit,
            has_rows,
            most_orders: limits.orders,
            window: Window::new(has_rows, has_rows && operation.has_holds()),
            queues: Vec::new(),
            schedule: Schedule::new(),
            popped: 0,
            held_up: HashSet::new(),
            shorts: VecDeque::new(),
            multi: MultiSchedule::default(),
            store: store.unconnected_copy(),
        };
        // Whether multi-orders may be of several slots must be known before the first is sent. For others a single server says what it
        // is when it is asked for watermarks.
        if operation == Operation::MultiDeduct && Keys::slots(store.layout) == 1 || store.servers.is_cluster() {
            store.servers.discover()?;
        }
        let script = operation.script(kind);
        store.servers.ask_any(redis::cmd("SCRIPT").arg("LOAD").arg(script.text))?;
        let mut servers = store.servers.take();
        for servers in [&mut servers, &mut orders.store.servers] {
            servers.patience = Some(retry_for);
            servers.stop = Some(Arc::clone(&store.stop));
        }
        let node = servers.primaries().first().copied().unwrap_or(0);
        let pipeline = Pipeline::new(servers.node(node).take(), script, limits, retry_for);
        let lanes = Lanes::new(servers, node, pipeline);
        let (known_corrupt, corrupt) = (HashSet::new(), VecDeque::new());
        Ok(Self { orders, lanes, known_corrupt, corrupt, check: None, retry_for })
    }

    /// Adds an order, with activities and quantities, and with user, request id and reason; each text may be empty. The line is
    /// higher than the one before. Only a multi-order has several items.
    ///
    /// # Errors
    /// It has no user, and its activity is sharded.
    pub(crate) fn push<'i>(
        &mut self,
        line: u64,
        items: impl IntoIterator<Item = (&'i str, u64)>,
        texts: [&str; 3],
    ) -> Result<()> {
        let orders = &mut self.orders;
        // At most a thousand million.
        let count = |quantity: u64| u32::try_from(quantity).unwrap_or(u32::MAX);
        if orders.is_multi() {
            let numbered = |(activity, quantity)| (orders.states.number(activity), count(quantity));
            let items: Vec<(u32, u32)> = items.into_iter().map(numbered).collect();
            orders.push_multi(line, &items, texts);
            return Ok(());
        }
        for (activity, quantity) in items {
            let index = orders.states.number(activity);
            let index = orders.states.home(index, texts[0].as_bytes(), line)?;
            orders.push(index, (line, count(quantity)), texts);
        }
        Ok(())
    }

    /// Whether another order can be pushed, and is of use before [`advance`](Self::advance).
    pub(crate) fn accepts_more(&self) -> bool {
        let JobOrders { multi, schedule, most_orders, .. } = &self.orders;
        let is_hungry = if self.orders.is_multi() { multi.is_hungry(*most_orders) } else { schedule.is_hungry() };
        is_hungry && !self.is_full()
    }

    /// Whether no order can be pushed before some are popped.
    pub(crate) fn is_full(&self) -> bool {
        self.orders.window.is_full()
    }

    /// Whether no order is left.
    pub(crate) fn is_empty(&self) -> bool {
        self.orders.window.is_empty()
    }

    /// Removes the first order.
    pub(crate) fn pop(&mut self) {
        let JobOrders { window, popped, .. } = &mut self.orders;
        for _ in window.order(window.span().0) {
            *popped = (*popped).max(window.pop().unwrap_or_default());
        }
    }

    /// Removes the orders before the first decided one; false if none is. For a run that ends early.
    pub(crate) fn skip_undecided(&mut self) -> bool {
        while !self.is_empty() && self.front().is_none() {
            self.pop();
        }
        !self.is_empty()
    }

    /// The first order, if it is decided; of a multi-order its first item.
    pub(crate) fn front(&self) -> Option<DecidedOrder<'_>> {
        self.front_items().next()
    }

    /// All items of the first order; none if it is not decided.
    pub(crate) fn front_items(&self) -> impl Iterator<Item = DecidedOrder<'_>> {
        let JobOrders { window, states, .. } = &self.orders;
        window.order(window.span().0).filter_map(|number| {
            let (status, row) = (window.status(number)?, window.row(number));
            let (stock, bought, hold) = window.details(number);
            let [first, second, _] = window.texts(row).map(|text| std::str::from_utf8(text).unwrap_or_default());
            let [user, request] = states.operation.columns([first, second]);
            let index = states.parent(row.activity);
            Some(DecidedOrder {
                line: row.line,
                activity: states.name(index),
                user,
                quantity: row.quantity,
                request,
                hold_user: hold.and_then(|hold| hold.user.as_ref()),
                index: index as usize,
                status,
                stock,
                bought,
                deadline: hold.and_then(|hold| hold.deadline).map(Millis::new),
            })
        })
    }

    /// The id that an order is named by: its own, or one made of its line.
    pub(crate) fn request_of(&self, order: &DecidedOrder<'_>) -> String {
        request_of(&self.orders.states.job, order.line, order.request)
    }
}

fn request_of(job: &Job, line: u64, own: &str) -> String {
    if own.is_empty() { format!("{}:{line}", job.name) } else { own.to_owned() }
}

impl JobOrders {
    fn push(&mut self, index: u32, (line, quantity): (u64, u32), [user, request, reason]: [&str; 3]) {
        self.queues.resize_with(self.states.count(), Queue::new);
        // A hold is settled by its id, so each has one.
        let own = (self.states.operation == Operation::Hold && request.is_empty())
            .then(|| request_of(&self.states.job, line, ""));
        let [first, second] = self.states.operation.columns([user, own.as_deref().unwrap_or(request)]);
        let number = self.window.push(line, index, quantity, [first, second, reason]);
        self.encoder.has_requests |= !request.is_empty();
        self.enqueue(index, number);
    }

    /// Puts a new row into the queue of its activity, or decides it.
    fn enqueue(&mut self, index: u32, number: u64) {
        let (state, queue) = (self.states.get(index), &mut self.queues[index as usize]);
        let line = self.window.row(number).line;
        // Rows that will be shown are sent again for their stock and units, and those with an id because a repair may have taken
        // them back.
        let may_be_reversed = state.is_repaired && (self.encoder.has_requests || self.states.operation.has_holds());
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
                self.mark_ready(index);
            }
        }
    }

    fn mark_ready(&mut self, index: u32) {
        let queue = &mut self.queues[index as usize];
        if queue.waiting as usize >= self.most_orders && !queue.is_ready && !self.held_up.contains(&index) {
            queue.is_ready = true;
            self.schedule.push(self.states.lane(index), index);
        }
    }

    /// Says which lanes have activities.
    fn use_lanes(&mut self) {
        (0..self.states.count_u32()).for_each(|index| self.schedule.use_lane(self.states.lane(index)));
    }

    fn put_batch_back(&mut self, batch: &Batch) {
        if let Some(status) = self.states.get(batch.activity).refusal {
            each(batch, &mut self.window, |row| row.state = State::Decided(status));
            return;
        }
        self.queues[batch.activity as usize].put_back(batch, &mut self.window);
        self.schedule.put_back(self.states.lane(batch.activity), batch.first);
        self.mark_ready(batch.activity);
    }
}

impl JobOrders {
    fn is_multi(&self) -> bool {
        self.states.operation == Operation::MultiDeduct
    }

    /// Whether there is a call that may be sent on a lane now. `flush`: one that is not full too. `is_sent`: whether a call in flight
    /// names an activity.
    pub(crate) fn wants_to_send(&mut self, lane: usize, flush: bool, is_sent: impl Fn(u32) -> bool) -> bool {
        if self.is_multi() {
            return self.has_multi_call(lane, flush, is_sent);
        }
        self.schedule.has_ready(lane) || (flush && self.find_oldest(lane).is_some())
    }

    /// Pushes calls to the pipeline of a lane while its buffer has room.
    pub(crate) fn send(&mut self, lane: usize, pipeline: &mut Pipeline<OrderCall>, flush: bool) {
        while pipeline.buffer_has_room() {
            let Some(call) = self.next_call(lane, flush) else { break };
            let asks = call.batches.iter().any(|batch| self.states.asks(batch.activity));
            pipeline.push(call, asks, |out, call| self.encoder.encode(out, &call.batches, &self.states, &self.window));
        }
    }

    /// Reads the reply to a call: what it means for each activity that has orders of its own in it.
    ///
    /// # Errors
    /// The run must end.
    pub(crate) fn reply(&mut self, call: OrderCall, value: Value) -> Result<Vec<Verdict>> {
        if let Value::ServerError(error) = value {
            // See `OrderCall::handles`.
            if let ([batch], StoreError::OtherLimit { limit, .. }) =
                (&call.batches[..], StoreError::of_reply(&error.into(), ""))
            {
                return Err(StoreError::OtherLimit {
                    activity: Some(self.states.shown_name(batch.activity).to_owned()),
                    limit,
                });
            }
            self.can_share = false;
            self.put_back(call);
            return Ok(vec![Verdict::Retry(None)]);
        }
        match call.batches[..] {
            _ if self.is_multi() => self.reply_to_multi(&call, &value).map(|verdict| vec![verdict]),
            [batch] => Ok(vec![self.reply_to_batch(batch, &value)?]),
            _ => self.reply_to_all(&call, &value),
        }
    }

    /// The orders of a call wait again.
    pub(crate) fn put_back(&mut self, call: OrderCall) {
        match self.is_multi() {
            true => self.put_multi_back(&call),
            false => call.batches.iter().for_each(|batch| self.put_batch_back(batch)),
        }
    }

    /// An activity is known to be sharded now: its orders that wait go to the shards. A multi-order has none there.
    ///
    /// # Errors
    /// An order has no user whose home it could go to.
    pub(crate) fn split(&mut self, parent: u32) -> Result<()> {
        if self.is_multi() {
            return Ok(());
        }
        self.queues.resize_with(self.states.count(), Queue::new);
        self.queues[parent as usize] = Queue::new();
        let (first, end) = self.window.span();
        for number in first..end {
            let row = self.window.row(number);
            if row.activity != parent || row.state != State::Waiting {
                continue;
            }
            let [first, second, _] = self.window.texts(row);
            let [user, _] = self.states.operation.columns([first, second]);
            let shard = self.states.home(parent, user, row.line)?;
            let row = self.window.row_mut(number);
            (row.activity, row.next, row.state) = (shard, 0, State::Waiting);
            self.schedule.put_back(self.states.lane(shard), number);
            self.enqueue(shard, number);
        }
        Ok(())
    }

    /// The orders of a shard that was short may be sent again.
    pub(crate) fn release(&mut self, index: u32) {
        self.held_up.remove(&index);
        if let Some(first) = self.queues[index as usize].first_waiting() {
            self.schedule.put_back(self.states.lane(index), first);
            self.mark_ready(index);
        }
    }

    /// Removes all orders, because the input is read again from its beginning.
    pub(crate) fn restart(&mut self) {
        self.held_up.clear();
        self.shorts.clear();
        self.window.clear();
        self.schedule.clear(self.schedule.count());
        self.queues.iter_mut().for_each(|queue| *queue = Queue::new());
        self.use_lanes();
        if self.is_multi() {
            self.multi = MultiSchedule::default();
            // All is sent again, so that nothing is known of what the server decided.
            self.states.iter_mut().for_each(|state| state.watermark = 0);
        }
    }

    /// Takes note that the activities of a cluster were distributed to this many lanes.
    pub(crate) fn distributed(&mut self, lanes: usize) {
        self.queues.resize_with(self.states.count(), Queue::new);
        self.schedule.clear(lanes);
        // Batches of several slots may not share a call.
        self.can_share = false;
        self.dissolve_ready();
        self.use_lanes();
        for index in 0..self.states.count_u32() {
            self.queues[index as usize].is_ready = false;
            self.mark_ready(index);
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
    /// Of multi-orders: all their rows, one after the other.
    rows: Range<u64>,
}

impl OrderCall {
    fn new(batch: Batch) -> Self {
        Self { orders: batch.count, batches: vec![batch], rows: 0..0 }
    }

    fn push(&mut self, batch: Batch) {
        self.orders += batch.count;
        self.batches.push(batch);
    }

    pub(super) fn names(&self, index: u32) -> bool {
        self.batches.iter().any(|batch| batch.activity == index)
    }
}

impl PipelinedCall for OrderCall {
    fn orders(&self) -> usize {
        self.orders
    }

    fn weight(&self) -> usize {
        match self.rows.is_empty() {
            true => self.orders + ACTIVITY_WEIGHT * (self.batches.len() - 1),
            false => self.multi_weight(),
        }
    }

    /// The proxies of some clouds refuse scripts that compute which of their keys they use, and calls whose keys are
    /// not of one slot; they do so before the script runs. An activity whose limit is another one is to be named.
    fn handles(&self, error: &StoreError) -> bool {
        let (kind, why) = match error {
            StoreError::OtherLimit { .. } => return true,
            StoreError::Server { kind, why } => (kind, why),
            _ => return false,
        };
        let is_refused = match kind {
            ServerKind::Other => why.starts_with("ERR ") && !why.contains("user_script"),
            ServerKind::CrossSlot => true,
            _ => false,
        };
        is_refused && self.batches.len() > 1 && self.rows.is_empty()
    }
}

impl JobOrders {
    /// The next call: of an activity that has a full batch, or with `flush` of those of the oldest rows that wait.
    pub(crate) fn next_call(&mut self, lane: usize, flush: bool) -> Option<OrderCall> {
        if self.is_multi() {
            return self.next_multi_call();
        }
        while let Some(index) = self.schedule.pop(lane) {
            self.queues[index as usize].is_ready = false;
            if self.held_up.contains(&index) {
                continue;
            }
            if let Some(batch) = self.take(index) {
                return Some(OrderCall::new(batch));
            }
        }
        if !flush {
            return None;
        }
        let first = self.find_oldest(lane)?;
        let mut call = OrderCall::new(self.take(first)?);
        while let Some(index) = self.find_oldest(lane) {
            let weight = call.weight() + ACTIVITY_WEIGHT + self.queues[index as usize].waiting as usize;
            if weight > self.most_orders || call.names(index) || !self.may_share(first, index) {
                break;
            }
            call.push(self.take(index)?);
        }
        Some(call)
    }

    /// Whether batches of these activities may be in one call: the one place that decides it.
    fn may_share(&self, one: u32, other: u32) -> bool {
        // A call to a shard may end before its last order.
        self.can_share && !self.states.is_shard(one) && !self.states.is_shard(other)
    }

    /// The activity of the oldest row that waits for a lane, other than those that are held up.
    fn find_oldest(&mut self, lane: usize) -> Option<u32> {
        let is_only = self.schedule.count() == 1;
        let (first, end) = self.window.span();
        let oldest = &mut self.schedule.lane(lane).oldest;
        *oldest = (*oldest).max(first);
        while *oldest < end {
            let row = self.window.row(*oldest);
            let is_here = row.state == State::Waiting && (is_only || self.states.lane(row.activity) == lane);
            if is_here && (self.held_up.is_empty() || !self.held_up.contains(&row.activity)) {
                return Some(row.activity);
            }
            *oldest += 1;
        }
        None
    }

    fn take(&mut self, index: u32) -> Option<Batch> {
        let may_borrow = self.states.is_shard(index) && self.states.operation.takes_units();
        let fewer = if may_borrow { self.states.fewer_than(index) } else { None };
        // A hold has at least one unit; how many, the call says that ends before it.
        let borrows = |row: &Row| may_borrow && fewer.is_none_or(|fewer| u64::from(row.quantity.max(1)) < fewer);
        let batch = self.queues[index as usize].take(index, self.most_orders, &mut self.window, borrows);
        self.mark_ready(index);
        batch
    }
}
