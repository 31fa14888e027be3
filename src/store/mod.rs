//! A [`Store`] is the servers of one layout: what every room asks through. It knows which shards an activity has, how much of the
//! server's time what is read page by page may take, and whether replicas have what was written.
//!
//! `WAIT` covers what its own connection wrote: on another one it says that replicas have everything, although they have
//! nothing. So an activity that was changed is written once more first, as it is, on the connection that waits. Replicas
//! get all writes of a server in one order: a replica that has this one has everything before it, whichever connection, process
//! or retry wrote that.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use redis::Value;

use crate::error::{Result, StoreError};
use crate::model::{ActivityId, Layout, Millis, Shards};
use crate::redis::call::Call;
use crate::redis::call::exchange::ReplicaWait;
use crate::redis::cluster::{Servers, Stop};
use crate::redis::connect::Target;
use crate::redis::system::System;
use crate::script::keys::Keys;
use crate::script::reply::Reply;
use crate::shards::{Directory, ShardBorrower};

/// One server or cluster and one layout: everything that can be asked of a sale.
pub struct Store {
    pub(crate) servers: Servers,
    pub(crate) layout: Layout,
    pub(crate) operator: String,
    /// How soon what is read page by page asks for the next page.
    pub(crate) throttle: Throttle,
    /// What was changed, for replicas to have it.
    pub(crate) changes: Changes,
    /// The connections that last while no other server has taken over: nodes, and how often each was connected to. `None` if nobody
    /// waits for replicas, or may ask which servers there are.
    lasting_connections: Option<BTreeMap<usize, u64>>,
    /// Which activities are sharded.
    pub(crate) directory: Directory,
    /// What gets units from other shards.
    pub(crate) borrower: ShardBorrower,
    /// Whether these servers were asked which of them have replicas.
    pub(crate) knows_replicas: bool,
    /// Whether long operations should stop.
    pub(crate) stop: Stop,
}

impl Store {
    /// Nothing is sent before the first question. The ledger names the `operator` as who did it.
    pub fn new(target: Target, layout: Layout, operator: String) -> Self {
        let servers = Servers::new(target, layout);
        let (throttle, changes, directory) =
            (Throttle::quick(servers.system()), Changes::default(), Directory::default());
        let borrower = ShardBorrower::new(operator.clone());
        let (knows_replicas, stop) = (false, Arc::new(|| false));
        let lasting_connections = None;
        Self {
            servers,
            layout,
            operator,
            throttle,
            changes,
            lasting_connections,
            directory,
            borrower,
            knows_replicas,
            stop,
        }
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
        self.servers.patience = Some(self.servers.shortest_patience());
        self
    }

    /// From now on a server that could not be reached for as long as a call waits is given up, until this is called again: calls
    /// to it fail at once. They wait so long for a server, or else as long as a failover takes.
    pub(crate) fn begin_round(&mut self, patience: Option<Duration>) {
        self.servers.patience = patience;
        self.servers.given_up = Some(HashMap::new());
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
            lasting_connections: None,
            directory: self.directory.clone(),
            borrower: ShardBorrower::new(self.operator.clone()),
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
    /// Any of `StoreError`.
    pub(crate) fn now(&mut self) -> Result<Millis> {
        Ok(Millis::new(Reply::clock(&self.servers.ask_any(&redis::cmd("TIME"))?)? / 1000))
    }
}

impl Store {
    /// The shards of an activity, as they are stored now; `None` if it is not sharded.
    ///
    /// # Errors
    /// Any of `StoreError`.
    pub fn shards_of(&mut self, activity: &ActivityId) -> Result<Option<Shards>> {
        Ok(self.shards_of_each(std::slice::from_ref(activity))?.pop().flatten())
    }

    /// The same for several activities, by a plain command each: no right is needed that a screen does not need anyway.
    ///
    /// # Errors
    /// Any of `StoreError`.
    pub(crate) fn shards_of_each(&mut self, activities: &[ActivityId]) -> Result<Vec<Option<Shards>>> {
        let call = |activity: &ActivityId| {
            let meta = self.keys(activity).meta;
            Call::command(&meta, redis::cmd("HMGET").arg(&meta).arg("shards"))
        };
        let calls: Vec<Call> = activities.iter().map(call).collect();
        let reply = Reply::of_command("HMGET");
        let mut all = Vec::with_capacity(activities.len());
        for (activity, answer) in activities.iter().zip(self.servers.call_all(&calls)) {
            let value = match answer {
                // Who reads the activity finds that it is corrupt.
                Err(error) if error.is_wrong_type() => Value::Array(Vec::new()),
                answer => answer?.value(),
            };
            let shards = reply.text(reply.array(value)?.first())?.and_then(|text| text.parse::<Shards>().ok());
            self.directory.learn(activity, shards.clone());
            all.push(shards);
        }
        Ok(all)
    }

