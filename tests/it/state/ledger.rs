//! A ledger that takes no entry, because it was lost or is at its last id: nothing is written anywhere, and an adoption begins
//! another.

use super::is_corrupt;
use crate::support::layout::json_call;
use crate::support::{CLUSTER, LAYOUTS, Layout, Scripts, TestRedis};

const LAST: &str = "18446744073709551615-18446744073709551615";
/// What happened to the ledger of activity 1: the command before and after its key, what scripts reply that it holds, and what
/// messages say.
const FAULTS: [(&str, &[&str], &str, &str); 3] = [
    ("DEL", &[], "nothing, though meta has a ledger", "its entries were lost"),
    ("XTRIM", &["MAXLEN", "0"], "nothing, though meta has a ledger", "its entries were lost"),
    ("XADD", &[LAST, "op", "pause"], LAST, "holds the last id"),
];

const REPAIR: [&str; 10] = ["t", "", "0", "1", "0", "new", "9", "0", "1", "-1"];
const REPAIR_OF_COUNTER: [&str; 10] = ["t", "", "0", "1", "0", "new", "", "1", "2", "-1"];

fn break_ledger(redis: &TestRedis, layout: Layout, (command, rest, ..): (&str, &[&str], &str, &str)) {
    redis.cmd((command, layout.ledger("1"), rest));
}

/// Activities 1 and 2, in which user 7 has bought and, in 1, user 8 holds.
fn open(scripts: &mut Scripts) {
    let layout = scripts.layout;
    for activity in ["1", "2"] {
        scripts.preheat(activity, "10");
        assert!(scripts.deduct(activity, ("7", "1", "r")).starts_with("1 "));
    }
    if layout.has_users() {
        let held = [layout.kind, "t", "8", "1", "h", "first", "", "900000"];
        assert!(scripts.call("hold", &layout.all_keys("1"), &held).starts_with("1 "));
    }
}

/// Every call that writes an entry to the ledger of activity 1: of one order, of a job, and of operators.
fn calls(layout: Layout) -> Vec<(&'static str, Vec<String>, Vec<&'static str>)> {
    let (kind, keys, all, two) =
        (layout.kind, layout.keys("1"), layout.all_keys("1"), [layout.keys("1"), layout.keys("2")].concat());
    let mut calls: Vec<(&'static str, &[String], &[&'static str])> = vec![
        ("deduct", &keys, &["t", "9", "1", "new"]),
        ("deduct", &keys, &["t", "9", "1", "new", "retry", "why"]),
        ("deduct", &keys, &["t", "9", "1", "j", "d", "1", "0", "1"]),
        ("refund", &keys, &["t", "7", "1", "new"]),
        ("refund", &keys, &["t", "7", "1", "j", "d", "1", "0", "1"]),
        ("multi_deduct", &two, &["t", "first", "", "9", "new", "1", "1"]),
        ("multi_deduct_file", &keys, &["t", "j", "d", "", "", "", "", "1", "0", "1", "1", "9"]),
        ("repair", &keys, if layout.has_users() { &REPAIR } else { &REPAIR_OF_COUNTER }),
        ("preheat", &all, &["t", "", "update", "0", "12", "", "", "", "", ""]),
        ("snapshot", &keys, &[]),
    ];
    let hold = ["t", "9", "1", "new", "first", "", "900000"];
    let holds = ["t", "9", "1", "j", "d", "1", "0", "1", "new", "", "", "", "900000"];
    if layout.has_users() {
        calls.push(("hold", &all, &hold));
        calls.push(("hold", &all, &holds));
        for rest in [["t", "h", "confirm"], ["t", "h", "release"], ["t", "h", "abort"], ["t", "500", "expire"]] {
            calls.push(("settle", &all, Box::leak(Box::new(rest))));
        }
        calls.push(("settle", &all, &["t", "h", "confirm", "j", "d", "1", "0", "1"]));
        calls.push(("settle", &all, &["t", "h", "release", "j", "d", "1", "0", "1"]));
    }
    let with_kind = |(name, keys, rest): &(&'static str, &[String], &[&'static str])| {
        (*name, keys.to_vec(), [&[kind], *rest].concat())
    };
    let mut calls: Vec<_> = calls.iter().map(with_kind).collect();
    calls.push(("pause", keys.clone(), vec!["paused", "t", "", "0"]));
    calls.push(("pause", keys.clone(), vec!["paused", "t", "", "0", "1"]));
    if layout == CLUSTER {
        let id = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
        calls.push(("lend", keys[..4].to_vec(), vec!["t", id, "1", "5", "1", "1", ""]));
        calls.push(("borrow", keys[..4].to_vec(), vec!["t", id, "1", "5", "1"]));
        calls.push(("preheat_shard", all, vec!["update", "t", "", "1", "p", "5", "", "", "", ""]));
    }
    calls
}

