//! Activities as a whole: preheat, pause, snapshots and the index of all that were preheated.

use redis::Value;

use super::call::{Again, Try};
use super::keys::Keys;
use super::reply::Reply;
use super::scan::Unanswered;
use super::scripts::{PAUSE, PREHEAT, SNAPSHOT};
use super::{Store, StoreError};
use crate::inventory::activity::{Action, Difference, Meta, Plan, Preheat, Preheated, Snapshot};
use crate::inventory::checkpoint::Checkpoint;
use crate::inventory::id::{ActivityId, UserId};
use crate::inventory::order::Corrupt;
use crate::inventory::status::Status;
use crate::inventory::time::Millis;

/// A field of a plan as the script takes it: `=text`, or empty where it is not given.
fn given(field: Option<impl ToString>) -> String {
    field.map(|value| format!("={}", value.to_string())).unwrap_or_default()
}

/// Activities of one round trip: a few milliseconds of the server's time.
const AT_ONCE: usize = 200;

impl Store {
    /// Makes one activity what the plan says, or tells how it differs. With `dry_run` nothing is written.
    ///
    /// # Errors
    /// Any of [`StoreError`]; refusals are statuses.
    pub fn preheat(
        &mut self,
        plan: &Plan,
        how: Preheat,
        dry_run: bool,
        reason: Option<&str>,
    ) -> Result<Preheated, StoreError> {
        let index = Keys::index(self.layout);
        if !dry_run && how != Preheat::Update {
            // Before the activity, so that one that sells is never missing from the index.
            self.server.command(redis::cmd("SADD").arg(index).arg(plan.id.as_str()))?;
        }
        let keys = self.keys(&plan.id);
        let names: Vec<&str> = keys.in_order().collect();
        // A reset that is sent twice would remove what was bought in between.
        let again = match (dry_run, how) {
            (true, _) => Again::Reads,
            (false, Preheat::Reset) => Again::Harm,
            (false, _) => Again::Safe,
        };
        let settle = Some(settle_preheat(plan));
        let arguments = preheat_arguments(self, plan, how, dry_run, reason);
        let value = self.server.run(&PREHEAT, &names, again, settle, |_: Try| arguments.clone())?;
        preheated(plan, value, &keys)
    }

    /// Makes several activities what their plans say, many at once, each atomically. `each` gets the number of a plan
    /// and what became of it, also before an error: what it was not told of was not done, or is in doubt.
    ///
    /// # Errors
    /// Any of [`StoreError`]; refusals are statuses.
    pub fn preheat_all(
        &mut self,
        plans: &[&Plan],
        how: Preheat,
        dry_run: bool,
        reason: Option<&str>,
        mut each: impl FnMut(usize, Preheated),
    ) -> Result<(), StoreError> {
        let Some((first, rest)) = plans.split_first() else { return Ok(()) };
        // The first call loads the script, which a pipeline could not.
        each(0, self.preheat(first, how, dry_run, reason)?);
        for (nth, chunk) in rest.chunks(AT_ONCE).enumerate() {
            self.preheat_chunk(chunk, how, dry_run, reason, |at, done| each(1 + nth * AT_ONCE + at, done))?;
        }
        Ok(())
    }

