//! A call that gives units back and was cut is finished by whatever comes next: nobody loses units twice, and none is sold twice.

use super::cut::{cut_after, cut_call};
use super::{LONG, quantity, units_left};
use crate::support::scripts::commands;
use crate::support::{CLUSTER, COUPON, LAYOUTS, Layout, PRODUCT, SECKILL, SKU, Scripts, TestRedis};

/// One of each kind.
const KINDS: [Layout; 4] = [SECKILL, SKU, COUPON, PRODUCT];

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

/// A fresh activity with ten units, of which `ann` has some by `order`.
fn sale(redis: &TestRedis, layout: Layout, ledger: &str) -> Scripts {
    redis.cmd("FLUSHALL");
    let mut scripts = Scripts::of(redis, layout);
    scripts.preheat_with("1", "10", &[("ledger", ledger)]);
    scripts
}

fn user(layout: Layout, name: &'static str) -> &'static str {
    if layout.has_users() { name } else { "" }
}

fn is_ok(reply: &str) -> bool {
    ["1 ", "2 ", "o ", "r "].iter().any(|done| reply.starts_with(done))
}

/// The arguments of a job of one line.
fn job<'a>(kind: &'a str, user: &'a str, units: &'a str) -> Vec<&'a str> {
    vec![kind, "tester", user, units, "night", "d", "1", "0", "1", "", ""]
}

#[test]
fn a_refund_that_was_cut_and_is_sent_again_takes_the_units_once() {
    let redis = TestRedis::start();
    for layout in KINDS {
        for ledger in ["0", "1"] {
            let (kind, ann, units) = (layout.kind, user(layout, "ann"), quantity(layout).to_string());
            let (users, more) = (format!("[\"{ann}\"]"), (quantity(layout) + 2).to_string());
            let bought = if kind == "hash" { &more } else { &units };
            let single = vec![kind, "tester", ann, &units, "back"];
            for args in [single, job(kind, &users, &units)] {
                // What comes between the cut and the same call again.
                for between in ["", "another buyer", "another refund", "the same user buys", "several"] {
                    for nth in 0.. {
                        let mut scripts = sale(&redis, layout, ledger);
                        assert!(scripts.deduct("1", (ann, bought, "order")).starts_with("1 "));
                        let had = units_of(&redis, layout, ann);
                        let reply = scripts.eval(&cut_call("refund", layout, &args, nth), &layout.keys("1"), &args);
                        let is_cut = reply.contains("CUT");
                        let (cut_at, context) = (
                            begun(&redis, layout),
                            format!("{} {ledger} {args:?} {nth} {between}: {reply}", layout.name),
                        );
                        let mut others = 0;
                        let reply = match between {
                            "another buyer" => scripts.deduct("1", (user(layout, "bob"), "1", "other")),
                            "another refund" if kind == "hash" => {
                                others -= 1;
                                scripts.refund("1", (ann, "1", "second"))
                            }
                            "the same user buys" if kind == "hash" => {
                                others += quantity(layout);
                                scripts.deduct("1", (ann, &units, "again"))
                            }
                            "several" => scripts.multi_deduct("first", user(layout, "bob"), "other", &[("1", "1")]),
                            _ => String::from("1 "),
                        };
                        assert!(is_ok(&reply) || reply.starts_with("1 1,"), "{context}: {reply}");
                        let reply = scripts.call("refund", &layout.keys("1"), &args);
                        assert!(is_ok(&reply), "{context}: {reply}");
                        assert_eq!(begun(&redis, layout), "", "{context}");
                        let left = units_left(&redis, layout);
                        if layout.has_users() {
                            assert_eq!(units_of(&redis, layout, ann), had - quantity(layout) + others, "{context}");
                            let known = left + units_of_all(&redis, layout);
                            // Cut behind all but the stock, while others hold something: units are withheld.
                            let is_withheld = cut_at.starts_with("stock ") && known == 10 - quantity(layout);
                            assert!(known == 10 || is_withheld, "{context}: {known}");
                            if ledger == "1" && known == 10 {
                                let count = ops(&redis, layout).iter().filter(|op| *op == "refund").count();
                                assert_eq!(count, 1 + usize::from(others == -1), "{context}");
                            }
                        }
                        assert!(left <= 10, "{context}");
                        if !is_cut {
                            break;
                        }
                    }
                }
            }
        }
    }
}

