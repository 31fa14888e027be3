//! Many buyers at once, past the limit and past the stock: nothing is oversold, and all counts agree.

use std::sync::Barrier;
use std::thread;

use crate::support::layout::json_call;
use crate::support::{LAYOUTS, Layout, Scripts, TestRedis};

const CLIENTS: usize = 8;
const ORDERS: usize = 60;
const TOTAL: i64 = 100;

/// What a client's orders were answered: how many units it got and gave back.
fn shop(redis: &TestRedis, layout: Layout, client: usize, start: &Barrier) -> (i64, i64) {
    let mut scripts = Scripts::of(redis, layout);
    let (mut taken, mut given) = (0, 0);
    start.wait();
    for nth in 0..ORDERS {
        // Every user is served by all clients at once, so that limits are crossed too.
        let (user, request) = (format!("u{}", nth / 2), format!("{client}-{nth}"));
        let first = scripts.deduct("1", (&user, "1", &request));
        taken += i64::from(first.starts_with("1 "));
        let again = scripts.deduct("1", (&user, "1", &request));
        assert!(!first.starts_with("1 ") || again.starts_with("2 "), "{first}, then {again}");
        // What was refused may be had at the second try: somebody gave units back.
        taken += i64::from(!first.starts_with("1 ") && again.starts_with("1 "));
        if nth % 5 == client % 5 && scripts.refund("1", (&user, "1", &format!("{request}-back"))).starts_with("1 ") {
            given += 1;
        }
        if nth % 7 == 0 {
            let reply = scripts.multi_deduct("first", &user, &format!("{request}-m"), &[("1", "1"), ("2", "1")]);
            taken += i64::from(reply.starts_with("1 "));
        }
    }
    (taken, given)
}

#[test]
fn nothing_is_oversold_and_all_counts_agree() {
    for layout in LAYOUTS {
        let redis = TestRedis::start();
        Scripts::of(&redis, layout).preheat_with("1", &TOTAL.to_string(), &[("per_user_limit", "5")]);
        Scripts::of(&redis, layout).preheat("2", "1000");
        let start = Barrier::new(CLIENTS);
        let results: Vec<(i64, i64)> = thread::scope(|scope| {
            let clients: Vec<_> = (0..CLIENTS)
                .map(|client| {
                    scope.spawn({
                        let (redis, start) = (&redis, &start);
                        move || shop(redis, layout, client, start)
                    })
                })
                .collect();
            clients.into_iter().map(|client| client.join().unwrap()).collect()
        });
        let sold: i64 = results.iter().map(|(taken, given)| taken - given).sum();
        let stock = redis.int(&layout.stock("1"));
        assert!(stock >= 0, "{layout:?}: oversold: {stock}");
        assert_eq!(sold + stock, TOTAL, "{layout:?}: what clients were told");
        if layout.kind == "hash" {
            let held = redis.hgetall(&layout.participants("1"));
            let units: Vec<i64> = held.values().map(|units| units.parse().unwrap()).collect();
            assert!(units.iter().all(|units| (1..=5).contains(units)), "{layout:?}: {held:?}");
            assert_eq!(units.iter().sum::<i64>() + stock, TOTAL, "{layout:?}");
            assert_eq!(stock, 0, "{layout:?}: the sale was to sell out");
        } else if layout.has_users() {
            assert_eq!(redis.smembers(&layout.participants("1")).len() as i64 + stock, TOTAL, "{layout:?}");
        }
        // The ledger, the counters and the stock, as the tool compares them.
        json_call(&redis, layout, "reconcile 1 2").code(0);
    }
}

#[test]
fn the_tool_itself_raced_by_processes_sells_each_unit_once() {
    for layout in LAYOUTS {
        let redis = TestRedis::start();
        json_call(&redis, layout, "preheat --id 1 --stock 5").code(0);
        let calls: Vec<_> =
            (0..12).map(|user| json_call(&redis, layout, &format!("deduct 1 --user {}", user % 9)).spawn()).collect();
        let codes: Vec<i32> = calls.into_iter().map(|call| call.wait().status.code().unwrap()).collect();
        assert_eq!(codes.iter().filter(|code| **code == 0).count(), 5, "{layout:?}: {codes:?}");
        assert!(codes.iter().all(|code| matches!(code, 0 | 3)), "{layout:?}: {codes:?}");
        assert_eq!(redis.int(&layout.stock("1")), 0);
        json_call(&redis, layout, "reconcile 1").code(0);
    }
}
