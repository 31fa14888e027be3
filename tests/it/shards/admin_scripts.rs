//! The scripts `parent` and `preheat_shard`: each status that their headers name.

use crate::support::{CLUSTER, Scripts, TestRedis};

const RULES: &str = "=live 1 1 - 12 - -";

fn parent(scripts: &mut Scripts, mode: &str, before: [&str; 4], after: [&str; 4]) -> String {
    scripts.call("parent", &CLUSTER.all_keys("1"), &[&[mode], &before[..], &after[..]].concat())
}

fn shard(scripts: &mut Scripts, mode: &str, epoch: &str, plan: &str, units: &str) -> String {
    scripts.call(
        "preheat_shard",
        &CLUSTER.all_keys("1#3"),
        &[mode, "t", "why", epoch, plan, units, "2", "phone", "", "4102444800000"],
    )
}

#[test]
fn a_parent_changes_only_from_what_was_read() {
    let redis = TestRedis::start();
    let mut scripts = Scripts::of(&redis, CLUSTER);
    let read = |scripts: &mut Scripts| scripts.call("parent", &CLUSTER.all_keys("1"), &["read"]);
    assert_eq!(read(&mut scripts), "1 nil nil nil nil 0");
    let (none, half, whole) = ([""; 4], [RULES, "", "", "=start 3,9 -"], [RULES, "=a b", "=3 9", ""]);
    assert_eq!(parent(&mut scripts, "set", none, half), "1 live 1 1 - 12 - - nil nil start 3,9 - 0");
    assert_eq!(parent(&mut scripts, "set", none, half), "2 live 1 1 - 12 - - nil nil start 3,9 - 0", "sent again");
    assert_eq!(parent(&mut scripts, "set", none, whole), "-23 live 1 1 - 12 - - nil nil start 3,9 - 0");
    assert_eq!(parent(&mut scripts, "set", half, whole), "1 live 1 1 - 12 - - a b 3 9 nil 0");
    assert_eq!(read(&mut scripts), "1 live 1 1 - 12 - - a b 3 9 nil 0");
    assert_eq!(parent(&mut scripts, "set", half, whole), "2 live 1 1 - 12 - - a b 3 9 nil 0");

    // An activity without shards becomes a parent only by `clear`, which leaves nothing else of it.
    scripts.send(&["DEL", &CLUSTER.meta("1")]);
    scripts.preheat("1", "5");
    scripts.deduct("1", ("7", "1", "r"));
    let before = ["=live 1 1 - 5 - -", "", "", ""];
    assert_eq!(parent(&mut scripts, "set", before, half), "-10 live 1 1 - 5 - - nil nil nil 4");
    assert_eq!(parent(&mut scripts, "clear", none, half), "-23 live 1 1 - 5 - - nil nil nil 4");
    assert_eq!(parent(&mut scripts, "clear", before, half), "1 live 1 1 - 12 - - nil nil start 3,9 - 0");
    assert_eq!(parent(&mut scripts, "clear", before, half), "2 live 1 1 - 12 - - nil nil start 3,9 - 0");
    assert_eq!(redis.hgetall(&CLUSTER.meta("1")).len(), 2);

    scripts.send(&["SET", &CLUSTER.meta("1"), "x"]);
    assert_eq!(read(&mut scripts), "-11 nil nil 2 nil");
    assert_eq!(parent(&mut scripts, "set", none, half), "-11 nil nil 2 nil");
    assert_eq!(parent(&mut scripts, "clear", none, half), "1 live 1 1 - 12 - - nil nil start 3,9 - 0");
    for args in [&["write"][..], &["set"], &["set", "", "", "", ""]] {
        assert!(scripts.call("parent", &CLUSTER.all_keys("1"), args).starts_with("ERROR"), "{args:?}");
    }
}

#[test]
fn a_shard_is_made_new_once_an_epoch() {
    let redis = TestRedis::start();
    let mut scripts = Scripts::of(&redis, CLUSTER);
    assert_eq!(shard(&mut scripts, "set", "2", "", "5"), "1 5 5 5");
    assert_eq!(
        redis.hgetall(&CLUSTER.meta("1#3")).into_values().collect::<Vec<_>>(),
        ["0", "live 1 2 2 5 - 4102444800000", "phone"]
    );
    scripts.send(&["SET", &CLUSTER.stock("1#3"), "4"]);
    assert_eq!(shard(&mut scripts, "set", "2", "", "7"), "2 0 4 5", "late, or sent again");
    assert_eq!(shard(&mut scripts, "set", "1", "", "7"), "-21 2");
    assert_eq!(shard(&mut scripts, "remove", "2", "", ""), "-21 2");
    assert_eq!(shard(&mut scripts, "remove", "1", "", ""), "-21 2");
    scripts.send(&["HSET", &CLUSTER.requests("1#3"), "r", "7"]);
    assert_eq!(shard(&mut scripts, "set", "3", "", "0"), "1 0 0 0");
    assert!(!redis.exists(&CLUSTER.requests("1#3")));
    let entries = redis.xrange(&CLUSTER.ledger("1#3"));
    assert_eq!((entries.len(), entries[0].1["epoch"].as_str(), entries[0].1["reason"].as_str()), (1, "3", "why"));
    assert_eq!(shard(&mut scripts, "remove", "4", "", ""), "1 0 nil nil");
    assert_eq!(shard(&mut scripts, "remove", "4", "", ""), "2 0 nil nil");
    // Whatever is in the way.
    scripts.send(&["DEL", &CLUSTER.meta("1#3")]);
    scripts.send(&["LPUSH", &CLUSTER.stock("1#3"), "x"]);
    scripts.send(&["SET", &CLUSTER.meta("1#3"), "x"]);
    assert_eq!(shard(&mut scripts, "set", "4", "", "3"), "1 3 3 3");
}

