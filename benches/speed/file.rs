//! Files of orders against `redis-benchmark -c 50 -P 64` that sends a shop's plain script, one order a call.

use std::fs::File;
use std::path::Path;

use tempfile::TempDir;

use super::input::{rows, scattered, uuid};
use super::server::{Run, Server, timed};
use super::table::{Figure, pairs, print_rates};

/// Enough units for every run.
const STOCK: &str = "100000000";

const ORDERS: &str = "activity,user,quantity";
/// The same with a request id.
pub const NAMED_ORDERS: &str = "activity,user,quantity,request";

/// Orders of a run.
pub fn orders() -> usize {
    super::number("SECKILL_BENCH_ORDERS", 300_000)
}

/// Measures each kind of file.
pub fn run(server: &Server) {
    let directory = TempDir::new().unwrap();
    let path = directory.path();
    let compare = |what, wanted, file: &str, preheat: &dyn Fn()| {
        against_plain(server, &Figure { what, wanted }, preheat, || deduct(server, file, &[]));
    };
    let one = || preheat(server);
    compare("file: unique users", "4.7", &unique(path, orders()), &one);
    // One order of three is of a user who has bought before.
    let buyer = |index: usize| if index % 3 == 2 { index / 3 } else { index };
    let repeat = rows(path, "repeat.csv", ORDERS, orders(), |index| format!("1001,{},1", 100_000 + buyer(index)));
    compare("file: repeat buyers, 1 of 3", "4.4", &repeat, &one);
    let quantity = |index| 1 + scattered(index) % 5;
    let random =
        rows(path, "random.csv", ORDERS, orders(), |index| format!("1001,{},{}", 100_000 + index, quantity(index)));
    compare("file: random quantities", "3.8", &random, &one);
    let ids =
        rows(path, "ids.csv", NAMED_ORDERS, orders(), |index| format!("1001,{},1,order-{index:09}", 100_000 + index));
    compare("file: sequential request ids", "2.9", &ids, &one);
    let uuids =
        rows(path, "uuids.csv", NAMED_ORDERS, orders(), |index| format!("1001,{},1,{}", 100_000 + index, uuid(index)));
    compare("file: UUIDs as request ids", "2.6", &uuids, &one);
    let without = rows(path, "without.csv", "id,stock,per_user_limit,ledger", 1, |_| format!("1001,{STOCK},5,false"));
    let unrecorded = || {
        server.empty();
        timed(server.seckill(&["-q", "preheat", "--from", &without]));
    };
    compare("file: activity without a ledger", "4.7", &unique(path, orders()), &unrecorded);

    coupons(server, path);

    let activities = rows(path, "activities.csv", "id,stock", 10_000, |id| format!("{id},1000000"));
    let row = |index| format!("{},{},1", scattered(index) % 10_000, 100_000 + index);
    let mixed = rows(path, "mixed.csv", ORDERS, orders(), row);
    let many = || {
        server.empty();
        timed(server.seckill(&["-q", "preheat", "--from", &activities]));
    };
    let wanted = if server.is_valkey() { "1.3" } else { "1.6" };
    compare("file: 10,000 activities mixed", wanted, &mixed, &many);
}

/// Measures files of a kind that has no quantities.
fn coupons(server: &Server, path: &Path) {
    let prepare = || {
        server.empty();
        timed(server.seckill(&["-q", "--layout", "coupon", "preheat", "--id", "1001", "--stock", STOCK]));
    };
    let without = rows(path, "coupons.csv", "activity,user", orders(), |index| format!("1001,{}", 100_000 + index));
    let row = |index| format!("1001,{},{}", 100_000 + index, uuid(index));
    let with = rows(path, "coupon-ids.csv", "activity,user,request", orders(), row);
    for (what, wanted, file) in [("file: coupons", "5.2", without), ("file: coupons, with UUIDs", "2.8", with)] {
        let run = || timed(server.seckill(&["-q", "--layout", "coupon", "deduct", "--from", &file]));
        against_plain(server, &Figure { what, wanted }, &prepare, run);
    }
}

