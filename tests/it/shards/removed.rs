//! Shards that a reset removed: only their epoch is left, so that nothing that comes late makes them again.

use seckill::Status;

use super::orders::{order, store};
use super::sharded::{Whole, call, fixture};
use super::transfer;
use crate::support::{CLUSTER, Scripts, TestRedis};

#[test]
fn whoever_has_an_old_list_reads_it_again() {
    let redis = TestRedis::start();
    call(&redis, "preheat -").stdin(fixture(12, 3)).code(0);
    let mut store = store(&redis.url());
    assert_eq!(seckill::deduct(&mut store, &order("7", 1), false).unwrap().status, Status::Ok);
    call(&redis, "preheat - --reset --yes").stdin(fixture(12, 4)).code(0);
    assert_eq!(seckill::deduct(&mut store, &order("7", 1), false).unwrap().status, Status::Ok);
    assert_eq!(Whole::of(&redis).stocks().iter().sum::<i64>(), 11);
    // An activity without shards, lost with its keys, may be sharded again: by an epoch that its first shards never had.
    call(&redis, "preheat --id 1001 --stock 9 --reset --yes").code(0);
    redis.cmd([&["DEL".to_owned()], &CLUSTER.all_keys("1001")[..]].concat());
    call(&redis, "preheat -").stdin(fixture(12, 3)).code(0);
    Whole::of(&redis).assert_sound(12);
}

#[test]
fn an_item_whose_primary_was_in_a_removed_shard_returns() {
    let redis = TestRedis::start();
    call(&redis, "preheat -").stdin(fixture(12, 3)).code(0);
    call(&redis, "preheat --id 2 --stock 5").code(0);
    let primary = Whole::of(&redis).ids()[0].clone();
    let mut scripts = Scripts::of(&redis, CLUSTER);
    let (name, digest) = (format!("m:{}", CLUSTER.stock(&primary)), format!("multi_deduct {}", transfer(1)));
    let mut hold = |activity: &str, items: &str| {
        let args = ["hash", "t", "7", "2", "r", "first", "", "1", &name, &digest, items];
        let reply = scripts.call("hold", &CLUSTER.all_keys(activity), &args);
        assert!(reply.starts_with("1 "), "{activity}: {reply}");
    };
    hold(&primary, &CLUSTER.stock("2"));
    hold("2", "");
    call(&redis, "preheat - --reset --yes").stdin(fixture(12, 4)).code(0);
    call(&redis, "expire 2").code(0);
    assert_eq!((redis.int(&CLUSTER.stock("2")), redis.exists(&CLUSTER.deadlines("2"))), (5, false));
    call(&redis, "reconcile 2").code(0);
}
