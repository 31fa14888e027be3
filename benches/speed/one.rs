//! One order a call: what it costs the server, against a plain script.

use super::file::{benchmark, preheat};
use super::server::Server;
use super::table::{Figure, pairs, print};

/// Calls of a run.
pub const CALLS: usize = 60_000;

/// What redis-benchmark replaces by a number, in a user's and a request's id: hardly any order is sent twice.
pub const USER: &str = "__rand_int__";
pub const REQUEST: &str = "0198c0de-7000-7000-8000-__rand_int__";

/// Measures the processor time of the server's main thread.
pub fn run(server: &Server) {
    preheat(server);
    let call = server.observed(&["deduct", "1001", "--user", USER, "--request", REQUEST], "evalsha");
    let call: Vec<&str> = call[1..].iter().map(String::as_str).collect();
    let text = server.seckill(&["script", "show", "deduct"]).output().unwrap().stdout;
    let ours = || {
        preheat(server);
        server.load(std::str::from_utf8(&text).unwrap());
        let micros = busy(server, &call);
        let buyers: usize = server.ask(&["HLEN", "seckill:participants:1001"]);
        assert!(buyers > CALLS / 100 * 99, "only {buyers} of {CALLS} orders were sold");
        micros
    };
    let baseline = || {
        server.empty();
        server.ask::<()>(&["SET", "seckill:stock:1001", "100000000"]);
        let sha1 = server.load(include_str!("plain.lua"));
        busy(server, &[&sha1, "2", "seckill:stock:1001", "seckill:participants:1001", USER, "1", "5"])
    };
    let figure = Figure { what: "one deduct, the server's time: a plain script", before: "2.25", wanted: "2.0" };
    print(&figure, &pairs(ours, baseline), |micros| format!("{micros:.1} us"));
}

/// Microseconds of the server for each call.
pub fn busy(server: &Server, call: &[&str]) -> f64 {
    let before = server.busy();
    benchmark(server, call, CALLS);
    (server.busy() - before) * 1e6 / CALLS as f64
}
