//! Consecutive orders as one call: how many fit, what it says, and beside which others it may be sent.

use std::collections::{HashSet, VecDeque};

use super::super::pace::{self, Pace};
use super::encode::encode;
use super::{MultiBulk, MultiEntry, State};
use crate::inventory::order::{MultiOrder, MultiOutcome, Outcome};
use crate::inventory::status::Status;
use crate::store::multi_orders::Asked;

/// How orders are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Attempt {
    /// For the first time.
    First,
    /// So that a refusal is kept under the request id.
    Retry,
    /// Only to be looked up: the job decided them before this run.
    Decided,
}

/// Consecutive orders, sent in one call.
#[derive(Debug)]
pub(super) struct Call {
    /// The number of the first, and how many they are.
    pub(super) first: u64,
    pub(super) count: usize,
    pub(super) items: usize,
    pub(super) weight: usize,
    pub(super) asked: Asked,
    /// The line of the last order.
    pub(super) last: u64,
    pub(super) attempt: Attempt,
    /// The activities in the order of the call, as the run numbers them.
    pub(super) activities: Vec<u32>,
    named: HashSet<u32>,
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
        while self.refuse_unsent(from) {
            from += 1;
        }
        let (mut count, mut items, mut is_full) = (0, 0, false);
        let attempt = self.attempt(&self.rows.get(from)?.0);
        for (entry, state) in self.rows.range(from..) {
            let more = entry.order.items.len();
            // One order may have more items than a call should.
            is_full = count > 0
                && (items + more > self.most_items()
                    || self.attempt(entry) != attempt
                    || self.is_refused_unsent(entry)
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
        let asked = Asked::of(self.store.layout, &orders);
        let activities: Vec<u32> =
            asked.activities.iter().map(|activity| self.names.number(activity.as_str().as_bytes())).collect();
        let named = activities.iter().copied().collect();
        let last = self.rows.get(from + count - 1).map_or(0, |(entry, _)| entry.line);
        let first = self.first + from as u64;
        self.next = first + count as u64;
        self.waiting -= items;
        let weight = pace::CALL + 2 * items;
        Some(Call { first, count, items, weight, asked, last, attempt, activities, named })
    }

    fn attempt(&self, entry: &MultiEntry) -> Attempt {
        match entry.keeps_refusals {
            _ if self.is_decided(entry) => Attempt::Decided,
            true => Attempt::Retry,
            false => Attempt::First,
        }
    }

    /// Whether an order is refused without being sent, because an activity of it refused as a whole before: a later
    /// order would move the job's line there past one that is not decided.
    fn is_refused_unsent(&self, entry: &MultiEntry) -> bool {
        self.shut(entry) && !self.is_decided(entry)
    }

    /// Refuses a waiting order unsent, if it must be; false if it is to be sent.
    fn refuse_unsent(&mut self, at: usize) -> bool {
        let Some((entry, State::Waiting)) = self.rows.get(at) else { return false };
        if !self.is_refused_unsent(entry) {
            return false;
        }
        let items = entry.order.items.iter().zip(&entry.activities).map(|((_, quantity), nth)| Outcome {
            status: self.places[*nth as usize].shut.unwrap_or(Status::Refused),
            quantity: Some(quantity.get()),
            stock: None,
            bought: None,
            corrupt: None,
        });
        let outcome = MultiOutcome { status: Status::Refused, items: items.collect() };
        self.waiting -= outcome.items.len();
        self.rows[at].1 = State::Done { outcome, is_refused_before: false };
        self.next = self.next.max(self.first + at as u64 + 1);
        true
    }

    /// Sends a call, all of whose activities were met.
    pub(super) fn send(&mut self, call: Call) {
        self.mark(&call, || State::Sent);
        self.weight += call.weight;
        self.pace.sent(call.count);
        self.out.clear();
        let mut out = std::mem::take(&mut self.out);
        let states = call.activities.iter().map(|nth| (self.epoch(*nth as usize), self.places[*nth as usize].line));
        encode(&mut out, [&self.store.kind(), &self.store.operator], &self.job, &call, states);
        self.out = out;
        let server = &mut self.store.server;
        let sent = server.connection().map(|connection| connection.send_packed_command(&self.out));
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
        || (weight <= pace.most_weight() / 2 && flight.iter().all(|before| before.named.is_disjoint(&call.named)))
}
