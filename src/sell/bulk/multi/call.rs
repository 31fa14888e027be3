//! Consecutive multi-orders as one call: how many fit, and which are refused without being sent.

use std::collections::HashMap;

use crate::model::order::{MultiOutcome, Outcome};
use crate::model::status::Status;
use crate::redis::connection::resp::argument;
use crate::redis::pipeline::Call;
use crate::sell::bulk::columns::{Columns, Item, Part};
use crate::sell::bulk::job::JobStates;
use crate::sell::bulk::multi::{BulkMultiOrder, MultiOptions, MultiOrders, State, is_alone};
use crate::sell::bulk::operation::Operation;
use crate::sell::orders::user_text;

/// What an activity costs the server in a call, in items.
const ACTIVITY_COST: usize = 4;

/// Among so many activities, to look at each is quicker than to look one up.
const FEW: usize = 8;

/// Consecutive orders, sent in one call.
#[derive(Debug)]
pub(crate) struct MultiCall {
    /// The number of the first, how many they are, and their items.
    pub(crate) first: u64,
    pub(crate) count: usize,
    pub(crate) items: usize,
    pub(crate) columns: Vec<Column>,
    /// The column of each activity.
    by_activity: HashMap<u32, usize>,
}

/// The items of one activity in a call.
#[derive(Debug)]
pub(crate) struct Column {
    pub(crate) nth: u32,
    /// The line that must have been decided here before this call.
    pub(crate) before: u64,
    /// The last line.
    pub(crate) last: u64,
    /// Which order of the call each is of, and which item of that.
    pub(crate) items: Vec<(usize, usize)>,
}

impl MultiCall {
    fn new(first: u64) -> Self {
        Self { first, count: 0, items: 0, columns: Vec::new(), by_activity: HashMap::new() }
    }

    /// What it would cost with another order.
    fn cost_with(&self, order: &BulkMultiOrder) -> usize {
        let new = order.activities.iter().filter(|nth| self.column_of(**nth).is_none()).count();
        (self.items + order.activities.len()).max(ACTIVITY_COST * (self.columns.len() + new))
    }

    fn push(&mut self, order: &BulkMultiOrder) {
        for (item, nth) in order.activities.iter().enumerate() {
            let at = self.column_of(*nth).unwrap_or_else(|| {
                self.by_activity.insert(*nth, self.columns.len());
                self.columns.push(Column { nth: *nth, before: 0, last: 0, items: Vec::new() });
                self.columns.len() - 1
            });
            let column = &mut self.columns[at];
            column.last = order.line;
            column.items.push((self.count, item));
        }
        self.count += 1;
        self.items += order.activities.len();
    }

    /// Appends it: see the header of `multi_deduct_file.lua`. `order` is an order by its place in this call.
    pub(super) fn encode<'o>(
        &'o self,
        out: &mut Vec<u8>,
        options: &MultiOptions,
        states: &JobStates,
        order: impl Fn(usize) -> &'o BulkMultiOrder,
    ) {
        // A reason that all orders have is said once.
        let reason = order(0).order.reason.as_deref();
        let is_common = (1..self.count).all(|at| order(at).order.reason.as_deref() == reason);
        let reason = reason.filter(|_| is_common).unwrap_or_default();
        let (mut call, mut head) = (Vec::new(), Vec::new());
        let script = Operation::MultiDeduct.script(options.kind);
        ["EVALSHA", script.sha1].iter().for_each(|text| argument(&mut call, text.as_bytes()));
        let rows = if options.has_rows { "1" } else { "" };
        let job = &states.job;
        for text in [options.kind.name(), &options.operator, &job.name, job.digest_to_store(), rows, reason, ""] {
            argument(&mut head, text.as_bytes());
        }
        let item = |(at, item): &(usize, usize)| {
            let BulkMultiOrder { line, order, has_request, .. } = order(*at);
            let request = if *has_request { order.request.as_str() } else { "" };
            let reason = if is_common { None } else { order.reason.as_deref() };
            let texts = [user_text(order.user.as_ref()), request, reason.unwrap_or_default()].map(str::as_bytes);
            Item { line: *line, quantity: order.items[*item].1.get(), texts }
        };
        let part = |column: &'o Column| Part {
            keys: states.keys(column.nth),
            epoch: states.epoch(column.nth),
            before: column.before,
            items: column.items.iter().map(item),
        };
        let parts: Vec<_> = self.columns.iter().map(part).collect();
        Columns::default().shared_call(out, &call, &head, &parts);
    }

    /// The column of an activity.
    pub(crate) fn column_of(&self, nth: u32) -> Option<usize> {
        if self.columns.len() <= FEW {
            return self.columns.iter().position(|column| column.nth == nth);
        }
        self.by_activity.get(&nth).copied()
    }

    /// The last line of an activity in this call.
    pub(crate) fn last_of(&self, nth: u32) -> Option<u64> {
        self.column_of(nth).map(|at| self.columns[at].last)
    }

    /// Whether the epochs of all its activities are known.
    pub(crate) fn has_epochs(&self, states: &JobStates) -> bool {
        self.columns.iter().all(|column| !states.epoch(column.nth).is_empty())
    }

    /// The lane of its activities.
    pub(crate) fn lane(&self, states: &JobStates) -> usize {
        self.columns.first().map_or(0, |column| states.lane(column.nth))
    }

    /// Whether an order is of the same slot.
    fn has_slot_of(&self, order: &BulkMultiOrder, states: &JobStates) -> bool {
        let slots = self.columns.first().zip(order.activities.first());
        slots.is_some_and(|(column, nth)| column.nth == *nth || states.slot(column.nth) == states.slot(*nth))
    }

    /// Whether it shares no activity with another call.
    pub(crate) fn is_disjoint(&self, other: &Self) -> bool {
        let (few, many) = if self.columns.len() <= other.columns.len() { (self, other) } else { (other, self) };
        few.columns.iter().all(|column| many.column_of(column.nth).is_none())
    }
}

