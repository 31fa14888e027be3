//! `repair`: each status and letter of its header.

use super::scripts;
use crate::support::LAYOUTS;
use crate::support::ledger::orders;

#[test]
fn repair_has_every_status_of_its_header_and_only_ok_writes() {
    for layout in LAYOUTS {
        let (redis, mut scripts) = scripts(layout);
        let repair = |scripts: &mut super::Scripts, audit: [&str; 2], rows: &[&str]| {
            let args = [&[layout.kind, "me", "why", "0"], &audit[..], rows].concat();
            scripts.call("repair", &layout.keys("1"), &args)
        };
        let units = |id: &'static str, change: &'static str| [id, "", "0", "0", change];
        assert_eq!(repair(&mut scripts, ["1", "0"], &units("i", "1")), "-4 nil nil", "{layout:?}");
        scripts.preheat("1", "10");
        scripts.deduct("1", ("7", "1", "r1"));
        scripts.deduct("1", ("8", "1", "r2"));

        // What refuses leaves everything as it was.
        let before = redis.dump_all();
        assert_eq!(repair(&mut scripts, ["2", "0"], &units("i", "1")), "-23 1 0", "{layout:?}: another epoch");
        assert_eq!(repair(&mut scripts, ["1", "1"], &units("i", "1")), "-23 1 0", "{layout:?}: another count");
        for rows in [
            &["i", "", "0", "0"][..],
            &["", "", "0", "0", "1"],
            &["i", "", "0", "0", "1e3"],
            &["i", "", "0", "0", "--1"],
            &["i", "", "-1", "0", "1"],
            &["i", "", "0", "007", "1"],
            &["i", " 7", "0", "0", "1"],
            &[],
        ] {
            let reply = repair(&mut scripts, ["1", "0"], rows);
            assert!(reply.contains("USAGE repair"), "{layout:?} {rows:?}: {reply}");
        }
        redis.assert_unchanged_since(&before);

        // Letters: out of stock, past the total, and, if users are recorded, a user who changed.
        let refused = [units("s", "-19"), units("x", "3")].concat();
        assert_eq!(repair(&mut scripts, ["1", "0"], &refused), "1 8 sx", "{layout:?}");
        assert_eq!(redis.hget(&layout.meta("1"), "repairs").as_deref(), Some("1"));
        if layout.has_users() {
            let rows = ["c", "7", "5", "0", "5", "o", "8", "1", "0", "1"];
            assert_eq!(repair(&mut scripts, ["1", "1"], &rows), "1 9 co", "{layout:?}");
            assert_eq!(orders(&redis.xrange(&layout.ledger("1")).last().unwrap().1), [["8", "1", "0"]]);
            let after = redis.dump_all();
            assert_eq!(repair(&mut scripts, ["1", "1"], &rows[5..]), "1 9 r", "{layout:?}: again");
            assert_eq!(repair(&mut scripts, ["1", "2"], &["o", "7", "1", "0", "1"]), "1 9 q", "{layout:?}: reused");
            redis.assert_unchanged_since(&after);
            assert_eq!(repair(&mut scripts, ["1", "2"], &["b", "8", "0", "1", "-1"]), "1 8 o", "{layout:?}: back");
        }
        // What raises the stock waits for all that does not, in whatever order; together they may add up.
        let count = redis.hget(&layout.meta("1"), "repairs").unwrap();
        let mixed = [units("t", "1"), units("s", "-19")].concat();
        assert_eq!(repair(&mut scripts, ["1", &count], &mixed), "1 8 ts", "{layout:?}");
        let count = redis.hget(&layout.meta("1"), "repairs").unwrap();
        let together = [units("u", "1"), units("v", "-9")].concat();
        assert_eq!(repair(&mut scripts, ["1", &count], &together), "1 0 oo", "{layout:?}");
        assert_eq!(
            repair(&mut scripts, ["1", &count], &[&together[..], &units("w", "1")].concat()),
            format!("-23 1 {} rrt", count.parse::<u32>().unwrap() + 1),
            "{layout:?}"
        );

        let key = layout.stock("1");
        redis.cmd(("SET", &key, "abc"));
        assert_eq!(repair(&mut scripts, ["1", "0"], &units("i", "1")), "-11 nil nil 1 abc", "{layout:?}");
    }
}

