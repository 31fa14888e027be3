//! Calls that a replica must have before anything else is done: `WAIT` behind them, on the same connection, in one write.

use std::time::Duration;

use redis::Value;

use crate::error::StoreError;
use crate::redis::call::Call;
use crate::redis::call::exchange::ReplicaWait;
use crate::redis::cluster::Servers;

/// The replies to calls, and who has what they wrote.
#[derive(Debug, Default)]
pub(crate) struct ReplicaAck {
    pub(crate) values: Vec<Value>,
    /// How many replicas have it; `None` if there is none to have it, or nobody waited.
    pub(crate) replicas: Option<u64>,
    /// The node that replied.
    pub(crate) node: usize,
    /// Whether a connection broke, so that the calls may have run more than once.
    pub(crate) was_resent: bool,
}

impl ReplicaAck {
    /// Whether a replica has it, or there is none to have it.
    pub(crate) fn is_replicated(&self) -> bool {
        self.replicas.is_none_or(|replicas| replicas > 0)
    }
}

impl Servers {
    /// Sends calls, all of one slot, and waits for replicas, if the slot has one. Whatever is sent again is written again, so
    /// that the wait covers it.
    ///
    /// # Errors
    /// Any of [`StoreError`].
    pub(crate) fn call_replicated(&mut self, calls: &[Call], wait: ReplicaWait) -> Result<ReplicaAck, StoreError> {
        self.send_with_retry(calls, Some(wait), None)
    }

    /// Sends a call, again and again, until a replica has what it wrote, if there is a replica; `None` if none has it in time.
    ///
    /// # Errors
    /// Any of [`StoreError`].
    pub(crate) fn call_until_replicated(
        &mut self,
        call: &Call,
        at_most: Duration,
    ) -> Result<Option<Value>, StoreError> {
        let began = self.system().now();
        loop {
            let wait = ReplicaWait::for_one(self.target().timeout / 2);
            let mut ack = self.call_replicated(std::slice::from_ref(call), wait)?;
            if ack.is_replicated()
                && let Some(value) = ack.values.pop()
            {
                return Ok(Some(value));
            }
            if self.system().now() - began >= at_most {
                return Ok(None);
            }
        }
    }
}
