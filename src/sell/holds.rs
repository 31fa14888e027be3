//! Holds: one connection and one round trip for one, and pages of those that are open.

use std::collections::HashMap;

use redis::Value;

use crate::error::{Settle, StoreError};
use crate::model::activity::Snapshot;
use crate::model::id::{ActivityId, StoredUser, UserId};
use crate::model::number::{Quantity, signed};
use crate::model::order::Outcome;
use crate::model::order::hold::{
    Expired, Held, Hold, HoldEnd, HoldRecord, HoldState, LeftHold, OpenCounts, OpenHold, Recounted, Settled,
};
use crate::model::shards::Shards;
use crate::model::status::Status;
use crate::model::time::Millis;
use crate::redis::call::Again;
use crate::script::keys::Keys;
use crate::script::reply::Reply;
use crate::script::{HOLD, SETTLE};
use crate::sell::orders::mode;
use crate::sell::single::{SingleCall, same_request};
use crate::store::Store;

/// Holds that one call expires: a few milliseconds of the server's time.
const AT_ONCE: u32 = 500;
/// Open holds of one page.
const PAGE: usize = 500;

impl Store {
    /// The call that takes units of one activity until a deadline.
    pub(crate) fn hold_call<'a>(&self, hold: &'a Hold) -> SingleCall<'a> {
        let (kind, by) = (self.kind(), self.operator.clone());
        SingleCall::new(&HOLD, same_request(&hold.request), move |mode| {
            let arguments = [
                kind.clone(),
                by.clone(),
                hold.user.to_string(),
                hold.quantity.to_string(),
                hold.request.to_string(),
                mode.to_owned(),
                hold.reason.clone().unwrap_or_default(),
                hold.hold_for.millis().to_string(),
            ];
            arguments.map(String::into_bytes).into()
        })
    }

    /// The call that ends the hold of a request id.
    pub(crate) fn settle_call<'a>(&self, end: &'a HoldEnd) -> SingleCall<'a> {
        let (kind, by) = (self.kind(), self.operator.clone());
        SingleCall::new(&SETTLE, Settle::SameCall, move |mode| {
            let reason = end.reason.as_deref().unwrap_or_default();
            let arguments = [&kind, &by, end.request.as_str(), end.step.name(), "", mode, reason];
            let user = end.user.as_ref().map(StoredUser::as_bytes);
            arguments.into_iter().map(str::as_bytes).chain(user).map(<[u8]>::to_vec).collect()
        })
    }

    /// Returns the units of overdue holds, of a page of them. With `dry_run` nothing is written.
    ///
    /// # Errors
    /// Any of [`StoreError`]; why nothing can be done is a status.
    pub(crate) fn expire_one(
        &mut self,
        activity: &ActivityId,
        reason: Option<&str>,
        dry_run: bool,
    ) -> Result<Expiry, StoreError> {
        let keys = self.keys(activity);
        let names: Vec<&str> = keys.all().collect();
        let first = [self.kind(), self.operator.clone(), AT_ONCE.to_string(), "expire".to_owned(), String::new()];
        // What a call that was lost has expired is not overdue for the next.
        let again = if dry_run { Again::Reads } else { Again::Safe };
        let value = self.servers.run(&SETTLE, &names, again, Some(Settle::SameCall), |nth| {
            let rest = [mode(dry_run, nth).to_owned(), reason.unwrap_or_default().to_owned()];
            first.iter().cloned().chain(rest).collect::<Vec<String>>()
        })?;
        let reply = Reply::of(&SETTLE);
        let values = reply.array(value)?;
        let status = reply.status(values.first())?;
        if let Some(shards) = reply.shards(&values)? {
            return Ok(Expiry::Sharded(shards));
        }
        let mut expired =
            Expired { status, corrupt: None, holds: 0, units: 0, stock: None, has_more: false, left: Vec::new() };
        match status {
            Status::Ok => {
                expired.holds = reply.count(values.get(2))?.unwrap_or_default();
                expired.units = reply.count(values.get(3))?.unwrap_or_default();
                expired.stock = reply.count(values.get(1))?;
                expired.has_more = reply.count(values.get(4))? == Some(1);
                let ids = values.get(5..).unwrap_or_default().chunks(2);
                expired.left = ids
                    .map(|pair| {
                        let request = reply.text(pair.first())?.unwrap_or_default();
                        Ok(LeftHold { activity: activity.clone(), request, order: reply.text(pair.get(1))? })
                    })
                    .collect::<Result<_, StoreError>>()?;
                if expired.holds > 0 && !dry_run {
                    self.changed(activity);
                }
            }
            Status::Corrupt => expired.corrupt = Some(reply.corrupt(&values, &keys)?),
            _ => {}
        }
        Ok(Expiry::Done(expired))
    }

    /// Counts what is held open by the holds themselves, all at one instant, unless more than `most` are open. Unless
    /// `dry_run`, the counts are what the holds say after it.
    ///
    /// # Errors
    /// Any of [`StoreError`].
    pub fn recount(&mut self, activity: &ActivityId, most: u64, dry_run: bool) -> Result<Recounted, StoreError> {
        let keys = self.keys(activity);
        let names: Vec<&str> = keys.all().collect();
        let first = [self.kind(), self.operator.clone(), most.to_string(), "recount".to_owned(), String::new()];
        let again = if dry_run { Again::Reads } else { Again::Safe };
        let value = self.servers.run(&SETTLE, &names, again, Some(Settle::SameCall), |nth| {
            first.iter().cloned().chain([mode(dry_run, nth).to_owned()]).collect::<Vec<String>>()
        })?;
        let reply = Reply::of(&SETTLE);
        let values = reply.array(value)?;
        match reply.status(values.first())? {
            Status::Ok => {}
            Status::Corrupt => return Ok(Recounted::Corrupt(reply.corrupt(&values, &keys)?)),
            _ => return Ok(Recounted::Gone),
        }
        let number = |value| Ok::<_, StoreError>(reply.count(value)?.unwrap_or_default());
        let Some(counted) = reply.count(values.get(3))? else { return Ok(Recounted::TooMany) };
        let mut users = Vec::with_capacity(values.len() / 3);
        for row in values.get(4..).unwrap_or_default().chunks(3) {
            let Some(Value::BulkString(user)) = row.first() else { return Err(reply.invalid(row)) };
            users.push((StoredUser::new(user.clone()), number(row.get(1))?, number(row.get(2))?));
        }
        let counts = OpenCounts { stored: number(values.get(2))?, counted, users };
        if !dry_run && !counts.is_right() {
            self.changed(activity);
        }
        Ok(Recounted::Counts(counts))
    }

    /// Gives each open hold of an activity, by deadline; with `overdue` those alone whose deadline is over by the server's clock.
    /// Those that are settled meanwhile may be missing.
    ///
    /// # Errors
    /// Any of [`StoreError`].
    pub fn open_holds<E: From<StoreError>>(
        &mut self,
        activity: &ActivityId,
        overdue: bool,
        mut each: impl FnMut(OpenHold) -> Result<(), E>,
    ) -> Result<(), E> {
        let keys = self.keys(activity);
        let Some(deadlines) = keys.deadlines.clone() else { return Ok(()) };
        let upto = if overdue { self.clock(activity)?.get().to_string() } else { "+inf".to_owned() };
        let reply = Reply::of_command("ZRANGEBYSCORE");
        let (mut from, mut seen) = ("-inf".to_owned(), Vec::<String>::new());
        loop {
            let mut command = redis::cmd("ZRANGEBYSCORE");
            // Those that were seen at the last deadline of the page before come again.
            command.arg(&deadlines).arg(&from).arg(&upto).arg("WITHSCORES").arg("LIMIT").arg(0).arg(PAGE + seen.len());
            let page = reply.array(self.servers.command(&deadlines, &command)?)?;
            let mut found = Vec::with_capacity(page.len() / 2);
            for pair in page.chunks(2) {
                let score = score(pair.get(1)).ok_or_else(|| reply.invalid(pair))?;
                found.push((reply.text(pair.first())?.unwrap_or_default(), score));
            }
            let Some((_, last)) = found.last().cloned() else { return Ok(()) };
            let is_end = found.len() < PAGE + seen.len();
            let new: Vec<String> = found.iter().map(|(id, _)| id.clone()).filter(|id| !seen.contains(id)).collect();
            for hold in self.records(&keys, &new)? {
                each(hold)?;
            }
            if is_end {
                return Ok(());
            }
            if from == last {
                seen.extend(new);
            } else {
                seen = found.into_iter().filter(|(_, score)| *score == last).map(|(id, _)| id).collect();
            }
            from = last;
        }
    }

    /// Those of some ids that are held.
    fn records(&mut self, keys: &Keys, ids: &[String]) -> Result<Vec<OpenHold>, StoreError> {
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let mut command = redis::cmd("HMGET");
        command.arg(&keys.requests);
        for id in ids {
            command.arg(format!("\th:{id}"));
        }
        let values = Reply::of_command("HMGET").array(self.servers.command(&keys.requests, &command)?)?;
        let record = |(id, value): (&String, Value)| match value {
            Value::BulkString(record) => {
                let record = HoldRecord::read(&record).filter(|record| record.state == HoldState::Held)?;
                Some(OpenHold { request: id.clone(), record })
            }
            _ => None,
        };
        Ok(ids.iter().zip(values).filter_map(record).collect())
    }

    /// Units that some users hold open.
    pub(crate) fn open_units(&mut self, keys: &Keys, users: &[&[u8]]) -> Result<Vec<i64>, StoreError> {
        let mut command = redis::cmd("HMGET");
        command.arg(&keys.requests);
        for user in users {
            command.arg([b"\to:", *user].concat());
        }
        let reply = Reply::of_command("HMGET");
        let values = reply.array(self.servers.command(&keys.requests, &command)?)?;
        values
            .iter()
            .map(|value| Ok(reply.count(Some(value))?.and_then(|units| i64::try_from(units).ok()).unwrap_or(0)))
            .collect()
    }

    /// Units that some users hold open of an activity, in their order.
    ///
    /// # Errors
    /// Any of [`StoreError`].
    pub fn held_open(&mut self, snapshot: &Snapshot, users: &[UserId]) -> Result<Vec<u64>, StoreError> {
        if users.is_empty() || snapshot.meta.as_ref().is_none_or(|meta| meta.holds == 0) {
            return Ok(vec![0; users.len()]);
        }
        let keys = self.keys(&snapshot.activity);
        let users: Vec<&[u8]> = users.iter().map(|user| user.as_str().as_bytes()).collect();
        let open = self.open_units(&keys, &users)?;
        Ok(open.into_iter().map(|units| u64::try_from(units).unwrap_or_default()).collect())
    }

    /// Units that each user holds open, by the holds themselves.
    pub(crate) fn open_by_user(&mut self, activity: &ActivityId) -> Result<HashMap<Vec<u8>, i64>, StoreError> {
        let mut open = HashMap::new();
        self.open_holds(activity, false, |hold| {
            *open.entry(hold.record.user.as_bytes().to_vec()).or_default() += signed(hold.record.quantity);
            Ok::<_, StoreError>(())
        })?;
        Ok(open)
    }

    fn clock(&mut self, activity: &ActivityId) -> Result<Millis, StoreError> {
        Ok(self.snapshot(activity)?.at)
    }
}