#[test]
fn a_damaged_count_of_repairs_is_corrupt_and_nothing_is_written() {
    for layout in LAYOUTS {
        let (redis, mut scripts) = scripts(layout);
        scripts.preheat("1", "10");
        scripts.deduct("1", ("7", "1", "r1"));
        // Numbers that are none, and the last number that can be counted to.
        for count in ["abc", "", "-1", "1e3", "007", " 0", "9007199254740991", "9007199254740992"] {
            redis.cmd(("HSET", layout.meta("1"), "repairs", count));
            let before = redis.dump_all();
            for (dry, audited) in [("0", "0"), ("1", "0"), ("0", "9007199254740991"), ("0", "")] {
                let args = [layout.kind, "me", "why", dry, "1", audited, "i", "", "0", "0", "1"];
                let reply = scripts.call("repair", &layout.keys("1"), &args);
                assert_eq!(reply, format!("-11 nil nil 2 {count}"), "{layout:?} {count:?} {dry} {audited:?}");
            }
            redis.assert_unchanged_since(&before);
        }
        redis.cmd(("HDEL", layout.meta("1"), "repairs"));
        let args = [layout.kind, "me", "why", "0", "1", "0", "i", "", "0", "0", "1"];
        assert_eq!(scripts.call("repair", &layout.keys("1"), &args), "1 10 o", "{layout:?}: none is 0");
        assert_eq!(redis.hget(&layout.meta("1"), "repairs").as_deref(), Some("1"));
    }
}

#[test]
fn repair_creates_a_stock_key_that_is_gone_and_only_then() {
    for layout in LAYOUTS {
        let (redis, mut scripts) = scripts(layout);
        scripts.preheat("1", "10");
        scripts.deduct("1", ("7", "1", "r1"));
        let mut repair = |count: &str, rows: &[&str]| {
            let args = [&[layout.kind, "me", "why", "0", "1", count], rows].concat();
            scripts.call("repair", &layout.keys("1"), &args)
        };
        let restore = ["i", "", "?", "9", "9"];
        assert_eq!(repair("0", &restore), "1 9 c", "{layout:?}: it is there");
        redis.cmd(("DEL", layout.stock("1")));
        assert_eq!(repair("1", &["j", "", "0", "0", "9"]), "-4 nil nil", "{layout:?}: a difference from nothing");
        assert_eq!(repair("1", &["j", "", "?", "11", "11"]), "1 0 x", "{layout:?}");
        assert_eq!(repair("2", &[&restore[..], &["k", "", "0", "0", "-10"]].concat()), "1 0 ts", "{layout:?}");
        assert_eq!(repair("3", &restore), "1 9 o", "{layout:?}");
        assert_eq!(redis.int(&layout.stock("1")), 9);
        assert_eq!(repair("3", &restore), "1 9 r", "{layout:?}");
        redis.cmd(("DEL", layout.stock("1")));
        assert_eq!(repair("4", &["l", "", "?", "0", "0"]), "1 0 o", "{layout:?}: sold out");
        assert_eq!(redis.int(&layout.stock("1")), 0);
    }
}

#[test]
fn repair_knows_a_member_without_units_from_one_that_has_some() {
    for layout in LAYOUTS {
        let (redis, mut scripts) = scripts(layout);
        scripts.preheat("1", "10");
        let mut repair = |count: &str, rows: &[&str]| {
            let args = [&[layout.kind, "me", "why", "0", "1", count], rows].concat();
            scripts.call("repair", &layout.keys("1"), &args)
        };
        let unknown = ["i", "7", "?", "2", "0"];
        if layout.kind != "set" {
            assert!(repair("0", &unknown).contains("USAGE repair"), "{layout:?}");
            continue;
        }
        assert_eq!(repair("0", &unknown), "1 10 c", "nobody");
        redis.cmd(("SADD", "bought:1", "7"));
        assert_eq!(repair("1", &["j", "7", "1", "0", "1"]), "1 10 c", "it is not 1");
        assert_eq!(repair("2", &unknown), "1 10 o");
        assert_eq!(redis.hget("sku:units:1", "7").as_deref(), Some("2"));
        assert_eq!(orders(&redis.xrange(&layout.ledger("1")).last().unwrap().1), [["7", "0", "2"]]);
        assert_eq!(repair("3", &["k", "7", "?", "0", "0"]), "1 10 c", "it is known now");
    }
}

