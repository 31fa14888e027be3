//! The only code that speaks Redis: a [`Store`] runs the scripts of one layout on one server, or on a cluster.

pub mod activities;
mod address;
#[doc(hidden)]
pub mod adopt;
#[doc(hidden)]
pub mod archive;
mod audit;
mod audit_parts;
mod audit_shards;
pub mod bulk;
mod call;
mod checkpoint;
mod cluster;
pub mod connect;
mod connection;
mod covered;
mod elsewhere;
pub mod embedded;
pub mod error;
pub mod feeds;
pub mod health;
mod held_by;
#[doc(hidden)]
pub mod history;
#[doc(hidden)]
pub mod holders;
mod holds;
mod index;
pub mod info;
pub mod keys;
pub mod latency;
mod ledger;
pub mod lifetimes;
pub mod load;
mod multi_orders;
mod orders;
mod page_reader;
mod parent;
mod participants;
mod pause_sharded;
mod pipeline;
mod preheat;
mod preheat_sharded;
mod purchases;
mod redirection;
mod repair;
mod replicas;
mod reply;
mod resp;
#[doc(hidden)]
pub mod restore;
mod scan;
pub mod scripts;
mod sentinel;
mod sentinel_url;
mod server;
mod several;
mod sha1;
mod shard_choice;
pub mod shards;
mod single_call;
mod slot;
mod snapshot;
#[doc(hidden)]
pub mod socket;
mod spread_orders;
pub mod stats;
mod throttle;
mod tls;
mod transfer_repair;
pub mod trim;
pub mod watch;
mod whole;

use std::sync::Arc;

use cluster::Servers;
use connect::Target;
use keys::Keys;
use replicas::Changes;
use shards::{Directory, Supply};
use throttle::Throttle;

pub use error::{Settle, StoreError};
pub use replicas::Replicated;
pub use whole::Holdings;

use crate::inventory::id::ActivityId;
use crate::inventory::layout::Layout;

/// One server or cluster and one layout: everything that can be asked of a sale.
pub struct Store {
    servers: Servers,
    layout: Layout,
    operator: String,
    /// How soon what is read page by page asks for the next page.
    throttle: Throttle,
    /// What was changed, for replicas to have it.
    changes: Changes,
    /// Which activities are sharded.
    directory: Directory,
    /// What is known of transfers between shards.
    supply: Supply,
    /// Whether long operations should stop.
    stop: Arc<dyn Fn() -> bool + Send + Sync>,
}

impl Store {
    /// Nothing is sent before the first question. The ledger names the `operator` as who did it.
    pub fn new(target: Target, layout: Layout, operator: String) -> Self {
        let servers = Servers::new(target, layout);
        let (throttle, changes, directory) = (Throttle::quick(), Changes::default(), Directory::default());
        let supply = Supply::new(layout, operator.clone());
        Self { servers, layout, operator, throttle, changes, directory, supply, stop: Arc::new(|| false) }
    }

    /// Long operations ask `stop` between two calls, and end early once it says true. Without it they never do.
    #[must_use]
    pub fn stop_when(mut self, stop: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        self.stop = Arc::new(stop);
        self
    }

    /// Calls wait for no failover: whoever asks what is wrong wants to know that a node is down, and not to wait for
    /// another.
    #[must_use]
    pub fn without_waiting_for_failover(mut self) -> Self {
        self.servers.be_impatient();
        self
    }

    /// Who does this, as the ledger names it.
    pub fn operator(&self) -> &str {
        &self.operator
    }

    /// The layout of all keys.
    pub fn layout(&self) -> Layout {
        self.layout
    }

    /// The server, for messages: its URL without a password.
    pub fn server_name(&self) -> &str {
        &self.servers.target().shown
    }

    /// A second connection to the same server, made now; of a cluster, to one of the nodes.
    ///
    /// # Errors
    /// The server cannot be reached, or refuses the login.
    pub fn another(&self) -> Result<Self, StoreError> {
        let mut other = self.sibling();
        other.servers.connect_any()?;
        Ok(other)
    }

    /// A store of the same server, which is connected to when it is first asked. What one of the two changed, the other
    /// can wait for.
    #[must_use]
    pub fn sibling(&self) -> Self {
        Self {
            servers: self.servers.another(),
            layout: self.layout,
            operator: self.operator.clone(),
            throttle: Throttle::quick(),
            changes: self.changes.clone(),
            directory: self.directory.clone(),
            supply: self.supply.another(),
            stop: Arc::clone(&self.stop),
        }
    }

    fn keys(&self, activity: &ActivityId) -> Keys {
        Keys::of(self.layout, activity)
    }

    /// The key of an activity's participants, for messages.
    pub fn participants_key(&self, activity: &ActivityId) -> String {
        self.keys(activity).participants.unwrap_or_default()
    }

    /// The key of what preheat wrote about an activity, for messages.
    pub fn meta_key(&self, activity: &ActivityId) -> String {
        self.keys(activity).meta
    }

    /// How URLs of this server and its like begin.
    pub fn scheme(&self) -> &'static str {
        if self.servers.target().has_tls() { "rediss" } else { "redis" }
    }

    fn kind(&self) -> String {
        self.layout.kind().name().to_owned()
    }

    /// Loads all scripts into every primary, so that others can call them by their SHA-1.
    ///
    /// # Errors
    /// Any of [`StoreError`].
    pub fn load_scripts(&mut self) -> Result<(), StoreError> {
        self.servers.discover()?;
        for node in self.servers.primaries() {
            for script in scripts::Script::all() {
                self.servers.ask_node(node, redis::cmd("SCRIPT").arg("LOAD").arg(script.text))?;
            }
        }
        Ok(())
    }
}
