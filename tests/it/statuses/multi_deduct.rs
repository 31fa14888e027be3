//! `multi_deduct`: each status of its header, of the order and of its items.

use super::{FUTURE, PAST, scripts};
use crate::support::ledger::orders;
use crate::support::{LAYOUTS, Layout};

/// One item of a reply.
fn item(layout: Layout, status: i32, stock: i64, bought: i64) -> String {
    if layout.has_users() { format!("{status},{stock},{bought}") } else { format!("{status},{stock},") }
}

#[test]
fn ok_takes_all_and_writes_a_deduct_into_each_ledger() {
    for layout in LAYOUTS {
        let (redis, mut scripts) = scripts(layout);
        scripts.preheat("1", "10");
        scripts.preheat("2", "5");
        let reply = scripts.multi_deduct("first", "7", "r1", &[("1", "1"), ("2", "1")]);
        assert_eq!(reply, format!("1 {} {}", item(layout, 1, 9, 1), item(layout, 1, 4, 1)), "{layout:?}");
        for (activity, stock) in [("1", "9"), ("2", "4")] {
            let (_, entry) = &redis.xrange(&layout.ledger(activity))[1];
            assert_eq!((&*entry["op"], &*entry["stock"]), ("deduct", stock));
            assert_eq!(orders(entry), [["7", "1", "r1"]]);
            assert_eq!(redis.get(&layout.stock(activity)).as_deref(), Some(stock));
            assert!(redis.hget(&layout.requests(activity), "r1").is_some());
        }
    }
}

#[test]
fn replayed_is_the_same_request_again() {
    for layout in LAYOUTS {
        let (redis, mut scripts) = scripts(layout);
        scripts.preheat("1", "10");
        scripts.preheat("2", "5");
        scripts.multi_deduct("first", "7", "r1", &[("1", "1"), ("2", "1")]);
        let before = redis.dump_all();
        let expected = |a: usize, b: usize| {
            let items = [item(layout, 2, 9, 1), item(layout, 2, 4, 1)];
            format!("2 {} {}", items[a], items[b])
        };
        assert_eq!(scripts.multi_deduct("first", "7", "r1", &[("1", "1"), ("2", "1")]), expected(0, 1), "{layout:?}");
        assert_eq!(scripts.multi_deduct("first", "7", "r1", &[("2", "1"), ("1", "1")]), expected(1, 0), "{layout:?}");
        redis.assert_unchanged_since(&before);
    }
}

#[test]
fn refused_takes_nothing_and_names_every_item_that_falls_short() {
    for layout in LAYOUTS {
        let (redis, mut scripts) = scripts(layout);
        scripts.preheat("fine", "10");
        scripts.preheat("empty", "0");
        scripts.preheat_with("later", "10", &[("starts_at", FUTURE)]);
        scripts.preheat_with("over", "10", &[("ends_at", PAST)]);
        scripts.preheat("shut", "10");
        scripts.call("pause", &layout.keys("shut"), &["paused", "tester", "", "0"]);
        scripts.preheat("odd", "10");
        redis.cmd(("SET", layout.stock("odd"), "1e3"));
        let before = redis.dump_all();
        let names = ["fine", "empty", "later", "over", "shut", "gone", "odd"];
        let reply = scripts.multi_deduct("first", "7", "r1", &names.map(|name| (name, "1")));
        let key = 6 * layout.key_count() + 1;
        let expected = [
            item(layout, -1, 10, 0),
            item(layout, -3, 0, 0),
            item(layout, -5, 10, 0),
            item(layout, -6, 10, 0),
            item(layout, -7, 10, 0),
            "-4,,".to_owned(),
            format!("-11,{key},316533"), // KEYS[key] holds `1e3`, in hexadecimal
        ];
        assert_eq!(reply, format!("-1 {}", expected.join(" ")), "{layout:?}");
        redis.assert_unchanged_since(&before);
    }
}

#[test]
fn request_conflict_is_another_order_or_one_known_in_part() {
    for layout in LAYOUTS {
        let (redis, mut scripts) = scripts(layout);
        for activity in ["1", "2", "3"] {
            scripts.preheat(activity, "10");
        }
        scripts.multi_deduct("first", "7", "r1", &[("1", "1"), ("2", "1")]);
        scripts.deduct("3", ("7", "1", "r2"));
        let before = redis.dump_all();
        for (request, items) in
            [("r1", [("1", "1"), ("2", "2")]), ("r1", [("1", "1"), ("3", "1")]), ("r2", [("3", "1"), ("1", "1")])]
        {
            let reply = scripts.multi_deduct("first", "7", request, &items);
            let all_conflict = reply.split(' ').skip(1).all(|item| item.starts_with("-9,"));
            assert!(reply.starts_with("-1 ") && all_conflict, "{layout:?} {request} {items:?}: {reply}");
        }
        assert!(scripts.deduct("1", ("7", "1", "r1")).starts_with("-9 "), "{layout:?}: as a single order");
        redis.assert_unchanged_since(&before);
    }
}

#[test]
fn a_refused_retry_is_kept_on_every_activity_that_is_there() {
    for layout in LAYOUTS {
        let (redis, mut scripts) = scripts(layout);
        scripts.preheat("1", "10");
        scripts.preheat("2", "0");
        let before = redis.dump_all();
        let items = [("1", "1"), ("2", "1"), ("gone", "1")];
        scripts.multi_deduct("first", "7", "r1", &items);
        scripts.multi_deduct("dry", "7", "r1", &items);
        redis.assert_unchanged_since(&before);
        scripts.multi_deduct("retry", "7", "r1", &items);
        assert!(redis.hget(&layout.requests("1"), "r1").is_some());
        assert!(!redis.exists(&layout.requests("gone")));
        scripts.preheat_as("update", "2", "5", &[]);
        scripts.preheat("gone", "5");
        let late = scripts.multi_deduct("first", "7", "r1", &items);
        assert!(late.starts_with("-1 "), "{layout:?}: the first try comes late: {late}");
        assert_eq!(redis.int(&layout.stock("1")), 10);
    }
}
