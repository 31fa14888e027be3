//! What a call replied and left behind, as lines that can be compared.

use redis::{RedisResult, Value};

use crate::support::scripts::line;

/// Reads each of `KEYS` by its type.
pub const READ_ALL: &str = "
    local read = {string = {'GET'}, hash = {'HGETALL'}, set = {'SMEMBERS'}, list = {'LRANGE', 0, -1}, stream = {'XRANGE', '-', '+'},
        zset = {'ZRANGE', 0, -1, 'WITHSCORES'}}
    local found = {}
    for i, key in ipairs(KEYS) do
        local kind = redis.call('TYPE', key).ok
        local command = read[kind]
        found[i] = {kind, command and redis.call(command[1], key, unpack(command, 2)) or ''}
    end
    return found";

/// What `READ_ALL` found of each key.
pub fn lines(found: Vec<(String, Value)>) -> Vec<String> {
    let found = found.into_iter().map(|(kind, value)| match (&*kind, value) {
        // Of the ledger the fields alone, because its ids are the clock's.
        ("stream", Value::Array(entries)) => entries.iter().map(|entry| shown(&fields(entry))).collect(),
        ("hash", Value::Array(items)) => sorted(items.chunks(2).map(|pair| pair.iter().map(shown).collect())),
        ("set", Value::Array(items)) => sorted(items.iter().map(shown)),
        (_, value) => shown(&value),
    });
    found.collect()
}

fn sorted(texts: impl Iterator<Item = String>) -> String {
    let mut texts: Vec<String> = texts.collect();
    texts.sort();
    texts.concat()
}

/// The fields of an entry of a stream.
fn fields(entry: &Value) -> Value {
    match entry {
        Value::Array(parts) => parts[1].clone(),
        other => panic!("{other:?} is no entry"),
    }
}

fn shown(value: &Value) -> String {
    match value {
        Value::BulkString(bytes) => format!("`{}` ", bytes.escape_ascii()),
        Value::Array(values) => values.iter().map(shown).collect::<String>() + "; ",
        other => format!("{other:?} "),
    }
}

/// Whether a quick path left a call to the reference path.
pub fn is_left(reply: &str, denied: Option<&str>) -> bool {
    reply.contains("ERROR") && (denied.is_some() || reply.trim_end().ends_with("GENERAL"))
}

/// What the quick path replies and writes is what is expected.
pub fn compared(
    (quick, wrote): (&str, &[String]),
    (reply, expected): (&str, &[String]),
    denied: Option<&str>,
) -> Result<(), String> {
    if quick.starts_with(LUA_ERROR) && denied.is_none() {
        return Err(format!("a Lua error: {quick}"));
    }
    if quick != reply {
        return Err(format!("the quick path replies\n  {quick}\nthe reference path\n  {reply}"));
    }
    let lines = wrote.iter().zip(expected).filter(|(wrote, expected)| wrote != expected);
    let differs: Vec<String> = lines.map(|(wrote, expected)| format!("{wrote}\n  expected {expected}")).collect();
    if differs.is_empty() {
        Ok(())
    } else {
        Err(format!("{quick}, and the quick path wrote\n  {}", differs.join("\n  ")))
    }
}

/// What a script raised, instead of replying.
pub const LUA_ERROR: &str = "LUA";

pub fn text(reply: &RedisResult<Value>) -> String {
    match reply {
        Ok(value) => line(value),
        Err(error) => {
            // An error that the server raised itself names the script and its line.
            let text = format!("ERROR {} {}", error.code().unwrap_or_default(), error.detail().unwrap_or_default());
            let what = text.split(" script: ").next().unwrap_or_default();
            if text.contains("user_script") { format!("{LUA_ERROR} {what}") } else { what.to_owned() }
        }
    }
}
