//! The preheat of a sharded activity: its shards one by one, then the parent. What is unfinished is kept in the parent, so that
//! the next command can finish it.
//!
//! A parent says one of these:
//!
//! | | `rules`, `title` | `shards` | `plan` |
//! | --- | --- | --- | --- |
//! | a new sale, half made | of the new sale | none: nobody can buy | `start`: old shards to remove, shards to make new |
//! | a sale | of the sale | its shards | none |
//! | a sale, half updated | of before the update | its shards | `update`: a change for each shard, rules and title of after |
//!
//! Each step is a call that may be sent again. A shard knows by its epoch that it is new, and by a record of the plan that it was
//! updated. The parent changes only from what was read.

use std::time::{Duration, Instant};

use redis::Value;

use crate::admin::parent::{self, Parent, ParentRecord};
use crate::admin::preheat::decide::{Decision, Found, Todo, decide};
use crate::admin::preheat::{self, Preheating};
use crate::error::{Result, ServerKind, StoreError};
use crate::model::activity::shard_plan::{spread, taken};
use crate::model::activity::whole::unsound;
use crate::model::number::{signed, whole};
use crate::model::{
    Action, ActivityId, Corrupt, Meta, Millis, PackedRules, Plan, PreheatMode, Preheated, ShardPlan, Shards, Snapshot,
    Status,
};
use crate::read::snapshot;
use crate::redis::call::Call;
use crate::redis::call::exchange::ReplicaWait;
use crate::script::PREHEAT_SHARD;
use crate::script::keys::Keys;
use crate::script::reply::Reply;
use crate::sell::orders;
use crate::shards::transfer::{ShardFault, shard_status};
use crate::shards::{self, NUMBERS};
use crate::store::Store;

/// How often others may change the activity before this gives up.
const TRIES: usize = 100;
/// How long transfers are finished before an update is refused because the totals of the shards are not that of the sale.
const SETTLING: Duration = Duration::from_secs(1);

/// How a plan of the parent ended.
enum Ended {
    /// It is done; the units that are left.
    Done(u64),
    /// It would have taken units that are sold, so it returned what it took.
    Undone,
    /// The activity has no shards any more, and is still to be made anew.
    Ordinary,
}

/// What one shard changed.
struct ChangedShard {
    /// By how many units its total changed.
    units: i64,
    stock: u64,
}

