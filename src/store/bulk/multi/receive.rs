//! Replies, and what becomes of a call that has none or was refused.

use redis::Value;

use super::super::Step;
use super::super::recover::{Trouble, next_reply};
use super::call::{Attempt, Call};
use super::decode::{Decoded, decode};
use super::{MultiBulk, State};
use crate::inventory::order::{MultiOrder, MultiOutcome, Outcome};
use crate::inventory::status::Status;
use crate::store::StoreError;
use crate::store::scripts::MULTI_DEDUCT;

impl MultiBulk<'_> {
    /// Receives the next reply.
    pub(super) fn receive(&mut self) -> Result<Step, StoreError> {
        let value = match next_reply(&mut self.store.server) {
            Ok(value) => value,
            Err(error) => {
                self.lose_connection(error);
                return Ok(Step::On);
            }
        };
        let Some(call) = self.flight.pop_front() else { return Ok(Step::On) };
        self.weight -= call.weight;
        if let Value::ServerError(error) = value {
            self.put_back(&call);
            return match Trouble::answered(&mut self.trouble, &self.store.server, &MULTI_DEDUCT, error) {
                Some(error) => self.refused(error),
                None => Ok(Step::On),
            };
        }
        let from = self.place(call.first);
        let orders: Vec<&MultiOrder> =
            self.rows.range(from..from + call.count).map(|(entry, _)| &entry.order).collect();
        match decode(value, &call.asked, &orders)? {
            Decoded::Decided { outcomes, refusing } => self.decide(&call, outcomes, &refusing),
            forgotten => return self.forgotten(&call, forgotten),
        }
        Ok(Step::On)
    }

    /// All orders of a call were decided.
    fn decide(&mut self, call: &Call, outcomes: Vec<MultiOutcome>, refusing: &[usize]) {
        let from = self.place(call.first);
        for corrupt in outcomes.iter().flat_map(|outcome| &outcome.items).filter_map(|item| item.corrupt.as_ref()) {
            if self.known_corrupt.insert(corrupt.key.clone()) {
                self.corrupt.push_back(corrupt.clone());
            }
        }
        self.trouble = None;
        if call.attempt == Attempt::Decided {
            for ((_, state), outcome) in self.rows.range_mut(from..).zip(outcomes) {
                *state = decided_before(outcome);
            }
            return;
        }
        let orders = self.rows.range(from..from + call.count).map(|(entry, _)| &entry.order);
        for (nth, activity) in call.activities.iter().zip(&call.asked.activities).enumerate() {
            let place = &mut self.places[*activity.0 as usize];
            if !refusing.contains(&nth) {
                place.line = call.last;
                continue;
            }
            let items =
                orders.clone().zip(&outcomes).flat_map(|(order, outcome)| order.items.iter().zip(&outcome.items));
            let status = items.filter(|((named, _), _)| named == activity.1).map(|(_, item)| item.status);
            place.shut = status.into_iter().find(|status| refuses_as_a_whole(*status));
        }
        let is_shut = call.activities.iter().any(|nth| self.places[*nth as usize].shut.is_some());
        for ((_, state), outcome) in self.rows.range_mut(from..).zip(outcomes) {
            *state = State::Done { outcome, is_refused_before: false };
        }
        // The next call may name the activity.
        if is_shut {
            self.withdraw_ready();
        }
    }

    /// An activity does not know what the run does, so nothing of the call ran.
    fn forgotten(&mut self, call: &Call, reply: Decoded) -> Result<Step, StoreError> {
        self.put_back(call);
        match reply {
            Decoded::Decided { .. } => Ok(Step::On),
            Decoded::Gap { nth, line } => Ok(Step::Rewind { activity: call.asked.activities[nth].to_string(), line }),
            // It was preheated meanwhile, and nothing was sold before.
            Decoded::OtherEpoch { nth, epoch } if self.is_new(call.activities[nth] as usize) => {
                self.set_epoch(call.activities[nth] as usize, &epoch);
                Ok(Step::On)
            }
            Decoded::OtherEpoch { nth, .. } => {
                Err(StoreError::Reset { activity: call.asked.activities[nth].to_string() })
            }
            Decoded::OtherJob { nth } => Err(self.job.was_other(&call.asked.activities[nth])),
        }
    }

    /// The server refused a call, and nothing of it ran: some refusals pass.
    pub(super) fn refused(&mut self, error: StoreError) -> Result<Step, StoreError> {
        let is_idle = self.flight.is_empty();
        match Trouble::refused(&mut self.trouble, &mut self.store.server, error, is_idle) {
            Some(error) => {
                // What else is in flight should be told of before the run ends.
                self.drain()?;
                Err(error)
            }
            None => Ok(Step::On),
        }
    }

    /// The connection broke: what is in flight may have run, or not. It is sent again, and what refuses it then is
    /// kept: else the first try, arriving late, could still take what was told to be refused.
    pub(super) fn lose_connection(&mut self, error: StoreError) {
        self.store.server.disconnect();
        let lost = std::mem::take(&mut self.flight);
        self.weight = 0;
        for call in &lost {
            self.put_back(call);
            let from = self.place(call.first);
            self.rows.range_mut(from..from + call.count).for_each(|(entry, _)| entry.keeps_refusals = true);
        }
        Trouble::note(&mut self.trouble, error, !lost.is_empty());
    }

    /// Puts back a call that did not run, or of which nobody knows; the one that is ready would overtake it.
    fn put_back(&mut self, call: &Call) {
        self.is_draining = true;
        self.mark(call, || State::Waiting);
        self.next = self.next.min(call.first);
        self.withdraw_ready();
        self.waiting += call.items;
    }

    /// Takes the next call apart; it is formed again.
    fn withdraw_ready(&mut self) {
        if let Some(ready) = self.ready.take() {
            self.waiting += ready.items;
            self.next = self.next.min(ready.first);
        }
    }

    pub(super) fn mark(&mut self, call: &Call, state: impl Fn() -> State) {
        let from = self.place(call.first);
        self.rows.range_mut(from..from + call.count).for_each(|(_, now)| *now = state());
    }

    // Numbers come from this window.
    #[allow(clippy::cast_possible_truncation)]
    pub(super) fn place(&self, number: u64) -> usize {
        number.saturating_sub(self.first) as usize
    }
}

/// An order that the job decided before this run, by what looking it up said: it is replayed, whatever it was then. Only
/// an activity that is gone, or damaged, keeps its status.
fn decided_before(mut outcome: MultiOutcome) -> State {
    let is_gone = |item: &Outcome| matches!(item.status, Status::NotPreheated | Status::Corrupt);
    if outcome.items.iter().any(is_gone) {
        return State::Done { outcome, is_refused_before: false };
    }
    let is_refused_before = outcome.status != Status::Replayed;
    outcome.status = Status::Replayed;
    outcome.items.iter_mut().for_each(|item| item.status = Status::Replayed);
    State::Done { outcome, is_refused_before }
}

/// Whether a status is that of a whole activity.
fn refuses_as_a_whole(status: Status) -> bool {
    matches!(status, Status::NotPreheated | Status::Corrupt | Status::Paused | Status::NotStarted | Status::Ended)
}
