//! What an audit costs: its time and memory, and what others notice of it.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::server::{Server, timed};
use super::table::{Line, median, paired, print};

/// Participants, and order records. `SECKILL_BENCH_USERS` makes it more: ten million show that the audit is linear.
fn users() -> usize {
    std::env::var("SECKILL_BENCH_USERS").ok().and_then(|count| count.parse().ok()).unwrap_or(1_000_000)
}

const KEYS: [&str; 5] = ["stock", "meta", "requests", "ledger", "participants"];
const PARTICIPANTS: &str = "seckill:participants:1001";

/// Measures, and prints a table.
pub fn run() {
    let server = Server::start();
    let users = users();
    let stock = (users * 9).to_string();
    timed(server.seckill(&["preheat", "--id", "1001", "--stock", &stock, "--per-user-limit", "5"]));
    fill(&server, users);
    let directory = tempfile::TempDir::new().unwrap();
    let orders = directory.path().join("orders.csv");
    write_orders(&orders, users);
    let orders = orders.display().to_string();

    let mut most = 0;
    let mut pairs = Vec::new();
    let alone = latencies(&server, || thread::sleep(Duration::from_secs(1)));
    let during = latencies(&server, || {
        for _ in 0..3 {
            let (seconds, memory) = reconcile(&server, &["--orders", &orders], 0);
            most = most.max(memory);
            pairs.push(seconds);
        }
    });
    let hgetall: Vec<f64> = (0..3).map(|_| timed(server.tool("redis-cli", &["HGETALL", PARTICIPANTS]))).collect();
    let pairs: Vec<(f64, f64)> = pairs.into_iter().zip(hgetall).collect();

    // One wrong counter among a million is found.
    let _: i64 = server.ask(&["HINCRBY", PARTICIPANTS, "user-7", "1"]);
    reconcile(&server, &[], 7);
    let _: i64 = server.ask(&["HINCRBY", PARTICIPANTS, "user-7", "-1"]);

    let (mut audits, mut rates) = (0, Vec::new());
    for _ in 0..3 {
        let undisturbed = writers(&server, || thread::sleep(Duration::from_secs(2)));
        let audited = writers(&server, || {
            let until = Instant::now() + Duration::from_secs(2);
            while Instant::now() < until {
                reconcile(&server, &[], 0);
                audits += 1;
            }
        });
        rates.push((audited, undisturbed));
    }
    let ms = |share: f64, waits: &[f64]| waits[((waits.len() - 1) as f64 * share) as usize] * 1000.0;
    let wait = |what, share, wanted| Line {
        what,
        ours: format!("{:.2} ms", ms(share, &during)),
        baseline: format!("{:.2} ms", ms(share, &alone)),
        ratio: String::new(),
        wanted,
    };
    println!("\naudit: {users} participants and as many order records; ledger entries of 100 orders");
    print(&[
        paired("reconcile --orders against HGETALL", &pairs, |seconds| format!("{seconds:.2} s"), "at most 3"),
        Line {
            what: "its memory",
            ours: format!("{:.0} MB", most as f64 / 1024.0),
            baseline: String::new(),
            ratio: String::new(),
            wanted: "at most 160 MB",
        },
        wait("another client meanwhile, p99", 0.99, "at most 1.5 ms"),
        wait("another client meanwhile, the longest", 1.0, "at most 10 ms"),
        paired("three writers at full speed while audits run", &rates, |rate| format!("{rate:.0}/s"), "at least 0.7"),
    ]);
    println!("({audits} audits, each exact, while {:.0} orders a second came in)", median(rates.iter().map(|it| it.0)));
}

/// All users buy one unit each, in no order, through the tool's own script.
fn fill(server: &Server, users: usize) {
    let (mut connection, script) = (server.connect(), load(server, "deduct"));
    for page in 0..users / 10_000 {
        let mut pipe = redis::pipe();
        for call in 0..100 {
            let buyers = (0..100).map(|n| (page * 10_000 + call * 100 + n) * 7919 % users);
            pipe.add_command(evaluate(&script, &buyers.collect::<Vec<_>>())).ignore();
        }
        pipe.exec(&mut connection).unwrap();
    }
}

