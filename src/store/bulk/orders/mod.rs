//! Orders of one activity each. Those of one activity are sent in batches, in the order of the input; batches of one
//! activity may be in flight together, because the scripts refuse a gap. Small batches of several activities share a
//! call, which decides each of them by itself.

mod call;
mod decode;
mod encode;
mod queue;
mod schedule;
#[cfg(test)]
mod tests;
mod window;

use std::collections::{HashMap, HashSet, VecDeque};
use std::time::{Duration, Instant};

use redis::Value;

use super::job::JobStates;
use super::{HoldsWanted, Job, Limits, Operation, Orders, Run, Verdict};
use crate::inventory::hold::{HoldFor, HoldRecord};
use crate::inventory::interner::Interner;
use crate::inventory::layout::Kind;
use crate::inventory::number::Limit;
use crate::inventory::order::Corrupt;
use crate::inventory::status::Status;
use crate::inventory::time::Millis;
use crate::store::error::ServerKind;
use crate::store::pipeline::{Link, Pipeline};
use crate::store::reply::Reply;
use crate::store::scripts::{DEDUCT, HOLD, MIXED_ORDERS, REFUND, SETTLE, Script};
use crate::store::shards::MEMORY;
use crate::store::{Store, StoreError};
use call::OrderCall;
use decode::{Decoded, Packed, deadlines_of, decode_mixed, quantities_of};
use encode::Encoder;
use queue::{Batch, Queue, each};
use schedule::Schedule;
use window::{HoldDetails, Row, State, Window};

/// What is done with the orders of a file, and how.
#[derive(Debug, Clone)]
pub struct OrderOptions {
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

/// Rows whose shards are looked for at once.
const MOST_PLACED: usize = 1000;

/// The records of holds in a reply to HMGET; none of what is no hash.
fn records(reply: Value) -> Vec<Option<HoldRecord>> {
    let Value::Array(values) = reply else { return Vec::new() };
    let record = |value| match value {
        Value::BulkString(record) => HoldRecord::read(&record),
        _ => None,
    };
    values.into_iter().map(record).collect()
}

/// One order as the input has it.
#[derive(Debug, Clone, Copy)]
pub struct BulkOrder<'a> {
    /// The line where it begins; each is higher than the one before.
    pub line: u64,
    /// What is sold; a valid id.
    pub activity: &'a str,
    /// Who buys; empty if the layout records nobody.
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
pub struct DecidedOrder<'a> {
    /// The order.
    pub order: BulkOrder<'a>,
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
pub struct SingleOrders {
    script: &'static Script,
    encoder: Encoder,
    operation: Operation,
    has_users: bool,
    has_rows: bool,
    most_orders: usize,
    /// Whether batches may share a call: not if the run has what `mixed_orders` does not know, or if the server, or a
    /// proxy before it, refuses such calls.
    can_mix: bool,
    window: Window,
    /// By activity.
    queues: Vec<Queue>,
    schedule: Schedule,
    /// The last line that was popped.
    popped: u64,
    /// Rows of sharded activities that end holds, by number, of which nobody has looked yet in which shard the hold is.
    unplaced: VecDeque<u64>,
    /// Shards that need units before anything is sent there.
    held_up: HashSet<u32>,
    /// Sharded activities of which fewer units than this existed then.
    short: HashMap<u32, (u64, Instant)>,
}

impl Run<SingleOrders> {
    /// Loads the script. `names` are the activities that are known to come.
    ///
    /// # Errors
    /// Any of [`StoreError`].
    pub fn new(store: &mut Store, options: OrderOptions, names: Interner) -> Result<Self, StoreError> {
        let OrderOptions { operation, job, reason, limit, hold_for, has_rows, limits, retry_for } = options;
        let script = match operation {
            Operation::Refund => &REFUND,
            Operation::Hold => &HOLD,
            Operation::Confirm | Operation::Release => &SETTLE,
            Operation::Deduct | Operation::MultiDeduct => &DEDUCT,
        };
        let has_holds = operation == Operation::Hold || operation.settles();
        let kind = store.layout.kind();
        // `names` are all, unless the input was not read before.
        let has_several = kind == Kind::Hash && limit.is_none() && !store.operator.is_empty() && names.count() != 1;
        let has_several = has_several && matches!(operation, Operation::Deduct | Operation::Refund);
        let can_mix = has_several && can_load(store, &MIXED_ORDERS)?;
        let limit = limit.map(|limit| limit.to_string()).or(hold_for.map(|duration| duration.millis().to_string()));
        let limit = limit.unwrap_or_default();
        let run = [kind.name(), &store.operator, reason.as_deref().unwrap_or_default(), &limit];
        let orders = SingleOrders {
            script,
            encoder: Encoder::new(script, run, [&job.name, &job.digest], has_rows).settling(operation),
            can_mix,
            operation,
            has_users: kind.has_users(),
            has_rows,
            most_orders: limits.most_orders(),
            window: Window::new(has_rows).with_holds(has_rows && has_holds),
            queues: Vec::new(),
            schedule: Schedule::new(),
            popped: 0,
            unplaced: VecDeque::new(),
            held_up: HashSet::new(),
            short: HashMap::new(),
        };
        let states = JobStates::new(job, operation, store.layout, names);
        let more = can_mix.then_some(&MIXED_ORDERS);
        Self::open(store, script, more, (limits, retry_for), states, orders)
    }

