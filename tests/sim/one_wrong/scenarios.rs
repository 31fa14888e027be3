//! The steps that are tried.

use super::{CLUSTER, COUPON, FEW, Layout, PRODUCT, Reply, SECKILL, SKU, Trial, VALUES};

const SHA: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
/// The first entry that a script of a trial writes, the second, and so on.
const IDS: [&str; 4] = ["1795355857669-0", "1795355857669-1", "1795355857669-2", "1795355857669-3"];

/// The same steps in every layout, with few values in all but one.
fn in_every_layout(name: &str, steps: fn(&mut Trial, &str, &str)) {
    for layout in [SECKILL, SKU, COUPON, PRODUCT] {
        let values = if layout == SECKILL { &VALUES[..] } else { &FEW[..] };
        let mut trial = Trial::of(layout, &["1"], values);
        steps(&mut trial, layout.kind, if layout.records_once() { "1" } else { "2" });
        trial.is_as_stored(&format!("{name}_{}", layout.name));
    }
}

fn preheated(trial: &mut Trial, kind: &str, total: &str) {
    let keys = trial.keys_of("preheat");
    let limit = if ["set", "coupon"].contains(&kind) { "=1" } else { "=3" };
    let args = [kind, "me", "", "create", "0", total, limit, "", "", "", ""];
    trial.run("preheat", &keys, &args);
}

#[test]
fn orders_and_refunds() {
    in_every_layout("orders", |trial, kind, units| {
        trial.step(
            "preheat",
            &[kind, "me", "why", "create", "0", "10", "=3", "=t", "=1000", "=9000000000000", "=1", ""],
        );
        trial.step("deduct", &[kind, "me", "7", units, "r1", "retry", "why", "3"]);
        trial.step("deduct", &[kind, "me", "8\t9", "1\t1", "f", "d", "1", "0", "1-2", "r2\tr3", "1", "why", "a\tb"]);
        trial.step("deduct", &[kind, "me", "7\t30", "1", "j", "d", "1", "0", "1-2", "", "1"]);
        trial.step("refund", &[kind, "me", "7", "1", "b1", "retry", "why", "1"]);
        trial.step("refund", &[kind, "me", "8\t9", "1", "j", "d", "1", "0", "2 4", "b2\tb3", "1", "why", "a\tb", "1"]);
        let all = if kind == "counter" { "1" } else { "all" };
        trial.step("refund", &[kind, "me", "30", all, "", "dry", "", ""]);
        trial.step("snapshot", &[kind, "7", "30"]);
    });
}

#[test]
fn what_an_operator_changes() {
    in_every_layout("changes", |trial, kind, units| {
        preheated(trial, kind, "10");
        let keys = trial.keys_of("deduct");
        for (user, request) in [("7", "r1"), ("8", "r2")] {
            trial.run("deduct", &keys, &[kind, "me", user, units, request]);
        }
        trial.step(
            "preheat",
            &[kind, "me", "why", "update", "0", "12", "", "=t", "=1000", "=9000000000000", "=1", "10"],
        );
        trial.step("pause", &["paused", "me", "why", "0", "1"]);
        trial.step("preheat", &[kind, "me", "why", "update", "0", "9", "", "", "", "", ""]);
        trial.step("refund", &[kind, "me", "7", "1", "b1", "retry", "why"]);
        if kind == "counter" {
            trial.step("repair", &[kind, "me", "why", "0", "1", "0", "a", "", "5", "5", "1", "b", "", "5", "4", "-1"]);
        } else {
            trial.step(
                "repair",
                &[
                    kind, "me", "why", "0", "1", "0", "a", "8", units, "1", "1", "b", "", "5", "5", "-1", "c", "30",
                    "0", "1", "-1",
                ],
            );
        }
        trial.step("pause", &["live", "me", "why", "0"]);
        trial.step("repair", &[kind, "me", "why", "0", "1", "1", "d", "", "5", "5", "1", "4", IDS[0]]);
        trial.step("preheat", &[kind, "me", "why", "reset", "0", "5", "", "", "", "", "=0"]);
    });
}

