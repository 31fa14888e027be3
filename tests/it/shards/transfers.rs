//! The scripts `lend`, `borrow` and `peek`: units leave one shard, and arrive in another one exactly once.

use super::{Scripts, TestRedis, state, transfer};
use crate::support::CLUSTER;

#[test]
fn units_move_once_however_often_each_step_is_repeated() {
    let redis = TestRedis::start();
    let mut scripts = Scripts::two_shards(&redis, "10");
    let id = transfer(1);
    assert_eq!(scripts.lend("1#3", &id, "1", "1000000000", ""), "1 5 5", "half of the stock");
    assert_eq!(scripts.lend("1#3", &id, "1", "1000000000", ""), "2 5 9");
    assert_eq!(scripts.lend("1#3", &id, "0", "0", ""), "2 5 9", "as the finisher repeats it");
    assert_eq!(state(&redis, "1#3"), (5, "5".to_owned(), vec!["lend".to_owned()]));
    assert_eq!(state(&redis, "1#9").0, 0, "in transit");
    let peek = scripts.peek("1#3");
    let words: Vec<&str> = peek.split(' ').collect();
    assert_eq!((&words[..2], words[3], &words[5..8]), (&["1", "5"][..], "1", &[&*id, "5", "9"][..]), "{peek}");
    assert_eq!(scripts.borrow(&id, "1", "5"), "1 5");
    assert_eq!(scripts.borrow(&id, "1", "5"), "2 5");
    assert_eq!(scripts.borrow(&id, "1", "6"), "-9 5", "other units under the same id");
    assert_eq!(state(&redis, "1#9"), (5, "5".to_owned(), vec!["borrow".to_owned()]));

    // The id is removed by the next lend; what comes late changes nothing.
    let next = transfer(2);
    assert_eq!(scripts.lend("1#3", &next, "4", "4", &id), "1 4 1", "as many as are needed");
    assert_eq!(redis.hget(&CLUSTER.key(3, "1#3"), "\tlent"), Some(next.clone()));
    assert_eq!(scripts.lend("1#3", &id, "1", "1000000000", ""), "2 5 9");
    assert_eq!(redis.hget(&CLUSTER.key(3, "1#3"), "\tlent"), Some(next.clone()), "a finished id stays out");
    assert_eq!(scripts.lend("1#3", "", "0", "0", &next), "-3 1");
    assert_eq!(redis.hget(&CLUSTER.key(3, "1#3"), "\tlent"), None);
    assert_eq!(scripts.lend("1#3", &transfer(3), "2", "2", ""), "1 1 0", "fewer than are needed");
    assert_eq!(scripts.lend("1#3", &transfer(4), "2", "2", ""), "-3 0");
    assert_eq!(scripts.lend("1#3", &transfer(5), "0", "0", ""), "-3 0", "a lend that a failover lost");
}

#[test]
fn a_transfer_of_before_a_reset_is_refused() {
    let redis = TestRedis::start();
    let mut scripts = Scripts::two_shards(&redis, "10");
    assert_eq!(scripts.lend("1#3", &transfer(1), "1", "3", ""), "1 3 7");
    for shard in ["1#3", "1#9"] {
        scripts.preheat_as("reset", shard, "5", &[]);
    }
    assert_eq!(scripts.borrow(&transfer(1), "1", "3"), "-21 2");
    assert_eq!(scripts.lend("1#3", &transfer(1), "1", "3", ""), "-21 2");
    assert_eq!((state(&redis, "1#3").0, state(&redis, "1#9").0), (5, 5));
}

#[test]
fn withdrawn_stock_is_not_lent_and_what_is_borrowed_meanwhile_is_withdrawn_too() {
    let redis = TestRedis::start();
    let mut scripts = Scripts::two_shards(&redis, "10");
    assert_eq!(scripts.lend("1#3", &transfer(1), "1", "4", ""), "1 4 6");
    for shard in ["1#3", "1#9"] {
        let keys = CLUSTER.keys(shard);
        let paused = scripts.call("pause", &keys, &["paused", "tester", "", "0", "1"]);
        assert!(paused.starts_with("1 paused"), "{paused}");
    }
    assert_eq!(scripts.lend("1#3", &transfer(2), "1", "4", ""), "-3 0");
    assert_eq!(scripts.borrow(&transfer(1), "1", "4"), "1 4");
    assert_eq!(
        (redis.int(&CLUSTER.stock("1#9")), redis.hget(&CLUSTER.meta("1#9"), "withdrawn").as_deref()),
        (0, Some("4"))
    );
    assert!(scripts.peek("1#9").starts_with("1 4 "), "withdrawn units are units");
}

#[test]
fn what_is_no_shard_and_what_is_no_transfer_is_refused_with_nothing_written() {
    let redis = TestRedis::start();
    let mut scripts = Scripts::two_shards(&redis, "10");
    scripts.preheat_with("2", "5", &[("ledger", "0")]);
    for activity in ["2", "none"] {
        let keys = CLUSTER.keys(activity)[..4].to_vec();
        assert_eq!(scripts.lend(activity, &transfer(1), "1", "1", ""), "-4 nil", "{activity}");
        assert_eq!(scripts.call("borrow", &keys, &["t", &transfer(1), "1", "3", "1"]), "-4 nil");
        assert_eq!(scripts.peek(activity), "-4 nil");
    }
    let before = redis.dump_all();
    let id = transfer(1);
    for args in [
        ["t", "short", "1", "9", "1", "1", ""],
        ["t", &id, "x", "9", "1", "1", ""],
        ["t", &id, "1", "#9", "1", "1", ""],
        ["t", &id, "1", "9", "-1", "1", ""],
        ["t", &id, "1", "9", "1", "1e9", ""],
        ["t", &id, "1", "9", "1", "1", "short"],
        ["t", "", "1", "9", "1", "1", ""],
    ] {
        let reply = scripts.call("lend", &CLUSTER.keys("1#3")[..4], &args);
        assert!(reply.starts_with("ERROR USAGE lend: "), "{args:?}: {reply}");
    }
    for args in
        [["t", "short", "1", "3", "1"], ["t", &id, "", "3", "1"], ["t", &id, "1", "", "1"], ["t", &id, "1", "3", "0"]]
    {
        let reply = scripts.call("borrow", &CLUSTER.keys("1#9")[..4], &args);
        assert!(reply.starts_with("ERROR USAGE borrow: "), "{args:?}: {reply}");
    }
    redis.cmd(("HSET", CLUSTER.key(3, "1#9"), format!("\ttt:{id}"), "many"));
    assert_eq!(scripts.lend("1#9", &id, "1", "1", ""), "-11 nil nil 3 many");
    redis.cmd(("HDEL", CLUSTER.key(3, "1#9"), format!("\ttt:{id}")));
    assert_eq!(redis.dump_all(), before);
}
