//! The script `preheat_shard`, cut after any of its writes and called again, ends as if it had not been cut.

use crate::holds::cut::cut_after;
use crate::support::{CLUSTER, Scripts, TestRedis};

fn args<'a>(mode: &'a str, epoch: &'a str, plan: &'a str, units: &'a str) -> [&'a str; 10] {
    [mode, "t", "why", epoch, plan, units, "2", "phone", "", "4102444800000"]
}

/// All that a shard has, and what its ledger says without its times.
fn state(redis: &TestRedis) -> Vec<String> {
    let hash = |key: String| redis.hgetall(&key).into_iter().map(|(field, text)| format!("{field}={text}"));
    let mut all: Vec<String> = hash(CLUSTER.meta("1#3")).chain(hash(CLUSTER.requests("1#3"))).collect();
    all.push(format!("{:?}", redis.exists(&CLUSTER.stock("1#3")).then(|| redis.int(&CLUSTER.stock("1#3")))));
    all.extend(redis.xrange(&CLUSTER.ledger("1#3")).into_iter().map(|(_, entry)| format!("{entry:?}")));
    all
}

/// Cuts a call after each write; `lost` are the numbers of writes behind which units are out of the stock until an audit.
fn check(prepared: bool, call: [&str; 10], lost: &[(usize, i64)]) {
    let redis = TestRedis::start();
    let mut scripts = Scripts::of(&redis, CLUSTER);
    let keys = CLUSTER.all_keys("1#3");
    let mut expected = Vec::new();
    for writes in (0..).map(|round: usize| round.checked_sub(1)) {
        redis.cmd("FLUSHALL");
        if prepared {
            scripts.call("preheat_shard", &keys, &args("set", "1", "", "9"));
            assert_eq!(scripts.deduct("1#3", ("7", "1", "")), "1 8 1");
        }
        let is_cut = match writes {
            None => false,
            Some(writes) => scripts.eval(&cut_after("preheat_shard", writes), &keys, &call).contains("CUT"),
        };
        if writes.is_some() && !is_cut {
            assert!(writes > Some(2), "{call:?}");
            return;
        }
        let reply = scripts.call("preheat_shard", &keys, &call);
        assert!(reply.starts_with("1 ") || reply.starts_with("2 "), "{call:?} cut after {writes:?}: {reply}");
        let units = lost.iter().find(|(at, _)| Some(*at) == writes).map_or(0, |(_, units)| *units);
        if units > 0 {
            redis.cmd(("INCRBY", CLUSTER.stock("1#3"), units));
            // The entry says what was left.
            let mut now = state(&redis);
            let mut whole = expected.clone();
            [&mut now, &mut whole].into_iter().for_each(|state| drop(state.pop()));
            assert_eq!(now, whole, "{call:?} cut after {writes:?}");
        } else if writes.is_none() {
            expected = state(&redis);
        } else {
            assert_eq!(state(&redis), expected, "{call:?} cut after {writes:?}");
        }
    }
}

#[test]
fn a_set_that_is_cut_anywhere_is_done_by_the_same_call() {
    check(false, args("set", "1", "", "9"), &[]);
    check(true, args("set", "2", "", "9"), &[]);
}

#[test]
fn an_update_that_is_cut_is_finished_by_the_same_call() {
    // Behind its entry nothing says whether the units came; before its record nothing says that they were taken.
    check(true, args("update", "1", "p1", "3"), &[(3, 3)]);
    check(true, args("update", "1", "p1", "-3"), &[(1, 3)]);
}

/// An order comes between the two calls, and the second one is cut too: a third adds no units again.
#[test]
fn an_update_that_is_cut_twice_with_an_order_between_is_made_once() {
    let redis = TestRedis::start();
    let mut scripts = Scripts::of(&redis, CLUSTER);
    let keys = CLUSTER.all_keys("1#3");
    let call = args("update", "1", "p1", "3");
    let (mut first_cuts, mut both_cuts) = (0, 0);
    for first in 0.. {
        let mut is_cut = true;
        for second in 0.. {
            redis.cmd("FLUSHALL");
            scripts.call("preheat_shard", &keys, &args("set", "1", "", "9"));
            assert_eq!(scripts.deduct("1#3", ("7", "1", "")), "1 8 1");
            is_cut = scripts.eval(&cut_after("preheat_shard", first), &keys, &call).contains("CUT");
            let order = scripts.deduct("1#3", ("7", "1", ""));
            assert!(order.starts_with("1 "), "cut after {first} and {second}: {order}");
            let is_cut_again = scripts.eval(&cut_after("preheat_shard", second), &keys, &call).contains("CUT");
            let reply = scripts.call("preheat_shard", &keys, &call);
            assert!(reply.starts_with("1 ") || reply.starts_with("2 "), "cut after {first} and {second}: {reply}");
            let rules = redis.hgetall(&CLUSTER.meta("1#3"))["rules"].clone();
            assert!(rules.contains(" 12 "), "cut after {first} and {second}: {rules}");
            // Behind its entry nothing says whether the units came: those that did not are for an audit to add.
            let stock = redis.int(&CLUSTER.stock("1#3"));
            assert!(stock == 10 || stock == 7 && (is_cut || is_cut_again), "cut after {first} and {second}: {stock}");
            let updates = redis
                .xrange(&CLUSTER.ledger("1#3"))
                .iter()
                .filter(|(_, entry)| entry.iter().any(|(_, text)| text == "update"))
                .count();
            assert_eq!(updates, 1, "cut after {first} and {second}");
            if !is_cut_again {
                break;
            }
            both_cuts += 1;
        }
        if !is_cut {
            break;
        }
        first_cuts += 1;
    }
    assert!(first_cuts >= 4 && both_cuts > first_cuts, "{first_cuts} {both_cuts}");
}

#[test]
fn a_shard_that_sold_and_lost_its_stock_is_not_made_again() {
    let redis = TestRedis::start();
    let mut scripts = Scripts::of(&redis, CLUSTER);
    let keys = CLUSTER.all_keys("1#3");
    scripts.call("preheat_shard", &keys, &args("set", "1", "", "9"));
    assert_eq!(scripts.deduct("1#3", ("7", "1", "")), "1 8 1");
    redis.cmd(("DEL", CLUSTER.stock("1#3")));
    let before = redis.dump_all();
    assert_eq!(scripts.call("preheat_shard", &keys, &args("set", "1", "", "9")), "-11 nil nil 1 nil");
    redis.assert_unchanged_since(&before);
}
