//! Plain calls with one thing wrong at a time: an argument, a text of a column, a stored value, a key or a right. The random
//! histories combine such things, and have few of them alone.

use redis::{RedisResult, Value};

use super::calls::Shape;
use super::outcome::{LUA_ERROR, text};
use super::twins::{Command, JUST_OVER, NOW, SOON, Saved, Twins, add_state};
use crate::support::scripts::commands;
use crate::support::{Layout, SECKILL, has_full_searches};

/// What a stored number or a word may be instead. Quick paths count with up to 13 digits, Lua's `..` writes up to 14.
const STORED: [&str; 17] = [
    "",
    "0",
    "00",
    "007",
    "1",
    "2",
    "3",
    "-1",
    "1.5",
    "1e3",
    " 5",
    "x",
    "-",
    "9999999999999",
    "99999999999999",
    "999999999999999",
    "9007199254740992",
];
/// What an argument or a text of a column may be instead.
const GIVEN: [&str; 27] = [
    "",
    "0",
    "00",
    "1",
    "2",
    "3",
    "5",
    "-1",
    "1.5",
    "1e3",
    " 5",
    "5 ",
    "a b",
    "all",
    "q\"",
    "b\\",
    "\x01",
    "\x7f",
    "用户",
    "[]",
    "[1]",
    "2-3",
    "1000000000",
    "1000000001",
    "9999999999999",
    "99999999999999",
    "retry",
];
/// So long may a request id be, and so long a user.
const LONGEST: [usize; 2] = [128, 256];
/// So many calls are sent together.
const AT_ONCE: usize = 50;

/// A call, and what is done to the data before it.
struct Fault {
    keys: Vec<String>,
    args: Vec<Vec<u8>>,
    commands: Vec<Command>,
    denied: Option<String>,
}

/// A script and its arguments.
type Plain<'a> = (&'static str, &'a [&'a str]);

struct Activity {
    layout: Layout,
    twins: Twins,
}

fn command(words: &[&str]) -> Command {
    words.iter().map(|word| word.as_bytes().to_vec()).collect()
}

fn given() -> impl Iterator<Item = String> {
    let long = LONGEST.into_iter().flat_map(|most| [most, most + 1]).map(|length| "x".repeat(length));
    GIVEN.into_iter().map(str::to_owned).chain(long)
}

