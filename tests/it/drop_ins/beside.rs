//! What a drop-in sells, `seckill` sees, gives back, audits and takes over, as it does what a plain script sells.

use serde_json::Value;

use super::{COUPON, Caller, DropIn, PRODUCT, SECKILL, SKU, SKU_MULTI, is_error};
use crate::support::layout::json_call;
use crate::support::{self, Layout, TestRedis};

/// Each with the layout whose keys it has.
const SHARED: [(DropIn, Layout); 4] =
    [(SECKILL, support::SECKILL), (SKU, support::SKU), (COUPON, support::COUPON), (PRODUCT, support::PRODUCT)];

fn json(redis: &TestRedis, layout: Layout, line: &str) -> Value {
    json_call(redis, layout, line).run().json()
}

fn has_sold(drop_in: DropIn, reply: &str) -> bool {
    match drop_in.name {
        "seckill" => reply == "1 成功",
        "sku" => !reply.starts_with('-'),
        _ => reply == "1",
    }
}

#[test]
fn what_a_drop_in_sells_is_inspected_refunded_and_sold_again() {
    for (drop_in, layout) in SHARED {
        let redis = TestRedis::start();
        drop_in.stock(&redis, "5");
        let shop = Caller::of(&redis, drop_in);
        assert!(has_sold(drop_in, &shop.call(drop_in.keys, drop_in.good)));
        let seen = json(&redis, layout, "inspect 1")[0].clone();
        assert_eq!(seen["stock"], 4, "{layout:?}: {seen}");
        if layout.has_users() {
            assert_eq!(seen["participants"][0]["user"], "7", "{layout:?}: {seen}");
            let second = json(&redis, layout, "deduct 1 --user 7 --per-user-limit 1");
            assert_eq!(second["status"], "limit_exceeded", "{layout:?}: {second}");
        }
        assert_eq!(json(&redis, layout, "refund 1 --user 7 --quantity 1")["status"], "ok", "{layout:?}");
        assert_eq!(redis.int(drop_in.keys[0]), 5);
        assert!(has_sold(drop_in, &shop.call(drop_in.keys, drop_in.good)), "{layout:?}: and may buy again");
        // What the tool sells counts for the drop-in.
        json_call(&redis, layout, "deduct 1 --user 8").code(0);
        let mut args = drop_in.good.to_vec();
        drop_in.user.inspect(|at| args[*at] = "8");
        args.last_mut().filter(|_| drop_in == SECKILL).into_iter().for_each(|limit| *limit = "1");
        assert_eq!(has_sold(drop_in, &shop.call(drop_in.keys, &args)), drop_in == PRODUCT, "{layout:?}");
    }
}

#[test]
fn an_audit_of_what_a_drop_in_sold_matches_without_a_ledger_and_names_it_with_one() {
    for (drop_in, layout) in SHARED {
        let redis = TestRedis::start();
        let fixture = format!("layout: {}\nactivities: [{{id: 1, stock: 5, ledger: false}}]\n", layout.name);
        redis.seckill(["preheat", "-"]).stdin(&fixture).code(0);
        let shop = Caller::of(&redis, drop_in);
        assert!(has_sold(drop_in, &shop.call(drop_in.keys, drop_in.good)));
        let verdict = json(&redis, layout, "reconcile 1")["verdict"].clone();
        // Neither units of a set's member nor users of a counter are known.
        let expected = if [SKU, PRODUCT].contains(&drop_in) { "unproven" } else { "match" };
        assert_eq!(verdict, expected, "{layout:?}");

        let redis = TestRedis::start();
        json_call(&redis, layout, "preheat --id 1 --stock 5").code(0);
        let shop = Caller::of(&redis, drop_in);
        assert!(has_sold(drop_in, &shop.call(drop_in.keys, drop_in.good)));
        let drift = json_call(&redis, layout, "reconcile 1").code(7).json();
        assert_eq!(drift["verdict"], "drift", "{layout:?}: {drift}");
    }
}

#[test]
fn only_a_withdrawn_stock_stops_a_drop_in() {
    for (drop_in, layout) in SHARED {
        let redis = TestRedis::start();
        let fixture = format!("layout: {}\nactivities: [{{id: 1, stock: 5, ledger: false}}]\n", layout.name);
        redis.seckill(["preheat", "-"]).stdin(&fixture).code(0);
        let shop = Caller::of(&redis, drop_in);
        json_call(&redis, layout, "pause 1 --withdraw-stock").code(0);
        let before = redis.dump_all();
        let expected = match drop_in.name {
            "seckill" => "0 库存不足",
            "sku" => "-1",
            _ => "0",
        };
        assert_eq!(shop.call(drop_in.keys, drop_in.good), expected, "{layout:?}");
        redis.assert_unchanged_since(&before);
        json_call(&redis, layout, "resume 1").code(0);
        assert!(has_sold(drop_in, &shop.call(drop_in.keys, drop_in.good)), "{layout:?}");
    }
}

#[test]
fn several_skus_are_taken_from_the_stocks_that_the_tool_sells_from() {
    let redis = TestRedis::start();
    json_call(&redis, support::SKU, "preheat --id 1 --stock 5").code(0);
    let shop = Caller::of(&redis, SKU_MULTI);
    is_error(&shop.call(SKU_MULTI.keys, SKU_MULTI.good), "NOT_PREHEATED", "`stock:2`");
    json_call(&redis, support::SKU, "preheat --id 2 --stock 5").code(0);
    assert_eq!(shop.call(SKU_MULTI.keys, &["2", "5"]), "");
    let seen = json(&redis, support::SKU, "inspect 1 2");
    assert_eq!((&seen[0]["stock"], &seen[1]["state"]), (&3.into(), &"sold_out".into()), "{seen}");
    // No user is recorded, as if the records were lost: the tool does not sell until one is.
    assert_eq!(json(&redis, support::SKU, "deduct 1 --user 7")["status"], "corrupt");
    assert_eq!(Caller::of(&redis, SKU).call(SKU.keys, &["1", "8"]), "2");
    assert_eq!(json(&redis, support::SKU, "deduct 1 --user 7")["status"], "ok");
    let drift = json_call(&redis, support::SKU, "reconcile 1").code(7).json();
    assert_eq!(drift["verdict"], "drift", "nobody holds what was taken: {drift}");
}
