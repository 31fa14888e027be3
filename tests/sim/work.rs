//! What processes of a night do with the library, one operation at a time.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use seckill::internals::{self, Archives, EntryId, OrderFile, RepairPlan, ShardCount, Shards, System, judge_shards};
use seckill::{
    ActivityId, Audit, FieldChange, HoldFor, Layout, Limit, Millis, MissingOrders, Plan, PreheatMode, Quantity,
    RefundOf, RequestId, Status, Store, StoreError, Target, Units, UserId, Wish, judge,
};

use super::audit::{self, Rows};
use super::world::TIMEOUT;

/// The group of the loader.
pub const GROUP: &str = "loader";

/// From when on an activity sells, and until when.
pub type Window = [FieldChange<Millis>; 2];
/// What an update keeps.
pub const SAME_WINDOW: Window = [FieldChange::Keep; 2];

/// Whether an activity sells nothing to anybody for a while: lines of a file stay open then.
pub fn is_shut(status: Status) -> bool {
    matches!(status, Status::Paused | Status::NotStarted | Status::Ended)
}

/// What a process does with the library.
#[derive(Debug, Clone)]
pub enum Op {
    Preheat {
        how: PreheatMode,
        total: u64,
        limit: FieldChange<Limit>,
        ledger: Option<bool>,
        shards: Option<ShardCount>,
        window: Window,
    },
    Order {
        user: UserId,
        units: u64,
        request: String,
        hold_for: Option<Duration>,
    },
    MultiOrder {
        user: UserId,
        items: Vec<(ActivityId, u64)>,
        request: String,
    },
    Settle {
        request: String,
        /// Whose hold it is, of a sharded activity.
        user: Option<UserId>,
        confirms: bool,
    },
    Refund {
        user: UserId,
        units: u64,
        request: String,
    },
    File(OrderFile),
    Expire,
    /// Takes over what another system made, with that total if it is given.
    Adopt(Option<u64>),
    Pause(Option<bool>),
    /// Moves it into files.
    Archive(Arc<Archives>),
    /// Brings it back.
    Restore(Arc<Archives>),
    /// Removes entries that are older than this, Unix ms.
    Trim(u64),
    /// A loader takes what is new in the ledger.
    Feed(Loaded),
    /// Audits, with order records of that time: what it finds comes back before anything is repaired.
    Audit(Option<(Rows, u64)>),
    Repair(RepairPlan),
}

/// What a loader got of the ledgers of a sale: it keeps that, whatever becomes of its process.
pub type Loaded = Arc<Mutex<Vec<(ActivityId, EntryId, bool)>>>;

/// An operation, and where.
pub struct Job {
    pub layout: Layout,
    pub activity: ActivityId,
    /// Of a sharded activity.
    pub shards: Option<Shards>,
    pub op: Op,
    /// Whether a replica must have it before it counts as done.
    pub waits: bool,
}

/// How a job ended, and whether a replica has what it wrote for certain.
pub struct Ended {
    pub done: Done,
    pub is_replicated: bool,
}

/// A line of a file that was decided: its number, how, and the deadline of a hold that it made.
pub type Line = (u64, Status, Option<u64>);

/// How it ended.
pub enum Done {
    /// Nothing was begun.
    Nothing,
    Status(Status, Option<u64>),
    /// What was decided, and why the rest was not.
    Lines(Vec<Line>, Option<StoreError>),
    Audited(Box<Audit>),
    Failed(StoreError),
}

