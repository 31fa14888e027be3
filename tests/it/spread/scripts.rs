//! What `hold` and `settle` do with an item of an order of activities in several slots.

use crate::support::{CLUSTER, Scripts, TestRedis};

const ORDER: &str = "m:seckill:{1}:stock";
const OTHERS: &str = "seckill:{2}:stock seckill:{3}:stock";
const DIGEST: &str = "multi_deduct 0123456789abcdef0123456789abcdef01234567";

fn hold(scripts: &mut Scripts, request: &str, digest: &str, items: &str) -> String {
    let args = ["hash", "tester", "7", "2", request, "first", "", "900000", ORDER, digest, items];
    scripts.call("hold", &CLUSTER.all_keys("1"), &args)
}

fn settle(scripts: &mut Scripts, request: &str, step: &str, order: &str) -> String {
    scripts.call("settle", &CLUSTER.all_keys("1"), &["hash", "tester", request, step, order])
}

/// The code, which comes first.
fn code(reply: &str) -> &str {
    reply.split(' ').next().unwrap()
}

#[test]
fn an_item_is_held_and_settled_for_its_order_alone() {
    let redis = TestRedis::start();
    let mut scripts = Scripts::of(&redis, CLUSTER);
    scripts.preheat("1", "10");
    assert!(hold(&mut scripts, "r", DIGEST, OTHERS).starts_with("1 8 2 "));
    let record = redis.hget(&CLUSTER.key(3, "1"), "\th:r").unwrap();
    assert!(record.starts_with("held 2 ") && record.ends_with(&format!(" {ORDER} 7")), "{record}");
    assert_eq!(redis.hget(&CLUSTER.key(3, "1"), "r"), Some(format!("{DIGEST}\t7")), "the digest of the whole order");
    // Nobody else ends it: not by its id, not as an item of another order, and not because it is overdue.
    for (step, order) in [("confirm", ""), ("release", ""), ("abort", "m:seckill:{2}:stock"), ("confirm", "m:x")] {
        assert_eq!(code(&settle(&mut scripts, "r", step, order)), "-9", "{step} {order}");
    }
    let other = DIGEST.replace("0123", "4567");
    assert_eq!(code(&hold(&mut scripts, "r", &other, "")), "-9", "the same id for another order");
    assert_eq!(code(&settle(&mut scripts, "r", "confirm", ORDER)), "1");
    assert_eq!(code(&settle(&mut scripts, "r", "abort", ORDER)), "-14");
    let entries = redis.xrange(&CLUSTER.key(4, "1"));
    let of_order: Vec<_> =
        entries[1..].iter().map(|(_, entry)| (&*entry["op"], entry.get("primary"), entry.get("items"))).collect();
    let (primary, items) = ("seckill:{1}:stock".to_owned(), OTHERS.to_owned());
    assert_eq!(of_order, [("hold", Some(&primary), Some(&items)), ("confirm", Some(&primary), None)]);
}

#[test]
fn an_aborted_id_is_used_up_even_if_it_was_never_held() {
    let redis = TestRedis::start();
    let mut scripts = Scripts::of(&redis, CLUSTER);
    scripts.preheat("1", "10");
    assert!(hold(&mut scripts, "held", DIGEST, "").starts_with("1 8 2 "));
    for (request, before) in [("held", "8"), ("unknown", "10")] {
        assert_eq!(redis.get(&CLUSTER.stock("1")).as_deref(), Some(before));
        assert_eq!(code(&settle(&mut scripts, request, "abort", ORDER)), "1", "{request}");
        assert_eq!(code(&settle(&mut scripts, request, "abort", ORDER)), "2", "{request}");
        assert_eq!(code(&hold(&mut scripts, request, DIGEST, "")), "-13", "{request}: a hold that comes late");
        assert_eq!(code(&settle(&mut scripts, request, "confirm", ORDER)), "-13", "{request}");
        assert_eq!(redis.int(&CLUSTER.stock("1")), 10);
    }
}

/// A wait covers what its connection wrote: so what was decided before is written again, and nothing else.
#[test]
fn what_was_decided_before_is_written_again() {
    let redis = TestRedis::start();
    let mut scripts = Scripts::of(&redis, CLUSTER);
    scripts.preheat("1", "10");
    let dirty = |redis: &TestRedis| {
        let info: String = redis.ask(("INFO", "persistence"));
        let line = info.lines().find_map(|line| line.strip_prefix("rdb_changes_since_last_save:")).unwrap().to_owned();
        line.parse::<u64>().unwrap()
    };
    let writes = |scripts: &mut Scripts, again: &mut dyn FnMut(&mut Scripts) -> String, expected: &str| {
        let (before, state) = (dirty(&redis), redis.dump_all());
        assert_eq!(code(&again(scripts)), expected);
        assert!(dirty(&redis) > before, "{expected}: nothing was written");
        assert_eq!(redis.dump_all(), state);
    };
    hold(&mut scripts, "r", DIGEST, OTHERS);
    writes(&mut scripts, &mut |scripts| hold(scripts, "r", DIGEST, OTHERS), "2");
    settle(&mut scripts, "r", "confirm", ORDER);
    writes(&mut scripts, &mut |scripts| settle(scripts, "r", "confirm", ORDER), "2");
    writes(&mut scripts, &mut |scripts| settle(scripts, "r", "abort", ORDER), "-14");
    writes(&mut scripts, &mut |scripts| hold(scripts, "r", DIGEST, OTHERS), "2");
    settle(&mut scripts, "s", "abort", ORDER);
    writes(&mut scripts, &mut |scripts| settle(scripts, "s", "abort", ORDER), "2");
}

#[test]
fn an_item_that_is_refused_leaves_nothing_behind() {
    let redis = TestRedis::start();
    let mut scripts = Scripts::of(&redis, CLUSTER);
    scripts.preheat("1", "1");
    let before = redis.dump_all();
    assert_eq!(hold(&mut scripts, "r", DIGEST, ""), "-3 1 0 nil");
    for (order, digest, items) in [
        ("x", DIGEST, ""),
        ("m:", DIGEST, ""),
        (ORDER, "digest", ""),
        (ORDER, DIGEST, "a b "),
        (ORDER, DIGEST, "a\tb"),
        (ORDER, DIGEST, &"a".repeat(524_801)),
    ] {
        let args = ["hash", "tester", "7", "1", "r", "first", "", "900000", order, digest, items];
        let reply = scripts.call("hold", &CLUSTER.all_keys("1"), &args);
        assert!(reply.starts_with("ERROR USAGE hold: "), "{reply}");
    }
    assert_eq!(redis.dump_all(), before);
}
