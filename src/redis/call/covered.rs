//! Calls that a replica must have before anything else is done: `WAIT` behind them, on the same connection, in one write.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use redis::{Cmd, Value};

use crate::error::{Settle, StoreError};
use crate::model::slot::common_slot;
use crate::redis::call::{Attempts, evaluate};
use crate::redis::cluster::Servers;
use crate::redis::cluster::server::Server;
use crate::script::Script;
use crate::script::reply::Reply;

const ASKING: &[u8] = b"*1\r\n$6\r\nASKING\r\n";

/// A call of a script that may be sent any number of times.
#[derive(Debug, Clone)]
pub(crate) struct SafeCall {
    pub(crate) script: &'static Script,
    pub(crate) keys: Vec<String>,
    pub(crate) arguments: Vec<Vec<u8>>,
}

impl SafeCall {
    pub(crate) fn new<K: Into<String>, A: Into<Vec<u8>>>(
        script: &'static Script,
        keys: impl IntoIterator<Item = K>,
        arguments: impl IntoIterator<Item = A>,
    ) -> Self {
        let keys = keys.into_iter().map(Into::into).collect();
        Self { script, keys, arguments: arguments.into_iter().map(Into::into).collect() }
    }

    /// As one command, for a server that has the script.
    pub(crate) fn command(&self) -> Cmd {
        let keys: Vec<&str> = self.keys.iter().map(String::as_str).collect();
        evaluate("EVALSHA", self.script.sha1, &keys, &self.arguments)
    }

    fn packed(&self, by_text: bool) -> Vec<u8> {
        let keys: Vec<&str> = self.keys.iter().map(String::as_str).collect();
        let (command, text) = if by_text { ("EVAL", self.script.text) } else { ("EVALSHA", self.script.sha1) };
        evaluate(command, text, &keys, &self.arguments).get_packed_command()
    }
}

/// What a node replied.
struct Replies {
    calls: Vec<Value>,
    /// How many replicas have it; `None` if nobody waited.
    replicas: Option<Value>,
}

/// The replies to calls.
#[derive(Debug)]
pub(crate) struct Covered {
    pub(crate) replies: Vec<Value>,
    /// Whether a replica has what they wrote, or there is none to have it.
    pub(crate) is_covered: bool,
    /// Whether a connection broke, so that the calls may have been sent more than once.
    pub(crate) was_broken: bool,
}

impl Servers {
    /// Sends calls, all of one slot, and waits, if the slot has a replica, until one has what they wrote, but not for longer
    /// than `patience`. After a connection that broke they are sent again. `settle` is for the error if their outcome stays
    /// unknown.
    ///
    /// # Errors
    /// Any of [`StoreError`].
    pub(crate) fn run_covered(
        &mut self,
        calls: &[SafeCall],
        patience: Duration,
        settle: Option<&Settle>,
    ) -> Result<Covered, StoreError> {
        let slot = common_slot(calls.iter().flat_map(|call| &call.keys));
        let mut attempts = Attempts::new();
        let mut by_text = false;
        let mut broken: Option<String> = None;
        loop {
            let (node, asks) = attempts.node(self, slot);
            let wait = self.is_followed(node).then_some(patience);
            let failure = match self.node(node).send_covered(calls, wait, asks, by_text) {
                Ok(replies) if !by_text && replies.calls.iter().any(is_no_script) => {
                    // EVAL loads and runs in one; what ran already is replayed.
                    by_text = true;
                    attempts.ask_again(asks, node);
                    continue;
                }
                Ok(Replies { calls, replicas }) => {
                    let checked: Result<Vec<Value>, StoreError> =
                        calls.into_iter().map(|value| self.node(node).checked(value)).collect();
                    match checked {
                        Ok(replies) => {
                            let is_covered = self.node(node).is_covered(replicas)?;
                            return Ok(Covered { replies, is_covered, was_broken: broken.is_some() });
                        }
                        Err(error) if self.may_recover(&error) || matches!(error, StoreError::Redirected(_)) => error,
                        Err(error) => return Err(self.in_doubt(error, broken, settle)),
                    }
                }
                Err(error) if error.is_connection() => {
                    broken = Some(error.why());
                    error
                }
                Err(error) => return Err(self.in_doubt(error, broken, settle)),
            };
            self.recover(&mut attempts, slot, node, failure)
                .map_err(|failure| self.in_doubt(failure, broken.clone(), settle))?;
        }
    }

