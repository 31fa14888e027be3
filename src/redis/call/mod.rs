//! Sends one call and retries it if that is safe: one round trip if nothing goes wrong.
//!
//! We retry, and only what is safe: what did not run, or what carries an id (or says what should be, not what to
//! change). redis-rs itself never sends anything twice here. On a cluster a call goes to the node of its slot, follows
//! redirections, and waits for a failover.

pub(crate) mod covered;
pub(crate) mod several;

use std::thread::sleep;
use std::time::{Duration, Instant};

use redis::{Cmd, ToRedisArgs, Value};

use crate::error::{ServerKind, Settle, StoreError};
use crate::model::slot::{common_slot, slot};
use crate::redis::cluster::Servers;
use crate::redis::cluster::server::Server;
use crate::script::Script;

/// What sending a script again would do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Again {
    /// Nothing: it only reads.
    Reads,
    /// Nothing: it carries an id, or says what should be.
    Safe,
    /// Harm: it must not be sent twice.
    Harm,
}

/// Whether a script may have been sent before, as the scripts' `mode` has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Try {
    /// It was not.
    First,
    /// It may have been.
    Retry,
}

/// Why a call has no reply.
enum Failed {
    /// There was no connection: nothing was sent.
    Unsent(StoreError),
    /// The connection broke: nobody knows whether it ran.
    Broken(StoreError),
    /// The server refused it: nothing ran.
    Refused(StoreError),
    /// The server has lost its scripts (restart, failover, SCRIPT FLUSH).
    NoScript,
}

/// The first pause before another attempt, and the longest.
const SHORTEST: Duration = Duration::from_millis(20);
const LONGEST: Duration = Duration::from_secs(1);
/// How long a cluster may take to replace a primary: `cluster-node-timeout` of 15 s and an election. Sentinels take as
/// long as `down-after-milliseconds` and some seconds.
const FAILOVER: Duration = Duration::from_secs(30);
/// Attempts without a pause between them, at other nodes: more means that the nodes do not agree.
const QUICK: u32 = 5;

/// The attempts of one call, or of one scan.
pub(crate) struct Attempts {
    began: Instant,
    pause: Duration,
    /// Attempts at other nodes.
    others: u32,
    /// The node that the next attempt, and only that, goes to.
    ask: Option<usize>,
}

impl Attempts {
    /// None yet.
    pub(crate) fn new() -> Self {
        Self { began: Instant::now(), pause: SHORTEST, others: 0, ask: None }
    }

    /// The node of the next attempt, and whether it is to be sent `ASKING` first.
    pub(crate) fn node(&mut self, servers: &Servers, slot: Option<u16>) -> (usize, bool) {
        match self.ask.take() {
            Some(node) => (node, true),
            None => (servers.node_of(slot), false),
        }
    }

    /// The next attempt goes to the node that this one went to, as this one did.
    pub(crate) fn ask_again(&mut self, asks: bool, node: usize) {
        self.ask = asks.then_some(node);
    }

    /// Whether the next attempt, at another node, needs no pause.
    fn is_quick(&mut self) -> bool {
        self.others += 1;
        !self.others.is_multiple_of(QUICK)
    }

    /// Waits before the next attempt; an error if there should be none.
    fn wait(&mut self, servers: &Servers, error: StoreError) -> Result<(), StoreError> {
        let timeout = servers.target().timeout * 3;
        let most = if servers.waits_for_failover() { timeout.max(FAILOVER) } else { timeout };
        // What sends a reply that no sale has is no server of ours, now or later.
        if matches!(error, StoreError::Oversized { .. }) || self.began.elapsed() + self.pause >= most {
            return Err(servers.explained(error));
        }
        sleep(self.pause);
        self.pause = (self.pause * 2).min(LONGEST);
        Ok(())
    }
}

impl Servers {
    /// Sends one command about a key that only reads (or may be sent twice) and gives its reply.
    pub fn command(&mut self, key: &str, command: &Cmd) -> Result<Value, StoreError> {
        let packed = command.get_packed_command();
        self.settle(Some(slot(key.as_bytes())), Again::Reads, None, |_, _| packed.clone())
    }