/// A score as it is sent to ask for it again.
fn score(value: Option<&Value>) -> Option<String> {
    match value {
        Some(Value::BulkString(text)) => std::str::from_utf8(text).ok().map(str::to_owned),
        Some(Value::Double(number)) => Some(format!("{number:.0}")),
        _ => None,
    }
}

/// What one call to expire came to.
#[derive(Debug)]
pub(crate) enum Expiry {
    Done(Expired),
    /// The activity has its holds in shards.
    Sharded(Shards),
}

/// Reads the reply to a hold of so many units, of the activity with these keys.
pub(crate) fn read_held(value: Value, keys: &Keys, quantity: Quantity) -> Result<Held, StoreError> {
    let reply = Reply::of(&HOLD);
    let values = reply.array(value)?;
    let mut outcome = outcome(&reply, &values, keys)?;
    let is_corrupt = outcome.corrupt.is_some();
    outcome.quantity = Some(quantity.get()).filter(|_| !is_corrupt);
    let deadline = if is_corrupt { None } else { reply.count(values.get(3))?.map(Millis::new) };
    Ok(Held { outcome, deadline })
}

/// Reads the reply to the end of a hold, of the activity with these keys.
pub(crate) fn read_settled(value: Value, keys: &Keys) -> Result<Settled, StoreError> {
    let reply = Reply::of(&SETTLE);
    let values = reply.array(value)?;
    let mut outcome = outcome(&reply, &values, keys)?;
    let user = match values.get(4) {
        Some(Value::BulkString(user)) if outcome.corrupt.is_none() => Some(StoredUser::new(user.clone())),
        _ => None,
    };
    if outcome.corrupt.is_none() {
        outcome.quantity = reply.count(values.get(3))?;
    }
    Ok(Settled { outcome, user })
}

/// What both scripts reply first: status, stock and what the user holds.
fn outcome(reply: &Reply<'_>, values: &[Value], keys: &Keys) -> Result<Outcome, StoreError> {
    let status = reply.status(values.first())?;
    if status == Status::Corrupt {
        return Ok(Outcome::corrupt(reply.corrupt(values, keys)?));
    }
    let (stock, bought) = (reply.count(values.get(1))?, reply.bought(values.get(2))?);
    Ok(Outcome { status, quantity: None, stock, bought, corrupt: None })
}
