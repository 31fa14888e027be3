//! Consecutive orders as one call: how many fit, what it says, and beside which others it may be sent.

use std::collections::{HashSet, VecDeque};

use super::super::super::call::evaluate;
use super::super::super::multi_orders::Asked;
use super::super::super::scripts::MULTI_DEDUCT;
use super::super::pace::{self, Pace};
use super::{MultiBulk, State};
use crate::inventory::id::ActivityId;
use crate::inventory::order::MultiOrder;

/// Consecutive orders, sent in one call.
#[derive(Debug)]
pub(super) struct Call {
    /// The number of the first, and how many they are.
    pub(super) first: u64,
    pub(super) count: usize,
    activities: HashSet<ActivityId>,
    pub(super) items: usize,
    pub(super) weight: usize,
    pub(super) asked: Asked,
    packed: Vec<u8>,
}

impl MultiBulk<'_> {
    /// The most items of a call: one takes the server longer than an order of one activity does.
    pub(super) fn most_items(&self) -> usize {
        (self.pace.most_orders() / 2).max(1)
    }

    /// The next orders as a call; `None` where there are too few of them, unless it is `pressing`.
    pub(super) fn form(&mut self, pressing: bool) -> Option<Call> {
        let mut from = self.place(self.next);
        while self.rows.get(from).is_some_and(|(_, state)| !matches!(state, State::Waiting)) {
            from += 1;
        }
        let (mut count, mut items, mut is_full) = (0, 0, false);
        let keeps_refusals = self.rows.get(from)?.0.keeps_refusals;
        for (entry, state) in self.rows.range(from..) {
            let more = entry.order.items.len();
            // One order may have more items than a call should.
            is_full = count > 0
                && (items + more > self.most_items()
                    || entry.keeps_refusals != keeps_refusals
                    || !matches!(state, State::Waiting));
            if is_full {
                break;
            }
            (count, items) = (count + 1, items + more);
        }
        if !(is_full || pressing || items >= self.most_items()) {
            return None;
        }
        let orders: Vec<&MultiOrder> = self.rows.range(from..from + count).map(|(entry, _)| &entry.order).collect();
        let activities = orders.iter().flat_map(|order| &order.items).map(|(activity, _)| activity.clone()).collect();
        let asked = Asked::of(self.store.layout, &orders);
        let mode = if keeps_refusals { "retry" } else { "first" };
        let mut arguments = vec![self.store.kind(), self.store.operator.clone(), mode.to_owned()];
        arguments.extend_from_slice(&asked.orders);
        let packed = evaluate("EVALSHA", &MULTI_DEDUCT.sha1, &asked.names(), &arguments).get_packed_command();
        let first = self.first + from as u64;
        self.next = first + count as u64;
        self.waiting -= items;
        Some(Call { first, count, activities, weight: pace::CALL + 2 * items, items, asked, packed })
    }

    pub(super) fn send(&mut self, call: Call) {
        self.mark(&call, || State::Sent);
        self.weight += call.weight;
        self.pace.sent(call.count);
        let server = &mut self.store.server;
        let sent = server.connection().map(|connection| connection.send_packed_command(&call.packed));
        let sent = sent.and_then(|sent| sent.map_err(|error| server.target.unreachable(&error)));
        self.flight.push_back(call);
        if let Err(error) = sent {
            self.lose_connection(error);
        }
    }
}

/// Whether a call may be sent while others are in flight.
pub(super) fn may_follow(call: &Call, flight: &VecDeque<Call>, weight: usize, pace: &Pace) -> bool {
    flight.is_empty()
        || (weight <= pace.most_weight() / 2
            && flight.iter().all(|before| before.activities.is_disjoint(&call.activities)))
}
