//! Consecutive multi-orders as one call: how many fit, and which are refused without being sent.

use std::collections::HashSet;

use super::{BulkMultiOrder, MultiOrders, State};
use crate::inventory::order::{MultiOrder, MultiOutcome, Outcome};
use crate::inventory::status::Status;
use crate::store::bulk::job::JobStates;
use crate::store::multi_orders::Asked;
use crate::store::pipeline::Call;

/// How orders are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Attempt {
    /// For the first time.
    First,
    /// So that a refusal is stored under the request id.
    Retry,
    /// Only to be looked up: the job decided them before this run.
    Decided,
}

/// Consecutive orders, sent in one call.
#[derive(Debug)]
pub struct MultiCall {
    /// The number of the first, how many they are, and their items.
    pub(super) first: u64,
    pub(super) count: usize,
    pub(super) items: usize,
    pub(super) asked: Asked,
    /// The line of the last order.
    pub(super) last: u64,
    pub(super) attempt: Attempt,
    /// The activities in the order of the call, and as a set.
    pub(super) activities: Vec<u32>,
    named: HashSet<u32>,
}

impl MultiCall {
    pub(super) fn is_disjoint(&self, other: &Self) -> bool {
        self.named.is_disjoint(&other.named)
    }
}

impl Call for MultiCall {
    fn orders(&self) -> usize {
        self.count
    }

    fn weight(&self) -> usize {
        2 * self.items
    }
}

impl MultiOrders {
    /// The next orders as a call; `None` if there are too few of them, unless they are to be flushed.
    pub(super) fn form(&mut self, states: &JobStates, flush: bool) -> Option<MultiCall> {
        let mut from = self.index(self.next);
        while self.rows.get(from).is_some_and(|(_, state)| !matches!(state, State::Waiting)) {
            from += 1;
        }
        while self.refuse_unsent(states, from) {
            from += 1;
        }
        let (mut count, mut items, mut is_full) = (0, 0, false);
        let attempt = attempt(states, &self.rows.get(from)?.0);
        for (order, state) in self.rows.range(from..) {
            let more = order.activities.len();
            // One order may have more items than a call should.
            is_full = count > 0
                && (items + more > self.most_items
                    || self::attempt(states, order) != attempt
                    || is_refused_unsent(states, order)
                    || !matches!(state, State::Waiting));
            if is_full {
                break;
            }
            (count, items) = (count + 1, items + more);
        }
        if !(is_full || flush || items >= self.most_items) {
            return None;
        }
        let orders: Vec<&MultiOrder> = self.rows.range(from..from + count).map(|(order, _)| &order.order).collect();
        let asked = Asked::of(states.layout, &orders);
        let mut named = HashSet::new();
        let activities = self.rows.range(from..from + count).flat_map(|(order, _)| &order.activities);
        // In the order of `asked`: each when it is first named.
        let activities: Vec<u32> = activities.copied().filter(|nth| named.insert(*nth)).collect();
        let last = self.rows.get(from + count - 1).map_or(0, |(order, _)| order.line);
        let first = self.first + from as u64;
        self.next = first + count as u64;
        self.waiting -= items;
        Some(MultiCall { first, count, items, asked, last, attempt, activities, named })
    }

    /// Refuses a waiting order unsent, if it must be; false if it is to be sent.
    fn refuse_unsent(&mut self, states: &JobStates, at: usize) -> bool {
        let Some((order, State::Waiting)) = self.rows.get(at) else { return false };
        if !is_refused_unsent(states, order) {
            return false;
        }
        let items = order.order.items.iter().zip(&order.activities).map(|((_, quantity), nth)| Outcome {
            status: states.get(*nth).refusal.unwrap_or(Status::Refused),
            quantity: Some(quantity.get()),
            stock: None,
            bought: None,
            corrupt: None,
        });
        let outcome = MultiOutcome { status: Status::Refused, items: items.collect() };
        self.waiting -= outcome.items.len();
        self.rows[at].1 = State::Decided { outcome, is_refused_before: false };
        self.next = self.next.max(self.first + at as u64 + 1);
        true
    }
}

fn attempt(states: &JobStates, order: &BulkMultiOrder) -> Attempt {
    match order.keeps_refusals {
        _ if is_decided(states, order) => Attempt::Decided,
        true => Attempt::Retry,
        false => Attempt::First,
    }
}

/// Whether the job decided an order before: the watermarks of all its activities reached its line.
fn is_decided(states: &JobStates, order: &BulkMultiOrder) -> bool {
    order.activities.iter().all(|nth| states.get(*nth).watermark >= order.line)
}

/// Whether an order is refused without being sent, because an activity of it refused as a whole before: a later order
/// would move the watermark there past one that is not decided.
fn is_refused_unsent(states: &JobStates, order: &BulkMultiOrder) -> bool {
    order.activities.iter().any(|nth| states.get(*nth).refusal.is_some()) && !is_decided(states, order)
}
