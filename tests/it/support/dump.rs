//! Everything a server holds, as text that can be compared and read.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use redis::{Connection, Value};

/// Every key of database 0 with its type, content and expiry, in an order that does not depend on
/// how the server keeps it.
#[derive(Clone, PartialEq, Eq)]
pub struct Dump {
    keys: BTreeMap<String, String>,
}

impl Dump {
    pub fn of(connection: &mut Connection) -> Self {
        let keys: Vec<Vec<u8>> = redis::cmd("KEYS").arg("*").query(connection).unwrap();
        let described = keys.iter().map(|key| (shown(key), describe(connection, key)));
        Self { keys: described.collect() }
    }

    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// The keys that are not as they were.
    pub fn changed_keys<'a>(&'a self, after: &'a Self) -> BTreeSet<&'a str> {
        let all = self.keys.keys().chain(after.keys.keys());
        all.filter(|key| self.keys.get(*key) != after.keys.get(*key)).map(String::as_str).collect()
    }

    /// What differs, a line a key; empty if nothing does.
    pub fn changes_to(&self, after: &Self) -> String {
        let mut changes = String::new();
        for (key, old) in &self.keys {
            match after.keys.get(key) {
                Some(new) if new == old => {}
                Some(new) => changes += &format!("{key}: {old}\n  is now: {new}\n"),
                None => changes += &format!("{key}: {old}\n  is gone\n"),
            }
        }
        for (key, new) in after.keys.iter().filter(|(key, _)| !self.keys.contains_key(*key)) {
            changes += &format!("{key} is new: {new}\n");
        }
        changes
    }
}

/// One key a line, so that a failed comparison can be read.
impl fmt::Debug for Dump {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.keys.iter().try_for_each(|(key, content)| writeln!(f, "{key}: {content}"))
    }
}

fn describe(connection: &mut Connection, key: &[u8]) -> String {
    let mut ask = |before: &[&str], after: &[&str]| -> Value {
        redis::Cmd::new().arg(before).arg(key).arg(after).query(connection).unwrap()
    };
    let kind = text(&ask(&["TYPE"], &[]));
    let content = match kind.as_str() {
        "string" => text(&ask(&["GET"], &[])),
        "hash" => pairs(&ask(&["HGETALL"], &[])),
        "set" => sorted(items(&ask(&["SMEMBERS"], &[])).iter().map(text)),
        "list" => text(&ask(&["LRANGE"], &["0", "-1"])),
        "zset" => text(&ask(&["ZRANGE"], &["0", "-1", "WITHSCORES"])),
        "stream" => {
            let groups = text(&ask(&["XINFO", "GROUPS"], &[]));
            format!("{} groups {groups}", text(&ask(&["XRANGE"], &["-", "+"])))
        }
        other => panic!("a key of type `{other}`: teach support/dump.rs to read it"),
    };
    // The moment of expiry, not the time that is left: the latter changes by itself. Redis 6.2 does not say it.
    let expires = match ask(&["PTTL"], &[]) {
        Value::Int(-1) => String::new(),
        _ => match redis::cmd("PEXPIRETIME").arg(key).query::<i64>(connection) {
            Ok(at) => format!(" expires at {at}"),
            Err(_) => " expires".to_owned(),
        },
    };
    format!("{kind} {content}{expires}")
}

fn items(value: &Value) -> &[Value] {
    match value {
        Value::Array(items) | Value::Set(items) => items,
        other => panic!("expected an array, got {other:?}"),
    }
}

fn pairs(value: &Value) -> String {
    sorted(items(value).chunks(2).map(|pair| format!("{}={}", text(&pair[0]), text(&pair[1]))))
}

fn sorted(texts: impl Iterator<Item = String>) -> String {
    let mut texts: Vec<String> = texts.collect();
    texts.sort();
    format!("{{{}}}", texts.join(" "))
}

fn text(value: &Value) -> String {
    match value {
        Value::BulkString(bytes) => format!("`{}`", shown(bytes)),
        Value::SimpleString(word) => word.clone(),
        Value::Int(number) => number.to_string(),
        Value::Nil => "nil".to_owned(),
        other => {
            let texts: Vec<String> = items(other).iter().map(text).collect();
            format!("[{}]", texts.join(" "))
        }
    }
}

/// Bytes as text that hides nothing: what is not UTF-8 or would not show is escaped, so two
/// different keys never look equal.
fn shown(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) => text
            .chars()
            .flat_map(|c| if c.is_control() || c == '\\' { c.escape_default().collect() } else { vec![c] })
            .collect(),
        Err(_) => bytes.escape_ascii().to_string(),
    }
}
