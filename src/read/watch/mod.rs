//! Many activities read again and again, cheaply enough for once a second: three plain commands per activity.
//!
//! What seldom changes is read by the script `snapshot`, at one instant: at first, whenever the rules or withdrawn units
//! changed, whenever something is corrupt or gone, and now and then. The stock is read before the rules, so a change
//! between the two shows in the rules. Only what sold is asked for its buyers, and some of those for their newest
//! orders. For an activity at rest no script runs: the script calls that `INFO` counts stay those of the sale.

mod looks;
mod raw;

use std::collections::{BTreeSet, HashMap};
use std::time::{Duration, Instant};

use crate::error::{Result, StoreError};
use crate::model::activity::whole::whole;
use crate::model::{ActivityId, EntryId, Layout, Millis, Op, Snapshot, StoredUser};
use crate::read::snapshot;
use crate::read::stats::GroupStats;
use crate::read::watch::looks::Ask;
use crate::read::watch::raw::{Change, Raw};
use crate::redis::call::Call;
use crate::redis::call::exchange::CallFailure;
use crate::redis::call::fan_out::CallOutcome;
use crate::script::keys::Keys;
use crate::script::reply::Reply;
use crate::store::Store;

/// How often each activity is read whole, whatever its rules say: a title and the type of other keys show there only.
const WHOLE_AFTER: Duration = Duration::from_secs(60);

/// Activities that are watched, as they were when they were last read.
#[derive(Default)]
pub(crate) struct Watched {
    activities: Vec<One>,
    /// The newest orders of all, the newest first.
    pub(crate) newest: Vec<NewestOrder>,
    /// How many scripts this called: the servers count them too.
    pub(crate) own_calls: u64,
    /// How often all were read.
    readings: usize,
    /// The server's clock, and when it was read.
    clock: Option<(Millis, Instant)>,
    /// What this user of the server may not ask, as far as is known.
    refused: BTreeSet<Ask>,
}

/// One of them.
struct One {
    activity: ActivityId,
    keys: Keys,
    raw: Option<Raw>,
    view: Option<View>,
    /// When it was last read at one instant.
    whole: Option<Instant>,
    /// The newest entry whose orders are known.
    seen: EntryId,
    /// Units by which the stock moved since its ledger was looked at.
    moved: u64,
}

/// An activity as it was when it was last read.
#[derive(Debug, Clone)]
pub(crate) struct View {
    /// Its stock, rules and buyers.
    pub snapshot: Snapshot,
    /// When, by this machine's clock.
    pub read: Instant,
    /// Whether it could not be read the last time that all were.
    pub is_old: bool,
    /// The consumer groups of its ledger; `None` if they were not read yet, or must not be.
    pub groups: Option<Vec<GroupStats>>,
    /// When its stock was last seen to differ from what the ledger's last entry left, at one instant, or an entry from what the
    /// one before left: something writes that is none of the scripts.
    pub foreign_write: Option<Instant>,
}

/// An order from the end of a ledger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NewestOrder {
    /// The entry that records it.
    pub id: EntryId,
    /// Of what.
    pub activity: ActivityId,
    /// A purchase or a refund.
    pub op: Op,
    /// Whose.
    pub user: StoredUser,
    /// How many units.
    pub quantity: Option<i64>,
}

/// One time that all were read.
#[derive(Debug)]
pub(crate) struct Reading {
    /// When, by the server's clock.
    pub at: Millis,
    /// Why some activities, or all, could not be read.
    pub error: Option<StoreError>,
}

impl Watched {
    /// All that were read at least once, in the order in which they were given.
    pub(crate) fn views(&self) -> impl Iterator<Item = &View> {
        self.activities.iter().filter_map(|one| one.view.as_ref())
    }

    /// Adds those whose last whole reading is too old, the oldest first, a thirtieth of all at most.
    fn due(&self, whole: &mut Vec<usize>, read: Instant) {
        let most = (self.activities.len() / 30).max(1);
        let is_due = |one: &One| one.whole.is_some_and(|whole| read.duration_since(whole) >= WHOLE_AFTER);
        let mut due: Vec<usize> = (0..self.activities.len()).filter(|place| is_due(&self.activities[*place])).collect();
        due.sort_by_key(|place| self.activities[*place].whole);
        let known: std::collections::HashSet<usize> = whole.iter().copied().collect();
        whole.extend(due.into_iter().filter(|place| !known.contains(place)).take(most));
    }
}

