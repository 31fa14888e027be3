//! The same values sent by a client that checks nothing: a usage error that says which, and nothing changed.

use super::{BAD_QUANTITIES, BAD_USERS};
use crate::support::scripts::SCRIPTS;
use crate::support::{Dump, LAYOUTS, Layout, SECKILL, Scripts, TestRedis};

/// A server with activities 1 and 2; user 7 holds a unit of the first.
fn sale(layout: Layout) -> (TestRedis, Scripts, Dump) {
    let redis = TestRedis::start();
    let mut scripts = Scripts::of(&redis, layout);
    scripts.preheat("1", "10");
    scripts.preheat("2", "10");
    scripts.deduct("1", ("7", "1", "r1"));
    let before = redis.dump_all();
    (redis, scripts, before)
}

#[track_caller]
fn is_usage(reply: &str, part: &str) {
    assert!(reply.starts_with("ERROR USAGE ") && reply.contains(part), "expected a usage error with {part:?}: {reply}");
}

#[test]
fn a_quantity_is_plain_digits() {
    for layout in LAYOUTS {
        let (redis, mut scripts, before) = sale(layout);
        for bad in BAD_QUANTITIES {
            for script in ["deduct", "refund"] {
                for mode in ["first", "retry", "dry"] {
                    is_usage(&scripts.orders(script, mode, "1", &[("7", bad, "r2")]), "quantity of order 1");
                }
                let second = scripts.orders(script, "first", "1", &[("8", "1", "r2"), ("7", bad, "r3")]);
                is_usage(&second, if bad.contains('\t') { "as many quantities" } else { "quantity of order 2" });
            }
            is_usage(&scripts.multi_deduct("first", "8", "r2", &[("1", "1"), ("2", bad)]), "quantity of item 2");
        }
        redis.assert_unchanged_since(&before);
    }
}

#[test]
fn a_user_id_is_bounded_and_has_no_control_characters() {
    for layout in LAYOUTS {
        let (redis, mut scripts, before) = sale(layout);
        let (huge, long) = ("x".repeat(100_000), "x".repeat(257));
        for bad in BAD_USERS.into_iter().chain([&*huge, &*long]) {
            if bad.is_empty() && !layout.has_users() {
                continue; // the counter knows no users
            }
            for script in ["deduct", "refund"] {
                is_usage(&scripts.orders(script, "first", "1", &[(bad, "1", "r2")]), "user id of order 1");
            }
            is_usage(&scripts.multi_deduct("first", bad, "r2", &[("1", "1")]), "user id of order 1");
        }
        redis.assert_unchanged_since(&before);
    }
}

#[test]
fn a_request_id_is_printable_ascii() {
    for layout in LAYOUTS {
        let (redis, mut scripts, before) = sale(layout);
        let long = "x".repeat(129);
        for bad in ["é", "a\tb", "a\u{7f}", "a\n", &long] {
            for script in ["deduct", "refund"] {
                is_usage(&scripts.orders(script, "first", "1", &[("8", "1", bad)]), "request id of order 1");
            }
            is_usage(&scripts.multi_deduct("first", "8", bad, &[("1", "1")]), "request id of order 1");
        }
        redis.assert_unchanged_since(&before);
    }
}

#[test]
fn the_callers_limit_is_plain_digits_and_that_of_meta_if_there_is_one() {
    let redis = TestRedis::start();
    let mut scripts = Scripts::of(&redis, SECKILL);
    redis.cmd(("SET", SECKILL.stock("foreign"), 10));
    scripts.preheat_with("1", "10", &[("per_user_limit", "1")]);
    let before = redis.dump_all();
    let order = |scripts: &mut Scripts, activity: &str, limit: &str, quantity: &str| {
        let args = ["hash", "t", "7", quantity, "r", "first", "", limit];
        scripts.call("deduct", &SECKILL.keys(activity), &args)
    };
    for bad in ["nan", "inf", "1e3", "0x10", "-1", " 3", "3.0", "99999999999999999999"] {
        is_usage(&order(&mut scripts, "foreign", bad, "1"), "the limit is not a number");
        is_usage(&order(&mut scripts, "1", bad, "2"), "the limit is not a number");
    }
    is_usage(&order(&mut scripts, "1", "2", "1"), "is not the limit of the activity, which is 1");
    assert_eq!(order(&mut scripts, "1", "1", "2"), "-2 10 0");
    assert_eq!(order(&mut scripts, "foreign", "3", "4"), "-2 10 0");
    redis.assert_unchanged_since(&before);
}

