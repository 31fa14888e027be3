//! `seckill deduct` from start to end, against redis-cli that calls a plain script.

use std::path::Path;
use std::process::Command;

use super::file::preheat;
use super::server::{Server, timed};
use super::table::{Figure, pairs, print, skipped};

/// Processes of a run. One alone is too short to measure.
const PROCESSES: usize = 60;

/// Measures the static binary, if there is one, and the plain one.
pub fn run(server: &Server) {
    let figure = Figure { what: "process, static build: redis-cli EVALSHA", wanted: "0.28" };
    match std::env::var_os("SECKILL_BENCH_STATIC").filter(|path| !path.is_empty()) {
        Some(path) => compare(server, &figure, Path::new(&path)),
        None => skipped(&figure, "no static binary; `make bench` builds one on Linux"),
    }
    let figure = Figure { what: "process, plain build: redis-cli EVALSHA", wanted: "0.40" };
    compare(server, &figure, Path::new(env!("CARGO_BIN_EXE_seckill")));
}

fn compare(server: &Server, figure: &Figure, binary: &Path) {
    preheat(server);
    timed(server.seckill(&["script", "load"]));
    let sha1 = server.load(include_str!("plain.lua"));
    let (mut ours, mut theirs) = (0, 0);
    let deduct = || {
        average(|| {
            ours += 1;
            let user = format!("a{ours}");
            let mut command = Command::new(binary);
            command.env_clear().args(["--url", &server.url(), "deduct", "1001", "--user", &user]);
            command
        })
    };
    let redis_cli = || {
        average(|| {
            theirs += 1;
            let user = format!("b{theirs}");
            let call = ["evalsha", &sha1, "2", "seckill:stock:1001", "seckill:participants:1001", &user, "1", "5"];
            server.tool("redis-cli", &call)
        })
    };
    print(figure, &pairs(deduct, redis_cli), |seconds| format!("{:.2} ms", seconds * 1e3));
}

/// Seconds of a process, the mean of many.
fn average(mut command: impl FnMut() -> Command) -> f64 {
    (0..PROCESSES).map(|_| timed(command())).sum::<f64>() / PROCESSES as f64
}