    /// The error that ends calls; if a connection broke before, what became of them is not known.
    fn in_doubt(&self, error: StoreError, broken: Option<String>, settle: Option<&Settle>) -> StoreError {
        match (broken, settle) {
            (Some(why), Some(settle)) => {
                StoreError::Unknown { server: self.target().shown.clone(), why, settle: Some(settle.clone()) }
            }
            _ => error,
        }
    }
}

impl Servers {
    /// Sends a call, again and again, until a replica has what it wrote, if there is a replica; `None` if none has it after so long.
    ///
    /// # Errors
    /// Any of [`StoreError`].
    pub(crate) fn run_until_covered(
        &mut self,
        call: &SafeCall,
        settle: &Settle,
        at_most: Duration,
    ) -> Result<Option<Value>, StoreError> {
        let began = Instant::now();
        loop {
            let patience = self.target().timeout / 2;
            let mut covered = self.run_covered(std::slice::from_ref(call), patience, Some(settle))?;
            if covered.is_covered
                && let Some(value) = covered.replies.pop()
            {
                return Ok(Some(value));
            }
            if began.elapsed() >= at_most {
                return Ok(None);
            }
        }
    }

    /// Sends calls of several slots once, to all nodes side by side, with a `WAIT` of at most `patience` behind those of each node if
    /// one is given. `None` says nothing of what became of a call: it is to be sent again.
    pub(crate) fn try_side_by_side(&mut self, calls: &[SafeCall], patience: Option<Duration>) -> Vec<Option<Value>> {
        let mut by_node: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (nth, call) in calls.iter().enumerate() {
            by_node.entry(self.node_of(common_slot(&call.keys))).or_default().push(nth);
        }
        let mut under_way = Vec::new();
        for (node, of_node) in by_node {
            let wait = patience.filter(|_| self.is_followed(node));
            let of_it = of_node.iter().map(|nth| &calls[*nth]);
            if self.node(node).write_covered(of_it, wait, false, false).is_ok() {
                under_way.push((node, of_node, wait.is_some()));
            }
        }
        let mut values = vec![None; calls.len()];
        for (node, of_node, waits) in under_way {
            let server = self.node(node);
            let Ok(Replies { calls, replicas }) = server.read_covered(of_node.len(), waits, false) else { continue };
            if server.is_covered(replicas).is_ok_and(|is_covered| is_covered) {
                for (nth, reply) in of_node.into_iter().zip(calls) {
                    values[nth] = server.checked(reply).ok();
                }
            }
        }
        values
    }
}

impl Server {
    fn send_covered(
        &mut self,
        calls: &[SafeCall],
        wait: Option<Duration>,
        asks: bool,
        by_text: bool,
    ) -> Result<Replies, StoreError> {
        self.write_covered(calls.iter(), wait, asks, by_text)?;
        self.read_covered(calls.len(), wait.is_some(), asks)
    }

    fn write_covered<'c>(
        &mut self,
        calls: impl Iterator<Item = &'c SafeCall>,
        wait: Option<Duration>,
        asks: bool,
        by_text: bool,
    ) -> Result<(), StoreError> {
        self.connection()?;
        let mut bytes = Vec::new();
        for call in calls {
            if asks {
                bytes.extend_from_slice(ASKING);
            }
            bytes.extend(call.packed(by_text));
        }
        if let Some(patience) = wait {
            let milliseconds = u64::try_from(patience.as_millis()).unwrap_or(u64::MAX).max(1);
            bytes.extend(redis::cmd("WAIT").arg(1).arg(milliseconds).get_packed_command());
        }
        self.write(&bytes)
    }

    fn read_covered(&mut self, calls: usize, waits: bool, asks: bool) -> Result<Replies, StoreError> {
        let mut replies = Vec::with_capacity(calls);
        for _ in 0..calls {
            let asked = if asks { self.read()? } else { Value::Okay };
            let reply = self.read()?;
            // Without ASKING the node sends the call back, and that would say nothing of why.
            replies.push(if matches!(asked, Value::ServerError(_)) { asked } else { reply });
        }
        let replicas = waits.then(|| self.read()).transpose()?;
        Ok(Replies { calls: replies, replicas })
    }

    /// Whether a replica has it, or there is none.
    fn is_covered(&mut self, replicas: Option<Value>) -> Result<bool, StoreError> {
        let Some(count) = replicas else { return Ok(true) };
        let count = self.checked(count)?;
        Ok(Reply::of_command("WAIT").count(Some(&count))?.unwrap_or_default() > 0)
    }
}

fn is_no_script(value: &Value) -> bool {
    matches!(value, Value::ServerError(error) if error.code() == "NOSCRIPT")
}
