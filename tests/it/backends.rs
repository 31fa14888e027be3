//! A shop's backend with a plain script of its own, on the same keys at the same time: both see one truth.

use serde_json::Value;

use crate::support::backend::{buy_hash, buy_product, buy_sku, claim_coupon};
use crate::support::layout::json_call;
use crate::support::{COUPON, Layout, PRODUCT, SECKILL, SKU, TestRedis};

/// The layouts that a backend shares.
const SHARED: [Layout; 4] = [SECKILL, SKU, COUPON, PRODUCT];

/// Buys one unit as that layout's backend does, and says whether it got it.
fn backend_buys(redis: &TestRedis, layout: Layout, user: &str) -> bool {
    match layout.name {
        "seckill" => buy_hash(redis, "1", user, 1, 2).0 == 1,
        "sku" => buy_sku(redis, "1", user, 1) >= 0,
        "coupon" => claim_coupon(redis, "1", user) == 1,
        _ => buy_product(redis, "1", 1) == 1,
    }
}

fn json(redis: &TestRedis, layout: Layout, line: &str) -> Value {
    json_call(redis, layout, line).run().json()
}

/// How many users the tool sees as buyers.
fn buyers(redis: &TestRedis, layout: Layout) -> Value {
    json(redis, layout, "inspect 1")[0]["buyers"].clone()
}

#[test]
fn what_a_backend_buys_the_tool_sees_and_can_give_back() {
    for layout in SHARED {
        let redis = TestRedis::start();
        redis.cmd(("SET", layout.stock("1"), 5));
        assert!(backend_buys(&redis, layout, "b"));
        assert_eq!(json(&redis, layout, "inspect"), Value::Array(Vec::new()), "{layout:?}: only a scan lists it");
        assert_eq!(json(&redis, layout, "inspect --scan")[0]["activity"], "1", "{layout:?}");
        let seen = json(&redis, layout, "inspect 1")[0].clone();
        assert_eq!(seen["stock"], 4, "{layout:?}: {seen}");
        assert!(seen["total"].is_null() && seen["per_user_limit"].is_null(), "{seen}");
        if layout.has_users() {
            assert_eq!((buyers(&redis, layout), &seen["participants"][0]["user"]), (1.into(), &"b".into()));
            let units = if layout == SKU { Value::Null } else { 1.into() };
            assert_eq!(json(&redis, layout, "inspect 1 --user b")[0]["bought"], units, "{layout:?}");
            let second = json(&redis, layout, "deduct 1 --user b --per-user-limit 1");
            assert_eq!(second["status"], "limit_exceeded", "{layout:?}: {second}");
        }
        assert_eq!(json(&redis, layout, "refund 1 --user b --quantity 1")["status"], "ok", "{layout:?}");
        assert_eq!(redis.int(&layout.stock("1")), 5);
        if layout.has_users() {
            assert_eq!(json(&redis, layout, "refund 1 --user b")["status"], "exceeds_bought", "{layout:?}");
        }
        assert!(backend_buys(&redis, layout, "b"), "{layout:?}: and may buy again");
    }
}

#[test]
fn what_the_tool_buys_a_backend_sees() {
    for layout in SHARED {
        let redis = TestRedis::start();
        redis.cmd(("SET", layout.stock("1"), 2));
        json_call(&redis, layout, "deduct 1 --user t --request r").code(0);
        assert_eq!(json(&redis, layout, "deduct 1 --user t --request r")["status"], "replayed", "{layout:?}");
        assert!(!redis.exists(&layout.meta("1")) && !redis.exists(&layout.ledger("1")), "{layout:?}");
        if layout.records_once() {
            assert!(!backend_buys(&redis, layout, "t"), "{layout:?}: has ordered");
        }
        assert!(backend_buys(&redis, layout, "b"), "{layout:?}");
        assert!(!backend_buys(&redis, layout, "c"), "{layout:?}: sold out");
        assert_eq!(json(&redis, layout, "deduct 1 --user d")["status"], "out_of_stock", "{layout:?}");
        json_call(&redis, layout, "refund 1 --user t").code(0);
        assert!(backend_buys(&redis, layout, "t"), "{layout:?}: given back");
    }
    // The backend's limit counts what we sold.
    let redis = TestRedis::start();
    redis.cmd(("SET", SECKILL.stock("1"), 9));
    json_call(&redis, SECKILL, "deduct 1 --user t --quantity 2").code(0);
    assert_eq!(buy_hash(&redis, "1", "t", 1, 2), (0, "超过个人限购".to_owned()));
}
