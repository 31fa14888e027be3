//! Arguments and stored values that are not what they should be: an error or a status, and nothing changes.

use super::{LONG, WITH_USERS, quantity};
use crate::support::{LAYOUTS, PRODUCT, Scripts, TestRedis};

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