    /// Adds an order.
    pub fn push(&mut self, order: &BulkOrder<'_>) {
        let nth = self.states.number(order.activity);
        let nth = if self.orders.operation.settles() { nth } else { self.states.home(nth, order.user.as_bytes()) };
        self.orders.push(&self.states, nth, order);
    }

    /// The first order, if it is decided.
    pub fn front(&self) -> Option<DecidedOrder<'_>> {
        let (row, status) = self.orders.window.front_decided()?;
        let [mut user, mut request, reason] =
            self.orders.window.texts(row).map(|text| std::str::from_utf8(text).unwrap_or_default());
        let hold = self.orders.window.front_hold();
        if self.orders.operation.settles() {
            (user, request) = (hold.map_or("", |hold| &hold.user), user);
        }
        let nth = self.states.parent(row.activity);
        let activity = self.states.name(nth);
        let order = BulkOrder { line: row.line, activity, user, quantity: row.quantity, request, reason };
        let [stock, bought] = self.orders.window.front_details();
        let deadline = hold.and_then(|hold| hold.deadline).map(Millis::new);
        Some(DecidedOrder { order, nth: nth as usize, status, stock, bought, deadline })
    }
}

/// Loads a script that a proxy may refuse, because it computes its keys; false if it does.
fn can_load(store: &mut Store, script: &Script) -> Result<bool, StoreError> {
    match store.servers.ask_any(redis::cmd("SCRIPT").arg("LOAD").arg(script.text)) {
        Ok(_) => Ok(true),
        Err(StoreError::Server { kind: ServerKind::Other, .. }) => Ok(false),
        Err(error) => Err(error),
    }
}

impl SingleOrders {
    fn push(&mut self, states: &JobStates, nth: u32, order: &BulkOrder<'_>) {
        self.queues.resize_with(states.count(), Queue::new);
        let number = match self.operation {
            // A hold is settled by its id, so each has one.
            Operation::Hold if order.request.is_empty() => {
                let request = format!("{}:{}", states.job.name, order.line);
                self.window.push(order.line, nth, order.quantity, [order.user, &request, order.reason])
            }
            Operation::Confirm | Operation::Release => {
                self.window.push(order.line, nth, order.quantity, [order.request, "", order.reason])
            }
            _ => self.window.push(order.line, nth, order.quantity, [order.user, order.request, order.reason]),
        };
        // Reasons of their own are for the one-activity scripts, and so are shards.
        self.queues[nth as usize].is_alone |= !order.reason.is_empty() || states.is_shard(nth);
        self.encoder.has_requests |= !order.request.is_empty();
        if self.operation.settles() && states.is_sharded(nth) {
            self.window.row_mut(number).state = State::Sent;
            self.unplaced.push_back(number);
            return;
        }
        self.enqueue(states, nth, number);
    }

