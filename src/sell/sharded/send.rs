//! Sends an order to the shard that has the units of its user, which gets units from other shards.

use std::sync::Arc;

use redis::Value;

use crate::error::StoreError;
use crate::model::id::{ActivityId, RequestId};
use crate::model::number::Quantity;
use crate::model::order::hold::{HoldRecord, HoldState};
use crate::model::order::{Bought, Corrupt};
use crate::model::shards::Shards;
use crate::model::status::Status;
use crate::script::SETTLE;
use crate::script::reply::Reply;
use crate::sell::single::{Modes, SingleCall, SingleReply};
use crate::shards::request::{BorrowOutcome, BorrowRequest, ShardFault, SoldOut, is_out_of_stock, patient};
use crate::store::Store;

/// What an order needs of the stock.
#[derive(Clone, Copy)]
pub(crate) struct Wanted<'a> {
    /// How many units; `None` for a hold that expired, whose reply says it.
    pub(crate) quantity: Option<Quantity>,
    pub(crate) request: &'a RequestId,
}

impl Store {
    /// Sends an order to where the units of its user are. One that is `wanted` takes units, and gets them from other shards.
    ///
    /// # Errors
    /// Any of [`StoreError`]; there is no user, and the activity is sharded.
    pub(crate) fn send_home(
        &mut self,
        activity: &ActivityId,
        user: Option<&[u8]>,
        call: &SingleCall,
        wanted: Option<Wanted<'_>>,
        dry_run: bool,
    ) -> Result<SingleReply, StoreError> {
        let mut missing: Option<Shards> = None;
        self.borrower.was_resent = false;
        loop {
            let Some(shards) = self.directory.get(activity).cloned() else {
                let value = self.send_single(call, activity, Modes::of_activity(dry_run))?;
                if self.learn(activity, call, &value)? {
                    continue;
                }
                return self.read_reply(call, value, activity, dry_run);
            };
            let nobody = || StoreError::NoUser { activity: activity.to_string(), line: None };
            let home = shards.home(user.ok_or_else(nobody)?);
            match self.send_to(activity, &shards, home, call, wanted, dry_run) {
                Ok(reply) => return Ok(reply),
                Err(ShardFault::ListChanged | ShardFault::Stopped) => {
                    if let Some(broken) = self.missing(activity, &shards, &mut missing) {
                        return Ok(SingleReply::corrupt(broken));
                    }
                }
                Err(ShardFault::Corrupt(corrupt)) => return Ok(SingleReply::corrupt(corrupt)),
                Err(ShardFault::Store(error)) => return Err(error),
            }
        }
    }

    /// Remembers the shards of an activity that replied them; false if it replied anything else.
    pub(crate) fn learn(
        &mut self,
        activity: &ActivityId,
        call: &SingleCall,
        value: &Value,
    ) -> Result<bool, StoreError> {
        let Value::Array(values) = value else { return Ok(false) };
        match Reply::of(call.script).shards(values)? {
            Some(shards) => {
                self.directory.learn(activity, shards);
                Ok(true)
            }
            None => Ok(false),
        }
    }

    /// A shard of the list is gone. The list is read again; if it is the same, the shard was lost.
    pub(crate) fn missing(
        &mut self,
        activity: &ActivityId,
        shards: &Shards,
        before: &mut Option<Shards>,
    ) -> Option<Corrupt> {
        self.directory.forget(activity);
        if before.as_ref() == Some(shards) {
            let what = "names a shard that is not there: was it evicted, or removed?".to_owned();
            return Some(Corrupt { key: self.keys(activity).meta, what });
        }
        *before = Some(shards.clone());
        None
    }

    /// Sends an order to a shard, by its place in the list. What a shard has left says little of the sale.
    fn send_to(
        &mut self,
        activity: &ActivityId,
        shards: &Shards,
        home: usize,
        call: &SingleCall,
        wanted: Option<Wanted<'_>>,
        dry_run: bool,
    ) -> Result<SingleReply, ShardFault> {
        let at = activity.shard(shards.numbers()[home]);
        let modes = match &wanted {
            _ if dry_run => Modes::DRY,
            None => Modes::FINAL,
            // An expired hold whose confirmation is refused is void.
            Some(Wanted { quantity: None, .. }) => Modes::BORROW,
            Some(_) => Modes::SHARD,
        };
        let value = self.send_single(call, &at, modes)?;
        if is_gone(&value) {
            return Err(ShardFault::ListChanged);
        }
        let short = match wanted {
            Some(wanted) => self.short_of(&wanted, &value, &at, dry_run)?.map(|units| (wanted, units)),
            None => None,
        };
        let Some((wanted, quantity)) = short else { return self.read_of_shard(call, value, &at, dry_run) };
        let order = call.call(&self.keys(&at), Modes::BORROW);
        let (stop, system) = (Arc::clone(&self.stop), Arc::clone(self.servers.system()));
        let request = BorrowRequest {
            activity,
            shards,
            home,
            quantity,
            request: wanted.request.as_str(),
            order: (!dry_run).then_some(&order),
            system: &*system,
            began: system.now(),
            at_most: patient(self.servers.target().timeout),
            stop: &|| stop(),
        };
        if dry_run {
            let sold_out = self.borrower.find_sold_out(&mut self.servers, &request)?;
            let reply = self.read_of_shard(call, value, &at, dry_run)?;
            return Ok(match sold_out {
                Some(SoldOut { left, .. }) => with_stock(reply, left),
                None => would_borrow(reply, quantity),
            });
        }
        match self.borrow_and_send(&request, call, &at)? {
            BorrowOutcome::Decided(value) if !is_gone(&value) => self.read_of_shard(call, value, &at, dry_run),
            BorrowOutcome::Decided(_) | BorrowOutcome::Here => Err(ShardFault::ListChanged),
            BorrowOutcome::SoldOut(SoldOut { left, .. }) => {
                // A late copy of what was sent may not take what somebody returns after this refusal.
                let modes = if self.borrower.was_resent { Modes::FINAL_AGAIN } else { Modes::FINAL };
                let value = self.send_single(call, &at, modes)?;
                let is_refused = is_out_of_stock(&value);
                let reply = self.read_of_shard(call, value, &at, dry_run)?;
                Ok(if is_refused { with_stock(reply, left) } else { reply })
            }
        }
    }