    /// The same for one that any node can answer.
    pub fn ask_any(&mut self, command: &Cmd) -> Result<Value, StoreError> {
        let packed = command.get_packed_command();
        self.settle(None, Again::Reads, None, |_, _| packed.clone())
    }

    /// The same for one that a certain node must answer.
    pub(crate) fn ask_node(&mut self, node: usize, command: &Cmd) -> Result<Value, StoreError> {
        let packed = command.get_packed_command();
        let mut attempts = Attempts::new();
        loop {
            let failure = match self.attempt(node, false, &packed) {
                Ok(value) => return Ok(value),
                Err(Failed::Unsent(error)) if !self.is_cluster() => return Err(error),
                Err(Failed::Unsent(error) | Failed::Broken(error)) => error,
                Err(Failed::Refused(error)) if error.passes() => error,
                Err(Failed::Refused(error)) => return Err(error),
                Err(Failed::NoScript) => {
                    return Err(StoreError::Reply { what: "SCRIPT".into(), reply: "NOSCRIPT".into() });
                }
            };
            attempts.wait(self, failure)?;
        }
    }

    /// Runs a script. `arguments` gets whether it may have been sent before. `settle` is for the
    /// error if the outcome stays unknown.
    pub fn run<A: ToRedisArgs>(
        &mut self,
        script: &Script,
        keys: &[&str],
        again: Again,
        settle: Option<Settle>,
        arguments: impl Fn(Try) -> Vec<A>,
    ) -> Result<Value, StoreError> {
        let ran = self.settle(common_slot(keys), again, settle, |nth, by_text| {
            let (command, text) = if by_text { ("EVAL", script.text) } else { ("EVALSHA", script.sha1) };
            evaluate(command, text, keys, &arguments(nth)).get_packed_command()
        });
        ran.map_err(|error| match error {
            // Which of its commands was refused, a server does not always say.
            StoreError::Permission { why } => {
                let commands = script.commands().join(" ");
                StoreError::Permission { why: format!("{why}; script `{}` needs EVALSHA EVAL {commands}", script.name) }
            }
            other => other,
        })
    }

    /// Sends until there is an answer, or no hope of one within three timeouts. `encode` gets whether it may have been
    /// sent before, and whether the server needs the script's text.
    fn settle(
        &mut self,
        slot: Option<u16>,
        again: Again,
        settle: Option<Settle>,
        encode: impl FnMut(Try, bool) -> Vec<u8>,
    ) -> Result<Value, StoreError> {
        self.try_to_settle(slot, again, settle, encode).map_err(|error| self.explained(error))
    }

    fn try_to_settle(
        &mut self,
        slot: Option<u16>,
        again: Again,
        settle: Option<Settle>,
        mut encode: impl FnMut(Try, bool) -> Vec<u8>,
    ) -> Result<Value, StoreError> {
        self.check_layout()?;
        let mut attempts = Attempts::new();
        let (mut nth, mut by_text) = (Try::First, false);
        let mut broken: Option<String> = None;
        let shown = self.target().shown.clone();
        let unknown = |why: String| StoreError::Unknown { server: shown.clone(), why, settle: settle.clone() };
        loop {
            let (node, asks) = attempts.node(self, slot);
            let failure = match self.attempt(node, asks, &encode(nth, by_text)) {
                Ok(value) => return Ok(value),
                // EVAL loads and runs in one.
                Err(Failed::NoScript) if !by_text => {
                    by_text = true;
                    attempts.ask = asks.then_some(node);
                    continue;
                }
                Err(Failed::NoScript) => {
                    return Err(StoreError::Reply { what: "EVAL".into(), reply: "NOSCRIPT".into() });
                }
                Err(Failed::Unsent(error)) if broken.is_none() && !self.may_recover(&error) => return Err(error),
                Err(Failed::Unsent(error)) => error,
                Err(Failed::Refused(answer)) => {
                    self.learn(&answer)?;
                    match nth {
                        _ if answer.passes() || self.may_recover(&answer) => answer,
                        Try::First => return Err(answer),
                        // The retry was answered by an error, and what became of the first try is not known.
                        Try::Retry => return Err(unknown(answer.to_string())),
                    }
                }
                Err(Failed::Broken(error)) => {
                    if again == Again::Harm {
                        return Err(unknown(error.why()));
                    }
                    broken = Some(error.why());
                    if again == Again::Safe {
                        nth = Try::Retry;
                    }
                    error
                }
            };
            self.recover(&mut attempts, slot, node, failure).map_err(|failure| match &broken {
                Some(why) if nth == Try::Retry => unknown(why.clone()),
                _ => failure,
            })?;
        }
    }

