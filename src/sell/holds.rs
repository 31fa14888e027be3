//! Holds: one connection and one round trip for one, and pages of those that are open.

use std::collections::HashMap;

use redis::Value;

use crate::error::{Recovery, StoreError};
use crate::model::activity::Snapshot;
use crate::model::id::{ActivityId, StoredUser, UserId};
use crate::model::number::signed;
use crate::model::order::hold::{Expired, HoldRecord, HoldState, LeftHold, OpenCounts, OpenHold, Recounted};
use crate::model::shards::Shards;
use crate::model::status::Status;
use crate::model::time::Millis;
use crate::redis::call::Call;
use crate::script::SETTLE;
use crate::script::keys::Keys;
use crate::script::reply::Reply;
use crate::sell::single::Modes;
use crate::store::Store;

/// Holds that one call expires: a few milliseconds of the server's time.
const AT_ONCE: u32 = 500;
/// Open holds of one page.
const PAGE: usize = 500;

impl Store {
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

    /// Expires a page of the overdue holds of an activity, or of one shard.
    fn expire_one(&mut self, activity: &ActivityId, reason: Option<&str>, dry_run: bool) -> Result<Expiry, StoreError> {
        let keys = self.keys(activity);
        // What a call that was lost has expired is not overdue for the next.
        let value =
            self.settle_many(&keys, (AT_ONCE.to_string(), "expire"), Some(reason.unwrap_or_default()), dry_run)?;
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
        let value = self.settle_many(&keys, (most.to_string(), "recount"), None, dry_run)?;
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

    /// Calls a step of `settle` that is about many holds.
    fn settle_many(
        &mut self,
        keys: &Keys,
        (most, step): (String, &str),
        reason: Option<&str>,
        dry_run: bool,
    ) -> Result<Value, StoreError> {
        let modes = Modes::of_activity(dry_run);
        let arguments = |mode: &str| {
            let first =
                [self.kind(), self.operator.clone(), most.clone(), step.to_owned(), String::new(), mode.to_owned()];
            first.into_iter().chain(reason.map(str::to_owned)).map(String::into_bytes).collect::<Vec<_>>()
        };
        let call = Call::script(&SETTLE, keys.all(), arguments(modes.first))
            .retried_with(arguments(modes.retry))
            .with_safety(modes.safety())
            .recovered_by(Recovery::SameCall);
        self.servers.call(&call)
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
enum Expiry {
    Done(Expired),
    /// The activity has its holds in shards.
    Sharded(Shards),
}
