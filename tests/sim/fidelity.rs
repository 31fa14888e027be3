//! The simulator against a real server: the same random calls of every script, damaged keys and strange texts included, give the same
//! replies and leave the same keys.
//!
//! In the text that both run, the clock is a key, and an entry's id is one more than the last. What a scan returns is sorted.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use redis::{ConnectionAddr, ConnectionLike as _, IntoConnectionInfo, Value};
use seckill::internals::DROP_INS;
use seckill::{Kind, Layout};

use super::calls::{Activity, Call, column, shown, shown_reply, status};
use super::keys::{Bytes, Data, Keys, Reply, Stream};
use super::random::Random;
use super::script::{Engine, every_script};
use super::server_binary::server_binary;

const CALLS: u64 = 4000;
/// Calls on the same keys.
const CALLS_OF_A_SALE: u64 = 60;

/// A script that depends on nothing but keys.
fn determined(text: &str) -> String {
    let text = text.replace("call('TIME')", "call('HMGET', '@clock', 's', 'us')");
    let numbered = |text: String, key: &str| {
        let text =
            text.replace(&format!("acl_check_cmd('XADD', {key}, '*'"), &format!("acl_check_cmd('XADD', {key}, '0-1'"));
        let newest = format!("(redis.call('XREVRANGE', {key}, '+', '-', 'COUNT', 1)[1] or {{'0-0'}})[1]");
        text.replace(&format!("{key}, '*'"), &format!("{key}, (string.match({newest}, '^%d+') + 1) .. '-1'"))
    };
    ["KEYS[3]", "KEYS[4]", "KEYS[at + 4]"].into_iter().fold(text, numbered)
}

/// A server that this test started.
struct RealServer {
    process: Child,
    directory: PathBuf,
    connection: redis::Connection,
}

