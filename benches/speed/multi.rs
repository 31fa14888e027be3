//! Orders of two items against a plain script that checks and takes both, one order a call.

use tempfile::TempDir;

use super::file::{benchmark, orders};
use super::server::{Server, timed};
use super::table::{Figure, pairs, print_rates};

/// Measures a file of orders of two items each.
pub fn run(server: &Server) {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("orders.jsonl");
    let order = |index: usize| format!("{{\"user\":{},\"items\":{{\"1001\":1,\"1002\":1}}}}\n", 100_000 + index);
    std::fs::write(&path, (0..orders()).map(order).collect::<String>()).unwrap();
    let file = path.to_str().unwrap();
    let ours = || {
        server.empty();
        for activity in ["1001", "1002"] {
            timed(server.seckill(&["-q", "preheat", "--id", activity, "--stock", "100000000"]));
        }
        server.metered(|| timed(server.seckill(&["-q", "multi-deduct", "--from", file])))
    };
    let baseline = || {
        server.empty();
        server.ask::<()>(&["MSET", "seckill:stock:1001", "100000000", "seckill:stock:1002", "100000000"]);
        let sha1 = server.load(include_str!("plain_multi.lua"));
        let call = [&sha1, "2", "seckill:stock:1001", "seckill:stock:1002", "1", "1"];
        server.metered(|| benchmark(server, &call, orders()))
    };
    let figure = Figure { what: "multi-deduct of two items, a plain script of both", wanted: "2.0" };
    print_rates(&figure, orders(), &pairs(ours, baseline));
}
