//! Multi-orders: a call decides consecutive orders, whole, each of them all or nothing.
//!
//! Orders of an activity are decided there in the order of the input, in every run of the job, and the watermark says
//! what the job has decided there. Several calls that name an activity may be in flight together: each says which line
//! must have been decided there before it, and the script refuses a call as a whole if that is not so in one of its
//! activities. So none overtakes a call that failed.

use std::ops::Range;

use redis::Value;

use crate::error::Result;
use crate::model::{ActivityId, MultiOrder, Quantity, RequestId, Status};
use crate::script::reply::Reply;
use crate::sell::bulk::Verdict;
use crate::sell::bulk::orders::decode::{BatchReply, Unread};
use crate::sell::bulk::orders::encode::rows;
use crate::sell::bulk::orders::queue::{Batch, Queue, each};
use crate::sell::bulk::orders::window::{HoldDetails, State};
use crate::sell::bulk::orders::{JobOrders, OrderCall, request_of};
use crate::sell::multi_orders;

/// What an activity costs the server in a call of multi-orders, in items.
const ACTIVITY_COST: usize = 4;

/// Which multi-orders are sent next.
#[derive(Debug, Default)]
pub(crate) struct MultiSchedule {
    /// The number of the first row that is in no call yet, and how many wait from there on.
    pub(super) next: u64,
    pub(super) waiting: usize,
    /// The next call, formed while others are in flight.
    ready: Option<OrderCall>,
}

impl MultiSchedule {
    /// Whether it has too few items for a call. One more than fits shows that the call is full.
    pub(super) fn is_hungry(&self, most_items: usize) -> bool {
        self.waiting <= most_items
    }

    /// Rows wait again.
    fn put_back(&mut self, rows: &Range<u64>) {
        self.next = self.next.min(rows.start);
        self.waiting += count(rows);
    }
}

fn count(rows: &Range<u64>) -> usize {
    (rows.end - rows.start) as usize
}

/// How an order ended whose items ended so.
pub(crate) fn status_of_items(items: impl IntoIterator<Item = Status>) -> Status {
    let joined = items.into_iter().reduce(|all, item| if all == item { all } else { Status::Refused });
    joined.filter(|status| status.is_done()).unwrap_or(Status::Refused)
}

impl OrderCall {
    pub(super) fn multi_weight(&self) -> usize {
        count(&self.rows).max(ACTIVITY_COST * self.batches.len())
    }
}

impl JobOrders {
    /// Adds an order with its activities and quantities.
    pub(super) fn push_multi(&mut self, line: u64, items: &[(u32, u32)], texts: [&str; 3]) {
        self.queues.resize_with(self.states.count(), Queue::new);
        let mut first = None;
        for (activity, quantity) in items {
            let number = match first {
                None => self.window.push(line, *activity, *quantity, texts),
                Some(first) => self.window.push_item(first, *activity, *quantity),
            };
            first = first.or(Some(number));
            self.queues[*activity as usize].link(number, &mut self.window);
        }
        self.multi.waiting += items.len();
    }

    /// Whether the next call may be sent on a lane now.
    pub(super) fn has_multi_call(&mut self, lane: usize, flush: bool, is_sent: impl Fn(u32) -> bool) -> bool {
        if self.multi.ready.is_none() {
            self.multi.ready = self.form(flush);
        }
        let Some(call) = &self.multi.ready else { return false };
        let activities = || call.batches.iter().map(|batch| batch.activity);
        // The reply to the first call to a new activity may say its epoch, which the next ones must name.
        let has_epochs = activities().all(|index| !self.states.epoch(index).is_empty());
        activities().next().is_none_or(|index| self.states.lane(index) == lane)
            && (has_epochs || !activities().any(is_sent))
    }

    /// The next orders as a call; `None` if there are too few of them, unless they are to be flushed.
    fn form(&mut self, flush: bool) -> Option<OrderCall> {
        let (first, end) = self.window.span();
        let mut next = self.multi.next.max(first);
        // Behind an order that is refused unsent there may be others that are in flight.
        while next < end && (self.window.row(next).state != State::Waiting || self.refuse_unsent(next)) {
            next = self.window.order(next).end;
        }
        // Those behind one that no call can have wait, too: it may take what they want.
        if next == end || self.is_alone(&self.window.order(next)) {
            return None;
        }
        let mut call = OrderCall { batches: Vec::new(), orders: 0, rows: next..next };
        let mut is_full = false;
        while !is_full && call.rows.end < end {
            let order = self.window.order(call.rows.end);
            // One order may cost more than a call should.
            is_full = call.orders > 0 && !self.fits(&call, &order);
            if !is_full {
                self.append(&mut call, &order);
            }
        }
        if !(is_full || flush || call.multi_weight() >= self.most_orders) {
            return None;
        }
        self.multi.next = call.rows.end;
        self.multi.waiting -= count(&call.rows);
        Some(call)
    }

