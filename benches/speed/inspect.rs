//! `inspect --all` of a large sale against HGETALL.

use super::audit::fill;
use super::other::waits;
use super::server::{Server, peak, timed};
use super::table::{Figure, pairs, print};

/// Measures its time and memory, and the longest wait of another client.
pub fn run(server: &Server) {
    let directory = tempfile::TempDir::new().unwrap();
    fill(server, directory.path(), super::number("SECKILL_BENCH_USERS", 1_000_000));
    let ours = |format: &str| server.seckill(&["inspect", "1001", "--all", "-o", format]);
    let hgetall = || server.tool("redis-cli", &["HGETALL", "seckill:participants:1001"]);
    let figure = |what, wanted| Figure { what, wanted };
    let seconds = |seconds: f64| format!("{seconds:.2} s");
    for (what, format) in [("inspect --all, csv: HGETALL", "csv"), ("inspect --all, a table: HGETALL", "table")] {
        print(&figure(what, "1"), &pairs(|| timed(ours(format)), || timed(hgetall())), seconds);
    }
    let longest = |command| *waits(server, || timed(command)).last().unwrap();
    let measured = pairs(|| longest(ours("csv")), || longest(hgetall()));
    print(&figure("  longest wait of another client", "5 ms"), &measured, |seconds| format!("{:.1} ms", seconds * 1e3));
    let measured = pairs(|| peak(ours("table")), || peak(hgetall()));
    print(&figure("  peak memory", "8 MB"), &measured, |megabytes| format!("{megabytes:.1} MB"));
}
