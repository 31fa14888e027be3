//! Whether this user may run the commands that a sale needs, on its keys.
//!
//! From Redis 7.0 on a script may ask that, which takes no right but EVAL; before, ACL GETUSER must be allowed.
//!
//! And what a server refuses of what our scripts do: proxies and clouds allow less in scripts than a server of one's own, and say so
//! only when it is called. So each script is called without arguments, which it refuses itself, and each command that scripts need
//! is called by a script of one line. Keys are those of an activity that does not exist: what such a line creates, it removes.

use redis::Value;

use crate::error::{Result, ServerKind, StoreError};
use crate::read::health::{self, NodeAnswer, reason, text};
use crate::redis::cluster::server::Server;
use crate::script::Script;
use crate::script::keys::Keys;
use crate::script::reply::Reply;

/// Whether a user has a right.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Granted {
    /// It may be run on all keys of an activity.
    Yes,
    /// It may not be run at all.
    No,
    /// It may not be run on these keys of an activity, of which `1` is an example.
    NotOn(Vec<String>),
}

/// Asks about calls, each a JSON array of words; 1 is yes, 0 no, -1 that the server has no such command. Redis 8 is only asked
/// with as many words as the command takes, so a call gets more until it has them; none of them is a key.
const ASK: &str = "\
if not redis.acl_check_cmd then return -1 end
local replies = {}
for i, call in ipairs(cjson.decode(ARGV[1])) do
  local known, may = pcall(redis.acl_check_cmd, unpack(call))
  while not known and #call < 6 do
    call[#call + 1] = '1'
    known, may = pcall(redis.acl_check_cmd, unpack(call))
  end
  replies[i] = not known and -1 or may and 1 or 0
end
return replies";

/// Asks about each right.
pub(crate) fn ask(server: &mut Server, rights: &[String], keys: &[String]) -> Result<NodeAnswer<Vec<Granted>>> {
    let calls: Vec<Vec<Vec<String>>> = rights.iter().map(|right| calls(right, keys)).collect();
    let all: Vec<&Vec<String>> = calls.iter().flatten().collect();
    let json = serde_json::to_string(&all).unwrap_or_default();
    // No script can ask about a command that the server lacks.
    if let Err(why) = health::ask(server, "EVALSHA", redis::cmd("EVALSHA").arg("x").arg(0))?
        && why.starts_with("this server has no")
    {
        return Ok(Err(why));
    }
    let mut eval = redis::cmd("EVAL");
    let replies = match health::ask(server, "EVAL", eval.arg(ASK).arg(0).arg(json))? {
        Ok(Value::Array(replies)) => replies,
        Ok(_) => return by_user(server, rights, keys),
        Err(why) => return Ok(Err(why)),
    };
    let mut replies = replies.into_iter();
    Ok(Ok(calls
        .iter()
        .map(|calls| granted(calls.iter().map(|_| replies.next() != Some(Value::Int(0))), keys))
        .collect()))
}

/// What the replies about one command say: one, or one for each key.
fn granted(may: impl Iterator<Item = bool>, keys: &[String]) -> Granted {
    let may: Vec<bool> = may.collect();
    let refused: Vec<String> = keys.iter().zip(&may).filter(|(_, may)| !**may).map(|(key, _)| key.clone()).collect();
    match refused.len() {
        0 => Granted::Yes,
        refused if refused == may.len() => Granted::No,
        _ => Granted::NotOn(refused),
    }
}

/// The calls that a right is asked by: one, or one for each key of an activity.
fn calls(right: &str, keys: &[String]) -> Vec<Vec<String>> {
    let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
    let without_key = match right {
        "time" | "role" | "multi" | "exec" | "asking" => words(right),
        "scan" => words("scan 0"),
        "wait" => words("wait 1 1"),
        "script|load" => words("script load x"),
        "config|get" => words("config get maxmemory"),
        "config|set" => words("config set maxmemory 0"),
        "acl|setuser" => words("acl setuser x"),
        "cluster|slots" => words("cluster slots"),
        "eval" | "evalsha" => words(&format!("{right} x 0")),
        _ => return keys.iter().map(|key| on_key(right, key)).collect(),
    };
    vec![without_key]
}

fn on_key(right: &str, key: &str) -> Vec<String> {
    let words: &[&str] = match right {
        "xread" => &["xread", "streams", key, "0"],
        "xreadgroup" => &["xreadgroup", "group", "g", "c", "streams", key, ">"],
        "xgroup|create" => &["xgroup", "create", key, "g", "0"],
        "xinfo|groups" => &["xinfo", "groups", key],
        other => &[other, key],
    };
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// Reads the user's own rules, on a server whose scripts cannot ask.
fn by_user(server: &mut Server, rights: &[String], keys: &[String]) -> Result<NodeAnswer<Vec<Granted>>> {
    let mut request = |words: &[&str]| health::ask(server, &format!("ACL {}", words[0]), redis::cmd("ACL").arg(words));
    let name = match request(&["WHOAMI"])? {
        Ok(name) => text(&name),
        Err(why) => return Ok(Err(why)),
    };
    let fields = match request(&["GETUSER", &name])? {
        Ok(Value::Array(fields)) => fields,
        Ok(_) => return Ok(Err("ACL GETUSER knows no such user".to_owned())),
        Err(why) => return Ok(Err(why)),
    };
    let patterns: Vec<Vec<u8>> = match Reply::field(&fields, "keys") {
        Some(Value::Array(patterns)) => patterns.iter().map(|pattern| text(pattern).into_bytes()).collect(),
        _ => Vec::new(),
    };
    let rules = Reply::field(&fields, "commands").map(text).unwrap_or_default();
    // A category is all of its commands.
    let mut steps: Vec<(bool, Vec<String>)> = Vec::new();
    for rule in rules.split(' ') {
        let (adds, name) = (rule.starts_with('+'), rule.get(1..).unwrap_or_default());
        let names = match name.strip_prefix('@') {
            None | Some("all") => vec![name.to_owned()],
            Some(category) => match request(&["CAT", category])? {
                Ok(Value::Array(names)) => names.iter().map(text).collect(),
                Ok(_) => Vec::new(),
                Err(why) => return Ok(Err(why)),
            },
        };
        steps.push((adds, names));
    }
    let allows = |right: &str| {
        let of = right.split('|').next().unwrap_or(right);
        let is_of = |name: &String| name == "@all" || name == of || name == right;
        steps.iter().rev().find(|(_, names)| names.iter().any(is_of)).is_some_and(|(adds, _)| *adds)
    };
    let has_key = |key: &str| patterns.iter().any(|pattern| matches(pattern, key.as_bytes()));
    let each = |right: &String| match calls(right, keys).len() {
        _ if !allows(right) => Granted::No,
        1 if keys.len() > 1 => Granted::Yes,
        _ => granted(keys.iter().map(|key| has_key(key)), keys),
    };
    Ok(Ok(rights.iter().map(each).collect()))
}

/// Whether a pattern of key names fits: `*`, `?`, and what a backslash hides. A class fits any one byte.
fn matches(pattern: &[u8], text: &[u8]) -> bool {
    match pattern {
        [] => text.is_empty(),
        [b'*', rest @ ..] => (0..=text.len()).any(|at| matches(rest, &text[at..])),
        [b'?', rest @ ..] => !text.is_empty() && matches(rest, &text[1..]),
        [b'[', rest @ ..] => {
            let end = rest.iter().position(|byte| *byte == b']').map_or(rest.len(), |end| end + 1);
            !text.is_empty() && matches(&rest[end..], &text[1..])
        }
        [b'\\', byte, rest @ ..] | [byte, rest @ ..] => text.first() == Some(byte) && matches(rest, &text[1..]),
    }
}

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
const CALLS: [(&str, &str); 34] = [
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
) -> Result<NodeAnswer<DryRun>> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_of_keys() {
        for (pattern, key, fits) in [
            ("*", "seckill:stock:1", true),
            ("seckill:*", "seckill:stock:1", true),
            ("seckill:*", "stock:1", false),
            ("a?c*", "abc", true),
            ("a?c", "ac", false),
            ("a\\*c", "a*c", true),
            ("a\\*c", "abc", false),
            ("[ab]:*", "a:1", true),
        ] {
            assert_eq!(matches(pattern.as_bytes(), key.as_bytes()), fits, "{pattern} {key}");
        }
    }

    #[test]
    fn a_right_on_some_keys_is_told_from_none_at_all() {
        let keys = ["a", "b"].map(str::to_owned);
        assert_eq!(granted([true, true].into_iter(), &keys), Granted::Yes);
        assert_eq!(granted([false, false].into_iter(), &keys), Granted::No);
        assert_eq!(granted([true, false].into_iter(), &keys), Granted::NotOn(vec!["b".into()]));
        assert_eq!(granted([false].into_iter(), &keys), Granted::No);
    }
}
