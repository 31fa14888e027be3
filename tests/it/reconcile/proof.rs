//! Stock goes up only on proof, and users are bytes from the scan to the repair.

use std::fs;

use serde_json::{Value, json};
use tempfile::TempDir;

use super::sale;
use crate::support::{TestRedis, backend};

const STOCK: &str = "seckill:stock:1001";
const PARTICIPANTS: &str = "seckill:participants:1001";
const LATER: &str = "2100-01-01T00:00:00Z";
/// `你` as a backend writes it that speaks GBK.
const GBK: &[u8] = b"\xc4\xe3";

/// One audit, as JSON.
#[track_caller]
fn audited(redis: &TestRedis, layout: &str, code: i32) -> Value {
    redis.seckill(["reconcile", "1001", "-o", "json", "-l", layout]).code(code).json()
}

/// Verdict and proof of the only activity.
#[track_caller]
fn judged(redis: &TestRedis, layout: &str, code: i32) -> [String; 2] {
    let audit = audited(redis, layout, code);
    ["verdict", "proof"].map(|field| audit["activities"][0][field].as_str().unwrap().to_owned())
}

/// Repairs as `class user from to stock_change status`.
fn repairs(fixed: &Value) -> Vec<String> {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let fields = ["class", "user", "from", "to", "stock_change", "status"];
    let rows = fixed["repairs"].as_array().unwrap().iter();
    rows.map(|row| fields.map(|field| text(&row[field])).join(" ")).collect()
}

#[track_caller]
fn fix(redis: &TestRedis, layout: &str, more: &[&str], code: i32) -> Vec<String> {
    let call = redis.seckill(["reconcile", "1001", "--fix", "--yes", "-o", "json", "-l", layout]);
    repairs(&call.args(more).code(code).json())
}

/// Order records in a file, and the flags that name it.
fn orders(csv: &str) -> (TempDir, [String; 4]) {
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("orders.csv");
    fs::write(&file, csv).unwrap();
    let flags = ["--as-of", LATER, "--orders", file.to_str().unwrap()].map(str::to_owned);
    (dir, flags)
}

#[track_caller]
fn fix_by(redis: &TestRedis, layout: &str, csv: &str, code: i32) -> Vec<String> {
    let (_dir, flags) = orders(csv);
    fix(redis, layout, &flags.each_ref().map(String::as_str), code)
}

#[test]
fn buyers_without_units_are_unproven_and_their_stock_never_returns() {
    let redis = TestRedis::start();
    let fixture = "layout: sku\nactivities: [{id: 1001, stock: 10, ledger: false}]";
    redis.seckill(["preheat", "-"]).stdin(fixture).code(0);
    for user in ["a", "b", "c", "d", "e"] {
        backend::buy_sku(&redis, "1001", user, 2);
    }
    assert_eq!(redis.int("stock:1001"), 0);
    assert_eq!(judged(&redis, "sku", 7), ["unproven", "none"]);
    let before = redis.dump_all();
    assert_eq!(fix(&redis, "sku", &[], 7), [""; 0]);
    redis.assert_unchanged_since(&before);
    // Order records show what each of them holds, and who has no order.
    let csv = "user,quantity\na,2\nb,2\nc,2\nd,2\n";
    assert_eq!(fix_by(&redis, "sku", csv, 0), ["conservation null 0 0 2 ok", "missing_order e null 0 0 ok"]);
    assert_eq!((redis.int("stock:1001"), redis.smembers("bought:1001").len()), (2, 4));
    let (_dir, flags) = orders(csv);
    let audit = redis.seckill(["reconcile", "1001", "-o", "json", "-l", "sku"]).args(flags).code(0).json();
    assert_eq!((&audit["activities"][0]["proof"], &audit["activities"][0]["bought"]), (&json!("orders"), &json!(8)));
}

