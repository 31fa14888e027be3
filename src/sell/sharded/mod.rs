//! Single orders of any activity: straight to it, or if it is sharded, to the shard that is the user's home.
//!
//! An activity of which nothing is known is asked as if it had its units itself; one that is sharded replies its shards. So a plain
//! order is one round trip, and an order of a sharded activity is two, or one if the shards are known.

pub(crate) mod send;

use crate::error::StoreError;
use crate::model::id::{ActivityId, RequestId, StoredUser};
use crate::model::number::Quantity;
use crate::model::order::hold::{Expired, Held, Hold, HoldEnd, Settled, Step};
use crate::model::order::{Order, Outcome, Refund, RefundOf};
use crate::model::shards::Shards;
use crate::model::status::Status;
use crate::script::keys::Keys;
use crate::script::{DEDUCT, REFUND};
use crate::sell::holds::{Expiry, read_held, read_settled};
use crate::sell::orders::{read_outcome, user_text};
use crate::sell::sharded::send::Wanted;
use crate::sell::single::SingleCall;
use crate::shards::need::STUCK;
use crate::shards::peek::{Peeked, peek};
use crate::shards::supply::Finished;
use crate::store::Store;

impl Store {
    /// Takes units of one activity. With `dry_run` nothing is written.
    ///
    /// # Errors
    /// Any of [`StoreError`]; refusals are statuses of the outcome.
    pub fn deduct(&mut self, order: &Order, dry_run: bool) -> Result<Outcome, StoreError> {
        let call = self.deduct_call(order);
        let wanted = Wanted { quantity: Some(order.quantity), request: &order.request };
        let user = user_text(order.user.as_ref()).as_bytes();
        let replied = self.send_home(&order.activity, Some(user), &call, Some(wanted), dry_run)?;
        let script = DEDUCT.of(self.layout.kind());
        let read = |value, keys: &Keys| read_outcome(script, value, keys).map(|outcome| (outcome, ()));
        let (mut outcome, _) = self.outcome(replied, dry_run, read)?;
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
        let replied = self.send_home(&refund.activity, Some(user), &call, None, dry_run)?;
        let script = REFUND.of(self.layout.kind());
        let read = |value, keys: &Keys| read_outcome(script, value, keys).map(|outcome| (outcome, ()));
        let (mut outcome, _) = self.outcome(replied, dry_run, read)?;
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
    pub(crate) fn hold_at_home(
        &mut self,
        activity: &ActivityId,
        user: &[u8],
        call: &SingleCall<'_>,
        (quantity, request): (Quantity, &RequestId),
        dry_run: bool,
    ) -> Result<Held, StoreError> {
        let wanted = Wanted { quantity: Some(quantity), request };
        let replied = self.send_home(activity, Some(user), call, Some(wanted), dry_run)?;
        let (outcome, deadline) = self.outcome(replied, dry_run, |value, keys| {
            read_held(value, keys, quantity).map(|held| (held.outcome, held.deadline))
        })?;
        Ok(Held { outcome, deadline: deadline.flatten() })
    }

    /// Ends the hold of a request id. With `dry_run` nothing is written.
    ///
    /// # Errors
    /// Any of [`StoreError`], [`StoreError::NoUser`] if the activity is sharded; refusals are statuses of the outcome.
    pub fn settle_hold(&mut self, end: &HoldEnd, dry_run: bool) -> Result<Settled, StoreError> {
        let call = self.settle_call(end);
        // The hold says how many.
        let wanted = (end.step == Step::Confirm).then_some(Wanted { quantity: None, request: &end.request });
        let user = end.user.as_ref().map(StoredUser::as_bytes);
        let replied = self.send_home(&end.activity, user, &call, wanted, dry_run)?;
        let (outcome, user) = self.outcome(replied, dry_run, |value, keys| {
            read_settled(value, keys).map(|settled| (settled.outcome, settled.user))
        })?;
        Ok(Settled { outcome, user: user.flatten() })
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
}
