//! `reconcile` without order records: stock, participants and ledger, in every layout, idle and live.

mod activities;
mod applied;
mod beside;
mod databases;
mod exports;
mod fix;
mod formats;
pub mod live;
mod loss;
mod orders;
mod plans;
mod proof;
mod repair;
mod reversed;
mod service;

use crate::support::{TestRedis, backend};
use serde_json::{Value, json};

/// A sale of 50 units, limit 3, in which `a` holds 1 and `b` 2.
fn sale(layout: &str) -> TestRedis {
    let redis = TestRedis::start();
    redis.seckill(["preheat", "--id", "1001", "--stock", "50", "-l", layout]).code(0);
    let b = if layout == "coupon" { "1" } else { "2" };
    redis.seckill(["deduct", "1001", "--user", "a", "-l", layout]).code(0);
    redis.seckill(["deduct", "1001", "--user", "b", "--quantity", b, "-l", layout]).code(0);
    redis
}

/// What differs, as `class user redis ledger`.
#[track_caller]
fn differences(redis: &TestRedis, layout: &str) -> Vec<String> {
    let audit = redis.seckill(["reconcile", "1001", "-o", "json", "-l", layout]).code(7).json();
    assert_eq!(audit["verdict"], "drift");
    let shown = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let rows = audit["differences"].as_array().unwrap();
    rows.iter().map(|row| ["class", "user", "redis", "ledger"].map(|field| shown(&row[field])).join(" ")).collect()
}

#[test]
fn a_sale_that_adds_up_matches_in_every_layout() {
    for (layout, bought) in [("seckill", 3), ("sku", 3), ("coupon", 2), ("product", 3), ("cluster", 3)] {
        let redis = sale(layout);
        let audit = redis.seckill(["reconcile", "1001", "-o", "json", "-l", layout]).code(0).stderr("").json();
        let activity = json!({
            "activity": "1001", "verdict": "match", "proof": "ledger", "total": 50, "stock": 50 - bought,
            "bought": bought, "expected_stock": 50 - bought, "stock_drift": 0, "differences": 0
        });
        assert_eq!(audit, json!({"verdict": "match", "activities": [activity], "differences": []}), "{layout}");
        if layout != "product" {
            redis.seckill(["refund", "1001", "--user", "b", "--all", "-l", layout]).code(0);
        }
        redis.seckill(["preheat", "--id", "1001", "--stock", "80", "--update", "-l", layout]).code(0);
        redis.seckill(["pause", "1001", "-l", layout]).code(0);
        redis.seckill(["reconcile", "1001", "-l", layout]).code(0);
    }
}

#[test]
fn units_that_no_counter_has_are_conservation() {
    for layout in ["seckill", "sku", "coupon", "product"] {
        let redis = sale(layout);
        let key = match layout {
            "sku" => "stock:1001".to_owned(),
            "product" => "product_stock_1001".to_owned(),
            other => format!("{other}:stock:1001"),
        };
        redis.cmd(("DECRBY", &key, 4));
        let stock = redis.int(&key);
        assert_eq!(differences(&redis, layout), [format!("conservation null {stock} {}", stock + 4)], "{layout}");
    }
}

#[test]
fn a_counter_that_was_written_past_the_ledger_is_named() {
    let redis = sale("seckill");
    redis.cmd(("HINCRBY", "seckill:participants:1001", "a", 2));
    redis.cmd(("DECRBY", "seckill:stock:1001", 2));
    assert_eq!(differences(&redis, "seckill"), ["counter_drift a 3 1"]);
    redis.cmd(("HDEL", "seckill:participants:1001", "b"));
    assert_eq!(
        differences(&redis, "seckill"),
        ["conservation null 45 47", "counter_drift a 3 1", "counter_drift b 0 2"]
    );
}