    /// One attempt at one node.
    fn attempt(&mut self, node: usize, asks: bool, packed: &[u8]) -> Result<Value, Failed> {
        let server = self.node(node);
        server.connection().map_err(Failed::Unsent)?;
        let asked = match asks {
            true => server.write(&[b"*1\r\n$6\r\nASKING\r\n", packed].concat()).and_then(|()| server.read()),
            false => server.write(packed).map(|()| Value::Okay),
        };
        let replies = asked.and_then(|asked| Ok((asked, server.read()?)));
        match replies.map_err(Failed::Broken)? {
            // Without ASKING the node sends the call back, and that would say nothing of why.
            (asked @ Value::ServerError(_), _) => server.checked(asked).map_err(Failed::Refused),
            (_, reply) => Self::answer(server, reply),
        }
    }

    fn answer(server: &Server, reply: Value) -> Result<Value, Failed> {
        match reply {
            Value::ServerError(error) if error.code() == "NOSCRIPT" => Err(Failed::NoScript),
            reply => server.checked(reply).map_err(Failed::Refused),
        }
    }

    /// Whether another node, or the same one later, may do what failed.
    pub(crate) fn may_recover(&self, error: &StoreError) -> bool {
        match error {
            StoreError::Redirected(_) => true,
            StoreError::Server { kind: ServerKind::ReadOnly, .. } => self.is_cluster(),
            error if error.is_connection() => self.is_cluster(),
            other => other.passes(),
        }
    }

    /// Gets ready for another attempt at a call that failed at a node: follows a redirection, finds out who serves the
    /// slot now, waits.
    ///
    /// # Errors
    /// There should be no other attempt.
    pub(crate) fn recover(
        &mut self,
        attempts: &mut Attempts,
        slot: Option<u16>,
        node: usize,
        error: StoreError,
    ) -> Result<(), StoreError> {
        self.learn(&error)?;
        match &error {
            StoreError::Redirected(to) => {
                let target = self.redirect(node, to);
                attempts.ask = to.is_ask.then_some(target);
                if attempts.is_quick() {
                    return Ok(());
                }
            }
            // It is there, and serves the slot.
            StoreError::Server { kind: ServerKind::Moving | ServerKind::Busy, .. } => {}
            _ if !self.is_cluster() => {}
            // A seed that is down: the next one.
            _ if error.is_connection() && self.has_other(slot, node) && attempts.is_quick() => return Ok(()),
            _ => return self.wait_for_failover(attempts, node, error),
        }
        attempts.wait(self, error)
    }

    /// Waits until another node may serve what one that failed served.
    ///
    /// # Errors
    /// It has waited for long enough.
    pub(crate) fn wait_for_failover(
        &mut self,
        attempts: &mut Attempts,
        node: usize,
        error: StoreError,
    ) -> Result<(), StoreError> {
        match self.read_map(Some(node)) {
            // No failover ends that.
            Err(error @ StoreError::Server { kind: ServerKind::NoSlots, .. }) => return Err(error),
            // Nobody was ever there: it is the address that is wrong.
            Err(_) if !self.was_reached() => {
                return Err(StoreError::Unreachable { server: self.target().shown.clone(), why: error.why() });
            }
            _ => {}
        }
        attempts.wait(self, error)
    }
}

/// A call of a script, by its text or by its SHA-1.
pub fn evaluate<A: ToRedisArgs>(command: &str, script: &str, keys: &[&str], arguments: &[A]) -> Cmd {
    let mut cmd = redis::cmd(command);
    cmd.arg(script).arg(keys.len()).arg(keys).arg(arguments);
    cmd
}
