//! `bench` against the tools whose work it does: redis-benchmark with the same script and clients, and `deduct --from`.

use tempfile::TempDir;

use super::file::{deduct, orders, preheat, unique};
use super::one::{REQUEST, USER};
use super::server::Server;
use super::table::{Figure, pairs, print};

/// Clients of each run.
const CLIENTS: &str = "1000";
/// Orders of a run, one a call.
const CALLS: u64 = 100_000;

/// Measures orders a second.
pub fn run(server: &Server) {
    preheat(server);
    let call = server.observed(&["deduct", "1001", "--user", USER, "--request", REQUEST], "evalsha");
    let text = server.seckill(&["script", "show", "deduct"]).output().unwrap().stdout;
    let calls = CALLS.to_string();
    let benchmark = || {
        preheat(server);
        server.load(std::str::from_utf8(&text).unwrap());
        let options = ["-c", CLIENTS, "-n", &calls, "-r", "100000000", "--csv"];
        let mut command = server.tool("redis-benchmark", &options);
        let out = command.args(&call).output().unwrap();
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        per_second(&String::from_utf8(out.stdout).unwrap())
    };
    let figure = Figure { what: "bench lua, 1,000 clients: redis-benchmark", wanted: "0.95" };
    print(&figure, &pairs(|| bench(server, "lua", CALLS), benchmark), thousands);

    let directory = TempDir::new().unwrap();
    let file = unique(directory.path(), orders());
    let from_file = || {
        preheat(server);
        orders() as f64 / deduct(server, &file, &[])
    };
    let figure = Figure { what: "bench batch, 1,000 clients: deduct --from", wanted: "0.95" };
    print(&figure, &pairs(|| bench(server, "batch", orders() as u64), from_file), thousands);
}

/// Orders a second of one strategy, each of another user.
fn bench(server: &Server, strategy: &str, orders: u64) -> f64 {
    server.empty();
    let orders = orders.to_string();
    let line = ["bench", "--yes", "--clients", CLIENTS, "--strategy", strategy, "-o", "json", "--users", &orders];
    let out = server.seckill(&line).output().unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let rows: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    rows[0]["qps"].as_f64().unwrap()
}

/// The second field of the last line: `"EVALSHA …","51234.56",…`.
fn per_second(csv: &str) -> f64 {
    let row = csv.lines().last().unwrap_or_default();
    let field = row.rsplit("\",\"").nth(6).unwrap_or_else(|| panic!("what redis-benchmark printed: {csv}"));
    field.trim_matches('"').parse().unwrap_or_else(|_| panic!("no rate: {csv}"))
}

fn thousands(rate: f64) -> String {
    format!("{:.1} k/s", rate / 1000.0)
}
