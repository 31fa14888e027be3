//! What servers say about themselves: settings, state, clock, rights, and what runs there. What a user may not ask, or a
//! managed server does not say, is known to be so.

mod rights;
mod slots;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use redis::{Cmd, Value};

use crate::error::{Result, StoreError};
use crate::model::number::signed;
use crate::model::{ActivityId, Layout, Millis};
pub(crate) use crate::read::health::rights::Granted;
use crate::read::health::rights::{DryRun, dry_run};
pub(crate) use crate::read::health::slots::{NodeName, Slots};
pub(crate) use crate::read::stats::info::{Info, ReplicaInfo, Role};
use crate::redis::cluster::server::Server;
use crate::redis::connect::Target;
use crate::script::Script;
use crate::script::keys::Keys;
use crate::script::reply::Reply;
use crate::store::Store;

/// What was asked for, or why it is not known, in a few words.
pub(crate) type NodeAnswer<T> = Result<T, String>;

/// All servers of a store.
#[derive(Debug)]
pub(crate) struct Health {
    /// If they are a cluster.
    pub slots: Option<Slots>,
    /// Every server that could be found, replicas of a cluster included.
    pub nodes: Vec<Node>,
}

/// One server.
#[derive(Debug)]
pub(crate) struct Node {
    /// `host:port`, or the path of a socket.
    pub name: String,
    /// The arguments by which `redis-cli` gets there, without a login.
    pub redis_cli: Vec<String>,
    /// The user who asks, if the URL names one.
    pub username: Option<String>,
    /// What it said, or why it cannot be reached.
    pub reading: NodeAnswer<Reading>,
}

/// Asks each server about itself, and whether this user has some rights there, such as `hset` or `xinfo|groups`; and tries
/// there what scripts do.
///
/// # Errors
/// Any of [`StoreError`]: a single server that cannot be reached, or a cluster without any node that can.
pub(crate) fn health(store: &mut Store, rights: &[String]) -> Result<Health> {
    let layout = store.layout;
    store.servers.discover()?;
    if !store.servers.is_cluster() {
        let server = store.servers.node(0);
        server.connection()?;
        let keys = unused_keys(server, layout, None);
        return Ok(Health { slots: None, nodes: vec![Node::ask(server, rights, layout, Some(&keys))?] });
    }
    let reached = store.servers.primaries().into_iter().find(|node| store.servers.node(*node).connection().is_ok());
    let slots = Slots::of(store.servers.node(reached.unwrap_or(0)))?;
    let seed = store.servers.target().clone();
    let mut nodes = Vec::with_capacity(slots.members.len());
    for member in &slots.members {
        let mut server = Server::new(seed.node(&member.0, member.1));
        let slot = slots.first_slots.iter().find(|(primary, _)| primary == member);
        let keys = slot.map(|(_, slot)| unused_keys(&server, layout, Some(*slot)));
        let node = Node::ask(&mut server, rights, layout, keys.as_ref());
        nodes.push(node.unwrap_or_else(|error| Node::new(&server.target, Err(error.why()))));
    }
    Ok(Health { slots: Some(slots), nodes })
}

/// The keys of an activity that nobody has, in that slot of a cluster.
fn unused_keys(server: &Server, layout: Layout, slot: Option<u16>) -> Keys {
    let unique = server.target.system().unique_id();
    let keys = |number: u64| Keys::of(layout, &ActivityId::validated(format!("doctor-{unique}-{number}").as_bytes()));
    (0..).map(keys).find(|keys| slot.is_none() || keys.slot() == slot).unwrap_or_else(|| keys(0))
}

impl Node {
    fn ask(server: &mut Server, rights: &[String], layout: Layout, unused_keys: Option<&Keys>) -> Result<Self> {
        let target = server.connection()?.target.clone();
        Ok(Self::new(&target, Ok(Reading::of(server, rights, layout, unused_keys)?)))
    }

    fn new(target: &Target, reading: NodeAnswer<Reading>) -> Self {
        let username = target.username().map(str::to_owned);
        Self { name: target.place(), redis_cli: target.redis_cli(), username, reading }
    }
}

/// The next reply, to a command; one that was refused is not known, and the connection is as good as before. Without a login nothing
/// is.
fn known(server: &mut Server, command: &str) -> Result<NodeAnswer<Value>> {
    let reply = server.read()?;
    match server.checked(reply) {
        Ok(value) => Ok(Ok(value)),
        Err(error) if error.is_connection() || matches!(error, StoreError::Login { .. }) => Err(error),
        // It closes the connection.
        Err(error) if error.why().contains("protected mode") => Err(error),
        Err(error) => Ok(Err(reason(command, &error))),
    }
}

