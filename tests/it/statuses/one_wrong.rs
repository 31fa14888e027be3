//! What scripts reply, and which keys they write, if one thing is wrong: an argument, a stored value or a key. Each step of a sale
//! is tried with each of these in turn, and then runs as it is.
//!
//! The tables are in `one_wrong/`. `SNAPSHOTS=overwrite cargo test --test it one_wrong` writes them anew; read the difference before it
//! is committed: a reply that changed is a contract that changed.

mod scenarios;

use std::collections::{HashMap, HashSet};
use std::path::Path;

use redis::{Connection, RedisResult, Value};
use snapbox::{Assert, Data};

use crate::support::scripts::{every_script, line, script_of, shown_of};
use crate::support::{Layout, TestRedis};

/// What a number or a word may be instead; a number may be one less and one more, too.
const VALUES: [&str; 8] = ["", "0", "1", "007", "-1", "x", "9007199254740991", "9007199254740992"];
/// The same where all of them would be too many.
const FEW: [&str; 1] = ["2"];
/// What scripts take for the server's clock, and for the ids of the entries that they write.
const CLOCK: &str = "{'1795355857', '669123'}";
const IDS: &str = "'1795355857669-*'";
/// So many calls are sent together.
const AT_ONCE: usize = 50;

/// The words of a command.
type Command = Vec<Vec<u8>>;
/// Where, what is there, and the commands that make it so.
type Damage = (String, String, Vec<Command>);

/// A call with one thing wrong.
struct Fault {
    /// Such as `ARGV[2]`, and what is there instead.
    place: String,
    value: String,
    keys: Vec<String>,
    args: Vec<Vec<u8>>,
    /// What happens to the data before.
    commands: Vec<Command>,
}

/// An activity, and the table of what was tried on it.
struct Trial {
    layout: Layout,
    activities: &'static [&'static str],
    _redis: TestRedis,
    connection: Connection,
    hashes: HashMap<&'static str, String>,
    values: &'static [&'static str],
    table: String,
}

/// The keys as `DUMP` gives them.
type Saved = Vec<(String, Option<Vec<u8>>)>;

fn words(words: &[&str]) -> Command {
    words.iter().map(|word| word.as_bytes().to_vec()).collect()
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.len() < 16 && text.bytes().all(|byte| byte.is_ascii_digit())
}