#[test]
fn a_member_without_units_is_reported_and_nothing_is_raised() {
    let redis = sale("sku");
    backend::buy_sku(&redis, "1001", "c", 3);
    redis.cmd(("DECRBY", "stock:1001", 4));
    let before = redis.dump_all();
    assert_eq!(fix(&redis, "sku", &[], 7), [""; 0]);
    redis.assert_unchanged_since(&before);
    let row = &audited(&redis, "sku", 7)["differences"][0];
    assert_eq!(
        [&row["class"], &row["user"], &row["redis"], &row["ledger"]],
        [&json!("counter_drift"), &json!("c"), &json!(null), &json!(0)]
    );
    // The records have it, so its units are written, and the withheld ones return.
    assert_eq!(
        fix_by(&redis, "sku", "user,quantity\na,1\nb,2\nc,3\n", 0),
        ["conservation null 0 0 4 ok", "counter_drift c null 3 0 ok"]
    );
    assert_eq!(judged(&redis, "sku", 0), ["match", "ledger"]);
    assert_eq!(redis.int("stock:1001"), 44);
}

#[test]
fn without_a_ledger_conservation_is_reported_and_never_repaired() {
    for (layout, stock) in [("seckill", STOCK), ("coupon", "coupon:stock:1001")] {
        for step in [-3, 3] {
            let redis = TestRedis::start();
            let fixture = "activities: [{id: 1001, stock: 10, ledger: false}]";
            redis.seckill(["preheat", "-", "-l", layout]).stdin(fixture).code(0);
            redis.seckill(["deduct", "1001", "--user", "a", "-l", layout]).code(0);
            assert_eq!(judged(&redis, layout, 0), ["match", "total"]);
            redis.cmd(("INCRBY", stock, step));
            let before = redis.dump_all();
            assert_eq!(fix(&redis, layout, &[], 7), [""; 0]);
            redis.assert_unchanged_since(&before);
            assert_eq!(fix_by(&redis, layout, "user,quantity\na,1\n", 0).len(), 1);
            assert_eq!(redis.int(stock), 9);
        }
    }
}

#[test]
fn a_buyer_whose_id_is_not_utf_8_is_kept_through_audit_repair_and_trim() {
    let redis = sale("seckill");
    redis.cmd(("HSET", PARTICIPANTS, GBK, 2));
    redis.cmd(("DECRBY", STOCK, 2));
    let row = audited(&redis, "seckill", 7)["differences"][0].clone();
    assert_eq!(
        [&row["class"], &row["user"], &row["redis"], &row["ledger"]],
        [&json!("counter_drift"), &json!(null), &json!(2), &json!(0)]
    );
    // The stock moved with it: it is noted in the ledger, and nothing returns.
    assert_eq!(fix(&redis, "seckill", &[], 0), ["counter_drift null 2 2 0 ok"]);
    assert_eq!((redis.int(STOCK), redis.ask::<i64>(("HGET", PARTICIPANTS, GBK))), (45, 2));
    assert_eq!(judged(&redis, "seckill", 0), ["match", "ledger"]);
    redis.seckill(["ledger", "trim", "1001", "--before", LATER, "--yes"]).code(0);
    assert_eq!(judged(&redis, "seckill", 0), ["match", "ledger"]);
}

#[test]
fn a_plan_names_a_user_that_is_not_utf_8_in_hex_and_repair_reads_it() {
    let redis = sale("seckill");
    redis.cmd(("HSET", PARTICIPANTS, GBK, 2));
    let dir = TempDir::new().unwrap();
    let plan = dir.path().join("plan.jsonl");
    redis.seckill(["reconcile", "--plan"]).args([&plan]).code(7);
    let row: Value = serde_json::from_str(&fs::read_to_string(&plan).unwrap()).unwrap();
    assert_eq!((&row["user"], &row["user_hex"]), (&json!(null), &json!("c4e3")));
    redis.seckill(["repair", "--yes"]).args([&plan]).code(0).stdout_has("hex:c4e3");
    assert!(!redis.ask::<bool>(("HEXISTS", PARTICIPANTS, GBK)));
    assert_eq!((redis.int(STOCK), judged(&redis, "seckill", 0)), (47, ["match", "ledger"].map(str::to_owned)));
    let odd = fs::read_to_string(&plan).unwrap().replace("c4e3", "c4e");
    redis.seckill(["repair", "-", "--yes"]).stdin(odd).code(2).stderr_has("user_hex: `c4e` is not hexadecimal");
}

