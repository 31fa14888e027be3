//! Sends one call of a script and retries it if that is safe: one round trip if nothing goes wrong.
//!
//! We retry, and only what is safe: what did not run, or what carries an id (or says what should be, not what to
//! change). redis-rs itself never sends anything twice here.

use std::thread::sleep;
use std::time::{Duration, Instant};

use redis::{Cmd, Pipeline, RedisError, ToRedisArgs, Value};

use super::connect::Target;
use super::connection::Connection;
use super::error::{Settle, StoreError};
use super::scripts::Script;

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

/// A server, connected to when it is first needed.
pub struct Server {
    /// Where it is.
    pub target: Target,
    connection: Option<Connection>,
}

impl Server {
    /// Nothing is sent yet.
    pub fn new(target: Target) -> Self {
        Self { target, connection: None }
    }

    /// The connection, made now if there is none.
    pub fn connection(&mut self) -> Result<&mut Connection, StoreError> {
        let connection = match self.connection.take() {
            Some(connection) => connection,
            None => Connection::open(&self.target)?,
        };
        Ok(self.connection.insert(connection))
    }

    /// Writes packed commands. A connection that breaks is forgotten, here and below.
    pub(super) fn write(&mut self, packed: &[u8]) -> Result<(), StoreError> {
        let written = self.connection()?.send(packed);
        written.inspect_err(|_| self.disconnect())
    }

    /// The next reply; an error reply is a value too.
    pub(super) fn read(&mut self) -> Result<Value, StoreError> {
        let read = self.connection()?.reply();
        read.inspect_err(|_| self.disconnect())
    }

    /// Sends commands that only read at once, and gives their replies.
    pub fn pipeline(&mut self, pipeline: &Pipeline, count: usize) -> Result<Vec<Value>, StoreError> {
        self.write(&pipeline.get_packed_pipeline())?;
        let replies: Vec<Value> = (0..count).map(|_| self.read()).collect::<Result<_, _>>()?;
        replies.into_iter().map(|reply| self.checked(reply)).collect()
    }

    /// A reply, or what an error reply means.
    pub(super) fn checked(&self, reply: Value) -> Result<Value, StoreError> {
        match reply {
            Value::ServerError(error) => {
                let error = RedisError::from(error);
                Err(StoreError::of_reply(&error, &self.target.shown).unwrap_or_else(|| self.target.unreachable(&error)))
            }
            reply => Ok(reply),
        }
    }

    /// The same server with the connection, which is made again here if it is needed.
    pub fn take(&mut self) -> Self {
        Self { target: self.target.clone(), connection: self.connection.take() }
    }

    /// Forgets a connection that failed.
    pub fn disconnect(&mut self) {
        self.connection = None;
    }

    /// Sends one command that only reads (or may be sent twice) and gives its reply.
    pub fn command(&mut self, command: &Cmd) -> Result<Value, StoreError> {
        self.settle(Again::Reads, None, |connection, _| exchange(connection, command))
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
        let ran = self.settle(again, settle, |connection, nth| {
            let arguments = arguments(nth);
            match exchange(connection, &evaluate("EVALSHA", script.sha1, keys, &arguments))? {
                // The server lost its scripts (restart, failover, SCRIPT FLUSH): EVAL loads and runs in one.
                Value::ServerError(error) if error.code() == "NOSCRIPT" => {
                    exchange(connection, &evaluate("EVAL", script.text, keys, &arguments))
                }
                reply => Ok(reply),
            }
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

    /// Sends until there is an answer, or no hope of one within three timeouts.
    fn settle(
        &mut self,
        again: Again,
        settle: Option<Settle>,
        mut send: impl FnMut(&mut Connection, Try) -> Result<Value, StoreError>,
    ) -> Result<Value, StoreError> {
        let deadline = Instant::now() + self.target.timeout * 3;
        let mut pause = Duration::from_millis(20);
        let mut nth = Try::First;
        let mut broken = None;
        let unknown = |server: &Target, why: String| StoreError::Unknown {
            server: server.shown.clone(),
            why,
            settle: settle.clone(),
        };
        loop {
            let failure = match self.connection() {
                Ok(connection) => match send(connection, nth) {
                    Ok(reply) => match self.checked(reply) {
                        Ok(value) => return Ok(value),
                        Err(answer) if answer.passes() => answer,
                        Err(answer) if nth == Try::First => return Err(answer),
                        // The retry was answered by an error, and what became of the first try is not known.
                        Err(answer) => return Err(unknown(&self.target, answer.to_string())),
                    },
                    Err(error) => {
                        self.disconnect();
                        if again == Again::Harm {
                            return Err(unknown(&self.target, error.why()));
                        }
                        broken = Some(error.why());
                        if again == Again::Safe {
                            nth = Try::Retry;
                        }
                        error
                    }
                },
                Err(error) if broken.is_none() => return Err(error),
                Err(error) => error,
            };
            if Instant::now() + pause >= deadline {
                return Err(match broken {
                    Some(why) if nth == Try::Retry => unknown(&self.target, why),
                    _ => failure,
                });
            }
            sleep(pause);
            pause = (pause * 2).min(Duration::from_secs(1));
        }
    }
}

/// A call of a script, by its text or by its SHA-1.
pub fn evaluate<A: ToRedisArgs>(command: &str, script: &str, keys: &[&str], arguments: &[A]) -> Cmd {
    let mut cmd = redis::cmd(command);
    cmd.arg(script).arg(keys.len()).arg(keys).arg(arguments);
    cmd
}

/// Sends a command and gives its reply; an error reply is a value too.
fn exchange(connection: &mut Connection, command: &Cmd) -> Result<Value, StoreError> {
    connection.send(&command.get_packed_command())?;
    connection.reply()
}
