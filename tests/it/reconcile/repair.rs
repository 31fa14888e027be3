//! Repairs: each class injected, named, repaired and clean after; nothing set blindly.

use std::fs;
use std::path::PathBuf;

use tempfile::TempDir;

use super::sale;
use crate::support::{TestRedis, backend};

pub const PARTICIPANTS: &str = "seckill:participants:1001";
pub const STOCK: &str = "seckill:stock:1001";

/// Repairs without order records, and holds that all is well then.
#[track_caller]
pub fn fix(redis: &TestRedis) -> Vec<String> {
    let fixed = redis.seckill(["reconcile", "1001", "--fix", "--yes", "-o", "json"]).code(0).json();
    redis.seckill(["reconcile", "1001"]).code(0);
    shown(&fixed["repairs"])
}

/// Repairs by order records in a file.
#[track_caller]
pub fn fix_by(redis: &TestRedis, csv: &str, code: i32) -> Vec<String> {
    let (_dir, file) = orders(csv);
    let call = redis.seckill(["reconcile", "1001", "--fix", "--yes", "-o", "json", "--as-of", "2100-01-01T00:00:00Z"]);
    let fixed = call.args([format!("--orders={}", file.display())]).code(code).json();
    if code == 0 {
        let again = redis.seckill(["reconcile", "1001", "--orders", "-"]).stdin(csv);
        again.code(0).stdout_has("match");
    }
    shown(&fixed["repairs"])
}

pub fn orders(csv: &str) -> (TempDir, PathBuf) {
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("orders.csv");
    fs::write(&file, csv).unwrap();
    (dir, file)
}

/// Repairs as `class user from to stock_change status`.
pub fn shown(repairs: &serde_json::Value) -> Vec<String> {
    let text = |value: &serde_json::Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let fields = ["class", "user", "from", "to", "stock_change", "status"];
    let rows = repairs.as_array().unwrap().iter();
    rows.map(|row| fields.map(|field| text(&row[field])).join(" ")).collect()
}

#[test]
fn units_that_a_cut_withheld_come_back() {
    for (layout, key) in [("seckill", STOCK), ("sku", "stock:1001"), ("coupon", "coupon:stock:1001")] {
        let redis = sale(layout);
        let stock = redis.int(key);
        redis.cmd(("DECRBY", key, 4));
        redis.seckill(["reconcile", "--fix", "--yes", "-l", layout]).code(0);
        assert_eq!(redis.int(key), stock);
        redis.cmd(("INCRBY", key, 3));
        redis.seckill(["reconcile", "--fix", "--yes", "-l", layout]).code(0);
        assert_eq!(redis.int(key), stock, "a stock that is too high");
        redis.seckill(["reconcile", "-l", layout]).code(0);
    }
}

#[test]
fn a_bare_counter_is_never_sold_twice() {
    let redis = sale("product");
    backend::buy_product(&redis, "1001", 5);
    redis.seckill(["reconcile", "--fix", "--yes", "-l", "product"]).code(0);
    assert_eq!(redis.int("product_stock_1001"), 42);
    redis.cmd(("INCRBY", "product_stock_1001", 2));
    redis.seckill(["reconcile", "--fix", "--yes", "-l", "product"]).code(0);
    assert_eq!(redis.int("product_stock_1001"), 42);
    redis.seckill(["reconcile", "-l", "product"]).code(0);
    // Order records know better: 6 were sold.
    let (_dir, file) = orders("quantity\n6\n");
    redis.seckill(["reconcile", "1001", "--fix", "--yes", "-l", "product", "--orders"]).args([&file]).code(0);
    assert_eq!(redis.int("product_stock_1001"), 44);
    redis.seckill(["reconcile", "1001", "-l", "product", "--orders"]).args([&file]).code(0);
}

#[test]
fn a_counter_that_the_stock_moved_with_is_noted_and_never_undone() {
    let redis = sale("seckill");
    backend::buy_hash(&redis, "1001", "c", 3, 9);
    assert_eq!(fix(&redis), ["counter_drift c 3 3 0 ok"]);
    assert_eq!((redis.int(STOCK), redis.hget(PARTICIPANTS, "c").as_deref()), (44, Some("3")));
}

#[test]
fn a_counter_that_the_stock_did_not_move_with_is_set_back() {
    let redis = sale("seckill");
    redis.cmd(("HINCRBY", PARTICIPANTS, "a", 4));
    redis.cmd(("HDEL", PARTICIPANTS, "b"));
    assert_eq!(fix(&redis), ["counter_drift a 5 1 0 ok", "counter_drift b 0 2 0 ok"]);
    assert_eq!(redis.int(STOCK), 47);
    for (layout, user, key) in [("sku", "b", "bought:1001"), ("coupon", "a", "coupon:user:1001")] {
        let redis = sale(layout);
        redis.cmd(("SREM", key, user));
        redis.cmd(("HSET", "sku:units:1001", "stranger", 1));
        redis.cmd(("SADD", key, "stranger"));
        redis.seckill(["reconcile", "-l", layout]).code(7);
        redis.seckill(["reconcile", "--fix", "--yes", "-l", layout]).code(0);
        redis.seckill(["reconcile", "-l", layout]).code(0);
    }
}

