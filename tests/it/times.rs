//! Times: the zone they are shown and read in, every form a flag accepts, and what refuses an order by its window.

use std::os::unix::ffi::OsStrExt;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::support::{TestRedis, seckill};

/// A sale from 2200-11-11 00:00 to 02:00 in Shanghai, and one that is over.
fn windows() -> TestRedis {
    let redis = TestRedis::start();
    redis
        .seckill(["preheat", "--id", "later", "--stock", "5", "--starts-at", "2200-11-11T00:00:00+08:00"])
        .args(["--ends-at", "2200-11-10T18:00:00Z"])
        .code(0);
    redis.seckill(["preheat", "--id", "over", "--stock", "5", "--ends-at", "2001-01-01T00:00:00Z"]).code(0);
    redis
}

#[test]
fn tables_and_messages_have_the_zone_and_other_formats_utc() {
    let redis = windows();
    let order = ["deduct", "later", "--user", "7"];
    redis.seckill(order).code(3).stderr_has("`later` starts at 2200-11-10T16:00:00+00:00");
    redis.seckill(order).args(["--timezone", "Asia/Shanghai"]).code(3).stderr_has("at 2200-11-11T00:00:00+08:00");
    redis.seckill(order).env("TZ", "CST-8").code(3).stderr_has("at 2200-11-11T00:00:00+08:00");
    let both = redis.seckill(order).env("TZ", "Asia/Shanghai").args(["--timezone", "America/New_York"]).code(3);
    both.stderr_has("at 2200-11-10T11:00:00-05:00");
    redis.seckill(["deduct", "over", "--user", "7"]).code(3).stderr_has("`over` ended at 2001-01-01T00:00:00+00:00");
    redis.seckill(["multi-deduct", "later=1", "--user", "7"]).code(3).stderr_has("`later` starts at 2200-11-10T16");

    let shanghai = redis.seckill(["inspect", "--timezone", "Asia/Shanghai"]).code(0);
    shanghai.stdout_has("upcoming, starts 2200-11-11T00:00:00+08:00");
    let rows = redis.seckill(["inspect", "--timezone", "Asia/Shanghai", "-o", "json"]).code(0).json();
    assert_eq!(rows[0]["starts_at"], "2200-11-10T16:00:00.000Z", "{rows}");
    assert_eq!(rows[1]["ends_at"], "2001-01-01T00:00:00.000Z", "{rows}");
    let csv = redis.seckill(["ledger", "later", "--timezone", "Asia/Shanghai", "-o", "csv"]).code(0).stdout;
    assert!(csv.lines().nth(1).unwrap().contains("Z,preheat,"), "{csv}");
    redis.seckill(["ledger", "later", "--timezone", "Asia/Shanghai"]).code(0).stdout_has("+08:00");
}

#[test]
fn an_unknown_time_zone_is_a_usage_error() {
    seckill(["inspect", "--timezone", "Mars/Base"]).code(2).stderr_has("`Mars/Base`").stderr_has("Asia/Shanghai");
    seckill(["inspect"]).env("TZ", "Mars/Base").code(2).stderr_has("`TZ`").stderr_has("Asia/Shanghai");
    let redis = windows();
    redis.seckill(["inspect"]).env("TZ", "").code(0);
    redis.seckill(["inspect", "--timezone", "UTC"]).env("TZ", "Mars/Base").code(0);
}

#[test]
fn a_flag_has_a_time_in_the_zone_and_none_before_1970() {
    let redis = TestRedis::start();
    for (text, millis) in [("2026-11-11 01:00", "1794330000000"), ("1960-01-01", "0")] {
        let args = ["preheat", "--id", "7", "--stock", "5", "--reset", "--yes", "--timezone", "Asia/Shanghai"];
        redis.seckill(args).args(["--starts-at", text]).code(0);
        assert_eq!(redis.meta("seckill:meta:7")["starts_at"], millis, "{text}");
    }
    let wrong = redis.seckill(["preheat", "--id", "8", "--stock", "1", "--starts-at", "tomorrow"]).code(2);
    wrong.stderr_has("2026-11-21 10:00").stderr_has("1h (ago)");
}

