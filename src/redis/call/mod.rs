//! One layer for all calls: to one node or to many, again if that is safe, with a replica's acknowledgement or without.
//!
//! A [`Call`] says what is sent, to which slot, and what sending it twice would do. Only these verbs send one:
//!
//! | verb | what it does |
//! |---|---|
//! | `call` | one call at the node of its slot, sent again if that is safe: one round trip if nothing goes wrong |
//! | `call_all` | many at once, one pipeline a node; sends again what did not run or was lost, by the same rule |
//! | `send` | as `call`, of several calls of one slot, and with `WAIT` in the same write on the same connection |
//! | `send_ahead` | sends one whose reply is wanted later, and `finish` gives it |
//! | `fan_out` | many at once, none twice: what failed says why |
//!
//! We retry, and only what is safe; redis-rs itself never sends anything twice here. On a cluster a call goes to the node of
//! its slot, follows redirections, and waits for a failover. Calls in flight for files are a pipeline (`redis/pipeline/`).

pub(crate) mod exchange;
pub(crate) mod fan_out;
pub(crate) mod retry;

use redis::Cmd;

use crate::error::{Recovery, StoreError};
use crate::model::slot::{common_slot, slot};
use crate::redis::connection::resp;
use crate::script::Script;

/// What sending a call again would do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum RetrySafety {
    /// Nothing: it only reads, or nobody minds.
    ReadOnly,
    /// Nothing: it carries an id, or says what should be. Only its reply says whether the first try ran.
    Idempotent,
    /// Harm: it must not be sent twice.
    AtMostOnce,
}

/// Whether a script may have been sent before, as the scripts' `mode` has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Try {
    /// It was not.
    First,
    /// It may have been.
    Retry,
}

/// What is sent.
#[derive(Debug, Clone)]
enum Body {
    /// A packed command.
    Command(Vec<u8>),
    Script {
        script: &'static Script,
        keys: Vec<String>,
        arguments: Vec<Vec<u8>>,
        /// Those of a call that may have been sent before, if they are others.
        retry_arguments: Option<Vec<Vec<u8>>>,
    },
}

/// A script or a command, and what sending it twice would do.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    body: Body,
    /// The slot of its keys; `None` if any node will do.
    pub(crate) slot: Option<u16>,
    /// The only node that can answer it.
    node: Option<usize>,
    safety: RetrySafety,
    /// For the error if its outcome stays unknown; `None` if nobody has to find out.
    recovery: Option<Recovery>,
}

impl Call {
    /// A command about a key that only reads, or may be sent twice.
    pub(crate) fn command(key: &str, command: &Cmd) -> Self {
        Self { slot: Some(slot(key.as_bytes())), ..Self::keyless(command) }
    }

    /// The same for one that any node can answer.
    pub(crate) fn keyless(command: &Cmd) -> Self {
        let body = Body::Command(command.get_packed_command());
        Self { body, slot: None, node: None, safety: RetrySafety::ReadOnly, recovery: None }
    }

    /// The same for one that a certain node must answer.
    pub(crate) fn at_node(node: usize, command: &Cmd) -> Self {
        Self { node: Some(node), ..Self::keyless(command) }
    }

    /// A call of a script that only reads.
    pub(crate) fn script<K: Into<String>, A: Into<Vec<u8>>>(
        script: &'static Script,
        keys: impl IntoIterator<Item = K>,
        arguments: impl IntoIterator<Item = A>,
    ) -> Self {
        let keys: Vec<String> = keys.into_iter().map(Into::into).collect();
        let slot = common_slot(&keys);
        let arguments = arguments.into_iter().map(Into::into).collect();
        let body = Body::Script { script, keys, arguments, retry_arguments: None };
        Self { body, slot, node: None, safety: RetrySafety::ReadOnly, recovery: None }
    }

    /// The same for one that writes, and may be sent any number of times.
    pub(crate) fn idempotent(self) -> Self {
        self.with_safety(RetrySafety::Idempotent)
    }

    /// The same for one that the same command sends again.
    pub(crate) fn repeatable(self) -> Self {
        self.idempotent().recovered_by(Recovery::SameCall)
    }

    /// The same for a step of a script that works in steps: `plan` writes nothing.
    pub(crate) fn of_step(self, step: &str) -> Self {
        let safety = if step == "plan" { RetrySafety::ReadOnly } else { RetrySafety::Idempotent };
        self.with_safety(safety).recovered_by(Recovery::SameCall)
    }

