//! What is found in the keys: every row of "State" in the list of faults, for each layout and each command.

mod corrupt;
mod counters;
mod ledger;
mod lost;
mod preheat;
mod refund;
mod rules;

use crate::support::layout::json_call;
use crate::support::{Layout, TestRedis};

/// A server with activities 1 (10 units; user 7 holds one) and 2.
fn sale(layout: Layout) -> TestRedis {
    let redis = TestRedis::start();
    for line in ["preheat --id 1 --stock 10", "preheat --id 2 --stock 10", "deduct 1 --user 7 --request r1"] {
        json_call(&redis, layout, line).code(0);
    }
    redis
}

/// Replaces a key by what the command makes of it: `SET`, `HSET` and so on, with the rest of its arguments.
fn put(redis: &TestRedis, key: &str, command: &str, values: &[&str]) {
    redis.cmd(("DEL", key));
    redis.cmd((command, key, values));
}

/// Runs a command that must be answered `corrupt`, naming the key and what it holds, and change nothing.
#[track_caller]
fn is_corrupt(redis: &TestRedis, layout: Layout, line: &str, key: &str, held: &str) {
    let before = redis.dump_all();
    let outcome = json_call(redis, layout, line).code(3);
    let value = outcome.json();
    let row = if value.is_array() { &value[0] } else { &value };
    let row = if row["items"].is_array() { &row["items"][0] } else { row };
    assert_eq!(row["status"], "corrupt", "{layout:?}: {line}: {}", outcome.stdout);
    let outcome = outcome.stderr_has(&format!("`{key}`"));
    outcome.stderr_has(held);
    redis.assert_unchanged_since(&before);
}

/// Every command that looks at an activity before it changes it. User 7 holds a unit, user 8 none.
const CHANGES: [&str; 7] = [
    "deduct 1 --user 7",
    "deduct 1 --user 8",
    "refund 1 --user 7",
    "multi-deduct --user 8 1=1 2=1",
    "preheat --id 1 --stock 10",
    "preheat --id 1 --stock 20 --update",
    "pause 1",
];