/// A process: it does what it is given with a store of its own.
pub fn work(system: Arc<dyn System>, next: &mut dyn FnMut(Ended) -> Option<Job>) {
    let mut ended = Ended { done: Done::Nothing, is_replicated: false };
    let mut store: Option<Store> = None;
    while let Some(Job { layout, activity, shards, op, waits }) = next(ended) {
        let store = store.get_or_insert_with(|| {
            let target = Target::new("redis://simulated", "a test", TIMEOUT).expect("it is a URL");
            Store::new(target.on(Arc::clone(&system)), layout, "operator".to_owned())
        });
        store.require_replicas(waits.then_some(1));
        let changed = match &op {
            Op::MultiOrder { items, .. } => items.iter().map(|(activity, _)| activity.clone()).collect(),
            Op::File(file) => {
                let items: BTreeSet<_> = file.lines.iter().flat_map(|line| &line.items).map(|(id, _)| id).collect();
                items.into_iter().cloned().collect()
            }
            // Also of what changed nothing: in shards its answer is that of the user's home.
            Op::Order { user, .. } | Op::Refund { user, .. } | Op::Settle { user: Some(user), .. } => {
                let home = |shards: &Shards| shards.home_of(&activity, user.as_str().as_bytes());
                vec![shards.as_ref().map_or_else(|| activity.clone(), home)]
            }
            _ => vec![activity.clone()],
        };
        let done = perform(store, activity, shards, op).unwrap_or_else(Done::Failed);
        let is_replicated = waits && !matches!(done, Done::Failed(_)) && {
            changed.iter().for_each(|activity| store.changed(activity));
            matches!(store.wait_for_replicas(), Ok(None))
        };
        ended = Ended { done, is_replicated };
    }
}

fn perform(store: &mut Store, activity: ActivityId, shards: Option<Shards>, op: Op) -> Result<Done, StoreError> {
    Ok(match op {
        Op::Preheat { how, total, limit, ledger, shards, window: [starts_at, ends_at] } => {
            let plan = Plan { ledger, shards, starts_at, ends_at, ..plan(activity, Units::new(total), limit) };
            let mut status = Status::Ok;
            seckill::preheat_all(store, &[&plan], how, false, None, |_, done| status = done.status)?;
            Done::Status(status, None)
        }
        Op::Order { user, units, request, hold_for } => {
            let quantity = quantity(units);
            let hold = |hold_for| Wish::Hold { quantity, hold_for: HoldFor::new(hold_for).expect("it is short") };
            let wish = hold_for.map_or(Wish::Buy { quantity, per_user_limit: None }, hold);
            place(store, activity, Some(user), wish, &request)?
        }
        Op::MultiOrder { user, items, request } => {
            let items = items.into_iter().map(|(activity, units)| (activity, quantity(units))).collect();
            Done::Status(joined(&internals::multi_deduct(store, &user, items, &id(&request))?), None)
        }
        Op::Settle { request, user, confirms } => {
            place(store, activity, user, if confirms { Wish::Confirm } else { Wish::Release }, &request)?
        }
        Op::Refund { user, units, request } => {
            place(store, activity, Some(user), Wish::Refund(RefundOf::Quantity(quantity(units))), &request)?
        }
        Op::File(file) => {
            let mut lines = Vec::new();
            let mut heard = |line, items: &[Status], deadline: Option<Millis>| {
                let shut = items.iter().copied().find(|item| is_shut(*item));
                let status = match items {
                    items if file.operation == "multi_deduct" => shut.unwrap_or_else(|| joined(items)),
                    items => items[0],
                };
                lines.push((line, status, deadline.map(Millis::get)));
            };
            let ended = internals::apply_file(store, &file, &mut heard);
            Done::Lines(lines, ended.err())
        }
        Op::Adopt(total) => {
            let plan = plan(activity, total.and_then(Units::new), FieldChange::Keep);
            Done::Status(internals::adopt(store, &plan)?, None)
        }
        Op::Archive(archives) => {
            let of_each = parts(activity, shards).into_iter().map(|part| internals::archive(store, &part, &archives));
            Done::Status(first_refusal(of_each)?, None)
        }
        Op::Restore(archives) => {
            let of_each = parts(activity, shards).into_iter().map(|part| internals::restore(store, &part, &archives));
            Done::Status(first_refusal(of_each)?, None)
        }
        Op::Expire => Done::Status(internals::expire(store, &activity)?, None),
        Op::Pause(withdraws) => Done::Status(internals::pause(store, &activity, withdraws)?, None),
        Op::Feed(loaded) => {
            for activity in parts(activity, shards) {
                let mut load = |id, is_there| loaded.lock().expect("one runs").push((activity.clone(), id, is_there));
                internals::feed(store, &activity, GROUP, &mut load)?;
            }
            Done::Status(Status::Ok, None)
        }
        Op::Trim(before) => {
            let before = Millis::new(before);
            let of_each = parts(activity, shards).into_iter().map(|part| internals::trim_ledger(store, &part, before));
            Done::Status(first_refusal(of_each)?, None)
        }
        Op::Audit(records) => {
            let audit = match shards {
                None => {
                    let compared = records.map(|(rows, at)| audit::compared(&rows, at));
                    judge(seckill::audit(store, &activity, None, compared)?, MissingOrders::Repair)
                }
                Some(shards) => {
                    let is_of = |user: &str, shard: &ActivityId| shards.home_of(&activity, user.as_bytes()) == *shard;
                    let compared = |shard: &ActivityId| {
                        let (rows, at) = records.as_ref()?;
                        let rows = rows.iter().filter(|(user, ..)| is_of(user, shard)).cloned().collect();
                        Some(audit::compared(&rows, *at))
                    };
                    let found = internals::audit_shards(store, &activity, &shards, None, compared)?;
                    judge_shards(found, MissingOrders::Repair)
                }
            };
            Done::Audited(Box::new(audit))
        }
        Op::Repair(RepairPlan { repairs, transfers, .. }) => {
            for transfer in &transfers {
                internals::repair_transfer(store, transfer)?;
            }
            for repairs in repairs.chunk_by(|one, other| one.activity == other.activity) {
                let activity: ActivityId = repairs[0].activity.parse().expect("a repair names an activity");
                internals::repair(store, &activity, &repairs.iter().collect::<Vec<_>>(), false, None)?;
            }
            Done::Status(Status::Ok, None)
        }
    })
}