#[test]
fn what_a_preheat_sets_is_plain_digits_too() {
    for layout in LAYOUTS {
        let (redis, mut scripts, before) = sale(layout);
        let keys = layout.all_keys("3");
        let good = [layout.kind, "t", "", "create", "0", "10", "", "=title", "=1000", "=2000", "=1"];
        for (at, bad, part) in [
            (0, "list", "kind"),
            (3, "replace", "ARGV[4]"),
            (5, "-1", "ARGV[6]"),
            (5, "1e3", "ARGV[6]"),
            (5, "", "ARGV[6]"),
            (5, "9007199254740992", "ARGV[6]"),
            (6, "=nan", "per_user_limit"),
            (6, "3", "per_user_limit"),
            (6, "=-", "per_user_limit"),
            (7, "title", "title"),
            (8, "=0x10", "starts_at"),
            (8, "=2000", "the window ends before it starts"),
            (9, "=-1", "ends_at"),
            (10, "=2", "ledger"),
            (10, "=", "ledger"),
        ] {
            let mut args = good;
            args[at] = bad;
            is_usage(&scripts.call("preheat", &keys, &args), part);
        }
        redis.assert_unchanged_since(&before);
    }
}

#[test]
fn missing_arguments_and_a_wrong_number_of_keys_are_told_and_never_crash() {
    for layout in LAYOUTS {
        let (redis, mut scripts, before) = sale(layout);
        let order = [layout.kind, "t", "8", "1", "r2"];
        let file = [layout.kind, "t", "8", "1", "j", "d", "1", "0", "1"];
        let holds = [layout.kind, "t", "8", "1", "j", "d", "1", "0", "1", "r2", "", "", "", "1000"];
        let settled = [layout.kind, "t", "r2", "confirm", "j", "d", "1", "0", "1"];
        let multi = [layout.kind, "t", "first", "", "8", "r2", "1"];
        let multi_file = [layout.kind, "t", "j", "d", "", "", "", "", "1", "0", "1", "1", "8"];
        let preheat = [layout.kind, "t", "", "update", "0", "20", "", "", "", "", ""];
        let repair = [layout.kind, "t", "", "0", "1", "0", "id", "", "0", "0", "1"];
        let sha256 = "0".repeat(64);
        let transfer = "0".repeat(40);
        let full: [(&'static str, &[&str], usize); 23] = [
            ("deduct", &order, order.len()),
            ("deduct_file", &file, file.len()),
            ("refund", &order, order.len()),
            ("refund_file", &file, file.len()),
            ("multi_deduct", &multi, multi.len()),
            ("multi_deduct_file", &multi_file, multi_file.len()),
            ("hold", &[layout.kind, "t", "8", "1", "r2", "first", "", "1000"], 8),
            ("hold_file", &holds, holds.len()),
            ("settle", &[layout.kind, "t", "r2", "confirm"], 4),
            ("settle_file", &settled, settled.len()),
            ("preheat", &preheat, preheat.len()),
            ("adopt", &[layout.kind, "withdraw", "t", "", "name"], 5),
            ("pause", &["paused", "t", "", "0"], 1), // the others may be left out
            ("snapshot", &[layout.kind], 1),
            ("repair", &repair, repair.len()),
            ("archive", &[layout.kind, "plan"], 2),
            ("restore", &[layout.kind, "plan", &sha256], 3),
            ("trim", &["switch", "1", "a", "0", "", "1-0 0-0 1 1 1"], 6),
            ("lend", &["t", &transfer, "1", "2", "1", "1", ""], 7),
            ("borrow", &["t", &transfer, "1", "2", "1"], 5),
            ("peek", &[], 0),
            ("parent", &["read"], 1),
            ("preheat_shard", &["set", "t", "", "1", "", "5", "", "", "", ""], 10),
        ];
        assert_eq!(full.len(), SCRIPTS.len());
        // These are for hashes alone, and cannot tell keys of other kinds.
        let of_hashes = ["parent", "preheat_shard"];
        for (script, args, needed) in
            full.into_iter().filter(|row| layout.kind == "hash" || !of_hashes.contains(&row.0))
        {
            let named = script.trim_end_matches("_file");
            let knows_holds =
                ["hold", "hold_file", "settle", "settle_file", "preheat", "parent", "preheat_shard", "archive"]
                    .contains(&script);
            let mut keys = if knows_holds { layout.all_keys("1") } else { layout.keys("1") };
            if ["lend", "borrow", "peek"].contains(&script) {
                keys.truncate(4); // who bought is nothing to them
            }
            for count in 0..needed {
                is_usage(&scripts.call(script, &keys, &args[..count]), named);
            }
            for count in 0..keys.len() {
                if ["pause", "trim"].contains(&script) && count >= 4 {
                    continue; // they take the four that every kind has, or more
                }
                is_usage(&scripts.call(script, &keys[..count], args), named);
                is_usage(&scripts.call(script, &keys[..count], &[]), named);
            }
            if !["pause", "trim"].contains(&script) {
                let more = [&keys[..], &["one more".to_owned()]].concat();
                is_usage(&scripts.call(script, &more, args), named);
            }
        }
        redis.assert_unchanged_since(&before);
    }
}

#[test]
fn words_that_no_header_knows_are_told() {
    for layout in LAYOUTS {
        let (redis, mut scripts, before) = sale(layout);
        for (at, bad, part) in
            [(0, "zset", "ARGV[1]"), (5, "again", "the mode is not first, retry"), (5, "", "the mode is not")]
        {
            let mut args = [layout.kind, "t", "8", "1", "r2", "first"];
            args[at] = bad;
            for script in ["deduct", "refund"] {
                is_usage(&scripts.call(script, &layout.keys("1"), &args), part);
            }
        }
        is_usage(&scripts.call("pause", &layout.keys("1"), &["stopped", "t", "", "0"]), "ARGV[1]");
        if layout.kind == "counter" {
            is_usage(&scripts.refund("1", ("7", "all", "r2")), "all");
        }
        redis.assert_unchanged_since(&before);
    }
}

#[test]
fn columns_are_of_as_many_texts() {
    for layout in LAYOUTS {
        let (redis, mut scripts, before) = sale(layout);
        let good = [layout.kind, "t", "8\t9", "1", "j", "d", "1", "0", "1-2", "", "", "", "", "", ""];
        let mut check = |at: usize, bad: &str, part: &str| {
            let mut args = good;
            args[at] = bad;
            for script in ["deduct", "refund"] {
                for count in [at.max(8) + 1, args.len()] {
                    is_usage(&scripts.call(script, &layout.keys("1"), &args[..count]), part);
                }
            }
        };
        for users in ["", "8", "8\t9\t10", "8\ta\u{1}b", "8\t b"] {
            check(2, users, "");
        }
        for damaged in ["r", "r\ts\tt"] {
            check(9, damaged, "ARGV[10]");
            check(12, damaged, "ARGV[13]");
        }
        check(3, "1\t1\t1", "ARGV[4]");
        for quantity in ["", "x", "[\"1\",\"1\"]"] {
            check(3, quantity, "quantity of order 1");
        }
        check(3, "1\t0", "quantity of order 2");
        check(9, "r\té", "request id of order 2");
        check(14, "again", "ARGV[15]");
        check(4, "", "the job has no name");
        for lines in ["", "1", "1-3", "2-1", "1 1", "9 9 9", "2 1", "0 1 2", "1 x", "01 2", "1 2 3", "1--2", "1-2 3"] {
            check(8, lines, "lines of the job");
        }
        for line in ["", "-1", "01", "x", "1e3"] {
            check(7, line, "lines of the job");
        }
        redis.assert_unchanged_since(&before);
    }
}

#[test]
fn an_activity_twice_in_a_multi_order_is_refused() {
    for layout in LAYOUTS {
        let (redis, mut scripts, before) = sale(layout);
        // Each check would pass alone, and 12 of 10 would be sold.
        is_usage(&scripts.multi_deduct("first", "8", "r2", &[("1", "6"), ("1", "6")]), "twice");
        redis.assert_unchanged_since(&before);
    }
}

#[test]
fn large_calls_are_served_up_to_a_bound_and_refused_with_it_beyond() {
    let (redis, mut scripts, before) = sale(SECKILL);
    let users: Vec<String> = (0..8000).map(|user| format!("u{user}")).collect();
    let orders: Vec<_> = users.iter().map(|user| (user.as_str(), "1", "")).collect();
    for script in ["deduct", "refund"] {
        is_usage(&scripts.orders(script, "first", "1", &orders), "more than 2000 orders in one call");
        is_usage(&scripts.orders(script, "first", "1", &orders[..2001]), "more than 2000");
    }
    let items: Vec<_> = users[..513].iter().map(|activity| (activity.as_str(), "1")).collect();
    is_usage(&scripts.multi_deduct("first", "7", "r2", &items), "more than 512 activities");
    redis.assert_unchanged_since(&before);

    // At the bound everything is there: requests of their own, and reasons.
    scripts.preheat("full", "5000");
    let with_requests: Vec<_> = orders[..2000].iter().map(|(user, units, _)| (*user, *units, *user)).collect();
    let reply = scripts.orders("deduct", "first", "full", &with_requests);
    assert!(reply.starts_with(&format!("{} 5000 0 1 1", "o".repeat(2000))), "{}", &reply[..100.min(reply.len())]);
    assert_eq!(redis.int(&SECKILL.stock("full")), 3000);
    let refund = scripts.orders("refund", "first", "full", &orders[..2000]);
    assert!(refund.starts_with(&"o".repeat(2000)));
    assert!(!redis.exists(&SECKILL.participants("full")));
}
