//! Many calls at once: one pipeline a node, all nodes side by side. And one that is sent before its reply is wanted: while the server
//! makes that, we look at the reply before it.

use std::collections::{BTreeMap, BTreeSet};

use redis::Value;

use crate::error::{Result, StoreError};
use crate::redis::call::exchange::{CallFailure, ReplicaWait, Sending};
use crate::redis::call::retry::Answer;
use crate::redis::call::{Call, RetrySafety};
use crate::redis::cluster::Servers;

/// Calls that are sent before their replies are read.
const MAX_PIPELINED: usize = 500;

/// The reply to a call, or why there is none.
pub(crate) type CallOutcome = Result<Value, CallFailure>;

impl Servers {
    /// Sends many calls, and again what did not run or was lost, if that is safe: the answer to each, in order. Once one
    /// could not be sent again because nobody serves it, the others that have no reply yet fail like it.
    pub(crate) fn call_all(&mut self, calls: &[Call]) -> Vec<Result<Answer>> {
        calls.chunks(MAX_PIPELINED).flat_map(|calls| self.call_some(calls)).collect()
    }

    /// The same for calls that only read: all replies.
    ///
    /// # Errors
    /// What the first of them that has no reply failed with.
    pub(crate) fn read_all(&mut self, calls: &[Call]) -> Result<Vec<Value>> {
        self.call_all(calls).into_iter().map(|answer| answer.map(Answer::value)).collect()
    }

    fn call_some(&mut self, calls: &[Call]) -> Vec<Result<Answer>> {
        let mut unserved: Option<StoreError> = None;
        let mut answers = Vec::with_capacity(calls.len());
        for (call, outcome) in calls.iter().zip(self.fan_out(calls, None)) {
            let answer = match (outcome, &unserved) {
                (Ok(value), _) => Ok(Answer { values: vec![value], ..Answer::default() }),
                (Err(CallFailure::Refused(error)), _) if !self.may_recover(&error) => {
                    Err(self.learn(&error).err().unwrap_or_else(|| call.named_in(error)))
                }
                (Err(CallFailure::Lost(_)), Some(error)) if call.safety != RetrySafety::AtMostOnce => {
                    Err(error.clone())
                }
                // Whether it ran is not known.
                (Err(CallFailure::Lost(error)), Some(_)) => self.send(std::slice::from_ref(call), None, Some(&error)),
                (Err(_), Some(error)) => Err(error.clone().of_unsent()),
                (Err(CallFailure::Unsent(error)), None) if !self.may_recover(&error) => Err(self.explained(error)),
                (Err(CallFailure::Lost(error)), None) => self.send(std::slice::from_ref(call), None, Some(&error)),
                (Err(_), None) => self.send(std::slice::from_ref(call), None, None),
            };
            // A refusal concerns one call, anything else the node that serves it.
            unserved = unserved.or(answer.as_ref().err().filter(|error| !error.is_of_call()).cloned());
            answers.push(answer);
        }
        answers
    }

    /// Sends many calls, none twice, and gives the outcome of each: replies that came before a connection broke are not lost.
    /// With `wait` replicas of each node, if it has some, must have what its calls wrote.
    pub(crate) fn fan_out(&mut self, calls: &[Call], wait: Option<ReplicaWait>) -> Vec<CallOutcome> {
        let mut outcomes: Vec<CallOutcome> = calls.iter().map(|_| Err(CallFailure::NoScript)).collect();
        self.send_side_by_side(calls, &(0..calls.len()).collect::<Vec<_>>(), (wait, false), &mut outcomes);
        // Without a map some went to the wrong node, and of a script that a server lost its text must go first: nothing ran.
        let is_moved = |outcome: &CallOutcome| matches!(outcome, Err(CallFailure::Refused(StoreError::Redirected(_))));
        let has_map = !outcomes.iter().any(is_moved) || self.read_map(None).is_ok();
        let is_open =
            |outcome: &CallOutcome| matches!(outcome, Err(CallFailure::NoScript)) || has_map && is_moved(outcome);
        let open: Vec<usize> = (0..calls.len()).filter(|at| is_open(&outcomes[*at])).collect();
        if !open.is_empty() {
            self.send_side_by_side(calls, &open, (wait, true), &mut outcomes);
        }
        outcomes
    }

    /// Sends some of the calls, each to its node; with `loads` the first one of each script at a node by its text.
    fn send_side_by_side(
        &mut self,
        calls: &[Call],
        which: &[usize],
        (wait, loads): (Option<ReplicaWait>, bool),
        outcomes: &mut [CallOutcome],
    ) {
        let mut by_node: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for at in which {
            let node = calls[*at].node.unwrap_or_else(|| self.node_of(calls[*at].slot));
            by_node.entry(node).or_default().push(*at);
        }
        let sending = Sending { wait, ..Sending::FIRST };
        let mut under_way = Vec::with_capacity(by_node.len());
        for (node, of_node) in by_node {
            let mut loaded = BTreeSet::new();
            let by_text = |call: &Call| loads && call.called_script().is_some_and(|script| loaded.insert(script.sha1));
            let written = match self.why_given_up(node) {
                Some(error) => Err(CallFailure::Unsent(error.clone())),
                None => self.node(node).write_calls(of_node.iter().map(|at| &calls[*at]), sending, by_text),
            };
            under_way.push((node, of_node, written.err()));
        }
        for (node, of_node, mut failed) in under_way {
            for at in &of_node {
                outcomes[*at] = match &failed {
                    None => self.node(node).read_call(sending),
                    Some(failure) => Err(failure.clone()),
                };
                match &outcomes[*at] {
                    Err(failure @ CallFailure::Lost(_)) => failed = Some(failure.clone()),
                    // A layout that does not fit a cluster is refused when the call is sent again.
                    Err(CallFailure::Refused(StoreError::Redirected(to))) => {
                        _ = self.found_cluster();
                        self.redirect(node, &to.clone());
                    }
                    _ => {}
                }
            }
            let replicas = if failed.is_none() { self.node(node).read_replicas(sending) } else { Ok(None) };
            if !matches!(replicas, Ok(None | Some(1..))) {
                let replied = of_node.iter().filter(|at| outcomes[**at].is_ok()).copied().collect::<Vec<_>>();
                replied.into_iter().for_each(|at| outcomes[at] = Err(CallFailure::NotReplicated));
            }
        }
    }
}

/// A call whose reply must be [read](Servers::finish) before anything else is sent.
#[derive(Debug)]
pub(crate) struct CallAhead {
    call: Call,
    /// The node that it was sent to, or why it was not.
    sent: Result<usize, CallFailure>,
}

impl Servers {
    /// Sends a call. Whatever goes wrong, its reply is where it is wanted.
    pub(crate) fn send_ahead(&mut self, call: Call) -> CallAhead {
        let node = self.node_of(call.slot);
        let sent = self.node(node).write_calls([&call], Sending::FIRST, |_| false).map(|()| node);
        CallAhead { call, sent }
    }

    /// The reply to a call that was sent before. If none comes, it is sent again, if that is safe.
    ///
    /// # Errors
    /// Any of [`StoreError`].
    pub(crate) fn finish(&mut self, ahead: CallAhead) -> Result<Value> {
        let CallAhead { call, sent } = ahead;
        match sent.and_then(|node| self.node(node).read_call(Sending::FIRST)) {
            Ok(value) => Ok(value),
            Err(CallFailure::Lost(error)) => self.send(&[call], None, Some(&error)).map(Answer::value),
            Err(_) => self.call(&call),
        }
    }
}