    /// The same, which does this if it is sent again.
    pub(crate) fn with_safety(self, safety: RetrySafety) -> Self {
        Self { safety, ..self }
    }

    /// The same with other arguments for a call that may have been sent before.
    pub(crate) fn retried_with(mut self, arguments: Vec<Vec<u8>>) -> Self {
        if let Body::Script { retry_arguments, .. } = &mut self.body {
            *retry_arguments = Some(arguments);
        }
        self
    }

    /// The same, whose outcome can be found out like this if it stays unknown.
    pub(crate) fn recovered_by(self, recovery: Recovery) -> Self {
        Self { recovery: Some(recovery), ..self }
    }

    /// Appends it as it is sent: with `by_text` for a server that has not the script.
    pub(crate) fn pack(&self, attempt: Try, by_text: bool, out: &mut Vec<u8>) {
        let (script, keys, arguments, retry_arguments) = match &self.body {
            Body::Command(packed) => return out.extend_from_slice(packed),
            Body::Script { script, keys, arguments, retry_arguments } => (script, keys, arguments, retry_arguments),
        };
        let arguments = retry_arguments.as_ref().filter(|_| attempt == Try::Retry).unwrap_or(arguments);
        let (name, text) = if by_text { ("EVAL", script.text) } else { ("EVALSHA", script.sha1) };
        resp::command(out, 3 + keys.len() + arguments.len());
        resp::argument(out, name.as_bytes());
        resp::argument(out, text.as_bytes());
        resp::number(out, keys.len() as u64);
        keys.iter().for_each(|key| resp::argument(out, key.as_bytes()));
        arguments.iter().for_each(|argument| resp::argument(out, argument));
    }

    /// The script that is called, if one is.
    fn called_script(&self) -> Option<&'static Script> {
        match &self.body {
            Body::Command(_) => None,
            Body::Script { script, .. } => Some(script),
        }
    }

    /// An error that a server refused it with: which of a script's commands was refused, a server does not always say.
    fn named_in(&self, error: StoreError) -> StoreError {
        match (error, self.called_script()) {
            (StoreError::Permission { why, may_be_cut }, Some(script)) => {
                let commands = script.commands().join(" ");
                let may_be_cut = may_be_cut && self.safety != RetrySafety::ReadOnly;
                let why = format!("{why}; script `{}` needs EVALSHA EVAL {commands}", script.name);
                StoreError::Permission { why, may_be_cut }
            }
            (error, _) => error,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script::{HOLD, SNAPSHOT};

    #[test]
    fn a_call_that_lacked_a_right_halfway_is_no_refusal_unless_it_only_reads() {
        let is_refusal = |call: &Call, why: &str| {
            let error = redis::RedisError::from((redis::ErrorKind::UnexpectedReturnType, "", why.to_owned()));
            call.named_in(StoreError::of_reply(&error, "here")).is_refusal()
        };
        let reads = Call::script(&SNAPSHOT, ["a"], ["b"]);
        let writes = Call::script(HOLD.of(crate::model::Kind::Hash), ["a"], ["b"]).idempotent();
        let of_6_2 = "657: The user executing the script can't run this command or subcommand";
        let of_7_0 = "The user executing the script can't run this command or subcommand script: 9, on @user_script:4.";
        assert!(!is_refusal(&writes, of_6_2));
        assert!(is_refusal(&reads, of_6_2) && is_refusal(&writes, of_7_0));
    }

    #[test]
    fn a_call_is_packed_as_redis_rs_packs_it() {
        let call = Call::script(&SNAPSHOT, ["a{1}", "b{1}"], ["first"]).retried_with(vec![b"again".to_vec()]);
        for (attempt, by_text, sent) in [
            (Try::First, false, ["EVALSHA", SNAPSHOT.sha1, "2", "a{1}", "b{1}", "first"]),
            (Try::Retry, true, ["EVAL", SNAPSHOT.text, "2", "a{1}", "b{1}", "again"]),
        ] {
            let mut packed = Vec::new();
            call.pack(attempt, by_text, &mut packed);
            assert_eq!(packed, redis::cmd(sent[0]).arg(&sent[1..]).get_packed_command());
        }
    }
}
