//! What scripts reply, and which keys they write, if one thing is wrong: an argument, a stored value or a key. Each step of a sale
//! is tried with each of these in turn, and then runs as it is.
//!
//! The tables are in `one_wrong/`. `SNAPSHOTS=overwrite cargo test -p sim one_wrong` writes them anew; read the difference before it
//! is committed: a reply that changed is a contract that changed. `transcripts.rs` has calls one after the other, as they are.

mod scenarios;
mod transcripts;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;

use seckill::internals::{DROP_INS, Script};
use snapbox::{Assert, Data as Snapshot};

use super::calls::Activity;
use super::keys::{Bytes, Context, Data, Keys, Reply, StreamId, is_write};
use super::script::{Engine, Right, Rights, asks_at_one_key, sha1_hex};
use super::search::given;
use super::transcript::script_of;

/// A layout, as the tables name it.
#[derive(Clone, Copy, PartialEq)]
struct Layout {
    name: &'static str,
    /// What the scripts call the way in which it records who bought.
    kind: &'static str,
    layout: seckill::Layout,
}

const SECKILL: Layout = Layout { name: "seckill", kind: "hash", layout: seckill::Layout::Seckill };
const SKU: Layout = Layout { name: "sku", kind: "set", layout: seckill::Layout::Sku };
const COUPON: Layout = Layout { name: "coupon", kind: "coupon", layout: seckill::Layout::Coupon };
const PRODUCT: Layout = Layout { name: "product", kind: "counter", layout: seckill::Layout::Product };
const CLUSTER: Layout = Layout { name: "cluster", kind: "hash", layout: seckill::Layout::Cluster };

impl Layout {
    fn keys(self, activity: &str) -> Vec<String> {
        Activity::new(activity, self.layout).keys.in_order().map(str::to_owned).collect()
    }

    /// The same with the key that only scripts which know holds take.
    fn all_keys(self, activity: &str) -> Vec<String> {
        Activity::new(activity, self.layout).keys.all().map(str::to_owned).collect()
    }

    /// `KEYS[number]`, counted from 1 as in Lua.
    fn key(self, number: usize, activity: &str) -> String {
        self.keys(activity).swap_remove(number - 1)
    }

    fn key_count(self) -> usize {
        self.keys("1").len()
    }

    /// The keys of a script of one activity.
    fn keys_of(self, script: &str, activity: &str) -> Vec<String> {
        match script {
            "hold" | "hold_file" | "settle" | "settle_file" | "preheat" | "archive" | "parent" | "preheat_shard" => {
                self.all_keys(activity)
            }
            "lend" | "borrow" | "peek" => self.keys(activity)[..4].to_vec(),
            _ => self.keys(activity),
        }
    }

    fn has_users(self) -> bool {
        self.kind != "counter"
    }

    /// Whether a user can order once only.
    fn records_once(self) -> bool {
        matches!(self.kind, "set" | "coupon")
    }
}

/// What a number or a word may be instead; a number may be one less and one more, too.
const VALUES: [&str; 8] = ["", "0", "1", "007", "-1", "x", "9007199254740991", "9007199254740992"];
/// The same where all of them would be too many.
const FEW: [&str; 1] = ["2"];
/// How long ids of requests and users may be, and one more.
const LENGTHS: [usize; 4] = [128, 129, 256, 257];
/// The server's clock, which does not advance, in microseconds.
const CLOCK: u64 = 1_795_355_857_669_123;

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
    /// What the caller may not run.
    denied: Option<Right>,
}

/// An activity, and the table of what was tried on it.
struct Trial {
    layout: Layout,
    activities: &'static [&'static str],
    engine: Engine,
    values: &'static [&'static str],
    table: String,
}

fn words(words: &[&str]) -> Command {
    words.iter().map(|word| word.as_bytes().to_vec()).collect()
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.len() < 16 && text.bytes().all(|byte| byte.is_ascii_digit())
}