impl Trial {
    /// Nothing, if the server cannot number entries within a millisecond, as before Redis 7.0.
    fn of(layout: Layout, activities: &'static [&'static str], values: &'static [&'static str]) -> Option<Self> {
        let redis = TestRedis::start();
        if !redis.scripts_can_check_permissions() {
            return None;
        }
        let mut connection = redis.connection();
        let mut load = |name: &'static str| -> String {
            let text = shown_of(name, layout)
                .replace("redis.call('TIME')", CLOCK)
                .replace("= call('TIME')", &format!("= {CLOCK}"));
            redis::cmd("SCRIPT").arg("LOAD").arg(text.replace("'*'", IDS)).query(&mut connection).unwrap()
        };
        let hashes = every_script().map(|name| (name, load(name))).collect();
        Some(Self { layout, activities, _redis: redis, connection, hashes, values, table: String::new() })
    }

    /// A command of another client.
    fn send(&mut self, command: &[&str]) {
        redis::Cmd::new().arg(command).exec(&mut self.connection).unwrap();
    }

    fn keys_of_all(&self) -> Vec<String> {
        self.activities.iter().flat_map(|activity| self.layout.keys(activity)).collect()
    }

    fn keys_of(&self, script: &str) -> Vec<String> {
        let layout = self.layout;
        match script {
            "hold" | "hold_file" | "settle" | "settle_file" | "preheat" | "archive" | "parent" | "preheat_shard" => {
                layout.all_keys(self.activities[0])
            }
            "lend" | "borrow" | "peek" => layout.keys(self.activities[0])[..4].to_vec(),
            "multi_deduct" | "multi_deduct_file" => self.keys_of_all(),
            "drop-in/product" => vec![layout.stock("1")],
            "drop-in/sku-multi" => ["1", "2"].map(|activity| layout.stock(activity)).to_vec(),
            "drop-in/hm-dianping" => [1, 5, 4].map(|number| layout.key(number, "1")).to_vec(),
            _ if script.starts_with("drop-in/") => vec![layout.stock("1"), layout.participants("1")],
            _ => layout.keys(self.activities[0]),
        }
    }

    /// Runs a call with one thing wrong at a time, and then as it is.
    fn step(&mut self, script: &'static str, args: &[&str]) {
        let script = script_of(script, args);
        // More arguments than those of one activity are of several.
        let keys = if script.ends_with("_file") && args.len() > 16 { self.keys_of_all() } else { self.keys_of(script) };
        let (args, state) = (words(args), self.saved());
        let fault = |place: &str, value: &str, args: Vec<Vec<u8>>| Fault {
            place: place.to_owned(),
            value: value.to_owned(),
            keys: keys.clone(),
            args,
            commands: Vec::new(),
        };
        let mut faults = vec![fault("as it is", "", args.clone())];
        let is_full = self.values.len() > FEW.len();
        if is_full {
            faults.push(Fault { keys: keys[1..].to_vec(), ..fault("keys", "without the first", args.clone()) });
            let more = [&keys[..], &["other".to_owned()]].concat();
            faults.push(Fault { keys: more, ..fault("keys", "one more", args.clone()) });
            let counts =
                (0..args.len()).map(|count| fault("so many arguments", &count.to_string(), args[..count].to_vec()));
            faults.extend(counts);
            faults.push(fault("so many arguments", "one more", [&args[..], &[Vec::new()]].concat()));
        }
        for at in 0..args.len() {
            let place = format!("ARGV[{}]", at + 1);
            let others = self.others(std::str::from_utf8(&args[at]).unwrap());
            for text in others {
                let mut args = args.clone();
                args[at] = text.as_bytes().to_vec();
                faults.push(fault(&place, &text, args));
            }
        }
        for (place, value, commands) in self.damages() {
            faults.push(Fault { commands, ..fault(&place, &value, args.clone()) });
        }
        let shown: Vec<String> = args.iter().map(|arg| arg.escape_ascii().to_string()).collect();
        self.table += &format!("\n## {script} {}\n", shown.join(" | "));
        let mut tried: HashMap<String, usize> = HashMap::new();
        faults.iter().for_each(|fault| *tried.entry(fault.place.clone()).or_default() += 1);
        let mut found: Vec<Group> = Vec::new();
        for faults in faults.chunks(AT_ONCE) {
            for (fault, (outcome, digest)) in faults.iter().zip(self.outcomes(script, &state, faults)) {
                let outcome = shortened(outcome, found.first());
                let at = found.iter().position(|group| group.outcome == outcome).unwrap_or(found.len());
                if at == found.len() {
                    found.push(Group { outcome, digest: 0, places: Vec::new() });
                }
                found[at].add(fault, &digest);
            }
        }
        found.iter().for_each(|group| self.table += &group.shown(&tried));
        let mut pipeline = redis::pipe();
        add_state(&mut pipeline, &state, &[]);
        pipeline.exec(&mut self.connection).unwrap();
        let args: Vec<&str> = args.iter().map(|arg| std::str::from_utf8(arg).unwrap()).collect();
        self.run(script, &keys, &args);
    }

    /// Runs a call, and tries nothing else.
    fn run(&mut self, script: &'static str, keys: &[String], args: &[&str]) {
        let mut command = redis::cmd("EVALSHA");
        command.arg(&self.hashes[script]).arg(keys.len()).arg(keys).arg(args);
        let reply: RedisResult<Value> = command.query(&mut self.connection);
        assert!(reply.is_ok(), "{script} {args:?}: {reply:?}");
    }

    /// What a text may be instead: of a JSON array of texts, one of them.
    fn others(&self, text: &str) -> Vec<String> {
        let mut found: Vec<String> = self.values.iter().map(|value| (*value).to_owned()).collect();
        if self.values.len() == FEW.len() {
            found.retain(|other| other != text);
            return found;
        }
        if let Ok(texts) = serde_json::from_str::<Vec<String>>(text) {
            for index in 0..texts.len() {
                for other in ["", "x", " 7", "7"] {
                    let mut texts = texts.clone();
                    texts[index] = other.to_owned();
                    found.push(serde_json::to_string(&texts).unwrap());
                }
            }
            found.extend(texts.split_first().map(|(_, rest)| serde_json::to_string(rest).unwrap()));
        }
        if is_number(text) {
            let number: u64 = text.parse().unwrap();
            found.extend([number.saturating_sub(1), number + 1].map(|number| number.to_string()));
        }
        found.retain(|other| other != text);
        let mut seen = HashSet::new();
        found.retain(|other| seen.insert(other.clone()));
        found
    }

    /// One thing of the activity that is not what it should be: where, what is there, and the commands that make it so.
    fn damages(&mut self) -> Vec<Damage> {
        let mut found = Vec::new();
        for (key, name) in self.layout.all_keys(self.activities[0]).iter().zip(self.names()) {
            let name = name.as_str();
            let kind: String = redis::cmd("TYPE").arg(key).query(&mut self.connection).unwrap();
            let delete = words(&["DEL", key]);
            found.push((name.to_owned(), "a list".to_owned(), vec![delete.clone(), words(&["RPUSH", key, "x"])]));
            if kind == "none" {
                let filled = match name {
                    "stock" => words(&["SET", key, "5"]),
                    "ledger" => words(&["XADD", key, "1-1", "op", "pause"]),
                    "deadlines" => words(&["ZADD", key, "1", "x"]),
                    "participants" if self.layout.kind != "hash" => words(&["SADD", key, "7"]),
                    _ => words(&["HSET", key, "7", "1"]),
                };
                found.push((name.to_owned(), "there".to_owned(), vec![filled]));
                continue;
            }
            found.push((name.to_owned(), "absent".to_owned(), vec![delete]));
            match &*kind {
                "string" => {
                    let text: String = redis::cmd("GET").arg(key).query(&mut self.connection).unwrap();
                    let others = self.others(&text).into_iter().filter(|_| name == "stock");
                    found.extend(
                        others.map(|other| (name.to_owned(), other.clone(), vec![words(&["SET", key, &other])])),
                    );
                }
                "stream" => {
                    found.push((name.to_owned(), "empty".to_owned(), vec![words(&["XTRIM", key, "MAXLEN", "0"])]))
                }
                // Meta is the same in all layouts.
                "hash" if name != "meta" || self.values.len() > FEW.len() => {
                    self.damages_of_hash(name, key, &mut found)
                }
                _ => {}
            }
        }
        found
    }

    fn damages_of_hash(&mut self, name: &str, key: &str, found: &mut Vec<Damage>) {
        let mut fields: Vec<(String, String)> = redis::cmd("HGETALL")
            .arg(key)
            .query::<HashMap<String, String>>(&mut self.connection)
            .unwrap()
            .into_iter()
            .collect();
        fields.sort();
        for (field, text) in fields.into_iter().take(8) {
            let place = format!("{name} {}", field.escape_default());
            let parts: Vec<&str> = text.split(' ').collect();
            for index in 0..parts.len() {
                for other in self.others(parts[index]) {
                    let mut parts = parts.clone();
                    parts[index] = &other;
                    let place = if parts.len() > 1 { format!("{place}, word {}", index + 1) } else { place.clone() };
                    found.push((place, other.clone(), vec![words(&["HSET", key, &field, &parts.join(" ")])]));
                }
            }
            found.push((place, "absent".to_owned(), vec![words(&["HDEL", key, &field])]));
        }
        for extra in if name == "meta" { &["withdrawn", "holds", "adopt", "shards", "plan"][..] } else { &[] } {
            for text in self.values.iter().copied() {
                found.push((format!("meta {extra}, new"), text.to_owned(), vec![words(&["HSETNX", key, extra, text])]));
            }
        }
    }

    /// Replies, with the keys that changed, and a digest of all data.
    fn outcomes(&mut self, script: &'static str, state: &Saved, faults: &[Fault]) -> Vec<(String, String)> {
        let all_keys = self.all_keys();
        let mut pipeline = redis::pipe();
        pipeline.ignore_errors();
        for fault in faults {
            add_state(&mut pipeline, state, &fault.commands);
            pipeline.cmd("EVAL").arg(DIGESTS).arg(all_keys.len()).arg(&all_keys);
            pipeline.cmd("EVALSHA").arg(&self.hashes[script]).arg(fault.keys.len()).arg(&fault.keys).arg(&fault.args);
            pipeline.cmd("EVAL").arg(DIGESTS).arg(all_keys.len()).arg(&all_keys);
        }
        let replies: Vec<RedisResult<Value>> = pipeline.query(&mut self.connection).unwrap();
        let names = self.names();
        let digests = |reply: &RedisResult<Value>| line(reply.as_ref().unwrap());
        let outcome = |replies: &[RedisResult<Value>]| {
            let reply = match &replies[1] {
                Ok(value) => line(value),
                // What the server itself says is its own.
                Err(error) if error.code() == Some("ERR") => "ERROR".to_owned(),
                Err(error) if error.detail().is_some_and(|detail| detail.contains(" script: ")) => "ERROR".to_owned(),
                Err(error) => {
                    format!("ERROR {} {}", error.code().unwrap_or_default(), error.detail().unwrap_or_default())
                }
            };
            let (before, after) = (digests(&replies[0]), digests(&replies[2]));
            let changed: Vec<&str> = names
                .iter()
                .zip(before.split(' ').zip(after.split(' ')))
                .filter(|(_, (before, after))| before != after)
                .map(|(name, _)| name.as_str())
                .collect();
            let effect = if changed.is_empty() { String::new() } else { format!(" => {}", changed.join(" ")) };
            (format!("{}{effect}", reply.escape_default()), format!("{reply} {after}"))
        };
        replies.chunks(3).map(outcome).collect()
    }

    /// What `all_keys` are, in short.
    fn names(&self) -> Vec<String> {
        let of_hash = ["stock", "meta", "requests", "ledger", "participants"];
        let mut names: Vec<&str> = of_hash[..self.layout.key_count().min(5)].to_vec();
        names.extend((self.layout.key_count() > 5).then_some("units"));
        names.extend(self.layout.has_users().then_some("deadlines"));
        let of = |index: usize| if index == 0 { String::new() } else { (index + 1).to_string() };
        (0..self.activities.len())
            .flat_map(|index| names.iter().map(move |name| format!("{name}{}", of(index))))
            .collect()
    }

    fn all_keys(&self) -> Vec<String> {
        self.activities.iter().flat_map(|activity| self.layout.all_keys(activity)).collect()
    }

    fn saved(&mut self) -> Saved {
        let keys = self.all_keys();
        let dump = |key: String| (key.clone(), redis::cmd("DUMP").arg(key).query(&mut self.connection).unwrap());
        keys.into_iter().map(dump).collect()
    }

    /// Compares the table with the stored one.
    #[track_caller]
    fn is_as_stored(&self, name: &str) {
        let path =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/statuses/one_wrong").join(format!("{name}.txt"));
        Assert::new().action_env("SNAPSHOTS").eq(self.table.trim_start(), Data::read_from(&path, None).raw());
    }
}