/// Sends a command that goes by this name, and reads its reply.
fn ask(server: &mut Server, name: &str, command: &Cmd) -> Result<NodeAnswer<Value>> {
    server.write(&command.get_packed_command())?;
    known(server, name)
}

/// Why a command was refused, in a few words.
fn reason(command: &str, error: &StoreError) -> String {
    match error {
        StoreError::Permission { .. } => format!("this user may not run {command}"),
        error if error.is_unknown_command() => format!("this server has no {command} (managed, or renamed)"),
        other => format!("{command}: {}", other.why()),
    }
}

/// A text; bytes that are no UTF-8 are shown as such.
fn text(value: &Value) -> String {
    Reply::of_command("").text(Some(value)).ok().flatten().unwrap_or_default()
}

/// The settings that are asked for. Never those that hold a password.
const SETTINGS: [&str; 16] = [
    "appendonly",
    "appendfsync",
    "no-appendfsync-on-rewrite",
    "save",
    "stop-writes-on-bgsave-error",
    "maxmemory",
    "maxmemory-policy",
    "min-replicas-to-write",
    "min-replicas-max-lag",
    "client-output-buffer-limit",
    "repl-backlog-size",
    "lua-time-limit",
    "busy-reply-threshold",
    "slowlog-log-slower-than",
    "slowlog-max-len",
    "cluster-require-full-coverage",
];

/// Entries of the slow log that are read; it keeps 128 unless it is set otherwise.
const SLOW_CALLS: u64 = 1000;

/// Settings by name; those that the server does not have are not in it.
pub(crate) type Settings = HashMap<&'static str, String>;

/// What a server said.
#[derive(Debug)]
pub(crate) struct Reading {
    /// The default sections of INFO.
    pub info: NodeAnswer<Info>,
    /// Its settings.
    pub settings: NodeAnswer<Settings>,
    /// The slow log, the newest first.
    pub slow_calls: NodeAnswer<Vec<SlowCall>>,
    /// Its clock.
    pub clock: NodeAnswer<Clock>,
    /// The rights that were asked for, in that order.
    pub rights: NodeAnswer<Vec<Granted>>,
    /// What scripts do, tried here.
    pub dry_run: NodeAnswer<DryRun>,
}

/// A call that took long.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SlowCall {
    /// When it began.
    pub at: Millis,
    /// How long the server did nothing else.
    pub took: Duration,
    /// Which of our scripts it was; `None` for anything else.
    pub script: Option<&'static str>,
    /// Its command, in capitals.
    pub command: String,
}

/// A server's clock beside this machine's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Clock {
    /// How far it is ahead, in microseconds; below zero if it is behind.
    pub ahead_us: i64,
    /// How far that may be wrong: half the round trip.
    pub uncertainty_us: i64,
}

impl Reading {
    /// Asks for everything in one pipeline, but for the clock and the rights, and tries scripts on keys that nobody has.
    pub(crate) fn of(
        server: &mut Server,
        rights: &[String],
        layout: Layout,
        unused_keys: Option<&Keys>,
    ) -> Result<Self> {
        let mut commands: Vec<(&str, Cmd)> = vec![
            ("INFO", redis::cmd("INFO")),
            ("SLOWLOG GET", redis::cmd("SLOWLOG").arg("GET").arg(SLOW_CALLS).to_owned()),
        ];
        // One name a call: Redis 6.2 takes no more.
        commands.extend(SETTINGS.map(|name| ("CONFIG GET", redis::cmd("CONFIG").arg("GET").arg(name).to_owned())));
        let packed: Vec<u8> = commands.iter().flat_map(|(_, command)| command.get_packed_command()).collect();
        server.write(&packed)?;
        let replies = commands.iter().map(|(name, _)| known(server, name)).collect::<Result<Vec<_>>>()?;
        let mut replies = replies.into_iter();
        let mut next = || replies.next().unwrap_or_else(|| Err("no reply".to_owned()));
        let info = next().map(|value| Info::parse(&text(&value)));
        let slow_calls = next().and_then(slow_calls);
        let settings = SETTINGS.into_iter().map(|name| (name, next())).collect();
        let example: Vec<String> = Keys::of(layout, &ActivityId::validated(b"1")).all().map(str::to_owned).collect();
        let clock = clock(server)?;
        let granted = rights::ask(server, rights, &example)?;
        let is_replica = info.as_ref().is_ok_and(|info| info.role() == Some(Role::Replica));
        let dry_run = match (unused_keys, &granted) {
            (Some(keys), Ok(granted)) if !is_replica => {
                let may =
                    |right: &str| rights.iter().zip(granted).any(|(name, it)| name == right && *it == Granted::Yes);
                dry_run(server, &Script::all(layout.kind()), keys, may)?
            }
            (_, Err(why)) if !is_replica => Err(why.clone()),
            _ => Err("replica itself".to_owned()),
        };
        Ok(Self { info, settings: read_settings(settings), slow_calls, clock, rights: granted, dry_run })
    }
}