#[test]
fn what_is_bought_past_the_ledger_is_counter_drift_with_a_hint() {
    let redis = sale("seckill");
    backend::buy_hash(&redis, "1001", "c", 2, 9);
    redis.seckill(["reconcile", "1001"]).code(7).stdout_has("counter_drift").stderr_has("`ledger: false`");
    assert_eq!(differences(&redis, "seckill"), ["counter_drift c 2 0"]);

    let redis = sale("sku");
    backend::buy_sku(&redis, "1001", "c", 1);
    assert_eq!(differences(&redis, "sku"), ["counter_drift c null 0"]);

    let redis = sale("coupon");
    backend::claim_coupon(&redis, "1001", "c");
    assert_eq!(differences(&redis, "coupon"), ["counter_drift c 1 0"]);

    let redis = sale("product");
    backend::buy_product(&redis, "1001", 5);
    assert_eq!(differences(&redis, "product"), ["conservation null 42 47"]);
}

#[test]
fn a_user_over_the_limit_is_named() {
    let redis = sale("seckill");
    redis.seckill(["preheat", "--id", "1001", "--stock", "50", "--per-user-limit", "1", "--update"]).code(0);
    assert_eq!(differences(&redis, "seckill"), ["over_limit b 2 2"]);
}

#[test]
fn a_record_that_is_no_number_is_corrupt() {
    for text in ["1.5", " 1", "1e3", "-1", "007", "x", ""] {
        let redis = sale("seckill");
        redis.cmd(("HSET", "seckill:participants:1001", "b", text));
        assert!(differences(&redis, "seckill").contains(&format!("corrupt b {text} 2")), "{text:?}");
    }
}

#[test]
fn a_key_of_the_wrong_type_or_value_is_corrupt_and_named() {
    for (key, value) in [("stock", "abc"), ("participants", "x"), ("meta", "x"), ("requests", "x"), ("ledger", "x")] {
        let redis = sale("seckill");
        let key = format!("seckill:{key}:1001");
        redis.cmd(("SET", &key, value));
        redis.seckill(["reconcile", "1001"]).code(7).stderr_has(&key);
        assert_eq!(differences(&redis, "seckill"), [format!("corrupt null {key} null")]);
    }
}

#[test]
fn a_stock_that_is_gone_is_drift() {
    let redis = sale("seckill");
    redis.cmd(("DEL", "seckill:stock:1001"));
    assert_eq!(differences(&redis, "seckill"), ["conservation null null 47"]);
    redis.seckill(["reconcile", "1001"]).code(7).stderr_has("its stock key is gone");
}

#[test]
fn a_ledger_entry_that_cannot_be_read_is_corrupt() {
    let redis = sale("seckill");
    let id: String = redis.ask(("XADD", "seckill:ledger:1001", "*", "op", "deduct", "users", "a", "quantity", "x"));
    assert_eq!(differences(&redis, "seckill"), [format!("corrupt null {id} null")]);
}

#[test]
fn a_ledger_without_its_beginning_is_unsettled_and_never_a_match() {
    let redis = sale("seckill");
    let first = redis.xrange("seckill:ledger:1001")[0].0.clone();
    redis.cmd(("XDEL", "seckill:ledger:1001", first));
    let audit = redis.seckill(["reconcile", "1001", "-o", "json"]).code(7);
    assert_eq!(audit.json()["verdict"], "unsettled");
    audit.stderr_has("does not begin with this sale's preheat");
}

#[test]
fn a_reset_begins_a_new_ledger() {
    let redis = sale("seckill");
    redis.seckill(["preheat", "--id", "1001", "--stock", "9", "--reset", "--yes"]).code(0);
    redis.seckill(["reconcile", "1001"]).code(0).stdout_has("match");
}

