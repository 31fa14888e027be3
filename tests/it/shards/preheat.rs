//! `preheat` with `shards: N`: the shards are made, changed and removed together, whatever comes between.

use super::sharded::{Whole, call, fixture};
use crate::support::{CLUSTER, TestRedis};

#[test]
fn a_total_below_what_is_sold_is_refused_and_nothing_changes() {
    let redis = TestRedis::start();
    call(&redis, "preheat -").stdin(fixture(12, 3)).code(0);
    let whole = Whole::of(&redis);
    for (shard, units) in whole.ids().iter().zip([4, 4, 1]) {
        whole.sell(&redis, shard, units);
    }
    let before = redis.dump_all();
    let refused = call(&redis, "preheat --id 1001 --stock 8 --update").code(3).stderr_has("more units are sold");
    assert_eq!(refused.json()[0]["status"], "out_of_stock");
    redis.assert_unchanged_since(&before);
    // All that is left is in one shard.
    call(&redis, "preheat --id 1001 --stock 9 --update").code(0);
    let whole = Whole::of(&redis);
    assert_eq!(whole.stocks(), [0, 0, 0]);
    whole.assert_sound(9);
    call(&redis, "preheat --id 1001 --stock 10 --update").code(0);
    assert_eq!(Whole::of(&redis).stocks(), [1, 0, 0]);
}

/// Nothing is left of a shard but its epoch.
#[track_caller]
fn assert_removed(redis: &TestRedis, shard: &str) {
    let keys = CLUSTER.all_keys(shard);
    assert_eq!(keys.iter().filter(|key| redis.exists(key)).collect::<Vec<_>>(), [&CLUSTER.meta(shard)]);
    let meta = redis.hgetall(&CLUSTER.meta(shard));
    assert!(meta.len() == 1 && meta["rules"].starts_with("archived 0 "), "{shard}: {meta:?}");
}

#[test]
fn a_reset_starts_over_and_another_count_gets_numbers_that_were_never_used() {
    let redis = TestRedis::start();
    call(&redis, "preheat -").stdin(fixture(12, 3)).code(0);
    let first = Whole::of(&redis);
    first.sell(&redis, &first.ids()[0], 3);
    let asked = call(&redis, "preheat - --reset").stdin(fixture(12, 3)).code(2);
    asked.stderr_has("Reset `1001` (3 of 12 units sold)");
    call(&redis, "preheat - --reset --yes").stdin(fixture(12, 3)).code(0);
    let second = Whole::of(&redis);
    assert_eq!((second.shards.as_str(), second.stocks()), (first.shards.as_str(), vec![4, 4, 4]));
    assert_eq!(second.rules, "live 1 2 2 12 - 4102444800000");
    assert!(!redis.exists(&CLUSTER.participants(&first.ids()[0])));

    let mut used: Vec<u32> = first.numbers();
    for (count, epoch) in [(5, 3), (3, 4), (5, 5)] {
        call(&redis, "preheat - --reset --yes").stdin(fixture(12, count)).code(0);
        let whole = Whole::of(&redis);
        assert_eq!(whole.numbers().len(), count);
        assert!(whole.numbers().iter().all(|number| !used.contains(number)), "{} after {used:?}", whole.shards);
        used.iter().for_each(|number| assert_removed(&redis, &format!("1001#{number}")));
        assert!(whole.rules.starts_with(&format!("live 1 {epoch} ")), "{}", whole.rules);
        whole.assert_sound(12);
        used.extend(whole.numbers());
    }
}

#[test]
fn a_shard_that_is_lost_is_never_made_anew_by_itself() {
    let redis = TestRedis::start();
    call(&redis, "preheat -").stdin(fixture(12, 3)).code(0);
    let whole = Whole::of(&redis);
    redis.cmd(("DEL", CLUSTER.stock(&whole.ids()[1])));
    let before = redis.dump_all();
    for line in ["preheat -", "preheat - --update"] {
        let refused = call(&redis, line).stdin(fixture(12, 3)).code(3).stderr_has(&CLUSTER.stock(&whole.ids()[1]));
        assert_eq!(refused.json()[0]["status"], "corrupt");
    }
    redis.assert_unchanged_since(&before);

    // A parent that is lost alone is made again, and what its shards sold stays sold.
    call(&redis, "preheat - --reset --yes").stdin(fixture(12, 3)).code(0);
    let whole = Whole::of(&redis);
    whole.sell(&redis, &whole.ids()[0], 3);
    redis.cmd(("DEL", CLUSTER.meta("1001")));
    call(&redis, "preheat -").stdin(fixture(12, 4)).code(3).stderr_has("is there, and it is not");
    call(&redis, "preheat -").stdin(fixture(13, 3)).code(3);
}
