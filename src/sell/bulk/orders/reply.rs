//! What a reply decides of the orders of a call.

use redis::Value;

use crate::error::StoreError;
use crate::model::id::StoredUser;
use crate::model::order::Corrupt;
use crate::model::status::Status;
use crate::script::reply::Reply;
use crate::sell::bulk::job::JobStates;
use crate::sell::bulk::orders::SingleOrders;
use crate::sell::bulk::orders::call::OrderCall;
use crate::sell::bulk::orders::decode::{Decoded, Packed, deadlines_of, decode_mixed, quantities_of};
use crate::sell::bulk::orders::queue::{Batch, each};
use crate::sell::bulk::orders::window::{HoldDetails, Row, State};
use crate::sell::bulk::{Operation, Verdict};

impl SingleOrders {
    /// Reads the reply to one batch of `deduct` or `refund`.
    pub(crate) fn reply_alone(
        &mut self,
        states: &mut JobStates,
        batch: Batch,
        value: &Value,
    ) -> Result<Verdict, StoreError> {
        let nth = batch.activity;
        let reply = Reply::of(self.script);
        match Decoded::decode(value, (batch.count, batch.borrows), &states.keys(nth), &reply)? {
            Decoded::Decided(mut packed) => {
                let has_users = self.operation.settles() && self.has_rows;
                let users = if has_users { packed.users() } else { Some(Vec::new()) };
                let users = users.ok_or_else(|| reply.invalid(value))?;
                if let Some(rest) = self.decided(states, &batch, &mut packed, users) {
                    self.held_up.insert(nth);
                    self.put_batch_back(states, &rest);
                    let quantity = u64::from(self.window.row(rest.first).quantity);
                    return Ok(Verdict::Short { nth, quantity });
                }
            }
            // A reset made it a sharded one, or gave it other shards.
            Decoded::Refused { status, .. }
                if status == Status::Sharded || status == Status::NotPreheated && states.is_shard(nth) =>
            {
                return Err(StoreError::Reset { activity: states.shown_name(nth).to_owned() });
            }
            Decoded::Refused { status, line, corrupt } => {
                self.refused(states, &batch, status, line);
                return Ok(Verdict::Decided(corrupt.into_iter().collect::<Vec<Corrupt>>()));
            }
            Decoded::Gap { line } => {
                let is_overtaking = self.queues[nth as usize].has_before(&batch);
                self.put_batch_back(states, &batch);
                let state = states.get_mut(nth);
                // An earlier batch was not decided, and waits again.
                if state.refusal.is_some() || is_overtaking {
                    return Ok(Verdict::Retry(None));
                }
                // The server has lost lines, or a batch before this one is still to be sent again.
                if line < state.watermark {
                    state.watermark = line;
                    return Ok(Verdict::Rewind { nth, line });
                }
                return Ok(Verdict::Retry(Some(reply.invalid(value))));
            }
            Decoded::OtherEpoch => {
                return Err(StoreError::Reset { activity: states.shown_name(nth).to_owned() });
            }
            Decoded::OtherJob => return Err(states.other_job(nth)),
        }
        Ok(Verdict::Decided(Vec::new()))
    }

    /// Reads the reply to batches that share a call. Those that it left alone are sent again, each in a call of its own.
    pub(crate) fn reply_mixed(
        &mut self,
        states: &mut JobStates,
        call: &OrderCall,
        value: &Value,
    ) -> Result<Verdict, StoreError> {
        let mut replies = decode_mixed(value, call.batches.iter().map(|batch| batch.count))?;
        let mut is_left = false;
        for (batch, packed) in call.batches.iter().zip(&mut replies) {
            match packed {
                Some(packed) => drop(self.decided(states, batch, packed, Vec::new())),
                None => {
                    is_left = true;
                    self.queues[batch.activity as usize].is_alone = true;
                    self.put_batch_back(states, batch);
                }
            }
        }
        // What is left must not be overtaken by batches of the same activity that are in flight.
        Ok(if is_left { Verdict::Retry(None) } else { Verdict::Decided(Vec::new()) })
    }

    /// The first orders of a batch, or all, were decided. Gives those that were not.
    fn decided(
        &mut self,
        states: &mut JobStates,
        batch: &Batch,
        packed: &mut Packed<'_>,
        users: Vec<StoredUser>,
    ) -> Option<Batch> {
        // What is left in a shard says little of the sale.
        let is_shard = states.is_shard(batch.activity);
        states.found_stock(batch.activity, packed.stock);
        let (mut stock, mut last) = (packed.stock, 0);
        let (operation, has_users) = (self.operation, self.has_users);
        let extra = if operation == Operation::Hold || operation.settles() { packed.split_extra() } else { None };
        let mut quantities = extra.filter(|_| operation.settles()).map(quantities_of);
        let mut deadlines = extra.filter(|_| operation == Operation::Hold).map(deadlines_of);
        let mut users = users.into_iter();
        let mut number = batch.first;
        for (status, takes_again, bought) in packed.orders() {
            let row = self.window.row_mut(number);
            if let Some(quantities) = &mut quantities {
                row.quantity = quantities.next().unwrap_or_default();
            }
            if status == Status::Ok {
                let quantity = u64::from(row.quantity);
                stock = match operation {
                    Operation::Refund | Operation::Release => stock.saturating_add(quantity),
                    Operation::Confirm if !takes_again => stock,
                    _ => stock.saturating_sub(quantity),
                };
            }
            row.state = State::Decided(status);
            last = row.line;
            let next = number + u64::from(row.next);
            let deadline = deadlines.as_mut().and_then(Iterator::next).flatten();
            // Nobody has a hold that does not exist.
            let user = users.next().filter(|user| !user.as_bytes().is_empty());
            let bought = bought.filter(|_| has_users && (user.is_some() || !operation.settles()));
            self.window.set_details(number, Some(stock).filter(|_| !is_shard), bought);
            if deadline.is_some() || user.is_some() {
                self.window.set_hold(number, HoldDetails { deadline, user });
            }
            number = next;
        }
        let state = states.get_mut(batch.activity);
        state.watermark = state.watermark.max(last);
        state.refused = state.refused.max(u32::try_from(packed.refused).unwrap_or(u32::MAX));
        state.refused_now += u32::try_from(packed.refusals()).unwrap_or(u32::MAX);
        let count = batch.count - packed.count();
        if count > 0
            && let Some(quantity) = quantities.as_mut().and_then(Iterator::next)
        {
            self.window.row_mut(number).quantity = quantity;
        }
        let before = if packed.count() > 0 { last } else { batch.before };
        (count > 0).then_some(Batch { first: number, count, before, ..*batch })
    }

    /// The whole activity is refused, now and for the rest of the run. Lines up to the watermark were decided before.
    fn refused(&mut self, states: &mut JobStates, batch: &Batch, status: Status, watermark: u64) {
        each(batch, &mut self.window, |row: &mut Row| {
            row.state = State::Decided(if row.line <= watermark { Status::Replayed } else { status });
        });
        let state = states.get_mut(batch.activity);
        state.watermark = state.watermark.max(watermark);
        state.refusal = Some(status);
        self.queues[batch.activity as usize].refuse_all(status, &mut self.window);
    }
}
