//! Calls to one node in one write, and their replies: what every verb does with a node.

use std::time::Duration;

use redis::Value;

use crate::error::StoreError;
use crate::redis::call::{Call, Try};
use crate::redis::cluster::map_reply::is_alone;
use crate::redis::cluster::server::Server;
use crate::redis::connection::resp::{ASKING, reply_behind};
use crate::script::reply::Reply;

/// Why a call has no reply.
#[derive(Debug, Clone)]
pub(crate) enum CallFailure {
    /// There was no connection: nothing was sent.
    Unsent(StoreError),
    /// The server has lost its scripts (restart, failover, SCRIPT FLUSH): nothing ran.
    NoScript,
    /// The server refused it: nothing ran.
    Refused(StoreError),
    /// The connection broke: nobody knows whether it ran.
    Lost(StoreError),
    /// It ran, and no replica said in time that it has what it wrote.
    NotReplicated,
}

impl CallFailure {
    /// The same as an error, where nobody tries again.
    pub(crate) fn into_error(self) -> StoreError {
        match self {
            Self::Unsent(error) | Self::Refused(error) | Self::Lost(error) => error,
            Self::NoScript => StoreError::Reply { what: "EVAL".into(), reply: "NOSCRIPT".into() },
            Self::NotReplicated => StoreError::Reply { what: "WAIT".into(), reply: "0".into() },
        }
    }
}

/// What a `WAIT` behind calls asks for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReplicaWait {
    /// Replicas that must have what the calls wrote,
    pub(crate) replicas: u32,
    /// and are waited for no longer than this.
    pub(crate) patience: Duration,
}

impl ReplicaWait {
    /// For one replica.
    pub(crate) fn for_one(patience: Duration) -> Self {
        Self { replicas: 1, patience }
    }

    fn pack(self, out: &mut Vec<u8>) {
        // 0 would be forever.
        let milliseconds = u64::try_from(self.patience.as_millis()).unwrap_or(u64::MAX).max(1);
        out.extend(redis::cmd("WAIT").arg(self.replicas).arg(milliseconds).get_packed_command());
    }
}

/// How calls are sent to a node.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sending {
    pub(crate) attempt: Try,
    /// Each behind `ASKING`: the node is importing their slot.
    pub(crate) asks: bool,
    /// A node that had no replica says whether it has one by now, instead of waiting: one that comes later gets all that there is.
    pub(crate) wait: Option<ReplicaWait>,
}

impl Sending {
    /// A first try.
    pub(crate) const FIRST: Self = Self { attempt: Try::First, asks: false, wait: None };
}

impl Server {
    /// Writes calls, all at once; `by_text` those whose script the server has lost.
    pub(crate) fn write_calls<'c>(
        &mut self,
        calls: impl IntoIterator<Item = &'c Call>,
        sending: Sending,
        mut by_text: impl FnMut(&Call) -> bool,
    ) -> Result<(), CallFailure> {
        // Without a connection nothing is sent.
        self.connection().map_err(CallFailure::Unsent)?;
        let mut bytes = Vec::new();
        for call in calls {
            if sending.asks {
                bytes.extend_from_slice(ASKING);
            }
            call.pack(sending.attempt, by_text(call), &mut bytes);
        }
        match sending.wait {
            Some(_) if self.is_alone => bytes.extend(redis::cmd("ROLE").get_packed_command()),
            Some(wait) => wait.pack(&mut bytes),
            None => {}
        }
        self.write(&bytes).map_err(CallFailure::Lost)
    }

    /// Reads the reply to one of them.
    pub(crate) fn read_call(&mut self, sending: Sending) -> Result<Value, CallFailure> {
        match reply_behind(sending.asks, || self.read()).map_err(CallFailure::Lost)? {
            Value::ServerError(error) if error.code() == "NOSCRIPT" => Err(CallFailure::NoScript),
            reply => self.checked(reply).map_err(CallFailure::Refused),
        }
    }

    /// Reads how many replicas have what they wrote; `None` if nobody waited, or there is none.
    pub(crate) fn read_replicas(&mut self, sending: Sending) -> Result<Option<u64>, CallFailure> {
        if sending.wait.is_none() {
            return Ok(None);
        }
        if self.is_alone {
            // Who may not ask relies on what was said before.
            let role = self.read().map_err(CallFailure::Lost)?;
            self.is_alone = matches!(role, Value::ServerError(_)) || is_alone(&role);
            return Ok(if self.is_alone { None } else { Some(0) });
        }
        let count = self.read().map_err(CallFailure::Lost)?;
        let count = self.checked(count).and_then(|count| Reply::of_command("WAIT").count(Some(&count)));
        count.map(|count| Some(count.unwrap_or_default())).map_err(CallFailure::Refused)
    }

    /// Sends calls and reads all replies: the first failure, if one of them has one.
    pub(crate) fn exchange(
        &mut self,
        calls: &[Call],
        sending: Sending,
        by_text: bool,
    ) -> Result<(Vec<Value>, Option<u64>), CallFailure> {
        self.write_calls(calls, sending, |_| by_text)?;
        let mut replies = Vec::with_capacity(calls.len());
        for _ in calls {
            match self.read_call(sending) {
                // What follows is not read any more: the connection is gone.
                Err(failure @ CallFailure::Lost(_)) => return Err(failure),
                reply => replies.push(reply),
            }
        }
        let replicas = self.read_replicas(sending);
        let replies: Vec<Value> = replies.into_iter().collect::<Result<_, _>>()?;
        Ok((replies, replicas?))
    }
}
