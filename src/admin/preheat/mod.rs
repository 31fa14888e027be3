//! Activities made what they should be: one, or many in few round trips.

mod decide;
mod sharded;

use std::collections::HashSet;

use redis::Value;

use crate::admin::activities;
use crate::error::{Recovery, Result, ServerKind, StoreError};
use crate::model::{
    Action, ActivityId, FieldChange, FieldDifference, Layout, Millis, Plan, PreheatMode, Preheated, Status, Units,
};
use crate::read::snapshot;
use crate::redis::call::retry::Answer;
use crate::redis::call::{Call, RetrySafety};
use crate::script::PREHEAT;
use crate::script::keys::Keys;
use crate::script::reply::Reply;
use crate::store::Store;

/// A field of a plan as scripts take it: `=text`, `=` for none, or empty if it is not given.
pub(crate) fn given<T: ToString>(field: impl Into<FieldChange<T>>) -> String {
    match field.into() {
        FieldChange::Keep => String::new(),
        FieldChange::Clear => "=".to_owned(),
        FieldChange::Set(value) => format!("={}", value.to_string()),
    }
}

/// Refuses a window that ends before it starts, in the words of a script.
///
/// # Errors
/// `Usage`.
pub(crate) fn check_window(script: &str, start: Option<Millis>, end: Option<Millis>) -> Result<()> {
    match start.zip(end) {
        Some((start, end)) if start >= end => {
            let why = format!("{script}: the window ends before it starts");
            Err(StoreError::Server { kind: ServerKind::Usage, why })
        }
        _ => Ok(()),
    }
}

/// Activities of one round trip: a few milliseconds of the server's time.
const AT_ONCE: usize = 200;

/// How often others may change the total of an activity before an update that keeps it gives up.
const TRIES: usize = 100;

/// A preheat of some activities: what all its calls have in common.
struct Preheating<'a> {
    store: &'a mut Store,
    how: PreheatMode,
    dry_run: bool,
    reason: Option<&'a str>,
}