impl RealServer {
    fn start() -> Self {
        let directory = tempfile::Builder::new().prefix("sim").tempdir().unwrap().keep();
        let socket = directory.join("s");
        let mut command = Command::new(server_binary());
        command.args(["--port", "0", "--save", "", "--unixsocket"]).arg(&socket).arg("--dir").arg(&directory);
        let process = command.stdout(Stdio::null()).spawn().unwrap();
        let began = Instant::now();
        let connection = loop {
            let client =
                redis::Client::open(ConnectionAddr::Unix(socket.clone()).into_connection_info().unwrap()).unwrap();
            match client.get_connection() {
                Ok(connection) => break connection,
                Err(error) => assert!(began.elapsed() < Duration::from_secs(30), "no server: {error}"),
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        Self { process, directory, connection }
    }

    fn ask(&mut self, command: &str, args: &[&[u8]]) -> Reply {
        let mut cmd = redis::cmd(command);
        cmd.arg(args);
        match self.connection.req_packed_command(&cmd.get_packed_command()) {
            Ok(value) => read(value),
            Err(error) => Reply::Error(format!("{} {}", error.code().unwrap(), error.detail().unwrap_or_default())),
        }
    }

    fn texts(&mut self, command: &str, args: &[&[u8]]) -> Vec<Bytes> {
        let Reply::Array(parts) = self.ask(command, args) else { panic!("{command} replies a list") };
        parts.into_iter().map(text).collect()
    }

    fn keys(&mut self) -> Keys {
        let (mut keys, mut expiries) = (BTreeMap::new(), BTreeMap::new());
        for key in self.texts("KEYS", &[b"*"]) {
            let data = match &text(self.ask("TYPE", &[&key]))[..] {
                b"string" => Data::Text(text(self.ask("GET", &[&key]))),
                b"hash" => Data::Hash(pairs(self.texts("HGETALL", &[&key]))),
                b"set" => Data::Set(self.texts("SMEMBERS", &[&key]).into_iter().collect()),
                b"zset" => {
                    let scores = pairs(self.texts("ZRANGE", &[&key, b"0", b"-1", b"WITHSCORES"]));
                    let number = |score: Bytes| String::from_utf8(score).unwrap().parse().unwrap();
                    Data::Sorted(scores.into_iter().map(|(member, score)| (member, number(score))).collect())
                }
                b"stream" => Data::Stream(self.stream(&key)),
                other => panic!("a key of type {other:?}"),
            };
            if self.ask("PTTL", &[&key]) != Reply::Int(-1) {
                expiries.insert(key.clone(), 0);
            }
            keys.insert(key, data);
        }
        Keys(keys, expiries)
    }

    fn stream(&mut self, key: &[u8]) -> Stream {
        let Reply::Array(rows) = self.ask("XRANGE", &[key, b"-", b"+"]) else { panic!("XRANGE replies a list") };
        let entry = |row| {
            let Reply::Array(row) = row else { panic!("an entry is a list") };
            let [id, Reply::Array(fields)] = &row[..] else { panic!("an entry is an id and fields") };
            let id = String::from_utf8(text(id.clone())).unwrap();
            let (ms, seq) = id.split_once('-').unwrap();
            ((ms.parse().unwrap(), seq.parse().unwrap()), fields.iter().cloned().map(text).collect())
        };
        Stream { entries: rows.into_iter().map(entry).collect(), ..Stream::default() }
    }
}

impl Drop for RealServer {
    fn drop(&mut self) {
        _ = self.process.kill();
        _ = self.process.wait();
        _ = std::fs::remove_dir_all(&self.directory);
    }
}

fn read(value: Value) -> Reply {
    match value {
        Value::Nil => Reply::Nil,
        Value::Int(number) => Reply::Int(number),
        Value::BulkString(text) => Reply::Text(text),
        Value::SimpleString(text) => Reply::text(&text),
        Value::Okay => Reply::text("OK"),
        Value::Array(parts) => Reply::Array(parts.into_iter().map(read).collect()),
        Value::ServerError(error) => Reply::Error(format!("{} {}", error.code(), error.details().unwrap_or_default())),
        other => panic!("a server replied {other:?}"),
    }
}

fn text(reply: Reply) -> Bytes {
    match reply {
        Reply::Text(text) => text,
        other => panic!("{other:?} is no text"),
    }
}

fn pairs(flat: Vec<Bytes>) -> BTreeMap<Bytes, Bytes> {
    flat.chunks(2).map(|pair| (pair[0].clone(), pair[1].clone())).collect()
}

/// A reply without what may differ: the order of a scan, and how a server words an error that it found itself.
fn comparable(call: &Call, reply: Reply) -> Reply {
    let is_scan = call.script == "snapshot" || call.args.iter().any(|arg| arg == b"recount");
    match reply {
        Reply::Error(text) if !text.starts_with("USAGE") => Reply::Error(String::new()),
        Reply::Array(parts) if is_scan => {
            Reply::Array(parts.into_iter().map(|part| comparable(call, part)).collect()).sorted()
        }
        Reply::Text(text) if is_scan && text.contains(&0) => {
            let mut words: Vec<&[u8]> = text.split(|byte| [0, b' '].contains(byte)).collect();
            words.sort_unstable();
            Reply::Text(words.join(&0))
        }
        other => other,
    }
}

impl Reply {
    fn sorted(self) -> Self {
        match self {
            Self::Array(mut parts) => {
                parts.sort_by_key(|part| format!("{part:?}"));
                Self::Array(parts)
            }
            other => other,
        }
    }
}

/// Keys without the last ids of streams, which no command shows, and without times of expiry: the clocks differ.
fn comparable_keys(mut keys: Keys) -> Keys {
    for data in keys.0.values_mut() {
        if let Data::Stream(stream) = data {
            (stream.last, stream.groups) = ((0, 0), BTreeMap::new());
        }
    }
    keys.1.values_mut().for_each(|at| *at = 0);
    keys
}

const STRANGE_USERS: [&str; 8] = ["a/b", "q\"x", "back\\slash", "tab\tx", "", " lead", "del\u{7f}", "two words"];
const STRANGE_QUANTITIES: [&str; 6] = ["0", "x", "1000000000", "01", "1e3", "nan"];

/// A random call of a sale. `n` is its number: ids are made of it.
fn random_call(random: &mut Random, sale: &Activity, other: &Activity, n: u64) -> Call {
    let has_users = sale.layout.kind().has_users();
    // Most are as they should be.
    let user =
        if random.percent(70) { *random.pick(&["u1", "u2", "u3", "张三"]) } else { *random.pick(&STRANGE_USERS) };
    let quantity = if random.percent(80) { *random.pick(&["1", "2", "3"]) } else { *random.pick(&STRANGE_QUANTITIES) };
    let request = match random.below(4) {
        0 => String::new(),
        1 => format!("r{}", random.below(40)),
        _ => format!("r{n}"),
    };
    let recent = format!("r{}", n - random.below(n.min(12)));
    let mode = *random.pick(&["first", "first", "retry", "retry", "dry", "borrow", "bad"]);
    let reason = *random.pick(&["", "why \"so\""]);
    match random.below(37) {
        0 => {
            let change = *random.pick(&["create", "update", "reset"]);
            let total = *random.pick(&["10", "100", "0", "9007199254740991", "x"]);
            let limit = *random.pick(&["", "=", "=2", "=5"]);
            let starts = *random.pick(&["", "", "=1600000000000", "=1800000000000"]);
            let (dry, ledger) = (*random.pick(&["0", "1"]), *random.pick(&["", "", "=1", "=0"]));
            sale.call("preheat", ["by", reason, change, dry, total, limit, "=标题", starts, "", ledger])
        }
        1..5 => {
            let args = ["by", user, quantity, &request, mode, reason, ""];
            sale.call("deduct", &args[..4 + random.below(4) as usize])
        }
        5..8 if has_users => {
            let duration = *random.pick(&["1", "500", "3000", "0"]);
            sale.call("hold", ["by", user, quantity, &request, mode, reason, duration])
        }
        8..11 if has_users => {
            let step = *random.pick(&["confirm", "release", "abort"]);
            let args = ["by", &recent, step, "", mode];
            sale.call("settle", &args[..3 + random.below(3) as usize])
        }
        11 if has_users => {
            let most = *random.pick(&["20", "1", "0", "1000"]);
            sale.call("settle", ["by", most, *random.pick(&["expire", "recount"])])
        }
        12..14 => {
            let quantity = *random.pick(&["1", "2", "all", "x"]);
            sale.call("refund", ["by", user, quantity, &request, *random.pick(&["first", "retry", "dry"])])
        }
        14..18 => many(random, sale, n),
        18 => sale.call("snapshot", STRANGE_USERS),
        19 => sale.call("snapshot", ["u1", "张三"]),
        20 => {
            let (from, to) = (*random.pick(&["0", "1", "2", "?"]), *random.pick(&["0", "1", "3"]));
            let change = *random.pick(&["0", "-1", "1", "2"]);
            let (epoch, repairs) = (*random.pick(&["1", "1", "2"]), *random.pick(&["0", "1", "2"]));
            let id = format!("repair:{n}");
            sale.call(
                "repair",
                ["by", reason, *random.pick(&["0", "0", "1"]), epoch, repairs, &id, user, from, to, change],
            )
        }
        21 => {
            let state = *random.pick(&["paused", "live", "live"]);
            sale.plain_call("pause", [state, "by", reason, *random.pick(&["0", "0", "1"]), *random.pick(&["", "1"])])
        }
        22 => {
            let id = format!("{:040x}", random.below(5));
            let (need, want) = (random.below(4).to_string(), random.below(4).to_string());
            let finished = if random.percent(20) { id.as_str() } else { "" };
            sale.plain_call("lend", ["by", &id, *random.pick(&["1", "1", "2"]), "3", &need, &want, finished])
        }
        23 => {
            let id = format!("{:040x}", random.below(5));
            sale.plain_call("borrow", ["by", &id, *random.pick(&["1", "1", "2"]), "3", *random.pick(&["1", "2", "x"])])
        }
        24 => sale.plain_call("peek", [""; 0]),
        25 => {
            let (mode, epoch) = (*random.pick(&["set", "update", "update", "remove"]), *random.pick(&["1", "2", "1"]));
            let plan = if mode == "update" { format!("p{}", random.below(5)) } else { String::new() };
            let units = if mode == "remove" { "" } else { *random.pick(&["5", "2", "0", "-1", "x"]) };
            let limit = *random.pick(&["", "3"]);
            sale.plain_call("preheat_shard", [mode, "by", reason, epoch, &plan, units, limit, "t", "", ""])
        }
        26 => {
            let mode = *random.pick(&["read", "read", "set", "clear"]);
            let plan = *random.pick(&["", "=start"]);
            let rules = "=live 1 1 - 30 - -";
            sale.plain_call("parent", [mode, "", "", "", "", "", rules, "=t", "=0 1", plan, "=1"])
        }
        27..29 => {
            let step = *random.pick(&["plan", "plan", "withdraw", "withdraw", "switch", "undo"]);
            let name = *random.pick(&["a1", "a1", "a1", "a2"]);
            let held = *random.pick(&["0", "3"]);
            let args = [step, "by", reason, name, "30", held, "", "", "", "", "=2", "", "", "", "live", ""];
            sale.call("adopt", args)
        }
        31..33 => {
            let (epoch, name) = (*random.pick(&["1", "1", "2", ""]), *random.pick(&["c1", "c1", "c2"]));
            let (page, replaced) = (*random.pick(&["0", "1"]), *random.pick(&["", "", "c1"]));
            match random.below(5) {
                0 => sale.plain_call("trim", ["plan", "", *random.pick(&["1-1", "3-1", "9-1", "x"])]),
                1 => sale.plain_call("trim", ["page", epoch, name, page, "[\"u1\",\"2\"]"]),
                2 => sale.plain_call("trim", ["switch", epoch, name, page, replaced, "2-1 1-1 1 30 0", "by"]),
                3 => sale.plain_call("trim", ["cut", epoch, ""]),
                _ => sale.plain_call("trim", ["clear", epoch, ""]),
            }
        }
        33 => {
            let (name, epoch) = (*random.pick(&["a1", "a1", "a2", "?"]), *random.pick(&["1", "1", "2"]));
            let (sha256, seen) = ("0".repeat(64), "30 1-1 0 1 0 0 0");
            match random.below(3) {
                0 => sale.call("archive", ["plan"]),
                1 => sale.call("archive", ["mark", name, epoch]),
                _ => sale.call("archive", ["remove", name, epoch, &sha256, seen, "by"]),
            }
        }
        34..37 => drop_in(random, user, quantity, &request),
        29 => {
            // Orders of two activities in a call.
            let script = *random.pick(&["deduct_file", "refund_file"]);
            let mut call = sale.call(script, ["by", &format!("m{n}"), "d", "1", reason, "", ""]);
            call.keys.extend(other.keys.in_order().map(Into::into));
            for _ in 0..2 {
                let users = column([*random.pick(&["u1", "u2"]), *random.pick(&["u3", "a b"])]);
                let requests = column(["0", "1"].map(|at| format!("m{n}.{at}")));
                let quantity = *random.pick(&["1", "2"]);
                call.args.extend(["1", "0", "1-2", quantity].map(Into::into).into_iter().chain([users, requests]));
            }
            call
        }
        _ => {
            let mut call = sale.call(
                "multi_deduct",
                ["by", *random.pick(&["first", "retry", "dry"]), reason, user, &request, "1", quantity],
            );
            call.keys.extend(other.keys.in_order().map(Into::into));
            call
        }
    }
}

/// A command about a ledger that a group reads.
fn group_command(random: &mut Random, ledger: &str) -> (&'static str, Vec<Bytes>) {
    let id = format!("{}-1", random.below(60));
    let after = *random.pick(&[">", ">", "0", &id]);
    let (command, args) = match random.below(8) {
        0 => ("XGROUP", vec!["CREATE", ledger, "g", "0"]),
        1..5 => ("XREADGROUP", vec!["GROUP", "g", "c", "COUNT", "3", "STREAMS", ledger, after]),
        5..7 => ("XACK", vec![ledger, "g", &id]),
        _ => ("XPENDING", vec![ledger, "g"]),
    };
    (command, args.into_iter().map(Into::into).collect())
}

/// Its reply without the words of an error and the consumers of a group; that all is well is a text.
fn of_group(reply: Reply) -> Reply {
    match reply {
        Reply::Error(_) => Reply::Error(String::new()),
        Reply::Status(text) => Reply::text(text),
        Reply::Array(mut parts) if parts.len() == 4 => {
            parts.pop();
            Reply::Array(parts)
        }
        reply => reply,
    }
}

/// A call of a script that replaces a shop's own.
fn drop_in(random: &mut Random, user: &str, quantity: &str, order: &str) -> Call {
    let script = random.pick(&DROP_INS);
    let limit = *random.pick(&["3", "0", "x"]);
    let (keys, args): (&[&str], Vec<&str>) = match script.name {
        "seckill" => (&["shop:stock", "shop:users"], vec![user, quantity, limit]),
        "sku" => (&["shop:stock", "shop:buyers"], vec![quantity, user]),
        "sku-multi" => (&["shop:stock", "shop:other", "shop:stock"], vec!["1", quantity, "1"]),
        "coupon" => (&["shop:stock", "shop:buyers"], vec![user]),
        "product" => (&["shop:stock"], vec![quantity]),
        _ => (&["shop:stock", "shop:buyers", "shop:orders"], vec!["v1", user, order]),
    };
    let keys = keys.iter().map(|key| key.as_bytes().to_vec()).collect();
    Call { script: script.name, sha1: script.sha1, keys, args: args.into_iter().map(Into::into).collect() }
}

/// The steps of a restore, some of them left out.
fn restore(random: &mut Random, sale: &Activity, step: u64) -> Call {
    let sha256 = "0".repeat(64);
    let kind = sale.layout.kind();
    let page = |part: &[&str]| sale.call("restore", [&["page", &sha256][..], part].concat());
    match if random.percent(10) { random.below(7) } else { step } {
        0 => sale.call("restore", ["begin", &sha256, "live 1 1 - 30 - -"]),
        1 => page(&["requests", "r1", "u1"]),
        2 => page(&["ledger", "1-1", "4", "op", "preheat", "stock", "30", "2-1", "2", "op", "deduct"]),
        3 if kind == Kind::Hash => page(&["participants", "u1", "1"]),
        3 => page(&["participants", "u1"]),
        4 => page(&["units", "u1", "1"]),
        5 => {
            let (users, units) = (u8::from(kind.has_users()), u8::from(kind == Kind::Set));
            let seen = format!("2-1 1 2 {users} {units}");
            let rules = "live 1 1 - 30 - -";
            sale.call("restore", ["switch", &sha256, &seen, "by", "29", "[]", "title", "t", "rules", rules])
        }
        _ => sale.call("restore", [*random.pick(&["plan", "undo"]), &sha256]),
    }
}

/// Many orders in one call, of a job or not.
fn many(random: &mut Random, sale: &Activity, n: u64) -> Call {
    let count = 1 + random.below(5);
    let of: Vec<&str> = (0..count).map(|_| *random.pick(&["u1", "u2", "u3", "u4", "a/b", "张", "x\"y"])).collect();
    let is_distinct = of.iter().collect::<BTreeSet<_>>().len() == of.len();
    let users = column(of);
    let requests = |n: u64| column((0..count).map(|at| format!("r{n}.{at}")));
    let quantities = match random.percent(50) {
        true => b"1".to_vec(),
        false => column((0..count).map(|_| (1 + random.below(3)).to_string())),
    };
    let (job, lines) = (format!("job{n}"), format!("1-{count}"));
    let rows = *random.pick(&["", "1"]);
    let has_users = sale.layout.kind().has_users();
    let earlier = n - random.below(n.min(15));
    let distinct = if is_distinct { "1" } else { "" };
    let rest = |borrow: &&'static str| vec!["", "", "", *borrow, distinct];
    let (script, first, second, requests, rest) = match random.below(5) {
        0 | 1 if has_users => (
            "hold_file",
            users,
            quantities,
            requests(n),
            vec!["", "", "3000", *random.pick(&["", "", "borrow"]), distinct],
        ),
        2 if has_users => (
            "settle_file",
            requests(earlier),
            random.pick(&["confirm", "release"]).as_bytes().to_vec(),
            Vec::new(),
            rest(random.pick(&["", "", "borrow"])),
        ),
        3 => ("refund_file", users, quantities, requests(n), rest(&"")),
        _ => ("deduct_file", users, quantities, requests(n), rest(random.pick(&["", "", "borrow"]))),
    };
    let of_job: [&str; 5] = [&job, "digest", "1", "0", &lines];
    let args = [b"by", &first[..], &second].into_iter().map(<[u8]>::to_vec);
    let args = args.chain(of_job.map(|arg| arg.as_bytes().to_vec())).chain([requests, rows.into()]);
    sale.call(script, args.chain(rest.into_iter().map(Into::into)))
}

#[test]
fn scripts_reply_and_write_here_what_they_do_on_a_real_server() {
    let mut real = RealServer::start();
    let engine = Engine::new(|_, text| determined(text));
    engine.reset();
    let mut shas = BTreeMap::new();
    for script in every_script() {
        shas.insert(script.sha1, text(real.ask("SCRIPT", &[b"LOAD", determined(script.text).as_bytes()])));
    }
    let seed = super::search::setting("SECKILL_SIM_SEED", 0);
    let calls = super::search::setting("SECKILL_SIM_CALLS", CALLS);
    let mut answers = BTreeMap::<_, u64>::new();
    let (mut us, mut sales) = (1_700_000_000_000_000, Vec::new());
    for n in 1..=calls {
        let mut random = Random::of_step(seed, n);
        let is_first = n % CALLS_OF_A_SALE == 1;
        if is_first {
            real.ask("FLUSHALL", &[]);
            engine.server.borrow_mut().keys = Keys::default();
            let layout =
                *random.pick(&[Layout::Seckill, Layout::Seckill, Layout::Sku, Layout::Coupon, Layout::Product]);
            sales = ["1001", "1002"].map(|id| Activity::new(id, layout)).into();
        }
        let [sale, other] = &sales[..] else { unreachable!("there are two sales") };
        us += random.below(900_000);
        let clock = ["@clock", "s", &(us / 1_000_000).to_string(), "us", &(us % 1_000_000).to_string()]
            .map(|text| text.as_bytes().to_vec());
        let mut both = |command: &str, args: &[Bytes]| {
            let theirs = real.ask(command, &args.iter().map(Vec::as_slice).collect::<Vec<_>>());
            let server = &mut *engine.server.borrow_mut();
            let context = server.context();
            (server.keys.run(command, args, context), theirs)
        };
        both("HSET", &clock);
        if is_first {
            for key in ["shop:stock", "shop:other"] {
                both("SET", &[key.into(), "9".into()]);
            }
        }
        if random.percent(2) {
            let key = sale.keys.all().nth(random.below(sale.keys.all().count() as u64) as usize).unwrap();
            let value = *random.pick(&["x", "5", "-1", "1e3"]);
            both("SET", &[key.into(), value.into()]);
        }
        if random.percent(8) {
            let (command, args) = group_command(&mut random, &sale.keys.ledger);
            let (ours, theirs) = both(command, &args);
            assert_eq!(of_group(ours), of_group(theirs), "{command} before call {n} of seed {seed}");
        }
        if random.percent(2) {
            let key = random.pick(&sale.keys.all().collect::<Vec<_>>()).to_string();
            both("PEXPIRE", &[key.into(), b"1000000000".into()]);
        }
        let call = match n % CALLS_OF_A_SALE {
            1 | 2 => {
                let sale = if is_first { sale } else { other };
                sale.call("preheat", ["by", "", "create", "0", "30", "=4", "=t", "", "", ""])
            }
            step @ 40..47 => restore(&mut random, &Activity::new("1003", sale.layout), step - 40),
            _ => random_call(&mut random, sale, other, n),
        };
        let count = call.keys.len().to_string();
        let mut parts: Vec<&[u8]> = vec![&shas[call.sha1], count.as_bytes()];
        parts.extend(call.keys.iter().chain(&call.args).map(Vec::as_slice));
        let theirs = comparable(&call, real.ask("EVALSHA", &parts));
        let ours = comparable(&call, engine.run(call.sha1, &call.keys, &call.args).expect("nothing is cut"));
        assert_eq!(shown_reply(&ours), shown_reply(&theirs), "call {n} of seed {seed}: {}", shown(&call));
        let is_error = matches!(ours, Reply::Error(_));
        *answers.entry((call.script, status(&ours), is_error)).or_default() += 1;
        let keys = engine.server.borrow().keys.clone();
        assert_eq!(comparable_keys(keys), comparable_keys(real.keys()), "call {n} of seed {seed}: {}", shown(&call));
    }
    eprintln!("{answers:?}");
    assert!(answers.len() > 50 || calls < CALLS, "the calls are too much alike: {answers:?}");
}
