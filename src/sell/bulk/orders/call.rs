//! Which batches share a call: an activity with a full batch has a call of its own, the others share one.

use crate::error::ServerKind;
use crate::error::StoreError;
use crate::redis::pipeline::Call;
use crate::sell::bulk::job::JobStates;
use crate::sell::bulk::orders::SingleOrders;
use crate::sell::bulk::orders::queue::Batch;
use crate::sell::bulk::orders::window::Row;

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
