//! Many buyers at once, some through the binary and some through the scripts as a backend runs them: no unit is sold
//! twice, nobody passes the limit, and every key says the same.

use std::collections::BTreeMap;
use std::sync::Barrier;
use std::thread;

use crate::support::layout::json_call;
use crate::support::{CLUSTER, COUPON, Layout, PRODUCT, SECKILL, SKU, Scripts, TestRedis};

/// Threads that send scripts, and threads that start processes: eight connections and more at once.
const BACKENDS: usize = 8;
const OPERATORS: usize = 2;
/// Orders of each; of a backend every third is a batch, a multi-order or a refund.
const BACKEND_ORDERS: usize = 90;
const OPERATOR_ORDERS: usize = 6;
const USERS: usize = 30;
const TOTAL: i64 = 60;
const LIMIT: i64 = 3;

#[test]
fn seckill_is_raced() {
    race(SECKILL);
}

#[test]
fn sku_is_raced() {
    race(SKU);
}

#[test]
fn coupon_is_raced() {
    race(COUPON);
}

#[test]
fn product_is_raced() {
    race(PRODUCT);
}

#[test]
fn cluster_is_raced() {
    race(CLUSTER);
}

/// Two activities: of `1` more is wanted than there is, of `2` more than the limit allows.
fn race(layout: Layout) {
    let redis = TestRedis::start();
    let mut scripts = Scripts::of(&redis, layout);
    let limit = LIMIT.to_string();
    let scarce = if layout.records_once() { 20 } else { TOTAL };
    let plenty = 100_000;
    let limited: &[(&str, &str)] = if layout.has_users() { &[("per_user_limit", &limit)] } else { &[] };
    scripts.preheat_with("1", &scarce.to_string(), limited);
    scripts.preheat_with("2", &plenty.to_string(), limited);

    let start = Barrier::new(BACKENDS + OPERATORS);
    let counts = thread::scope(|scope| {
        let (redis, start) = (&redis, &start);
        let backends = (0..BACKENDS).map(|number| scope.spawn(move || backend(redis, layout, number, start)));
        let backends: Vec<_> = backends.collect();
        let operators = (0..OPERATORS).map(|number| scope.spawn(move || operator(redis, layout, number, start)));
        let operators: Vec<_> = operators.collect();
        operators.into_iter().for_each(|it| it.join().unwrap());
        backends.into_iter().map(|it| it.join().unwrap()).fold(BTreeMap::new(), |mut all, one| {
            one.into_iter().for_each(|(status, count)| *all.entry(status).or_insert(0) += count);
            all
        })
    });

    // The race was one: units were sold, given back, refused for want of stock and, if there is one, by the limit.
    assert!(counts.contains_key("ok") && counts.contains_key("sold out"), "{counts:?}");
    assert!(!layout.has_users() || counts.contains_key("limit"), "{counts:?}");
    adds_up(&redis, layout, "1", scarce);
    adds_up(&redis, layout, "2", plenty);
    let verdict = json_call(&redis, layout, "reconcile 1 2").code(0).json();
    assert_eq!(verdict["verdict"], "match", "{verdict}");
}

/// Buys, gives back and buys again, on a connection of its own; counts what was replied.
fn backend(redis: &TestRedis, layout: Layout, number: usize, start: &Barrier) -> BTreeMap<&'static str, usize> {
    let mut scripts = Scripts::of(redis, layout);
    let mut counts = BTreeMap::new();
    start.wait();
    for turn in 0..BACKEND_ORDERS {
        // Neighbours meet the same users, and a request id now and then.
        let user = ((turn * 7 + number * 3) % USERS).to_string();
        let other = ((turn * 11 + number) % USERS).to_string();
        let request = format!("{}-{turn}", number / 2);
        let activity = if turn % 4 == 0 { "2" } else { "1" };
        let quantity = if layout.kind == "hash" && turn % 5 == 0 { "2" } else { "1" };
        let reply = match turn % 6 {
            2 => scripts.multi_deduct("first", &user, &request, &[("1", "1"), ("2", quantity)]),
            3 => scripts.orders(
                "deduct",
                "first",
                activity,
                &[(&user, "1", &request), (&other, quantity, ""), (&user, "1", "")],
            ),
            5 => scripts.refund(activity, (&user, "1", &request)),
            _ => scripts.deduct(activity, (&user, quantity, &request)),
        };
        assert!(!reply.starts_with("ERROR") && !reply.starts_with("-11"), "{reply}");
        let first = reply.split(' ').next().unwrap();
        for (status, code, letter, item) in
            [("ok", "1", 'o', " 1,"), ("limit", "-2", 'l', " -2,"), ("sold out", "-3", 's', " -3,")]
        {
            let packed = turn % 6 == 3 && first.contains(letter);
            if first == code || packed || reply.contains(item) {
                *counts.entry(status).or_default() += 1;
            }
        }
    }
    counts
}

/// The same by hand: a process an order.
fn operator(redis: &TestRedis, layout: Layout, number: usize, start: &Barrier) {
    start.wait();
    for turn in 0..OPERATOR_ORDERS {
        let user = (turn * 5 + number) % USERS;
        let line = match turn % 3 {
            0 => format!("deduct 1 --user {user}"),
            1 => format!("multi-deduct --user {user} 1=1 2=1"),
            _ => format!("refund 1 --user {user}"),
        };
        let outcome = json_call(redis, layout, &line).run();
        assert!(matches!(outcome.status.code(), Some(0 | 3)), "{outcome:?}");
    }
}

/// Stock, participants and ledger agree, and nobody holds more than the limit.
fn adds_up(redis: &TestRedis, layout: Layout, activity: &str, total: i64) {
    let stock = redis.int(&layout.stock(activity));
    assert!((0..=total).contains(&stock), "{stock} of {total} left");
    let ledger = folded(redis, layout, activity);
    assert_eq!(stock + ledger.values().sum::<i64>(), total, "{layout:?} {activity}: stock and ledger");
    if !layout.has_users() {
        return;
    }
    let held = held(redis, layout, activity);
    assert_eq!(held, ledger, "{layout:?} {activity}: participants and ledger");
    let limit = if layout.records_once() { 1 } else { LIMIT };
    let most = held.values().max().copied().unwrap_or(0);
    assert!((1..=limit).contains(&most), "{layout:?} {activity}: somebody holds {most}");
}

/// What each user holds.
fn held(redis: &TestRedis, layout: Layout, activity: &str) -> BTreeMap<String, i64> {
    if layout.kind == "hash" {
        let held = redis.hgetall(&layout.participants(activity));
        return held.into_iter().map(|(user, units)| (user, units.parse().unwrap())).collect();
    }
    let units = if layout.kind == "set" { redis.hgetall(&layout.key(6, activity)) } else { BTreeMap::new() };
    let held = |user: String| (user.clone(), units.get(&user).map_or(1, |text| text.parse().unwrap()));
    redis.smembers(&layout.participants(activity)).into_iter().map(held).collect()
}

/// The same, believing the ledger alone.
fn folded(redis: &TestRedis, layout: Layout, activity: &str) -> BTreeMap<String, i64> {
    let mut held = BTreeMap::new();
    for (_, entry) in redis.xrange(&layout.ledger(activity)) {
        let sign = match entry["op"].as_str() {
            "deduct" => 1,
            "refund" => -1,
            _ => continue,
        };
        for order in crate::support::ledger::orders(&entry) {
            *held.entry(order[0].clone()).or_default() += sign * order[1].parse::<i64>().unwrap();
        }
    }
    held.retain(|_, units| *units != 0);
    held
}