    /// Puts a new row into the queue of its activity, or decides it.
    fn enqueue(&mut self, states: &JobStates, nth: u32, number: u64) {
        let (state, queue) = (states.get(nth), &mut self.queues[nth as usize]);
        let line = self.window.row(number).line;
        // Rows that will be shown are sent again for their stock and units, not because they must be.
        let is_decided = line <= state.watermark && (!self.has_rows || line <= self.popped);
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

    /// The first orders of a batch, or all, were decided. Gives those that were not.
    fn decided(
        &mut self,
        states: &mut JobStates,
        batch: &Batch,
        packed: &mut Packed<'_>,
        users: Vec<String>,
    ) -> Option<Batch> {
        // What is left in a shard says little of the sale.
        let is_shard = states.is_shard(batch.activity);
        let (mut stock, mut refused, mut last) = (packed.stock, 0_u32, 0);
        let (operation, has_users) = (self.operation, self.has_users);
        let extra = if operation == Operation::Hold || operation.settles() { packed.split_extra() } else { None };
        let mut quantities = extra.filter(|_| operation.settles()).map(quantities_of);
        let mut deadlines = extra.filter(|_| operation == Operation::Hold).map(deadlines_of);
        let mut users = users.into_iter();
        let mut number = batch.first;
        for (status, takes_again, bought) in packed.orders() {
            let row = self.window.row_mut(number);
            if let Some(quantities) = &mut quantities {
                row.quantity = quantities.next().unwrap_or_default();
            }
            if status == Status::Ok {
                let quantity = u64::from(row.quantity);
                stock = match operation {
                    Operation::Refund | Operation::Release => stock.saturating_add(quantity),
                    Operation::Confirm if !takes_again => stock,
                    _ => stock.saturating_sub(quantity),
                };
            }
            refused += u32::from(!status.is_done());
            row.state = State::Decided(status);
            last = row.line;
            let next = number + u64::from(row.next);
            let deadline = deadlines.as_mut().and_then(Iterator::next).flatten();
            let user = users.next().unwrap_or_default();
            // Nobody has a hold that does not exist.
            let bought = bought.filter(|_| has_users && !(operation.settles() && user.is_empty()));
            self.window.set_details(number, Some(stock).filter(|_| !is_shard), bought);
            if deadline.is_some() || !user.is_empty() {
                self.window.set_hold(number, HoldDetails { deadline, user });
            }
            number = next;
        }
        let state = states.get_mut(batch.activity);
        state.watermark = state.watermark.max(last);
        state.refused = state.refused.max(u32::try_from(packed.refused).unwrap_or(u32::MAX));
        state.refused_now += refused;
        let count = batch.count - packed.count();
        let before = if packed.count() > 0 { last } else { batch.before };
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

impl SingleOrders {
    /// Reads the reply to one batch of `deduct` or `refund`.
    fn reply_alone(&mut self, states: &mut JobStates, batch: Batch, value: &Value) -> Result<Verdict, StoreError> {
        let nth = batch.activity;
        let reply = Reply::of(self.script);
        match Decoded::decode(value, (batch.count, batch.borrows), &states.keys(nth), &reply)? {
            Decoded::Decided(mut packed) => {
                let users =
                    if self.operation.settles() && self.has_rows { packed.split_users() } else { Some(Vec::new()) };
                let users = users.ok_or_else(|| reply.invalid(value))?;
                if let Some(rest) = self.decided(states, &batch, &mut packed, users) {
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

    /// Reads the reply to batches that share a call. Those that it left alone are sent again, each in a call of its own.
    fn reply_mixed(&mut self, states: &mut JobStates, call: &OrderCall, value: &Value) -> Result<Verdict, StoreError> {
        let mut replies = decode_mixed(value, call.batches.iter().map(|batch| batch.count))?;
        let mut is_left = false;
        for (batch, packed) in call.batches.iter().zip(&mut replies) {
            match packed {
                Some(packed) => drop(self.decided(states, batch, packed, Vec::new())),
                None => {
                    is_left = true;
                    self.queues[batch.activity as usize].is_alone = true;
                    self.put_batch_back(states, batch);
                }
            }
        }
        // What is left must not be overtaken by batches of the same activity that are in flight.
        Ok(if is_left { Verdict::Retry(None) } else { Verdict::Decided(Vec::new()) })
    }

    /// A row that waits under the name of a sharded activity goes to a shard of it.
    fn move_row(&mut self, states: &JobStates, number: u64, shard: u32) {
        let row = self.window.row_mut(number);
        (row.activity, row.next, row.state) = (shard, 0, State::Waiting);
        self.schedule.put_back(states.lane(shard), number);
        self.enqueue(states, shard, number);
    }

    /// Of a shard: fewer units than this exist in the whole activity, as was proved a moment ago.
    fn fewer_than(&self, states: &JobStates, nth: u32) -> Option<u64> {
        let (fewer, when) = self.short.get(&states.parent(nth))?;
        (when.elapsed() < MEMORY).then_some(*fewer)
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
        self.schedule.is_hungry() && !self.window.is_full() && self.unplaced.len() < MOST_PLACED
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

    fn reply(&mut self, states: &mut JobStates, call: OrderCall, value: Value) -> Result<Verdict, StoreError> {
        if let Value::ServerError(_) = value {
            // See `OrderCall::handles`.
            self.can_mix = false;
            self.put_back(states, call, false);
            return Ok(Verdict::Retry(None));
        }
        match call.batches[..] {
            [batch] => self.reply_alone(states, batch, &value),
            _ => self.reply_mixed(states, &call, &value),
        }
    }

    fn put_back(&mut self, states: &JobStates, call: OrderCall, _may_have_run: bool) {
        call.batches.iter().for_each(|batch| self.put_batch_back(states, batch));
    }

    fn is_decided(&self) -> bool {
        self.window.front_decided().is_some()
    }

    fn pop(&mut self) {
        if let Some(line) = self.window.pop() {
            self.popped = self.popped.max(line);
        }
    }

    fn split(&mut self, states: &JobStates, parent: u32) {
        self.queues.resize_with(states.count(), Queue::new);
        let is_alone = self.queues[parent as usize].is_alone;
        self.queues[parent as usize] = Queue::new();
        for shard in states.shards(parent) {
            self.queues[*shard as usize].is_alone = true;
        }
        let (first, end) = self.window.span();
        for number in first..end {
            let row = self.window.row(number);
            if row.activity != parent || row.state != State::Waiting {
                continue;
            }
            if self.operation.settles() {
                self.queues[parent as usize].is_alone |= is_alone;
                self.window.row_mut(number).state = State::Sent;
                self.unplaced.push_back(number);
            } else {
                let [user, ..] = self.window.texts(row);
                let shard = states.home(parent, user);
                self.move_row(states, number, shard);
            }
        }
    }

    fn wanted_holds(&self, states: &JobStates) -> Option<HoldsWanted> {
        let first = self.unplaced.front()?;
        let parent = self.window.row(*first).activity;
        let rows = self.unplaced.iter().take(MOST_PLACED).map(|number| self.window.row(*number));
        let rows: Vec<&Row> = rows.take_while(|row| row.activity == parent).collect();
        let commands = states.shards(parent).iter().map(|shard| {
            let keys = states.keys(*shard);
            let mut command = redis::cmd("HMGET");
            command.arg(&keys.requests);
            for row in &rows {
                let [request, ..] = self.window.texts(row);
                command.arg([b"\th:", request].concat());
            }
            (keys.slot(), keys.requests, command)
        });
        Some(HoldsWanted { count: rows.len(), commands: commands.collect() })
    }

    fn place_holds(&mut self, states: &JobStates, wanted: &HoldsWanted, replies: Vec<Value>) {
        let found: Vec<Vec<Option<HoldRecord>>> = replies.into_iter().map(records).collect();
        for nth in 0..wanted.count {
            let Some(number) = self.unplaced.pop_front() else { return };
            let row = self.window.row(number);
            let shards = states.shards(row.activity);
            let held = found.iter().enumerate().find_map(|(place, records)| {
                let record = records.get(nth)?.as_ref()?;
                Some((place, u32::try_from(record.quantity).unwrap_or(u32::MAX)))
            });
            // What nobody holds is for one shard to say, always the same.
            let [request, ..] = self.window.texts(row);
            let (shard, quantity) = match held {
                Some((place, quantity)) => (shards[place], quantity),
                None => (states.home(row.activity, request), 0),
            };
            self.window.row_mut(number).quantity = quantity;
            self.move_row(states, number, shard);
        }
    }

    fn is_short(&mut self, states: &JobStates, nth: u32, quantity: u64) {
        self.short.insert(states.parent(nth), (quantity, Instant::now()));
    }

    fn release(&mut self, states: &JobStates, nth: u32) {
        self.held_up.remove(&nth);
        if let Some(first) = self.queues[nth as usize].first_waiting() {
            self.schedule.put_back(states.lane(nth), first);
            self.mark_ready(states, nth);
        }
    }

    fn restart(&mut self, states: &mut JobStates) {
        self.unplaced.clear();
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
        self.can_mix = false;
        self.use_lanes(states);
        for nth in 0..states.count_u32() {
            self.queues[nth as usize].is_ready = false;
            self.mark_ready(states, nth);
        }
    }
}