impl Call for MultiCall {
    fn orders(&self) -> usize {
        self.count
    }

    fn weight(&self) -> usize {
        self.items.max(ACTIVITY_COST * self.columns.len())
    }
}

impl MultiOrders {
    /// The next orders as a call; `None` if there are too few of them, unless they are to be flushed.
    pub(crate) fn form(&mut self, states: &JobStates, flush: bool) -> Option<MultiCall> {
        let mut from = self.index(self.next);
        // Behind an order that is refused unsent there may be others that are in flight.
        while !matches!(self.rows.get(from)?.1, State::Waiting) || self.refuse_unsent(states, from) {
            from += 1;
        }
        // Those behind it wait, too: it may take what they want.
        if is_alone(states, &self.rows[from].0, self.has_one_slot) {
            return None;
        }
        let mut call = MultiCall::new(self.first + from as u64);
        let mut is_full = false;
        for (order, state) in self.rows.range(from..) {
            // One order may cost more than a call should.
            is_full = call.count > 0
                && (call.cost_with(order) > self.most_cost
                    || (self.has_one_slot && !call.has_slot_of(order, states))
                    || is_alone(states, order, self.has_one_slot)
                    || is_refused_unsent(states, order)
                    || !matches!(state, State::Waiting));
            if is_full {
                break;
            }
            call.push(order);
        }
        if !(is_full || flush || call.weight() >= self.most_cost) {
            return None;
        }
        self.next = call.first + call.count as u64;
        self.waiting -= call.items;
        Some(call)
    }

    /// Refuses a waiting order unsent, if it must be; false if it is to be sent.
    fn refuse_unsent(&mut self, states: &JobStates, at: usize) -> bool {
        let Some((order, State::Waiting)) = self.rows.get(at) else { return false };
        if !is_refused_unsent(states, order) {
            return false;
        }
        let items = order.order.items.iter().zip(order.activities.iter()).map(|((_, quantity), nth)| Outcome {
            status: states.get(*nth).refusal.unwrap_or(Status::Refused),
            quantity: Some(quantity.get()),
            stock: None,
            bought: None,
            corrupt: None,
        });
        let outcome = MultiOutcome { status: Status::Refused, items: items.collect() };
        self.waiting -= outcome.items.len();
        self.rows[at].1 = State::Decided(outcome);
        self.next = self.next.max(self.first + at as u64 + 1);
        true
    }
}

/// Whether an order is refused without being sent, because an activity of it refused as a whole before: a later order
/// would move the watermark there past one that is not decided. The job decided an order before if the watermarks of
/// all its activities reached its line.
fn is_refused_unsent(states: &JobStates, order: &BulkMultiOrder) -> bool {
    let states = || order.activities.iter().map(|nth| states.get(*nth));
    states().any(|state| state.refusal.is_some_and(|why| why != Status::Sharded))
        && !states().all(|state| state.watermark >= order.line)
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::time::Duration;

    use super::*;
    use crate::model::id::interner::Interner;
    use crate::model::layout::{Kind, Layout};
    use crate::model::order::MultiOrder;
    use crate::redis::connect::Target;
    use crate::redis::system::RealSystem;
    use crate::sell::bulk::Job;
    use crate::store::Store;

    #[test]
    fn behind_an_order_that_is_refused_unsent_those_in_flight_stay_as_they_are() {
        let job = Job { name: "night".to_owned(), digest: "night".to_owned() };
        let mut states =
            JobStates::new(job, Operation::MultiDeduct, Layout::Seckill, Interner::default(), &RealSystem::shared());
        let mut row = |line: u64, activity: &str, state| {
            let items = [(activity.parse().unwrap(), "1".parse().unwrap())].into();
            let order = MultiOrder { user: None, items, request: "r".parse().unwrap(), reason: None };
            (BulkMultiOrder { line, order, has_request: false, activities: [states.number(activity)].into() }, state)
        };
        let rows = [row(1, "paused", State::Waiting), row(2, "open", State::Sent), row(3, "open", State::Waiting)];
        states.get_mut(0).refusal = Some(Status::Paused);
        let target = Target::new("redis://127.0.0.1:1", "the URL", Duration::from_secs(1)).unwrap();
        let options = MultiOptions { kind: Kind::Hash, operator: String::new(), has_users: true, has_rows: true };
        let mut orders = MultiOrders {
            options,
            most_cost: 128,
            rows: VecDeque::from(rows),
            last: Default::default(),
            first: 0,
            next: 0,
            waiting: 2,
            ready: None,
            has_one_slot: false,
            store: Store::new(target, Layout::Seckill, String::new()),
        };
        let call = orders.form(&states, true).unwrap();
        assert_eq!((call.first, call.count, orders.waiting, orders.next), (2, 1, 0, 3));
        assert!(matches!(orders.rows[0].1, State::Decided(_)));
        assert!(matches!(orders.rows[1].1, State::Sent));
    }
}