/// Reads all of them. What cannot be read is old from then on; nothing is asked twice.
///
/// # Errors
/// The server refuses to be asked.
pub(crate) fn read_watched(store: &mut Store, watched: &mut Watched) -> Result<Reading> {
    let mut calls = vec![Call::keyless(&redis::cmd("TIME"))];
    for one in &watched.activities {
        calls.push(one.call("GET", &[&one.keys.stock]));
        calls.push(one.call("HMGET", &[&one.keys.meta, "rules", "withdrawn"]));
        calls.push(one.call("HMGET", &[&one.keys.requests, "\tholds"]));
    }
    let mut answers = store.servers.fan_out(&calls, None).into_iter();
    let read = store.servers.system().now();
    let at = watched.now(answers.next(), read);
    let mut reading = Reading { at, error: None };
    let (mut whole, mut sold, mut lost) = (Vec::new(), Vec::new(), None);
    for (place, one) in watched.activities.iter_mut().enumerate() {
        let (Some(stock), Some(meta), Some(holds)) = (answers.next(), answers.next(), answers.next()) else { break };
        match Raw::read(stock, meta, holds) {
            Ok(raw) => match one.accept(raw, at, read) {
                Change::None => {}
                Change::Sold(units) => {
                    one.moved = one.moved.saturating_add(units);
                    sold.push(place);
                }
                Change::Whole => whole.push(place),
            },
            Err(CallFailure::Refused(error)) if !store.servers.may_recover(&error) => return Err(error),
            Err(failure) => {
                one.view.iter_mut().for_each(|view| view.is_old = true);
                lost.get_or_insert(failure);
            }
        }
    }
    watched.readings += 1;
    if let Some(failure) = lost {
        reading.error = Some(why(store, failure));
        // Of a server that is gone nothing more is asked: each question would take a timeout.
        // At the first reading nothing is shown yet, but some were read.
        if whole.is_empty() && watched.activities.iter().all(|one| one.view.as_ref().is_none_or(|view| view.is_old)) {
            return Ok(reading);
        }
    }
    watched.due(&mut whole, read);
    if let Err(error) = read_whole(store, watched, &whole, read) {
        if watched.readings == 1 {
            return Err(error);
        }
        reading.error.get_or_insert(error);
    }
    if let Err(error) = looks::look(store, watched, &sold, read) {
        reading.error.get_or_insert(error);
    }
    Ok(reading)
}

/// Reads some of them at one instant each.
fn read_whole(store: &mut Store, watched: &mut Watched, which: &[usize], read: Instant) -> Result<()> {
    let activities: Vec<ActivityId> = which.iter().map(|place| watched.activities[*place].activity.clone()).collect();
    watched.own_calls += activities.len() as u64;
    let snapshots = match snapshot::snapshots(store, &activities) {
        Ok(snapshots) => snapshots,
        Err(error) => {
            for place in which {
                let one = &mut watched.activities[*place];
                // It is asked for again.
                one.raw = None;
                one.view.iter_mut().for_each(|view| view.is_old = true);
            }
            return Err(error);
        }
    };
    for (place, snapshot) in which.iter().zip(snapshots) {
        let one = &mut watched.activities[*place];
        one.whole = Some(read);
        let (groups, foreign_write) = one.view.take().map_or((None, None), |view| (view.groups, view.foreign_write));
        one.view = Some(View { snapshot, read, is_old: false, groups, foreign_write });
    }
    Ok(())
}

/// Why there was no answer; on a cluster, who serves what is asked again.
fn why(store: &mut Store, failure: CallFailure) -> StoreError {
    if store.servers.is_cluster() {
        // Another node may know a new primary; if none does, nobody is there.
        if let Err(error) = store.servers.read_map(None) {
            return error;
        }
    }
    match failure.into_error() {
        StoreError::Redirected(to) if to.is_ask => to.moving_error(),
        error => error,
    }
}

impl Watched {
    /// The server's clock; if it does not say, as far as it must have come since.
    fn now(&mut self, answer: Option<CallOutcome>, read: Instant) -> Millis {
        let clock = answer.and_then(Result::ok).and_then(|value| Reply::clock(&value).ok());
        let at = match (clock, self.clock) {
            (Some(micros), _) => Millis::new(micros / 1000),
            (None, Some((at, then))) => {
                let since = u64::try_from(read.duration_since(then).as_millis()).unwrap_or(u64::MAX);
                Millis::new(at.get().saturating_add(since))
            }
            (None, None) => Millis::new(0),
        };
        self.clock = Some((at, read));
        at
    }
}

