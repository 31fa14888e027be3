//! Calls of `deduct_file` and `refund_file` for several activities: each replies, and keeps, what it would alone.

use std::collections::BTreeSet;

use super::{FUTURE, PAST, scripts};
use crate::support::{LAYOUTS, Layout, SECKILL, Scripts, TestRedis};

/// Epoch, the line before, lines, quantities, users, request ids and reasons of an activity.
type Part<'a> = [&'a str; 7];

const FIRST: Part<'_> = ["1", "0", "1-2", "1", "7\t8", "", ""];
const IDS: Part<'_> = ["1", "0", "2 5 9", "1\t1\t9", "7\t8\t9", "a\t\tb", "x\t\ty"];

/// One call for all parts.
fn shared(scripts: &mut Scripts, script: &'static str, width: usize, parts: &[(&str, Part<'_>)]) -> String {
    let keys: Vec<String> = parts.iter().flat_map(|(activity, _)| scripts.layout.keys(activity)).collect();
    let mut args = vec![scripts.layout.kind, "tester", "j", "d", "1", "gift", "", ""];
    args.extend(parts.iter().flat_map(|(_, part)| part[..width].iter().copied()));
    scripts.call(script, &keys, &args)
}

/// A call for each part.
fn alone(scripts: &mut Scripts, script: &'static str, parts: &[(&str, Part<'_>)]) -> String {
    let of = |(activity, part): &(&str, Part<'_>)| {
        let [epoch, before, lines, quantities, users, requests, reasons] = *part;
        let kind = scripts.layout.kind;
        let args = [kind, "tester", users, quantities, "j", "d", epoch, before, lines, requests, "1", "gift", reasons];
        scripts.call(script, &scripts.layout.keys(activity), &args)
    };
    parts.iter().map(of).collect::<Vec<_>>().join(" ")
}

fn sale(layout: Layout) -> (TestRedis, Scripts) {
    let (redis, mut scripts) = scripts(layout);
    let limit = [("per_user_limit", "2")];
    for activity in ["1", "2", "3"] {
        scripts.preheat_with(activity, "10", if layout.kind == "hash" { &limit } else { &[] });
    }
    (redis, scripts)
}

/// All that activities have, their ledgers without ids.
fn data(redis: &TestRedis, layout: Layout) -> Vec<String> {
    let of = |activity: &str| {
        let entries: Vec<_> = redis.xrange(&layout.ledger(activity)).into_iter().map(|(_, fields)| fields).collect();
        let stock: Option<String> = redis.ask(("GET", layout.stock(activity)));
        let others = layout.keys(activity).into_iter().skip(1).filter(|key| *key != layout.ledger(activity));
        let others: Vec<_> = others
            .map(|key| match redis.ask::<String>(("TYPE", &key)).as_str() {
                "set" => {
                    let members: BTreeSet<String> = redis.ask(("SMEMBERS", &key));
                    format!("{members:?}")
                }
                _ => format!("{:?}", redis.hgetall(&key)),
            })
            .collect();
        format!("{stock:?} {others:?} {entries:?}")
    };
    ["1", "2", "3"].map(of).to_vec()
}

#[test]
fn each_activity_is_decided_by_itself_and_keeps_its_line() {
    for layout in LAYOUTS {
        let (redis, mut scripts) = sale(layout);
        let parts = [("1", FIRST), ("2", IDS)];
        // Nobody may have nine units: of a hash because of its limit, of a coupon because it is one.
        let expected = match layout.kind {
            "hash" | "coupon" => "oo 10 0 1 1 ool 10 1 1 1 0",
            "set" => "oo 10 0 1 1 oos 10 1 1 1 0",
            _ => "oo 10 0 0 0 oos 10 1 0 0 0",
        };
        assert_eq!(shared(&mut scripts, "deduct_file", 7, &parts), expected, "{layout:?}");
        assert_eq!(redis.hget(&layout.requests("1"), "\tj:deduct:j").as_deref(), Some("2 0 d"));
        assert_eq!(redis.hget(&layout.requests("2"), "\tj:deduct:j").as_deref(), Some("9 1 d"));
        assert_eq!(redis.int(&layout.stock("2")), 8);
        let (_, entry) = &redis.xrange(&layout.ledger("2"))[1];
        let fields = ["op", "stock", "by", "reason", "job", "lines", "requests", "reasons"].map(|name| &*entry[name]);
        assert_eq!(fields, ["deduct", "8", "tester", "gift", "j", "2 5", "a\t", "x\t"]);
        // Sent again, they are known.
        let before = redis.dump_all();
        assert!(shared(&mut scripts, "deduct_file", 7, &parts).starts_with("rr 8 0"));
        redis.assert_unchanged_since(&before);
        assert!(shared(&mut scripts, "refund_file", 5, &[("2", FIRST), ("1", FIRST)]).starts_with("oo 8 0"));
        assert_eq!((redis.int(&layout.stock("1")), redis.int(&layout.stock("2"))), (10, 10));
    }
}

