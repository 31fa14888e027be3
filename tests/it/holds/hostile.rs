//! Arguments and stored values that are not what they should be: an error or a status, and nothing changes.

use super::{LONG, WITH_USERS, quantity};
use crate::support::{LAYOUTS, PRODUCT, SECKILL, Scripts, TestRedis};

#[test]
fn arguments_that_the_headers_do_not_allow_are_usage_errors() {
    let redis = TestRedis::start();
    let mut scripts = Scripts::of(&redis, SECKILL);
    scripts.preheat("1", "10");
    let keys = SECKILL.all_keys("1");
    let before = redis.dump_all();
    let good = ["hash", "tester", "7", "1", "r", "first", "", LONG];
    for (at, values) in [
        (0, &["counter", "list", ""][..]),
        (2, &["", " 7", "7\n", "7 "]),
        (3, &["0", "-1", "1e3", "0x1", " 1", "1.5", "nan", "", "1000000001", "all"]),
        (4, &["", "r\t", "é"]),
        (5, &["", "again"]),
        (7, &["", "0", "-1", "1e3", "31536000001", "15m", "nan"]),
    ] {
        for value in values {
            let mut args = good;
            args[at] = value;
            let reply = scripts.call("hold", &keys, &args);
            assert!(reply.starts_with("ERROR USAGE hold"), "ARGV[{}] {value:?}: {reply}", at + 1);
        }
    }
    assert!(scripts.call("hold", &keys, &good[..7]).starts_with("ERROR USAGE hold"));
    assert!(scripts.call("hold", &SECKILL.keys("1"), &good).starts_with("ERROR USAGE hold"), "a key is missing");
    let good = ["hash", "tester", "r", "confirm", "", "first", ""];
    for (at, values) in [
        (0, &["counter", "list"][..]),
        (2, &["", "r\t"]),
        (3, &["", "hold", "Confirm"]),
        (4, &["m:", "x", "m:a b"]),
        (5, &["again"]),
    ] {
        for value in values {
            let mut args = good;
            args[at] = value;
            let reply = scripts.call("settle", &keys, &args);
            assert!(reply.starts_with("ERROR USAGE settle"), "ARGV[{}] {value:?}: {reply}", at + 1);
        }
    }
    for most in ["0", "501", "-1", "1e3", ""] {
        let reply = scripts.call("settle", &keys, &["hash", "tester", most, "expire"]);
        assert!(reply.starts_with("ERROR USAGE settle"), "{most:?}: {reply}");
    }
    assert!(scripts.call("settle", &SECKILL.keys("1"), &good).starts_with("ERROR USAGE settle"));
    redis.assert_unchanged_since(&before);
}

#[test]
fn what_is_stored_wrong_is_corrupt_and_nothing_changes() {
    for layout in WITH_USERS {
        let damages: [(&str, usize, &[&str]); 9] = [
            ("the stock", 1, &["SET", "stock", "1e3"]),
            ("the rules", 2, &["HSET", "meta", "rules", "live"]),
            ("the count of holds", 2, &["HSET", "meta", "holds", "-1"]),
            ("a count of holds that is too small", 2, &["HSET", "meta", "holds", "0"]),
            ("the hold", 3, &["HSET", "requests", "\th:r", "held 1e3 5 - 7"]),
            ("a state that nobody knows", 3, &["HSET", "requests", "\th:r", "open 1 5 - 7"]),
            ("the user's open units", 3, &["HSET", "requests", "\to:7", "x"]),
            ("too few open units", 3, &["HDEL", "requests", "\to:7"]),
            ("the deadlines", 0, &["SET", "deadlines", "x"]),
        ];
        let redis = TestRedis::start();
        for (what, number, damage) in damages {
            redis.cmd("FLUSHALL");
            let mut scripts = Scripts::of(&redis, layout);
            scripts.preheat("1", "10");
            assert!(scripts.hold("r", LONG).starts_with("1 "));
            let keys = layout.all_keys("1");
            let number = if number == 0 { keys.len() } else { number };
            let mut command: Vec<String> = damage.iter().map(|word| (*word).to_owned()).collect();
            command[1] = match damage[1] {
                "stock" => layout.stock("1"),
                "meta" => layout.meta("1"),
                "requests" => layout.requests("1"),
                _ => layout.deadlines("1"),
            };
            redis.cmd(command);
            let before = redis.dump_all();
            for step in ["confirm", "release", "abort"] {
                let reply = scripts.settle(step, "r");
                assert!(reply.starts_with(&format!("-11 nil nil {number} ")), "{layout:?} {what}: {step}: {reply}");
            }
            redis.assert_unchanged_since(&before);
        }
        // A counter that was evicted is not made up.
        redis.cmd("FLUSHALL");
        let mut scripts = Scripts::of(&redis, layout);
        scripts.preheat("1", "10");
        scripts.hold("r", LONG);
        redis.cmd(("DEL", layout.participants("1")));
        let before = redis.dump_all();
        for step in ["release", "confirm"] {
            assert!(scripts.settle(step, "r").starts_with("-11 nil nil "), "{layout:?} {step}");
        }
        redis.assert_unchanged_since(&before);
    }
}