#[test]
fn trimmed_ledgers() {
    let mut trial = Trial::of(SECKILL, &["1"], &VALUES);
    preheated(&mut trial, "hash", "10");
    let keys = trial.keys_of("deduct");
    for (user, request) in [("7", "r1"), ("8", "r2"), ("9", "r3")] {
        trial.run("deduct", &keys, &["hash", "me", user, "1", request]);
    }
    trial.step("trim", &["plan", "", IDS[2]]);
    trial.send(&["XGROUP", "CREATE", &SECKILL.key(4, "1"), "feed", IDS[0]]);
    trial.step("trim", &["plan", "1", IDS[3]]);
    trial.step("trim", &["page", "1", "a", "0", "[]"]);
    trial.step("trim", &["page", "1", "a", "1", "[]"]);
    let sums = format!("{} {} 2 10 1", IDS[2], IDS[1]);
    trial.step("trim", &["switch", "1", "a", "2", "", &sums, "me"]);
    trial.step("trim", &["cut", "1", ""]);
    trial.send(&["XGROUP", "SETID", &SECKILL.key(4, "1"), "feed", "$"]);
    trial.step("trim", &["cut", "1", ""]);
    trial.step("trim", &["page", "1", "b", "0", "[]"]);
    trial.step("trim", &["switch", "1", "b", "1", "a", &format!("{} {} 3 10 2", IDS[3], IDS[2]), "me"]);
    trial.step("trim", &["clear", "1", ""]);
    trial.is_as_stored("trim");
}

