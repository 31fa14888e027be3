//! `mixed_orders`: what it replies for each activity, and what it leaves alone.

use super::{FUTURE, PAST, scripts};
use crate::support::{CLUSTER, Layout, SECKILL, Scripts, TestRedis};

/// Epoch, the line before, lines, quantities and users of an activity.
type Part<'a> = [&'a str; 5];

const FIRST: Part<'_> = ["1", "0", "1-2", "1", r#"["7","8"]"#];

fn send(scripts: &mut Scripts, op: &str, rows: &str, parts: &[(&str, &[&str])]) -> String {
    let layout = scripts.layout;
    let keys: Vec<String> = parts.iter().flat_map(|(activity, _)| layout.keys(activity)).collect();
    let mut args = vec![op, "tester", "", "j", "d", rows];
    args.extend(parts.iter().flat_map(|(_, part)| part.iter().copied()));
    scripts.call("mixed_orders", &keys, &args)
}

fn sale(layout: Layout) -> (TestRedis, Scripts) {
    let (redis, mut scripts) = scripts(layout);
    for activity in ["1", "2", "3"] {
        scripts.preheat_with(activity, "10", &[("per_user_limit", "2")]);
    }
    (redis, scripts)
}

#[test]
pub(super) fn each_activity_is_decided_by_itself_and_keeps_its_line() {
    for layout in [SECKILL, CLUSTER] {
        let (redis, mut scripts) = sale(layout);
        // User 8 may have two units in one activity, and not three.
        let parts: [(&str, Part<'_>); 2] =
            [("1", FIRST), ("2", ["1", "0", "2 5 9", r#"["2","3","9"]"#, r#"["7","8","9"]"#])];
        let parts = parts.each_ref().map(|(activity, part)| (*activity, &part[..]));
        assert_eq!(send(&mut scripts, "deduct", "1", &parts), "oo 10 0 1 1 oll 10 2 2 0 0");
        assert_eq!(redis.hget(&layout.requests("1"), "\tj:deduct:j").as_deref(), Some("2 0 d"));
        assert_eq!(redis.hget(&layout.requests("2"), "\tj:deduct:j").as_deref(), Some("9 2 d"));
        assert_eq!((redis.int(&layout.stock("1")), redis.int(&layout.stock("2"))), (8, 8));
        let (_, entry) = &redis.xrange(&layout.ledger("2"))[1];
        let fields = ["op", "stock", "by", "job", "lines", "quantity", "users"].map(|name| &*entry[name]);
        assert_eq!(fields, ["deduct", "8", "tester", "j", "2", r#"["2"]"#, r#"["7"]"#]);
        // Sent again, they are known, and left to `deduct`.
        let before = redis.dump_all();
        assert_eq!(send(&mut scripts, "deduct", "1", &parts), "- -");
        redis.assert_unchanged_since(&before);
        let back: [(&str, &[&str]); 2] = [("2", &["1", "0", "1", "3", r#"["7"]"#]), ("1", &FIRST)];
        assert_eq!(send(&mut scripts, "refund", "", &back), "x 8 1 oo 8 0");
        assert_eq!((redis.int(&layout.stock("1")), redis.int(&layout.stock("2"))), (10, 8));
        assert!(!redis.exists(&layout.participants("1")), "who holds nothing is no participant");
    }
}

#[test]
fn out_of_stock_refuses_orders_and_request_ids_are_stored() {
    let (redis, mut scripts) = sale(SECKILL);
    scripts.preheat_as("update", "1", "1", &[("per_user_limit", "2")]);
    let ids: [&str; 6] = ["1", "0", "1-2", "1", r#"["7","8"]"#, r#"["a","b"]"#];
    let without: [&str; 6] = ["1", "0", "3", "1", r#"["7"]"#, ""];
    assert_eq!(send(&mut scripts, "deduct", "", &[("1", &ids), ("2", &without)]), "os 1 1 o 10 0");
    assert_eq!(redis.hget(&SECKILL.requests("1"), "a").as_deref(), Some("7"));
    assert_eq!(redis.hget(&SECKILL.requests("1"), "b"), None, "the job's line settles a refusal");
    let known: [&str; 6] = ["1", "2", "3", "1", r#"["7"]"#, r#"["a"]"#];
    assert_eq!(send(&mut scripts, "deduct", "", &[("1", &known)]), "-");
}

/// Makes activity 2 one that is not plain.
type Spoil = fn(&TestRedis, &mut Scripts);

#[test]
fn what_is_not_plain_is_left_alone_and_the_others_are_decided() {
    let spoil: [(&str, Spoil); 9] = [
        ("paused", |_, scripts| drop(scripts.call("pause", &SECKILL.keys("2"), &["paused", "t", "", "0"]))),
        ("not started", |_, scripts| drop(scripts.preheat_as("update", "2", "10", &[("starts_at", FUTURE)]))),
        ("ended", |_, scripts| drop(scripts.preheat_as("update", "2", "10", &[("ends_at", PAST)]))),
        ("not preheated", |redis, _| drop(redis.cmd(("DEL", SECKILL.stock("2"))))),
        ("another system's", |redis, _| drop(redis.cmd(("DEL", SECKILL.meta("2"), SECKILL.ledger("2"))))),
        ("a ledger is lost", |redis, _| drop(redis.cmd(("DEL", SECKILL.ledger("2"))))),
        ("a corrupt stock", |redis, _| drop(redis.cmd(("SET", SECKILL.stock("2"), "007")))),
        ("a corrupt user", |redis, _| drop(redis.cmd(("HSET", SECKILL.participants("2"), "8", "1.5")))),
        ("records are lost", |redis, _| drop(redis.cmd(("DECRBY", SECKILL.stock("2"), "1")))),
    ];
    for (what, spoil) in spoil {
        let (redis, mut scripts) = sale(SECKILL);
        spoil(&redis, &mut scripts);
        let dump =
            || -> Vec<Option<Vec<u8>>> { SECKILL.keys("2").iter().map(|key| redis.ask(("DUMP", key))).collect() };
        let before = dump();
        let reply = send(&mut scripts, "deduct", "", &[("1", &FIRST), ("2", &FIRST), ("3", &FIRST)]);
        assert_eq!(reply, "oo 10 0 - oo 10 0", "{what}");
        assert_eq!(dump(), before, "{what}");
    }
}

#[test]
fn arguments_that_deduct_would_judge_are_left_to_it() {
    let (redis, mut scripts) = sale(SECKILL);
    let before = redis.dump_all();
    let [epoch, line, lines, quantity, users] = FIRST;
    for part in [
        ["2", line, lines, quantity, users],
        ["", line, lines, quantity, users],
        [epoch, "3", "4-5", quantity, users],
        [epoch, "", lines, quantity, users],
        [epoch, line, "1-3", quantity, users],
        [epoch, line, "9 9", quantity, users],
        [epoch, line, lines, "0", users],
        [epoch, line, lines, "-5", users],
        [epoch, line, lines, r#"["1"]"#, users],
        [epoch, line, lines, "all", users],
        [epoch, line, lines, quantity, "[]"],
        [epoch, line, lines, quantity, "[7,8]"],
        [epoch, line, lines, quantity, r#"["7"," 8"]"#],
        [epoch, line, lines, quantity, r#"["7",""]"#],
    ] {
        assert_eq!(send(&mut scripts, "deduct", "", &[("1", &part)]), "-", "{part:?}");
    }
    let many = serde_json::to_string(&(0..2001).map(|user| user.to_string()).collect::<Vec<_>>()).unwrap();
    assert_eq!(send(&mut scripts, "deduct", "", &[("1", &[epoch, line, "1-2001", quantity, &many])]), "-");
    redis.assert_unchanged_since(&before);
}

#[test]
fn calls_that_the_header_does_not_allow_are_usage_errors() {
    let (redis, mut scripts) = sale(SECKILL);
    let before = redis.dump_all();
    let keys = SECKILL.keys("1");
    let good = [&["deduct", "t", "", "j", "d", ""][..], &FIRST].concat();
    let twice = [&keys[..], &keys].concat();
    let many: Vec<String> = (0..513).flat_map(|id| SECKILL.keys(&id.to_string())).collect();
    let of_many = [&good[..6], &vec![""; 513 * 5]].concat();
    let changed = |at: usize, text| {
        let mut args = good.clone();
        args[at] = text;
        args
    };
    for (keys, args, part) in [
        (&keys[..], changed(0, "preheat"), "ARGV[1] is not deduct or refund"),
        (&keys[..], changed(0, ""), "ARGV[1] is not deduct or refund"),
        (&keys[..], changed(1, ""), "may not be empty"),
        (&keys[..], changed(3, ""), "may not be empty"),
        (&keys[..4], good.clone(), "5 keys an activity are wanted, not 4"),
        (&[], good.clone(), "5 keys an activity are wanted, not 0"),
        (&keys[..], good[..10].to_vec(), "5 or 6 arguments an activity are wanted"),
        (&keys[..], [&good[..], &["", ""]].concat(), "5 or 6 arguments an activity are wanted"),
        (&keys[..], vec![], "ARGV[1] is not"),
        (&twice[..], [&good[..], &FIRST].concat(), "seckill:stock:1 is given twice"),
        (&many[..], of_many, "more than 512 activities"),
    ] {
        let reply = scripts.call("mixed_orders", keys, &args);
        assert!(reply.starts_with("ERROR USAGE") && reply.contains(part), "{part}: {reply}");
    }
    redis.assert_unchanged_since(&before);
}

#[test]
fn a_call_decides_a_bounded_number_of_orders() {
    let (_redis, mut scripts) = sale(SECKILL);
    scripts.preheat_as("update", "1", "9999", &[]);
    let many = serde_json::to_string(&(0..2000).map(|user| user.to_string()).collect::<Vec<_>>()).unwrap();
    let full: [&str; 5] = ["1", "0", "1-2000", "1", &many];
    let reply = send(&mut scripts, "deduct", "", &[("1", &full), ("2", &FIRST)]);
    assert_eq!(reply, format!("{} 9999 0 -", "o".repeat(2000)));
}