    /// Whether another order may be in a call.
    fn fits(&self, call: &OrderCall, order: &Range<u64>) -> bool {
        let new = self.activities(order).filter(|index| !call.names(*index)).count();
        let cost = (count(&call.rows) + count(order)).max(ACTIVITY_COST * (call.batches.len() + new));
        let has_slot = |index: u32| self.states.slot(index) == self.states.slot(call.batches[0].activity);
        cost <= self.most_orders
            && (self.can_share || self.activities(order).next().is_some_and(has_slot))
            && !self.is_alone(order)
            && !self.is_refused_unsent(order)
            && self.window.row(order.start).state == State::Waiting
    }

    fn append(&self, call: &mut OrderCall, order: &Range<u64>) {
        for number in order.clone() {
            let activity = self.window.row(number).activity;
            match call.batches.iter_mut().find(|batch| batch.activity == activity) {
                Some(batch) => batch.count += 1,
                None => call.batches.push(Batch { activity, first: number, count: 1, before: 0, borrows: false }),
            }
        }
        call.orders += 1;
        call.rows.end = order.end;
    }

    /// The activities of an order, in the order of its items.
    fn activities<'o>(&'o self, order: &Range<u64>) -> impl Iterator<Item = u32> + use<'o> {
        order.clone().map(|number| self.window.row(number).activity)
    }

    /// Whether no call can have an order, because its activities are in several slots of a cluster, or in shards.
    fn is_alone(&self, order: &Range<u64>) -> bool {
        let is_sharded =
            |index| !self.states.shards(index).is_empty() || self.states.get(index).refusal == Some(Status::Sharded);
        let is_spread = || {
            let mut slots = self.activities(order).map(|index| self.states.slot(index));
            let first = slots.next();
            slots.any(|slot| Some(slot) != first)
        };
        self.activities(order).any(is_sharded) || !self.can_share && is_spread()
    }

    /// Whether an order is refused without being sent, because an activity of it refused as a whole before: a later order
    /// would move the watermark there past one that is not decided. The job decided an order before if the watermarks of
    /// all its activities reached its line.
    fn is_refused_unsent(&self, order: &Range<u64>) -> bool {
        let line = self.window.row(order.start).line;
        let states = || self.activities(order).map(|index| self.states.get(index));
        states().any(|state| state.refusal.is_some_and(|why| why != Status::Sharded))
            && !states().all(|state| state.watermark >= line)
    }

    /// Refuses a waiting order unsent, if it must be; false if it is to be sent, or asked about alone.
    fn refuse_unsent(&mut self, first: u64) -> bool {
        let order = self.window.order(first);
        let must_be = self.is_refused_unsent(&order) && !self.is_alone(&order);
        if must_be {
            self.refuse(order);
        }
        must_be
    }

    fn refuse(&mut self, order: Range<u64>) {
        self.multi.waiting -= count(&order);
        self.multi.next = self.multi.next.max(order.end);
        for number in order {
            let row = self.window.row_mut(number);
            row.state = State::Decided(self.states.get(row.activity).refusal.unwrap_or(Status::Refused));
        }
    }

    /// The call that was formed, as it is sent now.
    pub(super) fn next_multi_call(&mut self) -> Option<OrderCall> {
        let mut call = self.multi.ready.take()?;
        for batch in &mut call.batches {
            let last = rows(batch, &self.window).last().map_or(0, |row| row.line);
            let queue = &mut self.queues[batch.activity as usize];
            batch.before = queue.before.max(self.states.get(batch.activity).watermark);
            queue.before = last;
            each(batch, &mut self.window, |row| row.state = State::Sent);
        }
        Some(call)
    }

    /// The orders of a call wait again.
    pub(super) fn put_multi_back(&mut self, call: &OrderCall) {
        for batch in &call.batches {
            let queue = &mut self.queues[batch.activity as usize];
            queue.before = queue.before.min(batch.before);
            each(batch, &mut self.window, |row| row.state = State::Waiting);
        }
        self.multi.put_back(&call.rows);
        self.dissolve_ready();
    }

    /// Dissolves the next call; it is formed again.
    pub(super) fn dissolve_ready(&mut self) {
        if let Some(ready) = self.multi.ready.take() {
            self.multi.put_back(&ready.rows);
        }
    }

    /// Reads the reply to a call: one of each activity, or why no order was looked at.
    pub(super) fn reply_to_multi(&mut self, call: &OrderCall, value: &Value) -> Result<Verdict> {
        let reply = Reply::of(self.states.operation.script(self.states.layout.kind()));
        let Value::Array(values) = value else { return Err(reply.invalid(value)) };
        if let Some(why) = Unread::read(values.first(), values.get(2), &reply)? {
            let number = reply.count(values.get(1))?.and_then(|number| usize::try_from(number).ok()?.checked_sub(1));
            let batch = number.and_then(|number| call.batches.get(number)).ok_or_else(|| reply.invalid(values))?;
            self.put_multi_back(call);
            return self.unread(batch.activity, why, false, || reply.invalid(values));
        }
        if values.len() != call.batches.len() {
            return Err(reply.invalid(values));
        }
        let read = |(batch, value): (&Batch, &Value)| {
            BatchReply::of_activity(value, self.expected(batch), &self.states.keys(batch.activity), &reply)
        };
        let replies: Vec<BatchReply> = call.batches.iter().zip(values).map(read).collect::<Result<_, _>>()?;
        let corrupt = replies.iter().filter_map(|reply| reply.corrupt.clone()).collect();
        let refusals = call.batches.iter().zip(&replies).filter(|(_, reply)| reply.refusal.is_some());
        let refusing: Vec<u32> = refusals.map(|(batch, _)| batch.activity).collect();
        for (batch, reply) in call.batches.iter().zip(replies) {
            self.decided(batch, reply);
        }
        self.decided_whole(call, &refusing);
        // The next call may name an activity that refuses.
        if !refusing.is_empty() {
            self.dissolve_ready();
        }
        Ok(Verdict::Decided(corrupt))
    }

    /// Each item of a call has its status. Those of shards are sent again alone, and refused ones count: unless one of their
    /// activities refuses as a whole, so that the watermarks have not moved.
    fn decided_whole(&mut self, call: &OrderCall, refusing: &[u32]) {
        let mut rest = call.rows.clone();
        while !rest.is_empty() {
            let order = self.window.order(rest.start);
            rest.start = order.end;
            let items: Vec<Status> = order.clone().filter_map(|number| self.window.status(number)).collect();
            if items.contains(&Status::Sharded) {
                order.clone().for_each(|number| self.window.row_mut(number).state = State::Waiting);
                self.multi.put_back(&order);
                continue;
            }
            let is_refused = status_of_items(items.iter().copied()) == Status::Refused;
            let is_open = !self.activities(&order).any(|index| refusing.contains(&index));
            if is_refused && is_open && !items.contains(&Status::Reversed) {
                for number in order {
                    self.states.get_mut(self.window.row(number).activity).refused_now += 1;
                }
            }
        }
    }

    /// The first undecided order, if it waits and no call can have it.
    pub(crate) fn find_alone(&self) -> Option<Range<u64>> {
        let (first, end) = self.window.span();
        let is_open = |number: &u64| !matches!(self.window.row(*number).state, State::Decided(_));
        let number = (first..end).find(is_open).filter(|_| self.is_multi())?;
        let order = self.window.order(number);
        (self.window.row(number).state == State::Waiting && self.is_alone(&order)).then_some(order)
    }

    /// With nothing in flight: decides an order that no call can have, or leaves it undecided, as an activity that refuses as a whole
    /// does.
    ///
    /// # Errors
    /// Any of `StoreError`.
    pub(crate) fn decide_alone(&mut self, order: Range<u64>) -> Result<()> {
        for number in order.clone() {
            self.states.tell_shards(self.window.row(number).activity, &mut self.store);
        }
        let asked = self.multi_order(&order);
        let outcome = match multi_orders::find_refusal(&mut self.store, &asked)? {
            Some(refused) => refused,
            None => multi_orders::order_over_slots(&mut self.store, &asked, false)?,
        };
        self.multi.waiting -= count(&order);
        self.multi.next = self.multi.next.max(order.end);
        for (number, item) in order.zip(outcome.items) {
            self.window.row_mut(number).state = State::Decided(item.status);
            self.window.set_details(number, item.stock, item.bought, HoldDetails::default());
        }
        Ok(())
    }

    /// An order as it is sent alone. The reader has validated its texts, and the job's name leaves room for a line.
    fn multi_order(&self, order: &Range<u64>) -> MultiOrder {
        let row = self.window.row(order.start);
        let [user, request, reason] = self.window.texts(row).map(|text| std::str::from_utf8(text).unwrap_or_default());
        let item = |number| {
            let row = self.window.row(number);
            let quantity = Quantity::new(row.quantity.into()).unwrap_or(Quantity::ONE);
            (ActivityId::validated(self.states.name(row.activity).as_bytes()), quantity)
        };
        let reason = [reason, &self.encoder.reason].into_iter().find(|reason| !reason.is_empty());
        MultiOrder {
            user: user.parse().ok(),
            items: order.clone().map(item).collect(),
            request: RequestId::validated(request_of(&self.states.job, row.line, request)),
            reason: reason.map(str::to_owned),
        }
    }
}