/// Of what is corrupt, and of what writes otherwise than the call as it is, the digest of a group says enough.
fn shortened(outcome: String, as_it_is: Option<&Group>) -> String {
    if outcome.starts_with("-11 nil nil ") && !outcome.contains(" => ") {
        return outcome.split(' ').take(4).chain(["…"]).collect::<Vec<_>>().join(" ");
    }
    match outcome.split_once(" => ") {
        Some((_, effect)) if as_it_is.is_some_and(|group| group.outcome != outcome) => format!("… => {effect}"),
        _ => outcome,
    }
}

/// What some calls replied, and which keys they changed.
struct Group {
    outcome: String,
    /// Of all their data afterwards.
    digest: u32,
    /// With what was there.
    places: Vec<(String, Vec<String>)>,
}

impl Group {
    fn add(&mut self, fault: &Fault, digest: &str) {
        // FNV-1a.
        self.digest = digest.bytes().fold(self.digest, |sum, byte| (sum ^ u32::from(byte)).wrapping_mul(16_777_619));
        match self.places.last_mut() {
            Some((place, values)) if *place == fault.place => values.push(fault.value.clone()),
            _ => self.places.push((fault.place.clone(), vec![fault.value.clone()])),
        }
    }

    /// Values are left out if all of a place have this outcome.
    fn shown(&self, tried: &HashMap<String, usize>) -> String {
        let is_changed = self.outcome.contains(" => ") || self.outcome.contains('…');
        let mut text = self.outcome.clone();
        if is_changed {
            text += &format!(" ({:08x})", self.digest);
        }
        let mut width = usize::MAX;
        for (place, values) in &self.places {
            let mut part = place.clone();
            if values.len() < tried[place] {
                let values: Vec<String> = values.iter().map(|value| format!("`{}`", value.escape_default())).collect();
                part += &format!(": {}", values.join(" "));
            }
            if width.saturating_add(part.len()) > 130 {
                text += "\n   ";
                width = 3;
            }
            text += &format!(" {part};");
            width += part.len() + 2;
        }
        text + "\n"
    }
}

