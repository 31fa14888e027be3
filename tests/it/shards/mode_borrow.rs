//! The mode `borrow`: an order that the stock does not cover is not decided, because units can be borrowed.

use super::{Scripts, TestRedis};
use crate::support::CLUSTER;

/// A batch of a job: users, quantity each, lines, mode.
fn batch(scripts: &mut Scripts, users: &[&str], quantity: &str, (before, lines): (&str, &str), mode: &str) -> String {
    let users = users.join("\t");
    let args = ["hash", "tester", &users, quantity, "job", "digest", "1", before, lines, "", "", "", "", "", mode];
    scripts.call("deduct", &CLUSTER.keys("1#3"), &args)
}

#[test]
fn a_single_order_that_the_stock_does_not_cover_is_not_kept_as_refused() {
    let redis = TestRedis::start();
    let mut scripts = Scripts::two_shards(&redis, "2");
    let order = [("7", "3", "r")];
    assert_eq!(scripts.orders("deduct", "borrow", "1#3", &order), "-3 2 0");
    assert_eq!(redis.hget(&CLUSTER.key(3, "1#3"), "r"), None);
    redis.cmd(("INCRBY", CLUSTER.stock("1#3"), 1));
    redis.cmd(("HSET", CLUSTER.meta("1#3"), "rules", "live 1 1 - 3 - -"));
    assert_eq!(scripts.orders("deduct", "borrow", "1#3", &order), "1 0 3", "after units were borrowed");
    assert_eq!(scripts.orders("deduct", "borrow", "1#3", &order), "2 0 3");
    // Any other refusal is final, as of a retry; and so is the last answer.
    assert_eq!(scripts.orders("deduct", "retry", "1#3", &[("8", "1", "s")]), "-3 0 0");
    assert_eq!(redis.hget(&CLUSTER.key(3, "1#3"), "s").as_deref(), Some("-3\t8"));
}

#[test]
fn a_batch_ends_before_the_first_order_that_the_stock_does_not_cover() {
    let redis = TestRedis::start();
    let mut scripts = Scripts::two_shards(&redis, "5");
    let job = |redis: &TestRedis| redis.hget(&CLUSTER.key(3, "1#3"), "\tj:deduct:job");
    assert_eq!(batch(&mut scripts, &["a", "b", "c", "d"], "2", ("0", "2-5"), "borrow"), "oo 5 0");
    assert_eq!(job(&redis).as_deref(), Some("3 0 digest"));
    let entries = redis.xrange(&CLUSTER.key(4, "1#3"));
    assert_eq!((&*entries[1].1["users"], &*entries[1].1["lines"]), ("a\tb", "2 3"));
    assert_eq!(
        batch(&mut scripts, &["c", "d"], "2", ("3", "4-5"), "borrow"),
        " 1 0",
        "nothing is decided, nor written"
    );
    assert_eq!((job(&redis).as_deref(), redis.xrange(&CLUSTER.key(4, "1#3")).len()), (Some("3 0 digest"), 2));
    redis.cmd(("INCRBY", CLUSTER.stock("1#3"), 3));
    redis.cmd(("HSET", CLUSTER.meta("1#3"), "rules", "live 1 1 - 8 - -"));
    assert_eq!(batch(&mut scripts, &["c", "d"], "2", ("3", "4-5"), "borrow"), "oo 4 0");
    assert_eq!(batch(&mut scripts, &["e"], "2", ("5", "6"), ""), "s 0 1", "without the flag it is refused");
    assert_eq!(job(&redis).as_deref(), Some("6 1 digest"));
}

#[test]
fn a_batch_of_holds_ends_there_too_and_keeps_what_it_decided() {
    let redis = TestRedis::start();
    let mut scripts = Scripts::two_shards(&redis, "3");
    let mut hold = |users: &str, requests: &str, lines: &str, before: &str| {
        let args = [
            "hash", "tester", users, "2", "job", "digest", "1", before, lines, requests, "", "", "", "900000", "borrow",
        ];
        let reply = scripts.call("hold", &CLUSTER.all_keys("1#3"), &args);
        reply.split(' ').take(3).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(hold("a\tb", "ra\trb", "2-3", "0"), ["o", "3", "0"]);
    assert_eq!(hold("b", "rb", "3-3", "2"), ["", "1", "0"]);
    assert_eq!(redis.hget(&CLUSTER.requests("1#3"), "\tholds").as_deref(), Some("2"));
    assert_eq!(redis.hget(&CLUSTER.key(3, "1#3"), "\th:rb"), None);
}

#[test]
fn an_expired_hold_that_the_stock_does_not_cover_stays_expired() {
    let redis = TestRedis::start();
    let mut scripts = Scripts::two_shards(&redis, "2");
    let keys = CLUSTER.all_keys("1#3");
    let hold = scripts.call("hold", &keys, &["hash", "tester", "7", "2", "r", "first", "", "1"]);
    assert!(hold.starts_with("1 0 2 "), "{hold}");
    crate::support::wait_until("the hold is overdue", || {
        scripts.call("settle", &keys, &["hash", "tester", "500", "expire"]).starts_with("1 2 1 ")
    });
    assert_eq!(scripts.orders("deduct", "first", "1#3", &[("8", "1", "s")]), "1 1 1");
    let confirm =
        |scripts: &mut Scripts, mode| scripts.call("settle", &keys, &["hash", "tester", "r", "confirm", "", mode]);
    assert_eq!(confirm(&mut scripts, "borrow"), "-3 1 0 2 7");
    redis.cmd(("INCRBY", CLUSTER.stock("1#3"), 1));
    redis.cmd(("HSET", CLUSTER.meta("1#3"), "rules", "live 1 1 - 3 - -"));
    assert_eq!(confirm(&mut scripts, "borrow"), "1 0 2 2 7");
    let release = scripts.call("settle", &keys, &["hash", "tester", "r", "release", "", "borrow"]);
    assert!(release.starts_with("ERROR USAGE"), "{release}");
}

#[test]
fn whoever_buys_of_the_parent_learns_its_shards() {
    let redis = TestRedis::start();
    let mut scripts = Scripts::two_shards(&redis, "2");
    redis.cmd(("HSET", CLUSTER.meta("1"), "rules", "live 1 1 - 2 - -", "shards", "3 9"));
    assert_eq!(scripts.deduct("1", ("7", "1", "r")), "-15 nil 3 9");
    assert_eq!(scripts.refund("1", ("7", "1", "r")), "-15 nil 3 9");
    assert_eq!(batch_of_parent(&mut scripts), "-15 nil 3 9");
    let keys = CLUSTER.all_keys("1");
    assert_eq!(scripts.call("hold", &keys, &["hash", "t", "7", "1", "r", "first", "", "1000"]), "-15 nil 3 9");
    assert_eq!(scripts.call("settle", &keys, &["hash", "t", "r", "confirm"]), "-15 nil 3 9");
    assert_eq!(scripts.multi_deduct("first", "7", "r", &[("1", "1"), ("1#3", "1")]), "-1 -15,, -1,2,0");
}

fn batch_of_parent(scripts: &mut Scripts) -> String {
    scripts.call("deduct", &CLUSTER.keys("1"), &["hash", "t", "a\tb", "1", "job", "digest", "1", "0", "1-2"])
}