/// Changes activity 2.
type Change = fn(&TestRedis, &mut Scripts, Layout);

#[test]
fn whatever_one_activity_is_the_others_are_decided() {
    let changes: [(&str, Change); 9] = [
        ("paused", |_, scripts, layout| drop(scripts.call("pause", &layout.keys("2"), &["paused", "t", "", "0"]))),
        ("not started", |_, scripts, _| drop(scripts.preheat_as("update", "2", "10", &[("starts_at", FUTURE)]))),
        ("ended", |_, scripts, _| drop(scripts.preheat_as("update", "2", "10", &[("ends_at", PAST)]))),
        ("not preheated", |redis, _, layout| drop(redis.cmd(("DEL", layout.stock("2"))))),
        ("another's", |redis, _, layout| drop(redis.cmd(("DEL", layout.meta("2"), layout.ledger("2"))))),
        ("a ledger is lost", |redis, _, layout| drop(redis.cmd(("DEL", layout.ledger("2"))))),
        ("a corrupt stock", |redis, _, layout| drop(redis.cmd(("SET", layout.stock("2"), "007")))),
        ("a corrupt user", |redis, _, layout| super::spoil_record(redis, layout, "2", "8")),
        ("of another epoch", |_, scripts, _| drop(scripts.preheat_as("reset", "2", "10", &[]))),
    ];
    for layout in LAYOUTS {
        for (what, change) in changes {
            let parts = [("1", FIRST), ("2", IDS), ("3", FIRST)];
            let run = |send: &dyn Fn(&mut Scripts, &'static str) -> String| {
                let (redis, mut scripts) = sale(layout);
                change(&redis, &mut scripts, layout);
                let replies = ["deduct_file", "refund_file", "deduct_file"].map(|script| send(&mut scripts, script));
                (replies, data(&redis, layout))
            };
            let together = run(&|scripts, script| shared(scripts, script, 7, &parts));
            let one_by_one = run(&|scripts, script| alone(scripts, script, &parts));
            assert_eq!(together, one_by_one, "{what}, {layout:?}");
        }
    }
}

#[test]
fn arguments_that_the_header_does_not_allow_are_usage_errors_and_end_the_call() {
    let (redis, mut scripts) = sale(SECKILL);
    let before = redis.dump_all();
    let keys = [SECKILL.keys("1"), SECKILL.keys("2")].concat();
    let good = [&["hash", "t", "j", "d", "", "", "", ""][..], &FIRST[..5], &FIRST[..5]].concat();
    for script in ["deduct_file", "refund_file"] {
        for (keys, args) in [
            (&keys[..9], good.clone()),
            (&keys[..], good[..17].to_vec()),
            (&keys[..], good[..16].to_vec()),
            (&keys[..], [&good[..], &[""; 6]].concat()),
            (&keys[..], vec!["hash"]),
        ] {
            let reply = scripts.call(script, keys, &args);
            assert!(reply.starts_with("ERROR USAGE") && reply.contains("activit"), "{reply}");
        }
        redis.assert_unchanged_since(&before);
    }
    // An error of the second: the first is decided.
    let wrong = [FIRST[0], FIRST[1], FIRST[2], "-5", FIRST[4], "", ""];
    let reply = shared(&mut scripts, "deduct_file", 5, &[("1", FIRST), ("2", wrong), ("3", FIRST)]);
    assert!(reply.starts_with("ERROR USAGE deduct: quantity of order 1"), "{reply}");
    assert_eq!(["1", "2", "3"].map(|activity| redis.int(&SECKILL.stock(activity))), [8, 10, 10]);
}
