//! Orders of several activities each, all or nothing: several of them a call.
//!
//! Orders of an activity are decided there in the order of the input, in every run of the job, and the watermark says
//! what the job has decided there. Several calls that name an activity may be in flight together: each says which line
//! must have been decided there before it, and the script refuses a call as a whole if that is not so in one of its
//! activities. So none overtakes a call that failed.

mod call;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use redis::Value;

use crate::error::StoreError;
use crate::model::id::interner::Interner;
use crate::model::layout::Kind;
use crate::model::number::whole;
use crate::model::order::{Bought, Corrupt, Items, MultiOrder, MultiOutcome, Outcome};
use crate::model::status::Status;
use crate::model::status::call_code::{GAP, OTHER_EPOCH, OTHER_JOB};
use crate::redis::pipeline::{Link, Pipeline};
use crate::script::keys::Keys;
use crate::script::reply::{Reply, corrupt};
use crate::sell::bulk::columns::status_of;
use crate::sell::bulk::job::JobStates;
use crate::sell::bulk::multi::call::MultiCall;
use crate::sell::bulk::{Job, Limits, Operation, Orders, Run, Verdict};
use crate::sell::multi_orders;
use crate::sell::multi_orders::bought;
use crate::store::Store;

/// One order of the input.
#[derive(Debug)]
pub(crate) struct BulkMultiOrder {
    /// The line where it begins.
    pub line: u64,
    /// The order.
    pub order: MultiOrder,
    /// Whether the order came with its request id; else that only names it, and watermarks settle it.
    pub has_request: bool,
    /// Its activities by number, in the order of its items; [`Run::push`] fills them in.
    pub activities: Arc<[u32]>,
}

/// One order, and how it ended.
#[derive(Debug)]
pub(crate) struct DecidedMultiOrder<'a> {
    /// The order.
    pub order: &'a BulkMultiOrder,
    /// How it ended.
    pub outcome: &'a MultiOutcome,
}

#[derive(Debug)]
enum State {
    Waiting,
    Sent,
    Decided(MultiOutcome),
}

/// What all calls of a run have in common.
#[derive(Debug)]
struct MultiOptions {
    kind: Kind,
    operator: String,
    has_users: bool,
    /// Whether replies say what users hold.
    has_rows: bool,
}

/// Multi-orders, from the first that was not popped.
pub(crate) struct MultiOrders {
    options: MultiOptions,
    /// What a call may cost, in items.
    most_cost: usize,
    rows: VecDeque<(BulkMultiOrder, State)>,
    /// The items of the order that came last, and their activities: most orders share them.
    last: (Items, Arc<[u32]>),
    /// The number of the first.
    first: u64,
    /// The number of the first order that is in no call yet, and how many items wait from there on.
    next: u64,
    waiting: usize,
    /// The next call, formed while others are in flight.
    ready: Option<MultiCall>,
    /// Whether a call must be of one slot: on a cluster.
    has_one_slot: bool,
    /// For orders over several slots.
    store: Store,
}

impl Run<MultiOrders> {
    /// Loads the script. `has_rows`: outcomes say what users hold. `names` are the activities that are known to come.
    ///
    /// # Errors
    /// Any of [`StoreError`].
    pub(crate) fn new(
        store: &mut Store,
        job: Job,
        limits: Limits,
        retry_for: Duration,
        has_rows: bool,
        names: Interner,
    ) -> Result<Self, StoreError> {
        let orders = MultiOrders {
            options: MultiOptions {
                kind: store.layout.kind(),
                operator: store.operator.clone(),
                has_users: store.layout.kind().has_users(),
                has_rows,
            },
            most_cost: limits.most_orders(),
            rows: VecDeque::new(),
            last: (Arc::default(), Arc::default()),
            first: 0,
            next: 0,
            waiting: 0,
            ready: None,
            has_one_slot: false,
            store: store.unconnected_copy(),
        };
        let states = JobStates::new(job, Operation::MultiDeduct, store.layout, names, store.servers.system());
        // Whether orders may be of several slots must be known before the first is sent.
        if Keys::slots(store.layout) == 1 {
            store.servers.discover()?;
        }
        Self::open(store, (limits, retry_for), states, orders)
    }

    /// Adds an order.
    pub(crate) fn push(&mut self, mut order: BulkMultiOrder) {
        let items = &order.order.items;
        if !Arc::ptr_eq(items, &self.orders.last.0) {
            let activities = items.iter().map(|(activity, _)| self.states.number(activity.as_str()));
            self.orders.last = (Arc::clone(items), activities.collect());
        }
        order.activities = Arc::clone(&self.orders.last.1);
        self.orders.waiting += items.len();
        self.orders.rows.push_back((order, State::Waiting));
    }

