//! A call that gives units back and was cut, where the simulator does not look or see: rights, adoptions, trims, updates and what the ledger names.

use super::{LONG, quantity, units_left};
use crate::support::scripts::{commands, cut_call};
use crate::support::{COUPON, Layout, SECKILL, SKU, Scripts, TestRedis};

/// Units that a user holds of activity 1.
fn units_of(redis: &TestRedis, layout: Layout, user: &str) -> i64 {
    let member = || redis.smembers(&layout.participants("1")).contains(user);
    let number = |text: Option<String>| text.map_or(0, |text| text.parse().unwrap());
    match layout.kind {
        "hash" => number(redis.hget(&layout.participants("1"), user)),
        "set" if member() => number(redis.hget(&layout.key(6, "1"), user)),
        _ => i64::from(layout.kind == "coupon" && member()),
    }
}

/// Units that all users hold.
fn units_of_all(redis: &TestRedis, layout: Layout) -> i64 {
    ["ann", "bob", "cat"].map(|user| units_of(redis, layout, user)).iter().sum()
}

fn begun(redis: &TestRedis, layout: Layout) -> String {
    redis.hget(&layout.requests("1"), "\tbegun").unwrap_or_default()
}

fn ops(redis: &TestRedis, layout: Layout) -> Vec<String> {
    redis.xrange(&layout.ledger("1")).into_iter().map(|(_, entry)| entry["op"].clone()).collect()
}

/// A fresh activity with ten units; `ann` has some by `order`.
fn sale(redis: &TestRedis, layout: Layout, ledger: &str) -> Scripts {
    redis.cmd("FLUSHALL");
    let mut scripts = Scripts::of(redis, layout);
    scripts.preheat_with("1", "10", &[("ledger", ledger)]);
    scripts
}

#[test]
fn a_seller_without_the_rights_to_finish_sells_to_others_alone() {
    let redis = TestRedis::start();
    if !redis.scripts_can_check_permissions() {
        return;
    }
    let kept: Vec<String> = commands("deduct", "set")
        .into_iter()
        .filter(|command| !["incrby", "hdel", "srem", "xrange"].contains(&command.as_str()))
        .map(|command| format!("+{command}"))
        .collect();
    for layout in [SECKILL, SKU, COUPON] {
        for index in 1..6 {
            let mut scripts = sale(&redis, layout, "1");
            let units = quantity(layout).to_string();
            assert!(scripts.deduct("1", ("ann", &units, "order")).starts_with("1 "));
            assert!(scripts.deduct("1", ("cat", "1", "third")).starts_with("1 "));
            let back = [layout.kind, "tester", "ann", &units, "back"];
            assert!(scripts.eval(&cut_call("refund", layout, &back, index), &layout.keys("1"), &back).contains("CUT"));
            let context = format!("{} cut after {index}", layout.name);
            let is_pending = begun(&redis, layout).starts_with("begun ");
            // Its user is there from the first call on.
            scripts.multi_deduct("dry", "ann", "", &[("1", "1")]);
            for name in ["deduct", "multi_deduct"] {
                scripts.send(&["ACL", "SETUSER", name, "reset", "on", "nopass", "~*", "+evalsha"]);
                let rights: Vec<&str> = kept.iter().map(String::as_str).collect();
                scripts.send(&[&["ACL", "SETUSER", name][..], &rights].concat());
            }
            let before = redis.dump_all();
            for reply in [
                scripts.deduct("1", ("ann", "1", "again")),
                scripts.multi_deduct("first", "ann", "many", &[("1", "1")]),
            ] {
                assert_eq!(reply.contains("ERROR NOPERM"), is_pending, "{context}: {reply}");
            }
            if is_pending {
                redis.assert_unchanged_since(&before);
                assert!(scripts.deduct("1", ("bob", "1", "other")).starts_with("1 "), "{context}");
                assert!(scripts.refund("1", ("ann", &units, "back")).starts_with("2 8 0 "), "{context}");
                assert_eq!(begun(&redis, layout), "", "{context}");
                assert_eq!(units_left(&redis, layout) + units_of_all(&redis, layout), 10, "{context}");
                let refunds = ops(&redis, layout).iter().filter(|op| *op == "refund").count();
                assert_eq!(refunds, 1, "{context}");
                redis.seckill(["-l", layout.name, "reconcile", "1"]).code(0);
            }
        }
    }
}

#[test]
fn a_counter_below_what_is_open_is_raised_again_by_a_repair() {
    let redis = TestRedis::start();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("orders.csv");
    std::fs::write(&file, "activity,user,quantity\n1,bob,1\n").unwrap();
    for ledger in ["0", "1"] {
        let mut scripts = sale(&redis, SECKILL, ledger);
        assert!(scripts.deduct("1", ("bob", "1", "first")).starts_with("1 "));
        let hold = ["hash", "tester", "ann", "3", "h1", "first", "", LONG];
        assert!(scripts.call("hold", &SECKILL.all_keys("1"), &hold).starts_with("1 "));
        // As a release of version 0.1 left it that was cut.
        redis.cmd(("HDEL", SECKILL.participants("1"), "ann"));
        let audit = ["reconcile", "1", "--as-of=2100-01-01T00:00:00Z", "--orders"];
        redis.seckill(audit).args([file.to_str().unwrap()]).code(7).stdout_has("quantity_mismatch");
        redis.seckill(audit).args([file.to_str().unwrap(), "--fix", "--yes"]).code(0);
        assert_eq!((units_left(&redis, SECKILL), units_of(&redis, SECKILL, "ann")), (6, 3), "ledger {ledger}");
        assert!(scripts.settle("confirm", "h1").starts_with("1 "));
    }
}