impl Preheating<'_> {
    /// Makes a sharded activity what the plan says, or says how it differs. `other` is what the script `preheat` said of the
    /// activity if it is no parent. `None` if it has no shards, and is to be preheated as any other.
    pub(super) fn sharded(&mut self, plan: &Plan, other: Option<&Preheated>) -> Result<Option<Preheated>> {
        let mut planned: Option<Preheated> = None;
        let began = self.store.servers.system().now();
        if !self.dry_run {
            self.store.servers.look_for_replicas()?;
        }
        for _ in 0..TRIES {
            let mut parent = parent::read_parent(self.store, &plan.id)?;
            let is_ordinary = !parent.is_parent() && !parent.is_absent();
            if plan.shards.is_none() && !parent.is_parent() {
                return Ok(None);
            }
            let found = self.find(plan, &parent, other.filter(|_| is_ordinary))?;
            let Decision { result, todo, target } = decide(plan, self.how, &found)?;
            if self.dry_run {
                return Ok(Some(result));
            }
            let mut is_begun = false;
            let record = match (todo, found.record) {
                (Todo::Begin(record), Some(before))
                    if matches!(record.plan, Some(ShardPlan::Update { .. }))
                        && totals(&found.shards) != before.rules.total =>
                {
                    add_up(self.store, &plan.id, totals(&found.shards), before.rules.total, began)?;
                    continue;
                }
                (Todo::Begin(record), _) => {
                    is_begun = true;
                    *record
                }
                (Todo::Resume, Some(record)) => record,
                // Another caller may have finished what this began.
                _ if result.action == Action::Unchanged => return Ok(Some(planned.unwrap_or(result))),
                _ => return Ok(Some(result)),
            };
            preheat::add_to_index(self.store, [&plan.id])?;
            let clears = is_begun && self.how == PreheatMode::Reset && !parent.is_absent();
            // Also what another client planned, which may have died before a replica had it.
            if !parent::change_parent(self.store, &plan.id, &mut parent, &record, clears)? {
                continue;
            }
            if is_begun {
                planned = Some(result.clone());
            }
            let is_wanted = match &record.plan {
                Some(ShardPlan::Update { rules, title, .. }) => {
                    PackedRules { state: target.0.state, ..*rules } == target.0 && *title == target.1
                }
                _ => true,
            };
            let ended = match &record.plan {
                Some(ShardPlan::Start { .. }) => self.start(&plan.id, &mut parent, record),
                Some(ShardPlan::Update { .. }) => self.update(&plan.id, &mut parent, record),
                None => Err(ShardFault::ListChanged),
            };
            match ended {
                Ok(Ended::Done(stock)) if is_wanted => {
                    let done = planned.unwrap_or(result);
                    return Ok(Some(Preheated { stock: Some(stock), ..done }));
                }
                // Or another caller changed the activity.
                Ok(Ended::Done(_) | Ended::Undone)
                | Err(ShardFault::ListChanged | ShardFault::Archived | ShardFault::Stopped) => {}
                Ok(Ended::Ordinary) => return Ok(None),
                Err(ShardFault::Store(error)) => return Err(error),
                Err(ShardFault::Corrupt(corrupt)) => {
                    let (action, status) = (Action::Refused, Status::Corrupt);
                    return Ok(Some(Preheated { action, status, corrupt: Some(corrupt), ..result }));
                }
            }
        }
        Err(StoreError::GaveUp(format!("others keep changing `{}`", plan.id)))
    }

    /// What there is of the activity.
    fn find(&mut self, plan: &Plan, parent: &Parent, other: Option<&Preheated>) -> Result<Found> {
        let new_id = new_plan_id(self.store);
        let mut found = Found { is_absent: parent.is_absent(), other: other.cloned(), new_id, ..Found::default() };
        found.corrupt.clone_from(&parent.corrupt);
        if parent.is_parent() {
            match parent.record(&self.store.keys(&plan.id).meta) {
                Ok(record) => found.record = Some(record),
                Err(corrupt) => found.corrupt = Some(corrupt),
            }
        }
        let numbers = match &found.record {
            Some(_) => found.numbers().0,
            None => shards::choose(&plan.id, plan.shards.map_or(0, |count| count.get()), 0),
        };
        let ids: Vec<ActivityId> = numbers.iter().map(|number| plan.id.shard(*number)).collect();
        found.shards = snapshot::snapshots(self.store, &ids)?;
        // A removed shard is made again by a later epoch only.
        let epoch = |meta: &Meta| meta.epoch + u64::from(meta.is_removed());
        let mut epochs = vec![parent.epoch()];
        for shard in &found.shards {
            epochs.push(match &shard.meta {
                Some(meta) => epoch(meta),
                None => self.epoch_of(shard)?,
            });
        }
        found.epoch = epochs.into_iter().max().unwrap_or_default();
        if found.record.is_none() && found.shards.iter().any(|shard| shard.meta.is_some()) {
            let ids: Vec<ActivityId> = (0..NUMBERS).map(|number| plan.id.shard(number)).collect();
            let all = snapshot::snapshots(self.store, &ids)?;
            let metas = || (0..NUMBERS).zip(&all).filter_map(|(number, shard)| Some((number, shard.meta.as_ref()?)));
            found.living = metas().filter(|(_, meta)| !meta.is_removed()).map(|(number, _)| number).collect();
            found.epoch = metas().map(|(_, meta)| epoch(meta)).fold(found.epoch, u64::max);
            if metas().any(|(number, meta)| meta.is_removed() || !numbers.contains(&number)) {
                found.used = metas().map(|(number, _)| number + 1).max().unwrap_or_default();
            }
        }
        if let Some(record) =
            found.record.as_ref().filter(|record| record.shards.is_some() && self.how != PreheatMode::Reset)
        {
            found.epoch = record.rules.epoch;
            let keys = |shard: &ActivityId| self.store.keys(shard).stock_and_meta();
            let wrong = found.shards.iter().find_map(|shard| unsound(shard, record.rules.epoch, &keys));
            found.corrupt = found.corrupt.take().or(wrong);
        }
        Ok(found)
    }

    /// The epoch of a shard that is corrupt, as far as its rules still say it.
    fn epoch_of(&mut self, shard: &Snapshot) -> Result<u64> {
        if shard.status != Status::Corrupt {
            return Ok(0);
        }
        let meta = self.store.keys(&shard.activity).meta;
        let rules = self.store.servers.command(&meta, redis::cmd("HGET").arg(&meta).arg("rules"));
        match rules {
            Ok(rules) => {
                let rules = Reply::of_command("HGET").text(Some(&rules))?;
                Ok(rules.map(|rules| parent::epoch_of(&rules)).unwrap_or_default())
            }
            // It is of another type.
            Err(StoreError::Server { kind: ServerKind::WrongType, .. }) => Ok(0),
            Err(error) => Err(error),
        }
    }

    /// Removes old shards, makes the others new, and lets the parent name them.
    fn start(&mut self, activity: &ActivityId, parent: &mut Parent, record: ParentRecord) -> Result<Ended, ShardFault> {
        let Some(ShardPlan::Start { shards, old }) = &record.plan else { return Err(ShardFault::ListChanged) };
        let removals = old.iter().map(|number| {
            let arguments = self.shard_arguments(["remove", "", ""], &record.rules, None);
            (activity.shard(*number), arguments)
        });
        let units = spread(record.rules.total, shards.len());
        let sets = shards.iter().zip(units).map(|(number, units)| {
            let arguments = self.shard_arguments(["set", "", &units.to_string()], &record.rules, Some(&record.title));
            (activity.shard(*number), arguments)
        });
        let calls: Vec<_> = removals.chain(sets).collect();
        let left = change_shards(self.store, &calls)?.iter().map(|shard| shard.stock).sum();
        let list = Shards::new(shards.clone());
        let is_ordinary = list.is_none();
        let after = ParentRecord { shards: list, plan: None, ..record };
        change(self.store, activity, parent, &after)?;
        Ok(if is_ordinary { Ended::Ordinary } else { Ended::Done(left) })
    }

    /// Changes the shards, again while units that were to be taken are sold meanwhile, then the parent.
    fn update(
        &mut self,
        activity: &ActivityId,
        parent: &mut Parent,
        mut record: ParentRecord,
    ) -> Result<Ended, ShardFault> {
        let mut is_undone = false;
        loop {
            let (Some(ShardPlan::Update { id, done, changes, rules, title }), Some(shards)) =
                (&record.plan, &record.shards)
            else {
                return Err(ShardFault::ListChanged);
            };
            let calls: Vec<_> = shards
                .ids(activity)
                .zip(changes)
                .map(|(shard, units)| {
                    (shard, self.shard_arguments(["update", id, &units.to_string()], rules, Some(title)))
                })
                .collect();
            let shards = change_shards(self.store, &calls)?;
            let units = shards.iter().map(|shard| shard.units).sum::<i64>();
            let left: Vec<u64> = shards.iter().map(|shard| shard.stock).collect();
            // The plan says what is wanted: a parent whose last change was cut has the new total beside it.
            let (changed, missing) = (*done + units, units - changes.iter().sum::<i64>());
            let after = if missing == 0 {
                let rules = PackedRules { state: record.rules.state, ..*rules };
                ParentRecord { rules, title: title.clone(), plan: None, shards: record.shards.clone() }
            } else {
                // Others bought what this was to take: it takes the rest elsewhere, or returns what it took.
                let missing = u64::try_from(missing).map_err(|_| Reply::of(&PREHEAT_SHARD).invalid(missing))?;
                let (changes, rules, title) = match taken(&left, missing) {
                    Some(taken) => (taken.into_iter().map(|units| -signed(units)).collect(), *rules, title.clone()),
                    None => {
                        is_undone = true;
                        let returned = spread(changed.unsigned_abs(), left.len());
                        (returned.into_iter().map(signed).collect(), record.rules, record.title.clone())
                    }
                };
                let update = ShardPlan::Update { id: new_plan_id(self.store), done: changed, changes, rules, title };
                ParentRecord { plan: Some(update), ..record.clone() }
            };
            change(self.store, activity, parent, &after)?;
            record = after;
            if record.plan.is_none() {
                return Ok(if is_undone { Ended::Undone } else { Ended::Done(left.iter().sum()) });
            }
        }
    }

    /// What the script takes after its keys. Without a title nothing is to be written.
    fn shard_arguments(&self, [mode, plan, units]: [&str; 3], rules: &PackedRules, title: Option<&str>) -> Vec<String> {
        let number = |number: Option<u64>| number.map(|number| number.to_string()).unwrap_or_default();
        let mut arguments =
            vec![mode.to_owned(), self.store.operator.clone(), self.reason.unwrap_or_default().to_owned()];
        arguments.extend([rules.epoch.to_string(), plan.to_owned(), units.to_owned()]);
        if let Some(title) = title {
            let (starts, ends) = (rules.starts_at.map(Millis::get), rules.ends_at.map(Millis::get));
            arguments.extend([number(rules.per_user_limit), title.to_owned(), number(starts), number(ends)]);
        }
        arguments
    }
}

