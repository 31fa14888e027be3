//! Calls one after the other, with what each replies and which keys it writes, in every layout: the files in `../transcripts/`.
//!
//! A file begins with its layouts. A line that begins with `##` begins with empty keys. Any other is one of
//!
//! - a call, `deduct@2 $ me 7 1 r1`: script, activities (`1` if none is given), arguments. `$` is the kind, `$limit` what rules say of one
//!   order a user, `$units` 2, of a coupon 1; `cut 2` before it ends the call in place of what it writes behind two writes, and with
//!   `without HDEL` before it the caller may not run that command;
//! - `sale@2 10 limit=2`, a `preheat` with that total; a layout that records a user once has a limit of 1;
//! - a command of another client, `SET stock@2 5`, where a key is its name and its activity;
//! - `show ledger`, which writes down what a key has, and when it expires;
//! - `wait 500`, of milliseconds.
//!
//! `hash set: ` before a line runs it for these kinds only; `"two words"` is one argument, `\t` a tab, and `{3}` a column of three
//! numbers, `1\t2\t3`. What is replied is below the line; `SNAPSHOTS=overwrite cargo test -p sim transcripts` writes it anew. The
//! clock begins with 1000 ms.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use super::super::transcript::{Player, is_as_stored, words};
use super::{
    CLUSTER, COUPON, Data, Keys, Layout, PRODUCT, Reply, Right, SECKILL, SKU, StreamId, Trial, digest_of, line, shown,
};

const NAMES: [&str; 7] = ["stock", "meta", "requests", "ledger", "participants", "units", "deadlines"];

/// A file with one layout, as it runs.
struct Run {
    trial: Trial,
    /// The short names of keys.
    names: BTreeMap<String, String>,
}

impl Run {
    fn of(layout: Layout) -> Self {
        Self { trial: Trial::of(layout, &["1"], &[]), names: BTreeMap::new() }
    }

    /// What a line gives.
    fn given(&mut self, text: &str) -> String {
        let mut words = self.words(text);
        let first = words.remove(0);
        match first.as_str() {
            "##" => {
                self.trial.reset(1_000_000);
                String::new()
            }
            "wait" => {
                self.trial.engine.server.borrow_mut().us += words[0].parse::<u64>().unwrap() * 1000;
                String::new()
            }
            "show" => self.shown(&words[0]),
            "cut" => {
                let script = words.remove(1);
                self.call(&script, &words[1..], words[0].parse().ok())
            }
            "without" => {
                let script = words.remove(1);
                self.trial.engine.server.borrow_mut().denied = Some(Right { command: words.remove(0), key: None });
                let said = self.call(&script, &words, None);
                self.trial.engine.server.borrow_mut().denied = None;
                said
            }
            name if name.starts_with("sale") => {
                let args = self.sale(&words);
                let reply = self.call(&name.replace("sale", "preheat"), &args, None);
                assert!(reply.starts_with("1 create "), "{text}: {reply}");
                String::new()
            }
            name if name.starts_with(|letter: char| letter.is_ascii_uppercase()) => {
                let command: Vec<Vec<u8>> = [first.clone()]
                    .into_iter()
                    .chain(words.into_iter().map(|word| self.key(&word).unwrap_or(word)))
                    .map(String::into_bytes)
                    .collect();
                self.trial.change(&command);
                String::new()
            }
            script => self.call(script, &words, None),
        }
    }

    /// The words of a line, without quotes.
    fn words(&self, text: &str) -> Vec<String> {
        let kind = self.trial.layout.kind;
        let limit = if self.trial.layout.records_once() { "1" } else { "-" };
        let units = if kind == "coupon" { "1" } else { "2" };
        let column = |word: &str| {
            let count: u32 = word.strip_prefix('{')?.strip_suffix('}')?.parse().ok()?;
            Some((1..=count).map(|number| number.to_string()).collect::<Vec<_>>().join("\t"))
        };
        let meant = |word: &String| match word.as_str() {
            "$" => kind.to_owned(),
            word if word.starts_with('{') => column(word).unwrap_or_else(|| word.to_owned()),
            word => word.replace("\\t", "\t").replace("$limit", limit).replace("$units", units),
        };
        words(text).iter().map(meant).collect()
    }

    /// The key that a short name means.
    fn key(&self, name: &str) -> Option<String> {
        let (part, activity) = name.split_once('@').unwrap_or((name, "1"));
        let layout = self.trial.layout;
        let number = match part {
            "deadlines" => return layout.has_users().then(|| layout.all_keys(activity).pop())?,
            part => NAMES.iter().position(|known| *known == part)?,
        };
        layout.keys(activity).get(number).cloned()
    }

