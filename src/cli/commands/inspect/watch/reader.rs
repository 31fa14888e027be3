//! Reads the activities again and again on a thread of its own, so that a server that does not answer holds up nobody.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use crate::admin::activities;
use crate::cli::failure::Result;
use crate::cli::shared::selection::ActivitySelector;
use crate::error::StoreError;
use crate::model::{ActivityId, Millis};
use crate::read::stats::ServerInfo;
use crate::read::stats::info::Section;
use crate::read::watch::{NewestOrder, Reading, View, Watched, watch_wholes, whole_views};
use crate::read::{stats, watch};
use crate::store::Store;

/// How often new activities are looked for.
const INDEX_AFTER: Duration = Duration::from_secs(2);
/// How often percentiles are read: a server computes them for each command it knows.
const LATENCY_AFTER: Duration = Duration::from_secs(5);

/// What one time of reading found.
pub(super) struct Update {
    /// The server's clock, or why some activities, or all, could not be read.
    pub reading: Result<Millis, StoreError>,
    pub views: Vec<View>,
    pub newest: Vec<NewestOrder>,
    pub servers: Vec<ServerInfo>,
    /// When the servers' counters were read.
    pub counted: Instant,
    /// Scripts that this called so far.
    pub own_calls: u64,
}

/// What is read, and with what.
pub(super) struct Reader {
    store: Store,
    wanted: ActivitySelector,
    watched: Watched,
    activities: Vec<ActivityId>,
    indexed: Instant,
    latency: Option<Instant>,
}

impl Reader {
    /// Finds the activities.
    ///
    /// # Errors
    /// Any of the store's; nothing fits a pattern.
    pub(super) fn new(mut store: Store, wanted: ActivitySelector) -> Result<Self> {
        let activities = wanted.activities(&mut store)?;
        let mut watched = Watched::default();
        watch_wholes(&mut store, &mut watched, &activities)?;
        Ok(Self { store, wanted, watched, activities, indexed: Instant::now(), latency: None })
    }

    /// Reads once.
    pub(super) fn read(&mut self) -> Update {
        // A wait for a failover would hold up what can be read.
        let patience = self.store.servers.patience.replace(Duration::ZERO);
        self.look_for_new();
        self.store.servers.patience = patience;
        let reading = watch::read_watched(&mut self.store, &mut self.watched);
        let reading = reading.and_then(|Reading { at, error }| error.map_or(Ok(at), Err));
        let is_due = self.latency.is_none_or(|last| last.elapsed() >= LATENCY_AFTER);
        let mut sections = vec![Section::Server, Section::Replication, Section::CommandStats, Section::ErrorStats];
        if is_due {
            self.latency = Some(Instant::now());
            sections.push(Section::LatencyStats);
        }
        // Of servers that are gone nothing is asked twice.
        let is_lost = reading.is_err();
        let servers = if is_lost { Vec::new() } else { stats::info(&mut self.store, &sections).unwrap_or_default() };
        let whole = |order: &NewestOrder| NewestOrder { activity: order.activity.whole(), ..order.clone() };
        Update {
            reading,
            views: whole_views(&self.store, &self.watched, &self.activities),
            newest: self.watched.newest.iter().map(whole).collect(),
            servers,
            counted: Instant::now(),
            own_calls: self.watched.own_calls,
        }
    }

    /// Reads the index again, now and then: a preheat may have added activities.
    fn look_for_new(&mut self) {
        if !self.wanted.needs_index() || self.indexed.elapsed() < INDEX_AFTER {
            return;
        }
        self.indexed = Instant::now();
        // If it cannot be read, nor can the activities, which says why.
        let Ok(preheated) = activities::preheated(&mut self.store) else { return };
        let now = self.wanted.among(&preheated);
        // One that is gone from the index stays: that is worth seeing.
        let mut all: Vec<ActivityId> = self.activities.clone();
        all.extend(now.iter().filter(|activity| !self.activities.contains(activity)).cloned());
        // A reset may have given one other shards.
        if watch_wholes(&mut self.store, &mut self.watched, &all).is_ok() {
            self.activities = all;
        }
    }

    /// Reads on, once in an interval from now, until the other side is gone.
    pub(super) fn start(mut self, every: Duration) -> Receiver<Update> {
        let (updates, received) = sync_channel(1);
        // It ends with the process at the latest: it only reads.
        thread::spawn(move || self.run(every, &updates));
        received
    }

    fn run(&mut self, every: Duration, updates: &SyncSender<Update>) {
        let mut next = Instant::now() + every;
        loop {
            thread::sleep(next.saturating_duration_since(Instant::now()));
            if updates.send(self.read()).is_err() {
                return;
            }
            // After a server that took long, from now on rather than all at once.
            next = (next + every).max(Instant::now());
        }
    }
}