#[test]
fn an_activity_that_is_not_there_or_has_no_meta_holds_nothing() {
    for layout in WITH_USERS {
        let redis = TestRedis::start();
        let mut scripts = Scripts::of(&redis, layout);
        assert!(scripts.hold("r", LONG).starts_with("-4 "));
        assert!(scripts.settle("confirm", "r").starts_with("-4 "));
        redis.cmd(("SET", layout.stock("1"), 5));
        let before = redis.dump_all();
        assert_eq!(scripts.hold("r", LONG), "-4 5 nil", "{layout:?}");
        for step in ["confirm", "release", "abort"] {
            assert_eq!(scripts.settle(step, "r"), "-4 5 nil", "{layout:?}");
        }
        redis.assert_unchanged_since(&before);
    }
}

#[test]
fn an_id_belongs_to_one_order() {
    for layout in WITH_USERS {
        let redis = TestRedis::start();
        let mut scripts = Scripts::of(&redis, layout);
        scripts.preheat("1", "10");
        let units = quantity(layout).to_string();
        scripts.deduct("1", ("8", "1", "taken"));
        assert!(scripts.hold("taken", LONG).starts_with("-9 "), "{layout:?}");
        assert!(scripts.settle("abort", "taken").starts_with("-9 "), "{layout:?}");
        scripts.hold("mine", LONG);
        assert!(scripts.deduct("1", ("7", &units, "mine")).starts_with("-9 "), "{layout:?}");
        assert!(scripts.refund("1", ("7", &units, "mine")).starts_with("-9 "), "{layout:?}");
        let other = [layout.kind, "tester", "9", &units, "mine", "first", "", LONG];
        assert!(scripts.call("hold", &layout.all_keys("1"), &other).starts_with("-9 "), "{layout:?}");
    }
}

#[test]
fn a_refused_retry_is_kept_and_a_dry_run_writes_nothing() {
    for layout in WITH_USERS {
        let redis = TestRedis::start();
        let mut scripts = Scripts::of(&redis, layout);
        scripts.preheat("1", "1");
        let keys = layout.all_keys("1");
        let mut call = |user: &str, request: &str, mode: &str| {
            scripts.call("hold", &keys, &[layout.kind, "tester", user, "1", request, mode, "", LONG])
        };
        let before = redis.dump_all();
        assert!(call("7", "r", "dry").starts_with("1 0 1"), "{layout:?}");
        redis.assert_unchanged_since(&before);
        call("7", "r", "first");
        assert!(call("8", "late", "retry").starts_with("-3 "), "{layout:?}");
        assert_eq!(redis.hget(&layout.requests("1"), "late").as_deref(), Some("-3\thold 1\t8"));
        scripts.settle("release", "r");
        let args = [layout.kind, "tester", "8", "1", "late", "first", "", LONG];
        assert!(scripts.call("hold", &keys, &args).starts_with("-3 "), "what was reported refused stays refused");
    }
}

#[test]
fn a_layout_without_users_refuses_every_command() {
    let redis = TestRedis::start();
    redis.seckill(["-l", "product", "preheat", "--id", "1", "--stock", "5"]).code(0);
    let before = redis.dump_all();
    for line in ["hold 1 --user 7 --for 15m", "confirm 1 --request r", "release 1 --request r", "expire 1"] {
        let call = redis.seckill(["-l", PRODUCT.name]).args(line.split(' ')).code(2);
        call.stderr_has("the layout `product` records no users");
    }
    redis.assert_unchanged_since(&before);
    assert_eq!(LAYOUTS.iter().filter(|layout| !layout.has_users()).count(), 1);
}
