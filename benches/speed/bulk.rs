//! Files of orders against `redis-benchmark -c 50 -P 64` that sends a shop's plain script, one order a call: both in
//! the same run, on the same server, in turn. What counts is the ratio.

#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a benchmark prints, and stops at what it does not expect"
)]

use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use redis::{Connection, FromRedisValue};
use tempfile::TempDir;

/// Orders of a run. `SECKILL_BENCH_ORDERS` makes it shorter.
fn orders() -> usize {
    std::env::var("SECKILL_BENCH_ORDERS").ok().and_then(|count| count.parse().ok()).unwrap_or(1_000_000)
}

/// How often each is measured; the best counts, because what disturbs only ever slows.
const ROUNDS: usize = 3;

/// Measures on each server that is there.
pub fn run() {
    let servers = servers();
    assert!(!servers.is_empty(), "no server: run `make bench`, or put redis-server on PATH");
    for server in servers {
        measure(&server);
    }
}

fn servers() -> Vec<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let fetched = Path::new(env!("CARGO_MANIFEST_DIR")).join(".servers");
    let places: Vec<PathBuf> = std::env::split_paths(&path).chain([fetched]).collect();
    ["redis-server", "valkey-server"]
        .iter()
        .filter_map(|name| places.iter().map(|place| place.join(name)).find(|file| file.is_file()))
        .collect()
}

/// A server of its own, gone at the end.
struct Server {
    dir: TempDir,
    process: Child,
}

impl Server {
    fn start(binary: &Path) -> Self {
        let dir = tempfile::Builder::new().prefix("sk").tempdir_in("/tmp").unwrap();
        let process = Command::new(binary)
            .args(["--port", "0", "--save", "", "--unixsocket", "redis.sock", "--dir"])
            .arg(dir.path())
            .current_dir(dir.path())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let server = Self { dir, process };
        let deadline = Instant::now() + Duration::from_secs(10);
        while server.client().get_connection().is_err() {
            assert!(Instant::now() < deadline, "the server does not start");
        }
        server
    }

    fn socket(&self) -> PathBuf {
        self.dir.path().join("redis.sock")
    }

    fn url(&self) -> String {
        format!("unix://{}", self.socket().display())
    }

    fn client(&self) -> redis::Client {
        redis::Client::open(self.url()).unwrap()
    }

    fn ask<T: FromRedisValue>(&self, command: &[&str]) -> T {
        let mut connection: Connection = self.client().get_connection().unwrap();
        redis::Cmd::new().arg(command).query(&mut connection).unwrap()
    }

    /// Seconds of a call of the tool, and its peak memory in MB.
    fn seckill(&self, args: &[&str], out: Stdio) -> (f64, f64) {
        let start = Instant::now();
        let mut call = Command::new(env!("CARGO_BIN_EXE_seckill"))
            .args(args)
            .env("SECKILL_URL", self.url())
            .stdout(out)
            .spawn()
            .unwrap();
        let status = format!("/proc/{}/status", call.id());
        let mut peak = 0.0_f64;
        let code = loop {
            if let Some(code) = call.try_wait().unwrap() {
                break code;
            }
            let text = std::fs::read_to_string(&status).unwrap_or_default();
            let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or_default();
            let kilobytes: f64 = line.split_whitespace().next().and_then(|text| text.parse().ok()).unwrap_or_default();
            peak = peak.max(kilobytes / 1024.0);
            std::thread::sleep(Duration::from_millis(10));
        };
        assert!(code.success(), "{args:?}: {code}");
        (start.elapsed().as_secs_f64(), peak)
    }

    fn preheat(&self) {
        self.ask::<String>(&["FLUSHALL", "SYNC"]);
        self.seckill(
            &["-q", "preheat", "--id", "1001", "--stock", "100000000", "--per-user-limit", "5"],
            Stdio::null(),
        );
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.process.kill().ok();
        self.process.wait().ok();
    }
}

