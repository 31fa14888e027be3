//! What a drop-in sells, or the plain script whose place it takes, `seckill` sees, gives back, audits and takes over; and it sells beside
//! them.

use serde_json::Value;

use super::{COUPON, Caller, DropIn, PRODUCT, SECKILL, SKU, SKU_MULTI, is_error};
use crate::support::layout::json_call;
use crate::support::{self, Layout, TestRedis};

/// Each with the layout whose keys it has.
const SHARED: [(DropIn, Layout); 4] =
    [(SECKILL, support::SECKILL), (SKU, support::SKU), (COUPON, support::COUPON), (PRODUCT, support::PRODUCT)];

/// Both scripts that a backend may have.
const CALLERS: [fn(&TestRedis, DropIn) -> Caller; 2] = [Caller::of, Caller::plain];

fn json(redis: &TestRedis, layout: Layout, line: &str) -> Value {
    json_call(redis, layout, line).run().json()
}

/// Buys one unit as a backend does, and says whether it got it.
fn buys(shop: &Caller, drop_in: DropIn, user: &str) -> bool {
    let mut args = drop_in.good.to_vec();
    drop_in.user.inspect(|at| args[*at] = user);
    let reply = shop.call(drop_in.keys, &args);
    match drop_in.name {
        "seckill" => reply == "1 成功",
        "sku" => !reply.starts_with('-'),
        _ => reply == "1",
    }
}

#[test]
fn what_a_backend_buys_the_tool_sees_and_can_give_back() {
    for ((drop_in, layout), caller) in SHARED.into_iter().flat_map(|shared| CALLERS.map(|caller| (shared, caller))) {
        let redis = TestRedis::start();
        drop_in.stock(&redis, "5");
        let shop = caller(&redis, drop_in);
        assert!(buys(&shop, drop_in, "b"));
        assert_eq!(json(&redis, layout, "inspect"), Value::Array(Vec::new()), "{layout:?}: only a scan lists it");
        assert_eq!(json(&redis, layout, "inspect --scan")[0]["activity"], "1", "{layout:?}");
        let seen = json(&redis, layout, "inspect 1")[0].clone();
        assert_eq!(seen["stock"], 4, "{layout:?}: {seen}");
        assert!(seen["total"].is_null() && seen["per_user_limit"].is_null(), "{seen}");
        if layout.has_users() {
            assert_eq!((&seen["buyers"], &seen["participants"][0]["user"]), (&1.into(), &"b".into()));
            let units = if drop_in == SKU { Value::Null } else { 1.into() };
            assert_eq!(json(&redis, layout, "inspect 1 --user b")[0]["bought"], units, "{layout:?}");
            let second = json(&redis, layout, "deduct 1 --user b --per-user-limit 1");
            assert_eq!(second["status"], "limit_exceeded", "{layout:?}: {second}");
        }
        assert_eq!(json(&redis, layout, "refund 1 --user b --quantity 1")["status"], "ok", "{layout:?}");
        assert_eq!(redis.int(drop_in.keys[0]), 5);
        if layout.has_users() {
            assert_eq!(json(&redis, layout, "refund 1 --user b")["status"], "exceeds_bought", "{layout:?}");
        }
        assert!(buys(&shop, drop_in, "b"), "{layout:?}: and may buy again");
    }
}

#[test]
fn what_the_tool_buys_a_backend_sees() {
    for ((drop_in, layout), caller) in SHARED.into_iter().flat_map(|shared| CALLERS.map(|caller| (shared, caller))) {
        let redis = TestRedis::start();
        drop_in.stock(&redis, "2");
        let shop = caller(&redis, drop_in);
        json_call(&redis, layout, "deduct 1 --user t --request r").code(0);
        assert_eq!(json(&redis, layout, "deduct 1 --user t --request r")["status"], "replayed", "{layout:?}");
        assert!(!redis.exists(&layout.meta("1")) && !redis.exists(&layout.ledger("1")), "{layout:?}");
        if layout.records_once() {
            assert!(!buys(&shop, drop_in, "t"), "{layout:?}: has ordered");
        }
        assert!(buys(&shop, drop_in, "b"), "{layout:?}");
        assert!(!buys(&shop, drop_in, "c"), "{layout:?}: sold out");
        assert_eq!(json(&redis, layout, "deduct 1 --user d")["status"], "out_of_stock", "{layout:?}");
        json_call(&redis, layout, "refund 1 --user t").code(0);
        assert!(buys(&shop, drop_in, "t"), "{layout:?}: given back");
    }
    // The backend's limit counts what we sold.
    for caller in CALLERS {
        let redis = TestRedis::start();
        SECKILL.stock(&redis, "9");
        json_call(&redis, support::SECKILL, "deduct 1 --user t --quantity 2").code(0);
        assert_eq!(caller(&redis, SECKILL).call(SECKILL.keys, &["t", "1", "2"]), "0 超过个人限购");
    }
}

#[test]
fn an_audit_of_what_a_drop_in_sold_matches_without_a_ledger_and_names_it_with_one() {
    for (drop_in, layout) in SHARED {
        let redis = TestRedis::start();
        let fixture = format!("layout: {}\nactivities: [{{id: 1, stock: 5, ledger: false}}]\n", layout.name);
        redis.seckill(["preheat", "-"]).stdin(&fixture).code(0);
        let shop = Caller::of(&redis, drop_in);
        assert!(buys(&shop, drop_in, "7"));
        let verdict = json(&redis, layout, "reconcile 1")["verdict"].clone();
        // Neither units of a set's member nor users of a counter are known.
        let expected = if [SKU, PRODUCT].contains(&drop_in) { "unproven" } else { "match" };
        assert_eq!(verdict, expected, "{layout:?}");

        let redis = TestRedis::start();
        json_call(&redis, layout, "preheat --id 1 --stock 5").code(0);
        let shop = Caller::of(&redis, drop_in);
        assert!(buys(&shop, drop_in, "7"));
        let drift = json_call(&redis, layout, "reconcile 1").code(7).json();
        assert_eq!(drift["verdict"], "drift", "{layout:?}: {drift}");
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
    let seen = json_call(&redis, support::SKU, "inspect 1 2").code(3).json();
    assert_eq!((&seen[0]["stock"], &seen[1]["state"]), (&3.into(), &"corrupt".into()), "{seen}");
    // No user is recorded, as if the records were lost: the tool does not sell until one is.
    assert_eq!(json(&redis, support::SKU, "deduct 1 --user 7")["status"], "corrupt");
    assert_eq!(Caller::of(&redis, SKU).call(SKU.keys, &["1", "8"]), "2");
    assert_eq!(json(&redis, support::SKU, "deduct 1 --user 7")["status"], "ok");
    let drift = json_call(&redis, support::SKU, "reconcile 1").code(7).json();
    assert_eq!(drift["verdict"], "drift", "nobody holds what was taken: {drift}");
}
