//! The keys that the writes in an append-only file lead to.

use std::collections::{BTreeMap, BTreeSet};

use crate::aof::Group;
use crate::support::Layout;

/// An entry's id as two numbers, so that ids compare as the server orders them.
pub type EntryId = (u64, u64);

/// What a server holds, as far as the product's scripts use it.
#[derive(Debug, Default, Clone, PartialEq)]
pub struct Keys {
    pub strings: BTreeMap<String, String>,
    pub hashes: BTreeMap<String, BTreeMap<String, String>>,
    pub sets: BTreeMap<String, BTreeSet<String>>,
    pub sorted: BTreeMap<String, BTreeSet<String>>,
    pub streams: BTreeMap<String, BTreeMap<EntryId, BTreeMap<String, String>>>,
}

impl Keys {
    /// Applies one call's writes.
    pub fn apply(&mut self, group: &Group) -> Result<(), String> {
        group.commands.iter().try_for_each(|command| self.apply_one(command))
    }

    fn apply_one(&mut self, command: &[String]) -> Result<(), String> {
        let text = |at: usize| command.get(at).cloned().unwrap_or_default();
        let key = text(1);
        match command[0].as_str() {
            // Neither groups of consumers nor what they acknowledge are part of the model.
            "SELECT" | "SCRIPT" | "XGROUP" | "XACK" | "XCLAIM" | "XREADGROUP" | "XSETID" | "PING" => {}
            "SET" => drop(self.strings.insert(key, text(2))),
            "INCRBY" | "DECRBY" | "INCR" | "DECR" => {
                let by: i64 = if command[0].ends_with("BY") { number(&text(2))? } else { 1 };
                let by = if command[0].starts_with("DECR") { -by } else { by };
                let value = self.strings.entry(key).or_insert_with(|| "0".to_owned());
                *value = (number(value)? + by).to_string();
            }
            "HSET" | "HMSET" => {
                let hash = self.hashes.entry(key).or_default();
                hash.extend(command[2..].chunks(2).map(|pair| (pair[0].clone(), pair[1].clone())));
            }
            "HINCRBY" => {
                let value = self.hashes.entry(key).or_default().entry(text(2)).or_insert_with(|| "0".to_owned());
                *value = (number(value)? + number(&text(3))?).to_string();
            }
            "HDEL" => {
                let hash = self.hashes.entry(key.clone()).or_default();
                command[2..].iter().for_each(|field| drop(hash.remove(field)));
                if hash.is_empty() {
                    self.hashes.remove(&key);
                }
            }
            "SADD" => self.sets.entry(key).or_default().extend(command[2..].iter().cloned()),
            "SREM" => {
                let set = self.sets.entry(key.clone()).or_default();
                command[2..].iter().for_each(|member| _ = set.remove(member));
                if set.is_empty() {
                    self.sets.remove(&key);
                }
            }
            // Deadlines are the clock's; only who has one counts.
            "ZADD" => {
                let words = command[2..].iter().filter(|word| !["XX", "NX"].contains(&word.as_str()));
                let members: Vec<String> = words.skip(1).step_by(2).cloned().collect();
                self.sorted.entry(key).or_default().extend(members);
            }
            "ZREM" => {
                let set = self.sorted.entry(key.clone()).or_default();
                command[2..].iter().for_each(|member| _ = set.remove(member));
                if set.is_empty() {
                    self.sorted.remove(&key);
                }
            }
            "XADD" => {
                // Options may come before the id, which is the first word that looks like one.
                let at = (2..command.len()).find(|at| entry_id(&command[*at]).is_some()).ok_or("XADD without an id")?;
                let fields = command[at + 1..].chunks(2).map(|pair| (pair[0].clone(), pair[1].clone())).collect();
                self.streams.entry(key).or_default().insert(entry_id(&command[at]).unwrap(), fields);
            }
            "XTRIM" => {
                let stream = self.streams.entry(key).or_default();
                let bound = command[3..].iter().find(|word| word.as_str() != "=" && word.as_str() != "~").cloned();
                let bound = bound.ok_or("XTRIM without a bound")?;
                if command[2] == "MAXLEN" {
                    let length = usize::try_from(number(&bound)?).unwrap();
                    while stream.len() > length {
                        stream.pop_first();
                    }
                } else {
                    let first = entry_id(&bound).or(bound.parse().ok().map(|ms| (ms, 0))).ok_or("XTRIM MINID")?;
                    stream.retain(|id, _| *id >= first);
                }
            }
            "XDEL" => {
                let stream = self.streams.entry(key).or_default();
                command[2..].iter().filter_map(|id| entry_id(id)).for_each(|id| _ = stream.remove(&id));
            }
            "DEL" | "UNLINK" => command[1..].iter().for_each(|key| self.remove(key)),
            other => return Err(format!("keys.rs does not know the command {other}: {command:?}")),
        }
        Ok(())
    }

    fn remove(&mut self, key: &str) {
        self.strings.remove(key);
        self.hashes.remove(key);
        self.sets.remove(key);
        self.sorted.remove(key);
        self.streams.remove(key);
    }

    pub fn field(&self, key: &str, field: &str) -> Option<&str> {
        self.hashes.get(key)?.get(field).map(String::as_str)
    }
}

fn number(text: &str) -> Result<i64, String> {
    text.parse().map_err(|_| format!("not a number: {text:?}"))
}

/// `1795292845085-0`.
pub fn entry_id(text: &str) -> Option<EntryId> {
    let (ms, sequence) = text.split_once('-')?;
    Some((ms.parse().ok()?, sequence.parse().ok()?))
}

impl Keys {
    /// Units by user, as the keys have them.
    pub fn held(&self, layout: Layout, activity: &str) -> BTreeMap<&str, u64> {
        if !layout.has_users() {
            return BTreeMap::new();
        }
        let participants = layout.participants(activity);
        let in_hash = |key: &str| self.hashes.get(key).into_iter().flatten();
        let number = |text: &String| text.parse().unwrap_or(u64::MAX);
        if layout.kind == "hash" {
            return in_hash(&participants).map(|(user, units)| (user.as_str(), number(units))).collect();
        }
        let members = self.sets.get(&participants).into_iter().flatten();
        let mut held: BTreeMap<&str, u64> = members.map(|user| (user.as_str(), 1)).collect();
        if layout.kind == "set" {
            held.extend(in_hash(&layout.key(6, activity)).map(|(user, units)| (user.as_str(), number(units))));
        }
        held
    }
}
