//! Sends an order to the shard that has the units of its user, which gets units from other shards.

use std::time::Instant;

use redis::Value;

use super::need::{Need, Supplied, is_out_of_stock, patient};
use crate::inventory::id::{ActivityId, RequestId};
use crate::inventory::number::Quantity;
use crate::inventory::order::{Bought, Corrupt, Outcome};
use crate::inventory::shards::Shards;
use crate::inventory::status::Status;
use crate::store::keys::Keys;
use crate::store::reply::Reply;
use crate::store::scripts::SETTLE;
use crate::store::single_call::{Modes, SingleCall};
use crate::store::{Store, StoreError};

/// The reply to an order.
pub(super) enum Replied {
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
pub(super) struct Wanted<'a> {
    pub(super) quantity: u64,
    pub(super) request: &'a RequestId,
}

/// Which shard an order goes to: the home of a user, or the one with this place in the list.
#[derive(Clone, Copy)]
pub(super) enum Place<'a> {
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
    /// Sends an order to where the units of its user are. One that is `wanted` takes units, and gets them from other shards.
    pub(super) fn send_home(
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

    /// Remembers the shards of an activity that replied them; false if it replied anything else.
    pub(super) fn learn(
        &mut self,
        activity: &ActivityId,
        call: &SingleCall<'_>,
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
    pub(super) fn missing(
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

    /// Sends an order to a shard; `None` if that is gone.
    pub(super) fn send_to(
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
    pub(super) fn outcome<T>(
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
}

/// How an activity is asked of which nothing is known.
pub(super) fn plain(dry_run: bool) -> Modes {
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
