//! Waits until replicas have what was written.
//!
//! `WAIT` covers what its own connection wrote: on another one it says that replicas have everything, although they have
//! nothing. So an activity that was changed is written once more first, as it is, on the connection that waits. Replicas
//! get all writes of a server in one order: a replica that has this one has everything before it, whichever connection, process
//! or retry wrote that.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use redis::Value;

use crate::error::StoreError;
use crate::model::id::ActivityId;
use crate::redis::call::Call;
use crate::redis::call::exchange::ReplicaWait;
use crate::redis::cluster::Servers;
use crate::script::keys::Keys;
use crate::store::Store;

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
    /// What is changed from now on must reach this many replicas: see [`wait_for_replicas`](Self::wait_for_replicas).
    pub fn require_replicas(&mut self, replicas: Option<u32>) {
        self.changes.noted().replicas = replicas;
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
            noted.activities.entry(slot).or_insert_with(|| activity.clone());
        }
    }

    /// Waits, somewhat less than the timeout for each server, until as many replicas as are required have everything
    /// that was written there so far, and gives the first server of which fewer have it. `None` if there is none, or if
    /// nothing was changed.
    ///
    /// # Errors
    /// Any of [`StoreError`]. What was written stays written.
    pub fn wait_for_replicas(&mut self) -> Result<Option<Replicated>, StoreError> {
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
            let node = self.servers.node_of(keys.slot());
            if nodes.contains(&node) {
                continue;
            }
            nodes.push(node);
            let reached = self.servers.replicated(&keys, wanted)?;
            if let Some(short) = reached.filter(|reached| reached.replicas < wanted) {
                return Ok(Some(short));
            }
        }
        Ok(None)
    }
}

impl Servers {
    /// Writes an activity as it is, and waits for replicas; `None` if there is nothing of it.
    fn replicated(&mut self, keys: &Keys, wanted: u32) -> Result<Option<Replicated>, StoreError> {
        // Nobody may ever come: who may not ask this waits in vain.
        self.look_for_replicas_of(self.node_of(keys.slot()));
        let mut rewrite = redis::cmd("EVAL");
        rewrite.arg(REWRITE).arg(2).arg(&keys.stock).arg(&keys.meta);
        // The reply must come before we give up on it.
        let timeout = self.target().timeout;
        let patience = timeout.saturating_sub((timeout / 5).min(Duration::from_millis(500)));
        let call = Call::command(&keys.stock, &rewrite);
        let ack = self.call_replicated(&[call], ReplicaWait { replicas: wanted, patience })?;
        if ack.values != [Value::Int(1)] {
            return Ok(None);
        }
        let server = self.node(ack.node).target.shown.clone();
        let replicas = ack.replicas.map(|replicas| u32::try_from(replicas).unwrap_or(u32::MAX));
        Ok(Some(Replicated { server, wanted, replicas: replicas.unwrap_or(0), is_alone: replicas.is_none() }))
    }
}