    /// Records that orders of an activity were applied, in any of its shards if it has some.
    ///
    /// # Errors
    /// Any of `StoreError`.
    pub fn changed_anywhere(&mut self, activity: &ActivityId) -> Result<()> {
        let shards = if self.layout == Layout::Cluster { self.shards_of(activity)? } else { None };
        match shards {
            Some(shards) => shards.ids(activity).for_each(|id| self.changed(&id)),
            None => self.changed(activity),
        }
        Ok(())
    }

    /// Where the units of a user are: the activity, or the user's home if it is known to be sharded.
    #[must_use]
    pub fn home_of(&self, activity: &ActivityId, user: &[u8]) -> ActivityId {
        self.directory.get(activity).map_or_else(|| activity.clone(), |shards| shards.home_of(activity, user))
    }

    /// The activities that have the units of a user: the activities themselves, or of those that are sharded, the home.
    pub(crate) fn homes_of(&mut self, activities: &[&ActivityId], user: &[u8]) -> Result<Vec<ActivityId>> {
        let unknown: Vec<ActivityId> =
            activities.iter().filter(|id| self.directory.is_unknown(id)).map(|id| (*id).clone()).collect();
        self.shards_of_each(&unknown)?;
        Ok(activities.iter().map(|id| self.home_of(id, user)).collect())
    }
}

/// How much longer than a call took the server is then left to others: three quarters of its time, as far as `MOST` goes.
const REST_FACTOR: u32 = 3;
/// The longest rest: a call that took longer waited for something else.
const MOST: Duration = Duration::from_millis(5);

/// When the next call may be sent.
pub(crate) struct Throttle {
    system: Arc<dyn System>,
    is_live: bool,
    /// When the last call was sent.
    sent: Instant,
    /// How long others go first, from then on.
    rest: Duration,
}

impl Throttle {
    /// Quick until a purchase is seen.
    pub(crate) fn quick(system: &Arc<dyn System>) -> Self {
        Self { system: Arc::clone(system), is_live: false, sent: system.now(), rest: Duration::ZERO }
    }

    /// As during a sale.
    pub(crate) fn gentle(system: &Arc<dyn System>) -> Self {
        Self { is_live: true, ..Self::quick(system) }
    }

    /// Says whether anybody buys now.
    pub(crate) fn set_live(&mut self, is_live: bool) {
        self.is_live = is_live;
    }

    /// Right before a call is sent: lets others go first if there are any.
    pub(crate) fn wait(&mut self) {
        if self.is_live {
            self.system.sleep(self.rest.saturating_sub(self.system.now() - self.sent));
        }
        self.sent = self.system.now();
    }

    /// Right after its reply came.
    pub(crate) fn took(&mut self) {
        let took = self.system.now() - self.sent;
        self.rest = took + (took * REST_FACTOR).min(MOST);
    }
}

/// Writes an activity as it is: its rules, or if another system created it, its stock. What is not there stays so.
/// Replies whether anything was written.
pub const REWRITE: &str = "\
local rules = redis.call('HGET', KEYS[2], 'rules')
if rules then
  redis.call('HSET', KEYS[2], 'rules', rules)
elseif redis.call('EXISTS', KEYS[1]) == 1 then
  redis.call('INCRBY', KEYS[1], '0')
else
  return 0
end
return 1";

/// What a store, and those made from it, changed: an activity for each slot, in a layout whose activities have one.
#[derive(Debug, Clone, Default)]
pub(crate) struct Changes(Arc<Mutex<Noted>>);

#[derive(Debug, Default)]
struct Noted {
    /// How many replicas must have it.
    replicas: Option<u32>,
    activities: BTreeMap<Option<u16>, ActivityId>,
}

impl Changes {
    fn noted(&self) -> MutexGuard<'_, Noted> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How many replicas of a server have what was written to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replicated {
    /// The server, without a password.
    pub server: String,
    /// Replicas that should have it.
    pub wanted: u32,
    /// Replicas that have it.
    pub replicas: u32,
    /// Whether the server has no replica at all.
    pub is_alone: bool,
}

impl Store {
    /// What is changed from now on must reach this many replicas: see [`wait_for_replicas`](Self::wait_for_replicas). Connects to
    /// each server: while that connection lasts, no other one has taken over.
    pub fn require_replicas(&mut self, replicas: Option<u32>) {
        self.changes.noted().replicas = replicas;
        self.lasting_connections = replicas.and_then(|_| match self.servers.discover() {
            Ok(()) => Some(self.servers.connect_to_primaries()),
            Err(StoreError::Permission { .. }) => None,
            // What cannot be reached now does not last.
            Err(_) => Some(BTreeMap::new()),
        });
    }

