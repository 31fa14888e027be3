//! Refunds: twice, of more than bought, of who never bought, after the end. Stock never passes the total.

use super::sale;
use crate::support::layout::json_call;
use crate::support::{LAYOUTS, Layout, TestRedis};

fn status(redis: &TestRedis, layout: Layout, line: &str) -> String {
    json_call(redis, layout, line).run().json()["status"].as_str().unwrap().to_owned()
}

#[test]
fn the_same_refund_twice_is_replayed() {
    for layout in LAYOUTS {
        let redis = sale(layout);
        assert_eq!(status(&redis, layout, "refund 1 --user 7 --request x"), "ok");
        let before = redis.dump_all();
        assert_eq!(status(&redis, layout, "refund 1 --user 7 --request x"), "replayed", "{layout:?}");
        redis.assert_unchanged_since(&before);
    }
}

#[test]
fn a_second_refund_and_one_of_more_than_bought_exceed_what_is_held() {
    for layout in LAYOUTS {
        let redis = sale(layout);
        let before = redis.dump_all();
        for line in ["refund 1 --user 7 --quantity 2", "refund 1 --user 7 --quantity 1000000000"] {
            assert_eq!(status(&redis, layout, line), "exceeds_bought", "{layout:?}: {line}");
        }
        redis.assert_unchanged_since(&before);
        assert_eq!(status(&redis, layout, "refund 1 --user 7"), "ok");
        let before = redis.dump_all();
        assert_eq!(status(&redis, layout, "refund 1 --user 7"), "exceeds_bought", "{layout:?}");
        redis.assert_unchanged_since(&before);
        assert_eq!(redis.int(&layout.stock("1")), 10);
    }
}

#[test]
fn a_user_who_never_bought_gives_nothing_back_and_no_key_is_created() {
    for layout in LAYOUTS {
        let redis = TestRedis::start();
        json_call(&redis, layout, "preheat --id 1 --stock 10").code(0);
        redis.cmd(("SET", layout.stock("foreign"), 10));
        let before = redis.dump_all();
        assert_eq!(status(&redis, layout, "refund 1 --user 9"), "exceeds_bought", "{layout:?}");
        assert_eq!(status(&redis, layout, "refund gone --user 9"), "not_preheated", "{layout:?}");
        if layout.has_users() {
            assert_eq!(status(&redis, layout, "refund 1 --user 9 --all"), "exceeds_bought", "{layout:?}");
            assert_eq!(status(&redis, layout, "refund foreign --user 9"), "exceeds_bought", "{layout:?}");
        }
        redis.assert_unchanged_since(&before);
    }
}

#[test]
fn a_refund_after_the_end_is_taken() {
    for layout in LAYOUTS {
        let redis = sale(layout);
        json_call(&redis, layout, "preheat --id 1 --stock 10 --update --ends-at 2001-01-01T00:00:00Z").code(0);
        assert_eq!(status(&redis, layout, "deduct 1 --user 8"), "ended", "{layout:?}");
        assert_eq!(status(&redis, layout, "refund 1 --user 7"), "ok", "{layout:?}");
        assert_eq!(redis.int(&layout.stock("1")), 10);
    }
}

#[test]
fn a_limit_counts_units_of_a_user_not_users() {
    for layout in LAYOUTS.into_iter().filter(|layout| layout.kind == "hash") {
        let redis = TestRedis::start();
        json_call(&redis, layout, "preheat --id 1 --stock 100 --per-user-limit 3").code(0);
        for user in 1..=5 {
            let line = |quantity| format!("deduct 1 --user {user} --quantity {quantity}");
            assert_eq!(status(&redis, layout, &line(2)), "ok", "{layout:?}");
            assert_eq!(status(&redis, layout, &line(2)), "limit_exceeded", "{layout:?}");
            assert_eq!(status(&redis, layout, &line(1)), "ok", "{layout:?}");
        }
        assert_eq!(redis.int(&layout.stock("1")), 85);
    }
}

#[test]
fn all_can_be_sent_again_and_says_null_where_nothing_was_given_back() {
    for layout in LAYOUTS.into_iter().filter(|layout| layout.has_users()) {
        let redis = sale(layout);
        let given = json_call(&redis, layout, "refund 1 --user 7 --all --request x").code(0).json();
        assert_eq!((&given["quantity"], &given["bought"]), (&1.into(), &0.into()), "{layout:?}");
        let again = json_call(&redis, layout, "refund 1 --user 7 --all --request x").code(0).json();
        assert_eq!((&again["status"], again["quantity"].is_null()), (&"replayed".into(), true), "{layout:?}");
        let nothing = json_call(&redis, layout, "refund 1 --user 7 --all").code(3).json();
        assert_eq!((&nothing["status"], nothing["quantity"].is_null()), (&"exceeds_bought".into(), true), "{layout:?}");
    }
}
