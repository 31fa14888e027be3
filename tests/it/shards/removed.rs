//! Shards that a reset removed: only their epoch is left, so that nothing that comes late makes them again.

use seckill::internals;
use seckill::{Quantity, Status};

use super::orders::{order, store};
use super::sharded::{Whole, call, fixture, preheated};
use super::transfer;
use crate::support::{CLUSTER, Fault, Proxy, Scripts, When};

#[test]
fn whoever_has_an_old_list_reads_it_again() {
    let redis = preheated(12, 3);
    call(&redis, "preheat --id 2 --stock 5").code(0);
    let (mut single, mut multi) = (store(&redis.url()), store(&redis.url()));
    let mut buy = |request: &str| {
        let (user, one) = ("7".parse().unwrap(), Quantity::ONE);
        let items = ["1001", "2"].map(|id| (id.parse().unwrap(), one)).to_vec();
        let items = internals::multi_deduct(&mut multi, &user, items, &request.parse().unwrap()).unwrap();
        (seckill::place(&mut single, &order("7", 1), false).unwrap().status, items)
    };
    let sold = (Status::Ok, vec![Status::Ok; 2]);
    assert_eq!(buy("a"), sold);
    call(&redis, "preheat - --reset --yes").stdin(fixture(12, 4)).code(0);
    assert_eq!(buy("b"), sold);
    assert_eq!((Whole::of(&redis).stocks().iter().sum::<i64>(), redis.int(&CLUSTER.stock("2"))), (10, 3));
    // An activity without shards, lost with its keys, may be sharded again: by an epoch that its first shards never had.
    call(&redis, "preheat --id 1001 --stock 9 --reset --yes").code(0);
    redis.cmd([&["DEL".to_owned()], &CLUSTER.all_keys("1001")[..]].concat());
    call(&redis, "preheat -").stdin(fixture(12, 3)).code(0);
    Whole::of(&redis).assert_sound(12);
}

#[test]
fn a_reset_makes_a_shard_anew_that_lost_its_ledger_and_whose_parent_is_gone() {
    let redis = preheated(12, 3);
    call(&redis, "deduct 1001 --user 7").code(0);
    redis.cmd([&["DEL".to_owned()], &CLUSTER.all_keys("1001")[..]].concat());
    for number in 0..3 {
        redis.cmd(("DEL", CLUSTER.ledger(&format!("1001#{number}"))));
    }
    call(&redis, "preheat - --reset --yes").stdin(fixture(12, 3)).code(0);
    Whole::of(&redis).assert_sound(12);
    call(&redis, "pause 1001").code(0);
}

/// It comes before the items of an order are held, or before the commit, which the shard that is gone refuses.
#[test]
fn a_reset_stops_a_file_of_orders_over_shards_and_nothing_stays_held() {
    for before in [CLUSTER.deadlines("2"), "\r\nconfirm\r\n".to_owned()] {
        let redis = preheated(12, 3);
        call(&redis, "preheat --id 2 --stock 12").code(0);
        redis.seckill(["script", "load"]).code(0);
        let proxy = Proxy::before(&redis);
        proxy.inject(When::With(before.clone()), Fault::HoldRequest);
        let rows = ["7", "8"].map(|user| format!(r#"{{"user":"{user}","items":{{"1001":1,"2":1}}}}"#));
        let line = "-l cluster -o json multi-deduct --from - --job j --timeout 60s";
        let run = proxy.seckill([]).args(line.split(' ')).stdin(rows.join("\n")).spawn();
        proxy.wait_until_held();
        call(&redis, "preheat - --reset --yes").stdin(fixture(12, 4)).code(0);
        proxy.heal();
        proxy.release();
        let error = run.wait().code(1).error_line();
        assert!(error["error"].as_str().unwrap().starts_with("activity `1001` was reset"), "{before}: {error}");
        assert_eq!(redis.int(&CLUSTER.stock("2")), 12);
        assert_eq!(call(&redis, "inspect 2 --holds -o csv").code(0).stdout.lines().count(), 1);
    }
}

#[test]
fn an_item_whose_primary_is_gone_returns() {
    let redis = preheated(12, 3);
    call(&redis, "preheat --id 2 --stock 5").code(0);
    let primary = Whole::of(&redis).ids()[0].clone();
    let mut scripts = Scripts::of(&redis, CLUSTER);
    let digest = format!("multi_deduct {}", transfer(1));
    let mut hold = |activity: &str, (request, primary): (&str, &str), items: &str| {
        let name = format!("m:{}", CLUSTER.stock(primary));
        let args = ["hash", "t", "7", "2", request, "first", "", "1", &name, &digest, items];
        let reply = scripts.call("hold", &CLUSTER.all_keys(activity), &args);
        assert!(reply.starts_with("1 "), "{activity}: {reply}");
    };
    hold(&primary, ("r", &primary), &CLUSTER.stock("2"));
    hold("2", ("r", &primary), "");
    // When this was ordered, the activity had no shards. Its keys were lost since.
    hold("2", ("s", "1001"), "");
    call(&redis, "preheat - --reset --yes").stdin(fixture(12, 4)).code(0);
    call(&redis, "expire 2").code(0);
    assert_eq!((redis.int(&CLUSTER.stock("2")), redis.exists(&CLUSTER.deadlines("2"))), (5, false));
    call(&redis, "reconcile 2").code(0);
}
