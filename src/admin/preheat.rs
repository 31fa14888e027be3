//! Activities made what they should be: one, or many in few round trips.

use redis::Value;

use crate::error::{Recovery, StoreError};
use crate::model::activity::{Action, FieldDifference, Plan, Preheat, Preheated};
use crate::model::id::ActivityId;
use crate::model::status::Status;
use crate::model::time::Millis;
use crate::redis::call::retry::Answer;
use crate::redis::call::{Call, RetrySafety};
use crate::script::PREHEAT;
use crate::script::keys::Keys;
use crate::script::reply::Reply;
use crate::store::Store;

/// A field of a plan as the script takes it: `=text`, or empty if it is not given.
fn given(field: Option<impl ToString>) -> String {
    field.map(|value| format!("={}", value.to_string())).unwrap_or_default()
}

/// Activities of one round trip: a few milliseconds of the server's time.
const AT_ONCE: usize = 200;

impl Store {
    /// Makes one activity what the plan says, or says how it differs.
    fn preheat(
        &mut self,
        plan: &Plan,
        how: Preheat,
        dry_run: bool,
        reason: Option<&str>,
    ) -> Result<Preheated, StoreError> {
        let preheated = self.preheat_ordinary(plan, how, dry_run || plan.shards.is_some(), reason)?;
        let is_sharded = preheated.status == Status::Sharded;
        if !is_sharded && plan.shards.is_none() {
            return Ok(preheated);
        }
        let other = Some(&preheated).filter(|_| !is_sharded);
        match self.preheat_sharded(plan, how, dry_run, reason, other)? {
            Some(preheated) => Ok(preheated),
            // It has no shards any more.
            None => self.preheat_ordinary(plan, how, dry_run, reason),
        }
    }

    /// The same for an activity without shards; `sharded` if it has some.
    fn preheat_ordinary(
        &mut self,
        plan: &Plan,
        how: Preheat,
        dry_run: bool,
        reason: Option<&str>,
    ) -> Result<Preheated, StoreError> {
        if !dry_run {
            self.add_to_index([&plan.id])?;
        }
        let keys = self.keys(&plan.id);
        let answer = self.servers.answer(&self.preheat_call(plan, &keys, how, dry_run, reason))?;
        self.read_preheated(plan, answer, &keys, dry_run)
    }

    fn preheat_call(&self, plan: &Plan, keys: &Keys, how: Preheat, dry_run: bool, reason: Option<&str>) -> Call {
        let safety = match (dry_run, how) {
            (true, _) => RetrySafety::ReadOnly,
            // A reset that is sent twice would remove what was bought in between.
            (false, Preheat::Reset) => RetrySafety::AtMostOnce,
            // It says what should be.
            (false, _) => RetrySafety::Idempotent,
        };
        Call::script(&PREHEAT, keys.all(), preheat_arguments(self, plan, how, dry_run, reason))
            .with_safety(safety)
            .recovered_by(Recovery::Inspect(plan.id.to_string()))
    }

    fn read_preheated(&self, plan: &Plan, answer: Answer, keys: &Keys, dry_run: bool) -> Result<Preheated, StoreError> {
        let Answer { value, was_resent } = answer;
        let mut preheated = preheated(plan, value, keys)?;
        // It is as the plan says, and only the total that it had before is gone: the first try was applied.
        if was_resent && matches!(&preheated.differences[..], [only] if only.field == "if_total") {
            (preheated.action, preheated.status) = (Action::Unchanged, Status::Ok);
            preheated.differences.clear();
        }
        if was_resent && preheated.action == Action::Unchanged {
            preheated.status = Status::Replayed;
        }
        if !dry_run && preheated.status.is_done() {
            self.changed(&plan.id);
        }
        Ok(preheated)
    }

