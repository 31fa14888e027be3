//! What each script's header promises: every status, as a single reply and in a packed one, for each kind.
//!
//! The scripts are the bytes that `seckill script show` prints, called as a backend would.

mod adopt;
mod archive;
mod bounds;
mod deduct;
mod headers;
mod jobs;
mod multi_deduct;
mod multi_jobs;
mod names;
mod others;
mod refund;
mod repair;
mod shared_calls;
mod trim;
mod upstream_lua;

use crate::support::{Layout, Scripts, TestRedis};

/// A time that has passed, and one that will not come, in Unix ms.
const PAST: &str = "1000";
const FUTURE: &str = "9000000000000";

/// One server and one layout, spoken to through the scripts.
fn scripts(layout: Layout) -> (TestRedis, Scripts) {
    let redis = TestRedis::start();
    let scripts = Scripts::of(&redis, layout);
    (redis, scripts)
}

/// A single reply's status, stock and what the user holds; the latter is there only if users are recorded.
fn reply(layout: Layout, status: i32, stock: i64, bought: i64) -> String {
    if layout.has_users() { format!("{status} {stock} {bought}") } else { format!("{status} {stock}") }
}

/// Puts what is no number into a user's record; nothing if the kind has none.
fn spoil_record(redis: &TestRedis, layout: Layout, activity: &str, user: &str) {
    match layout.kind {
        "hash" => drop(redis.cmd(("HSET", layout.participants(activity), user, "1.5"))),
        "set" => {
            redis.cmd(("SADD", layout.participants(activity), user));
            redis.cmd(("HSET", layout.key(6, activity), user, "1.5"));
        }
        _ => {}
    }
}