impl Preheating<'_> {
    /// Makes one activity what the plan says, or says how it differs.
    fn one(&mut self, plan: &Plan) -> Result<Preheated> {
        self.with_shards(plan).map_err(|error| named(plan, error))
    }

    fn with_shards(&mut self, plan: &Plan) -> Result<Preheated> {
        let preheated = self.ordinary(plan, self.dry_run || plan.shards.is_some())?;
        let is_sharded = preheated.status == Status::Sharded;
        if !is_sharded && plan.shards.is_none() {
            return Ok(preheated);
        }
        match self.sharded(plan, Some(&preheated).filter(|_| !is_sharded))? {
            Some(preheated) => Ok(preheated),
            // It has no shards any more.
            None => self.ordinary(plan, self.dry_run),
        }
    }

    /// Updates an activity whose plan gives no total, if it still has this one.
    fn at_total(&mut self, plan: &Plan, total: u64) -> Result<Preheated> {
        let Self { dry_run, reason, .. } = *self;
        let mut update = Preheating { store: &mut *self.store, how: PreheatMode::UpdateFrom(total), dry_run, reason };
        update.one(&Plan { total: Units::new(total), ..plan.clone() })
    }

    /// Updates an activity whose plan gives no total: it keeps the one that it has at that instant.
    fn with_same_total(&mut self, plan: &Plan) -> Result<Preheated> {
        for _ in 0..TRIES {
            let total = snapshot::snapshot(self.store, &plan.id)?.meta.map_or(0, |meta| meta.total);
            let preheated = self.at_total(plan, total)?;
            if !preheated.differences.iter().any(|difference| difference.field == "if_total") {
                return Ok(preheated);
            }
        }
        Err(StoreError::GaveUp(format!("others keep changing the total of `{}`", plan.id)))
    }

    /// Makes an activity without shards what the plan says; `sharded` if it has some.
    fn ordinary(&mut self, plan: &Plan, dry_run: bool) -> Result<Preheated> {
        if !dry_run {
            add_to_index(self.store, [&plan.id])?;
        }
        let keys = self.store.keys(&plan.id);
        let call = self.call(plan, &keys, dry_run);
        let answer = self.store.servers.send(&[call], None, None)?;
        self.read(plan, answer, &keys, dry_run)
    }

    fn call(&self, plan: &Plan, keys: &Keys, dry_run: bool) -> Call {
        let safety = match (dry_run, self.how) {
            (true, _) => RetrySafety::ReadOnly,
            // It changes nothing that is there.
            (false, PreheatMode::Create) => RetrySafety::Idempotent,
            // Sent twice, a reset would remove what was bought in between, and an update undo another one.
            (false, _) => RetrySafety::AtMostOnce,
        };
        Call::script(&PREHEAT, keys.all(), self.arguments(plan, dry_run))
            .with_safety(safety)
            .recovered_by(Recovery::Inspect(plan.id.to_string()))
    }

    fn read(&self, plan: &Plan, answer: Answer, keys: &Keys, dry_run: bool) -> Result<Preheated> {
        let was_resent = answer.was_resent;
        let mut preheated = preheated(plan, answer.value(), keys)?;
        if was_resent && preheated.action == Action::Unchanged {
            preheated.status = Status::Replayed;
        }
        if !dry_run && preheated.status.is_done() {
            self.store.changed(&plan.id);
        }
        Ok(preheated)
    }

    /// Those whose parent was lost, or deleted, while its shards are there: they would be sold twice. Number 0 is among the first shards
    /// of every activity, and one that was removed keeps its meta.
    fn orphans(&mut self, plans: &[&Plan]) -> Vec<Result<Option<Preheated>>> {
        if self.store.layout() != Layout::Cluster || self.how == PreheatMode::Reset {
            return plans.iter().map(|_| Ok(None)).collect();
        }
        let rules = |id: &ActivityId| {
            let meta = self.store.keys(id).meta;
            Call::command(&meta, redis::cmd("HGET").arg(&meta).arg("rules"))
        };
        let calls: Vec<Call> = plans.iter().flat_map(|plan| [rules(&plan.id), rules(&plan.id.shard(0))]).collect();
        let is_there = |answer: Result<Answer>| match answer {
            Err(error) if error.is_wrong_type() => Ok(true),
            answer => Ok::<_, StoreError>(answer?.value() != Value::Nil),
        };
        let mut has_rules = self.store.servers.call_all(&calls).into_iter().map(is_there);
        let mut next = || has_rules.next().unwrap_or(Ok(false));
        let refused = |plan: &Plan| {
            let (field, before) = ("shard".to_owned(), plan.id.shard(0).to_string());
            let difference = FieldDifference { is_given: false, field, before, after: String::new() };
            Preheated { differences: vec![difference], ..Preheated::refused(&plan.id, Status::Exists) }
        };
        let orphan = |plan: &&Plan| {
            let (is_there, has_shard) = (next(), next());
            Ok((!is_there? && has_shard?).then(|| refused(plan)))
        };
        plans.iter().map(orphan).collect()
    }

    /// Makes a few activities what their plans say, in one round trip, in layout `cluster` in two.
    fn few(&mut self, plans: &[&Plan], mut each: impl FnMut(usize, Preheated)) -> Result<()> {
        let dry_run = self.dry_run;
        let (mut failed, mut sound) = (Ok(()), Vec::with_capacity(plans.len()));
        for (number, orphan) in self.orphans(plans).into_iter().enumerate() {
            match orphan {
                Ok(None) => sound.push(number),
                Ok(Some(refused)) => each(number, refused),
                Err(error) => failed = failed.and(Err(error)),
            }
        }
        if !dry_run {
            add_to_index(self.store, sound.iter().map(|number| &plans[*number].id))?;
        }
        let keys: Vec<Keys> = plans.iter().map(|plan| self.store.keys(&plan.id)).collect();
        let calls: Vec<Call> = sound.iter().map(|number| self.call(plans[*number], &keys[*number], dry_run)).collect();
        for (number, answer) in sound.into_iter().zip(self.store.servers.call_all(&calls)) {
            let preheated = match answer.and_then(|answer| self.read(plans[number], answer, &keys[number], dry_run)) {
                Ok(preheated) if preheated.status == Status::Sharded => self.one(plans[number]),
                preheated => preheated.map_err(|error| named(plans[number], error)),
            };
            failed = failed.and(preheated.map(|preheated| each(number, preheated)));
        }
        failed
    }

    /// What the script preheat takes after its keys.
    fn arguments(&self, plan: &Plan, dry_run: bool) -> Vec<String> {
        let mode = match self.how {
            PreheatMode::Create => "create",
            PreheatMode::Update | PreheatMode::UpdateFrom(_) => "update",
            PreheatMode::Reset => "reset",
        };
        vec![
            self.store.kind(),
            self.store.operator.clone(),
            self.reason.unwrap_or_default().to_owned(),
            mode.to_owned(),
            if dry_run { "1" } else { "0" }.to_owned(),
            plan.total.map(|total| total.to_string()).unwrap_or_default(),
            given(plan.per_user_limit),
            given(plan.title.as_deref()),
            given(plan.starts_at.map(Millis::get)),
            given(plan.stored_end().map(Millis::get)),
            given(plan.ledger.map(u8::from)),
            match self.how {
                PreheatMode::UpdateFrom(total) => total.to_string(),
                _ => String::new(),
            },
        ]
    }
}