    /// Makes several activities what their plans say, many at once, each atomically, or says how they differ. With
    /// `dry_run` nothing is written. `each` gets the number of a plan and what became of it, also before an error: what
    /// it was not given was not done, or is in doubt. What was found done by a try whose reply was lost is `replayed`.
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
        // Each activity with shards is many calls.
        let (sharded, ordinary): (Vec<usize>, Vec<usize>) =
            (0..plans.len()).partition(|nth| plans[*nth].shards.is_some());
        for numbers in ordinary.chunks(AT_ONCE) {
            let chunk: Vec<&Plan> = numbers.iter().map(|nth| plans[*nth]).collect();
            self.preheat_chunk(&chunk, how, dry_run, reason, |at, done| each(numbers[at], done))?;
        }
        for nth in sharded {
            each(nth, self.preheat(plans[nth], how, dry_run, reason)?);
        }
        Ok(())
    }

    /// Adds activities to the index, before their keys are written: one that sells is never missing from it.
    pub(crate) fn add_to_index<'a>(
        &mut self,
        activities: impl IntoIterator<Item = &'a ActivityId>,
    ) -> Result<(), StoreError> {
        let names: Vec<&str> = activities.into_iter().map(ActivityId::as_str).collect();
        let index = Keys::index(self.layout);
        self.servers.command(index, redis::cmd("SADD").arg(index).arg(names)).map(|_| ())
    }

    /// Adds preheated activities that the index lost. Nothing is written if it has them all.
    ///
    /// # Errors
    /// Any of [`StoreError`].
    pub fn restore_index(&mut self, activities: &[&ActivityId]) -> Result<(), StoreError> {
        for chunk in activities.chunks(5 * AT_ONCE) {
            let mut command = redis::cmd("SMISMEMBER");
            command.arg(Keys::index(self.layout));
            chunk.iter().for_each(|activity| {
                command.arg(activity.as_str());
            });
            let found =
                Reply::of_command("SMISMEMBER").array(self.servers.command(Keys::index(self.layout), &command)?)?;
            let lost: Vec<&ActivityId> =
                chunk.iter().zip(found).filter(|(_, found)| *found == Value::Int(0)).map(|(id, _)| *id).collect();
            if !lost.is_empty() {
                self.add_to_index(lost)?;
            }
        }
        Ok(())
    }

    /// The same for a few, in one round trip.
    fn preheat_chunk(
        &mut self,
        plans: &[&Plan],
        how: Preheat,
        dry_run: bool,
        reason: Option<&str>,
        mut each: impl FnMut(usize, Preheated),
    ) -> Result<(), StoreError> {
        if !dry_run {
            self.add_to_index(plans.iter().map(|plan| &plan.id))?;
        }
        let keys: Vec<Keys> = plans.iter().map(|plan| self.keys(&plan.id)).collect();
        let call = |(plan, keys): (&&Plan, &Keys)| self.preheat_call(plan, keys, how, dry_run, reason);
        let calls: Vec<Call> = plans.iter().zip(&keys).map(call).collect();
        let mut failed = Ok(());
        for (nth, answer) in self.servers.call_all(&calls).into_iter().enumerate() {
            let preheated = match answer {
                Ok(answer) => self.read_preheated(plans[nth], answer, &keys[nth], dry_run)?,
                Err(error) => {
                    failed = failed.and(Err(error));
                    continue;
                }
            };
            let is_sharded = preheated.status == Status::Sharded;
            each(nth, if is_sharded { self.preheat(plans[nth], how, dry_run, reason)? } else { preheated });
        }
        failed
    }
}

/// What the script preheat takes after its keys.
fn preheat_arguments(store: &Store, plan: &Plan, how: Preheat, dry_run: bool, reason: Option<&str>) -> Vec<String> {
    let mode = match how {
        Preheat::Create => "create",
        Preheat::Update | Preheat::UpdateFrom(_) => "update",
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
        // An end before 1970 must stay after its start.
        given(plan.ends_at.map(|end| end.get().max(1))),
        given(plan.ledger.map(u8::from)),
        match how {
            Preheat::UpdateFrom(total) => total.to_string(),
            _ => String::new(),
        },
    ]
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
    if status == Status::Sharded {
        return Ok(preheated);
    }
    preheated.action = match reply.text(values.get(1))?.as_deref() {
        Some("create") => Action::Create,
        Some("unchanged") => Action::Unchanged,
        Some("update") => Action::Update,
        Some("reset") => Action::Reset,
        Some("refused") => Action::Refused,
        _ => return Err(reply.invalid(&values)),
    };
    // What a reset replaces may be anything.
    preheated.total_before = reply.count(values.get(2)).unwrap_or(None);
    preheated.total = reply.count(values.get(3))?;
    preheated.stock_before = reply.count(values.get(4)).unwrap_or(None);
    preheated.stock = reply.count(values.get(5))?;
    preheated.per_user_limit = reply.count(values.get(6))?;
    for parts in values.get(7..).unwrap_or_default().chunks(3) {
        let text = |at: usize| Ok::<_, StoreError>(reply.text(parts.get(at))?.unwrap_or_default());
        let field = text(0)?;
        let is_given = plan.gives(&field);
        preheated.differences.push(FieldDifference { field, before: text(1)?, after: text(2)?, is_given });
    }
    Ok(preheated)
}
