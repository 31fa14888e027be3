//! A key that holds what it must not: `corrupt`, naming key and value, and nothing is changed.

use super::{CHANGES, is_corrupt, put, sale};
use crate::support::{LAYOUTS, Layout, TestRedis};

/// What a stock must not hold: the command that puts it there, and how the message shows it.
const BAD_STOCKS: [(&str, &[&str], &str); 12] = [
    ("SET", &["abc"], "`abc`"),
    ("SET", &["10.5"], "`10.5`"),
    ("SET", &["1e3"], "`1e3`"),
    ("SET", &[" 50"], "` 50`"),
    ("SET", &["-1"], "`-1`"),
    ("SET", &["007"], "`007`"),
    ("SET", &[""], "``"),
    ("SET", &["9007199254740992"], "`9007199254740992`"),
    ("SET", &["9223372036854775807"], "`9223372036854775807`"),
    ("HSET", &["a", "1"], "wrong type"),
    ("RPUSH", &["1"], "wrong type"),
    ("SADD", &["1"], "wrong type"),
];

#[test]
fn a_stock_that_is_no_number_is_named_by_every_command() {
    for layout in LAYOUTS {
        let redis = sale(layout);
        for (command, values, held) in BAD_STOCKS {
            let key = layout.stock("1");
            put(&redis, &key, command, values);
            // Every value for one command, and every command for a value and a type.
            let all = matches!(held, "`abc`" | "`-1`") || command == "RPUSH";
            for line in CHANGES.into_iter().chain(["inspect 1"]).take(if all { usize::MAX } else { 1 }) {
                is_corrupt(&redis, layout, line, &key, held);
            }
        }
    }
}

/// Each other key of an activity, with something of a type that it must not have.
fn wrong_types(layout: Layout) -> Vec<(usize, &'static str, &'static [&'static str])> {
    let mut wrong: Vec<(usize, &str, &[&str])> = vec![
        (2, "SET", &["{}"]),
        (2, "RPUSH", &["x"]),
        (3, "SET", &["{}"]),
        (3, "SADD", &["x"]),
        (4, "SET", &["{}"]),
        (4, "HSET", &["a", "b"]),
    ];
    match layout.kind {
        "hash" => wrong.extend([(5, "SET", &["{}"][..]), (5, "SADD", &["7"]), (5, "RPUSH", &["7"])]),
        "set" => {
            wrong.extend([(5, "SET", &["{}"][..]), (5, "HSET", &["7", "1"]), (6, "SET", &["{}"]), (6, "SADD", &["7"])])
        }
        "coupon" => wrong.extend([(5, "SET", &["{}"][..]), (5, "HSET", &["7", "1"])]),
        _ => {}
    }
    wrong
}

#[test]
fn a_key_of_a_wrong_type_is_named_before_anything_is_written() {
    for layout in LAYOUTS {
        for (number, command, values) in wrong_types(layout) {
            let redis = sale(layout);
            let key = layout.key(number, "1");
            put(&redis, &key, command, values);
            for line in CHANGES {
                // What a command does not touch does not concern it: pause no buyers and requests, preheat no units.
                let unread = (line.starts_with("pause") && matches!(number, 3 | 5 | 6))
                    || (line.starts_with("preheat") && number == 6);
                if !unread {
                    is_corrupt(&redis, layout, line, &key, "wrong type");
                }
            }
        }
    }
}

#[test]
fn one_users_record_that_is_no_number_is_named_and_the_others_go_on() {
    for layout in LAYOUTS.into_iter().filter(|layout| matches!(layout.kind, "hash" | "set")) {
        let redis = sale(layout);
        let key = if layout.kind == "hash" { layout.participants("1") } else { layout.key(6, "1") };
        let huge = "9".repeat(100);
        for (record, held) in
            [("1.5", "`1.5`"), (" 1", "` 1`"), ("-1", "`-1`"), ("1e3", "`1e3`"), ("", "``"), (&huge, "`9999999")]
        {
            redis.cmd(("HSET", &key, "7", record));
            for line in
                ["deduct 1 --user 7", "refund 1 --user 7", "refund 1 --user 7 --all", "multi-deduct --user 7 1=1 2=1"]
            {
                is_corrupt(&redis, layout, line, &key, held);
            }
        }
        redis.seckill(["deduct", "1", "--user", "8", "-l", layout.name]).code(0);
        redis.seckill(["refund", "1", "--user", "8", "-l", layout.name]).code(0);
    }
}

#[test]
fn a_string_in_place_of_coupon_holders_is_corrupt_until_a_reset() {
    let redis = TestRedis::start();
    let coupon = crate::support::COUPON;
    redis.cmd(("SET", "coupon:stock:1001", 5));
    redis.cmd(("SET", "coupon:user:1001", "{}"));
    for line in ["deduct 1001 --user 7", "refund 1001 --user 7", "inspect 1001", "preheat --id 1001 --stock 5"] {
        is_corrupt(&redis, coupon, line, "coupon:user:1001", "wrong type");
    }
    redis.seckill(["preheat", "--id", "1001", "--stock", "5", "--reset", "--yes", "-l", "coupon"]).code(0);
    redis.seckill(["deduct", "1001", "--user", "7", "-l", "coupon"]).code(0);
    assert_eq!(redis.smembers("coupon:user:1001").len(), 1);
}
