//! Single orders of a sharded activity while others order, or die. `sessions/shards.txt` has all else.

use std::time::Duration;

use seckill::{Layout, Order, Quantity, RefundOf, RequestId, Status, Store, StoredUser, Target, Wish};

use super::sale::Sale;
use crate::support::{CLUSTER, Fault, Proxy, When, wait_until};

pub fn order(user: &str, quantity: u64) -> Order {
    Order {
        activity: "1001".parse().unwrap(),
        user: Some(StoredUser::new(user)),
        wish: Wish::Buy { quantity: Quantity::new(quantity).unwrap(), per_user_limit: None },
        request: RequestId::unique(),
        reason: None,
    }
}

pub fn store(url: &str) -> Store {
    Store::new(Target::new(url, "a test", Duration::from_secs(5)).unwrap(), Layout::Cluster, "tester".to_owned())
}

#[test]
fn an_order_is_two_round_trips_and_one_if_the_shards_are_known() {
    let sale = Sale::new(&[5, 5, 5], None);
    sale.redis().seckill(["script", "load"]).code(0);
    let proxy = Proxy::before(sale.redis());
    proxy.seckill(["-l", "cluster", "deduct", "1001", "--user", "7"]).code(0);
    assert_eq!((proxy.connections(), proxy.commands()), (1, vec!["EVALSHA".to_owned(); 2]));
    let mut store = store(&proxy.url());
    for (round_trips, user) in [(4, "8"), (5, "9"), (6, "10")] {
        let outcome = seckill::place(&mut store, &order(user, 1), false).unwrap();
        assert_eq!((outcome.status, outcome.stock, proxy.round_trips()), (Status::Ok, None, round_trips));
    }
    sale.check(15);
}

#[test]
fn a_process_that_returned_units_sells_them_at_once() {
    let sale = Sale::new(&[2, 2], None);
    let mut store = store(&sale.redis().url());
    let (buyer, other) = (sale.user(0, "u"), sale.user(1, "v"));
    let bought = order(&buyer, 4);
    assert_eq!(seckill::place(&mut store, &bought, false).unwrap().status, Status::Ok);
    assert_eq!(seckill::place(&mut store, &order(&other, 1), false).unwrap().status, Status::OutOfStock);
    let refund = Order { wish: Wish::Refund(RefundOf::All), request: RequestId::unique(), ..bought };
    assert_eq!(seckill::place(&mut store, &refund, false).unwrap().status, Status::Ok);
    assert_eq!(seckill::place(&mut store, &order(&other, 1), false).unwrap().status, Status::Ok);
    sale.check(4);
}

#[test]
fn what_expired_in_any_shard_returns_and_is_borrowed_for_a_late_payment() {
    let sale = Sale::new(&[2, 2], None);
    let confirm = |number, rest: &str| format!("confirm 1001 --user {} --request {rest}", sale.user(number, "u"));
    for (number, request) in [(0, "a"), (1, "b")] {
        let user = sale.user(number, "u");
        assert_eq!(sale.status(&format!("hold 1001 --user {user} --quantity 2 --for 1ms --request {request}")), "ok");
    }
    let mut expired = (0, 0);
    wait_until("both are expired", || {
        let rows = sale.seckill("expire 1001").code(0).json();
        expired.0 += rows[0]["holds"].as_u64().unwrap_or(0);
        expired.1 += rows[0]["units"].as_u64().unwrap_or(0);
        expired == (2, 4)
    });
    // The units of `a` are sold to a user of its home; those of `b` are still there.
    assert_eq!(sale.status(&format!("deduct 1001 --user {} --quantity 2", sale.user(0, "v"))), "ok");
    let before = sale.redis().dump_all();
    assert_eq!(sale.status(&confirm(0, "a --dry-run")), "ok");
    sale.redis().assert_unchanged_since(&before);
    assert_eq!(sale.status(&confirm(0, "a")), "ok");
    assert_eq!(sale.stocks(), [0, 0]);
    assert_eq!(sale.status(&confirm(1, "b --dry-run")), "expired");
    assert_eq!(sale.status(&confirm(1, "b")), "expired");
    let refund = format!("refund 1001 --user {} --all", sale.user(0, "v"));
    assert_eq!((sale.status(&refund), sale.status(&confirm(1, "b"))), ("ok".to_owned(), "expired".to_owned()));
    sale.check(4);
}