#[test]
fn an_order_of_a_user_that_is_not_utf_8_by_our_script_matches() {
    let redis = sale("seckill");
    let script = redis.seckill(["script", "show", "deduct"]).code(0).stdout;
    let keys = ["stock", "meta", "requests", "ledger", "participants"].map(|key| format!("seckill:{key}:1001"));
    let mut call = redis::cmd("EVAL");
    call.arg(script).arg(5).arg(&keys).arg(&["hash", "backend"]);
    call.arg(GBK).arg("2").arg("").exec(&mut redis.connection()).unwrap();
    assert_eq!(judged(&redis, "seckill", 0), ["match", "ledger"]);
    assert_eq!(redis.int(STOCK), 45);
}

#[test]
fn one_unusual_user_is_reported_and_the_others_are_repaired() {
    for user in [" a", "", "x\u{7}"] {
        let redis = sale("seckill");
        redis.cmd(("HSET", PARTICIPANTS, user, 4, "c", 2));
        assert_eq!(fix(&redis, "seckill", &[], 7), ["counter_drift c 2 0 0 ok"]);
        assert_eq!((redis.hget(PARTICIPANTS, user).as_deref(), redis.int(STOCK)), (Some("4"), 47));
        let call = redis.seckill(["reconcile", "1001", "--fix", "--yes"]).code(7);
        call.stderr_has("1 counter_drift not repaired: no script accepts the user id");
    }
}

#[test]
fn a_whole_ledger_that_equals_every_counter_restores_the_stock() {
    for (layout, stock, left) in
        [("seckill", STOCK, 47), ("sku", "stock:1001", 47), ("coupon", "coupon:stock:1001", 48)]
    {
        let redis = sale(layout);
        redis.cmd(("DEL", stock));
        assert_eq!(fix(&redis, layout, &[], 0), [format!("conservation null null {left} {left} ok")], "{layout}");
        assert_eq!((redis.int(stock), judged(&redis, layout, 0)), (left, ["match", "ledger"].map(str::to_owned)));
    }
    let redis = sale("product");
    redis.cmd(("DEL", "product_stock_1001"));
    assert_eq!(fix(&redis, "product", &[], 7), [""; 0]);
    assert_eq!(fix_by(&redis, "product", "quantity\n3\n", 0), ["conservation null null 47 47 ok"]);
    assert_eq!(redis.int("product_stock_1001"), 47);
}

#[test]
fn a_lost_stock_key_is_not_restored_if_a_counter_differs() {
    let redis = sale("seckill");
    redis.cmd(("DEL", STOCK));
    redis.cmd(("HINCRBY", PARTICIPANTS, "a", 1));
    let before = redis.dump_all();
    assert_eq!(fix(&redis, "seckill", &[], 7), [""; 0]);
    redis.assert_unchanged_since(&before);
    redis.cmd(("HINCRBY", PARTICIPANTS, "a", -1));
    let dir = TempDir::new().unwrap();
    let plan = dir.path().join("plan.jsonl");
    redis.seckill(["reconcile", "--plan"]).args([&plan]).code(7);
    redis.cmd(("SET", STOCK, 3));
    redis.seckill(["repair", "--yes"]).args([&plan]).code(3).stdout_has("changed");
    assert_eq!(redis.int(STOCK), 3);
}

