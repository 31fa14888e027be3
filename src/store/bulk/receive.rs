//! Replies, in the order in which the batches were sent.

use redis::Value;

use super::super::StoreError;
use super::super::keys::Keys;
use super::super::reply::Reply;
use super::orders::decode::{Decoded, Packed};
use super::orders::queue::{Batch, each};
use super::recover::{Trouble, next_reply};
use super::{Bulk, Operation, Step, pace};
use crate::inventory::order::Corrupt;
use crate::inventory::status::Status;

impl Bulk<'_> {
    /// Receives the next reply.
    pub(super) fn receive(&mut self) -> Result<Step, StoreError> {
        let value = match next_reply(&mut self.store.server) {
            Ok(value) => value,
            Err(error) => {
                self.lose_connection(error);
                return Ok(Step::On);
            }
        };
        let Some(batch) = self.flight.pop_front() else { return Ok(Step::On) };
        self.weight -= pace::CALL + batch.count;
        if let Value::ServerError(error) = value {
            self.put_back(&batch);
            return match Trouble::answered(&mut self.trouble, &self.store.server, self.script, error) {
                Some(error) => self.refused(error),
                None => Ok(Step::On),
            };
        }
        let keys = Keys::of(self.store.layout, &self.activity(batch.activity));
        let reply = Reply::of(self.script);
        match Decoded::decode(&value, batch.count, &keys, &reply)? {
            Decoded::Decided(packed) => self.decide(&batch, &packed),
            Decoded::Refused { status, line, corrupt } => return Ok(self.shut(&batch, status, line, corrupt)),
            Decoded::Gap { line } => return Ok(self.gap(&batch, line, reply.unfit(&value))),
            Decoded::OtherEpoch => {
                return Err(StoreError::Reset { activity: self.activity(batch.activity).to_string() });
            }
            Decoded::OtherJob => return Err(self.terms.job.was_other(&self.activity(batch.activity))),
        }
        Ok(Step::On)
    }

    /// All orders of a batch were decided.
    fn decide(&mut self, batch: &Batch, packed: &Packed<'_>) {
        let (mut stock, mut refused, mut last) = (packed.stock, 0_u32, 0);
        let (operation, has_users) = (self.terms.operation, self.kind.has_users());
        let mut orders = packed.orders();
        each(batch, &mut self.window, |_, row| {
            // There are as many as rows: that was checked.
            let (status, bought) = orders.next().unwrap_or((Status::Corrupt, None));
            if status == Status::Ok {
                let quantity = u64::from(row.quantity);
                stock = match operation {
                    Operation::Deduct => stock.saturating_sub(quantity),
                    Operation::Refund => stock.saturating_add(quantity),
                };
            }
            refused += u32::from(!status.is_done());
            last = row.line;
            row.done(status, Some(stock), bought.filter(|_| has_users));
        });
        let queue = &mut self.queues[batch.activity as usize];
        queue.line = queue.line.max(last);
        queue.refused = queue.refused.max(u32::try_from(packed.refused).unwrap_or(u32::MAX));
        queue.refused_now += refused;
        self.trouble = None;
    }

    /// The whole activity is refused, now and for the rest of the run.
    fn shut(&mut self, batch: &Batch, status: Status, line: u64, corrupt: Option<Corrupt>) -> Step {
        each(batch, &mut self.window, |_, row| {
            row.done(if row.line <= line { Status::Replayed } else { status }, None, None);
        });
        let queue = &mut self.queues[batch.activity as usize];
        let is_news = queue.shut.is_none();
        queue.line = queue.line.max(line);
        queue.shut(status, &mut self.window);
        self.trouble = None;
        match corrupt {
            Some(corrupt) if is_news => Step::Corrupt(corrupt),
            _ => Step::On,
        }
    }

    /// Lines before the batch are not decided: they are still to be sent again, or the server forgot them.
    fn gap(&mut self, batch: &Batch, line: u64, unfit: StoreError) -> Step {
        let queue = &mut self.queues[batch.activity as usize];
        if let Some(status) = queue.shut {
            each(batch, &mut self.window, |_, row| row.done(status, None, None));
            return Step::On;
        }
        if line < queue.line {
            queue.line = line;
            let activity = self.activity(batch.activity).to_string();
            self.put_back(batch);
            return Step::Rewind { activity, line };
        }
        self.put_back(batch);
        if self.trouble.is_none() {
            self.in_trouble(unfit, false);
        }
        Step::On
    }

    /// Puts back a batch that did not run, or of which nobody knows.
    pub(super) fn put_back(&mut self, batch: &Batch) {
        self.is_draining = true;
        let queue = &mut self.queues[batch.activity as usize];
        if let Some(status) = queue.shut {
            each(batch, &mut self.window, |_, row| row.done(status, None, None));
            return;
        }
        queue.put_back(batch, &mut self.window);
        self.oldest = self.oldest.min(batch.first);
        self.make_ready(batch.activity);
    }
}
