//! Holds: one against one deduct, and files of them and of their confirmations against `redis-benchmark` that sends a shop's
//! plain script.

use tempfile::TempDir;

use super::file::{NAMED_ORDERS, against_plain, orders, preheat};
use super::input::{rows, uuid};
use super::one::{CALLS, REQUEST, USER, busy};
use super::server::{Server, timed};
use super::table::{Figure, pairs, print};

/// Measures the server's time of one, and the orders a second of files.
pub fn run(server: &Server) {
    one(server);
    let directory = TempDir::new().unwrap();
    let path = directory.path();
    let row = |index| format!("1001,{},1,{}", 100_000 + index, uuid(index));
    let held = rows(path, "holds.csv", NAMED_ORDERS, orders(), row);
    let paid = rows(path, "payments.csv", "activity,request", orders(), |index| format!("1001,{}", uuid(index)));
    let hold = || timed(server.seckill(&["-q", "hold", "--from", &held, "--for", "1h"]));
    let figure = Figure { what: "file of hold: redis-benchmark", wanted: "" };
    against_plain(server, &figure, &|| preheat(server), hold);
    let figure = Figure { what: "file of confirm: redis-benchmark", wanted: "2.0" };
    let prepare = || {
        preheat(server);
        hold();
    };
    against_plain(server, &figure, &prepare, || timed(server.seckill(&["-q", "confirm", "--from", &paid])));
}

/// One hold and one deduct a call, each by a shop's own calls.
fn one(server: &Server) {
    let micros = |command: &str, more: &[&str]| {
        let arguments = [&[command, "1001", "--user", USER, "--request", REQUEST], more].concat();
        preheat(server);
        let call = server.observed(&arguments, "evalsha");
        let call: Vec<&str> = call[1..].iter().map(String::as_str).collect();
        preheat(server);
        timed(server.seckill(&["script", "load"]));
        let micros = busy(server, &call);
        let buyers: usize = server.ask(&["HLEN", "seckill:participants:1001"]);
        assert!(buyers > CALLS / 100 * 99, "only {buyers} of {CALLS} calls took a unit");
        micros
    };
    let figure = Figure { what: "one hold, the server's time: one deduct", wanted: "1.3" };
    let measured = pairs(|| micros("hold", &["--for", "1h"]), || micros("deduct", &[]));
    print(&figure, &measured, |micros| format!("{micros:.1} us"));
}