#[test]
fn a_shard_is_updated_once_a_plan_and_gives_at_most_what_is_left() {
    let redis = TestRedis::start();
    let mut scripts = Scripts::of(&redis, CLUSTER);
    assert_eq!(shard(&mut scripts, "update", "1", "p0", "5"), "-4 nil");
    shard(&mut scripts, "set", "1", "", "5");
    assert_eq!(shard(&mut scripts, "update", "2", "p0", "5"), "-21 1");
    assert_eq!(shard(&mut scripts, "update", "1", "p1", "3"), "1 3 8 8");
    assert_eq!(shard(&mut scripts, "update", "1", "p1", "3"), "2 3 8 8");
    assert_eq!(redis.hget(&CLUSTER.requests("1#3"), "\tu:p1").as_deref(), Some("3"));
    for index in 0..6 {
        scripts.deduct("1#3", (&index.to_string(), "1", ""));
    }
    assert_eq!(shard(&mut scripts, "update", "1", "p2", "-5"), "1 -2 0 6", "two were left");
    assert_eq!(shard(&mut scripts, "update", "1", "p2", "-5"), "2 -2 0 6");
    assert_eq!(shard(&mut scripts, "update", "1", "p3", "-5"), "1 0 0 6");
    let last = redis.xrange(&CLUSTER.ledger("1#3")).pop().unwrap().1;
    assert_eq!((last["op"].as_str(), last["total"].as_str(), last["stock"].as_str()), ("update", "6", "0"));
    // What is withdrawn changes in the place of the stock.
    assert_eq!(shard(&mut scripts, "update", "1", "p4", "4"), "1 4 4 10");
    scripts.call("pause", &CLUSTER.keys("1#3"), &["paused", "t", "", "0", "1"]);
    assert_eq!(shard(&mut scripts, "update", "1", "p5", "-3"), "1 -3 1 7");
    assert_eq!(shard(&mut scripts, "update", "1", "p6", "1"), "1 1 2 8");
    assert_eq!(
        (redis.int(&CLUSTER.stock("1#3")), redis.hget(&CLUSTER.meta("1#3"), "withdrawn").as_deref()),
        (0, Some("2"))
    );

    for (key, damage, reply) in
        [(1, "x", "-11 nil nil 1 x"), (3, "", "-11 nil nil 3 nil"), (2, "x", "-11 nil nil 2 nil")]
    {
        scripts.send(&["SET", &CLUSTER.key(key, "1#3"), damage]);
        assert_eq!(shard(&mut scripts, "update", "1", "p7", "1"), reply);
        scripts.send(&["DEL", &CLUSTER.key(key, "1#3")]);
        scripts.send(&["DEL", &CLUSTER.meta("1#3")]);
        shard(&mut scripts, "set", "1", "", "5");
    }
    for (mode, epoch, plan, units) in [
        ("change", "1", "", "5"),
        ("set", "x", "", "5"),
        ("set", "1", "p", "5"),
        ("set", "1", "", "-5"),
        ("set", "1", "", "05"),
        ("update", "1", "", "5"),
        ("update", "1", "a b", "5"),
        ("update", "1", "p", "-0"),
        ("update", "1", "p", "9007199254740991"),
    ] {
        let reply = shard(&mut scripts, mode, epoch, plan, units);
        assert!(
            reply.starts_with("ERROR USAGE preheat_shard") || reply.contains("preheat_shard: "),
            "{mode} {units}: {reply}"
        );
    }
}

#[test]
fn what_is_sharded_refuses_the_scripts_of_other_activities() {
    let redis = TestRedis::start();
    let mut scripts = Scripts::of(&redis, CLUSTER);
    scripts.send(&["HSET", &CLUSTER.meta("1"), "rules", "live 1 1 - 12 - -", "shards", "3 9"]);
    let before = redis.dump_all();
    for mode in ["create", "update", "reset"] {
        assert_eq!(scripts.preheat_as(mode, "1", "12", &[]), "-15 nil 3 9", "{mode}");
    }
    assert_eq!(scripts.call("pause", &CLUSTER.keys("1"), &["paused", "t", "", "0"]), "-15 nil 3 9");
    redis.assert_unchanged_since(&before);
    scripts.send(&["HDEL", &CLUSTER.meta("1"), "shards"]);
    scripts.send(&["HSET", &CLUSTER.meta("1"), "plan", "start 3,9 -"]);
    assert_eq!(scripts.preheat_as("reset", "1", "12", &[]), "-15 nil nil");
    assert_eq!(scripts.call("pause", &CLUSTER.keys("1"), &["live", "t", "", "0"]), "-15 nil nil");
}

#[test]
fn a_shard_that_sold_and_lost_its_stock_is_not_made_again() {
    let redis = TestRedis::start();
    let mut scripts = Scripts::of(&redis, CLUSTER);
    let keys = CLUSTER.all_keys("1#3");
    let set = ["set", "t", "why", "1", "", "9", "2", "phone", "", "4102444800000"];
    scripts.call("preheat_shard", &keys, &set);
    assert_eq!(scripts.deduct("1#3", ("7", "1", "")), "1 8 1");
    redis.cmd(("DEL", CLUSTER.stock("1#3")));
    let before = redis.dump_all();
    assert_eq!(scripts.call("preheat_shard", &keys, &set), "-11 nil nil 1 nil");
    redis.assert_unchanged_since(&before);
}
