//! `deduct`: each status of its header.

use super::{FUTURE, PAST, reply, scripts, spoil_record};
use crate::support::ledger::orders;
use crate::support::{COUPON, LAYOUTS, SKU};

#[test]
fn ok_takes_the_units_and_tells_stock_and_bought_after_it() {
    for layout in LAYOUTS {
        let (redis, mut scripts) = scripts(layout);
        scripts.preheat("1", "10");
        assert_eq!(scripts.deduct("1", ("7", "1", "r1")), reply(layout, 1, 9, 1), "{layout:?}");
        assert_eq!(redis.int(&layout.stock("1")), 9);
        assert_eq!(redis.hget(&layout.requests("1"), "r1").as_deref(), Some("7"));
        let ledger = redis.xrange(&layout.ledger("1"));
        assert_eq!(ledger.len(), 2);
        assert_eq!(orders(&ledger[1].1), [["7", "1", "r1"]]);
        assert_eq!((&*ledger[1].1["op"], &*ledger[1].1["stock"], &*ledger[1].1["by"]), ("deduct", "9", "tester"));
    }
}

#[test]
fn replayed_is_the_same_request_again_and_changes_nothing() {
    for layout in LAYOUTS {
        let (redis, mut scripts) = scripts(layout);
        scripts.preheat("1", "10");
        scripts.deduct("1", ("7", "1", "r1"));
        let before = redis.dump_all();
        assert_eq!(scripts.deduct("1", ("7", "1", "r1")), reply(layout, 2, 9, 1), "{layout:?}");
        redis.assert_unchanged_since(&before);
    }
}

#[test]
fn limit_exceeded_is_by_units_in_a_hash_and_by_orders_in_a_set() {
    for layout in LAYOUTS.into_iter().filter(|layout| layout.has_users()) {
        let (redis, mut scripts) = scripts(layout);
        scripts.preheat_with("1", "10", &[("per_user_limit", "2")]);
        let second = if layout.records_once() { "1" } else { "2" };
        scripts.deduct("1", ("7", "1", "r1"));
        let before = redis.dump_all();
        assert_eq!(scripts.deduct("1", ("7", second, "r2")), reply(layout, -2, 9, 1), "{layout:?}");
        redis.assert_unchanged_since(&before);
    }
    let (_redis, mut scripts) = scripts(COUPON);
    scripts.preheat("1", "10");
    assert_eq!(scripts.deduct("1", ("7", "2", "r1")), "-2 10 0", "two coupons at once");
}

#[test]
fn out_of_stock_leaves_what_is_left() {
    for layout in LAYOUTS {
        let (redis, mut scripts) = scripts(layout);
        scripts.preheat("1", "0");
        let before = redis.dump_all();
        assert_eq!(scripts.deduct("1", ("7", "1", "r1")), reply(layout, -3, 0, 0), "{layout:?}");
        redis.assert_unchanged_since(&before);
    }
}

#[test]
fn not_preheated_creates_no_key() {
    for layout in LAYOUTS {
        let (redis, mut scripts) = scripts(layout);
        assert_eq!(scripts.deduct("1", ("7", "1", "r1")), "-4 nil nil", "{layout:?}");
        assert!(redis.dump_all().is_empty());
    }
}

#[test]
fn not_started_ended_and_paused_refuse_purchases() {
    for layout in LAYOUTS {
        let (redis, mut scripts) = scripts(layout);
        scripts.preheat_with("later", "10", &[("starts_at", FUTURE)]);
        scripts.preheat_with("over", "10", &[("ends_at", PAST)]);
        scripts.preheat_with("open", "10", &[("starts_at", PAST), ("ends_at", FUTURE)]);
        scripts.preheat("shut", "10");
        scripts.call("pause", &layout.keys("shut"), &["paused", "tester", "", "0"]);
        let before = redis.dump_all();
        for (activity, status) in [("later", -5), ("over", -6), ("shut", -7)] {
            assert_eq!(scripts.deduct(activity, ("7", "1", "r1")), reply(layout, status, 10, 0), "{layout:?}");
        }
        redis.assert_unchanged_since(&before);
        assert_eq!(scripts.deduct("open", ("7", "1", "r1")), reply(layout, 1, 9, 1), "{layout:?}");
    }
}