/// Finishes transfers: an update begins only when the totals of all shards are the total of the sale. Else it would add to what a
/// failover left of another one, or take no unit that is in transit.
///
/// # Errors
/// Any of [`StoreError`]; the totals still differ.
fn add_up(store: &mut Store, activity: &ActivityId, totals: u64, total: u64, began: Instant) -> Result<()> {
    let finished = orders::finish_transfers(store, activity, true)?.unwrap_or_default();
    // Shards are read one after the other, so a transfer may be seen at one of them only.
    if store.servers.system().now() - began < SETTLING {
        store.servers.system().sleep(Duration::from_millis(50));
        return Ok(());
    }
    let why = match total.checked_sub(totals) {
        Some(units) if finished.left > 0 => {
            format!(
                "{units} units are in transit between its shards, and no replica confirmed that it has these transfers"
            )
        }
        _ => format!("its shards have {totals} units in all, and it has {total}: `reconcile {activity}` says why"),
    };
    Err(StoreError::Unfinished { activity: activity.to_string(), why })
}

fn new_plan_id(store: &Store) -> String {
    store.servers.system().unique_id().simple().to_string()
}

/// Makes the parent say something else.
fn change(
    store: &mut Store,
    activity: &ActivityId,
    parent: &mut Parent,
    after: &ParentRecord,
) -> Result<(), ShardFault> {
    parent::change_parent(store, activity, parent, after, false)?.then_some(()).ok_or(ShardFault::ListChanged)
}