/// What returns units of `ann`, as script and arguments; `h1` is her hold, overdue for those that expire.
fn returns(kind: &'static str, units: &'static str) -> Vec<(&'static str, Vec<&'static str>)> {
    let settle = |id: &'static str, step: &'static str| ("settle", vec![kind, "tester", id, step]);
    // Short of the limit, or of the stock.
    let (whose, wants) = if kind == "hash" { ("cat", "9") } else { ("ann", units) };
    vec![
        settle("h1", "release"),
        settle("h1", "abort"),
        settle("500", "expire"),
        ("settle", vec![kind, "tester", r#"["h1"]"#, "release", "night", "d", "1", "0", "1"]),
        ("hold", vec![kind, "tester", whose, wants, "h2", "first", "", LONG]),
        ("refund", vec![kind, "tester", "ann", units, "back"]),
    ]
}

/// Sells all that is left to others, one unit each.
fn sell_out(redis: &TestRedis, scripts: &mut Scripts) -> i64 {
    let mut sold = 0;
    for nth in 0..units_left(redis, scripts.layout) {
        sold += i64::from(scripts.deduct("1", (&format!("z{nth}"), "1", &format!("z{nth}"))).starts_with("1 "));
    }
    sold
}

#[test]
fn what_a_cut_return_left_is_never_sold_twice_after_a_repair() {
    let redis = TestRedis::start();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("orders.csv");
    std::fs::write(&file, "activity,user,quantity\n1,bob,1\n").unwrap();
    for layout in [SECKILL, SKU, COUPON] {
        let units = if layout.kind == "coupon" { "1" } else { "3" };
        for ledger in ["0", "1"] {
            for (name, args) in returns(layout.kind, units) {
                for nth in 0.. {
                    let mut scripts = sale(&redis, layout, ledger);
                    let keys = layout.all_keys("1");
                    assert!(scripts.deduct("1", ("bob", "1", "first")).starts_with("1 "));
                    let is_hold = name != "refund";
                    if is_hold {
                        let hold = [layout.kind, "tester", "ann", units, "h1", "first", "", LONG];
                        assert!(scripts.call("hold", &keys, &hold).starts_with("1 "));
                        if args.contains(&"expire") || name == "hold" {
                            scripts.send(&["ZADD", &layout.deadlines("1"), "XX", "1", "h1"]);
                        }
                    } else {
                        assert!(scripts.deduct("1", ("ann", units, "order")).starts_with("1 "));
                    }
                    let of_script = if is_hold { keys.clone() } else { layout.keys("1") };
                    let reply = scripts.eval(&cut_call(name, layout, &args, nth), &of_script, &args);
                    let context = format!("{} {ledger} {name} {args:?} cut after {nth}: {reply}", layout.name);
                    // Twice: what the first finds may be finished by it.
                    for _ in 0..2 {
                        let fix =
                            ["-l", layout.name, "reconcile", "1", "--fix", "--yes", "--as-of=2100-01-01T00:00:00Z"];
                        redis.seckill(fix).args(["--orders", file.to_str().unwrap()]).run();
                    }
                    sell_out(&redis, &mut scripts);
                    let confirmed = is_hold && is_ok(&scripts.settle("confirm", "h1"));
                    let promised = if confirmed { units.parse().unwrap() } else { 0 };
                    let others: i64 = (0..10).map(|nth| units_of(&redis, layout, &format!("z{nth}"))).sum();
                    let ann = units_of(&redis, layout, "ann");
                    assert!(ann >= promised, "{context}: {ann} of {promised}");
                    let sum = units_left(&redis, layout) + units_of_all(&redis, layout) + others;
                    assert!(sum <= 10, "{context}: {sum}");
                    if !reply.contains("CUT") {
                        break;
                    }
                }
            }
        }
    }
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
        for nth in 1..6 {
            let mut scripts = sale(&redis, layout, "1");
            let units = quantity(layout).to_string();
            assert!(scripts.deduct("1", ("ann", &units, "order")).starts_with("1 "));
            assert!(scripts.deduct("1", ("cat", "1", "third")).starts_with("1 "));
            let back = [layout.kind, "tester", "ann", &units, "back"];
            assert!(scripts.eval(&cut_call("refund", layout, &back, nth), &layout.keys("1"), &back).contains("CUT"));
            let context = format!("{} cut after {nth}", layout.name);
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
fn a_confirm_needs_a_counter_that_covers_what_is_open() {
    let redis = TestRedis::start();
    for layout in LAYOUTS.into_iter().filter(|layout| layout.has_users()) {
        let mut scripts = sale(&redis, layout, "1");
        let (kind, keys, units) = (layout.kind, layout.all_keys("1"), quantity(layout).to_string());
        for (whose, id) in [("ann", "h1"), ("bob", "h2")] {
            let hold = [kind, "tester", whose, &units, id, "first", "", LONG];
            assert!(scripts.call("hold", &keys, &hold).starts_with("1 "));
        }
        match kind {
            "hash" => redis.cmd(("HSET", layout.participants("1"), "ann", 1)),
            "set" => redis.cmd(("HSET", layout.key(6, "1"), "ann", 1)),
            _ => redis.cmd(("SREM", layout.participants("1"), "ann")),
        };
        let before = redis.dump_all();
        assert!(scripts.settle("confirm", "h1").starts_with("-11 nil nil "), "{layout:?}");
        redis.assert_unchanged_since(&before);
        let both = [kind, "tester", r#"["h1","h2"]"#, "confirm", "night", "d", "1", "0", "1-2"];
        assert!(scripts.call("settle", &keys, &both).starts_with("co "), "{layout:?}");
        assert!(redis.hget(&layout.requests("1"), "\th:h1").unwrap().starts_with("held "), "{layout:?}");
    }
}

#[test]
fn a_repair_counts_what_is_open_and_leaves_it() {
    let redis = TestRedis::start();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("orders.csv");
    std::fs::write(&file, "activity,user,quantity\n1,ann,1\n").unwrap();
    let mut scripts = sale(&redis, SECKILL, "1");
    let keys = SECKILL.all_keys("1");
    let hold = |id: &'static str| ["hash", "tester", "ann", "1", id, "first", "", LONG];
    // All is written but the entry.
    assert!(scripts.eval(&cut_after("hold", 7), &keys, &hold("h1")).contains("CUT"));
    assert!(scripts.call("hold", &keys, &hold("h1")).starts_with("2 "));
    assert!(scripts.call("hold", &keys, &hold("h2")).starts_with("1 "));
    assert!(scripts.settle("confirm", "h1").starts_with("1 "));
    assert_eq!(ops(&redis, SECKILL), ["preheat", "hold", "confirm"]);
    for _ in 0..2 {
        let fix = ["reconcile", "1", "--fix", "--yes", "--as-of=2100-01-01T00:00:00Z", "--orders"];
        redis.seckill(fix).args([file.to_str().unwrap()]).run();
        assert_eq!((units_left(&redis, SECKILL), units_of(&redis, SECKILL, "ann")), (8, 2));
    }
    assert!(scripts.settle("confirm", "h2").starts_with("1 "));
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
fn only_the_step_expire_postpones_what_it_leaves() {
    let redis = TestRedis::start();
    let mut scripts = sale(&redis, SECKILL, "1");
    let keys = SECKILL.all_keys("1");
    assert!(scripts.hold("item", LONG).starts_with("1 "));
    let record = redis.hget(&SECKILL.requests("1"), "\th:item").unwrap();
    redis.cmd(("HSET", SECKILL.requests("1"), "\th:item", record.replace(" - ", " m:seckill:stock:9 ")));
    scripts.send(&["ZADD", &SECKILL.deadlines("1"), "XX", "1", "item"]);
    let score = || redis.ask::<f64>(("ZSCORE", SECKILL.deadlines("1"), "item"));
    let short = ["hash", "tester", "8", "9", "s", "first", "", LONG];
    assert!(scripts.call("hold", &keys, &short).starts_with("-3 "));
    assert_eq!(score(), 1.0);
    assert!(scripts.settle("expire", "500").ends_with(" item m:seckill:stock:9"));
    assert!(score() > 1.0);
}

/// The counters follow, though the deadline that is stored is not that of the record any more.
#[test]
fn a_confirm_that_is_cut_after_its_hold_was_postponed_is_finished_by_the_same_call() {
    let redis = TestRedis::start();
    let keys = SECKILL.all_keys("1");
    let file = |job| ["hash", "tester", r#"["h"]"#, "confirm", job, "d", "1", "0", "1"];
    for is_file in [false, true] {
        let confirm = |job| if is_file { file(job).to_vec() } else { vec!["hash", "tester", "h", "confirm"] };
        let mut scripts = sale(&redis, SECKILL, "1");
        assert!(scripts.hold("h", LONG).starts_with("1 "));
        let later = LONG.parse::<u64>().unwrap() + 5000;
        scripts.send(&["ZADD", &SECKILL.deadlines("1"), "XX", &later.to_string(), "h"]);
        let reply = scripts.eval(&cut_call("settle", SECKILL, &confirm("one"), 1), &keys, &confirm("one"));
        assert!(reply.contains("CUT"), "{reply}");
        let reply = scripts.call("settle", &keys, &confirm("two"));
        assert!(reply.starts_with("2 ") || reply.starts_with("r "), "{reply}");
        assert_eq!(redis.hget(&SECKILL.requests("1"), "\to:7"), None, "{reply}");
        let refund = scripts.call("refund", &keys[..5], &["hash", "tester", "7", "all", ""]);
        assert!(refund.starts_with("1 10 0 "), "{refund}");
    }
}

#[test]
fn cut_confirms_of_orders_over_slots_that_are_finished_together_keep_their_primary() {
    let redis = TestRedis::start();
    let layout = CLUSTER;
    let mut scripts = sale(&redis, layout, "1");
    let (order, digest) = ("m:seckill:{9}:stock", "multi_deduct 0123456789abcdef0123456789abcdef01234567");
    for id in ["h1", "h2", "h3"] {
        let item = ["hash", "tester", "ann", "1", id, "first", "", LONG, order, digest, ""];
        let args = if id == "h3" { &item[..8] } else { &item[..] };
        assert!(scripts.call("hold", &layout.all_keys("1"), args).starts_with("1 "));
        let confirm = ["hash", "tester", id, "confirm", if id == "h3" { "" } else { order }];
        let reply = scripts.eval(&cut_after("settle", 1), &layout.all_keys("1"), &confirm);
        assert!(reply.contains("CUT"), "{reply}");
        scripts.send(&["ZADD", &layout.deadlines("1"), "XX", "1", id]);
    }
    assert!(scripts.settle("expire", "500").starts_with("1 "));
    let entries = redis.xrange(&layout.ledger("1"));
    let confirms: Vec<_> = entries
        .iter()
        .filter(|(_, entry)| entry["op"] == "confirm")
        .map(|(_, entry)| (&*entry["requests"], entry.get("primary").map(String::as_str)))
        .collect();
    let primary = Some("seckill:{9}:stock");
    assert_eq!(confirms, [(r#"["h1"]"#, primary), (r#"["h2"]"#, primary), (r#"["h3"]"#, None)]);
}

#[test]
fn an_adoption_finishes_a_refund_that_was_cut() {
    let redis = TestRedis::start();
    for layout in [SECKILL, SKU, COUPON] {
        let units = quantity(layout);
        for nth in 1..5 {
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
            let reply = scripts.eval(&cut_call("refund", layout, &back, nth), &layout.keys("1"), &back);
            let context = format!("{} cut after {nth}: {reply}", layout.name);
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
    for nth in [1, 2, 3] {
        let mut scripts = sale(&redis, SECKILL, "1");
        for user in ["ann", "bob"] {
            assert!(scripts.deduct("1", (user, "3", user)).starts_with("1 "));
        }
        let back = ["hash", "tester", "ann", "3", "back"];
        assert!(scripts.eval(&cut_call("refund", SECKILL, &back, nth), &SECKILL.keys("1"), &back).contains("CUT"));
        // The last entry stays in any case: this one is.
        redis.seckill(["pause", "1"]).code(0);
        redis.seckill(["ledger", "trim", "1", "--before", "1ms", "--yes"]).code(0);
        let last = begun(&redis, SECKILL).split(' ').nth(1).unwrap().to_owned();
        let first = redis.xrange(&SECKILL.ledger("1"))[0].0.clone();
        assert!(nth == 1 || first > last, "{first} {last}");
        assert!(scripts.refund("1", ("ann", "3", "back")).starts_with("2 7 0 "));
        let refunds = ops(&redis, SECKILL).iter().filter(|op| *op == "refund").count();
        assert_eq!(refunds, 1, "cut after {nth}");
        redis.seckill(["reconcile", "1"]).code(0);
    }
}

/// Cuts a call of a fresh sale after each of its writes; `then` gets what was left.
fn at_each_cut(
    layout: Layout,
    ledger: &str,
    (name, args): (&'static str, &[&str]),
    then: impl Fn(&TestRedis, &mut Scripts, &str),
) {
    let redis = TestRedis::start();
    for nth in 0.. {
        let mut scripts = sale(&redis, layout, ledger);
        let keys = if ["hold", "preheat"].contains(&name) { layout.all_keys("1") } else { layout.keys("1") };
        let reply = scripts.eval(&cut_call(name, layout, args, nth), &keys, args);
        then(&redis, &mut scripts, &format!("{} {ledger} {args:?} cut after {nth}: {reply}", layout.name));
        if !reply.contains("CUT") {
            break;
        }
    }
}

#[test]
fn a_cut_before_anybody_is_recorded_leaves_nothing_corrupt() {
    for layout in [SECKILL, SKU, COUPON] {
        for ledger in ["0", "1"] {
            let kind = layout.kind;
            let users = job(kind, r#"["ann"]"#, "1");
            let hold = [kind, "tester", "ann", "1", "order", "first", "", LONG];
            let calls: [(&'static str, Vec<&str>); 6] = [
                ("deduct", vec![kind, "tester", "ann", "1", "order"]),
                ("deduct", users.clone()),
                ("multi_deduct", vec![kind, "tester", "first", "", "ann", "order", "1"]),
                ("hold", hold.to_vec()),
                ("pause", vec!["paused", "tester", "", "0", "1"]),
                ("preheat", vec![kind, "tester", "", "update", "0", "12", "", "", "", "", ""]),
            ];
            for (name, args) in calls {
                at_each_cut(layout, ledger, (name, &args), |redis, scripts, context| {
                    // An operator ends a pause that was cut.
                    scripts.call("pause", &layout.keys("1"), &["live", "tester", "", "0"]);
                    let reply = scripts.deduct("1", ("bob", "1", "other"));
                    // A pause that was cut may have lost all units.
                    let is_lost = name == "pause" && reply.starts_with("-3 0 ");
                    assert!(is_ok(&reply) || is_lost, "{context}: {reply}");
                    assert!(begun(redis, layout).is_empty() || is_lost, "{context}");
                });
            }
        }
    }
}

#[test]
fn who_gives_the_last_units_back_after_a_cut_leaves_nothing_corrupt() {
    for layout in [SECKILL, SKU, COUPON] {
        let units = quantity(layout).to_string();
        let single = vec![layout.kind, "tester", "ann", &units, "back"];
        for args in [single, job(layout.kind, r#"["ann"]"#, &units)] {
            at_each_cut(
                layout,
                "1",
                ("deduct", &[layout.kind, "tester", "bob", "1", "cut"]),
                |redis, scripts, context| {
                    let is_recorded = units_of(redis, layout, "bob") > 0;
                    assert!(is_ok(&scripts.deduct("1", ("ann", &units, "order"))), "{context}");
                    assert!(is_ok(&scripts.call("refund", &layout.keys("1"), &args)), "{context}");
                    let is_marked = begun(redis, layout) == "first";
                    assert_eq!(is_marked, !is_recorded && units_left(redis, layout) < 10, "{context}");
                    assert!(is_ok(&scripts.deduct("1", ("cat", "1", "next"))), "{context}");
                    // Records that are lost are found as ever.
                    redis.cmd(("DEL", layout.participants("1")));
                    assert!(scripts.deduct("1", ("dan", "1", "last")).starts_with("-11 "), "{context}");
                },
            );
        }
    }
}

#[test]
fn an_update_that_was_cut_is_completed_by_the_same_update() {
    for total in ["7", "13"] {
        for ledger in ["0", "1"] {
            let update = ["hash", "tester", "", "update", "0", total, "", "", "", "", ""];
            at_each_cut(SECKILL, ledger, ("preheat", &update), |redis, scripts, context| {
                let reply = scripts.call("preheat", &SECKILL.all_keys("1"), &update);
                assert!(reply.starts_with("1 "), "{context}: {reply}");
                let left = units_left(redis, SECKILL);
                assert!(left <= total.parse().unwrap(), "{context}: {left}");
                assert!(!redis.meta("seckill:meta:1").contains_key("update"), "{context}");
                // What only the stock lost is proven by a ledger.
                if ledger == "1" {
                    redis.seckill(["reconcile", "1", "--fix", "--yes"]).run();
                    redis.seckill(["reconcile", "1"]).code(0);
                    assert_eq!(units_left(redis, SECKILL), total.parse::<i64>().unwrap(), "{context}");
                }
            });
        }
    }
}

#[test]
fn an_update_behind_a_cut_refund_makes_no_unit_too_many() {
    let redis = TestRedis::start();
    for layout in KINDS {
        let (ann, units) = (user(layout, "ann"), quantity(layout).to_string());
        for cut in 0.. {
            let mut scripts = sale(&redis, layout, "1");
            assert!(scripts.deduct("1", (ann, &units, "order")).starts_with("1 "));
            let args = [layout.kind, "tester", ann, &units, "back"];
            let reply = scripts.eval(&cut_call("refund", layout, &args, cut), &layout.keys("1"), &args);
            let context = format!("{layout:?} cut after {cut}: {reply}");
            let total = (10 - quantity(layout)).to_string();
            let update = ["preheat", "--id", "1", "--stock", &total, "--update", "--yes", "-l", layout.name];
            redis.seckill(update).code(0);
            assert!(is_ok(&scripts.call("refund", &layout.keys("1"), &args)), "{context}");
            let stock = redis.int(&layout.stock("1"));
            // A counter records nobody, so that what it lacks is for an audit.
            assert!(
                stock.to_string() == total || !layout.has_users() && stock.to_string() < total,
                "{context}: {stock}"
            );
            assert!(is_ok(&scripts.deduct("1", (user(layout, "bob"), &units, "next"))), "{context}");
            if !reply.contains("CUT") {
                break;
            }
        }
    }
}

#[test]
fn a_withdrawal_that_is_cut_behind_a_cut_refund_makes_nothing_corrupt() {
    let redis = TestRedis::start();
    for layout in KINDS {
        let (ann, units) = (user(layout, "ann"), quantity(layout).to_string());
        let is_cut = |reply: &str| reply.contains("CUT");
        for (refund_cut, pause_cut) in (0..7).flat_map(|refund| (1..5).map(move |pause| (refund, pause))) {
            let mut scripts = sale(&redis, layout, "1");
            assert!(scripts.deduct("1", (ann, &units, "order")).starts_with("1 "));
            let back = [layout.kind, "tester", ann, &units, "back"];
            let refund = cut_call("refund", layout, &back, refund_cut);
            if !is_cut(&scripts.eval(&refund, &layout.keys("1"), &back)) {
                break;
            }
            let withdraw = ["paused", "tester", "", "0", "1"];
            scripts.eval(&cut_call("pause", layout, &withdraw, pause_cut), &layout.all_keys("1"), &withdraw);
            scripts.call("pause", &layout.all_keys("1"), &["live", "tester", "", "0"]);
            let next = scripts.deduct("1", (user(layout, "bob"), &units, "next"));
            let context = format!("{layout:?} cut after {refund_cut} and {pause_cut}: {next}");
            assert!(next.starts_with("1 ") || next.starts_with("-3 "), "{context}");
        }
    }
}

#[test]
fn an_order_that_was_cut_before_its_entry_is_reversed_by_a_repair_by_the_ledger_alone() {
    let redis = TestRedis::start();
    for layout in [SECKILL, SKU, COUPON] {
        let mut reversed = 0;
        for cut in 0.. {
            let mut scripts = sale(&redis, layout, "1");
            assert!(scripts.deduct("1", ("bob", "1", "before")).starts_with("1 "));
            let units = quantity(layout).to_string();
            let args = [layout.kind, "tester", "ann", &units, "order"];
            let reply = scripts.eval(&cut_call("deduct", layout, &args, cut), &layout.keys("1"), &args);
            // Somebody puts the units back, so that only the counter differs.
            if reply.contains("CUT") && units_left(&redis, layout) < 9 {
                redis.cmd(("INCRBY", layout.stock("1"), &units));
            }
            redis.seckill(["-l", layout.name, "reconcile", "1", "--fix", "--yes"]).code(0);
            let held = units_of(&redis, layout, "ann");
            let again = scripts.deduct("1", ("ann", &units, "order"));
            let context = format!("{layout:?} cut after {cut}: {again}");
            let is_kept = held > 0 && again.starts_with("2 ");
            let is_new = held == 0 && again.starts_with("1 ");
            reversed += i64::from(again.starts_with("-16 "));
            assert!(is_kept || is_new || held == 0 && again.starts_with("-16 "), "{context}");
            if !reply.contains("CUT") {
                break;
            }
        }
        assert!(reversed > 0, "{layout:?}");
    }
}
