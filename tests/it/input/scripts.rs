//! Values that only a client sends which checks nothing: a usage error that says which, and nothing changed. `tests/sim/one_wrong.rs` has
//! each argument, number of arguments and key that is wrong.

use super::{BAD_QUANTITIES, BAD_USERS};
use crate::support::{PRODUCT, SECKILL, Scripts, TestRedis};

#[track_caller]
fn is_usage(reply: &str, part: &str) {
    assert!(reply.starts_with("ERROR USAGE ") && reply.contains(part), "expected a usage error with {part:?}: {reply}");
}

/// All scripts include the same checks.
#[test]
fn quantities_ids_and_limits_are_what_they_look_like() {
    let redis = TestRedis::start();
    let mut scripts = Scripts::of(&redis, SECKILL);
    scripts.preheat("1", "10");
    scripts.preheat("2", "10");
    let before = redis.dump_all();
    for bad in BAD_QUANTITIES {
        is_usage(&scripts.deduct("1", ("7", bad, "r2")), "quantity of order 1");
        let second = scripts.orders("deduct", "first", "1", &[("8", "1", "r2"), ("7", bad, "r3")]);
        is_usage(&second, if bad.contains('\t') { "as many quantities" } else { "quantity of order 2" });
        is_usage(&scripts.multi_deduct("first", "8", "r2", &[("1", "1"), ("2", bad)]), "quantity of item 2");
        let limited = ["hash", "t", "7", "1", "r", "first", "", bad];
        if !bad.is_empty() {
            is_usage(&scripts.call("deduct", &SECKILL.keys("1"), &limited), "limit is not");
        }
    }
    for bad in BAD_USERS.into_iter().chain([&*"x".repeat(100_000), &*"x".repeat(257)]) {
        is_usage(&scripts.deduct("1", (bad, "1", "r2")), "user id of order 1");
    }
    for bad in ["é", "a\tb", "a\u{7f}", "a\n", &"x".repeat(129)] {
        is_usage(&scripts.deduct("1", ("8", "1", bad)), "request id of order 1");
    }
    let mut file = ["hash", "t", "8\t9", "1", "j", "d", "1", "0", ""];
    for lines in ["", "1", "1-3", "2-1", "1 1", "9 9 9", "2 1", "0 1 2", "1 x", "01 2", "1 2 3", "1--2", "1-2 3"] {
        file[8] = lines;
        is_usage(&scripts.call("deduct", &SECKILL.keys("1"), &file), "lines of the job");
    }
    // Each check would pass alone, and 12 of 10 would be sold.
    is_usage(&scripts.multi_deduct("first", "8", "r2", &[("1", "6"), ("1", "6")]), "twice");
    is_usage(&Scripts::of(&redis, PRODUCT).refund("1", ("7", "all", "r2")), "all");
    redis.assert_unchanged_since(&before);
}

#[test]
fn large_calls_are_served_up_to_a_bound() {
    let redis = TestRedis::start();
    let mut scripts = Scripts::of(&redis, SECKILL);
    let users: Vec<String> = (0..2000).map(|user| format!("u{user}")).collect();
    let items: Vec<_> = users[..513].iter().map(|activity| (activity.as_str(), "1")).collect();
    is_usage(&scripts.multi_deduct("first", "7", "r2", &items), "more than 512 activities");
    scripts.preheat("full", "5000");
    let orders: Vec<_> = users.iter().map(|user| (user.as_str(), "1", user.as_str())).collect();
    let reply = scripts.orders("deduct", "first", "full", &orders);
    assert!(reply.starts_with(&format!("{} 5000 0 1 1", "o".repeat(2000))), "{}", &reply[..100.min(reply.len())]);
    assert_eq!(redis.int(&SECKILL.stock("full")), 3000);
    let orders: Vec<_> = users.iter().map(|user| (user.as_str(), "1", "")).collect();
    assert!(scripts.orders("refund", "first", "full", &orders).starts_with(&"o".repeat(2000)));
    assert!(!redis.exists(&SECKILL.participants("full")));
}
