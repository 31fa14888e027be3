//! What replies mean for the orders of a call.

use redis::Value;

use crate::error::{Result, StoreError};
use crate::model::{ActivityId, Corrupt, Shards, Status};
use crate::script::reply::Reply;
use crate::sell::bulk::Verdict;
use crate::sell::bulk::orders::decode::{BatchReply, Decoded, Expected, OrderReply, Unread};
use crate::sell::bulk::orders::queue::{Batch, each};
use crate::sell::bulk::orders::window::{HoldDetails, Row, State};
use crate::sell::bulk::orders::{JobOrders, OrderCall};
use crate::sell::orders;

impl JobOrders {
    /// Reads the reply to one batch.
    pub(super) fn reply_to_batch(&mut self, batch: Batch, value: &Value) -> Result<Verdict> {
        let index = batch.activity;
        let reply = Reply::of(self.states.operation.script(self.states.layout.kind()));
        match Decoded::decode(value, self.expected(&batch), &self.states.keys(index), &reply)? {
            Decoded::Decided(batch_reply) => {
                if let Some(rest) = self.decided(&batch, batch_reply) {
                    self.held_up.insert(index);
                    self.put_batch_back(&rest);
                    self.shorts.push_back((index, self.window.row(rest.first).quantity.into()));
                }
            }
            Decoded::Refused { status, line, corrupt } => {
                let Some((status, lost)) = self.refusal(index, status)? else {
                    self.put_batch_back(&batch);
                    return Ok(Verdict::Retry(None));
                };
                self.refused(&batch, status, line);
                return Ok(Verdict::Decided(corrupt.or(lost).into_iter().collect()));
            }
            Decoded::Unread(why) => {
                // An earlier batch was not decided, and waits again.
                let is_overtaking = self.queues[index as usize].has_before(&batch);
                self.put_batch_back(&batch);
                return self.unread(index, why, is_overtaking, || reply.invalid(value));
            }
        }
        Ok(Verdict::Decided(Vec::new()))
    }

    /// What it means that an activity did not look at orders, which wait again. `invalid` is the error for a gap that
    /// cannot be.
    pub(super) fn unread(
        &mut self,
        index: u32,
        why: Unread,
        is_overtaking: bool,
        invalid: impl FnOnce() -> StoreError,
    ) -> Result<Verdict> {
        let state = self.states.get_mut(index);
        match why {
            Unread::Gap { .. } if state.refusal.is_some() || is_overtaking => Ok(Verdict::Retry(None)),
            // The server has lost lines.
            Unread::Gap { line } if line < state.watermark => {
                state.watermark = line;
                Ok(Verdict::Rewind { index, line })
            }
            // Orders before these are still to be sent again.
            Unread::Gap { .. } => Ok(Verdict::Retry(Some(invalid()))),
            // It was preheated meanwhile, and nothing was sold before.
            Unread::OtherEpoch { epoch }
                if self.is_multi() && self.states.epoch(index).is_empty() && self.states.get(index).watermark == 0 =>
            {
                self.states.set_epoch(index, &epoch);
                Ok(Verdict::Retry(None))
            }
            Unread::OtherEpoch { .. } => Err(StoreError::Reset { activity: self.states.shown_name(index).to_owned() }),
            Unread::OtherJob => Err(self.states.other_job(index)),
        }
    }

    /// Reads the reply to batches that share a call, each as if it were alone; an error of one is returned once all are read.
    pub(super) fn reply_to_all(&mut self, call: &OrderCall, value: &Value) -> Result<Vec<Verdict>> {
        match value {
            Value::Array(values) if values.len() == call.batches.len() => {
                let replies = call.batches.iter().zip(values);
                let verdicts: Vec<_> = replies.map(|(batch, value)| self.reply_to_batch(*batch, value)).collect();
                verdicts.into_iter().collect()
            }
            other => Err(Reply::of(self.states.operation.script(self.states.layout.kind())).invalid(other)),
        }
    }

    /// What the reply to a batch must fit.
    pub(super) fn expected(&self, batch: &Batch) -> Expected {
        let (count, may_stop) = (batch.count, batch.borrows);
        Expected { operation: self.states.operation, count, may_stop, has_rows: self.has_rows }
    }