#[test]
fn no_script_writes_beside_a_ledger_that_takes_no_entry() {
    let redis = TestRedis::start();
    for layout in LAYOUTS {
        redis.cmd("FLUSHALL");
        let mut scripts = Scripts::of(&redis, layout);
        open(&mut scripts);
        for fault in FAULTS {
            redis.cmd("FLUSHALL");
            open(&mut scripts);
            for (name, keys, args) in calls(layout) {
                redis.cmd(("COPY", layout.ledger("1"), "whole"));
                let context = format!("{layout:?}: {fault:?}: {name} {args:?}");
                break_ledger(&redis, layout, fault);
                let before = redis.dump_all();
                let reply = scripts.call(name, &keys, &args);
                redis.assert_unchanged_since(&before);
                let in_hex: String = fault.2.bytes().map(|byte| format!("{byte:02x}")).collect();
                let is_named = reply.ends_with(&format!(" 4 {}", fault.2)) && reply.contains("-11 ")
                    || name == "multi_deduct" && reply.contains(&format!("4,{in_hex}"));
                assert!(is_named, "{context}: {reply}");
                redis.cmd(("RENAME", "whole", layout.ledger("1")));
            }
        }
        // Each of them is a call that would write.
        for (name, keys, args) in calls(layout) {
            redis.cmd("FLUSHALL");
            open(&mut scripts);
            let reply = scripts.call(name, &keys, &args);
            let applied = ["1 ", "o ", "2 "].iter().any(|start| reply.starts_with(start));
            assert!(applied, "{layout:?}: {name} {args:?}: {reply}");
        }
    }
}

#[test]
fn a_ledger_that_takes_no_entry_is_named_and_an_adoption_begins_another() {
    let redis = TestRedis::start();
    for layout in LAYOUTS {
        for fault in FAULTS {
            redis.cmd("FLUSHALL");
            let mut scripts = Scripts::of(&redis, layout);
            open(&mut scripts);
            redis.cmd(("SADD", layout.index, "1", "2"));
            break_ledger(&redis, layout, fault);
            for line in super::CHANGES.into_iter().chain(["inspect 1"]) {
                // An order that is refused anyway needs no entry.
                if fault.2 == LAST && layout.records_once() && line.starts_with("deduct ") {
                    continue;
                }
                is_corrupt(&redis, layout, line, &layout.ledger("1"), fault.3);
            }
            let before = redis.dump_all();
            for line in ["reconcile 1", "reconcile 1 --fix --yes"] {
                let outcome = json_call(&redis, layout, line).code(7);
                outcome.stderr_has("preheat --adopt").stderr_has(fault.3);
            }
            json_call(&redis, layout, "ledger trim 1 --before 1ms --yes --dry-run").run();
            json_call(&redis, layout, "ledger 1").run();
            redis.assert_unchanged_since(&before);
            let rows = json_call(&redis, layout, "doctor").run().json();
            let rows = rows.as_array().unwrap().clone();
            let keys = rows.iter().find(|row| row["check"] == "keys" && row["status"] == "fail").unwrap();
            assert!(keys["fix"].as_str().unwrap().contains("--adopt"), "{keys}");
            let total = if layout.has_users() { "" } else { " --total 10" };
            json_call(&redis, layout, &format!("preheat --id 1 --adopt --yes{total}")).code(0);
            json_call(&redis, layout, "deduct 1 --user 9").code(0);
            json_call(&redis, layout, "reconcile 1").code(0);
            if layout.has_users() {
                json_call(&redis, layout, "confirm 1 --request h").code(0);
                json_call(&redis, layout, "reconcile 1").code(0);
            }
            json_call(&redis, layout, "ledger trim 1 --before 2200-01-01T00:00:00Z --yes").code(0);
            json_call(&redis, layout, "deduct 1 --user 10").code(0);
        }
    }
}