#[test]
fn units_on_their_way_are_waited_for_and_then_finished_by_whoever_needs_them() {
    let sale = Sale::new(&[0, 6], None);
    let requests = CLUSTER.requests(&sale.id(1));
    sale.lends_and_dies("6");
    assert_eq!(sale.in_transit(), 6);
    let late = format!("deduct 1001 --user {} --request r --timeout 300ms", sale.user(1, "u"));
    let error = sale.seckill(&late).code(1).error_json();
    assert!(error["error"].as_str().unwrap().contains("6 units are on their way between its shards"), "{error}");
    assert!(error["hint"].as_str().unwrap().contains("nothing was taken"), "{error}");
    assert_eq!((sale.stocks(), sale.bought().len(), sale.in_transit()), (vec![0, 0], 0, 6));
    sale.age_transfers();
    assert_eq!(sale.status(&late), "ok");
    assert_eq!((sale.open(1), sale.in_transit()), (Vec::new(), 0));
    // Arriving once more changes nothing.
    let record: String = sale.ask(&requests, &["HGET", &requests, &format!("\ttt:{}", super::transfer(7))][..]);
    assert!(record.starts_with("6 "), "{record}");
    sale.check(6);
}

/// One unit is for sale at any instant, and each look finds none: where it was, it is read when it is not there any more.
#[test]
fn two_looks_that_find_no_unit_prove_nothing_if_a_ledger_grew() {
    let sale = Sale::new(&[1, 1], None);
    let users = [sale.user(0, "v"), sale.user(1, "w")];
    let buy = |user: &str| assert_eq!(sale.status(&format!("deduct 1001 --user {user}")), "ok");
    let moves_to = |shard: usize| {
        assert_eq!(sale.status(&format!("refund 1001 --all --user {}", users[shard])), "ok");
        buy(&users[1 - shard]);
    };
    buy(&users[0]);
    sale.redis().seckill(["script", "load"]).code(0);
    let proxy = Proxy::before(sale.redis());
    let hold_at = |shard| proxy.inject(When::With(CLUSTER.ledger(&sale.id(shard))), Fault::HoldRequest);
    hold_at(1);
    let line = format!("-l cluster -o json deduct 1001 --timeout 60s --user {}", sale.user(0, "u"));
    let order = proxy.seckill([]).args(line.split(' ')).spawn();
    // Before the second shard of the first look, before the first one of the second look, and so on; then before what follows.
    for (to, next) in [(0, Some(0)), (1, Some(1)), (0, Some(0)), (1, None)] {
        proxy.wait_until_held();
        moves_to(to);
        next.map_or_else(|| proxy.heal(), hold_at);
        proxy.release();
    }
    assert_eq!(order.wait().code(0).json()["status"], "ok");
    sale.check(2);
}

#[test]
fn an_order_whose_late_copy_may_take_units_is_in_doubt_not_refused() {
    for (how, line) in [("deduct", "deduct 1001"), ("hold", "hold 1001 --for 1h")] {
        let sale = Sale::new(&[0, 6], None);
        sale.redis().seckill(["script", "load"]).code(0);
        sale.lends_and_dies("6");
        // The parent replies its shards; the order itself hangs on its way to the home.
        let proxy = Proxy::before(sale.redis());
        proxy.inject(When::Command(2), Fault::HangRequest);
        let order = format!("-l cluster -o json {line} --user {} --request r --timeout 1s", sale.user(0, "u"));
        let failed = proxy.seckill([]).args(order.split(' ')).code(6).error_json();
        let hint = failed["hint"].as_str().unwrap();
        assert!(hint.contains("--request r") && !hint.contains("nothing was taken"), "{how}: {failed}");
        // The units arrive, and then the order does: it takes what nobody else may have.
        sale.age_transfers();
        assert_eq!(sale.status(&format!("deduct 1001 --user {} --request s", sale.user(0, "v"))), "ok");
        proxy.deliver_late();
        let again = order.replace("-l cluster -o json ", "").replace(" --timeout 1s", "");
        assert_eq!(sale.status(&again), "replayed", "{how}");
        assert_eq!(sale.stocks(), [4, 0]);
        sale.check(6);
    }
}