impl Trial {
    fn of(layout: Layout, activities: &'static [&'static str], values: &'static [&'static str]) -> Self {
        let trial =
            Self { layout, activities, engine: Engine::new(|_, text| given(text)), values, table: String::new() };
        trial.reset(CLOCK);
        trial
    }

    /// Forgets all keys. The clock is `us` from now on.
    fn reset(&self, us: u64) {
        self.engine.reset();
        let mut server = self.engine.server.borrow_mut();
        (server.us, server.rights) = (us, Some(Rights::default()));
    }

    /// Runs a script, which looks for each right before it writes. `None` if it was cut.
    fn answer(&self, script: &str, keys: &[Bytes], args: &[Bytes]) -> Option<Reply> {
        let reply = self.engine.run(self.script(script).sha1, keys, args);
        let server = self.engine.server.borrow();
        let unasked = &server.rights.as_ref().expect("they are recorded").unasked;
        assert!(unasked.is_empty(), "{script} {args:?} writes before it asks for {unasked:?}");
        reply
    }

    /// A command of another client.
    fn send(&self, command: &[&str]) {
        self.change(&words(command));
    }

    fn change(&self, command: &Command) {
        let server = &mut *self.engine.server.borrow_mut();
        let context = server.context();
        change(&mut server.keys, command, context);
    }

    /// A script, or a drop-in.
    fn script(&self, script: &str) -> &'static Script {
        let name = script.strip_prefix("drop-in/").unwrap_or(script);
        let (all, drop_ins) = (Script::all(self.layout.layout.kind()), DROP_INS.iter().collect::<Vec<_>>());
        let known = if name == script { &all[..] } else { &drop_ins[..] };
        known.iter().find(|it| it.name == name).expect("there is such a script")
    }

    fn call(&self, script: &str, keys: &[String], args: &[Bytes]) -> Reply {
        let keys: Vec<Bytes> = keys.iter().map(|key| key.clone().into()).collect();
        self.answer(script, &keys, args).expect("it is not cut")
    }

    fn keys_of_all(&self) -> Vec<String> {
        self.activities.iter().flat_map(|activity| self.layout.keys(activity)).collect()
    }

    fn keys_of(&self, script: &str) -> Vec<String> {
        let layout = self.layout;
        match script {
            "multi_deduct" | "multi_deduct_file" => self.keys_of_all(),
            "drop-in/product" => vec![layout.key(1, "1")],
            "drop-in/sku-multi" => ["1", "2"].map(|activity| layout.key(1, activity)).to_vec(),
            "drop-in/hm-dianping" => [1, 5, 4].map(|number| layout.key(number, "1")).to_vec(),
            _ if script.starts_with("drop-in/") => vec![layout.key(1, "1"), layout.key(5, "1")],
            _ => layout.keys_of(script, self.activities[0]),
        }
    }

    /// Runs a call with one thing wrong at a time, and then as it is.
    fn step(&mut self, script: &'static str, args: &[&str]) {
        let script = script_of(script, args);
        // More arguments than those of one activity are of several.
        let keys = if script.ends_with("_file") && args.len() > 16 { self.keys_of_all() } else { self.keys_of(script) };
        let (args, state) = (words(args), self.engine.server.borrow().keys.clone());
        let fault = |place: &str, value: &str, args: Vec<Vec<u8>>| Fault {
            place: place.to_owned(),
            value: value.to_owned(),
            keys: keys.clone(),
            args,
            commands: Vec::new(),
            denied: None,
        };
        let mut faults = vec![fault("as it is", "", args.clone())];
        let is_full = self.values.len() > FEW.len();
        if is_full {
            faults.push(Fault { keys: keys[1..].to_vec(), ..fault("keys", "without the first", args.clone()) });
            let more = [&keys[..], &["other".to_owned()]].concat();
            faults.push(Fault { keys: more, ..fault("keys", "one more", args.clone()) });
            let counts =
                (0..args.len()).map(|count| fault("number of arguments", &count.to_string(), args[..count].to_vec()));
            faults.extend(counts);
            faults.push(fault("number of arguments", "one more", [&args[..], &[Vec::new()]].concat()));
            for command in commands_of(self.script(script).text) {
                let denied = Some(Right { command: command.to_owned(), key: None });
                faults.push(Fault { denied, ..fault("rights, all but", command, args.clone()) });
            }
        }
        for (name, right) in self.rights_to_write(script, &keys, &args) {
            faults.push(Fault { denied: Some(right), ..fault("rights, all but", &name, args.clone()) });
        }
        self.engine.server.borrow_mut().keys = state.clone();
        for at in 0..args.len() {
            let place = format!("ARGV[{}]", at + 1);
            let others = self.others(std::str::from_utf8(&args[at]).unwrap());
            for text in others {
                let mut args = args.clone();
                args[at] = text.as_bytes().to_vec();
                faults.push(fault(&place, &text, args));
            }
            // Of a column, the first text.
            for length in LENGTHS.into_iter().filter(|_| is_full) {
                let mut args = args.clone();
                let first = args[at].split(|byte| *byte == b'\t').next().map_or(0, <[u8]>::len);
                args[at].splice(..first, vec![b'u'; length]);
                faults.push(fault(&place, &format!("{length} letters"), args));
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
        for fault in &faults {
            let (outcome, digest) = self.outcome(script, &state, fault);
            let outcome = shortened(outcome, found.first());
            let at = found.iter().position(|group| group.outcome == outcome).unwrap_or(found.len());
            if at == found.len() {
                found.push(Group { outcome, digest: 0, places: Vec::new() });
            }
            found[at].add(fault, &digest);
        }
        found.iter().for_each(|group| self.table += &group.shown(&tried));
        self.engine.server.borrow_mut().keys = state;
        let args: Vec<&str> = args.iter().map(|arg| std::str::from_utf8(arg).unwrap()).collect();
        self.run(script, &keys, &args);
    }

    /// What a call writes, or asks whether it may: commands, each with its key. Activities of a file that are decided one after the other
    /// are refused one by one.
    fn rights_to_write(&self, script: &'static str, keys: &[String], args: &[Bytes]) -> Vec<(String, Right)> {
        self.call(script, keys, args);
        let server = self.engine.server.borrow();
        let known = server.rights.iter().flat_map(|rights| &rights.known);
        let writes = known.filter(|right| is_write(&right.command) && !asks_at_one_key(script, &right.command));
        let is_refused_as_a_whole = !script.ends_with("_file") || script == "multi_deduct_file";
        let names = if is_refused_as_a_whole { self.names() } else { self.names_of_one() };
        let places: HashMap<String, String> = self.all_keys().into_iter().zip(names).collect();
        let place = |right: &Right| places.get(&shown(right.key.as_ref()?)).cloned();
        writes.filter_map(|right| Some((format!("{} {}", right.command, place(right)?), right.clone()))).collect()
    }

    /// Runs a call, and tries nothing else.
    fn run(&self, script: &'static str, keys: &[String], args: &[&str]) {
        let reply = self.call(script, keys, &words(args));
        assert!(!matches!(reply, Reply::Error(_)), "{script} {args:?}: {reply:?}");
    }

    /// What a text may be instead: of a column of texts, one of them.
    fn others(&self, text: &str) -> Vec<String> {
        let mut found: Vec<String> = self.values.iter().map(|value| (*value).to_owned()).collect();
        if self.values.len() == FEW.len() {
            found.retain(|other| other != text);
            return found;
        }
        let texts: Vec<&str> = text.split('\t').collect();
        if texts.len() > 1 {
            for index in 0..texts.len() {
                for other in ["", "x", " 7", "7"] {
                    let mut texts = texts.clone();
                    texts[index] = other;
                    found.push(texts.join("\t"));
                }
            }
            found.push(texts[1..].join("\t"));
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
    fn damages(&self) -> Vec<Damage> {
        let mut found = Vec::new();
        let server = self.engine.server.borrow();
        for (key, name) in self.layout.all_keys(self.activities[0]).iter().zip(self.names()) {
            let name = name.as_str();
            let delete = words(&["DEL", key]);
            found.push((name.to_owned(), "a list".to_owned(), vec![delete.clone(), words(&["RPUSH", key, "x"])]));
            let Some(data) = server.keys.0.get(key.as_bytes()) else {
                let filled = match name {
                    "stock" => words(&["SET", key, "5"]),
                    "ledger" => words(&["XADD", key, "1-1", "op", "pause"]),
                    "deadlines" => words(&["ZADD", key, "1", "x"]),
                    "participants" if self.layout.kind != "hash" => words(&["SADD", key, "7"]),
                    _ => words(&["HSET", key, "7", "1"]),
                };
                found.push((name.to_owned(), "there".to_owned(), vec![filled]));
                continue;
            };
            found.push((name.to_owned(), "absent".to_owned(), vec![delete]));
            match data {
                Data::Text(text) => {
                    let others = self.others(&shown(text)).into_iter().filter(|_| name == "stock");
                    found.extend(
                        others.map(|other| (name.to_owned(), other.clone(), vec![words(&["SET", key, &other])])),
                    );
                }
                Data::Stream(_) => {
                    found.push((name.to_owned(), "empty".to_owned(), vec![words(&["XTRIM", key, "MAXLEN", "0"])]))
                }
                // Meta is the same in all layouts.
                Data::Hash(fields) if name != "meta" || self.values.len() > FEW.len() => {
                    self.damages_of_hash(name, key, fields, &mut found)
                }
                _ => {}
            }
        }
        found
    }

    fn damages_of_hash(&self, name: &str, key: &str, fields: &BTreeMap<Bytes, Bytes>, found: &mut Vec<Damage>) {
        for (field, text) in fields.iter().take(8).map(|(field, text)| (shown(field), shown(text))) {
            let place = format!("{name} {}", field.escape_default());
            let parts: Vec<&str> = text.split(' ').collect();
            for at in 0..parts.len() {
                for other in self.others(parts[at]) {
                    let mut parts = parts.clone();
                    parts[at] = &other;
                    let place = if parts.len() > 1 { format!("{place}, word {}", at + 1) } else { place.clone() };
                    found.push((place, other.clone(), vec![words(&["HSET", key, &field, &parts.join(" ")])]));
                }
            }
            found.push((place, "absent".to_owned(), vec![words(&["HDEL", key, &field])]));
        }
        for extra in if name == "meta" { &["withdrawn", "adopt", "shards", "plan"][..] } else { &[] } {
            for text in self.values.iter().copied() {
                found.push((format!("meta {extra}, new"), text.to_owned(), vec![words(&["HSETNX", key, extra, text])]));
            }
        }
    }

    /// The reply to a call, with the keys that changed, and a digest of all data.
    fn outcome(&self, script: &'static str, state: &Keys, fault: &Fault) -> (String, String) {
        let mut damaged = state.clone();
        let context = self.engine.server.borrow().context();
        fault.commands.iter().for_each(|command| change(&mut damaged, command, context));
        let before = self.digests(&damaged);
        (self.engine.server.borrow_mut().keys, self.engine.server.borrow_mut().denied) =
            (damaged, fault.denied.clone());
        let reply = match self.call(script, &fault.keys, &fault.args) {
            // What the server itself says is its own.
            Reply::Error(text) if text.starts_with("ERR ") || text.starts_with("WRONGTYPE ") => "ERROR".to_owned(),
            Reply::Error(text) => format!("ERROR {text}"),
            reply => line(&reply),
        };
        self.engine.server.borrow_mut().denied = None;
        let after = self.digests(&self.engine.server.borrow().keys);
        // What is overdue ends for a hold that is refused then, too.
        let is_refused = fault.denied.is_some() && reply.starts_with("ERROR") && !script.starts_with("hold");
        assert!(
            !is_refused || before == after,
            "{script} wrote before it was refused: {reply} without {}",
            fault.value
        );
        let names = self.names();
        let of_keys = names.iter().zip(before.iter().zip(&after));
        let changed: Vec<&str> =
            of_keys.filter(|(_, (before, after))| before != after).map(|(name, _)| &**name).collect();
        let effect = if changed.is_empty() { String::new() } else { format!(" => {}", changed.join(" ")) };
        (format!("{}{effect}", reply.escape_default()), format!("{reply} {}", after.join(" ")))
    }

    /// The SHA-1 of each key, and of all.
    fn digests(&self, keys: &Keys) -> Vec<String> {
        let digest = |key: String| digest_of(keys, key.as_bytes());
        let mut digests: Vec<String> = self.all_keys().into_iter().map(digest).collect();
        digests.push(sha1_hex(digests.concat().as_bytes()));
        digests
    }

    /// What `all_keys` are, in short.
    fn names(&self) -> Vec<String> {
        let of = |index: usize| if index == 0 { String::new() } else { (index + 1).to_string() };
        let names = self.names_of_one();
        (0..self.activities.len())
            .flat_map(|index| names.iter().map(move |name| format!("{name}{}", of(index))))
            .collect()
    }

    /// The same of the first activity.
    fn names_of_one(&self) -> Vec<String> {
        let of_hash = ["stock", "meta", "requests", "ledger", "participants"];
        let mut names: Vec<&str> = of_hash[..self.layout.key_count().min(5)].to_vec();
        names.extend((self.layout.key_count() > 5).then_some("units"));
        names.extend(self.layout.has_users().then_some("deadlines"));
        names.into_iter().map(str::to_owned).collect()
    }

    fn all_keys(&self) -> Vec<String> {
        self.activities.iter().flat_map(|activity| self.layout.all_keys(activity)).collect()
    }

    /// Compares the table with the stored one.
    #[track_caller]
    fn is_as_stored(&self, name: &str) {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("one_wrong").join(format!("{name}.txt"));
        Assert::new().action_env("SNAPSHOTS").eq(self.table.trim_start(), Snapshot::read_from(&path, None).raw());
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

/// The commands that a script's header names.
fn commands_of(text: &str) -> Vec<&str> {
    let needs =
        text.split_once("Commands it needs").map_or("", |(_, needs)| needs).split("]]").next().unwrap_or_default();
    let needs = needs.split_once("on):").map_or(needs, |(_, commands)| commands);
    let words = needs.split(|letter: char| !letter.is_ascii_uppercase()).filter(|word| word.len() > 1);
    let mut seen = HashSet::new();
    words.filter(|word| seen.insert(*word)).collect()
}

/// A command of another client, also those that no script uses.
fn change(keys: &mut Keys, command: &Command, context: Context) {
    let (name, args) = (shown(&command[0]), &command[1..]);
    let key = &args[0];
    match &*name {
        "RPUSH" => drop(keys.0.insert(key.clone(), Data::List)),
        "HSETNX" if keys.field(&shown(key), &args[1]).is_some() => {}
        "HSETNX" => run(keys, "HSET", args, context),
        "ZADD" if &args[1] == b"XX" => {
            if keys.0.contains_key(key) {
                run(keys, "ZADD", &[&args[..1], &args[2..]].concat(), context);
            }
        }
        "XTRIM" => {
            let Some(Data::Stream(stream)) = keys.0.get_mut(key) else { return };
            let most: usize = shown(&args[2]).parse().unwrap();
            while stream.entries.len() > most {
                stream.entries.pop_first();
            }
        }
        name => run(keys, name, args, context),
    }
}

fn run(keys: &mut Keys, name: &str, args: &[Bytes], context: Context) {
    let reply = keys.run(name, args, context);
    assert!(!matches!(reply, Reply::Error(_)), "{name}: {reply:?}");
}

fn shown(text: &[u8]) -> String {
    String::from_utf8_lossy(text).into_owned()
}

/// A reply as one line: numbers and texts with a space between, `nil` for nothing.
fn line(reply: &Reply) -> String {
    match reply {
        Reply::Nil => "nil".to_owned(),
        Reply::Int(number) => number.to_string(),
        Reply::Text(text) => shown(text),
        Reply::Status(text) => (*text).to_owned(),
        Reply::Array(parts) => parts.iter().map(line).collect::<Vec<_>>().join(" "),
        other => panic!("a script replied {other:?}"),
    }
}

/// The SHA-1 of a key's type, of what it holds, and of when it expires.
fn digest_of(keys: &Keys, key: &[u8]) -> String {
    let entry = |((ms, number), fields): (&StreamId, &Vec<Bytes>)| {
        let id = format!("{ms}-{number}").into_bytes();
        [id, fields.join(&b'\n')].concat()
    };
    let (kind, found): (&str, Vec<Bytes>) = match keys.0.get(key) {
        None => ("none", Vec::new()),
        Some(Data::Text(text)) => ("string", vec![text.clone()]),
        Some(Data::List) => ("list", vec![b"x".into()]),
        Some(Data::Sorted(members)) => {
            let mut members: Vec<(&Bytes, f64)> = members.iter().map(|(member, score)| (member, *score)).collect();
            members.sort_by(|one, other| one.1.total_cmp(&other.1).then(one.0.cmp(other.0)));
            let of_member = |(member, score): (&Bytes, f64)| [member.clone(), score.to_string().into()];
            ("zset", members.into_iter().flat_map(of_member).collect())
        }
        Some(Data::Stream(stream)) => ("stream", stream.entries.iter().map(entry).collect()),
        Some(Data::Set(members)) => ("set", members.iter().cloned().collect()),
        Some(Data::Hash(fields)) => {
            ("hash", fields.iter().map(|(field, value)| [&field[..], b"\t", value].concat()).collect())
        }
    };
    let expiry = keys.1.get(key).map(|at| format!("\nexpires at {at}")).unwrap_or_default();
    sha1_hex(&[kind.as_bytes(), &found.join(&b'\n'), expiry.as_bytes()].concat())
}
