//! A [`Store`] is the servers of one layout: what every room asks through.

pub(crate) mod replicas;
pub(crate) mod shards;
pub(crate) mod throttle;

use std::sync::Arc;

use crate::error::StoreError;
use crate::redis::cluster::Servers;
use crate::redis::connect::Target;
use crate::script::keys::Keys;
use crate::script::reply::Reply;
use crate::shards::{Directory, ShardBorrower};
use crate::store::replicas::Changes;
use crate::store::throttle::Throttle;

use crate::model::id::ActivityId;
use crate::model::layout::Layout;
use crate::model::time::Millis;

/// One server or cluster and one layout: everything that can be asked of a sale.
pub struct Store {
    pub(crate) servers: Servers,
    pub(crate) layout: Layout,
    pub(crate) operator: String,
    /// How soon what is read page by page asks for the next page.
    pub(crate) throttle: Throttle,
    /// What was changed, for replicas to have it.
    pub(crate) changes: Changes,
    /// Which activities are sharded.
    pub(crate) directory: Directory,
    /// What gets units from other shards.
    pub(crate) borrower: ShardBorrower,
    /// Whether these servers were asked which of them have replicas.
    pub(crate) knows_replicas: bool,
    /// Whether long operations should stop.
    pub(crate) stop: Arc<dyn Fn() -> bool + Send + Sync>,
}

impl Store {
    /// Nothing is sent before the first question. The ledger names the `operator` as who did it.
    pub fn new(target: Target, layout: Layout, operator: String) -> Self {
        let servers = Servers::new(target, layout);
        let (throttle, changes, directory) =
            (Throttle::quick(servers.system()), Changes::default(), Directory::default());
        let borrower = ShardBorrower::new(layout, operator.clone());
        let (knows_replicas, stop) = (false, Arc::new(|| false));
        Self { servers, layout, operator, throttle, changes, directory, borrower, knows_replicas, stop }
    }

    /// Long operations ask `stop` between two calls, and end early once it says true. Without it they never do.
    #[must_use]
    pub fn stop_when(mut self, stop: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        self.stop = Arc::new(stop);
        self
    }

    /// Calls wait for no failover: `doctor` reports that a node is down, instead of waiting for another.
    #[must_use]
    pub fn without_waiting_for_failover(mut self) -> Self {
        self.servers.fail_fast();
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
    pub fn connect_new(&self) -> Result<Self, StoreError> {
        let mut other = self.unconnected_copy();
        other.servers.connect_any()?;
        Ok(other)
    }

    /// A store of the same server, which is connected to when it is first asked. What one of the two changed, the other
    /// can wait for.
    #[must_use]
    pub fn unconnected_copy(&self) -> Self {
        Self {
            servers: self.servers.unconnected_copy(),
            layout: self.layout,
            operator: self.operator.clone(),
            throttle: Throttle::quick(self.servers.system()),
            changes: self.changes.clone(),
            directory: self.directory.clone(),
            borrower: self.borrower.for_other_servers(),
            knows_replicas: false,
            stop: Arc::clone(&self.stop),
        }
    }

    pub(crate) fn keys(&self, activity: &ActivityId) -> Keys {
        Keys::of(self.layout, activity)
    }

    pub(crate) fn kind(&self) -> String {
        self.layout.kind().name().to_owned()
    }

    /// The server's clock.
    ///
    /// # Errors
    /// Any of [`StoreError`].
    pub(crate) fn now(&mut self) -> Result<Millis, StoreError> {
        let reply = Reply::of_command("TIME");
        let parts = reply.array(self.servers.ask_any(&redis::cmd("TIME"))?)?;
        let part = |at: usize| reply.count(parts.get(at)).map(Option::unwrap_or_default);
        Ok(Millis::new(part(0)? * 1000 + part(1)? / 1000))
    }
}
