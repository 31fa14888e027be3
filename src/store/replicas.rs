//! Waits until replicas have what was written.
//!
//! `WAIT` covers what its own connection wrote: on another one it says that replicas have everything, although they have
//! nothing. So an activity that was changed is written once more first, as it is, on the connection that waits. Replicas
//! get all writes of a server in one order: whoever has this one has everything before it, whichever connection, process
//! or retry wrote that.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use redis::Value;

use crate::error::StoreError;
use crate::model::id::ActivityId;
use crate::redis::call::{Attempts, evaluate};
use crate::redis::cluster::server::Server;
use crate::redis::cluster::{Servers, is_alone};
use crate::script::keys::Keys;
use crate::script::reply::Reply;
use crate::store::Store;

/// Writes an activity as it is: its rules, or if another system created it, its stock. What is not there stays so.
/// Replies whether anything was written.
const REWRITE: &str = "\
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
    /// What is changed from now on must reach so many replicas: see [`wait_for_replicas`](Self::wait_for_replicas).
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

    /// Waits, somewhat less than the timeout for each server, until so many replicas as are required have everything
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
    /// Asks the node of an activity, again while there is hope for an answer.
    fn replicated(&mut self, keys: &Keys, wanted: u32) -> Result<Option<Replicated>, StoreError> {
        let slot = keys.slot();
        let mut attempts = Attempts::new();
        loop {
            let (node, asks) = attempts.node(self, slot);
            match self.node(node).replicated(keys, wanted, asks) {
                Err(error) if error.is_connection() || self.may_recover(&error) => {
                    self.recover(&mut attempts, slot, node, error)?;
                }
                ended => return ended,
            }
        }
    }
}

impl Server {
    fn replicated(&mut self, keys: &Keys, wanted: u32, asks: bool) -> Result<Option<Replicated>, StoreError> {
        if asks {
            self.ask(&redis::cmd("ASKING"))?;
        }
        if self.ask(&evaluate("EVAL", REWRITE, &[&keys.stock, &keys.meta], &[] as &[&str]))? != Value::Int(1) {
            return Ok(None);
        }
        let server = self.target.shown.clone();
        // Nobody may ever come: who may not ask this waits in vain.
        if self.ask(&redis::cmd("ROLE")).is_ok_and(|role| is_alone(&role)) {
            return Ok(Some(Replicated { server, wanted, replicas: 0, is_alone: true }));
        }
        // The reply must come before we give up on it, and 0 would be forever.
        let timeout = self.target.timeout;
        let patience = timeout.saturating_sub((timeout / 5).min(Duration::from_millis(500)));
        let milliseconds = u64::try_from(patience.as_millis()).unwrap_or(u64::MAX).max(1);
        let reply = self.ask(redis::cmd("WAIT").arg(wanted).arg(milliseconds))?;
        let replicas = Reply::of_command("WAIT").count(Some(&reply))?.unwrap_or_default();
        let replicas = u32::try_from(replicas).unwrap_or(u32::MAX);
        Ok(Some(Replicated { server, wanted, replicas, is_alone: false }))
    }
}
