//! One order a call: what it costs the server, against a plain script.

use super::file::{benchmark, plain};
use super::server::{Server, timed};
use super::table::{Figure, pairs, print};

/// Calls of a run.
pub const CALLS: usize = 60_000;

/// What redis-benchmark replaces by a number, in a user's and a request's id: hardly any order is sent twice.
pub const USER: &str = "__rand_int__";
pub const REQUEST: &str = "0198c0de-7000-7000-8000-__rand_int__";

/// A kind of order.
struct Form {
    what: &'static str,
    layout: &'static str,
    preheated: &'static [&'static str],
    ordered: &'static [&'static str],
    wanted: &'static str,
}

const fn form(what: &'static str, layout: &'static str, wanted: &'static str) -> Form {
    Form { what, layout, preheated: &[], ordered: &[], wanted }
}

const WINDOW: &[&str] = &["--starts-at", "2020-01-01", "--ends-at", "2099-01-01"];
const FORMS: &[Form] = &[
    form("one deduct, hash", "seckill", "1.9"),
    Form { preheated: WINDOW, ..form("  with a window", "seckill", "2.1") },
    Form { ordered: &["--reason", "a phone order"], ..form("  with a reason", "seckill", "2.0") },
    form("one deduct, set", "sku", "1.95"),
    form("one deduct, coupon", "coupon", "1.85"),
    form("one deduct, counter", "product", "1.55"),
];

/// Measures the processor time of the server's main thread, against the plain script's on the `seckill` keys.
pub fn run(server: &Server) {
    for Form { what, layout, preheated, ordered, wanted } in FORMS {
        let empty = || {
            server.empty();
            let line = ["-q", "--layout", layout, "preheat", "--id", "1001", "--stock", "100000000"];
            timed(server.seckill(&[&line, *preheated].concat()));
        };
        empty();
        let buyer: &[&str] = if *layout == "product" { &[] } else { &["--user", USER] };
        let order = ["--layout", layout, "deduct", "1001", "--request", REQUEST];
        let call = server.observed(&[&order, buyer, *ordered].concat(), "evalsha");
        let call: Vec<&str> = call[1..].iter().map(String::as_str).collect();
        let ours = || {
            empty();
            timed(server.seckill(&["--layout", layout, "script", "load"]));
            let stock = || server.ask::<usize>(&["GET", call[2]]);
            let before = stock();
            let micros = busy(server, &call);
            let sold = before - stock();
            assert!(sold > CALLS / 100 * 99, "only {sold} of {CALLS} orders were sold");
            micros
        };
        let baseline = || plain(server, CALLS).busy * 1e6 / CALLS as f64;
        print(&Figure { what, wanted }, &pairs(ours, baseline), |micros| format!("{micros:.1} us"));
    }
}

/// Microseconds of the server for each call.
pub fn busy(server: &Server, call: &[&str]) -> f64 {
    server.metered(|| benchmark(server, call, CALLS)).busy * 1e6 / CALLS as f64
}