#[test]
fn archives() {
    in_every_layout("archives", |trial, kind, units| {
        preheated(trial, kind, "10");
        trial.run("deduct", &trial.keys_of("deduct"), &[kind, "me", "7", units, "r1"]);
        trial.step("archive", &[kind, "plan"]);
        // A feed that has read nothing, and one that has read all.
        let ledger = trial.keys_of("deduct")[3].clone();
        trial.send(&["XGROUP", "CREATE", &ledger, "feed", "0"]);
        trial.step("archive", &[kind, "plan"]);
        trial.send(&["XGROUP", "SETID", &ledger, "feed", "$"]);
        trial.step("archive", &[kind, "mark", "a", "1"]);
        trial.run("pause", &trial.keys_of("pause"), &["paused", "me", "", "0", ""]);
        trial.send(&["XGROUP", "SETID", &ledger, "feed", "$"]);
        let left = 10 - units.parse::<u64>().unwrap();
        let (buyers, of_set) = (u8::from(kind != "counter"), u8::from(kind == "set"));
        let seen = format!("{left} {} 1 3 {buyers} {of_set} 1", IDS[2]);
        trial.step("archive", &[kind, "plan"]);
        trial.step("archive", &[kind, "remove", "a", "1", SHA, &seen, "me"]);
        trial.step("archive", &[kind, "remove", "b", "1", SHA, &seen, "me"]);
        let rules = "paused 1 1 3 10 - -";
        trial.step("restore", &[kind, "plan", SHA]);
        trial.step("restore", &[kind, "begin", SHA, rules]);
        trial.step("restore", &[kind, "undo", SHA]);
        trial.run("restore", &trial.keys_of("restore"), &[kind, "begin", SHA, rules]);
        trial.step("restore", &[kind, "page", SHA, "requests", "r1", "7"]);
        trial.step("restore", &[kind, "page", SHA, "ledger", "5-1", "2", "op", "preheat", "5-2", "2", "op", "pause"]);
        trial.step("restore", &[kind, "page", SHA, "ledger", "5-2", "2", "op", "pause", "16-0", "2", "op", "resume"]);
        match kind {
            "hash" => trial.step("restore", &[kind, "page", SHA, "participants", "7", "2"]),
            "counter" => {}
            _ => trial.step("restore", &[kind, "page", SHA, "participants", "7"]),
        }
        if kind == "set" {
            trial.step("restore", &[kind, "page", SHA, "units", "7", "1"]);
        }
        let seen = format!("16-0 1 3 {buyers} {of_set}");
        trial.step(
            "restore",
            &[kind, "switch", SHA, &seen, "me", "8", r#"["feed","5-1"]"#, "rules", rules, "title", "t"],
        );
        trial.step("restore", &[kind, "plan", SHA]);
    });
}

#[test]
fn adoptions() {
    in_every_layout("adoptions", |trial, kind, units| {
        let keys = trial.keys_of("adopt");
        trial.send(&["SET", &keys[0], "10"]);
        match kind {
            "hash" => trial.send(&["HSET", &keys[4], "7", "2"]),
            "counter" => {}
            _ => trial.send(&["SADD", &keys[4], "7"]),
        }
        let held = if kind == "counter" { "0" } else { units };
        let total = (10 + held.parse::<u64>().unwrap()).to_string();
        let count = if kind == "counter" { "0" } else { "1" };
        trial.step("adopt", &[kind, "plan", "me", "why"]);
        trial.step("adopt", &[kind, "withdraw", "me", "why", "a", &total]);
        trial.step("adopt", &[kind, "undo", "me", "why", "a"]);
        trial.run("adopt", &keys, &[kind, "withdraw", "me", "why", "a", &total]);
        trial.step("adopt", &[kind, "plan", "me", "why"]);
        trial.run("trim", &keys, &["page", "1", "a", "0", r#"[["7","2"]]"#]);
        let switch = [
            kind,
            "switch",
            "me",
            "why",
            "a",
            &total,
            held,
            "10",
            count,
            "",
            "1",
            "=3",
            "=t",
            "=1000",
            "=9000000000000",
            "live",
            "0",
        ];
        trial.step("adopt", &switch);
        trial.step("adopt", &switch);
        // A ledger that lost its beginning.
        trial.run("deduct", &keys, &[kind, "me", "8", "1", "r1"]);
        trial.send(&["XTRIM", &keys[3], "MAXLEN", "1"]);
        trial.step("adopt", &[kind, "withdraw", "you", "", "b", "20"]);
    });
}

#[test]
fn shards() {
    let mut trial = Trial::of(CLUSTER, &["1"], &VALUES);
    let rules = "=live 1 1 3 10 - -";
    trial.step("parent", &["set", "", "", "", "", "", rules, "=t", "=3 9", "=start 3,9 -", "=1"]);
    trial.step("parent", &["read"]);
    trial.send(&["HSET", &CLUSTER.key(2, "1"), "other", "x"]);
    trial.send(&["SET", &CLUSTER.key(1, "1"), "5"]);
    trial.step("parent", &["clear", rules, "=t", "=3 9", "=start 3,9 -", "=1", rules, "=u", "=3 9", "", "=2"]);
    trial.is_as_stored("parent");

    let mut trial = Trial::of(CLUSTER, &["1#3"], &VALUES);
    trial.step("preheat_shard", &["set", "me", "why", "2", "", "10", "3", "t", "1000", "9000000000000"]);
    trial.step("preheat_shard", &["update", "me", "why", "2", "p1", "-3", "2", "u", "1000", "9000000000000"]);
    trial.step("preheat_shard", &["update", "me", "why", "2", "p2", "4", "", "", "", ""]);
    let id = "a".repeat(40);
    trial.step("lend", &["me", &id, "2", "9", "4", "5", ""]);
    let second = "b".repeat(40);
    trial.step("lend", &["me", &second, "2", "9", "1", "9", &id]);
    trial.step("lend", &["me", &second, "2", "9", "0", "0", ""]);
    trial.step("peek", &[]);
    let third = "c".repeat(40);
    trial.step("borrow", &["me", &third, "2", "9", "3"]);
    trial.run("pause", &CLUSTER.keys("1#3"), &["paused", "me", "", "0", "1"]);
    trial.step("borrow", &["me", &"d".repeat(40), "2", "9", "3"]);
    trial.step("preheat_shard", &["remove", "me", "why", "3", "", "", "", "", "", ""]);
    trial.is_as_stored("shards");
}

#[test]
fn orders_of_several_activities() {
    for layout in [SECKILL, SKU, COUPON, PRODUCT] {
        let values = if layout == SECKILL { &VALUES[..] } else { &FEW[..] };
        let mut trial = Trial::of(layout, &["1", "2"], values);
        let kind = layout.kind;
        preheated(&mut trial, kind, "10");
        let limit = if layout.records_once() { "=1" } else { "=3" };
        trial.run("preheat", &layout.all_keys("2"), &[kind, "me", "", "create", "0", "5", limit, "", "", "", ""]);
        let units = if layout.records_once() { "1" } else { "2" };
        trial.step("multi_deduct", &[kind, "me", "retry", "why", "7", "r1", units, "1"]);
        let users = "7\t8";
        let one = ["1", "0", "1-2", "1", users, "\t", "a\tb"];
        let two = ["1", "0", "2", units, "8", "", "b"];
        let head = [kind, "me", "j", "d", "1", "why", "", ""];
        trial.step("multi_deduct_file", &[&head[..], &one, &two].concat());
        let one = ["1", "2", "3 5", "1\t1", "9\t10"];
        let two = ["1", "2", "4-5", "1", "30\t10"];
        trial.step("multi_deduct_file", &[&head[..], &one, &two].concat());
        trial.is_as_stored(&format!("multi_{}", layout.name));
    }
    let mut trial = Trial::of(SECKILL, &["1", "2"], &VALUES);
    preheated(&mut trial, "hash", "10");
    trial.run("preheat", &SECKILL.all_keys("2"), &["hash", "me", "", "create", "0", "5", "", "", "", "", ""]);
    trial.step(
        "deduct_file",
        &[
            "hash", "me", "j", "d", "1", "why", "", "1", "1", "0", "1-2", "1", "7\t8", "r1\tr2", "1", "0", "3", "2",
            "7", "",
        ],
    );
    trial.step(
        "refund_file",
        &["hash", "me", "j", "d", "1", "", "", "", "1", "0", "1-2", "1\t2", "7\t8", "1", "0", "3 5", "1", "7\t7"],
    );
    trial.is_as_stored("mixed");
}

fn of_holds(layout: Layout, values: &'static [&'static str]) {
    let mut tried = Trial::of(layout, &["1"], values);
    let (trial, kind) = (&mut tried, layout.kind);
    let units = if layout.records_once() { "1" } else { "2" };
    preheated(trial, kind, "10");
    trial.step("hold", &[kind, "me", "7", units, "h1", "retry", "why", "900000"]);
    let (users, ids) = ("8\t9\t10", "h2\th3\th4");
    trial.step("hold", &[kind, "me", users, "1", "j", "d", "1", "0", "1-3", ids, "1", "why", "a\tb\tc", "900000"]);
    let digest = "multi_deduct abc";
    trial.step("hold", &[kind, "me", "30", "1", "m1", "first", "", "900000", "m:other", digest, "other"]);
    let longest = format!("m:{}", "k".repeat(1022));
    trial.run("settle", &layout.all_keys("1"), &[kind, "me", "m1", "confirm", &longest, "first"]);
    let longer = [kind, "me", "m1", "confirm", &format!("{longest}k"), "first"].map(|arg| arg.as_bytes().to_vec());
    let reply = trial.call("settle", &layout.all_keys("1"), &longer);
    assert!(matches!(reply, Reply::Error(_)), "{reply:?}");
    trial.step("settle", &[kind, "me", "m1", "confirm", "m:other", "first", "why"]);
    trial.step("settle", &[kind, "me", "h2\thx", "confirm", "j", "d", "1", "0", "1-2", "", "1", "why", "a\tb"]);
    trial.step("settle", &[kind, "me", "h3", "release", "", "first", "why"]);
    trial.step("settle", &[kind, "me", "h3", "abort", "-", "first", "why"]);
    trial.step("settle", &[kind, "me", "h1", "confirm", "", "dry", "why", "7"]);
    let (ids, others) = ("h1\tm1", "8\t");
    trial.step("settle", &[kind, "me", ids, "release", "f", "d", "1", "0", "1-2", others, "1", "why"]);
    // What is overdue.
    let deadlines = layout.all_keys("1").pop().unwrap();
    trial.send(&["ZADD", &deadlines, "1000", "h1"]);
    trial.step("hold", &[kind, "me", "7", "2", "h5", "first", "", "900000"]);
    trial.send(&["ZADD", &deadlines, "XX", "1000", "h4"]);
    trial.step("settle", &[kind, "me", "2", "expire", "", "first", "why"]);
    trial.step("settle", &[kind, "me", "h4", "confirm", "", "borrow", "why"]);
    trial.step("settle", &[kind, "me", "h1\th5", "release", "g", "d", "1", "0", "1-2", "", "1", "why"]);
    // A count that is wrong.
    trial.send(&["HSET", &layout.key(3, "1"), "\tholds", "7"]);
    trial.step("settle", &[kind, "me", "10", "recount", "", "first", "7 7"]);
    tried.is_as_stored(&format!("holds_{}", layout.name));
}

#[test]
fn holds() {
    of_holds(SECKILL, &VALUES);
}

#[test]
fn holds_of_sets() {
    of_holds(SKU, &FEW);
    of_holds(COUPON, &FEW);
}

#[test]
fn drop_ins() {
    for (layout, script, args) in [
        (SECKILL, "drop-in/seckill", &["7", "2", "3"][..]),
        (SKU, "drop-in/sku", &["2", "7"]),
        (COUPON, "drop-in/coupon", &["7"]),
        (PRODUCT, "drop-in/product", &["2"]),
        (SKU, "drop-in/sku-multi", &["2", "1"]),
        (COUPON, "drop-in/hm-dianping", &["1", "7", "900"]),
    ] {
        let activities: &[&str] = if script == "drop-in/sku-multi" { &["1", "2"] } else { &["1"] };
        let mut trial = Trial::of(layout, activities, &VALUES);
        trial.send(&["SET", &layout.key(1, "1"), "5"]);
        trial.send(&["SET", &layout.key(1, "2"), "5"]);
        if script == "drop-in/sku-multi" {
            trial.run(script, &layout.keys("1")[..1], &["1"]);
            trial.send(&["SET", &layout.key(1, "1"), "5"]);
        }
        trial.step(script, args);
        trial.step(script, args);
        trial.is_as_stored(&script.replace('/', "_"));
    }
}
