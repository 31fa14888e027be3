//! Single orders of any activity: straight to it, or if it is sharded, to the shard that is the user's home.
//!
//! An activity of which nothing is known is asked as if it had its units itself; one that is sharded replies its shards. So a plain
//! order is one round trip, and an order of a sharded activity is two, or one if the shards are known.

use std::time::Instant;

use redis::Value;

use super::peek::{Peeked, peek};
use super::supply::{Finished, Need, STUCK, Supplied, is_out_of_stock, patient};
use crate::inventory::hold::{Expired, Held, Hold, HoldRecord, HoldState, Settled, Step};
use crate::inventory::id::{ActivityId, RequestId, StoredUser};
use crate::inventory::layout::Layout;
use crate::inventory::number::Quantity;
use crate::inventory::order::{Bought, Corrupt, Order, Outcome, Refund, RefundOf};
use crate::inventory::shards::Shards;
use crate::inventory::status::Status;
use crate::store::holds::{Expiry, read_held, read_settled};
use crate::store::keys::Keys;
use crate::store::orders::{read_outcome, user_text};
use crate::store::reply::Reply;
use crate::store::scripts::{DEDUCT, REFUND, SETTLE};
use crate::store::single_call::{Modes, SingleCall};
use crate::store::{Store, StoreError};

/// The reply to an order.
enum Replied {
    /// Of this activity, or of this shard of it.
    Reply { value: Value, at: ActivityId, of_shard: bool },
    /// A shard says that it has not enough, and all others together have not, either: so many units are left, if that is known.
    SoldOut { value: Value, at: ActivityId, left: Option<u64> },
    /// A dry run: a shard says that it has not enough, and others have.
    WouldBorrow { value: Value, at: ActivityId },
    /// A shard is missing, or damaged.
    Broken(Corrupt),
}

/// What an order needs of the stock.
#[derive(Clone, Copy)]
struct Wanted<'a> {
    quantity: u64,
    request: &'a RequestId,
}

/// Which shard an order goes to: the home of a user, or the one with this place in the list.
#[derive(Clone, Copy)]
enum Place<'a> {
    HomeOf(&'a [u8]),
    At(usize),
}

