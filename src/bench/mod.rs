//! A load test: many clients on one thread, each with a connection of its own, buy from a sale by one of several
//! strategies, and what they saw is measured.
//!
//! [`load`] drives them. A strategy (`strategy`) is a small state machine for one order; the engine
//! (`engine`) owns connections, clocks and counts. `batch` alone has no clients of its own: it is what applies files of
//! orders (`batch`).

#![allow(
    clippy::disallowed_methods,
    clippy::iter_over_hash_type,
    reason = "it measures real servers, and is not simulated"
)]

mod batch;
mod engine;
pub(crate) mod made;
mod opener;
mod pace;
mod strategy;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

pub(crate) use crate::bench::made::ReadBack;
pub(crate) use crate::bench::opener::prepare_files;
pub(crate) use crate::bench::pace::{PaceOptions, Until};
use crate::error::{Result, StoreError};
use crate::model::names::names;
use crate::model::order::Items;
use crate::model::slot::common_slot;
use crate::model::{Corrupt, RequestId, Status};
use crate::script::keys::Keys;
use crate::sell::multi_orders::spread_error;
use crate::store::Store;

names! {
    /// How an order is taken.
    #[derive(Hash, clap::ValueEnum)]
    pub enum StrategyName {
        /// Our script, one order a call
        Lua = "lua",
        /// Our script, the orders of all clients in batches, as files are applied
        Batch = "batch",
        /// WATCH, read, MULTI, EXEC, again if another client was faster
        Watch = "watch",
        /// A lock (SET NX PX), read, write, release; one holder pauses for longer than the lock lives
        Lock = "lock",
        /// Read, compare, write
        Naive = "naive",
    }
}

/// How a sale is loaded.
#[derive(Debug, Clone)]
pub(crate) struct LoadOptions {
    /// How orders are taken.
    pub strategy: StrategyName,
    /// How many clients there are: connections, or for batches orders that wait at the same time.
    pub clients: usize,
    /// When orders start.
    pub pace: PaceOptions,
    /// Orders of a call, for batches.
    pub batch: crate::sell::bulk::Limits,
    /// Whether the first order without an answer ends it.
    pub must_succeed: bool,
}

/// Loads a sale, and measures. `progress` gets how many orders ended since it was called last.
///
/// # Errors
/// Clients cannot connect or may not do this; or nobody answers any more.
pub(crate) fn load(
    store: &mut Store,
    sale: &Sale,
    options: &LoadOptions,
    progress: &mut dyn FnMut(u64),
) -> Result<Measured> {
    store.servers.discover()?;
    for items in sale.baskets.iter().filter(|_| store.servers.is_cluster()) {
        let keys: Vec<Keys> = items.iter().map(|(activity, _)| store.keys(activity)).collect();
        if common_slot(keys.iter().flat_map(Keys::in_order)).is_none() {
            return Err(spread_error(items, &keys));
        }
    }
    let mut progress = |ended: u64| {
        if ended > 0 {
            progress(ended);
        }
    };
    let measured = match options.strategy {
        StrategyName::Batch => batch::load(store, sale, options, &mut progress)?,
        _ => engine::load(store, sale, options, &mut progress)?,
    };
    // For who waits for replicas.
    sale.baskets.iter().flat_map(|items| items.iter()).for_each(|(activity, _)| store.changed(activity));
    Ok(measured)
}

/// How many nodes of a cluster serve slots; `None` for a single server.
///
/// # Errors
/// No server can be reached, or the layout has no keys for a cluster.
pub(crate) fn primary_count(store: &mut Store) -> Result<Option<usize>> {
    store.servers.discover()?;
    Ok(store.servers.is_cluster().then(|| store.servers.primaries().len()))
}

/// The longest that an order is tried, in timeouts: as for any other call.
const TIMEOUTS: u32 = 3;

/// An hour: what takes longer counts as that.
const LONGEST_NANOS: u64 = 3_600_000_000_000;

/// What came of the orders of a load test.
#[derive(Debug)]
pub(crate) struct Measured {
    /// Nanoseconds of each order that was answered, with three digits.
    latencies: Histogram<u64>,
    /// How many orders ended with each status.
    pub statuses: BTreeMap<Status, u64>,
    /// Orders without an answer: an error of the server, no reply in time, given up.
    pub errors: u64,
    /// The first of them.
    pub first_error: Option<StoreError>,
    /// Orders that were never sent, because no client was free for them.
    pub dropped: u64,
    /// How often part of an order was done again.
    pub retries: u64,
    /// From the start to the last reply.
    pub took: Duration,
    /// A key that holds what it must not.
    pub corrupt: Option<Corrupt>,
    /// Whether it was asked to stop.
    pub is_cut_short: bool,
}

