//! What goes wrong between the tool and a server: each fault typed, with a hint and its exit code.

mod denied;
mod hostile;
mod network;
mod refusing;
mod tls;
mod unavailable;

use crate::support::{Dump, TestRedis};

/// Every command that changes something, for activity 1 with 10 units (user 7 holds one) and activity 2.
const WRITES: [&str; 5] = [
    "deduct 1 --user 8",
    "refund 1 --user 7",
    "multi-deduct --user 8 1=1 2=1",
    "preheat --id 1 --stock 20 --update",
    "pause 1",
];

/// Makes those activities.
fn sale(redis: &TestRedis) -> Dump {
    for line in ["preheat --id 1 --stock 10", "preheat --id 2 --stock 10", "deduct 1 --user 7"] {
        redis.seckill([]).args(line.split(' ')).code(0);
    }
    redis.seckill(["script", "load"]).code(0);
    redis.dump_all()
}

/// A server with them, and all that it holds.
fn on_one_server() -> (TestRedis, Dump) {
    let redis = TestRedis::start();
    let dump = sale(&redis);
    (redis, dump)
}

/// Every write fails with that code, on stderr says this, and changes nothing.
#[track_caller]
fn all_fail(redis: &TestRedis, before: &Dump, code: i32, says: &str) {
    for line in WRITES {
        fails(redis, line, code, says);
    }
    redis.assert_unchanged_since(before);
}

/// One command fails with that code, says this on stderr, and gives a hint.
#[track_caller]
fn fails(redis: &TestRedis, line: &str, code: i32, says: &str) {
    let error = redis.seckill(["-o", "json"]).args(line.split(' ')).code(code);
    let error = error.stdout_is("").error_json();
    assert!(error["error"].as_str().unwrap().contains(says), "{line}: {error}");
    assert!(error["hint"].is_string(), "{line}: {error}");
    assert_eq!(error["code"], code);
}
