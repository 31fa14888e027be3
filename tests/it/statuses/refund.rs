//! `refund`: each status of its header.

use super::{FUTURE, PAST, scripts, spoil_record};
use crate::support::ledger::orders;
use crate::support::{LAYOUTS, Layout, SECKILL};

/// A single reply: status, stock, what the user holds and how much was asked for.
fn reply(layout: Layout, status: i32, stock: i64, bought: i64, quantity: i64) -> String {
    if layout.has_users() { format!("{status} {stock} {bought} {quantity}") } else { format!("{status} {stock}") }
}

#[test]
fn ok_gives_the_units_back_and_who_holds_none_is_no_participant() {
    for layout in LAYOUTS {
        let (redis, mut scripts) = scripts(layout);
        scripts.preheat("1", "10");
        scripts.deduct("1", ("7", "1", "r1"));
        assert_eq!(scripts.refund("1", ("7", "1", "r2")), reply(layout, 1, 10, 0, 1), "{layout:?}");
        assert_eq!(redis.int(&layout.stock("1")), 10);
        if layout.has_users() {
            assert!(!redis.exists(&layout.participants("1")));
        }
        let (_, entry) = &redis.xrange(&layout.ledger("1"))[2];
        assert_eq!((&*entry["op"], &*entry["stock"]), ("refund", "10"));
        assert_eq!(orders(entry), [["7", "1", "r2"]]);
    }
}

#[test]
fn all_gives_back_what_the_user_holds_and_tells_how_much_that_was() {
    for layout in LAYOUTS.into_iter().filter(|layout| layout.has_users()) {
        let (redis, mut scripts) = scripts(layout);
        scripts.preheat("1", "10");
        let units = if layout.kind == "coupon" { "1" } else { "3" };
        scripts.deduct("1", ("7", units, "r1"));
        let expected = format!("1 10 0 {units}");
        assert_eq!(scripts.refund("1", ("7", "all", "r2")), expected, "{layout:?}");
        assert_eq!(orders(&redis.xrange(&layout.ledger("1"))[2].1), [["7", units, "r2"]]);
        assert!(scripts.refund("1", ("7", "all", "r3")).starts_with("-8 10 0"), "{layout:?}: nothing is left");
    }
}

#[test]
fn replayed_is_the_same_refund_again() {
    for layout in LAYOUTS {
        let (redis, mut scripts) = scripts(layout);
        scripts.preheat("1", "10");
        scripts.deduct("1", ("7", "1", "r1"));
        scripts.refund("1", ("7", "1", "r2"));
        let before = redis.dump_all();
        assert_eq!(scripts.refund("1", ("7", "1", "r2")), reply(layout, 2, 10, 0, 1), "{layout:?}");
        redis.assert_unchanged_since(&before);
    }
}

#[test]
fn not_preheated_creates_no_key() {
    for layout in LAYOUTS {
        let (redis, mut scripts) = scripts(layout);
        assert_eq!(scripts.refund("1", ("7", "1", "r1")), "-4 nil nil", "{layout:?}");
        assert!(redis.dump_all().is_empty());
    }
}

#[test]
fn exceeds_bought_is_more_than_the_user_holds_or_than_was_sold() {
    for layout in LAYOUTS {
        let (redis, mut scripts) = scripts(layout);
        scripts.preheat("1", "10");
        scripts.deduct("1", ("7", "1", "r1"));
        let before = redis.dump_all();
        assert_eq!(scripts.refund("1", ("7", "2", "r2")), reply(layout, -8, 9, 1, 2), "{layout:?}");
        if layout.has_users() {
            assert_eq!(scripts.refund("1", ("8", "1", "r3")), "-8 9 0 1", "{layout:?}: never bought");
        }
        redis.assert_unchanged_since(&before);
    }
    // A counter that was raised outside the scripts: the stock would pass the total.
    let (redis, mut scripts) = scripts(SECKILL);
    scripts.preheat("1", "10");
    redis.cmd(("HSET", SECKILL.participants("1"), "7", "2"));
    assert_eq!(scripts.refund("1", ("7", "2", "r1")), "-8 10 2 2");
}

#[test]
fn request_conflict_is_the_same_id_for_another_refund() {
    for layout in LAYOUTS {
        let (redis, mut scripts) = scripts(layout);
        scripts.preheat("1", "10");
        scripts.deduct("1", ("7", "1", "r1"));
        let before = redis.dump_all();
        assert_eq!(scripts.refund("1", ("7", "1", "r1")), reply(layout, -9, 9, 1, 1), "{layout:?}");
        redis.assert_unchanged_since(&before);
    }
}

#[test]
fn corrupt_names_the_key_and_what_it_holds() {
    for layout in LAYOUTS {
        let (redis, mut scripts) = scripts(layout);
        scripts.preheat("1", "10");
        scripts.deduct("1", ("7", "1", "r1"));
        spoil_record(&redis, layout, "1", "7");
        let key = match layout.kind {
            "hash" => Some(5),
            "set" => Some(6),
            _ => None,
        };
        if let Some(key) = key {
            assert_eq!(scripts.refund("1", ("7", "1", "r2")), format!("-11 nil nil {key} 1.5"), "{layout:?}");
        }
        redis.cmd(("SET", layout.stock("1"), " 9"));
        assert_eq!(scripts.refund("1", ("7", "1", "r2")), "-11 nil nil 1  9", "{layout:?}");
    }
}

#[test]
fn refunds_go_on_while_a_sale_is_paused_or_over() {
    for layout in LAYOUTS {
        let (_redis, mut scripts) = scripts(layout);
        scripts.preheat("1", "10");
        scripts.orders("deduct", "first", "1", &[("7", "1", "r1"), ("8", "1", "r2"), ("9", "1", "r3")]);
        scripts.call("pause", &layout.keys("1"), &["paused", "tester", "", "0"]);
        assert_eq!(scripts.refund("1", ("7", "1", "r4")), reply(layout, 1, 8, 0, 1), "{layout:?}: paused");
        scripts.preheat_as("update", "1", "10", &[("starts_at", FUTURE)]);
        assert_eq!(scripts.refund("1", ("8", "1", "r5")), reply(layout, 1, 9, 0, 1), "{layout:?}: not started");
        scripts.preheat_as("update", "1", "10", &[("starts_at", "1"), ("ends_at", PAST)]);
        assert_eq!(scripts.refund("1", ("9", "1", "r6")), reply(layout, 1, 10, 0, 1), "{layout:?}: ended");
    }
}

#[test]
fn a_refused_retry_is_kept_and_dry_writes_nothing() {
    for layout in LAYOUTS {
        let (redis, mut scripts) = scripts(layout);
        scripts.preheat("1", "10");
        let before = redis.dump_all();
        scripts.orders("refund", "first", "1", &[("7", "1", "r1")]);
        redis.assert_unchanged_since(&before);
        scripts.orders("refund", "retry", "1", &[("7", "1", "r1")]);
        scripts.deduct("1", ("7", "1", "r2"));
        let before = redis.dump_all();
        assert_eq!(scripts.refund("1", ("7", "1", "r1")), reply(layout, -8, 9, 1, 1), "{layout:?}");
        let dry = scripts.orders("refund", "dry", "1", &[("7", "1", "r3")]);
        assert_eq!(dry, reply(layout, 1, 10, 0, 1), "{layout:?}");
        redis.assert_unchanged_since(&before);
    }
}
