//! Single orders of any activity: straight to it, or if it is sharded, to the shard that is the user's home.
//!
//! An activity of which nothing is known is asked as if it had its units itself; one that is sharded replies its shards. So a plain
//! order is one round trip, and an order of a sharded activity is two, or one if the shards are known.

use redis::Value;

use super::need::STUCK;
use super::peek::{Peeked, peek};
use super::send::{Place, Replied, Wanted, plain};
use super::supply::Finished;
use crate::inventory::hold::{Expired, Held, Hold, HoldRecord, HoldState, Settled, Step};
use crate::inventory::id::{ActivityId, RequestId, StoredUser};
use crate::inventory::number::Quantity;
use crate::inventory::order::{Order, Outcome, Refund, RefundOf};
use crate::inventory::shards::Shards;
use crate::inventory::status::Status;
use crate::store::holds::{Expiry, read_held, read_settled};
use crate::store::keys::Keys;
use crate::store::orders::{read_outcome, user_text};
use crate::store::scripts::{DEDUCT, REFUND};
use crate::store::single_call::SingleCall;
use crate::store::{Store, StoreError};

impl Store {
    /// Takes units of one activity. With `dry_run` nothing is written.
    ///
    /// # Errors
    /// Any of [`StoreError`]; refusals are statuses of the outcome.
    pub fn deduct(&mut self, order: &Order, dry_run: bool) -> Result<Outcome, StoreError> {
        let call = self.deduct_call(order);
        let wanted = Wanted { quantity: order.quantity.get(), request: &order.request };
        let user = user_text(order.user.as_ref()).as_bytes();
        let replied = self.send_home(&order.activity, user, &call, Some(wanted), dry_run)?;
        let read = |value, keys: &Keys| read_outcome(&DEDUCT, value, keys).map(|outcome| (outcome, ()));
        let (mut outcome, _) = self.outcome(replied, order.quantity, dry_run, read)?;
        outcome.quantity = Some(order.quantity.get());
        Ok(outcome)
    }

    /// Gives units of one activity back. With `dry_run` nothing is written.
    ///
    /// # Errors
    /// Any of [`StoreError`]; refusals are statuses of the outcome.
    pub fn refund(&mut self, refund: &Refund, dry_run: bool) -> Result<Outcome, StoreError> {
        let call = self.refund_call(refund);
        let user = refund.user.as_ref().map(StoredUser::as_bytes).unwrap_or_default();
        let replied = self.send_home(&refund.activity, user, &call, None, dry_run)?;
        let read = |value, keys: &Keys| read_outcome(&REFUND, value, keys).map(|outcome| (outcome, ()));
        let (mut outcome, _) = self.outcome(replied, Quantity::ONE, dry_run, read)?;
        match refund.of {
            RefundOf::Quantity(quantity) => outcome.quantity = Some(quantity.get()),
            RefundOf::Default => outcome.quantity = Some(Quantity::ONE.get()),
            RefundOf::All => {}
        }
        Ok(outcome)
    }

    /// Takes units of one activity until a deadline. With `dry_run` nothing is written.
    ///
    /// # Errors
    /// Any of [`StoreError`]; refusals are statuses of the outcome.
    pub fn hold(&mut self, hold: &Hold, dry_run: bool) -> Result<Held, StoreError> {
        let call = self.hold_call(hold);
        self.hold_at_home(&hold.activity, hold.user.as_str().as_bytes(), &call, (hold.quantity, &hold.request), dry_run)
    }

    /// Sends the call of a hold to the home of its user, which gets units from other shards.
    pub(in crate::store) fn hold_at_home(
        &mut self,
        activity: &ActivityId,
        user: &[u8],
        call: &SingleCall<'_>,
        (quantity, request): (Quantity, &RequestId),
        dry_run: bool,
    ) -> Result<Held, StoreError> {
        let wanted = Wanted { quantity: quantity.get(), request };
        let replied = self.send_home(activity, user, call, Some(wanted), dry_run)?;
        let (outcome, deadline) = self.outcome(replied, quantity, dry_run, |value, keys| {
            read_held(value, keys, quantity).map(|held| (held.outcome, held.deadline))
        })?;
        Ok(Held { outcome, deadline: deadline.flatten() })
    }

