//! Commands one after the other, with what each prints, how it ends and which keys it changes, in every layout: the files in `sessions/`.
//!
//! A file begins with its layouts. A line that begins with `##` begins with an empty server. Any other is one of
//!
//! - `$ deduct 1 --user 7`, a command, with its standard input in lines that begin with `| `; it prints JSON lines unless it says otherwise;
//! - `~ REDIS_URL=h:1 context list`, the same without a server in its environment, but with that and the contexts of this part;
//! - `+ preheat --id 1 --stock 5`, a command that succeeds; what it gives is not written down;
//! - `file orders.csv`, with its lines as above;
//! - `! SET stock@2 5`, a command of another client, where a key is its name and its activity (`1` if none is given);
//! - `? meta`, which writes down what a key has.
//!
//! `hash set: ` before a line runs it for these kinds only; `"two words"` is one argument, `$limit` what rules say of one order a user, and
//! `$url` the server.
//! What comes of a line is below it; `SNAPSHOTS=overwrite cargo test --test it sessions` writes it anew. Times, ids of entries and of
//! repairs are left out of that.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use redis::Value;
use tempfile::TempDir;

use crate::support::scripts::line as shown;
use crate::support::transcript::{self, Player, words};
use crate::support::{Call, LAYOUTS, Layout, TestRedis, root, seckill, write_now};

const NAMES: [&str; 6] = ["stock", "meta", "requests", "ledger", "participants", "units"];

/// A file in one layout, as it runs.
struct Session {
    layout: Layout,
    redis: TestRedis,
    dir: TempDir,
}

impl Session {
    fn of(layout: Layout) -> Self {
        Self { layout, redis: TestRedis::start(), dir: tempfile::tempdir().unwrap() }
    }

    fn on_server(&self, line: &str) -> Call {
        let layout = if line.contains("-l ") { &[][..] } else { &["-l", self.layout.name] };
        self.redis.seckill([]).args(layout).args(self.words(line))
    }

    fn without_server(&self, line: &str) -> Call {
        let call = seckill([]).without_env("SECKILL_URL").env("XDG_CONFIG_HOME", self.dir.path().to_str().unwrap());
        let words = self.words(line);
        let is_variable = |word: &&String| word.contains('=') && word.starts_with(|letter: char| letter.is_uppercase());
        let (variables, args) = words.split_at(words.iter().take_while(is_variable).count());
        let variables = variables.iter().map(|word| word.split_once('=').unwrap());
        variables.fold(call.args(args), |call, (name, value)| call.env(name, value))
    }

    fn run(&self, call: Call, line: &str, input: &str) -> String {
        let before = self.redis.dump_all();
        let format = if line.contains(" -o ") { &[][..] } else { &["-o", "jsonl"] };
        let ended = call.args(format).stdin(input).in_dir(self.dir.path()).run();
        let (names, after) = (self.names(line), self.redis.dump_all());
        let changed = before.changed_keys(&after).into_iter();
        let changed: BTreeSet<&str> = changed.map(|key| names.get(key).map_or(key, String::as_str)).collect();
        let mut text = format!("exit {}", ended.status.code().unwrap());
        if !changed.is_empty() {
            text += &format!(" => {}", changed.into_iter().collect::<Vec<_>>().join(" "));
        }
        let printed = format!("{}{}", ended.stdout, ended.stderr);
        let mut printed = printed.replace(&self.redis.url(), "URL").replace(self.dir.path().to_str().unwrap(), "DIR");
        for (key, name) in names.iter().rev() {
            printed = printed.replace(&format!("`{key}`"), &format!("`{name}`"));
        }
        for flag in ["-l", "--layout"] {
            printed = printed.replace(&format!("{flag} {}", self.layout.name), &format!("{flag} LAYOUT"));
        }
        printed = printed.replace(&format!("(layout {})", self.layout.name), "(layout LAYOUT)");
        let is_kept = |line: &&str| *line != "note: on URL (layout LAYOUT)" && !line.trim_matches('─').is_empty();
        printed.lines().filter(is_kept).for_each(|line| text += &format!("\n{}", masked(line)));
        text
    }

    /// The words of a line, without quotes.
    fn words(&self, text: &str) -> Vec<String> {
        let limit = if self.layout.records_once() { "1" } else { "-" };
        let unescaped = |word: &String| word.replace("\\\\", "\0").replace("\\t", "\t").replace('\0', "\\");
        words(text)
            .iter()
            .map(unescaped)
            .map(|word| word.replace("$limit", limit).replace("$url", &self.redis.url()))
            .collect()
    }

    /// The key that a short name means.
    fn key(&self, name: &str) -> Option<String> {
        let (part, activity) = name.split_once('@').unwrap_or((name, "1"));
        match part {
            "deadlines" => Some(self.layout.deadlines(activity)),
            "index" => Some(self.layout.index.to_owned()),
            part => self.layout.keys(activity).get(NAMES.iter().position(|known| *known == part)?).cloned(),
        }
    }

