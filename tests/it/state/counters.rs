//! Counters near 2^53: bounded, refused before anything is taken, and exact to the last unit.

use super::is_corrupt;
use crate::support::layout::json_call;
use crate::support::{LAYOUTS, Scripts, TestRedis};

/// 2^53 - 1, the most that Lua counts exactly.
const MOST: &str = "9007199254740991";

#[test]
fn the_largest_stock_is_counted_to_the_last_unit() {
    for layout in LAYOUTS {
        let redis = TestRedis::start();
        json_call(&redis, layout, &format!("preheat --id 1 --stock {MOST}")).code(0);
        let row = json_call(&redis, layout, "deduct 1 --user 7").code(0).json();
        assert_eq!(row["stock"], 9_007_199_254_740_990_u64, "{layout:?}");
        assert_eq!(redis.get(&layout.stock("1")).as_deref(), Some("9007199254740990"));
        assert_eq!(redis.xrange(&layout.ledger("1"))[1].1["stock"], "9007199254740990");
        let row = json_call(&redis, layout, "refund 1 --user 7").code(0).json();
        assert_eq!(row["stock"], 9_007_199_254_740_991_u64, "{layout:?}");
        if layout.kind != "coupon" {
            json_call(&redis, layout, "deduct 1 --user 8 --quantity 1000000000").code(0);
            assert_eq!(redis.get(&layout.stock("1")).as_deref(), Some("9007198254740991"));
        }
        json_call(&redis, layout, "preheat --id 1 --stock 9007199254740990 --update").code(0);
        json_call(&redis, layout, &format!("preheat --id 1 --stock {MOST} --update")).code(0);
    }
}

#[test]
fn packed_and_multi_orders_count_large_stocks_exactly() {
    for layout in LAYOUTS {
        let redis = TestRedis::start();
        let mut scripts = Scripts::of(&redis, layout);
        scripts.preheat("1", MOST);
        let orders = [("a", "1", "1"), ("b", "1", "2"), ("c", "1", "3")];
        let reply = scripts.orders("deduct", "first", "1", &orders);
        assert!(reply.starts_with(&format!("ooo {MOST} 0")), "{layout:?}: {reply}");
        let reply = scripts.multi_deduct("first", "d", "4", &[("1", "1")]);
        assert!(reply.starts_with("1 1,9007199254740987,"), "{layout:?}: {reply}");
        assert_eq!(redis.get(&layout.stock("1")).as_deref(), Some("9007199254740987"));
    }
}

#[test]
fn a_stock_beyond_is_corrupt_not_rounded() {
    for layout in LAYOUTS {
        let redis = TestRedis::start();
        for stock in ["9007199254740992", "9223372036854775807", "99999999999999999999"] {
            redis.cmd(("SET", layout.stock("1"), stock));
            for line in ["deduct 1 --user 7", "refund 1 --user 7", "multi-deduct --user 7 1=1"] {
                is_corrupt(&redis, layout, line, &layout.stock("1"), stock);
            }
        }
    }
}

#[test]
fn what_a_user_holds_is_bounded_before_the_stock_is_taken() {
    for layout in LAYOUTS.into_iter().filter(|layout| layout.kind == "hash") {
        let redis = TestRedis::start();
        redis.cmd(("SET", layout.stock("1"), 1000));
        redis.cmd(("HSET", layout.participants("1"), "7", MOST, "8", "9223372036854775807"));
        let before = redis.dump_all();
        for line in ["deduct 1 --user 7", "multi-deduct --user 7 1=1"] {
            json_call(&redis, layout, line).code(3).stdout_has("limit_exceeded");
        }
        redis.assert_unchanged_since(&before);
        is_corrupt(&redis, layout, "deduct 1 --user 8", &layout.participants("1"), "9223372036854775807");
    }
}

#[test]
fn a_refund_never_lifts_a_stock_beyond() {
    for layout in LAYOUTS.into_iter().filter(|layout| layout.kind != "coupon") {
        let redis = TestRedis::start();
        redis.cmd(("SET", layout.stock("1"), MOST));
        match layout.kind {
            "hash" => drop(redis.cmd(("HSET", layout.participants("1"), "7", 5))),
            "set" => drop(redis.cmd(("SADD", layout.participants("1"), "7"))),
            _ => {}
        }
        let before = redis.dump_all();
        json_call(&redis, layout, "refund 1 --user 7 --quantity 1").code(3).stdout_has("exceeds_bought");
        redis.assert_unchanged_since(&before);
    }
}

#[test]
fn an_update_that_would_lift_the_stock_beyond_is_refused() {
    for layout in LAYOUTS {
        let redis = TestRedis::start();
        json_call(&redis, layout, "preheat --id 1 --stock 10").code(0);
        redis.cmd(("SET", layout.stock("1"), 20)); // outside the scripts
        let before = redis.dump_all();
        json_call(&redis, layout, &format!("preheat --id 1 --stock {MOST} --update")).code(2).stderr_has("2^53");
        redis.assert_unchanged_since(&before);
    }
}