/// Makes the data what it was, and changes it then.
fn add_state(pipeline: &mut redis::Pipeline, saved: &Saved, commands: &[Command]) {
    for (key, bytes) in saved {
        pipeline.cmd("DEL").arg(key).ignore();
        if let Some(bytes) = bytes {
            pipeline.cmd("RESTORE").arg(key).arg(0).arg(&bytes[..]).ignore();
        }
    }
    for command in commands {
        pipeline.add_command(redis::Cmd::new().arg(command).clone()).ignore();
    }
}

/// The SHA-1 of each of `KEYS`, and of all, joined by spaces.
const DIGESTS: &str = "
    local digests = {}
    for index, key in ipairs(KEYS) do
        local kind, found = redis.call('TYPE', key).ok, {}
        if kind == 'string' then found = {redis.call('GET', key)}
        elseif kind == 'list' then found = redis.call('LRANGE', key, 0, -1)
        elseif kind == 'zset' then found = redis.call('ZRANGE', key, 0, -1, 'WITHSCORES')
        elseif kind == 'stream' then
            for _, entry in ipairs(redis.call('XRANGE', key, '-', '+')) do found[#found + 1] = entry[1] .. table.concat(entry[2], '\\n') end
        elseif kind == 'set' then found = redis.call('SMEMBERS', key) table.sort(found)
        elseif kind == 'hash' then
            local flat = redis.call('HGETALL', key)
            for i = 1, #flat, 2 do found[#found + 1] = flat[i] .. '\\t' .. flat[i + 1] end
            table.sort(found)
        end
        digests[index] = redis.sha1hex(kind .. table.concat(found, '\\n'))
    end
    digests[#digests + 1] = redis.sha1hex(table.concat(digests))
    return table.concat(digests, ' ')";