impl One {
    fn new(keys: Keys, activity: ActivityId) -> Self {
        Self { activity, keys, raw: None, view: None, whole: None, seen: EntryId::ZERO, moved: 0 }
    }

    /// A plain command about one of its keys, which all have one slot on a cluster.
    fn call(&self, name: &str, arguments: &[&str]) -> Call {
        Call::command(&self.keys.stock, redis::cmd(name).arg(arguments))
    }

    /// Takes what was read, and says what else must be asked for.
    fn accept(&mut self, raw: Raw, at: Millis, read: Instant) -> Change {
        let before = self.raw.replace(raw.clone());
        let (Some(before), Some(view)) = (before, &mut self.view) else { return Change::Whole };
        let change = raw.since(&before, view.snapshot.status);
        if matches!(change, Change::Whole) {
            return change;
        }
        if let Change::Sold(_) = change {
            let Snapshot { meta, stock, .. } = &mut view.snapshot;
            let withdrawn = meta.as_ref().and_then(|meta| meta.withdrawn).unwrap_or_default();
            *stock = raw.stock().map(|stock| stock + withdrawn);
            meta.iter_mut().zip(raw.holds()).for_each(|(meta, holds)| meta.holds = holds);
        }
        view.snapshot.at = at;
        view.read = read;
        view.is_old = false;
        change
    }
}

/// Watches these from now on, with all their shards. What is known of those that were watched before stays known.
///
/// # Errors
/// The shards cannot be read.
pub(crate) fn watch_wholes(store: &mut Store, watched: &mut Watched, activities: &[ActivityId]) -> Result<()> {
    let shards = match store.layout() {
        Layout::Cluster => store.shards_of_each(activities)?,
        _ => vec![None; activities.len()],
    };
    let mut all: Vec<ActivityId> = Vec::with_capacity(activities.len());
    for (activity, shards) in activities.iter().zip(shards) {
        all.push(activity.clone());
        all.extend(shards.iter().flat_map(|shards| shards.ids(activity)));
    }
    if !all.iter().eq(watched.activities.iter().map(|one| &one.activity)) {
        let known = std::mem::take(&mut watched.activities);
        let mut known: HashMap<ActivityId, One> = known.into_iter().map(|one| (one.activity.clone(), one)).collect();
        let one = |activity| known.remove(&activity).unwrap_or_else(|| One::new(store.keys(&activity), activity));
        watched.activities = all.into_iter().map(one).collect();
    }
    Ok(())
}

/// What is known of activities, in their order, as purchases find them; of a sharded one the sum over its shards.
pub(crate) fn whole_views(store: &Store, watched: &Watched, activities: &[ActivityId]) -> Vec<View> {
    let views: HashMap<&ActivityId, &View> = watched.views().map(|view| (&view.snapshot.activity, view)).collect();
    let wholes = activities.iter().filter_map(|activity| whole_view(store, views.get(activity)?, &views));
    wholes.map(|view| View { snapshot: view.snapshot.for_purchases(), ..view }).collect()
}

fn whole_view(store: &Store, parent: &View, views: &HashMap<&ActivityId, &View>) -> Option<View> {
    let parts = parent.snapshot.parts();
    if parts.len() == 1 {
        return Some(parent.clone());
    }
    // One that was not read yet comes with the next reading.
    let shards: Vec<&View> = parts.iter().map(|part| views.get(part).copied()).collect::<Option<_>>()?;
    let snapshots: Vec<Snapshot> = shards.iter().map(|view| view.snapshot.clone()).collect();
    let snapshot = whole(parent.snapshot.clone(), &snapshots, &|shard| store.keys(shard).stock_and_meta());
    Some(View {
        snapshot,
        read: shards.iter().map(|view| view.read).min().unwrap_or(parent.read),
        is_old: parent.is_old || shards.iter().any(|view| view.is_old),
        groups: shards.iter().map(|view| view.groups.clone()).collect::<Option<Vec<_>>>().map(|groups| groups.concat()),
        foreign_write: shards.iter().filter_map(|view| view.foreign_write).max(),
    })
}