impl Place<'_> {
    fn among(self, shards: &Shards) -> usize {
        match self {
            Self::HomeOf(user) => shards.home(user),
            Self::At(place) => place,
        }
    }
}

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

    /// The shards of an activity, as they are stored now; `None` if it is not sharded.
    ///
    /// # Errors
    /// Any of [`StoreError`].
    pub fn shards_of(&mut self, activity: &ActivityId) -> Result<Option<Shards>, StoreError> {
        let meta = self.keys(activity).meta;
        let reply = Reply::of_command("HGET");
        let value = self.servers.command(&meta, redis::cmd("HGET").arg(&meta).arg("shards"))?;
        let shards = reply.text(Some(&value))?.and_then(|text| text.parse::<Shards>().ok());
        match &shards {
            Some(shards) => _ = self.directory.learn(activity, shards.clone()),
            None => _ = self.directory.forget(activity),
        }
        Ok(shards)
    }

    /// Records that orders of an activity were applied, in any of its shards if it has some.
    ///
    /// # Errors
    /// Any of [`StoreError`].
    pub fn changed_anywhere(&mut self, activity: &ActivityId) -> Result<(), StoreError> {
        let shards = if self.layout == Layout::Cluster { self.shards_of(activity)? } else { None };
        match shards {
            Some(shards) => shards.ids(activity).for_each(|id| self.changed(&id)),
            None => self.changed(activity),
        }
        Ok(())
    }

    /// Where the units of a user are: the activity, or the user's home if it is known to be sharded.
    #[must_use]
    pub fn home_of(&self, activity: &ActivityId, user: &[u8]) -> ActivityId {
        self.directory.get(activity).map_or_else(|| activity.clone(), |shards| shards.home_of(activity, user))
    }

    /// Sends an order to where the units of its user are. One that is `wanted` takes units, and gets them from other shards.
    fn send_home(
        &mut self,
        activity: &ActivityId,
        user: &[u8],
        call: &SingleCall<'_>,
        wanted: Option<Wanted<'_>>,
        dry_run: bool,
    ) -> Result<Replied, StoreError> {
        let mut missing: Option<Shards> = None;
        loop {
            let Some(shards) = self.directory.get(activity).cloned() else {
                let value = self.send_single(call, activity, plain(dry_run))?;
                if self.learn(activity, call, &value)? {
                    continue;
                }
                return Ok(Replied::Reply { value, at: activity.clone(), of_shard: false });
            };
            match self.send_to(activity, &shards, Place::HomeOf(user), call, wanted, dry_run)? {
                Some(replied) => return Ok(replied),
                None => {
                    if let Some(broken) = self.missing(activity, &shards, &mut missing) {
                        return Ok(Replied::Broken(broken));
                    }
                }
            }
        }
    }

    /// The activities that have the units of a user: the activities themselves, or of those that are sharded, the home.
    pub(in crate::store) fn homes_of(
        &mut self,
        activities: &[&ActivityId],
        user: &[u8],
    ) -> Result<Vec<ActivityId>, StoreError> {
        let unknown: Vec<ActivityId> =
            activities.iter().filter(|id| self.directory.get(id).is_none()).map(|id| (*id).clone()).collect();
        let ask = |id: &ActivityId| {
            let meta = self.keys(id).meta;
            let command = redis::cmd("HGET").arg(&meta).arg("shards").to_owned();
            (meta, command)
        };
        let commands = unknown.iter().map(ask).collect();
        let reply = Reply::of_command("HGET");
        for (id, value) in unknown.iter().zip(self.servers.read_each(commands)?) {
            if let Some(shards) = reply.text(Some(&value))?.and_then(|text| text.parse::<Shards>().ok()) {
                self.directory.learn(id, shards);
            }
        }
        Ok(activities.iter().map(|id| self.home_of(id, user)).collect())
    }

    /// Remembers the shards of an activity that replied them; false if it replied anything else.
    fn learn(&mut self, activity: &ActivityId, call: &SingleCall<'_>, value: &Value) -> Result<bool, StoreError> {
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
    fn missing(&mut self, activity: &ActivityId, shards: &Shards, before: &mut Option<Shards>) -> Option<Corrupt> {
        self.directory.forget(activity);
        if before.as_ref() == Some(shards) {
            let what = "names a shard that is not there: was it evicted, or removed?".to_owned();
            return Some(Corrupt { key: self.keys(activity).meta, what });
        }
        *before = Some(shards.clone());
        None
    }

    /// Sends an order to a shard; `None` if that is gone.
    fn send_to(
        &mut self,
        activity: &ActivityId,
        shards: &Shards,
        place: Place<'_>,
        call: &SingleCall<'_>,
        wanted: Option<Wanted<'_>>,
        dry_run: bool,
    ) -> Result<Option<Replied>, StoreError> {
        let home = place.among(shards);
        let at = activity.shard(shards.numbers()[home]);
        let modes = match (&wanted, place) {
            _ if dry_run => Modes::DRY,
            (None, _) => Modes::FINAL,
            (Some(_), Place::HomeOf(_)) => Modes::SHARD,
            // An expired hold whose confirmation is refused is void.
            (Some(_), Place::At(_)) => Modes::BORROW,
        };
        let value = self.send_single(call, &at, modes)?;
        if is_gone(&value) {
            return Ok(None);
        }
        let Some(wanted) = wanted.filter(|it| is_out_of_stock(&value) || dry_run && would_be_void(&value, it.quantity))
        else {
            return Ok(Some(Replied::Reply { value, at, of_shard: true }));
        };
        let safe = call.safe(&self.keys(&at));
        let stop = std::sync::Arc::clone(&self.stop);
        let need = Need {
            activity,
            shards,
            home,
            quantity: wanted.quantity,
            request: wanted.request.as_str(),
            order: (!dry_run).then_some((&safe, &call.settle)),
            began: Instant::now(),
            at_most: patient(self.servers.target().timeout),
            stop: &|| stop(),
        };
        let supplied = if dry_run {
            match self.supply.look(&mut self.servers, &need)? {
                Supplied::Here => return Ok(Some(Replied::WouldBorrow { value, at })),
                supplied => supplied,
            }
        } else {
            self.supplied(&need, call, &at)?
        };
        Ok(match supplied {
            Supplied::Decided(value) => {
                if is_gone(&value) {
                    return Ok(None);
                }
                Some(Replied::Reply { value, at, of_shard: true })
            }
            Supplied::SoldOut { left } => {
                if dry_run {
                    return Ok(Some(Replied::SoldOut { value, at, left }));
                }
                // A late copy of what was sent may not take what somebody returns after this refusal.
                let was_broken = call.was_broken() || std::mem::take(&mut self.supply.was_broken);
                let modes = if was_broken { Modes::FINAL_AGAIN } else { Modes::FINAL };
                let value = self.send_single(call, &at, modes)?;
                Some(match is_out_of_stock(&value) {
                    true => Replied::SoldOut { value, at, left },
                    false => Replied::Reply { value, at, of_shard: true },
                })
            }
            Supplied::Corrupt(corrupt) => Some(Replied::Broken(corrupt)),
            Supplied::Here | Supplied::Changed | Supplied::Stopped => None,
        })
    }

    /// Gets units for a home and sends the order there, until it is decided; what took units is settled.
    fn supplied(&mut self, need: &Need<'_>, call: &SingleCall<'_>, at: &ActivityId) -> Result<Supplied, StoreError> {
        let ended = loop {
            match self.supply.supply(&mut self.servers, need) {
                Ok(Supplied::Here) => {
                    let value = self.send_single(call, at, Modes::BORROW)?;
                    if !is_out_of_stock(&value) {
                        break Ok(Supplied::Decided(value));
                    }
                    need.check_time(|| "others took them first".to_owned())?;
                }
                Ok(Supplied::Stopped) => break Err(need.failed("it was interrupted".to_owned())),
                ended => break ended,
            }
        };
        self.supply.settle(&mut self.servers);
        ended
    }

    /// Reads a reply by `read`, which gives the outcome and what else is in the reply. What a shard has left says little of the sale.
    fn outcome<T>(
        &self,
        replied: Replied,
        quantity: Quantity,
        dry_run: bool,
        read: impl Fn(Value, &Keys) -> Result<(Outcome, T), StoreError>,
    ) -> Result<(Outcome, Option<T>), StoreError> {
        let (value, at, stock) = match replied {
            Replied::Broken(corrupt) => return Ok((Outcome::corrupt(corrupt), None)),
            Replied::Reply { value, at, of_shard: false } => (value, at, None),
            Replied::Reply { value, at, of_shard: true } => (value, at, Some(None)),
            Replied::SoldOut { value, at, left } => (value, at, Some(left)),
            Replied::WouldBorrow { value, at } => {
                let (mut outcome, rest) = read(value, &self.keys(&at))?;
                outcome.status = Status::Ok;
                outcome.stock = None;
                outcome.bought = outcome.bought.map(|bought| match bought {
                    Bought::Units(units) => Bought::Units(units + quantity.get()),
                    Bought::Unknown => Bought::Unknown,
                });
                return Ok((outcome, Some(rest)));
            }
        };
        let (mut outcome, rest) = read(value, &self.keys(&at))?;
        if outcome.status.is_done() && !dry_run {
            self.changed(&at);
        }
        if let Some(stock) = stock {
            outcome.stock = stock;
        }
        Ok((outcome, Some(rest)))
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

/// How an activity is asked of which nothing is known.
fn plain(dry_run: bool) -> Modes {
    if dry_run { Modes::DRY } else { Modes::FINAL }
}

/// Whether a dry run says that a hold is over because its shard has fewer units than this.
fn would_be_void(value: &Value, quantity: u64) -> bool {
    let Value::Array(values) = value else { return false };
    let stock = Reply::of(&SETTLE).count(values.get(1)).ok().flatten();
    values.first() == Some(&Value::Int(Status::Expired.code())) && stock.is_some_and(|stock| stock < quantity)
}

/// Whether a shard is not there.
fn is_gone(value: &Value) -> bool {
    matches!(value, Value::Array(values) if values.first() == Some(&Value::Int(Status::NotPreheated.code())))
}