/// One call for each of some shards, and what they changed. Replicas have all of it then: the plan may go.
fn change_shards(store: &mut Store, calls: &[(ActivityId, Vec<String>)]) -> Result<Vec<ChangedShard>, ShardFault> {
    let keys: Vec<Keys> = calls.iter().map(|(shard, _)| store.keys(shard)).collect();
    let call = |(keys, (_, arguments)): (&Keys, &(ActivityId, Vec<String>))| {
        Call::script(&PREHEAT_SHARD, keys.all(), arguments.iter().cloned()).repeatable()
    };
    let all: Vec<Call> = keys.iter().zip(calls).map(call).collect();
    let wait = ReplicaWait::for_one(store.servers.target().timeout / 2);
    let replies = store.servers.fan_out(&all, Some(wait));
    let mut changed = Vec::with_capacity(calls.len());
    for (((keys, (shard, _)), call), reply) in keys.iter().zip(calls).zip(all).zip(replies) {
        let value = match reply {
            Ok(value) => value,
            Err(_) => parent::replicated_step(store, &call, shard)?,
        };
        changed.push(read(keys, value));
        store.changed(shard);
    }
    changed.into_iter().collect()
}

/// Units that shards were preheated with, in all.
fn totals(shards: &[Snapshot]) -> u64 {
    shards.iter().filter_map(|shard| shard.meta.as_ref()).map(|meta| meta.total).sum()
}

/// Reads the reply of the script.
fn read(keys: &Keys, value: Value) -> Result<ChangedShard, ShardFault> {
    let reply = Reply::of(&PREHEAT_SHARD);
    let values = reply.array(value)?;
    match shard_status(&reply, &values, keys)? {
        Status::Ok | Status::Replayed => {
            let text = reply.text(values.get(1))?.unwrap_or_default();
            let (sign, digits) = text.strip_prefix('-').map_or((1, &text[..]), |digits| (-1, digits));
            let units = whole(digits).map(|units| sign * signed(units)).ok_or_else(|| reply.invalid(&values))?;
            Ok(ChangedShard { units, stock: reply.count(values.get(2))?.unwrap_or_default() })
        }
        Status::NotPreheated => {
            let what = "is gone (evicted? expired?): its parent names this shard".to_owned();
            Err(ShardFault::Corrupt(Corrupt { key: keys.stock.clone(), what }))
        }
        _ => Err(reply.invalid(&values).into()),
    }
}
