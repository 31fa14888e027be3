//! Times: the zone that the environment names, and windows from now; `sessions/times.txt` has all else.

use std::os::unix::ffi::OsStrExt;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::support::{TestRedis, seckill};

/// A sale from 2200-11-11 00:00 in Shanghai.
fn upcoming() -> TestRedis {
    let redis = TestRedis::start();
    let starts_at = "2200-11-11T00:00:00+08:00";
    redis.seckill(["preheat", "--id", "later", "--stock", "5", "--starts-at", starts_at]).code(0);
    redis
}

#[test]
fn the_zone_is_the_flag_then_the_environment() {
    let redis = upcoming();
    let order = ["deduct", "later", "--user", "7"];
    redis.seckill(order).env("TZ", "CST-8").code(3).stderr_has("at 2200-11-11T00:00:00+08:00");
    let both = redis.seckill(order).env("TZ", "Asia/Shanghai").args(["--timezone", "America/New_York"]).code(3);
    both.stderr_has("at 2200-11-10T11:00:00-05:00");
    let csv = redis.seckill(["ledger", "later", "--timezone", "Asia/Shanghai", "-o", "csv"]).code(0).stdout;
    assert!(csv.lines().nth(1).unwrap().contains("Z,preheat,"), "{csv}");
    redis.seckill(["ledger", "later"]).env("TZ", "Asia/Shanghai").code(0).stdout_has("+08:00");
}

#[test]
fn an_unknown_time_zone_is_a_usage_error() {
    seckill(["inspect", "--timezone", "Mars/Base"]).code(2).stderr_has("`Mars/Base`").stderr_has("Asia/Shanghai");
    seckill(["inspect"]).env("TZ", "Mars/Base").code(2).stderr_has("`TZ`").stderr_has("Asia/Shanghai");
    let redis = upcoming();
    redis.seckill(["inspect"]).env("TZ", "").code(0);
    redis.seckill(["inspect", "--timezone", "UTC"]).env("TZ", "Mars/Base").code(0);
}

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
    let redis = upcoming();
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