fn write_orders(path: &Path, users: usize) {
    let mut file = std::io::BufWriter::new(fs::File::create(path).unwrap());
    writeln!(file, "activity,user,quantity").unwrap();
    for n in 0..users {
        writeln!(file, "1001,user-{},1", n * 104_729 % users).unwrap();
    }
}

/// The SHA-1 of a script of ours, loaded.
fn load(server: &Server, name: &str) -> String {
    let shown = server.seckill(&["script", "show", name]).output().unwrap().stdout;
    server.ask(&["SCRIPT", "LOAD", std::str::from_utf8(&shown).unwrap()])
}

/// A call of it: one unit for each of these users, or from each.
fn evaluate(script: &str, users: &[usize]) -> redis::Cmd {
    let mut call = redis::cmd("EVALSHA");
    call.arg(script).arg(KEYS.len());
    for key in KEYS {
        call.arg(format!("seckill:{key}:1001"));
    }
    call.arg(&["hash", "bench", "", "", "first"]).arg(users.len()).arg("");
    for user in users {
        call.arg(format!("user-{user}"));
    }
    call.arg(vec!["1"; users.len()]);
    call
}

/// Seconds that another client waits for a small answer, again and again while something runs; sorted.
fn latencies(server: &Server, work: impl FnOnce()) -> Vec<f64> {
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let other = scope.spawn(|| {
            let mut connection = server.connect();
            let mut waits = Vec::new();
            while !stop.load(Ordering::Relaxed) {
                let started = Instant::now();
                let _: String = redis::cmd("GET").arg("seckill:stock:1001").query(&mut connection).unwrap();
                waits.push(started.elapsed().as_secs_f64());
                thread::sleep(Duration::from_micros(500));
            }
            waits.sort_by(f64::total_cmp);
            waits
        });
        work();
        stop.store(true, Ordering::Relaxed);
        other.join().unwrap()
    })
}

/// Orders a second that three writers get done while something runs.
fn writers(server: &Server, work: impl FnOnce()) -> f64 {
    let (users, stop, done) = (users() as u64, AtomicBool::new(false), AtomicU64::new(0));
    let scripts = ["deduct", "refund"].map(|name| load(server, name));
    let started = Instant::now();
    thread::scope(|scope| {
        for writer in 0..3u64 {
            let (stop, done, scripts) = (&stop, &done, &scripts);
            scope.spawn(move || {
                let mut connection = server.connect();
                let mut dice = 0x9E37_79B9_7F4A_7C15u64.wrapping_mul(writer + 1);
                while !stop.load(Ordering::Relaxed) {
                    dice ^= dice << 13;
                    dice ^= dice >> 7;
                    dice ^= dice << 17;
                    let user = (dice % users) as usize;
                    evaluate(&scripts[(dice >> 40) as usize % 2], &[user]).exec(&mut connection).unwrap();
                    done.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        work();
        stop.store(true, Ordering::Relaxed);
    });
    done.into_inner() as f64 / started.elapsed().as_secs_f64()
}

/// The seconds that an audit takes, and the most memory it held, in kB.
fn reconcile(server: &Server, more: &[&str], code: i32) -> (f64, u64) {
    let started = Instant::now();
    let mut command = server.seckill(&["reconcile", "1001", "--quiet"]);
    let mut process = command.args(more).stdout(Stdio::null()).spawn().unwrap();
    let mut most = 0;
    let ended = loop {
        let status = fs::read_to_string(format!("/proc/{}/status", process.id())).unwrap_or_default();
        let peak =
            status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB")?.parse().ok());
        most = most.max(peak.unwrap_or(0));
        if let Some(ended) = process.try_wait().unwrap() {
            break ended;
        }
        thread::sleep(Duration::from_millis(2));
    };
    assert_eq!(ended.code(), Some(code), "reconcile {more:?}");
    (started.elapsed().as_secs_f64(), most)
}