    /// Ends the hold of a request id. With `dry_run` nothing is written.
    ///
    /// # Errors
    /// Any of [`StoreError`]; refusals are statuses of the outcome.
    pub fn settle_hold(
        &mut self,
        activity: &ActivityId,
        request: &RequestId,
        step: Step,
        reason: Option<&str>,
        dry_run: bool,
    ) -> Result<Settled, StoreError> {
        let call = self.settle_call(request, step, reason);
        let read = |value, keys: &Keys| read_settled(value, keys).map(|settled| (settled.outcome, settled.user));
        // Nobody says whose hold it is, so all shards are asked for it.
        let mut missing: Option<Shards> = None;
        loop {
            let Some(shards) = self.directory.get(activity).cloned() else {
                let value = self.send_single(&call, activity, plain(dry_run))?;
                if self.learn(activity, &call, &value)? {
                    continue;
                }
                let replied = Replied::Reply { value, at: activity.clone(), of_shard: false };
                let (outcome, user) = self.outcome(replied, Quantity::ONE, dry_run, read)?;
                return Ok(Settled { outcome, user: user.flatten() });
            };
            let found = self.find_hold(activity, &shards, request)?;
            // What nobody holds is any shard's to say.
            let (place, quantity) = found.as_ref().map_or((0, 0), |(place, record)| (*place, record.quantity));
            let is_expired = found.is_some_and(|(_, record)| record.state == HoldState::Expired);
            let takes = step == Step::Confirm && (is_expired || !dry_run);
            let wanted = takes.then_some(Wanted { quantity, request });
            let Some(replied) = self.send_to(activity, &shards, Place::At(place), &call, wanted, dry_run)? else {
                if let Some(broken) = self.missing(activity, &shards, &mut missing) {
                    return Ok(Settled { outcome: Outcome::corrupt(broken), user: None });
                }
                continue;
            };
            let quantity = Quantity::new(quantity).unwrap_or(Quantity::ONE);
            let (outcome, user) = self.outcome(replied, quantity, dry_run, read)?;
            return Ok(Settled { outcome, user: user.flatten() });
        }
    }

    /// Returns the units of overdue holds, of a page of them, or of a page a shard. With `dry_run` nothing is written.
    ///
    /// # Errors
    /// Any of [`StoreError`]; why nothing can be done is a status.
    pub fn expire(
        &mut self,
        activity: &ActivityId,
        reason: Option<&str>,
        dry_run: bool,
    ) -> Result<Expired, StoreError> {
        let mut missing: Option<Shards> = None;
        'list: loop {
            let shards = match self.directory.get(activity) {
                Some(shards) => shards.clone(),
                None => match self.expire_one(activity, reason, dry_run)? {
                    Expiry::Done(expired) => return Ok(expired),
                    Expiry::Sharded(shards) => {
                        self.directory.learn(activity, shards.clone());
                        shards
                    }
                },
            };
            let mut all = Expired::nothing(Status::Ok);
            for id in shards.ids(activity) {
                match self.expire_one(&id, reason, dry_run)? {
                    Expiry::Done(expired) if expired.status == Status::NotPreheated => {
                        if let Some(broken) = self.missing(activity, &shards, &mut missing) {
                            all.add(Expired { corrupt: Some(broken), ..Expired::nothing(Status::Corrupt) });
                            continue;
                        }
                        continue 'list;
                    }
                    Expiry::Done(expired) => all.add(expired),
                    Expiry::Sharded(_) => all.add(Expired::nothing(Status::NotPreheated)),
                }
            }
            return Ok(all);
        }
    }

    /// Finishes transfers between the shards of an activity that somebody left, of any age with `all`. `None`: it is not sharded.
    ///
    /// # Errors
    /// Any of [`StoreError`].
    pub fn finish_transfers(&mut self, activity: &ActivityId, all: bool) -> Result<Option<Finished>, StoreError> {
        let Some(shards) = self.shards_of(activity)? else { return Ok(None) };
        self.servers.look_for_replicas()?;
        match peek(&mut self.servers, self.layout, activity, &shards)? {
            Peeked::All(views) => {
                let older_than = if all { std::time::Duration::ZERO } else { STUCK };
                let finished = self.supply.finish_stuck(&mut self.servers, activity, &shards, &views, older_than)?;
                shards.ids(activity).for_each(|id| self.changed(&id));
                Ok(Some(finished))
            }
            Peeked::Absent => Err(StoreError::Reset { activity: activity.to_string() }),
            Peeked::Corrupt(corrupt) => Err(StoreError::Reply { what: corrupt.key, reply: corrupt.what }),
        }
    }

    /// The shard that has the hold of a request id, and its record.
    fn find_hold(
        &mut self,
        activity: &ActivityId,
        shards: &Shards,
        request: &RequestId,
    ) -> Result<Option<(usize, HoldRecord)>, StoreError> {
        let commands = shards.ids(activity).map(|id| {
            let requests = self.keys(&id).requests;
            let command = redis::cmd("HGET").arg(&requests).arg(format!("\th:{request}")).to_owned();
            (requests, command)
        });
        let commands = commands.collect();
        self.servers.discover()?;
        let values = self.servers.read_each(commands)?;
        let records = values.iter().enumerate().filter_map(|(place, value)| match value {
            Value::BulkString(record) => Some((place, HoldRecord::read(record)?)),
            _ => None,
        });
        Ok(records.into_iter().next())
    }
}