impl Activity {
    /// Two activities after a few plain calls.
    fn after(layout: Layout, limit: Option<u64>, calls: &[Plain<'_>]) -> Self {
        let mut twins = Twins::of(layout, &["1", "2"]);
        twins.preheat(&Shape { total: 1000, limit, window: ["", ""], ledger: true, paused: false });
        let mut it = Self { layout, twins };
        for (script, args) in calls {
            let keys = it.keys(script);
            it.twins.run((script, &keys, &command(args)), None, None).unwrap_or_else(|why| panic!("{args:?}: {why}"));
        }
        it
    }

    fn keys(&self, script: &str) -> Vec<String> {
        match script {
            "multi_deduct" => ["1", "2"].iter().flat_map(|activity| self.layout.keys(activity)).collect(),
            _ => self.layout.keys("1"),
        }
    }

    /// Arguments with one that is another, missing or too many, or with a column of which one text is another.
    fn wrong_arguments(args: &[Vec<u8>]) -> Vec<Vec<Vec<u8>>> {
        let mut found =
            vec![args[..args.len() - 1].to_vec(), [args, &[Vec::new()]].concat(), [args, &[b"dry".to_vec()]].concat()];
        for at in 0..args.len() {
            let mut put = |text: Vec<u8>| {
                let mut args = args.to_vec();
                args[at] = text;
                found.push(args);
            };
            given().for_each(|text| put(text.into_bytes()));
            let Ok(texts) = serde_json::from_slice::<Vec<String>>(&args[at]) else { continue };
            put(format!("[ {} ]", serde_json::to_string(&texts).unwrap().trim_matches(['[', ']'])).into_bytes());
            for nth in 0..texts.len() {
                for text in given().chain(texts.iter().cloned()) {
                    let mut texts = texts.clone();
                    texts[nth] = text;
                    put(serde_json::to_vec(&texts).unwrap());
                }
                put(serde_json::to_vec(&[&texts[..nth], &texts[nth + 1..]].concat()).unwrap());
                let numbers: Vec<_> = texts
                    .iter()
                    .enumerate()
                    .map(|(at, text)| if at == nth { 7.into() } else { serde_json::Value::from(&**text) })
                    .collect();
                put(serde_json::to_vec(&numbers).unwrap());
            }
        }
        found
    }

    /// Commands that damage one thing of activity 1: of `requests` the fields that a call reads, of participants these users.
    fn damages(&mut self, fields: &[&str], users: &[&str]) -> Vec<Vec<Command>> {
        let [stock, meta, requests, ledger, participants] = [1, 2, 3, 4, 5].map(|number| self.layout.key(number, "1"));
        let mut found = vec![vec![command(&["XTRIM", &ledger, "MAXLEN", "0"])]];
        for key in self.layout.all_keys("1") {
            found.push(vec![command(&["DEL", &key])]);
            found.push(vec![command(&["DEL", &key]), command(&["RPUSH", &key, "x"])]);
        }
        for text in STORED {
            found.push(vec![command(&["SET", &stock, text])]);
            found.extend(["holds", "withdrawn"].map(|name| vec![command(&["HSET", &meta, name, text])]));
        }
        found.extend(["holds", "rules"].map(|name| vec![command(&["HDEL", &meta, name])]));
        let of_requests = fields.iter().map(|field| (&requests, *field));
        let of_users = users.iter().map(|user| (&participants, *user)).filter(|_| self.layout.kind == "hash");
        for (key, field) in [(&meta, "rules")].into_iter().chain(of_requests).chain(of_users) {
            let stored =
                redis::cmd("HGET").arg(key).arg(field).query::<Option<String>>(&mut self.twins.connection).unwrap();
            let is_rules = field == "rules";
            let words: Vec<&str> = stored.as_deref().unwrap_or_default().split(' ').collect();
            let times = [NOW, SOON, JUST_OVER].map(|time| &time[1..]);
            for nth in 0..words.len() {
                let states =
                    ["paused", "archived", "confirmed", "released", "expired", "void"].into_iter().filter(|_| nth == 0);
                for text in STORED.into_iter().chain(times.into_iter().filter(|_| is_rules && nth > 4)).chain(states) {
                    let mut words = words.clone();
                    words[nth] = text;
                    found.push(vec![command(&["HSET", key, field, &words.join(" ")])]);
                }
            }
            if words.len() > 1 {
                found.push(vec![command(&["HSET", key, field, &words[1..].join(" ")])]);
                found.push(vec![command(&["HSET", key, field, &format!("{} ", words.join(" "))])]);
            }
            found.push(vec![command(&["HDEL", key, field])]);
        }
        found
    }

    /// Runs a plain call, which the quick path must decide, and then with one thing wrong at a time.
    fn tries(&mut self, (script, args): Plain<'_>, fields: &[&str], users: &[&str]) {
        let (keys, args, state) = (self.keys(script), command(args), self.twins.saved());
        let fault =
            |args: &[Vec<u8>], commands, denied| Fault { keys: keys.clone(), args: args.to_vec(), commands, denied };
        let plain = fault(&args, Vec::new(), None);
        let [_, quick, ..] = &self.outcomes(script, &state, &[plain])[0];
        assert!(!quick.contains("ERROR"), "{script} {args:?}: {quick}");
        let mut faults = vec![Fault { keys: keys[..keys.len() - 1].to_vec(), ..fault(&args, Vec::new(), None) }];
        faults.push(Fault { keys: [&keys[..], &["other".to_owned()]].concat(), ..fault(&args, Vec::new(), None) });
        faults.extend(Self::wrong_arguments(&args).iter().map(|args| fault(args, Vec::new(), None)));
        faults.extend(self.damages(fields, users).into_iter().map(|commands| fault(&args, commands, None)));
        let step = if has_full_searches() { 1 } else { 3 };
        let faults: Vec<Fault> = faults.into_iter().step_by(step).collect();
        for faults in faults.chunks(AT_ONCE) {
            let outcomes = self.outcomes(script, &state, faults);
            for (fault, [before, quick, after_quick, reference, after_reference]) in faults.iter().zip(&outcomes) {
                let is_left = quick.trim_end().ends_with("GENERAL");
                let is_refused = ["ERROR", "-11 ", "-4 "].iter().any(|refusal| reference.starts_with(refusal));
                let is_right = !quick.starts_with(LUA_ERROR)
                    && !reference.starts_with(LUA_ERROR)
                    && if is_left {
                        after_quick == before
                    } else {
                        quick == reference && after_quick == after_reference
                    }
                    && (!is_refused || fault.args.contains(&b"retry".to_vec()) || after_reference == before);
                if !is_right {
                    let call = (script, &fault.keys[..], &fault.args[..]);
                    let why = self.twins.run_after(&state, call, &fault.commands, None).err();
                    panic!(
                        "{}: the quick path replies {quick}, the reference path {reference}: {why:?}",
                        fault.shown(script)
                    );
                }
            }
        }
        if self.twins.can_check {
            for denied in commands(script, self.layout.kind) {
                let fault = fault(&args, Vec::new(), Some(denied));
                let call = (script, &fault.keys[..], &fault.args[..]);
                let outcome = self.twins.run_after(&state, call, &[], fault.denied.as_deref());
                assert!(outcome.is_ok(), "{}: {}", fault.shown(script), outcome.unwrap_err());
            }
        }
        self.twins.restore_and(&state, &[]);
    }

    /// Of each: the data before, the reply of the quick path and the data then, the same of the reference path.
    fn outcomes(&mut self, script: &'static str, state: &Saved, faults: &[Fault]) -> Vec<[String; 5]> {
        let twins = &mut self.twins;
        let all_keys = twins.keys();
        let mut pipeline = redis::pipe();
        pipeline.ignore_errors();
        for fault in faults {
            for which in [0, 1] {
                add_state(&mut pipeline, state, &fault.commands);
                if which == 0 {
                    pipeline.cmd("EVAL").arg(DIGEST).arg(all_keys.len()).arg(&all_keys);
                }
                let hash = &twins.hashes[script][which];
                pipeline.cmd("EVALSHA").arg(hash).arg(fault.keys.len()).arg(&fault.keys).arg(&fault.args);
                pipeline.cmd("EVAL").arg(DIGEST).arg(all_keys.len()).arg(&all_keys);
            }
        }
        let replies: Vec<RedisResult<Value>> = pipeline.query(&mut twins.connection).unwrap();
        replies.chunks(5).map(|replies| [0, 1, 2, 3, 4].map(|nth| text(&replies[nth]))).collect()
    }
}

impl Fault {
    fn shown(&self, script: &str) -> String {
        let args: Vec<String> = self.args.iter().map(|arg| arg.escape_ascii().to_string()).collect();
        let shown =
            |words: &Command| words.iter().map(|word| word.escape_ascii().to_string()).collect::<Vec<_>>().join(" ");
        let commands: Vec<String> = self.commands.iter().map(shown).collect();
        format!("{script} {args:?} with {} keys after {commands:?} without {:?}", self.keys.len(), self.denied)
    }
}

/// The SHA-1 of what each of `KEYS` holds, without the ids of the ledger, which are the clock's.
const DIGEST: &str = "
    local parts = {}
    local function add(text) parts[#parts + 1] = #text .. ':' .. text end
    for _, key in ipairs(KEYS) do
        local kind, found = redis.call('TYPE', key).ok, {}
        add(kind)
        if kind == 'string' then found = {redis.call('GET', key)}
        elseif kind == 'list' then found = redis.call('LRANGE', key, 0, -1)
        elseif kind == 'zset' then found = redis.call('ZRANGE', key, 0, -1, 'WITHSCORES')
        elseif kind == 'stream' then
            for _, entry in ipairs(redis.call('XRANGE', key, '-', '+')) do found[#found + 1] = table.concat(entry[2], '\\n') end
        elseif kind == 'set' then found = redis.call('SMEMBERS', key) table.sort(found)
        elseif kind == 'hash' then
            local pairs_of = redis.call('HGETALL', key)
            for i = 1, #pairs_of, 2 do found[#found + 1] = #pairs_of[i] .. ':' .. pairs_of[i] .. pairs_of[i + 1] end
            table.sort(found)
        end
        for _, text in ipairs(found) do add(text) end
    end
    return redis.sha1hex(table.concat(parts) .. redis.call('DBSIZE'))";

#[test]
fn multi_orders_with_one_thing_wrong() {
    let users = r#"["7","8"]"#;
    let before: [Plain<'_>; 1] = [(
        "multi_deduct",
        &[
            "hash", "t", "first", "", "j", "d", "", "1", "0", "1", "1", r#"["7"]"#, "", "", "1", "0", "1", "2",
            r#"["7"]"#, "", "",
        ],
    )];
    let mut limited = Activity::after(SECKILL, Some(5), &before);
    limited.tries(
        (
            "multi_deduct",
            &[
                "hash", "t", "first", "", "j", "d", "1", "1", "1", "2-3", "1", users, "", "", "1", "1", "2-3", "1",
                users, "", "",
            ],
        ),
        &["\tj:multi_deduct:j"],
        &["7", "8"],
    );
    let mut free = Activity::after(SECKILL, None, &before);
    let list = r#"["1","2"]"#;
    free.tries(
        (
            "multi_deduct",
            &[
                "hash", "t", "first", "why", "j", "d", "", "1", "1", "2 5", list, users, "", "", "1", "1", "5", "3",
                r#"["8"]"#, "", "",
            ],
        ),
        &["\tj:multi_deduct:j"],
        &["7"],
    );
}