    /// How many units an order needs that its shard has not, by its reply; `None` if that decides it.
    fn short_of(
        &mut self,
        wanted: &Wanted<'_>,
        value: &Value,
        at: &ActivityId,
        dry_run: bool,
    ) -> Result<Option<u64>, StoreError> {
        let Value::Array(values) = value else { return Ok(None) };
        let count = |at| Reply::of(&SETTLE).count(values.get(at));
        let of_hold = |units: Option<Quantity>| units.map_or_else(|| count(3), |units| Ok(Some(units.get())));
        if is_out_of_stock(value) {
            return of_hold(wanted.quantity);
        }
        // A dry run of a confirmation says that the hold is over, be it for good or because its shard has too few units.
        if !dry_run || wanted.quantity.is_some() || values.first() != Some(&Value::Int(Status::Expired.code())) {
            return Ok(None);
        }
        let (Some(stock), Some(units)) = (count(1)?, count(3)?) else { return Ok(None) };
        let is_expired = stock < units && self.hold_state(at, wanted.request)? == Some(HoldState::Expired);
        Ok(is_expired.then_some(units))
    }

    /// The state of the hold of a request id.
    fn hold_state(&mut self, activity: &ActivityId, request: &RequestId) -> Result<Option<HoldState>, StoreError> {
        let requests = self.keys(activity).requests;
        let command = redis::cmd("HGET").arg(&requests).arg(format!("\th:{request}")).to_owned();
        Ok(match self.servers.command(&requests, &command)? {
            Value::BulkString(record) => HoldRecord::read(&record).map(|record| record.state),
            _ => None,
        })
    }

    /// Gets units for a home and sends the order there, until it is decided; transfers are acknowledged.
    fn borrow_and_send(
        &mut self,
        request: &BorrowRequest<'_>,
        call: &SingleCall,
        at: &ActivityId,
    ) -> Result<BorrowOutcome, ShardFault> {
        let ended = loop {
            match self.borrower.borrow(&mut self.servers, request) {
                Ok(BorrowOutcome::Here) => {
                    let value = self.send_single(call, at, Modes::BORROW)?;
                    if !is_out_of_stock(&value) {
                        break Ok(BorrowOutcome::Decided(value));
                    }
                    request.check_time(|| "others took them first".to_owned())?;
                }
                Err(ShardFault::Stopped) => break Err(request.failed("it was interrupted".to_owned()).into()),
                ended => break ended,
            }
        };
        self.borrower.ack_transfers(&mut self.servers);
        if !self.borrower.was_resent {
            return ended;
        }
        // A copy of the order may still come, and take units.
        let why = match ended {
            Err(ShardFault::Corrupt(corrupt)) => format!("key `{}` {}", corrupt.key, corrupt.what),
            Err(ShardFault::Store(error)) if !matches!(error, StoreError::Unknown { .. }) => error.to_string(),
            ended => return ended,
        };
        let server = self.servers.target().shown.clone();
        Err(StoreError::Unknown { server, why, recovery: Some(call.recovery.clone()) }.into())
    }

    fn read_reply(
        &mut self,
        call: &SingleCall,
        value: Value,
        at: &ActivityId,
        dry_run: bool,
    ) -> Result<SingleReply, StoreError> {
        let reply = call.read(value, &self.keys(at))?;
        if reply.outcome.status.is_done() && !dry_run {
            self.changed(at);
        }
        Ok(reply)
    }

    fn read_of_shard(
        &mut self,
        call: &SingleCall,
        value: Value,
        shard: &ActivityId,
        dry_run: bool,
    ) -> Result<SingleReply, ShardFault> {
        let mut reply = self.read_reply(call, value, shard, dry_run)?;
        reply.outcome.stock = None;
        Ok(reply)
    }
}

/// The reply of a shard that is short, while neither it nor all others together have enough.
fn with_stock(mut reply: SingleReply, left: u64) -> SingleReply {
    reply.outcome.stock = Some(left);
    reply
}

/// The reply of a shard that is short to a dry run, if other shards have enough.
fn would_borrow(mut reply: SingleReply, units: u64) -> SingleReply {
    let outcome = &mut reply.outcome;
    outcome.status = Status::Ok;
    if let Some(Bought::Units(bought)) = &mut outcome.bought {
        *bought += units;
    }
    reply
}

/// Whether a shard is not there.
fn is_gone(value: &Value) -> bool {
    matches!(value, Value::Array(values) if values.first() == Some(&Value::Int(Status::NotPreheated.code())))
}