/// Measures what options and other operations change.
pub fn options(server: &Server) {
    let directory = TempDir::new().unwrap();
    let file = unique(directory.path(), orders());
    let one = || preheat(server);
    let compare = |what, preheat: &dyn Fn(), run: &dyn Fn() -> f64| {
        against_plain(server, &Figure { what, wanted: "" }, preheat, run);
    };
    compare("file: --fast", &one, &|| deduct(server, &file, &["--fast"]));
    let results = directory.path().join("results.jsonl");
    compare("file: rows out, -o jsonl", &one, &|| {
        let command = server.seckill(&["-q", "deduct", "--from", &file, "-o", "jsonl"]);
        super::server::timed_into(command, File::create(&results).unwrap().into())
    });
    let sold = || {
        one();
        deduct(server, &file, &["--fast"]);
    };
    compare("file: refund", &sold, &|| timed(server.seckill(&["-q", "refund", "--from", &file])));
    compare("floor: HSET of 256 fields", &|| server.empty(), &|| floor(server));
}

/// A file of orders, each of another user.
pub fn unique(directory: &Path, count: usize) -> String {
    rows(directory, "unique.csv", ORDERS, count, |index| format!("1001,{},1", 100_000 + index))
}

/// Makes activity 1001 the only one, with a limit of 5 units a user.
pub fn preheat(server: &Server) {
    server.empty();
    timed(server.seckill(&["-q", "preheat", "--id", "1001", "--stock", STOCK, "--per-user-limit", "5"]));
}

/// Seconds to apply a file.
pub fn deduct(server: &Server, file: &str, more: &[&str]) -> f64 {
    timed(server.seckill(&[&["-q", "deduct", "--from", file], more].concat()))
}

/// Prints orders a second of a run, against those of the plain script; `prepare` comes before it and is not measured.
pub fn against_plain(server: &Server, figure: &Figure, prepare: &dyn Fn(), run: impl Fn() -> f64) {
    let ours = || {
        prepare();
        server.metered(&run)
    };
    print_rates(figure, orders(), &pairs(ours, || plain(server, orders())));
}

/// As many orders by redis-benchmark, one a call of the shops' plain script.
pub fn plain(server: &Server, orders: usize) -> Run {
    server.empty();
    server.ask::<()>(&["SET", "seckill:stock:1001", STOCK]);
    let sha1 = server.load(include_str!("plain.lua"));
    let call = [&sha1, "2", "seckill:stock:1001", "seckill:participants:1001", "__rand_int__", "1", "5"];
    server.metered(|| benchmark(server, &call, orders))
}

/// Seconds of so many calls of a script: 50 connections, 64 calls in flight on each.
pub fn benchmark(server: &Server, call: &[&str], count: usize) -> f64 {
    let count = count.to_string();
    let load = ["-q", "-c", "50", "-P", "64", "-r", "1000000000", "-n", &count, "EVALSHA"];
    timed(server.tool("redis-benchmark", &[&load[..], call].concat()))
}

/// Seconds to write as many fields, 256 a call and four calls in flight: no way to record orders is quicker.
fn floor(server: &Server) -> f64 {
    let mut connection = server.connect();
    let call = |from: usize| {
        let mut command = redis::cmd("HSET");
        command.arg("floor");
        for user in from..(from + 256).min(orders()) {
            command.arg(100_000 + user).arg(1);
        }
        command.get_packed_command()
    };
    let calls: Vec<Vec<u8>> = (0..orders()).step_by(256).map(call).collect();
    let started = std::time::Instant::now();
    for (index, call) in calls.iter().enumerate() {
        connection.send_packed_command(call).unwrap();
        if index >= 3 {
            connection.recv_response().unwrap();
        }
    }
    for _ in 0..calls.len().min(3) {
        connection.recv_response().unwrap();
    }
    started.elapsed().as_secs_f64()
}