impl Measured {
    pub(crate) fn new() -> Result<Self> {
        let latencies = Histogram::new_with_bounds(1, LONGEST_NANOS, 3).map_err(|error| StoreError::Reply {
            what: "the histogram of latencies".to_owned(),
            reply: error.to_string(),
        })?;
        Ok(Self {
            latencies,
            statuses: BTreeMap::new(),
            errors: 0,
            first_error: None,
            dropped: 0,
            retries: 0,
            took: Duration::ZERO,
            corrupt: None,
            is_cut_short: false,
        })
    }

    /// Counts an order that was answered.
    pub(crate) fn answered(&mut self, status: Status, started: Instant, now: Instant) {
        let nanos = u64::try_from((now - started).as_nanos()).unwrap_or(u64::MAX);
        self.latencies.saturating_record(nanos.min(LONGEST_NANOS));
        *self.statuses.entry(status).or_default() += 1;
    }

    /// Counts an order without an answer.
    pub(crate) fn failed(&mut self, error: StoreError) {
        self.errors += 1;
        self.first_error.get_or_insert(error);
    }

    /// Orders that were answered.
    pub(crate) fn answers(&self) -> u64 {
        self.statuses.values().sum()
    }

    /// Orders that ended with a status.
    pub(crate) fn of(&self, status: Status) -> u64 {
        self.statuses.get(&status).copied().unwrap_or_default()
    }

    /// Orders that were answered, a second.
    pub(crate) fn per_second(&self) -> f64 {
        self.answers() as f64 / self.took.as_secs_f64().max(0.000_001)
    }

    /// The mean latency; `None` if nothing was answered.
    pub(crate) fn mean(&self) -> Option<Duration> {
        let nanos = self.latencies.mean();
        (!self.latencies.is_empty()).then(|| Duration::from_nanos(nanos as u64))
    }

    /// The latency that this share of all answers kept, in percent; `None` if nothing was answered.
    pub(crate) fn percentile(&self, percent: f64) -> Option<Duration> {
        (!self.latencies.is_empty()).then(|| Duration::from_nanos(self.latencies.value_at_percentile(percent)))
    }
}

/// What is sold, and to whom.
#[derive(Debug, Clone)]
pub(crate) struct Sale {
    /// Each client buys from one of them; there is at least one.
    pub baskets: Vec<Items>,
    /// Who buys.
    pub buyers: Buyers,
    /// The most units a user may hold, as a backend without our script knows it.
    pub per_user_limit: Option<u64>,
    /// Whether units run out.
    pub is_short: bool,
    /// Why, for the ledger.
    pub reason: Option<String>,
    /// Request ids begin with it, and jobs are named by it.
    pub run: RequestId,
}

/// Who buys: `user-1` to `user-<count>`, again and again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Buyers {
    /// How many there are, at least one.
    pub count: u64,
    /// How many orders in a row are one user's, at least one.
    pub in_a_row: u64,
}

impl Buyers {
    /// The user who places this order; both are counted from 0.
    pub(crate) fn number(self, order: u64) -> u64 {
        order / self.in_a_row.max(1) % self.count.max(1) + 1
    }
}

/// The user of that number.
pub(crate) fn write_user(out: &mut String, number: u64) {
    use std::fmt::Write;
    out.clear();
    // Writing to a text cannot fail.
    let _ = write!(out, "user-{number}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latencies_of_all_sizes_are_recorded_within_a_thousandth() {
        let mut measured = Measured::new().unwrap();
        assert_eq!((measured.mean(), measured.percentile(50.0)), (None, None));
        let began = Instant::now();
        for millis in 1..=1000 {
            measured.answered(Status::Ok, began, began + Duration::from_millis(millis));
        }
        let is_near = |found: Option<Duration>, millis: f64| {
            let found = found.unwrap().as_secs_f64() * 1000.0;
            assert!((found - millis).abs() <= millis / 900.0, "{found} ms, not {millis}");
        };
        is_near(measured.mean(), 500.5);
        is_near(measured.percentile(50.0), 500.0);
        is_near(measured.percentile(99.0), 990.0);
        measured.answered(Status::OutOfStock, began, began + Duration::from_secs(3600));
        is_near(measured.percentile(100.0), 3_600_000.0);
        measured.answered(Status::OutOfStock, began, began + Duration::from_secs(7200));
        is_near(measured.percentile(100.0), 3_600_000.0);
        assert_eq!((measured.answers(), measured.of(Status::Ok)), (1002, 1000));
    }

    #[test]
    fn users_buy_in_turn_each_so_many_times_in_a_row() {
        let users =
            |count, in_a_row| -> Vec<u64> { (0..7).map(|order| Buyers { count, in_a_row }.number(order)).collect() };
        assert_eq!(users(3, 1), [1, 2, 3, 1, 2, 3, 1]);
        assert_eq!(users(2, 2), [1, 1, 2, 2, 1, 1, 2]);
        assert_eq!(users(1, 1), [1; 7]);
    }
}