/// All settings, or why none is known.
fn read_settings(replies: Vec<(&'static str, NodeAnswer<Value>)>) -> NodeAnswer<Settings> {
    let mut settings = Settings::new();
    for (name, reply) in replies {
        if let Value::Array(pair) = reply?
            && let [_, value] = &pair[..]
        {
            settings.insert(name, text(value));
        }
    }
    // A managed server may reply, and say nothing.
    if settings.is_empty() { Err("the server does not show its settings".to_owned()) } else { Ok(settings) }
}

fn clock(server: &mut Server) -> Result<NodeAnswer<Clock>> {
    let system = Arc::clone(server.target.system());
    let now = || system.unix_time().as_micros();
    server.write(&redis::cmd("TIME").get_packed_command())?;
    let before = now();
    let reply = known(server, "TIME")?;
    let after = now();
    let there = reply.and_then(|value| Reply::clock(&value).map_err(|_| format!("TIME replied {value:?}")));
    let number = |micros: u128| i64::try_from(micros).unwrap_or(i64::MAX);
    let (here, uncertainty_us) = (number(before.midpoint(after)), number(after.saturating_sub(before)) / 2);
    Ok(there.map(|there| Clock { ahead_us: signed(there).saturating_sub(here), uncertainty_us }))
}

fn slow_calls(value: Value) -> NodeAnswer<Vec<SlowCall>> {
    let invalid = || "SLOWLOG GET replied with something unknown".to_owned();
    let Value::Array(entries) = value else { return Err(invalid()) };
    entries.iter().map(|entry| slow_call(entry).ok_or_else(invalid)).collect()
}

/// Reads `[id, second, microseconds, [argument, …], …]`.
fn slow_call(entry: &Value) -> Option<SlowCall> {
    let Value::Array(parts) = entry else { return None };
    let [_, Value::Int(second), Value::Int(micros), Value::Array(arguments), ..] = &parts[..] else { return None };
    let command = text(arguments.first()?).to_uppercase();
    let script = arguments.get(1).map(text).filter(|_| command.starts_with("EVAL"));
    Some(SlowCall {
        at: Millis::new(u64::try_from(*second).ok()?.saturating_mul(1000)),
        took: Duration::from_micros(u64::try_from(*micros).ok()?),
        script: script.and_then(|script| ours(&script)),
        command,
    })
}

/// The script of that SHA-1 or that text, of which the slow log keeps the beginning.
fn ours(shown: &str) -> Option<&'static str> {
    const KEPT: usize = 80;
    let is_it = |script: &&Script| {
        shown == script.sha1 || shown.get(..KEPT).is_some_and(|begin| script.text.starts_with(begin))
    };
    Script::every().into_iter().find(is_it).map(|script| script.name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::layout::Kind;

    impl Reading {
        /// A server from which nothing could be read.
        pub(crate) fn unread() -> Self {
            Self {
                info: Err(String::new()),
                settings: Err(String::new()),
                slow_calls: Err(String::new()),
                clock: Err(String::new()),
                dry_run: Err(String::new()),
                rights: Err(String::new()),
            }
        }
    }

    #[test]
    fn a_slow_call_of_ours_is_known_by_its_sha1_and_by_its_text() {
        let bulk = |text: &str| Value::BulkString(text.into());
        let entry = |command: &str, script: &str| {
            let arguments = Value::Array(vec![bulk(command), bulk(script)]);
            Value::Array(vec![Value::Int(3), Value::Int(1_700_000_000), Value::Int(12_000), arguments])
        };
        let of = |command: &str, script: &str| slow_call(&entry(command, script)).unwrap().script;
        let deduct = crate::script::DEDUCT.of(Kind::Set);
        assert_eq!(of("evalsha", deduct.sha1), Some("deduct"));
        assert_eq!(of("EVAL", &format!("{}... (9000 more bytes)", &deduct.text[..100])), Some("deduct"));
        assert_eq!(of("EVAL", "return 1"), None);
        assert_eq!(of("GET", deduct.sha1), None);
        assert!(slow_call(&Value::Nil).is_none());
    }
}