#[test]
fn a_window_in_the_far_past_or_future_is_shown_as_a_time() {
    let redis = TestRedis::start();
    redis.seckill(["preheat", "--id", "7", "--stock", "5", "--starts-at", "9999-12-31T23:59:59Z"]).code(0);
    redis.seckill(["deduct", "7", "--user", "1"]).code(3).stderr_has("starts at 9999-12-31T23:59:59+00:00");
    redis
        .seckill(["preheat", "--id", "8", "--stock", "5", "--starts-at", "1950-01-01", "--ends-at", "1960-01-01"])
        .code(0);
    redis.seckill(["deduct", "8", "--user", "1"]).code(3).stdout_has("ended");
    redis.set_rule("seckill:meta:7", "starts_at", "9007199254740991");
    redis.seckill(["deduct", "7", "--user", "1"]).code(3).stderr_has("after the year 9999").stderr_lacks("90071992");
}

#[test]
fn a_ledger_is_read_and_trimmed_by_times_of_both_forms() {
    let redis = TestRedis::start();
    redis.seckill(["preheat", "--id", "7", "--stock", "5"]).code(0);
    for (since, count) in [("1h", 1), ("2026-01-01 10:00", 1), ("2200-01-01", 0)] {
        let rows = redis.seckill(["ledger", "7", "--since", since, "-o", "jsonl"]).code(0).jsonl();
        assert_eq!(rows.len(), count, "{since}");
    }
    redis.seckill(["ledger", "7", "--since", "soon"]).code(2).stderr_has("1h (ago)");
    redis.seckill(["ledger", "trim", "7", "--before", "1h", "--dry-run", "-o", "csv"]).code(0).stdout_has(",ok,0,");
    redis.seckill(["ledger", "trim", "7", "--before", "1h ago"]).code(2).stderr_has("\"2026-11-21 10:00\"");
    let audit = redis.seckill(["reconcile", "7", "--orders", "-", "--as-of", "today", "-v"]);
    audit.stdin("activity,user,quantity\n7,1,1\n").run().stderr_has("as of 20");
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
    redis
        .seckill(["preheat", "-"])
        .stdin("activities: [{id: 4, stock: 5, ends_at: 2h}]")
        .code(2)
        .stderr_has("+2h (from now)");
    redis.seckill(["preheat", "--id", "4", "--stock", "5", "--ends-at", "+2"]).code(2).stderr_has("+1h (from now)");
}

#[test]
fn a_window_that_is_over_is_warned_of_before_it_is_preheated() {
    let redis = TestRedis::start();
    let fixture = "activities: [{id: 1, stock: 5, ends_at: 2020-11-11T02:00:00Z}, {id: 2, stock: 5, ends_at: +1h}]";
    for args in [&["--dry-run"][..], &[], &[]] {
        let outcome = redis.seckill(["preheat", "-"]).args(args).stdin(fixture).run();
        outcome.stderr_has("the window of `1` ended at 2020-11-11T").stderr_lacks("window of `2`");
    }
    redis.seckill(["preheat", "--id", "1", "--update", "--ends-at", "+1h"]).code(0).stderr_lacks("nobody can buy");
    redis.seckill(["preheat", "--id", "1", "--update", "--ends-at", "1h"]).code(0).stderr_has("nobody can buy");
    redis.seckill(["deduct", "1", "--user", "7"]).code(3).stdout_has("ended");
}

#[test]
fn files_need_an_offset() {
    let redis = TestRedis::start();
    for time in ["2026-11-11", "2026-11-11 10:00", "today", "1h"] {
        let list = format!("id,stock,starts_at\n7,5,{time}\n");
        redis.seckill(["preheat", "--from", "-"]).stdin(list).code(2).stderr_has("a time with an offset");
        let fixture = format!("activities:\n  - {{id: 7, stock: 5, starts_at: \"{time}\"}}\n");
        redis.seckill(["preheat", "-"]).stdin(fixture).code(2).stderr_has("a time with an offset");
    }
    assert!(!redis.exists("seckill:stock:7"));
}

#[test]
fn a_variable_that_is_not_utf8_is_named_and_an_empty_one_is_unset() {
    let redis = windows();
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