#[test]
fn if_stock_moved_with_some_counters_only_order_records_decide() {
    let redis = sale("seckill");
    backend::buy_hash(&redis, "1001", "c", 3, 9);
    redis.cmd(("HINCRBY", PARTICIPANTS, "a", 1));
    let before = redis.dump_all();
    redis.seckill(["reconcile", "--fix", "--yes"]).code(7).stderr_has("order records would show which");
    redis.assert_unchanged_since(&before);
    assert_eq!(
        fix_by(&redis, "user,quantity\na,1\nb,2\nc,3\n", 0),
        ["conservation null 0 0 -1 ok", "quantity_mismatch a 2 1 1 ok", "counter_drift c 3 3 0 ok"]
    );
    assert_eq!((redis.int(STOCK), redis.hget(PARTICIPANTS, "a").as_deref()), (44, Some("1")));
}

#[test]
fn units_of_missing_orders_return_to_stock() {
    let redis = sale("seckill");
    assert_eq!(fix_by(&redis, "user,quantity\na,1\n", 0), ["missing_order b 2 0 2 ok"]);
    assert_eq!((redis.int(STOCK), redis.hget(PARTICIPANTS, "b")), (49, None));
}

#[test]
fn missing_orders_may_be_delivered_again_instead() {
    let redis = sale("seckill");
    let before = redis.dump_all();
    let (_dir, file) = orders("user,quantity\na,1\nc,1\n");
    let emit = ["reconcile", "1001", "--emit", "missing_order", "--as-of", "2100-01-01T00:00:00Z", "--orders"];
    let row = "{\"activity\":\"1001\",\"user\":\"b\",\"quantity\":2}\n";
    redis.seckill(emit).args([&file]).code(7).stdout_is(row);
    redis.assert_unchanged_since(&before);
    redis
        .seckill(emit)
        .args([&file])
        .args(["-o", "csv"])
        .code(7)
        .stdout_is("activity,user,quantity,user_hex\n1001,b,2,\n");
    // The others are repaired, these are left alone.
    redis.seckill(emit).args([&file]).args(["--fix", "--yes"]).code(7).stdout_is(row);
    assert_eq!(
        (redis.hget(PARTICIPANTS, "b").as_deref(), redis.hget(PARTICIPANTS, "c").as_deref()),
        (Some("2"), Some("1"))
    );
    redis.seckill(["reconcile", "1001"]).code(0);
}

#[test]
fn purchases_that_redis_lost_are_taken_while_stock_suffices() {
    let redis = sale("seckill");
    let repairs = fix_by(&redis, "user,quantity\na,2\nb,2\nc,40\nd,40\n", 7);
    assert_eq!(
        repairs,
        ["quantity_mismatch a 1 2 -1 ok", "missing_purchase c 0 40 -40 ok", "missing_purchase d 0 40 -40 out_of_stock"]
    );
    assert_eq!(redis.int(STOCK), 6);
    redis.seckill(["reconcile", "1001"]).code(0);
}

#[test]
fn what_may_never_be_repaired_is_not() {
    let redis = sale("seckill");
    redis.seckill(["preheat", "--id", "1001", "--stock", "50", "--per-user-limit", "1", "--update"]).code(0);
    redis.cmd(("HSET", PARTICIPANTS, "x", "1e3"));
    redis.cmd(("INCRBY", STOCK, 1));
    redis.cmd(("DECRBY", STOCK, 1));
    let before = redis.dump_all();
    redis
        .seckill(["reconcile", "--fix", "--yes"])
        .code(7)
        .stderr_has("over_limit not repaired")
        .stderr_has("corrupt not repaired");
    redis.assert_unchanged_since(&before);
    let redis = sale("seckill");
    let before = redis.dump_all();
    assert_eq!(fix_by(&redis, "user,quantity\na,1\nb,2\nc,-1\n", 7), [""; 0]);
    assert_eq!(fix_by(&redis, "user,quantity,ledger\na,1,\nb,2,9999999999999-0\n", 7), [""; 0]);
    redis.assert_unchanged_since(&before);
}

#[test]
fn a_total_that_differs_is_no_repair() {
    let redis = sale("seckill");
    let before = redis.dump_all();
    redis
        .seckill(["reconcile", "1001", "--total", "60", "--fix", "--yes"])
        .code(7)
        .stderr_has("`preheat --update` sets the total");
    redis.assert_unchanged_since(&before);
}