#[test]
fn an_adoption_finishes_a_refund_that_was_cut() {
    let redis = TestRedis::start();
    for layout in [SECKILL, SKU, COUPON] {
        let units = quantity(layout);
        for index in 1..5 {
            redis.cmd("FLUSHALL");
            let mut scripts = Scripts::of(&redis, layout);
            redis.cmd(("SET", layout.stock("1"), 9 - units));
            for (user, units) in [("ann", units), ("bob", 1)] {
                match layout.kind {
                    "hash" => redis.cmd(("HSET", layout.participants("1"), user, units)),
                    _ => redis.cmd(("SADD", layout.participants("1"), user)),
                };
                if layout.kind == "set" {
                    redis.cmd(("HSET", layout.key(6, "1"), user, units));
                }
            }
            let back = [layout.kind, "tester", "ann", &units.to_string(), "back"];
            let reply = scripts.eval(&cut_call("refund", layout, &back, index), &layout.keys("1"), &back);
            let context = format!("{} cut after {index}: {reply}", layout.name);
            let is_withheld = begun(&redis, layout).starts_with("stock ") && units_left(&redis, layout) < 9;
            let total = if is_withheld { 10 - units } else { 10 };
            let adopt = ["-l", layout.name, "preheat", "--id", "1", "--adopt", "--yes"];
            redis.seckill(adopt).code(0);
            assert_eq!((begun(&redis, layout), units_of(&redis, layout, "ann")), (String::new(), 0), "{context}");
            assert_eq!(units_left(&redis, layout), total - 1, "{context}");
            redis.seckill(["-l", layout.name, "reconcile", "1"]).code(0);
        }
    }
}

#[test]
fn a_trim_keeps_the_entries_by_which_a_cut_call_is_finished() {
    let redis = TestRedis::start();
    for index in [1, 2, 3] {
        let mut scripts = sale(&redis, SECKILL, "1");
        for user in ["ann", "bob"] {
            assert!(scripts.deduct("1", (user, "3", user)).starts_with("1 "));
        }
        let back = ["hash", "tester", "ann", "3", "back"];
        assert!(scripts.eval(&cut_call("refund", SECKILL, &back, index), &SECKILL.keys("1"), &back).contains("CUT"));
        // The last entry stays in any case: this one is.
        redis.seckill(["pause", "1"]).code(0);
        redis.seckill(["ledger", "trim", "1", "--before", "1ms", "--yes"]).code(0);
        let last = begun(&redis, SECKILL).split(' ').nth(1).unwrap().to_owned();
        let first = redis.xrange(&SECKILL.ledger("1"))[0].0.clone();
        assert!(index == 1 || first > last, "{first} {last}");
        assert!(scripts.refund("1", ("ann", "3", "back")).starts_with("2 7 0 "));
        let refunds = ops(&redis, SECKILL).iter().filter(|op| *op == "refund").count();
        assert_eq!(refunds, 1, "cut after {index}");
        redis.seckill(["reconcile", "1"]).code(0);
    }
}

#[test]
fn a_repair_that_was_cut_and_finished_by_an_order_is_not_made_again_by_a_later_audit() {
    let redis = TestRedis::start();
    for index in 1..6 {
        let mut scripts = sale(&redis, SECKILL, "1");
        assert!(scripts.deduct("1", ("bob", "1", "first")).starts_with("1 "));
        // Two units are gone, and nobody has them.
        redis.cmd(("SET", SECKILL.stock("1"), 7));
        let epoch = redis.hget(&SECKILL.meta("1"), "rules").unwrap().split(' ').nth(2).unwrap().to_owned();
        let plan = |id: &str| {
            let repairs = redis.hget(&SECKILL.meta("1"), "repairs").unwrap();
            let (last, _) = redis.xrange(&SECKILL.ledger("1")).pop().unwrap();
            let stock = units_left(&redis, SECKILL).to_string();
            ["hash", "tester", "", "0", &epoch, &repairs, id, "", "0", "0", "2", &stock, &last].map(str::to_owned)
        };
        let first = plan("repair:one");
        let first = first.each_ref().map(String::as_str);
        assert!(scripts.eval(&cut_call("repair", SECKILL, &first, index), &SECKILL.keys("1"), &first).contains("CUT"));
        let later = plan("repair:two");
        let is_pending = begun(&redis, SECKILL).starts_with("begun ");
        assert!(scripts.deduct("1", ("ann", "1", "other")).starts_with("1 "));
        if is_pending {
            let reply = scripts.call("repair", &SECKILL.keys("1"), &later.each_ref().map(String::as_str));
            assert!(reply.starts_with("-23 ") || reply.ends_with(" c"), "cut after {index}: {reply}");
            assert_eq!(units_left(&redis, SECKILL) + units_of_all(&redis, SECKILL), 10, "cut after {index}");
            redis.seckill(["reconcile", "1"]).code(0);
        }
    }
}
