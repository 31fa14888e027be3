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
mod measured;
mod opener;
mod order;
mod pace;
mod poller;
mod sale;
mod strategy;

use std::time::Duration;

use crate::error::StoreError;
use crate::model::names::names;
use crate::model::slot::common_slot;
use crate::script::keys::Keys;
use crate::sell::multi_orders::spread;
use crate::store::Store;

pub(crate) use crate::bench::made::{BenchActivities, ReadBack};
pub(crate) use crate::bench::measured::Measured;
pub(crate) use crate::bench::opener::prepare_files;
pub(crate) use crate::bench::pace::{PaceOptions, Until};
pub(crate) use crate::bench::sale::{Basket, Buyers, Sale};

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
) -> Result<Measured, StoreError> {
    store.servers.discover()?;
    for basket in sale.baskets.iter().filter(|_| store.servers.is_cluster()) {
        let keys: Vec<Keys> = basket.items.iter().map(|(activity, _)| store.keys(activity)).collect();
        if common_slot(keys.iter().flat_map(Keys::in_order)).is_none() {
            return Err(spread(&basket.items, &keys));
        }
    }
    let measured = match options.strategy {
        StrategyName::Batch => batch::load(store, sale, options, progress)?,
        _ => engine::load(store, sale, options, progress)?,
    };
    // For who waits for replicas.
    for basket in &sale.baskets {
        basket.items.iter().for_each(|(activity, _)| store.changed(activity));
    }
    Ok(measured)
}

/// How many nodes of a cluster serve slots; `None` for a single server.
///
/// # Errors
/// No server can be reached, or the layout has no keys for a cluster.
pub(crate) fn primary_count(store: &mut Store) -> Result<Option<usize>, StoreError> {
    store.servers.discover()?;
    Ok(store.servers.is_cluster().then(|| store.servers.primaries().len()))
}

/// The longest that an order is tried, in timeouts: as for any other call.
const TIMEOUTS: u32 = 3;

/// The first pause before another try, and the longest.
const SHORTEST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