#[test]
fn evicted_participants_return_from_the_ledger_and_the_stock_stays() {
    let redis = sale("seckill");
    redis.cmd(("DEL", PARTICIPANTS));
    redis.seckill(["deduct", "1001", "--user", "a"]).code(3).stdout_has("corrupt");
    assert_eq!(fix(&redis, "seckill", &[], 0), ["counter_drift a 0 1 0 ok", "counter_drift b 0 2 0 ok"]);
    assert_eq!((redis.int(STOCK), judged(&redis, "seckill", 0)), (47, ["match", "ledger"].map(str::to_owned)));
    // A backend that sells on has lost the limits, and its sales are no eviction.
    redis.cmd(("DEL", PARTICIPANTS));
    backend::buy_hash(&redis, "1001", "c", 3, 9);
    assert_eq!(
        fix(&redis, "seckill", &[], 0),
        ["counter_drift a 0 1 0 ok", "counter_drift b 0 2 0 ok", "counter_drift c 3 3 0 ok"]
    );
    assert_eq!((redis.int(STOCK), judged(&redis, "seckill", 0)), (44, ["match", "ledger"].map(str::to_owned)));
    // With the stock gone too, only order records prove what was sold.
    redis.cmd(("DEL", PARTICIPANTS, STOCK));
    assert_eq!(fix(&redis, "seckill", &[], 7), [""; 0]);
    assert_eq!(fix_by(&redis, "seckill", "user,quantity\na,1\nb,2\nc,4\n", 0).len(), 4);
    assert_eq!(redis.int(STOCK), 43);
}

#[test]
fn a_withdrawn_stock_counts_and_repairs_change_what_is_withdrawn() {
    let redis = sale("seckill");
    let meta = "seckill:meta:1001";
    let withdrawn = || redis.hget(meta, "withdrawn").unwrap();
    redis.seckill(["pause", "1001", "--withdraw-stock"]).code(0);
    assert_eq!((redis.int(STOCK), withdrawn()), (0, "47".to_owned()));
    let audit = audited(&redis, "seckill", 0);
    assert_eq!((&audit["activities"][0]["stock"], &audit["verdict"]), (&json!(47), &json!("match")));
    redis.cmd(("HSET", meta, "withdrawn", 40));
    assert_eq!(fix(&redis, "seckill", &[], 0), ["conservation null 0 0 7 ok"]);
    assert_eq!((redis.int(STOCK), withdrawn()), (0, "47".to_owned()));
    // A backend's refund while it is withdrawn, and the stock key lost.
    redis.cmd(("INCRBY", STOCK, 2));
    assert_eq!(fix(&redis, "seckill", &[], 0), ["conservation null 0 0 -2 ok"]);
    redis.cmd(("DEL", STOCK));
    assert_eq!(fix(&redis, "seckill", &[], 0).len(), 1);
    redis.seckill(["resume", "1001"]).code(0);
    assert_eq!((redis.int(STOCK), redis.hget(meta, "withdrawn")), (47, None));
    assert_eq!(judged(&redis, "seckill", 0), ["match", "ledger"]);
}

#[test]
fn of_a_bare_counter_the_stock_stays_if_the_order_records_agree() {
    let redis = sale("product");
    backend::buy_product(&redis, "1001", 5);
    assert_eq!(fix_by(&redis, "product", "quantity\n8\n", 0), ["counter_drift null 3 8 0 ok"]);
    assert_eq!(
        (redis.int("product_stock_1001"), judged(&redis, "product", 0)),
        (42, ["match", "ledger"].map(str::to_owned))
    );
    // The ledger alone knows of two more.
    redis.cmd(("INCRBY", "product_stock_1001", 2));
    assert_eq!(fix_by(&redis, "product", "quantity\n6\n", 0), ["counter_drift null 8 6 0 ok"]);
    assert_eq!(redis.int("product_stock_1001"), 44);
}

#[test]
fn an_activity_that_another_system_created_is_unproven_without_a_total() {
    let redis = TestRedis::start();
    redis.cmd(("SET", STOCK, 10));
    backend::buy_hash(&redis, "1001", "a", 2, 9);
    assert_eq!(judged(&redis, "seckill", 7), ["unproven", "none"]);
    let by_total = redis.seckill(["reconcile", "1001", "--total", "10", "-o", "json"]).code(0).json();
    assert_eq!(by_total["activities"][0]["proof"], "total");
    redis.cmd(("SET", "product_stock_1001", 10));
    let counter = redis.seckill(["reconcile", "1001", "--total", "12", "-o", "json", "-l", "product"]).code(7).json();
    assert_eq!(counter["verdict"], "unproven");
    redis.seckill(["reconcile", "1001", "--total", "9", "-l", "product"]).code(7).stdout_has("conservation");
}