    /// The same for a few, in one round trip. What was not answered is sent again, one by one, where that is safe.
    fn preheat_chunk(
        &mut self,
        plans: &[&Plan],
        how: Preheat,
        dry_run: bool,
        reason: Option<&str>,
        mut each: impl FnMut(usize, Preheated),
    ) -> Result<(), StoreError> {
        if !dry_run && how != Preheat::Update {
            let mut index = redis::cmd("SADD");
            index.arg(Keys::index(self.layout));
            plans.iter().for_each(|plan| {
                index.arg(plan.id.as_str());
            });
            self.server.command(&index)?;
        }
        let keys: Vec<Keys> = plans.iter().map(|plan| self.keys(&plan.id)).collect();
        let mut pipeline = redis::pipe();
        for (plan, keys) in plans.iter().zip(&keys) {
            let names: Vec<&str> = keys.in_order().collect();
            let arguments = preheat_arguments(self, plan, how, dry_run, reason);
            pipeline.cmd("EVALSHA").arg(&PREHEAT.sha1).arg(names.len()).arg(names).arg(arguments);
        }
        let replies = self.server.each_reply(&pipeline, plans.len());
        let mut left = Vec::new();
        for (nth, reply) in replies.into_iter().enumerate() {
            match reply {
                Ok(value) => each(nth, preheated(plans[nth], value, &keys[nth])?),
                Err(failed) => left.push((nth, failed)),
            }
        }
        for (nth, failed) in left {
            let plan = plans[nth];
            match failed {
                Unanswered::Lost(why) if how == Preheat::Reset && !dry_run => {
                    let settle = Some(settle_preheat(plan));
                    return Err(StoreError::Unknown { server: self.server.target.shown.clone(), why, settle });
                }
                // Nothing of it ran, or it says what should be.
                Unanswered::Lost(_) | Unanswered::NotRun => each(nth, self.preheat(plan, how, dry_run, reason)?),
                Unanswered::Refused(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// What the server does when it is out of memory; `None` where it does not say.
    ///
    /// # Errors
    /// Any of [`StoreError`]; a user who may not ask among them.
    pub fn eviction_policy(&mut self) -> Result<Option<String>, StoreError> {
        let value = self.server.command(redis::cmd("CONFIG").arg("GET").arg("maxmemory-policy"))?;
        let reply = Reply::of_command("CONFIG GET");
        reply.text(reply.array(value)?.get(1))
    }

    /// The server's clock.
    ///
    /// # Errors
    /// Any of [`StoreError`].
    pub fn now(&mut self) -> Result<Millis, StoreError> {
        let reply = Reply::of_command("TIME");
        let parts = reply.array(self.server.command(&redis::cmd("TIME"))?)?;
        let part = |at: usize| reply.count(parts.get(at)).map(Option::unwrap_or_default);
        Ok(Millis::new(part(0)? * 1000 + part(1)? / 1000))
    }

    /// Refuses purchases of an activity, or allows them again: `ok`, `replayed` where it was so already, or why not,
    /// with the key that is corrupt.
    ///
    /// # Errors
    /// Any of [`StoreError`].
    pub fn set_paused(
        &mut self,
        activity: &ActivityId,
        paused: bool,
        reason: Option<&str>,
        dry_run: bool,
    ) -> Result<(Status, Option<Corrupt>), StoreError> {
        let keys = self.keys(activity);
        let names: Vec<&str> = keys.in_order().collect();
        let by = self.operator.clone();
        let settle = Some("send the same command again: it changes nothing if it was applied".to_owned());
        let value = self.server.run(&PAUSE, &names, Again::Safe, settle, |_| {
            [if paused { "paused" } else { "live" }, &by, reason.unwrap_or_default(), if dry_run { "1" } else { "0" }]
                .map(str::to_owned)
                .to_vec()
        })?;
        let reply = Reply::of(&PAUSE);
        let values = reply.array(value)?;
        let status = reply.status(values.first())?;
        let corrupt = (status == Status::Corrupt).then(|| reply.corrupt(&values, &keys)).transpose()?;
        Ok((status, corrupt))
    }

    /// One activity at one instant.
    ///
    /// # Errors
    /// Any of [`StoreError`]; what is missing or corrupt is a status.
    pub fn snapshot(&mut self, activity: &ActivityId) -> Result<Snapshot, StoreError> {
        Ok(self.bought(activity, &[])?.0)
    }

    /// One activity, and what some users hold at that same instant: `None` for nothing.
    ///
    /// # Errors
    /// Any of [`StoreError`]; a record that is no number is `corrupt` in the snapshot.
    pub fn bought(
        &mut self,
        activity: &ActivityId,
        users: &[UserId],
    ) -> Result<(Snapshot, Vec<Option<u64>>), StoreError> {
        let keys = self.keys(activity);
        let names: Vec<&str> = keys.in_order().collect();
        let kind = self.kind();
        let value = self.server.run(&SNAPSHOT, &names, Again::Reads, None, |_| {
            std::iter::once(kind.clone()).chain(users.iter().map(|user| user.as_str().to_owned())).collect()
        })?;
        snapshot(activity, value, &keys)
    }

    /// Several activities, each at its own instant.
    ///
    /// # Errors
    /// Any of [`StoreError`].
    pub fn snapshots(&mut self, activities: &[ActivityId]) -> Result<Vec<Snapshot>, StoreError> {
        let Some((first, rest)) = activities.split_first() else { return Ok(Vec::new()) };
        // The first call loads the script where the server lost it; a pipeline could not.
        let mut all = vec![self.snapshot(first)?];
        for chunk in rest.chunks(500) {
            let keys: Vec<Keys> = chunk.iter().map(|activity| self.keys(activity)).collect();
            let mut pipeline = redis::pipe();
            for keys in &keys {
                let names: Vec<&str> = keys.in_order().collect();
                pipeline.cmd("EVALSHA").arg(&SNAPSHOT.sha1).arg(names.len()).arg(names).arg(self.kind());
            }
            let values = self.server.pipeline(&pipeline, chunk.len())?;
            for ((activity, keys), value) in chunk.iter().zip(&keys).zip(values) {
                all.push(snapshot(activity, value, keys)?.0);
            }
        }
        Ok(all)
    }

    /// Everything that was preheated in this layout, sorted: numbers by size, then the rest as text.
    ///
    /// # Errors
    /// Any of [`StoreError`].
    pub fn preheated(&mut self) -> Result<Vec<ActivityId>, StoreError> {
        let mut found = Vec::new();
        let index = Keys::index(self.layout);
        self.pages(
            |cursor| redis::cmd("SSCAN").arg(index).arg(cursor).arg("COUNT").arg(1000).to_owned(),
            |id| {
                found.extend(id.parse::<ActivityId>().ok());
            },
        )?;
        Ok(sorted(found))
    }

    /// Activities that another system created with the layout's keys: found by walking the keyspace.
    ///
    /// # Errors
    /// Any of [`StoreError`].
    pub fn foreign(&mut self) -> Result<Vec<ActivityId>, StoreError> {
        let known = self.preheated()?;
        let (before, after) = Keys::stock_pattern(self.layout);
        let mut found = Vec::new();
        self.pages(
            |cursor| {
                let pattern = format!("{}*{after}", glob_escaped(before));
                redis::cmd("SCAN").arg(cursor).arg("MATCH").arg(pattern).arg("COUNT").arg(1000).to_owned()
            },
            |key| {
                let id = key.strip_prefix(before).and_then(|rest| rest.strip_suffix(after));
                found.extend(id.and_then(|id| id.parse::<ActivityId>().ok()));
            },
        )?;
        let known: std::collections::HashSet<ActivityId> = known.into_iter().collect();
        found.retain(|activity| !known.contains(activity));
        Ok(sorted(found))
    }
}

/// What to tell where it stays unknown whether a reset happened.
fn settle_preheat(plan: &Plan) -> String {
    format!("look at it with `seckill inspect {}` before anything is sent again", plan.id)
}

/// What the script preheat takes after its keys.
fn preheat_arguments(store: &Store, plan: &Plan, how: Preheat, dry_run: bool, reason: Option<&str>) -> Vec<String> {
    let mode = match how {
        Preheat::Create => "create",
        Preheat::Update => "update",
        Preheat::Reset => "reset",
    };
    vec![
        store.kind(),
        store.operator.clone(),
        reason.unwrap_or_default().to_owned(),
        mode.to_owned(),
        if dry_run { "1" } else { "0" }.to_owned(),
        plan.total.to_string(),
        given(plan.per_user_limit),
        given(plan.title.as_deref()),
        given(plan.starts_at.map(Millis::get)),
        given(plan.ends_at.map(Millis::get)),
        given(plan.ledger.map(u8::from)),
    ]
}

/// Sorted by size where both are numbers of a plausible length, else as text; without doubles, which a scan may give.
fn sorted(mut activities: Vec<ActivityId>) -> Vec<ActivityId> {
    activities.sort_by_cached_key(|activity| {
        let number = crate::inventory::number::whole(activity.as_str());
        (number.is_none(), number, activity.as_str().to_owned())
    });
    activities.dedup();
    activities
}

/// A text that a pattern of SCAN takes as it is.
fn glob_escaped(text: &str) -> String {
    text.chars().flat_map(|c| if "*?[]\\".contains(c) { vec!['\\', c] } else { vec![c] }).collect()
}

/// Reads the reply of the script preheat.
fn preheated(plan: &Plan, value: Value, keys: &Keys) -> Result<Preheated, StoreError> {
    let reply = Reply::of(&PREHEAT);
    let values = reply.array(value)?;
    let status = reply.status(values.first())?;
    let mut preheated = Preheated {
        activity: plan.id.clone(),
        action: Action::Refused,
        status,
        total_before: None,
        total: None,
        stock_before: None,
        stock: None,
        per_user_limit: None,
        differences: Vec::new(),
        corrupt: None,
    };
    if status == Status::Corrupt {
        preheated.corrupt = Some(reply.corrupt(&values, keys)?);
        return Ok(preheated);
    }
    preheated.action = match reply.text(values.get(1))?.as_deref() {
        Some("create") => Action::Create,
        Some("unchanged") => Action::Unchanged,
        Some("update") => Action::Update,
        Some("reset") => Action::Reset,
        Some("refused") => Action::Refused,
        _ => return Err(reply.unfit(&values)),
    };
    // What a reset replaces may be anything.
    preheated.total_before = reply.count(values.get(2)).unwrap_or(None);
    preheated.total = reply.count(values.get(3))?;
    preheated.stock_before = reply.count(values.get(4)).unwrap_or(None);
    preheated.stock = reply.count(values.get(5))?;
    preheated.per_user_limit = reply.count(values.get(6))?;
    for parts in values.get(7..).unwrap_or_default().chunks(3) {
        let text = |at: usize| Ok::<_, StoreError>(reply.text(parts.get(at))?.unwrap_or_default());
        preheated.differences.push(Difference { field: text(0)?, before: text(1)?, after: text(2)? });
    }
    Ok(preheated)
}

/// Reads the reply of the script snapshot.
fn snapshot(activity: &ActivityId, value: Value, keys: &Keys) -> Result<(Snapshot, Vec<Option<u64>>), StoreError> {
    let reply = Reply::of(&SNAPSHOT);
    let values = reply.array(value)?;
    let status = reply.status(values.first())?;
    let mut snapshot = Snapshot {
        activity: activity.clone(),
        status,
        corrupt: None,
        stock: None,
        meta: None,
        buyers: None,
        ledger_last: None,
        at: Millis::new(reply.count(values.get(1))?.unwrap_or_default()),
    };
    if status == Status::Corrupt {
        snapshot.corrupt = Some(reply.corrupt(&values, keys)?);
        return Ok((snapshot, Vec::new()));
    }
    let [_, _, stock, Value::Array(meta), buyers, last, Value::Array(held)] = &values[..] else {
        return Err(reply.unfit(&values));
    };
    snapshot.stock = reply.count(Some(stock))?;
    snapshot.meta = read_meta(&reply, meta)?;
    snapshot.buyers = if keys.participants.is_some() { reply.count(Some(buyers))? } else { None };
    snapshot.ledger_last = reply.text(Some(last))?;
    let mut bought = Vec::with_capacity(held.len());
    for value in held {
        match reply.count(Some(value)) {
            Ok(count) => bought.push(count),
            Err(_) => {
                let text = reply.text(Some(value))?;
                snapshot.status = Status::Corrupt;
                let number = if keys.units.is_some() { 6 } else { 5 };
                snapshot.corrupt = Some(super::reply::corrupt(keys, number, text.as_deref()));
                return Ok((snapshot, Vec::new()));
            }
        }
    }
    Ok((snapshot, bought))
}

/// Reads the flat list of a meta; an empty one is none.
fn read_meta(reply: &Reply<'_>, flat: &[Value]) -> Result<Option<Meta>, StoreError> {
    if flat.is_empty() {
        return Ok(None);
    }
    let field = |name: &str| {
        flat.chunks(2)
            .find(|pair| matches!(&pair[0], Value::BulkString(bytes) if bytes == name.as_bytes()))
            .and_then(|pair| pair.get(1))
    };
    let Some(total) = reply.count(field("total"))? else { return Ok(None) };
    let epoch = reply.count(field("epoch"))?.unwrap_or_default();
    let checkpoint = reply.text(field("checkpoint"))?.and_then(|text| text.parse::<Checkpoint>().ok());
    Ok(Some(Meta {
        total,
        per_user_limit: reply.count(field("per_user_limit"))?,
        title: reply.text(field("title"))?.unwrap_or_default(),
        starts_at: reply.count(field("starts_at"))?.map(Millis::new),
        ends_at: reply.count(field("ends_at"))?.map(Millis::new),
        paused: reply.text(field("state"))?.as_deref() == Some("paused"),
        ledger: reply.text(field("ledger"))?.as_deref() == Some("1"),
        epoch,
        repairs: reply.count(field("repairs"))?.unwrap_or_default(),
        checkpoint: checkpoint.filter(|checkpoint| checkpoint.epoch == epoch),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn activities_are_sorted_as_people_count() {
        let ids = ["b", "10", "9", "a", "010", "9"].map(|id| id.parse().unwrap()).to_vec();
        let sorted: Vec<String> = sorted(ids).into_iter().map(|id| id.to_string()).collect();
        assert_eq!(sorted, ["9", "10", "010", "a", "b"]);
    }

    #[test]
    fn a_prefix_is_no_pattern() {
        assert_eq!(glob_escaped("a*[b]"), "a\\*\\[b\\]");
    }
}