#[test]
fn what_raises_the_stock_alone_needs_stock_and_ledger_as_audited() {
    for layout in LAYOUTS {
        let (redis, mut scripts) = scripts(layout);
        scripts.preheat("1", "10");
        let last = redis.xrange(&layout.ledger("1")).last().unwrap().0.clone();
        redis.cmd(("DECRBY", layout.stock("1"), 4));
        let mut repair = |count: &str, id: &str, seen: [&str; 2]| {
            let args = [layout.kind, "me", "why", "0", "1", count, id, "", "0", "0", "2", seen[0], seen[1]];
            scripts.call("repair", &layout.keys("1"), &args)
        };
        assert_eq!(repair("0", "i", ["7", &last]), "1 6 c", "{layout:?}: a backend sold one more since");
        assert_eq!(repair("1", "j", ["6", "1-0"]), "1 6 c", "{layout:?}: a preheat since is no purchase");
        assert_eq!(repair("2", "k", ["6", ""]), "1 6 c", "{layout:?}: there was no ledger");
        assert!(repair("3", "l", ["6.0", &last]).contains("USAGE repair"), "{layout:?}");
        assert_eq!(redis.int(&layout.stock("1")), 6);
        // What the ledger says was sold since may be sold.
        let order = ["users", "7", "quantity", "2"];
        redis.cmd(("XADD", layout.ledger("1"), "*", "op", "deduct", "stock", "4", &order[..]));
        redis.cmd(("DECRBY", layout.stock("1"), 2));
        assert_eq!(repair("3", "n", ["7", &last]), "1 4 c", "{layout:?}");
        redis.cmd(("XADD", layout.ledger("1"), "*", "op", "refund", &order[..]));
        redis.cmd(("INCRBY", layout.stock("1"), 2));
        assert_eq!(repair("4", "m", ["6", &last]), "1 8 o", "{layout:?}");
        assert_eq!(repair("4", "m", ["6", &last]), "1 8 r", "{layout:?}");
        assert_eq!(redis.int(&layout.stock("1")), 8);
    }
}

#[test]
fn a_user_gains_more_than_the_stock_gives_only_if_the_stock_is_as_audited() {
    for layout in LAYOUTS.into_iter().filter(|layout| layout.has_users()) {
        let (redis, mut scripts) = scripts(layout);
        scripts.preheat("1", "10");
        let last = redis.xrange(&layout.ledger("1")).last().unwrap().0.clone();
        redis.cmd(("DECRBY", layout.stock("1"), 1));
        let mut repair = |count: &str, id: &str, [from, to, change]: [&str; 3], seen: [&str; 2]| {
            let args = [layout.kind, "me", "", "0", "1", count, id, "7", from, to, change, seen[0], seen[1]];
            scripts.call("repair", &layout.keys("1"), &args)
        };
        let gains = ["0", "1", "0"];
        assert_eq!(repair("0", "i", gains, ["8", &last]), "1 9 c", "{layout:?}: a unit came back since");
        assert_eq!(repair("1", "j", ["0", "1", "-1"], ["8", &last]), "1 8 o", "{layout:?}: the stock gives it");
        assert_eq!(repair("2", "k", ["1", "0", "0"], ["7", &last]), "1 8 o", "{layout:?}: it only loses");
        let ledger = layout.ledger("1");
        let forged: String = redis.ask(("XADD", &ledger, "*", "op", "repair", "stock", "7", "stock_change", "-01"));
        redis.cmd(("DECRBY", layout.stock("1"), 1));
        assert_eq!(repair("3", "m", gains, ["9", &last]), "1 7 c", "{layout:?}: that is no number");
        redis.cmd(("XDEL", &ledger, forged));
        redis.cmd(("INCRBY", layout.stock("1"), 1));
        assert_eq!(repair("4", "l", gains, ["9", &last]), "1 8 o", "{layout:?}: the ledger has the repairs since");
        assert_eq!(redis.int(&layout.stock("1")), 8);
    }
}

/// Reverses the request id of a user, who holds that many units and then none.
fn reverse(scripts: &mut super::Scripts, user: &str, units: &str, ids: &str) -> String {
    let layout = scripts.layout;
    let id = format!("i-{}", ids.split('\t').next().unwrap());
    let args = [layout.kind, "me", "", "0", "1", "", &id, user, units, "0", units, ids];
    scripts.call("repair", &layout.keys("1"), &args)
}

#[test]
pub(super) fn an_order_whose_units_a_repair_took_is_reversed_in_every_script() {
    for layout in LAYOUTS.into_iter().filter(|layout| layout.has_users()) {
        let (redis, mut scripts) = scripts(layout);
        scripts.preheat("1", "10");
        scripts.preheat("2", "10");
        let (keys, kind) = (layout.all_keys("1"), layout.kind);
        let confirmed =
            |scripts: &mut super::Scripts, step: &str| scripts.call("settle", &keys, &[kind, "me", "h", step]);
        let hold = [kind, "tester", "8", "1", "h", "first", "", "900000"];
        scripts.deduct("1", ("7", "1", "r"));
        scripts.call("hold", &keys, &hold);
        confirmed(&mut scripts, "confirm");
        assert_eq!(
            scripts.multi_deduct("first", "9", "m", &[("1", "1"), ("2", "1")]),
            "1 1,9,1 1,9,1".replacen("1,9", "1,7", 1)
        );
        for (user, id) in [("7", "r"), ("8", "h"), ("9", "m")] {
            assert!(reverse(&mut scripts, user, "1", id).ends_with(" o"), "{layout:?} {user}");
        }
        assert_eq!(orders_of(&redis, layout), vec!["r", "h", "m"], "{layout:?}");
        let before = redis.dump_all();
        assert_eq!(scripts.deduct("1", ("7", "1", "r")), "-16 10 0", "{layout:?}");
        assert_eq!(scripts.deduct("1", ("7", "2", "r")), "-9 10 0", "{layout:?}");
        assert_eq!(scripts.call("hold", &keys, &hold), "-16 10 0 nil", "{layout:?}");
        for (step, code) in [("confirm", "-13"), ("release", "-13"), ("abort", "2")] {
            assert!(confirmed(&mut scripts, step).starts_with(&format!("{code} 10 0")), "{layout:?} {step}");
        }
        for mode in ["first", "retry"] {
            let again = scripts.multi_deduct(mode, "9", "m", &[("1", "1"), ("2", "1")]);
            assert_eq!(again, "-1 -16,10,0 -1,9,1", "{layout:?}");
        }
        redis.assert_unchanged_since(&before);
        // Many orders, and those of a job.
        assert_eq!(
            scripts.orders("deduct", "first", "1", &[("7", "1", "r"), ("5", "1", "n")]),
            "bo 10 0 0 1",
            "{layout:?}"
        );
    }
}

