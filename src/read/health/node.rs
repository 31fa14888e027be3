//! What one server says about itself.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use redis::{Cmd, Value};

use crate::error::StoreError;
use crate::model::id::ActivityId;
use crate::model::layout::Layout;
use crate::model::time::Millis;
use crate::read::health::dry_run::{DryRun, dry_run};
use crate::read::health::rights::{self, Granted};
use crate::read::health::{Known, known, text};
use crate::read::stats::info::{Info, Role};
use crate::redis::cluster::server::Server;
use crate::script::Script;
use crate::script::keys::Keys;
use crate::script::reply::Reply;

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
    pub info: Known<Info>,
    /// Its settings.
    pub settings: Known<Settings>,
    /// The slow log, the newest first.
    pub slow_calls: Known<Vec<SlowCall>>,
    /// Its clock.
    pub clock: Known<Clock>,
    /// The rights that were asked for, in that order.
    pub rights: Known<Vec<Granted>>,
    /// What scripts do, tried here.
    pub dry_run: Known<DryRun>,
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
    ) -> Result<Self, StoreError> {
        let mut commands: Vec<(&str, Cmd)> = vec![
            ("INFO", redis::cmd("INFO")),
            ("SLOWLOG GET", redis::cmd("SLOWLOG").arg("GET").arg(SLOW_CALLS).to_owned()),
        ];
        // One name a call: Redis 6.2 takes no more.
        commands.extend(SETTINGS.map(|name| ("CONFIG GET", redis::cmd("CONFIG").arg("GET").arg(name).to_owned())));
        let packed: Vec<u8> = commands.iter().flat_map(|(_, command)| command.get_packed_command()).collect();
        server.write(&packed)?;
        let mut replies = Vec::with_capacity(commands.len());
        for (name, _) in &commands {
            let reply = server.read()?;
            replies.push(known(server, name, reply)?);
        }
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
fn read_settings(replies: Vec<(&'static str, Known<Value>)>) -> Known<Settings> {
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

fn clock(server: &mut Server) -> Result<Known<Clock>, StoreError> {
    let system = Arc::clone(server.target.system());
    let now = || system.unix_time().as_micros();
    server.write(&redis::cmd("TIME").get_packed_command())?;
    let before = now();
    let reply = server.read()?;
    let after = now();
    let reply = match known(server, "TIME", reply)? {
        Ok(Value::Array(parts)) => parts,
        Ok(other) => return Ok(Err(format!("TIME replied {other:?}"))),
        Err(why) => return Ok(Err(why)),
    };
    let part = |at: usize| Reply::of_command("TIME").count(reply.get(at)).ok().flatten().unwrap_or_default();
    let there = part(0) * 1_000_000 + part(1);
    let number = |micros: u128| i64::try_from(micros).unwrap_or(i64::MAX);
    let here = number(before.midpoint(after));
    let ahead_us = i64::try_from(there).unwrap_or(i64::MAX).saturating_sub(here);
    Ok(Ok(Clock { ahead_us, uncertainty_us: number(after.saturating_sub(before)) / 2 }))
}

fn slow_calls(value: Value) -> Known<Vec<SlowCall>> {
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
