//! What is sent next: full batches first, else those of the oldest row that waits.

use super::super::keys::Keys;
use super::orders::window;
use super::{Bulk, Step, pace};
use crate::inventory::id::ActivityId;

impl Bulk<'_> {
    /// Lets an activity stand in the line where it has a full batch.
    pub(super) fn make_ready(&mut self, nth: u32) {
        let queue = &mut self.queues[nth as usize];
        if queue.waiting as usize >= self.terms.pace.most_orders() && !queue.is_ready {
            queue.is_ready = true;
            self.ready.push_back(nth);
        }
    }

    /// The activity of the oldest row that waits.
    pub(super) fn find_oldest(&mut self) -> Option<u32> {
        let (first, end) = self.window.span();
        self.oldest = self.oldest.max(first);
        while self.oldest < end {
            let row = self.window.row(self.oldest);
            if row.state == window::State::Waiting {
                return Some(row.activity);
            }
            self.oldest += 1;
        }
        None
    }

    /// Sends batches until as much is in flight as one go may hold.
    pub(super) fn send(&mut self, pressing: bool) -> Step {
        let (most_orders, most_weight) = (self.terms.pace.most_orders(), self.terms.pace.most_weight() / 2);
        let (mut weight, mut orders) = (0, 0);
        self.out.clear();
        while weight < most_weight {
            let nth = match self.ready.pop_front() {
                Some(nth) => {
                    self.queues[nth as usize].is_ready = false;
                    nth
                }
                None if pressing => match self.find_oldest() {
                    Some(nth) => nth,
                    None => break,
                },
                None => break,
            };
            let queue = &mut self.queues[nth as usize];
            let Some(batch) = queue.take(nth, most_orders, &mut self.window) else { continue };
            let epoch = queue.epoch().map(|epoch| self.epochs.name(epoch)).unwrap_or_default();
            let keys = Keys::of(self.store.layout, &ActivityId::validated(self.names.name(nth)));
            self.encoder.encode(&mut self.out, &batch, epoch, &keys, &self.window);
            weight += pace::CALL + batch.count;
            orders += batch.count;
            self.flight.push_back(batch);
            self.make_ready(nth);
        }
        self.weight += weight;
        self.terms.pace.sent(orders);
        if let Err(error) = self.write() {
            self.lose_connection(error);
        }
        Step::On
    }
}