#[test]
fn request_conflict_is_the_same_id_for_another_order() {
    for layout in LAYOUTS {
        let (redis, mut scripts) = scripts(layout);
        scripts.preheat("1", "10");
        scripts.deduct("1", ("7", "1", "r1"));
        let before = redis.dump_all();
        assert_eq!(scripts.deduct("1", ("7", "2", "r1")), reply(layout, -9, 9, 1), "{layout:?}: another quantity");
        assert_eq!(scripts.deduct("1", ("8", "1", "r1")), reply(layout, -9, 9, 0), "{layout:?}: another user");
        let refund = scripts.refund("1", ("7", "1", "r1"));
        assert!(refund.starts_with("-9 9"), "{layout:?}: another operation: {refund}");
        redis.assert_unchanged_since(&before);
    }
}

#[test]
fn corrupt_names_the_key_and_what_it_holds() {
    for layout in LAYOUTS {
        let (redis, mut scripts) = scripts(layout);
        scripts.preheat("1", "10");
        redis.cmd(("SET", layout.stock("1"), "abc"));
        assert_eq!(scripts.deduct("1", ("7", "1", "r1")), "-11 nil nil 1 abc", "{layout:?}");
        redis.cmd(("DEL", layout.stock("1")));
        redis.cmd(("HSET", layout.stock("1"), "a", "b"));
        assert_eq!(scripts.deduct("1", ("7", "1", "r1")), "-11 nil nil 1 nil", "{layout:?}");
        redis.cmd(("DEL", layout.stock("1")));
        redis.cmd(("SET", layout.stock("1"), "10"));
        spoil_record(&redis, layout, "1", "7");
        let expected = match layout.kind {
            "hash" => "-11 nil nil 5 1.5",
            "set" => "-11 nil nil 6 1.5",
            "coupon" => "1 9 1",
            _ => "1 9",
        };
        assert_eq!(scripts.deduct("1", ("7", "1", "r1")), expected, "{layout:?}");
    }
}

#[test]
fn a_refused_first_try_leaves_no_trace_and_a_refused_retry_is_kept() {
    for layout in LAYOUTS {
        let (redis, mut scripts) = scripts(layout);
        scripts.preheat("1", "0");
        let before = redis.dump_all();
        scripts.orders("deduct", "first", "1", &[("7", "1", "r1")]);
        redis.assert_unchanged_since(&before);
        assert_eq!(scripts.orders("deduct", "retry", "1", &[("7", "1", "r1")]), reply(layout, -3, 0, 0));
        scripts.preheat_as("update", "1", "5", &[]);
        // The first try arrives late, when there is stock again: what was reported stays true.
        assert_eq!(scripts.deduct("1", ("7", "1", "r1")), reply(layout, -3, 5, 0), "{layout:?}");
        assert_eq!(scripts.deduct("1", ("7", "1", "r2")), reply(layout, 1, 4, 1), "{layout:?}");
    }
}

#[test]
fn a_set_keeps_the_units_of_every_member() {
    let (redis, mut scripts) = scripts(SKU);
    scripts.preheat("1", "10");
    redis.cmd(("HSET", SKU.key(6, "1"), "b", "9")); // left by what a backend removed from the set
    scripts.orders("deduct", "first", "1", &[("a", "3", ""), ("b", "1", "")]);
    assert_eq!(redis.smembers("bought:1").into_iter().collect::<Vec<_>>(), ["a", "b"]);
    scripts.multi_deduct("first", "c", "", &[("1", "1")]);
    let units: Vec<String> = redis.hgetall("sku:units:1").into_iter().map(|(user, units)| user + &units).collect();
    assert_eq!(units, ["a3", "b1", "c1"]);
    scripts.orders("refund", "first", "1", &[("a", "2", ""), ("b", "1", "")]);
    let units: Vec<String> = redis.hgetall("sku:units:1").into_iter().map(|(user, units)| user + &units).collect();
    assert_eq!(units, ["a1", "c1"]);
}

#[test]
fn a_user_has_at_most_256_bytes_and_a_request_id_128() {
    for layout in LAYOUTS {
        let (redis, mut scripts) = scripts(layout);
        scripts.preheat("1", "10");
        let [user, request] = ["u".repeat(256), "r".repeat(128)];
        assert!(scripts.deduct("1", (&user, "1", &request)).starts_with("1 9"), "{layout:?}");
        assert!(scripts.refund("1", (&user, "1", &request)).contains("-9"), "{layout:?}: of the purchase");
        assert!(scripts.refund("1", (&user, "1", &request.replace('r', "s"))).starts_with("1 10"), "{layout:?}");
        let before = redis.dump_all();
        for (user, request) in [(format!("{user}u"), "r1".to_owned()), ("7".to_owned(), format!("{request}r"))] {
            for reply in [scripts.deduct("1", (&user, "1", &request)), scripts.refund("1", (&user, "1", &request))] {
                assert!(reply.contains("USAGE"), "{layout:?}: {reply}");
            }
        }
        redis.assert_unchanged_since(&before);
    }
}