/// The error with the name of the activity, if it is the plan that the server refused.
fn named(plan: &Plan, error: StoreError) -> StoreError {
    match error {
        StoreError::Server { kind: ServerKind::Usage, why } => {
            let why = format!("`{}`: {}", plan.id, why.strip_prefix("preheat: ").unwrap_or(&why));
            StoreError::Server { kind: ServerKind::Usage, why }
        }
        error => error,
    }
}

/// Makes several activities what their plans say, many at once, each atomically, or says how they differ. With
/// `dry_run` nothing is written. `each` gets the number of a plan and what became of it, also before an error: what
/// it was not given was not done, or is in doubt. What was found done by a try whose reply was lost is `replayed`.
///
/// # Errors
/// Any of [`StoreError`]; if a server does not answer, after the activities of others. Refusals are statuses.
pub fn preheat_all(
    store: &mut Store,
    plans: &[&Plan],
    how: PreheatMode,
    dry_run: bool,
    reason: Option<&str>,
    mut each: impl FnMut(usize, Preheated),
) -> Result<()> {
    // Each activity with shards is many calls, and a total that stays is read first.
    let takes_several_calls = |plan: &Plan| plan.shards.is_some() || plan.total.is_none();
    let (several, ordinary): (Vec<usize>, Vec<usize>) =
        (0..plans.len()).partition(|number| takes_several_calls(plans[*number]));
    let mut preheating = Preheating { store, how, dry_run, reason };
    let mut failed = Ok(());
    for numbers in ordinary.chunks(AT_ONCE) {
        let chunk: Vec<&Plan> = numbers.iter().map(|number| plans[*number]).collect();
        match preheating.few(&chunk, |at, done| each(numbers[at], done)) {
            Err(error) if error.is_outage() => failed = failed.and(Err(error)),
            done => done?,
        }
    }
    for number in several {
        let plan = plans[number];
        let preheated = match (plan.total, how) {
            (None, PreheatMode::Update) => preheating.with_same_total(plan),
            (None, PreheatMode::UpdateFrom(total)) => preheating.at_total(plan, total),
            _ => preheating.one(plan),
        };
        match preheated {
            Err(error) if error.is_outage() => failed = failed.and(Err(error)),
            preheated => each(number, preheated?),
        }
    }
    failed
}

/// Adds activities to the index, before their keys are written: one that sells is never missing from it.
pub(crate) fn add_to_index<'a>(store: &mut Store, activities: impl IntoIterator<Item = &'a ActivityId>) -> Result<()> {
    let names: Vec<&str> = activities.into_iter().map(ActivityId::as_str).collect();
    if names.is_empty() {
        return Ok(());
    }
    let index = Keys::index(store.layout);
    store.servers.command(index, redis::cmd("SADD").arg(index).arg(names)).map(|_| ())
}

/// Adds preheated activities that the index lost. Nothing is written if it has them all.
///
/// # Errors
/// Any of [`StoreError`].
pub(crate) fn restore_index(store: &mut Store, activities: &[&ActivityId]) -> Result<()> {
    if activities.is_empty() {
        return Ok(());
    }
    let indexed: HashSet<ActivityId> = activities::preheated(store)?.into_iter().collect();
    let lost: Vec<&ActivityId> = activities.iter().copied().filter(|activity| !indexed.contains(*activity)).collect();
    lost.chunks(5 * AT_ONCE).try_for_each(|chunk| add_to_index(store, chunk.iter().copied()))
}

/// Reads the reply of the script preheat.
fn preheated(plan: &Plan, value: Value, keys: &Keys) -> Result<Preheated> {
    let reply = Reply::of(&PREHEAT);
    let (status, corrupt, values) = reply.with_status(value, keys)?;
    let mut preheated = Preheated { corrupt, ..Preheated::refused(&plan.id, status) };
    if matches!(status, Status::Corrupt | Status::Sharded) {
        return Ok(preheated);
    }
    let action = reply.text(values.get(1))?.and_then(|action| Action::named(&action));
    preheated.action = action.ok_or_else(|| reply.invalid(&values))?;
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