#[test]
fn activities_that_only_a_backend_knows_are_audited_too() {
    let redis = TestRedis::start();
    redis.cmd(("SET", "seckill:stock:1001", 10));
    backend::buy_hash(&redis, "1001", "a", 2, 9);
    let audit = redis.seckill(["reconcile", "1001", "-o", "json"]).code(7).json();
    let activity = json!({
        "activity": "1001", "verdict": "unproven", "proof": "none", "total": null, "stock": 8, "bought": 2,
        "expected_stock": null, "stock_drift": null, "differences": 0
    });
    assert_eq!(audit["activities"][0], activity);
    redis.seckill(["reconcile", "1001", "--total", "10"]).code(0);
    redis.seckill(["reconcile", "1001", "--total", "11"]).code(7).stdout_has("conservation");
}

#[test]
fn a_user_whom_only_a_backend_could_have_named_so_is_counted() {
    let redis = TestRedis::start();
    redis.cmd(("SET", "seckill:stock:1001", 10));
    for (user, units) in [(&b"a\0b"[..], 2), (b"\xff", 1), (b"1 2", 3)] {
        redis.cmd(("HSET", "seckill:participants:1001", user, units));
    }
    redis.seckill(["reconcile", "1001", "--total", "16"]).code(0);
}

#[test]
fn without_a_ledger_stock_and_participants_are_compared() {
    let redis = TestRedis::start();
    let fixture = "activities: [{id: 1001, stock: 10, ledger: false}]";
    redis.seckill(["preheat", "-"]).stdin(fixture).code(0);
    backend::buy_hash(&redis, "1001", "a", 2, 9);
    redis.seckill(["reconcile", "1001"]).code(0);
    redis.cmd(("INCR", "seckill:stock:1001"));
    assert_eq!(differences(&redis, "seckill"), ["conservation null 9 null"]);
}

#[test]
fn a_fixture_gives_activities_totals_and_layout() {
    let redis = TestRedis::start();
    let fixture =
        |stock: u32| format!("layout: sku\nactivities:\n  - {{id: 1, stock: {stock}}}\n  - {{id: 2, stock: 5}}\n");
    redis.seckill(["preheat", "-"]).stdin(fixture(10)).code(0);
    let audits = redis.seckill(["reconcile", "-f", "-", "-o", "json"]).stdin(fixture(10)).code(0).json();
    assert_eq!(audits["activities"].as_array().unwrap().len(), 2);
    redis.seckill(["reconcile", "-f", "-"]).stdin(fixture(11)).code(7).stdout_has("conservation");
    redis.seckill(["reconcile", "2", "-f", "-"]).stdin(fixture(11)).code(0);
    redis.seckill(["reconcile", "3", "-f", "-"]).stdin(fixture(11)).code(2).stderr_has("no activity `3`");
}

#[test]
fn without_an_activity_all_that_were_preheated_are_audited() {
    let redis = sale("seckill");
    redis.seckill(["preheat", "--id", "999", "--stock", "1"]).code(0);
    redis.cmd(("SET", "seckill:stock:777", 1));
    let audit = redis.seckill(["reconcile", "-o", "json"]).code(0).json();
    let audited: Vec<&Value> = audit["activities"].as_array().unwrap().iter().map(|row| &row["activity"]).collect();
    assert_eq!(audited, ["999", "1001"]);
}

#[test]
fn a_missing_activity_is_exit_3_and_a_difference_elsewhere_exit_7() {
    let redis = sale("seckill");
    redis.seckill(["reconcile", "nope"]).code(3).stdout_has("not_preheated");
    redis.cmd(("INCR", "seckill:stock:1001"));
    redis.seckill(["reconcile", "1001", "nope"]).code(7).stdout_has("not_preheated");
}

#[test]
fn a_total_belongs_to_one_activity() {
    let redis = TestRedis::start();
    redis.seckill(["reconcile", "--total", "5"]).code(2).stderr_has("`--total` is of one activity");
    redis.seckill(["reconcile", "1", "2", "--total", "5"]).code(2);
    redis.seckill(["reconcile", "1", "--total", "-5"]).code(2);
}
