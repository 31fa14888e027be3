//! Windows from now, and variables of the environment that are not UTF-8; `sessions/times.txt` has all else of times.

use std::os::unix::ffi::OsStrExt;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::support::{TestRedis, seckill};

#[test]
fn a_window_may_be_given_from_now_in_fixtures_lists_and_flags() {
    let redis = TestRedis::start();
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis();
    let before = now();
    let fixture = "activities:\n  - {id: 1, stock: 5, starts_at: +0s, ends_at: +2h}\n";
    redis.seckill(["preheat", "-"]).stdin(fixture).code(0).stderr_lacks("nobody can buy");
    let list = "id,stock,starts_at,ends_at\n2,5,+0s,+2h\n";
    redis.seckill(["preheat", "--from", "-"]).stdin(list).code(0);
    redis.seckill(["preheat", "--id", "3", "--stock", "5", "--starts-at", "+0s", "--ends-at", "+2h"]).code(0);
    let after = now();
    for id in ["1", "2", "3"] {
        let meta = redis.meta(&format!("seckill:meta:{id}"));
        let [start, end]: [u128; 2] = ["starts_at", "ends_at"].map(|field| meta[field].parse().unwrap());
        assert!((before..=after).contains(&start), "{id}: {meta:?}");
        assert!((before + 7_200_000..=after + 7_200_000).contains(&end), "{id}: {meta:?}");
    }
}

#[test]
fn a_variable_that_is_not_utf8_is_named_and_an_empty_one_is_unset() {
    let redis = TestRedis::selling("later", 5);
    let bad = std::ffi::OsStr::from_bytes(b"\xff");
    for name in ["SECKILL_URL", "SECKILL_OUTPUT", "SECKILL_TIMEOUT", "SECKILL_LAYOUT", "SECKILL_PASSWORD", "TZ"] {
        redis.seckill(["inspect"]).os_env(name, bad).code(2).stderr_has(&format!("`{name}`"));
    }
    redis.seckill(["pause", "later"]).os_env("SECKILL_OPERATOR", bad).code(2).stderr_has("`SECKILL_OPERATOR`");
    redis.seckill(["inspect", "-o", "csv", "--timeout", "9s"]).os_env("SECKILL_OUTPUT", bad).code(0);
    let mut call = redis.seckill(["inspect"]);
    for name in ["SECKILL_OUTPUT", "SECKILL_TIMEOUT", "SECKILL_LAYOUT", "SECKILL_PASSWORD", "REDISCLI_AUTH", "TZ"] {
        call = call.env(name, "");
    }
    call.code(0).stdout_has("ACTIVITY");
    let url = redis.url();
    seckill(["inspect"]).env("SECKILL_URL", "").env("REDIS_URL", &url).code(0);
    for (name, expected) in [("SECKILL_OUTPUT", "jsonl"), ("SECKILL_TIMEOUT", "500ms"), ("SECKILL_LAYOUT", "coupon")] {
        redis.seckill(["inspect"]).env(name, "nonsense").code(2).stderr_has(name).stderr_has(expected);
    }
}