/// The activities that have the units and ledgers of a sale.
fn parts(activity: ActivityId, shards: Option<Shards>) -> Vec<ActivityId> {
    shards.map_or_else(|| vec![activity.clone()], |shards| shards.ids(&activity).collect())
}

/// How all ended: as the first that was not done, behind which the others are done nevertheless. An error ends them at once.
fn first_refusal(of_each: impl Iterator<Item = Result<Status, StoreError>>) -> Result<Status, StoreError> {
    let all: Vec<Status> = of_each.collect::<Result<_, _>>()?;
    Ok(all.into_iter().find(|status| *status != Status::Ok).unwrap_or(Status::Ok))
}

fn plan(id: ActivityId, total: Option<Units>, per_user_limit: FieldChange<Limit>) -> Plan {
    let (starts_at, ends_at) = (FieldChange::Keep, FieldChange::Keep);
    Plan { id, title: None, total, per_user_limit, starts_at, ends_at, ledger: None, shards: None }
}

/// How a multi-order ended: `refused`, unless the status of an item says more.
fn joined(items: &[Status]) -> Status {
    let is_done = items[0].is_done() && items.iter().all(|item| *item == items[0]);
    let decisive = |item: &&Status| [Status::Corrupt, Status::RequestConflict, Status::Reversed].contains(item);
    if is_done { items[0] } else { items.iter().find(decisive).copied().unwrap_or(Status::Refused) }
}

fn place(
    store: &mut Store,
    activity: ActivityId,
    user: Option<UserId>,
    wish: Wish,
    request: &str,
) -> Result<Done, StoreError> {
    let user = user.as_ref().map(Into::into);
    let order = seckill::Order { activity, user, wish, request: id(request), reason: None };
    let outcome = seckill::place(store, &order, false)?;
    Ok(Done::Status(outcome.status, outcome.deadline.map(Millis::get)))
}

fn id(text: &str) -> RequestId {
    text.parse().expect("it is a request id")
}

pub fn quantity(units: u64) -> Quantity {
    Quantity::new(units).expect("it is a quantity")
}
