//! One order at a time, and one activity of a million buyers.

use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::server::{Server, timed};
use super::table::{Line, paired, print};

const KEYS: [&str; 5] = [
    "seckill:stock:1001",
    "seckill:meta:1001",
    "seckill:requests:1001",
    "seckill:ledger:1001",
    "seckill:participants:1001",
];

/// What shops run on the same keys: checks, then writes, and validates nothing.
const PLAIN: &str = include_str!("../../tests/it/backend/hash.lua");

/// Buyers of the activity that is inspected.
const BUYERS: usize = 1_000_000;

/// Measures and prints everything of this part.
pub fn run() {
    let server = Server::start();
    let mut lines = vec![whole_process(&server)];
    lines.extend(in_the_server(&server));
    lines.extend(inspect_all(&server));
    print(&lines);
}

fn preheat(server: &Server) {
    server.ask::<()>(&["FLUSHALL", "SYNC"]);
    timed(server.seckill(&["preheat", "--id", "1001", "--stock", "900000000000", "--per-user-limit", "2"]));
}

/// `seckill deduct` from start to end, against redis-cli calling a plain script.
fn whole_process(server: &Server) -> Line {
    preheat(server);
    let plain: String = server.ask(&["SCRIPT", "LOAD", PLAIN]);
    timed(server.seckill(&["script", "load"]));
    let mut pairs = Vec::new();
    for user in 0..300 {
        let (ours, theirs) = (format!("a{user}"), format!("b{user}"));
        let ours = timed(server.seckill(&["deduct", "1001", "--user", &ours]));
        let call = ["evalsha", &plain, "2", KEYS[0], KEYS[4], &theirs, "1", "2"];
        pairs.push((ours, timed(server.tool("redis-cli", &call))));
    }
    let milliseconds = |seconds: f64| format!("{:.2} ms", seconds * 1e3);
    paired("one deduct, the process: redis-cli EVALSHA", &pairs, milliseconds, "0.35")
}

/// The script of one order, against a plain one: 50 connections, 64 calls in flight on each.
fn in_the_server(server: &Server) -> [Line; 2] {
    const CALLS: u32 = 60_000;
    let text = server.seckill(&["script", "show", "deduct"]).output().unwrap().stdout;
    let ours: String = server.ask(&["SCRIPT", "LOAD", std::str::from_utf8(&text).unwrap()]);
    let plain: String = server.ask(&["SCRIPT", "LOAD", PLAIN]);
    let calls = CALLS.to_string();
    let load = ["-c", "50", "-P", "64", "-n", &calls, "-r", "100000000", "-q", "evalsha"];
    let run = |call: &[&str]| {
        let busy = server.busy();
        let seconds = timed(server.tool("redis-benchmark", &[&load[..], call].concat()));
        let each = 1e6 / f64::from(CALLS);
        ((server.busy() - busy) * each, seconds * each)
    };
    let (mut processor, mut elapsed) = (Vec::new(), Vec::new());
    for _ in 0..9 {
        preheat(server);
        // A random user and a random request each, so that hardly any is replayed or over the limit.
        let arguments =
            ["hash", "me@host", "", "", "first", "1", "", "__rand_int__", "1", "0198c0de-7000-7000-8000-__rand_int__"];
        let ours = run(&[&[ours.as_str(), "5"], &KEYS[..], &arguments].concat());
        let buyers: u32 = server.ask(&["HLEN", KEYS[4]]);
        assert!(buyers > CALLS / 100 * 99, "only {buyers} of {CALLS} orders were sold");

        preheat(server);
        let plain = run(&[&plain, "2", KEYS[0], KEYS[4], "__rand_int__", "1", "2"]);
        processor.push((ours.0, plain.0));
        elapsed.push((ours.1, plain.1));
    }
    let microseconds = |micros: f64| format!("{micros:.1} us");
    [
        paired("one deduct, the server's own time: a plain script", &processor, microseconds, "2.2"),
        paired("one deduct, redis-benchmark -c 50 -P 64: a plain script", &elapsed, microseconds, ""),
    ]
}

/// Every participant of a large sale, against redis-cli, with somebody else at work on the server.
fn inspect_all(server: &Server) -> Vec<Line> {
    preheat(server);
    let fill = "for i = 1, 1000 do redis.call('HSET', KEYS[1], 'user' .. ARGV[1] * 1000 + i, '1') end";
    let mut connection = server.connect();
    for thousand in 0..BUYERS / 1000 {
        redis::cmd("EVAL").arg(fill).arg(1).arg(KEYS[4]).arg(1_000_000 + thousand).exec(&mut connection).unwrap();
    }
    let (mut separated, mut table, mut waits, mut memory) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for _ in 0..5 {
        let redis_cli = ["hgetall", KEYS[4]];
        let base = watched(server, || timed(server.tool("redis-cli", &redis_cli)));
        let rows = watched(server, || timed(server.seckill(&["inspect", "1001", "--all", "-o", "csv"])));
        separated.push((rows.0, base.0));
        waits.push((rows.1, base.1));
        table.push((timed(server.seckill(&["inspect", "1001", "--all"])), base.0));
    }
    memory.push((
        peak(server.seckill(&["inspect", "1001", "--all"])),
        peak(server.tool("redis-cli", &["hgetall", KEYS[4]])),
    ));
    let seconds = |seconds: f64| format!("{seconds:.2} s");
    vec![
        paired("inspect --all of 1,000,000, csv: redis-cli HGETALL", &separated, seconds, "1"),
        paired("inspect --all of 1,000,000, table: redis-cli HGETALL", &table, seconds, "1"),
        paired("  longest wait of another client", &waits, |seconds| format!("{:.1} ms", seconds * 1e3), "5 ms"),
        paired("  peak memory", &memory, |kilobytes| format!("{:.1} MB", kilobytes / 1024.0), "8 MB"),
    ]
}

/// What `work` gives, and the longest wait, in seconds, of another client that sent one PING after the other meanwhile.
fn watched(server: &Server, work: impl FnOnce() -> f64) -> (f64, f64) {
    let (mut connection, done) = (server.connect(), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let longest = scope.spawn(|| {
            let mut longest = Duration::ZERO;
            while !done.load(Ordering::Relaxed) {
                let started = Instant::now();
                redis::cmd("PING").exec(&mut connection).unwrap();
                longest = longest.max(started.elapsed());
                // Somebody who asks now and then, and does not keep a core of a small machine busy.
                std::thread::sleep(Duration::from_micros(500));
            }
            longest.as_secs_f64()
        });
        let result = work();
        done.store(true, Ordering::Relaxed);
        (result, longest.join().unwrap())
    })
}

/// The most memory a command took, in kilobytes: what the kernel says while it runs, and it never says less later.
fn peak(mut command: std::process::Command) -> f64 {
    let mut process = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let status = format!("/proc/{}/status", process.id());
    let mut peak = 0.0_f64;
    while process.try_wait().unwrap().is_none() {
        let text = std::fs::read_to_string(&status).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:")?.split_whitespace().next());
        peak = peak.max(line.and_then(|kilobytes| kilobytes.parse().ok()).unwrap_or(0.0));
        std::thread::sleep(Duration::from_millis(2));
    }
    peak
}
