//! `multi_deduct_file`: orders without a request id are settled by the watermarks of all their activities.

use super::scripts;
use crate::support::{LAYOUTS, Layout, SECKILL, Scripts};

/// The columns of one activity.
#[derive(Clone, Copy)]
struct Columns<'a> {
    activity: &'a str,
    epoch: &'a str,
    before: &'a str,
    lines: &'a str,
    quantity: &'a str,
    users: &'a str,
    requests: &'a str,
}

/// What is not given: the first batch of an activity.
const FIRST: Columns<'_> =
    Columns { activity: "1", epoch: "1", before: "0", lines: "", quantity: "1", users: "", requests: "" };

fn send(scripts: &mut Scripts, digest: &str, activities: &[Columns<'_>]) -> String {
    let layout = scripts.layout;
    let keys: Vec<String> = activities.iter().flat_map(|columns| layout.keys(columns.activity)).collect();
    let mut args = vec![layout.kind, "tester", "j", digest, "1", "", "", ""];
    for Columns { epoch, before, lines, quantity, users, requests, .. } in activities {
        args.extend([epoch, before, lines, quantity, users, requests]);
    }
    scripts.call("multi_deduct_file", &keys, &args)
}

/// One order of a unit of `1` and one of `2`, by a user named like its line; `known` are epoch and line of each.
fn send_one(scripts: &mut Scripts, digest: &str, line: &str, known: [&str; 2]) -> String {
    let users = line.to_string();
    let columns = ["1", "2"].into_iter().zip(known).map(|(activity, known)| {
        let (epoch, before) = known.split_once(' ').unwrap();
        Columns { activity, epoch, before, lines: line, users: &users, ..FIRST }
    });
    send(scripts, digest, &columns.collect::<Vec<_>>())
}

fn record(scripts: &Scripts, redis: &crate::support::TestRedis, activity: &str) -> Option<String> {
    redis.hget(&scripts.layout.requests(activity), "\tj:multi_deduct:j")
}

fn held(layout: Layout, units: &str) -> String {
    if layout.has_users() { units.to_owned() } else { units.replace(|c: char| c.is_ascii_digit(), "0") }
}

#[test]
fn orders_are_decided_by_line_and_the_watermarks_are_stored() {
    for layout in LAYOUTS {
        let (redis, mut scripts) = scripts(layout);
        scripts.preheat("1", "1");
        scripts.preheat("2", "5");
        // Lines 2 and 4 name both activities, 3 and 7 one of them each.
        let one = Columns { lines: "2-4", users: "7\t8\t9", ..FIRST };
        let two = Columns { activity: "2", lines: "2 4 7", users: "7\t9\t8", ..one };
        let reply = send(&mut scripts, "d", &[one, two]);
        let expected = format!("oss 1 2 {} odo 5 1 {}", held(layout, "1 0 0"), held(layout, "1 0 1"));
        assert_eq!(reply, expected, "{layout:?}");
        assert_eq!(record(&scripts, &redis, "1").as_deref(), Some("4 2 d"));
        assert_eq!(record(&scripts, &redis, "2").as_deref(), Some("7 1 d"));
        assert_eq!(redis.xrange(&layout.ledger("2")).len(), 2, "one entry a call and activity");
        let (_, entry) = &redis.xrange(&layout.ledger("2"))[1];
        let fields = ["op", "stock", "job", "lines", "quantity", "users"].map(|name| &*entry[name]);
        assert_eq!(fields, ["deduct", "3", "j", "2 7", "1", "7\t8"]);
        // Sent again it changes nothing.
        let before = redis.dump_all();
        let reply = send(&mut scripts, "d", &[one, two]);
        let expected = format!("rrr 0 2 {} rrr 3 1 {}", held(layout, "1 0 0"), held(layout, "1 0 1"));
        assert_eq!(reply, expected, "{layout:?}");
        redis.assert_unchanged_since(&before);
    }
}

#[test]
fn an_order_is_decided_only_if_all_its_activities_reached_its_line() {
    for layout in LAYOUTS {
        let (redis, mut scripts) = scripts(layout);
        scripts.preheat("1", "10");
        scripts.preheat("2", "10");
        scripts.call("pause", &layout.keys("2"), &["paused", "tester", "", "0"]);
        let one = Columns { lines: "1-2", users: "7\t8", ..FIRST };
        let two = Columns { activity: "2", lines: "1", users: "7", ..FIRST };
        // The first order waits for its second activity; the other one is applied.
        let reply = send(&mut scripts, "d", &[one, two]);
        assert_eq!(reply, format!("do 10 0 {} p 10 0 0 -7 nil nil", held(layout, "0 1")), "{layout:?}");
        assert_eq!(
            record(&scripts, &redis, "1").as_deref(),
            Some("2 0 d"),
            "a refusal that is not decided is not counted"
        );
        assert_eq!(record(&scripts, &redis, "2"), None);
        scripts.call("pause", &layout.keys("2"), &["live", "tester", "", "0"]);
        let reply = send(&mut scripts, "d", &[one, two]);
        assert_eq!(reply, format!("or 9 0 {} o 10 0 {}", held(layout, "1 1"), held(layout, "1")), "{layout:?}");
        assert_eq!((redis.int(&layout.stock("1")), redis.int(&layout.stock("2"))), (8, 9));
    }
}

#[test]
fn a_request_id_takes_precedence_and_is_stored_with_the_order() {
    for layout in LAYOUTS {
        let (redis, mut scripts) = scripts(layout);
        scripts.preheat("1", "10");
        scripts.preheat("2", "10");
        scripts.multi_deduct("first", "7", "a", &[("1", "1"), ("2", "1")]);
        let users = "7\t8\t9";
        let one = Columns { lines: "1-3", users, requests: "a\tb\t", ..FIRST };
        let two = Columns { activity: "2", ..one };
        let reply = send(&mut scripts, "d", &[one, two]);
        let expected = format!("roo 9 0 {0} roo 9 0 {0}", held(layout, "1 1 1"));
        assert_eq!(reply, expected, "{layout:?}");
        let again = scripts.multi_deduct("first", "8", "b", &[("2", "1"), ("1", "1")]);
        assert!(again.starts_with("2 2,7,"), "{layout:?}: {again}");
        let other = scripts.multi_deduct("first", "8", "b", &[("2", "1")]);
        assert!(other.starts_with("-1 -9,7,"), "{layout:?}: {other}");
        let (_, entry) = redis.xrange(&layout.ledger("2")).pop().unwrap();
        assert_eq!((&*entry["requests"], &*entry["lines"]), ("b\t", "2 3"));
    }
}

#[test]
fn a_call_that_an_activity_knows_less_than_is_refused_whole() {
    for layout in LAYOUTS {
        let (redis, mut scripts) = scripts(layout);
        scripts.preheat("1", "10");
        scripts.preheat("2", "10");
        send_one(&mut scripts, "d", "5", ["1 0", "1 0"]);
        let before = redis.dump_all();
        for (digest, known, expected) in [
            ("d", ["1 5", "1 6"], "-20 2 5"),
            ("d", ["1 7", "1 5"], "-20 1 5"),
            ("d", ["1 5", "2 5"], "-21 2 1"),
            ("d", [" 0", "1 5"], "-21 1 1"),
            ("e", ["1 5", "1 5"], "-22 1"),
            ("", ["1 5", "1 5"], "-22 1"),
        ] {
            assert_eq!(send_one(&mut scripts, digest, "9", known), expected, "{layout:?}");
        }
        redis.assert_unchanged_since(&before);
        redis.cmd(("HSET", layout.requests("2"), "\tj:multi_deduct:j", "x d"));
        let reply = send_one(&mut scripts, "d", "9", ["1 5", "1 5"]);
        assert_eq!(reply, "d 9 0 0 c - 0 0 -11 3 x d", "{layout:?}");
    }
}

#[test]
fn an_activity_that_refuses_as_a_whole_keeps_no_line_and_knows_of_no_gap() {
    for layout in LAYOUTS {
        let (redis, mut scripts) = scripts(layout);
        scripts.preheat("1", "10");
        let reply = send_one(&mut scripts, "d", "5", ["1 0", " 3"]);
        assert_eq!(reply, "d 10 0 0 t - 0 0 -4 nil nil", "{layout:?}");
        assert_eq!(record(&scripts, &redis, "1").as_deref(), Some("5 0 d"));
        assert!(!redis.exists(&layout.requests("2")));
        scripts.preheat("2", "10");
        scripts.call("pause", &layout.keys("2"), &["paused", "tester", "", "0"]);
        let reply = send_one(&mut scripts, "d", "9", ["1 5", "1 3"]);
        assert_eq!(reply, "d 10 0 0 p 10 0 0 -7 nil nil", "{layout:?}");
        assert_eq!(record(&scripts, &redis, "1").as_deref(), Some("9 0 d"));
        assert!(!redis.exists(&layout.requests("2")));
    }
}

#[test]
fn a_user_record_that_is_corrupt_refuses_its_orders_alone() {
    let (redis, mut scripts) = scripts(SECKILL);
    scripts.preheat("1", "10");
    redis.cmd(("HSET", SECKILL.participants("1"), "8", "1.5"));
    let columns = Columns { lines: "1-3", users: "7\t8\t9", ..FIRST };
    assert_eq!(send(&mut scripts, "d", &[columns]), "oco 10 1 1 0 1 0 5 1.5");
}

#[test]
fn arguments_of_a_job_that_the_header_does_not_allow_are_usage_errors() {
    for layout in LAYOUTS {
        let (redis, mut scripts) = scripts(layout);
        scripts.preheat("1", "10");
        scripts.preheat("2", "10");
        let before = redis.dump_all();
        let good = Columns { lines: "1-2", users: "7\t8", ..FIRST };
        for (bad, part) in [
            (Columns { before: "", ..good }, "lines of the job"),
            (Columns { before: "-1", ..good }, "lines of the job"),
            (Columns { lines: "9 9", ..good }, "lines of the job"),
            (Columns { lines: "1-3", ..good }, "lines of the job"),
            (Columns { lines: "01 2", ..good }, "lines of the job"),
            (Columns { lines: "0 1", ..good }, "lines of the job"),
            (Columns { lines: "1e3 2", ..good }, "lines of the job"),
            (Columns { users: "7", ..good }, "lines of the job"),
            (Columns { users: "7\t 8", ..good }, "user id of order 2"),
            (Columns { quantity: "0", ..good }, "quantity of order 1"),
            (Columns { quantity: "1000000001", ..good }, "quantity of order 1"),
            (Columns { quantity: "1\t-5", ..good }, "quantity of order 2"),
            (Columns { quantity: "1\t1\t1", ..good }, "as many quantities"),
            (Columns { requests: "a", ..good }, "as many requests"),
            (Columns { requests: "a\té", ..good }, "request id of order 2"),
        ] {
            let reply = send(&mut scripts, "d", &[bad]);
            assert!(reply.starts_with("ERROR USAGE") && reply.contains(part), "{layout:?}: {part}: {reply}");
        }
        let other = Columns { activity: "2", users: "7\t9", ..good };
        let reply = send(&mut scripts, "d", &[good, other]);
        assert!(reply.contains("item 2 of activity 2 is not that of its order"), "{layout:?}: {reply}");
        let other = Columns { activity: "2", lines: "2 5", users: "9\t7", ..good };
        let reply = send(&mut scripts, "d", &[good, other]);
        assert!(reply.contains("item 1 of activity 2 is not that of its order"), "{layout:?}: {reply}");
        let reply = send(&mut scripts, "d", &[good, good]);
        assert!(reply.contains("activity 2 is given twice"), "{layout:?}: {reply}");
        redis.assert_unchanged_since(&before);
    }
}