    /// The first order, if it is decided.
    pub(crate) fn front(&self) -> Option<DecidedMultiOrder<'_>> {
        match self.orders.rows.front()? {
            (order, State::Decided(outcome)) => Some(DecidedMultiOrder { order, outcome }),
            _ => None,
        }
    }
}

impl MultiOrders {
    /// Each order of a call is decided, except that in activities that refuse as a whole the watermark has not moved.
    fn decided(&mut self, states: &mut JobStates, call: &MultiCall, decoded: Vec<DecodedColumn>) {
        let from = self.index(call.first);
        for (column, decoded) in call.columns.iter().zip(&decoded) {
            let state = states.get_mut(column.nth);
            state.refusal = state.refusal.or(decoded.refusal);
            state.refused = state.refused.max(u32::try_from(decoded.refused).unwrap_or(u32::MAX));
            if decoded.refusal.is_none() {
                state.watermark = state.watermark.max(column.last);
            }
        }
        // Of each activity: the stock so far, and the number of its next item.
        let mut next: Vec<(Option<u64>, usize)> = decoded.iter().map(|column| (column.stock, 0)).collect();
        for at in 0..call.count {
            let order = &self.rows[from + at].0;
            let mut is_open = true;
            let items = order.activities.iter().zip(order.order.items.iter()).filter_map(|(nth, (_, quantity))| {
                let column = call.column_of(*nth)?;
                let (decoded, (stock, i)) = (&decoded[column], &mut next[column]);
                let (status, quantity) = (decoded.statuses[*i], quantity.get());
                if status == Status::Ok {
                    *stock = stock.map(|stock| stock.saturating_sub(quantity));
                }
                is_open &= decoded.refusal.is_none();
                let bought = decoded.bought.get(*i).copied().flatten().filter(|_| self.options.has_users);
                let corrupt = decoded.corrupt.clone().filter(|_| status == Status::Corrupt);
                *i += 1;
                Some(Outcome { status, quantity: Some(quantity), stock: *stock, bought, corrupt })
            });
            let items: Vec<Outcome> = items.collect();
            if items.iter().any(|item| item.status == Status::Sharded) {
                self.waiting += items.len();
                self.next = self.next.min(call.first + at as u64);
                self.rows[from + at].1 = State::Waiting;
                continue;
            }
            let all = |status: Status| items.iter().all(|item| item.status == status);
            let status = [Status::Ok, Status::Replayed].into_iter().find(|status| all(*status));
            let status = status.unwrap_or(Status::Refused);
            let (order, state) = &mut self.rows[from + at];
            let is_reversed = items.iter().any(|item| item.status == Status::Reversed);
            if status == Status::Refused && is_open && !is_reversed {
                order.activities.iter().for_each(|nth| states.get_mut(*nth).refused_now += 1);
            }
            *state = State::Decided(MultiOutcome { status, items });
        }
        // The next call may name an activity that refuses.
        if decoded.iter().any(|column| column.refusal.is_some()) {
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

/// Whether no call can have an order, because its activities are in several slots of a cluster, or in shards.
fn is_alone(states: &JobStates, order: &BulkMultiOrder, has_one_slot: bool) -> bool {
    let is_sharded = |nth: &u32| !states.shards(*nth).is_empty() || states.get(*nth).refusal == Some(Status::Sharded);
    let is_spread = || order.activities.iter().any(|nth| states.slot(*nth) != states.slot(order.activities[0]));
    order.activities.iter().any(is_sharded) || has_one_slot && is_spread()
}

impl Orders for MultiOrders {
    type Call = MultiCall;

    fn accepts_more(&self) -> bool {
        // One more than fits shows that the call is full.
        self.waiting <= self.most_cost
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
        lane: usize,
        mut in_flight: impl Iterator<Item = &'c MultiCall>,
        flush: bool,
    ) -> bool {
        if self.ready.is_none() {
            self.ready = self.form(states, flush);
        }
        // The reply to the first call to a new activity may say its epoch, which the next ones must name.
        let mut may_follow =
            |call: &MultiCall| call.has_epochs(states) || in_flight.all(|before| before.is_disjoint(call));
        self.ready.as_ref().is_some_and(|call| call.lane(states) == lane && may_follow(call))
    }

    fn send<L: Link>(&mut self, states: &JobStates, _lane: usize, pipeline: &mut Pipeline<MultiCall, L>, _flush: bool) {
        let Some(mut call) = self.ready.take() else { return };
        for column in &mut call.columns {
            let in_flight = pipeline.in_flight().iter().rev().find_map(|call| call.last_of(column.nth));
            column.before = in_flight.unwrap_or(0).max(states.get(column.nth).watermark);
        }
        self.mark(&call, std::iter::repeat_with(|| State::Sent));
        let from = self.index(call.first);
        let asks = call.columns.iter().any(|column| states.asks(column.nth));
        pipeline.push(call, asks, |out, call| {
            call.encode(out, &self.options, states, |at| &self.rows[from + at].0);
        });
    }

    fn reply(&mut self, states: &mut JobStates, call: MultiCall, value: Value) -> Result<Vec<Verdict>, StoreError> {
        let keys: Vec<Keys> = call.columns.iter().map(|column| states.keys(column.nth)).collect();
        let reply = Reply::of(Operation::MultiDeduct.script(self.options.kind));
        match decode(&reply, value, &keys, call.columns.iter().map(|column| column.items.len()))? {
            Decoded::Columns(columns) => {
                let corrupt = columns.iter().filter_map(|column| column.corrupt.clone()).collect();
                self.decided(states, &call, columns);
                Ok(vec![Verdict::Decided(corrupt)])
            }
            Decoded::Gap { nth, line } => {
                let nth = call.columns[nth].nth;
                self.put_back(states, call, false);
                let state = states.get(nth);
                if state.refusal.is_some() {
                    return Ok(vec![Verdict::Retry(None)]);
                }
                // The server has lost lines, or a call before this one is still to be sent again.
                if line < state.watermark {
                    return Ok(vec![Verdict::Rewind { nth, line }]);
                }
                Ok(vec![Verdict::Retry(Some(reply.invalid(("gap", line))))])
            }
            Decoded::OtherEpoch { nth, epoch } => {
                let nth = call.columns[nth].nth;
                self.put_back(states, call, false);
                // It was preheated meanwhile, and nothing was sold before.
                if states.epoch(nth).is_empty() && states.get(nth).watermark == 0 {
                    states.set_epoch(nth, &epoch);
                    return Ok(vec![Verdict::Retry(None)]);
                }
                Err(StoreError::Reset { activity: states.name(nth).to_owned() })
            }
            Decoded::OtherJob { nth } => Err(states.other_job(call.columns[nth].nth)),
        }
    }

    fn decide_alone(&mut self, states: &JobStates) -> Result<bool, StoreError> {
        let first = self.rows.iter().position(|(_, state)| !matches!(state, State::Decided(_)));
        let Some((order, state @ State::Waiting)) = first.and_then(|at| self.rows.get_mut(at)) else {
            return Ok(false);
        };
        if !is_alone(states, order, self.has_one_slot) {
            return Ok(false);
        }
        for nth in order.activities.iter() {
            states.tell_shards(*nth, &mut self.store);
        }
        *state = State::Decided(multi_orders::order_over_slots(&mut self.store, &order.order, false)?);
        self.waiting -= order.activities.len();
        Ok(true)
    }

    fn put_back(&mut self, _states: &JobStates, call: MultiCall, _may_have_run: bool) {
        self.mark(&call, std::iter::repeat_with(|| State::Waiting));
        self.next = self.next.min(call.first);
        self.waiting += call.items;
        self.dissolve_ready();
    }

    fn is_decided(&self) -> bool {
        matches!(self.rows.front(), Some((_, State::Decided(_))))
    }

    fn pop(&mut self) {
        if self.rows.pop_front().is_some() {
            self.first += 1;
        }
    }

    fn distributed(&mut self, _states: &JobStates, _lanes: usize) {
        self.has_one_slot = true;
        self.dissolve_ready();
    }

    fn restart(&mut self, states: &mut JobStates) {
        self.first += self.rows.len() as u64;
        self.rows.clear();
        (self.next, self.waiting, self.ready) = (self.first, 0, None);
        // All is sent again, so that nothing is known of what the server decided.
        states.iter_mut().for_each(|state| state.watermark = 0);
    }
}

/// The reply to one call. Activities are numbered from 0 in the order of the call.
#[derive(Debug)]
pub(crate) enum Decoded {
    /// The items of each activity.
    Columns(Vec<DecodedColumn>),
    /// The job has decided up to this line in this activity, and no further.
    Gap { nth: usize, line: u64 },
    /// The activity was reset.
    OtherEpoch { nth: usize, epoch: String },
    /// The job's name was used for another input.
    OtherJob { nth: usize },
}

const LETTERS: &[u8] = b"ordlstknepqcb";

/// `letters stock refused [bought …]` of one activity, and what refuses it or is corrupt there.
#[derive(Debug)]
pub(crate) struct DecodedColumn {
    /// The status of each item.
    pub(crate) statuses: Vec<Status>,
    /// The stock before the call.
    pub(crate) stock: Option<u64>,
    /// How many of its items the job has refused so far.
    pub(crate) refused: u64,
    /// What refuses the whole activity.
    pub(crate) refusal: Option<Status>,
    pub(crate) corrupt: Option<Corrupt>,
    /// What each user holds after the item; empty if that was not wanted.
    pub(crate) bought: Vec<Option<Bought>>,
}

impl DecodedColumn {
    fn of(text: &str, count: usize) -> Option<Self> {
        let mut words = text.split(' ');
        let statuses: Vec<Status> =
            words.next()?.bytes().map(|letter| status_of(letter, LETTERS)).collect::<Option<_>>()?;
        let (stock, refused) = (words.next()?, whole(words.next()?)?);
        let stock = if stock == "-" { None } else { Some(whole(stock)?) };
        let bought: Vec<_> = words.map(bought).collect();
        let is_complete = statuses.len() == count && (bought.is_empty() || bought.len() == count);
        is_complete.then_some(Self { statuses, stock, refused, refusal: None, corrupt: None, bought })
    }

    /// A text, or an array of it, what refuses the whole activity, and which key holds what it must not.
    fn read(reply: &Reply<'_>, value: &Value, count: usize, keys: &Keys) -> Result<Self, StoreError> {
        let parts = if let Value::Array(parts) = value { parts.as_slice() } else { std::slice::from_ref(value) };
        let text = reply.text(parts.first())?.unwrap_or_default();
        let mut column = Self::of(&text, count).ok_or_else(|| reply.invalid(&text))?;
        if let [_, code, key, wrong] = parts {
            let Value::Int(code) = code else { return Err(reply.invalid(value)) };
            column.refusal = Status::of_code(*code);
            if let Some(key) = reply.count(Some(key))? {
                let key = usize::try_from(key).ok().filter(|key| (1..=keys.in_order().count()).contains(key));
                let key = key.ok_or_else(|| reply.invalid(value))?;
                column.corrupt = Some(corrupt(keys, key, reply.text(Some(wrong))?.as_deref()));
            }
        }
        Ok(column)
    }
}

/// Decodes a reply that is not an error. `keys` and `counts` are those of each activity.
pub(crate) fn decode(
    reply: &Reply<'_>,
    value: Value,
    keys: &[Keys],
    counts: impl Iterator<Item = usize>,
) -> Result<Decoded, StoreError> {
    let values = reply.array(value)?;
    if let Some(Value::Int(code)) = values.first() {
        let nth = reply.count(values.get(1))?.and_then(|nth| usize::try_from(nth).ok()).unwrap_or_default();
        let nth = nth.checked_sub(1).filter(|nth| *nth < keys.len());
        let nth = nth.ok_or_else(|| reply.invalid(&values))?;
        return match *code {
            GAP => Ok(Decoded::Gap { nth, line: reply.count(values.get(2))?.unwrap_or_default() }),
            OTHER_EPOCH => Ok(Decoded::OtherEpoch { nth, epoch: reply.text(values.get(2))?.unwrap_or_default() }),
            OTHER_JOB => Ok(Decoded::OtherJob { nth }),
            _ => Err(reply.invalid(values)),
        };
    }
    if values.len() != keys.len() {
        return Err(reply.invalid(values));
    }
    let columns = values.iter().zip(counts).zip(keys);
    let columns = columns.map(|((value, count), keys)| DecodedColumn::read(reply, value, count, keys));
    Ok(Decoded::Columns(columns.collect::<Result<_, _>>()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::layout::Layout;

    #[test]
    fn a_column_has_the_status_of_each_item() {
        let keys = Keys::of(Layout::Seckill, &"a".parse().unwrap());
        let reply = Reply::of_command("a script");
        let text = |text: &str| Value::SimpleString(text.to_owned());
        let read = |value: &Value, count| DecodedColumn::read(&reply, value, count, &keys);
        let column = read(&text("ods 7 2 1 ? 0"), 3).unwrap();
        assert_eq!(column.statuses, [Status::Ok, Status::Refused, Status::OutOfStock]);
        assert_eq!((column.stock, column.refused, column.refusal), (Some(7), 2, None));
        assert_eq!(column.bought, [Some(Bought::Units(1)), Some(Bought::Unknown), Some(Bought::Units(0))]);
        let refused = |code, key| Value::Array(vec![text("c - 0"), Value::Int(code), Value::Int(key), text("ab")]);
        let column = read(&refused(-11, 1), 1).unwrap();
        assert_eq!((column.stock, column.refusal), (None, Some(Status::Corrupt)));
        let corrupt = column.corrupt.unwrap();
        assert!(corrupt.key == "seckill:stock:a" && corrupt.what.contains("ab"), "{corrupt:?}");
        assert!(read(&refused(-11, 9), 1).is_err());
        for invalid in ["oo 7 0", "x 7 0", "o 7", "o 7 0 1 2", "o - x"] {
            assert!(read(&text(invalid), 1).is_err(), "{invalid}");
        }
    }
}