    /// The short names of keys of the activities of a line.
    fn names(&self, line: &str) -> BTreeMap<String, String> {
        let ids = line.split(|letter: char| !letter.is_ascii_alphanumeric()).chain(["1", "2"]);
        let of = |id: &str| {
            let suffix = if id == "1" { String::new() } else { format!("@{id}") };
            let named = |name: &str| Some((self.key(&format!("{name}@{id}"))?, format!("{name}{suffix}")));
            NAMES.into_iter().chain(["deadlines"]).filter_map(named).collect::<Vec<_>>()
        };
        ids.filter(|id| !id.is_empty())
            .flat_map(of)
            .chain([(self.layout.index.to_owned(), "index".to_owned())])
            .collect()
    }

    fn content(&self, name: &str) -> String {
        let Some(key) = self.key(name) else { return "none".to_owned() };
        let pairs = |flat: Vec<String>| flat.chunks(2).map(|pair| pair.join(": ")).collect::<BTreeSet<_>>();
        let found: Vec<String> = match self.redis.ask::<String>(("TYPE", &key)).as_str() {
            "none" => vec!["none".to_owned()],
            "string" => vec![self.redis.ask(("GET", &key))],
            "hash" => pairs(self.redis.ask(("HGETALL", &key))).into_iter().collect(),
            "set" => self.redis.smembers(&key).into_iter().collect(),
            "stream" => {
                let entries: Vec<Value> = self.redis.ask(("XRANGE", &key, "-", "+"));
                entries.iter().map(shown).collect()
            }
            other => vec![format!("a {other}")],
        };
        found.iter().map(|line| masked(line)).collect::<Vec<_>>().join("\n")
    }
}

impl Player for Session {
    fn kind(&self) -> &'static str {
        self.layout.kind
    }

    fn label(&self) -> &'static str {
        self.layout.name
    }

    fn play(&mut self, line: &str, input: &str) -> String {
        let (sign, rest) = line.split_once(' ').unwrap();
        let given = match sign {
            "##" => {
                self.redis.cmd("FLUSHALL");
                drop(fs::remove_dir_all(self.dir.path().join("seckill")));
                String::new()
            }
            "$" => self.run(self.on_server(rest), rest, input),
            "~" => self.run(self.without_server(rest), rest, input),
            "+" => {
                self.redis.seckill(["-q", "-l", self.layout.name]).args(self.words(rest)).stdin(input).code(0);
                String::new()
            }
            "!" => {
                let command = self.words(rest).into_iter().map(|word| self.key(&word).unwrap_or(word));
                self.redis.cmd(command.collect::<Vec<_>>());
                String::new()
            }
            "?" => self.content(rest),
            "file" => {
                write_now(&self.dir.path().join(rest), input);
                String::new()
            }
            _ => panic!("a line that is nothing: {line}"),
        };
        given.replace('\t', "\\t")
    }
}

/// A text without what is another at each run: ids of entries, of repairs and of requests, and times of now.
fn masked(text: &str) -> String {
    let is_part = |letter: char| letter.is_ascii_alphanumeric() || "-:.+".contains(letter);
    let mut found = String::new();
    let mut rest = text;
    while let Some(letter) = rest.chars().next() {
        let length = rest.find(|letter| !is_part(letter)).unwrap_or(rest.len());
        if length == 0 {
            found.push(letter);
            rest = &rest[letter.len_utf8()..];
            continue;
        }
        let (word, after) = rest.split_at(length);
        let digits = word.bytes().take_while(u8::is_ascii_digit).count();
        let is_now = digits == 13 && ("17".."19").contains(&&word[..2]);
        // A rush numbers its orders behind it.
        let is_uuid = (36..40).contains(&word.len()) && word[..36].matches('-').count() == 4;
        found += match word {
            _ if is_now && word[digits..].starts_with('-') => "ENTRY",
            _ if is_now && word.len() == digits => "MS",
            _ if is_uuid => "UUID",
            _ if word.starts_with("u:") && word.len() == "u::".len() + 32 => "u:UUID:",
            _ if word.starts_with("repair:") && word.len() > 20 => "repair:ID",
            _ if word.contains('T') && word.get(..4).is_some_and(|year| ("2026".."2100").contains(&year)) => "TIME",
            word => word,
        };
        rest = after;
    }
    found
}

#[track_caller]
fn is_as_stored(name: &str) {
    let path = root().join("tests/it/sessions").join(format!("{name}.txt"));
    transcript::is_as_stored(&path, |name| LAYOUTS.into_iter().find(|layout| layout.name == name).map(Session::of));
}

/// A test for each file.
macro_rules! sessions {
    ($($name:ident)*) => {
        $(#[test] fn $name() { is_as_stored(stringify!($name)) })*
        const ALL: &[&str] = &[$(stringify!($name)),*];
    };
}

sessions! {
    backends contexts files formats holds inspect keys layouts ledger orders pause preheat reconcile run selection shards times why
}

#[test]
fn every_file_is_a_test() {
    let files = fs::read_dir(root().join("tests/it/sessions")).unwrap();
    let found: BTreeSet<String> =
        files.map(|file| file.unwrap().path().file_stem().unwrap().to_str().unwrap().to_owned()).collect();
    assert_eq!(found, ALL.iter().map(|name| (*name).to_owned()).collect());
}
