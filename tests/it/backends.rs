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
fn units_that_a_plain_script_did_not_record_are_unknown() {
    let redis = TestRedis::start();
    json_call(&redis, SKU, "preheat --id 1 --stock 10").code(0);
    assert_eq!(buy_sku(&redis, "1", "b", 3), 7);
    json_call(&redis, SKU, "deduct 1 --user t --quantity 2").code(0);
    let seen = json(&redis, SKU, "inspect 1");
    let row = &seen[0];
    assert_eq!((&row["sold"], &row["stock"], &row["buyers"]), (&5.into(), &5.into(), &2.into()), "{seen}");
    assert_eq!(seen[0]["participants"][0], serde_json::json!({"user": "t", "bought": 2, "left": 0}));
    assert_eq!(seen[0]["participants"][1], serde_json::json!({"user": "b", "bought": null, "left": 0}));
    redis.seckill(["-l", "sku", "inspect", "1", "--user", "b"]).code(0).stdout_has("?");
    redis
        .seckill(["-l", "sku", "-o", "csv", "inspect", "1", "--all"])
        .code(0)
        .stdout_has("\n1,b,,\n")
        .stdout_has("\n1,t,2,\n");
    let again = json(&redis, SKU, "deduct 1 --user b");
    assert_eq!((&again["status"], &again["bought"]), (&"limit_exceeded".into(), &Value::Null), "{again}");
    redis.seckill(["-l", "sku", "multi-deduct", "--user", "b", "1=1"]).code(3).stdout_has("?");
    let file = redis.seckill(["-l", "sku", "-o", "csv", "deduct", "--from", "-"]);
    file.stdin("activity,user\n1,b\n").code(3).stdout_has("2,1,b,1,limit_exceeded,5,,");

    let before = redis.dump_all();
    for line in ["refund 1 --user b", "refund 1 --user b --all", "refund 1 --user b --dry-run"] {
        let refused = redis.seckill(["-l", "sku"]).args(line.split(' ')).code(2).stdout_is("");
        refused.stderr_has("unknown").stderr_has("--quantity N`, at most 5");
    }
    json_call(&redis, SKU, "refund 1 --user b --quantity 6").code(3).stdout_has("exceeds_bought");
    redis.assert_unchanged_since(&before);
    let refund = json(&redis, SKU, "refund 1 --user b --quantity 3 --request r");
    assert_eq!((&refund["status"], &refund["stock"], &refund["bought"]), (&"ok".into(), &8.into(), &0.into()));
    assert_eq!(json(&redis, SKU, "refund 1 --user b --quantity 3 --request r")["status"], "replayed");
    assert_eq!(redis.smembers("bought:1").into_iter().collect::<Vec<_>>(), ["t"]);
}

#[test]
fn without_a_total_unknown_units_make_the_units_sold_unknown() {
    let redis = TestRedis::start();
    redis.cmd(("SET", SKU.stock("1"), 5));
    buy_sku(&redis, "1", "b", 2);
    json_call(&redis, SKU, "deduct 1 --user t").code(0);
    let seen = json(&redis, SKU, "inspect 1");
    assert!(seen[0]["sold"].is_null() && seen[0]["buyers"] == 2, "{seen}");
    let hint = redis.seckill(["-l", "sku", "refund", "1", "--user", "b"]).code(2).stderr;
    assert!(hint.contains("--quantity N`;"), "no bound without a total: {hint}");
}

#[test]
fn what_the_tool_buys_a_backend_sees() {
    for layout in SHARED {
        let redis = TestRedis::start();
        redis.cmd(("SET", layout.stock("1"), 2));
        json_call(&redis, layout, "deduct 1 --user t").code(0);
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

#[test]
fn an_order_without_meta_keeps_its_request_id_and_writes_no_ledger() {
    for layout in SHARED {
        let redis = TestRedis::start();
        redis.cmd(("SET", layout.stock("1"), 5));
        json_call(&redis, layout, "deduct 1 --user t --request r").code(0);
        assert_eq!(json(&redis, layout, "deduct 1 --user t --request r")["status"], "replayed", "{layout:?}");
        assert_eq!(redis.int(&layout.stock("1")), 4);
        assert!(!redis.exists(&layout.meta("1")) && !redis.exists(&layout.ledger("1")), "{layout:?}");
    }
}

#[test]
fn only_a_scan_lists_what_a_backend_created() {
    for layout in SHARED {
        let redis = TestRedis::start();
        redis.cmd(("SET", layout.stock("1"), 5));
        assert_eq!(json(&redis, layout, "inspect"), Value::Array(Vec::new()), "{layout:?}");
        let scanned = json(&redis, layout, "inspect --scan");
        assert_eq!((&scanned[0]["activity"], &scanned[0]["stock"]), (&"1".into(), &5.into()), "{layout:?}: {scanned}");
    }
}

#[test]
fn what_a_backend_sold_past_the_ledger_is_found_by_reconcile() {
    for layout in SHARED {
        let redis = TestRedis::start();
        json_call(&redis, layout, "preheat --id 1 --stock 5").code(0);
        json_call(&redis, layout, "deduct 1 --user t").code(0);
        json_call(&redis, layout, "reconcile 1").code(0);
        assert!(backend_buys(&redis, layout, "b"));
        let drift = json_call(&redis, layout, "reconcile 1").code(7).json();
        assert_eq!(drift["verdict"], "drift", "{layout:?}: {drift}");
        assert!(!drift["differences"].as_array().unwrap().is_empty(), "{layout:?}: {drift}");

        // With `ledger: false` a backend may sell, and stock and participants are compared alone.
        let fixture = format!("layout: {}\nactivities: [{{id: 9, stock: 5, ledger: false}}]\n", layout.name);
        redis.seckill(["preheat", "-"]).stdin(&fixture).code(0);
        json_call(&redis, layout, "deduct 9 --user t").code(0);
        assert!(!redis.exists(&layout.ledger("9")), "{layout:?}");
        if layout.has_users() {
            json_call(&redis, layout, "reconcile 9").code(0);
        }
    }
}

#[test]
fn a_backend_and_the_tool_sell_a_stock_together_to_the_last_unit() {
    for layout in SHARED {
        let redis = TestRedis::start();
        redis.cmd(("SET", layout.stock("1"), 6));
        let mut sold = 0;
        for user in 0..10 {
            let user = format!("u{user}");
            let bought = if sold % 2 == 0 {
                backend_buys(&redis, layout, &user)
            } else {
                json(&redis, layout, &format!("deduct 1 --user {user}"))["status"] == "ok"
            };
            sold += i32::from(bought);
        }
        assert_eq!((sold, redis.int(&layout.stock("1"))), (6, 0), "{layout:?}");
        if layout.has_users() {
            assert_eq!(buyers(&redis, layout), 6, "{layout:?}");
        }
    }
}