    /// The first orders of a batch, or all, were decided. Gives those that were not.
    pub(super) fn decided(&mut self, batch: &Batch, reply: BatchReply) -> Option<Batch> {
        // What is left in a shard says little of the sale.
        let (is_shard, has_users) = (self.states.is_shard(batch.activity), self.states.layout.kind().has_users());
        reply.stock.iter().for_each(|stock| self.states.found_stock(batch.activity, *stock));
        let (mut stock, mut number, mut before) = (reply.stock, batch.first, batch.before);
        let count = batch.count - reply.orders.len();
        for OrderReply { status, takes_again, bought, quantity, deadline, user } in reply.orders {
            let row = self.window.row_mut(number);
            row.quantity = quantity.unwrap_or(row.quantity);
            if status == Status::Ok {
                stock = stock.map(|stock| self.states.operation.stock_after(stock, row.quantity, takes_again));
            }
            row.state = State::Decided(status);
            before = row.line;
            let next = number + u64::from(row.next);
            let bought = bought.filter(|_| has_users && (user.is_some() || !self.states.operation.settles()));
            let hold = HoldDetails { deadline, user };
            self.window.set_details(number, stock.filter(|_| !is_shard), bought, hold);
            number = next;
        }
        let state = self.states.get_mut(batch.activity);
        // Lines that are decided again, because another activity of theirs was reset, are not stored again.
        if before > state.watermark {
            state.refused = state.refused.max(u32::try_from(reply.refused).unwrap_or(u32::MAX));
        }
        if count < batch.count && reply.refusal.is_none() {
            state.watermark = state.watermark.max(before);
        }
        state.refusal = state.refusal.or(reply.refusal);
        state.refused_now += u32::try_from(reply.refused_here).unwrap_or(u32::MAX);
        if count > 0
            && let Some(quantity) = reply.next_quantity
        {
            self.window.row_mut(number).quantity = quantity;
        }
        (count > 0).then_some(Batch { first: number, count, before, ..*batch })
    }

    /// The whole activity is refused, now and for the rest of the run. Lines up to the watermark were decided before.
    fn refused(&mut self, batch: &Batch, status: Status, watermark: u64) {
        each(batch, &mut self.window, |row: &mut Row| {
            row.state = State::Decided(if row.line <= watermark { Status::Replayed } else { status });
        });
        let state = self.states.get_mut(batch.activity);
        state.watermark = state.watermark.max(watermark);
        self.refuse_activity(batch.activity, status);
    }

    /// Decides that all that waits for an activity is refused, and what is still to come.
    pub(crate) fn refuse_activity(&mut self, index: u32, status: Status) {
        self.states.get_mut(index).refusal = Some(status);
        self.queues[index as usize].refuse_all(status, &mut self.window);
    }

    /// What it means that an activity refuses all: the status of its orders, and what is wrong with the list that names a shard that is
    /// gone. `None` of a shard that files had, and that is back: refunds call it `not_preheated` while files have it, too.
    ///
    /// # Errors
    /// A reset made it a sharded one, or gave it other shards.
    fn refusal(&mut self, index: u32, status: Status) -> Result<Option<(Status, Option<Corrupt>)>> {
        let reset = StoreError::Reset { activity: self.states.shown_name(index).to_owned() };
        match status {
            Status::Sharded => return Err(reset),
            Status::NotPreheated => {}
            _ => return Ok(Some((status, None))),
        }
        let Some((activity, shards, home)) = self.states.place_in_parent(index) else {
            return Ok(Some((status, None)));
        };
        let found = orders::shards_now(&mut self.store, &activity, &shards)?.ok_or(reset)?;
        if let Some(lost) = orders::lost_shard(&self.store, &activity, &found[home..=home]) {
            return Ok(Some((Status::Corrupt, Some(lost))));
        }
        Ok(found[home].is_archived().then_some((status, None)))
    }

    /// What is wrong with a list of shards, unless a reset changed it or made them anew.
    pub(crate) fn lost_shard(&mut self, activity: &ActivityId, shards: &Shards) -> Result<Option<Corrupt>> {
        let found = orders::shards_now(&mut self.store, activity, shards)?;
        Ok(found.and_then(|found| orders::lost_shard(&self.store, activity, &found)))
    }
}