/// What the ledger's entries say was reversed.
fn orders_of(redis: &crate::support::TestRedis, layout: crate::support::Layout) -> Vec<String> {
    redis.xrange(&layout.ledger("1")).into_iter().filter_map(|(_, entry)| entry.get("reversed").cloned()).collect()
}

#[test]
fn an_id_that_is_no_purchase_of_the_user_is_changed_and_nothing_is_written() {
    for layout in LAYOUTS.into_iter().filter(|layout| layout.has_users()) {
        let (redis, mut scripts) = scripts(layout);
        scripts.preheat("1", "10");
        scripts.deduct("1", ("7", "1", "r"));
        scripts.deduct("1", ("17", "1", "s"));
        scripts.call("hold", &layout.all_keys("1"), &[layout.kind, "tester", "8", "1", "h", "first", "", "900000"]);
        for (id, text) in [("late", "-3\t7"), ("back", "refund 1\t7"), ("void", "void\t"), ("half", "hold 1\t7")] {
            redis.cmd(("HSET", layout.requests("1"), id, text));
        }
        let before = redis.dump_all();
        for ids in ["s", "late", "back", "void", "half", "nobody", "r\ts"] {
            assert!(reverse(&mut scripts, "7", "1", ids).ends_with(" c"), "{layout:?} {ids}");
        }
        assert!(reverse(&mut scripts, "8", "1", "h").ends_with(" c"), "{layout:?}: it is open");
        redis.cmd(("HSET", layout.meta("1"), "repairs", "0"));
        redis.assert_unchanged_since(&before);
        // Arguments that do not fit.
        let repair = |scripts: &mut super::Scripts, rows: &[&str]| {
            scripts.call("repair", &layout.keys("1"), &[&[layout.kind, "me", "", "0", "1", "0"], rows].concat())
        };
        let alone = ["i", "", "0", "0", "1", "r"];
        let two = ["i", "7", "1", "0", "1", "j", "8", "1", "0", "1"];
        for rows in [
            &alone[..],
            &[&two[..], &["r"]].concat(),
            &[&two[..], &["r\nr"]].concat(),
            &[&two[..], &["r\n\ts\x01"]].concat(),
        ] {
            assert!(repair(&mut scripts, rows).contains("USAGE repair: request ids"), "{layout:?} {rows:?}");
        }
        let many: Vec<String> = (0..10_001).map(|id| format!("r{id}")).collect();
        let reply = repair(&mut scripts, &[&two[..5], &[&many.join("\t")]].concat());
        assert!(reply.contains("more than 10000 request ids"), "{layout:?} {reply}");
        redis.assert_unchanged_since(&before);
    }
}

#[test]
fn ten_thousand_ids_are_reversed_in_one_call() {
    let layout = crate::support::SECKILL;
    let (redis, mut scripts) = scripts(layout);
    scripts.preheat("1", "20000");
    let ids: Vec<String> = (0..10_000).map(|id| format!("r{id}")).collect();
    for ids in ids.chunks(2000) {
        let orders: Vec<_> = ids.iter().map(|id| ("7", "1", &**id)).collect();
        assert!(scripts.orders("deduct", "first", "1", &orders).starts_with("oo"));
    }
    assert_eq!(reverse(&mut scripts, "7", "10000", &ids.join("\t")), "1 20000 o");
    let stored = redis.hgetall(&layout.requests("1"));
    assert_eq!(stored.values().filter(|record| *record == "-16\t7").count(), 10_000);
    assert_eq!(scripts.deduct("1", ("7", "1", "r9999")), "-16 20000 0");
}