    /// Whether anybody will wait for replicas.
    pub fn requires_replicas(&self) -> bool {
        self.changes.noted().replicas.is_some()
    }

    /// Records that an activity was changed, or that a change was found applied.
    pub fn changed(&self, activity: &ActivityId) {
        let mut noted = self.changes.noted();
        if noted.replicas.is_some() {
            let slot = self.keys(activity).slot();
            // The last one: of one that is gone since, the wait would be for nothing.
            if noted.activities.get(&slot) != Some(activity) {
                noted.activities.insert(slot, activity.clone());
            }
        }
    }

    /// Waits, somewhat less than the timeout for each server, until as many replicas as are required have everything
    /// that was written there so far, and gives the first server of which fewer have it. `None` if there is none, or if
    /// nothing was changed.
    ///
    /// # Errors
    /// Any of `StoreError`. What was written stays written, unless another server has taken over since
    /// [`require_replicas`](Self::require_replicas), which was called on this store: then, and if a slot moved, it is an error,
    /// whatever replicas have.
    pub fn wait_for_replicas(&mut self) -> Result<Option<Replicated>> {
        let (wanted, activities) = {
            let noted = self.changes.noted();
            let Some(wanted) = noted.replicas else { return Ok(None) };
            (wanted, noted.activities.values().cloned().collect::<Vec<_>>())
        };
        // With one activity, its call finds the node.
        if activities.len() > 1 {
            self.servers.discover()?;
        }
        let mut nodes = Vec::new();
        for activity in activities {
            let keys = self.keys(&activity);
            let written = self.servers.node_of(keys.slot());
            if nodes.contains(&written) && !self.servers.has_asked() {
                continue;
            }
            let reached = self.servers.replicated(&keys, wanted)?;
            let node = self.servers.node_of(keys.slot());
            // Of an activity that is gone nothing was written, so the wait was for nothing.
            if reached.is_some() {
                nodes.push(node);
            }
            // Where its slot is moving to; else the same.
            let at = reached.as_ref().map_or(node, |(at, _)| *at);
            // If the slot moved since, another server may have taken over before that, without what was written.
            if !self.still_lasts(node) || !self.still_lasts(at) || node != written {
                let (server, why) =
                    (self.servers.node(at).target.shown.clone(), "another one may have taken over".to_owned());
                return Err(StoreError::Unknown { server, why, recovery: None });
            }
            if let Some((_, short)) = reached.filter(|(_, reached)| reached.replicas < wanted) {
                return Ok(Some(short));
            }
        }
        Ok(None)
    }

    /// Whether the connection to a node still lasts: while it does, no other server has taken over.
    fn still_lasts(&mut self, node: usize) -> bool {
        let server = self.servers.node(node);
        let (is_up, connected) = (!server.is_down && server.is_named(), server.connected);
        self.lasting_connections.as_mut().is_none_or(|known| known.insert(node, connected) == Some(connected) && is_up)
    }
}

impl Servers {
    /// Writes an activity as it is, and waits for replicas of the node where it is; `None` if there is nothing of it.
    fn replicated(&mut self, keys: &Keys, wanted: u32) -> Result<Option<(usize, Replicated)>> {
        // Nobody may ever come: who may not ask this waits in vain.
        self.look_for_replicas_of(self.node_of(keys.slot()));
        let mut rewrite = redis::cmd("EVAL");
        rewrite.arg(REWRITE).arg(2).arg(&keys.stock).arg(&keys.meta);
        // The reply must come before we give up on it.
        let timeout = self.target().timeout;
        let patience = timeout.saturating_sub((timeout / 5).min(Duration::from_millis(500)));
        let call = Call::command(&keys.stock, &rewrite);
        let ack = self.send(&[call], Some(ReplicaWait { replicas: wanted, patience }), None)?;
        if ack.values != [Value::Int(1)] {
            return Ok(None);
        }
        let server = self.node(ack.node).target.shown.clone();
        let replicas = ack.replicas.map(|replicas| u32::try_from(replicas).unwrap_or(u32::MAX));
        let reached = Replicated { server, wanted, replicas: replicas.unwrap_or(0), is_alone: replicas.is_none() };
        Ok(Some((ack.node, reached)))
    }
}
