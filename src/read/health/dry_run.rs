//! What a server refuses of what our scripts do: proxies and clouds allow less in scripts than a server of one's own, and say so
//! only when it is called. So each script is called without arguments, which it refuses itself, and each command that scripts need
//! is called by a script of one line. Keys are those of an activity that does not exist: what such a line creates, it removes.

use redis::Value;

use crate::error::{ServerKind, StoreError};
use crate::read::health::{Known, reason};
use crate::redis::cluster::server::Server;
use crate::script::Script;
use crate::script::keys::Keys;

/// What was tried. `None` in place of a reason: the server does not refuse it.
#[derive(Debug)]
pub(crate) struct DryRun {
    /// The key that calls were tried on.
    pub key: String,
    /// Our scripts by name, and why the server refuses one.
    pub scripts: Vec<(&'static str, Option<String>)>,
    /// What scripts call.
    pub calls: Vec<TriedCall>,
}

/// A call that a script of one line tried.
#[derive(Debug)]
pub(crate) struct TriedCall {
    /// The command as rights name it.
    pub name: &'static str,
    /// The script.
    pub text: &'static str,
    /// Why the server refuses it, in its own words.
    pub why: Option<String>,
}

/// What a command says that ran, but found nothing.
const HAS_RUN: [&str; 2] = ["no such key", "NOGROUP"];

/// First removes nothing: where that is refused, nothing is created, and nothing known.
macro_rules! creating {
    ($call:literal) => {
        concat!(
            "local gone = redis.pcall('UNLINK', KEYS[1]) if type(gone) == 'table' then return 0 end local reply = redis.pcall(",
            $call,
            ") redis.call('UNLINK', KEYS[1]) return reply"
        )
    };
}

/// How a script calls each command that any of ours needs; those that create a key come last.
const CALLS: [(&str, &str); 35] = [
    ("time", "return redis.call('TIME')"),
    ("exists", "return redis.call('EXISTS', KEYS[1])"),
    ("get", "return redis.call('GET', KEYS[1])"),
    ("hdel", "return redis.call('HDEL', KEYS[1], 'f')"),
    ("hexists", "return redis.call('HEXISTS', KEYS[1], 'f')"),
    ("hget", "return redis.call('HGET', KEYS[1], 'f')"),
    ("hgetall", "return redis.call('HGETALL', KEYS[1])"),
    ("hlen", "return redis.call('HLEN', KEYS[1])"),
    ("hmget", "return redis.call('HMGET', KEYS[1], 'f')"),
    ("hscan", "return redis.call('HSCAN', KEYS[1], 0)"),
    ("persist", "return redis.call('PERSIST', KEYS[1])"),
    ("pttl", "return redis.call('PTTL', KEYS[1])"),
    ("scard", "return redis.call('SCARD', KEYS[1])"),
    ("smismember", "return redis.call('SMISMEMBER', KEYS[1], 'm')"),
    ("srem", "return redis.call('SREM', KEYS[1], 'm')"),
    ("sscan", "return redis.call('SSCAN', KEYS[1], 0)"),
    ("type", "return redis.call('TYPE', KEYS[1])"),
    ("unlink", "return redis.call('UNLINK', KEYS[1])"),
    ("xinfo|groups", "return redis.call('XINFO', 'GROUPS', KEYS[1])"),
    ("xlen", "return redis.call('XLEN', KEYS[1])"),
    ("xpending", "return redis.call('XPENDING', KEYS[1], 'g')"),
    ("xrange", "return redis.call('XRANGE', KEYS[1], '-', '+')"),
    ("xrevrange", "return redis.call('XREVRANGE', KEYS[1], '+', '-')"),
    ("xtrim", "return redis.call('XTRIM', KEYS[1], 'MINID', '0-1')"),
    ("zmscore", "return redis.call('ZMSCORE', KEYS[1], 'm')"),
    ("zrangebyscore", "return redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', '+inf')"),
    ("zrem", "return redis.call('ZREM', KEYS[1], 'm')"),
    ("decrby", creating!("'DECRBY', KEYS[1], '1'")),
    ("hset", creating!("'HSET', KEYS[1], 'f', '1'")),
    ("incrby", creating!("'INCRBY', KEYS[1], '1'")),
    ("sadd", creating!("'SADD', KEYS[1], 'm'")),
    ("set", creating!("'SET', KEYS[1], '1'")),
    ("xadd", creating!("'XADD', KEYS[1], '*', 'f', '1'")),
    ("xgroup|create", creating!("'XGROUP', 'CREATE', KEYS[1], 'g', '0', 'MKSTREAM'")),
    ("zadd", creating!("'ZADD', KEYS[1], '0', 'm'")),
];

/// Tries scripts and the commands that this user may call, by the names of their rights. `keys` are in a slot of the server.
pub(crate) fn dry_run(
    server: &mut Server,
    scripts: &[&'static Script],
    keys: &Keys,
    may: impl Fn(&str) -> bool,
) -> Result<Known<DryRun>, StoreError> {
    let keys: Vec<&str> = keys.all().collect();
    let calls: Vec<_> = CALLS.into_iter().filter(|(name, _)| may(name)).collect();
    let eval = |text: &str, keys: &[&str]| redis::cmd("EVAL").arg(text).arg(keys.len()).arg(keys).get_packed_command();
    let mut packed: Vec<u8> = scripts.iter().flat_map(|script| eval(script.text, &keys)).collect();
    packed.extend(calls.iter().flat_map(|(_, text)| eval(text, &keys[..1])));
    server.write(&packed)?;
    let replies = (0..scripts.len() + calls.len()).map(|_| server.read()).collect::<Result<Vec<Value>, _>>()?;
    let mut refusals = Vec::with_capacity(replies.len());
    for (at, reply) in replies.into_iter().enumerate() {
        let is_script = at < scripts.len();
        refusals.push(match server.checked(reply) {
            Ok(_) => None,
            Err(error) if error.is_connection() || matches!(error, StoreError::Login { .. }) => return Err(error),
            Err(StoreError::Server { kind: ServerKind::Usage, .. }) if is_script => None,
            Err(StoreError::Server { kind: ServerKind::Other, why }) => {
                Some(why).filter(|why| is_script || !HAS_RUN.iter().any(|text| why.contains(text)))
            }
            Err(error) if is_script => return Ok(Err(reason("EVAL", &error))),
            // What refuses all writes for now, such as full memory, is shown by other checks.
            Err(_) => None,
        });
    }
    let of_calls = refusals.split_off(scripts.len());
    Ok(Ok(DryRun {
        key: keys[0].to_owned(),
        scripts: scripts.iter().map(|script| script.name).zip(refusals).collect(),
        calls: calls.into_iter().zip(of_calls).map(|((name, text), why)| TriedCall { name, text, why }).collect(),
    }))
}
