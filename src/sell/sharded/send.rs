//! Sends an order to the shard that has the units of its user, which gets units from other shards.

use std::time::Instant;

use redis::Value;

use crate::error::StoreError;
use crate::model::id::{ActivityId, RequestId};
use crate::model::number::Quantity;
use crate::model::order::hold::{HoldRecord, HoldState};
use crate::model::order::{Bought, Corrupt, Outcome};
use crate::model::shards::Shards;
use crate::model::status::Status;
use crate::script::SETTLE;
use crate::script::keys::Keys;
use crate::script::reply::Reply;
use crate::sell::single::{Modes, SingleCall};
use crate::shards::need::{Need, Supplied, is_out_of_stock, patient};
use crate::store::Store;

/// The reply to an order.
pub(crate) enum Replied {
    /// Of this activity, or of this shard of it.
    Reply { value: Value, at: ActivityId, of_shard: bool },
    /// Neither a shard nor all others together have enough: the units that are left.
    SoldOut { value: Value, at: ActivityId, left: u64 },
    /// A dry run: the shard has too few units, and others have enough.
    WouldBorrow { value: Value, at: ActivityId, units: u64 },
    /// A shard is missing, or damaged.
    Broken(Corrupt),
}

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
            let nobody = || StoreError::NoUser { activity: activity.to_string(), line: None };
            let home = shards.home(user.ok_or_else(nobody)?);
            match self.send_to(activity, &shards, home, call, wanted, dry_run)? {
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

    /// Sends an order to a shard, by its place in the list; `None` if that is gone.
    fn send_to(
        &mut self,
        activity: &ActivityId,
        shards: &Shards,
        home: usize,
        call: &SingleCall<'_>,
        wanted: Option<Wanted<'_>>,
        dry_run: bool,
    ) -> Result<Option<Replied>, StoreError> {
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
            return Ok(None);
        }
        let short = match wanted {
            Some(wanted) => self.short_of(&wanted, &value, &at, dry_run)?.map(|units| (wanted, units)),
            None => None,
        };
        let Some((wanted, quantity)) = short else {
            return Ok(Some(Replied::Reply { value, at, of_shard: true }));
        };
        let safe = call.safe(&self.keys(&at));
        let stop = std::sync::Arc::clone(&self.stop);
        let need = Need {
            activity,
            shards,
            home,
            quantity,
            request: wanted.request.as_str(),
            order: (!dry_run).then_some((&safe, &call.settle)),
            began: Instant::now(),
            at_most: patient(self.servers.target().timeout),
            stop: &|| stop(),
        };
        let supplied = if dry_run {
            match self.supply.look(&mut self.servers, &need)? {
                Supplied::Here => return Ok(Some(Replied::WouldBorrow { value, at, units: quantity })),
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
            Supplied::SoldOut { left, .. } => {
                if dry_run {
                    return Ok(Some(Replied::SoldOut { value, at, left }));
                }
                // A late copy of what was sent may not take what somebody returns after this refusal.
                let was_broken = call.was_broken() || self.supply.was_broken;
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

    /// Gets units for a home and sends the order there, until it is decided; what took units is settled.
    fn supplied(&mut self, need: &Need<'_>, call: &SingleCall<'_>, at: &ActivityId) -> Result<Supplied, StoreError> {
        self.supply.was_broken = false;
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
        if !call.was_broken() && !self.supply.was_broken {
            return ended;
        }
        // A copy of the order may still come, and take units.
        let why = match ended {
            Ok(Supplied::Corrupt(corrupt)) => format!("key `{}` {}", corrupt.key, corrupt.what),
            Err(error) if !matches!(error, StoreError::Unknown { .. }) => error.to_string(),
            ended => return ended,
        };
        let server = self.servers.target().shown.clone();
        Err(StoreError::Unknown { server, why, settle: Some(call.settle.clone()) })
    }

    /// Reads a reply by `read`, which gives the outcome and what else is in the reply. What a shard has left says little of the sale.
    pub(crate) fn outcome<T>(
        &self,
        replied: Replied,
        dry_run: bool,
        read: impl Fn(Value, &Keys) -> Result<(Outcome, T), StoreError>,
    ) -> Result<(Outcome, Option<T>), StoreError> {
        let (value, at, stock) = match replied {
            Replied::Broken(corrupt) => return Ok((Outcome::corrupt(corrupt), None)),
            Replied::Reply { value, at, of_shard: false } => (value, at, None),
            Replied::Reply { value, at, of_shard: true } => (value, at, Some(None)),
            Replied::SoldOut { value, at, left } => (value, at, Some(Some(left))),
            Replied::WouldBorrow { value, at, units } => {
                let (mut outcome, rest) = read(value, &self.keys(&at))?;
                outcome.status = Status::Ok;
                outcome.stock = None;
                outcome.bought = outcome.bought.map(|bought| match bought {
                    Bought::Units(bought) => Bought::Units(bought + units),
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
fn plain(dry_run: bool) -> Modes {
    if dry_run { Modes::DRY } else { Modes::FINAL }
}

/// Whether a shard is not there.
fn is_gone(value: &Value) -> bool {
    matches!(value, Value::Array(values) if values.first() == Some(&Value::Int(Status::NotPreheated.code())))
}
