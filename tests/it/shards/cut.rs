//! A transfer that is cut after any of its writes loses no unit for good: the next order that needs units, or a repair, finishes it.

use serde_json::{Value, json};

use super::audit::{on_cluster, sale};
use super::orders::store;
use super::transfer;
use crate::support::scripts::cut_after;
use crate::support::{CLUSTER, TestRedis};

/// Units for sale in both shards of activity 1, and what is wrong with it.
fn audited(redis: &TestRedis) -> (i64, Vec<String>) {
    let audit = on_cluster(redis, "reconcile 1 -o json").run().json();
    let classes = audit["differences"].as_array().unwrap().iter();
    let classes =
        classes.map(|one| format!("{} {}", one["activity"].as_str().unwrap(), one["class"].as_str().unwrap()));
    (["1#3", "1#9"].map(|shard| redis.int(&CLUSTER.stock(shard))).iter().sum(), classes.collect())
}

/// Repairs what is wrong, and says what that was.
fn repaired(redis: &TestRedis) -> Vec<Value> {
    let fixed = on_cluster(redis, "reconcile 1 --fix --yes -o json").code(0).json();
    fixed["repairs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| json!([row["activity"], row["class"], row["status"]]))
        .collect()
}

/// Cuts a step of the transfer of 4 units from shard 3 to shard 9 after that many writes; false if it has no more.
fn cut(redis: &TestRedis, step: &'static str, writes: usize) -> bool {
    let mut scripts = sale(redis);
    // A shard that never sold refuses a buyer while stock and total differ.
    for (shard, user) in [("1#3", "d"), ("1#9", "a")] {
        assert_eq!(scripts.deduct(shard, (user, "1", "")), "1 9 1");
    }
    let id = transfer(1);
    let (shard, args) = match step {
        "lend" => ("1#3", vec!["tester", &id, "1", "9", "4", "4", ""]),
        _ => ("1#9", vec!["tester", &id, "1", "3", "4"]),
    };
    if step == "borrow" {
        assert_eq!(scripts.lend("1#3", &id, "4", "4", ""), "1 4 5");
    }
    scripts.eval(&cut_after(step, writes), &CLUSTER.keys(shard)[..4], &args).contains("CUT")
}

/// Both sides of the transfer are in the ledgers, all units are for sale, and nothing is left of it.
#[track_caller]
fn assert_arrived(redis: &TestRedis, context: &str) {
    assert_eq!(audited(redis), (18, vec![]), "{context}");
    let stocks = ["1#3", "1#9"].map(|shard| redis.int(&CLUSTER.stock(shard)));
    assert_eq!(stocks, [5, 13], "{context}");
    for shard in ["1#3", "1#9"] {
        let left = ["\tlent", "\tmoving"].map(|field| redis.hget(&CLUSTER.requests(shard), field));
        assert_eq!(left, [None, None], "{context}: {shard}");
    }
}

/// What an audit says of each step that is cut after 1, 2, … writes.
const FOUND: [(&str, &[&[&str]]); 2] = [
    ("lend", &[&["1#3 conservation"], &["1#3 cut_transfer"], &["1#3 cut_transfer"], &[]]),
    ("borrow", &[&["1#9 cut_transfer"], &["1#9 cut_transfer"], &["1#9 conservation"], &[]]),
];

#[test]
fn a_transfer_that_is_cut_anywhere_is_named_and_repaired_at_once() {
    let redis = TestRedis::start();
    for (step, found) in FOUND {
        for writes in 1.. {
            redis.cmd("FLUSHALL");
            if !cut(&redis, step, writes) {
                assert_eq!(writes, found.len() + 1, "writes of {step}");
                break;
            }
            let context = format!("{step} cut after {writes}");
            let wrong: Vec<&str> = found[writes - 1].to_vec();
            let (_, classes) = audited(&redis);
            assert_eq!(classes, wrong, "{context}");
            let rows = repaired(&redis);
            assert_eq!(rows.len(), wrong.len(), "{context}: {rows:?}");
            assert_eq!(audited(&redis).1, Vec::<String>::new(), "{context}");
            if step == "lend" && writes == 1 {
                // Nothing was lent: its units are back at the donor.
                assert_eq!(audited(&redis).0, 18, "{context}");
                continue;
            }
            // A transfer in transit is finished by the next order that needs units.
            let mut store = store(&redis.url());
            seckill::internals::finish_transfers(&mut store, &"1".parse().unwrap(), true).unwrap();
            assert_arrived(&redis, &context);
        }
    }
}

#[test]
fn a_transfer_of_the_future_is_old_because_the_clock_was_set_back() {
    let redis = TestRedis::start();
    let mut scripts = sale(&redis);
    let id = transfer(1);
    let finished = |ahead: u64| {
        let seconds: Vec<u64> = redis.ask("TIME");
        let record = format!("4 9 {}", (seconds[0] + ahead) * 1000);
        redis.cmd(("HSET", CLUSTER.requests("1#3"), format!("\ttt:{id}"), record));
        let finished = seckill::internals::finish_transfers(&mut store(&redis.url()), &"1".parse().unwrap(), false)
            .unwrap()
            .unwrap();
        (finished.arrived, finished.left)
    };
    assert_eq!(scripts.lend("1#3", &id, "4", "4", ""), "1 4 6");
    assert_eq!(finished(1), (0, 1), "somebody may be at work");
    assert_eq!(finished(3600), (1, 0));
    assert_eq!(audited(&redis), (20, vec![]));
}