fn file(dir: &Path, name: &str, count: usize, row: impl Fn(usize) -> String) -> String {
    let path = dir.join(name);
    let mut out = BufWriter::new(File::create(&path).unwrap());
    let header = row(0).matches(',').count();
    out.write_all(if header == 3 { b"activity,user,quantity,request\n" } else { b"activity,user,quantity\n" }).unwrap();
    for nth in 0..count {
        out.write_all(row(nth).as_bytes()).unwrap();
    }
    path.to_str().unwrap().to_owned()
}

/// Seconds of so many orders by `redis-benchmark`.
fn plain(server: &Server, count: usize) -> f64 {
    server.ask::<String>(&["FLUSHALL", "SYNC"]);
    server.ask::<String>(&["SET", "seckill:stock:1001", "100000000"]);
    let sha1: String = server.ask(&["SCRIPT", "LOAD", include_str!("plain.lua")]);
    let start = Instant::now();
    let done = Command::new("redis-benchmark")
        .args(["-q", "-c", "50", "-P", "64", "-r", "1000000000", "-n", &count.to_string(), "-s"])
        .arg(server.socket())
        .args(["EVALSHA", &sha1, "2", "seckill:stock:1001", "seckill:participants:1001", "__rand_int__", "1", "5"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    assert!(done.is_ok_and(|status| status.success()), "redis-benchmark is not on PATH");
    start.elapsed().as_secs_f64()
}

/// Seconds of so many fields by `HSET` of 256: the floor.
fn floor(server: &Server, count: usize) -> f64 {
    server.ask::<String>(&["FLUSHALL", "SYNC"]);
    let mut connection = server.client().get_connection().unwrap();
    let calls: Vec<Vec<u8>> = (0..count)
        .step_by(256)
        .map(|from| {
            let mut command = redis::cmd("HSET");
            command.arg("floor");
            for user in from..(from + 256).min(count) {
                command.arg(100_000 + user).arg(1);
            }
            command.get_packed_command()
        })
        .collect();
    let start = Instant::now();
    let mut in_flight = 0;
    for call in calls {
        connection.send_packed_command(&call).unwrap();
        in_flight += 1;
        if in_flight == 4 {
            connection.recv_response().unwrap();
            in_flight -= 1;
        }
    }
    for _ in 0..in_flight {
        connection.recv_response().unwrap();
    }
    start.elapsed().as_secs_f64()
}

fn measure(binary: &Path) {
    let count = orders();
    let dir = tempfile::tempdir().unwrap();
    let simple = file(dir.path(), "orders.csv", count, |nth| format!("1001,{},1\n", 100_000 + nth));
    let named = file(dir.path(), "requests.csv", count, |nth| format!("1001,{},1,order-{nth:09}\n", 100_000 + nth));
    let mixed = file(dir.path(), "mixed.csv", count, |nth| format!("{},{},1\n", nth * 7_919 % 10_000, 100_000 + nth));
    let server = Server::start(binary);
    let version = server.ask::<String>(&["INFO", "server"]);
    let version: Vec<&str> = version.lines().filter(|line| line.contains("_version:")).map(str::trim).collect();
    println!("{} · {count} orders · best of {ROUNDS}", version.join(" "));

    let best = |mut once: Box<dyn FnMut() -> f64 + '_>| (0..ROUNDS).map(|_| once()).fold(f64::MAX, f64::min);
    let base = best(Box::new(|| plain(&server, count)));
    let mut table = String::new();
    let mut row = |name: &str, seconds: f64, target: &str| {
        #[allow(clippy::cast_precision_loss)]
        let rate = count as f64 / seconds;
        writeln!(table, "{name:<44} {rate:>10.0} {:>7.2} {target:>7}", base / seconds).unwrap();
    };
    row("plain script, redis-benchmark -c 50 -P 64", base, "");
    let deduct = |args: &[&str], path: &str| {
        server.preheat();
        server.seckill(&[&["-q", "deduct", "--from", path], args].concat(), Stdio::null()).0
    };
    row("deduct --from", best(Box::new(|| deduct(&[], &simple))), "3.5");
    row("deduct --from --fast", best(Box::new(|| deduct(&["--fast"], &simple))), "");
    row("deduct --from, a request id on every row", best(Box::new(|| deduct(&[], &named))), "2.0");
    let rows = dir.path().join("rows.jsonl");
    let to_file = || {
        server.preheat();
        let out = Stdio::from(File::create(&rows).unwrap());
        server.seckill(&["-q", "deduct", "--from", &simple, "-o", "jsonl"], out).0
    };
    row("deduct --from -o jsonl > file", best(Box::new(to_file)), "2.5");
    let refund = || {
        deduct(&["--fast"], &simple);
        server.seckill(&["-q", "refund", "--from", &simple], Stdio::null()).0
    };
    row("refund --from", best(Box::new(refund)), "3.0");
    let many = || {
        server.ask::<String>(&["FLUSHALL", "SYNC"]);
        let list: String = (0..10_000).map(|id| format!("{id},1000000\n")).collect();
        let path = dir.path().join("activities.csv");
        std::fs::write(&path, format!("id,stock\n{list}")).unwrap();
        server.seckill(&["-q", "preheat", "--from", path.to_str().unwrap()], Stdio::null());
        server.seckill(&["-q", "deduct", "--from", &mixed], Stdio::null()).0
    };
    row("deduct --from, 10,000 activities mixed", best(Box::new(many)), "");
    let gifts = dir.path().join("gifts.jsonl");
    let gift = |nth: usize| format!("{{\"user\":{nth},\"items\":{{\"1001\":1,\"1002\":1}}}}\n");
    std::fs::write(&gifts, (0..count).map(gift).collect::<String>()).unwrap();
    let multi = || {
        server.preheat();
        server.seckill(&["-q", "preheat", "--id", "1002", "--stock", "100000000"], Stdio::null());
        server.seckill(&["-q", "multi-deduct", "--from", gifts.to_str().unwrap()], Stdio::null()).0
    };
    row("multi-deduct --from, two items an order", best(Box::new(multi)), "");
    row("floor: HSET of 256 fields", best(Box::new(|| floor(&server, count))), "");
    println!("{:<44} {:>10} {:>7} {:>7}\n{table}", "", "orders/s", "ratio", "target");

    server.preheat();
    let (_, peak) = server.seckill(&["-q", "deduct", "--from", &simple], Stdio::null());
    println!("peak memory, {count} orders: {peak:.1} MB");
    let large = file(dir.path(), "large.csv", count * 10, |nth| format!("1001,{},1\n", 100_000 + nth));
    server.preheat();
    let (seconds, peak) = server.seckill(&["-q", "deduct", "--fast", "--from", &large], Stdio::null());
    println!("peak memory, {} orders: {peak:.1} MB, in {seconds:.1} s", count * 10);
    for rate in [1_000, 20_000] {
        println!("--rate {rate}: {:.3} of it", kept_rate(&server, rate));
    }
    println!();
}

/// What share of a rate is kept: by the difference of a short run and a longer one, which both begin alike.
#[allow(clippy::cast_precision_loss)]
fn kept_rate(server: &Server, rate: usize) -> f64 {
    let dir = tempfile::tempdir().unwrap();
    let took = |count: usize| {
        let path = file(dir.path(), "paced.csv", count, |nth| format!("1001,{},1\n", 100_000 + nth));
        server.preheat();
        server.seckill(&["-q", "deduct", "--rate", &rate.to_string(), "--from", &path], Stdio::null()).0
    };
    // What the server frees of the runs before would count as slowness of the first.
    took(rate);
    let (short, long) = (took(rate), took(rate * 4));
    (rate * 3) as f64 / (long - short) / rate as f64
}