    /// Arguments of a preheat: a total and what is not usual.
    fn sale(&self, words: &[String]) -> Vec<String> {
        let given = |name: &str| {
            let found = words.iter().find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
            found.map(|text| format!("={text}")).unwrap_or_default()
        };
        let limit = if self.trial.layout.records_once() { "=1".to_owned() } else { given("limit") };
        let head = [self.trial.layout.kind, "me", "", "create", "0", &words[0], &limit].map(str::to_owned);
        head.into_iter().chain(["title", "starts_at", "ends_at", "ledger"].map(given)).collect()
    }

    fn call(&mut self, called: &str, args: &[String], cut: Option<u32>) -> String {
        let (script, activities) = called.split_once('@').unwrap_or((called, "1"));
        let activities: Vec<&str> = activities.split(',').collect();
        let layout = self.trial.layout;
        for activity in &activities {
            let keys = NAMES.iter().filter_map(|part| Some((self.key(&format!("{part}@{activity}"))?, *part)));
            let suffix = if *activity == "1" { String::new() } else { format!("@{activity}") };
            let names: Vec<_> = keys.map(|(key, part)| (key, format!("{part}{suffix}"))).collect();
            self.names.extend(names);
        }
        let keys = activities.iter().flat_map(|activity| layout.keys_of(script, activity)).map(String::into_bytes);
        let keys: Vec<Vec<u8>> = keys.collect();
        let args: Vec<Vec<u8>> = args.iter().map(|arg| arg.clone().into_bytes()).collect();
        let before = self.trial.engine.server.borrow().keys.clone();
        self.trial.engine.server.borrow_mut().cut_after = cut;
        let reply = self.trial.answer(script, &keys, &args);
        self.trial.engine.server.borrow_mut().cut_after = None;
        let said = match reply {
            None => "cut".to_owned(),
            Some(Reply::Error(text)) if text.starts_with("ERR ") || text.starts_with("WRONGTYPE ") => {
                "ERROR".to_owned()
            }
            Some(Reply::Error(text)) => format!("ERROR {text}"),
            Some(reply) => line(&reply),
        };
        let changed = self.changed(&before);
        if changed.is_empty() { said } else { format!("{said} => {}", Vec::from_iter(changed).join(" ")) }
    }

    /// The short names of keys that are not as they were.
    fn changed(&self, before: &Keys) -> BTreeSet<&str> {
        let server = self.trial.engine.server.borrow();
        let is_changed = |key: &str| {
            let of = |keys: &Keys| digest_of(keys, key.as_bytes());
            of(before) != of(&server.keys)
        };
        self.names.iter().filter(|(key, _)| is_changed(key)).map(|(_, name)| name.as_str()).collect()
    }

    fn shown(&self, name: &str) -> String {
        let Some(key) = self.key(name) else { return "none".to_owned() };
        let pair = |(one, other): (&Vec<u8>, &Vec<u8>)| format!("{}: {}", shown(one), shown(other));
        let server = self.trial.engine.server.borrow();
        let mut found: Vec<String> = match server.keys.0.get(key.as_bytes()) {
            None => vec!["none".to_owned()],
            Some(Data::Text(text)) => vec![shown(text)],
            Some(Data::List) => vec!["a list".to_owned()],
            Some(Data::Sorted(members)) => {
                members.iter().map(|(member, score)| format!("{score}: {}", shown(member))).collect()
            }
            Some(Data::Set(members)) => members.iter().map(|member| shown(member)).collect(),
            Some(Data::Hash(fields)) => fields.iter().map(pair).collect(),
            Some(Data::Stream(stream)) => {
                let entry = |((ms, number), fields): (StreamId, &Vec<Vec<u8>>)| {
                    let fields: Vec<String> = fields.iter().map(|text| shown(text)).collect();
                    format!("{ms}-{number} {}", fields.join(" "))
                };
                stream.entries.iter().map(|(id, fields)| entry((*id, fields))).collect()
            }
        };
        found.extend(server.keys.1.get(key.as_bytes()).map(|at| format!("expires at {at}")));
        found.join("\n")
    }
}

impl Player for Run {
    fn kind(&self) -> &'static str {
        self.trial.layout.kind
    }

    fn label(&self) -> &'static str {
        self.trial.layout.kind
    }

    fn play(&mut self, line: &str, _: &str) -> String {
        let escaped = |line: &str| line.escape_debug().to_string().replace("\\\"", "\"").replace("\\'", "'");
        self.given(line).split('\n').map(escaped).collect::<Vec<_>>().join("\n")
    }
}

#[test]
fn transcripts_are_as_stored() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("transcripts");
    let mut found: Vec<_> = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    found.sort();
    assert!(found.len() > 5, "{found:?}");
    let known = [SECKILL, SKU, COUPON, PRODUCT, CLUSTER];
    for path in found {
        is_as_stored(&path, |name| known.into_iter().find(|layout| layout.name == name).map(Run::of));
    }
}
