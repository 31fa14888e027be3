//! Users are bytes from the scan to the repair.

use std::fs;

use serde_json::{Value, json};
use tempfile::TempDir;

use super::sale;
use crate::support::TestRedis;

const STOCK: &str = "seckill:stock:1001";
const PARTICIPANTS: &str = "seckill:participants:1001";
/// `你` as a backend writes it that speaks GBK.
const GBK: &[u8] = b"\xc4\xe3";

#[track_caller]
fn assert_match(redis: &TestRedis) {
    let audit = redis.seckill(["reconcile", "1001", "-o", "json"]).code(0).json();
    assert_eq!(audit["activities"][0]["proof"], "ledger", "{audit}");
}

#[test]
fn a_buyer_whose_id_is_not_utf_8_is_kept_through_audit_repair_and_trim() {
    let redis = sale();
    redis.cmd(("HSET", PARTICIPANTS, GBK, 2));
    redis.cmd(("DECRBY", STOCK, 2));
    // The stock moved with it: it is noted in the ledger, and nothing returns.
    let fixed = redis.seckill(["reconcile", "1001", "--fix", "--yes", "-o", "json"]).code(0).json();
    let row = &fixed["differences"][0];
    let found = ["class", "user", "redis", "ledger"].map(|field| row[field].clone());
    assert_eq!(found, [json!("counter_drift"), json!(null), json!(2), json!(0)]);
    let row = &fixed["repairs"][0];
    let repair = ["user", "from", "to", "stock_change", "status"].map(|field| row[field].clone());
    assert_eq!(repair, [json!(null), json!(2), json!(2), json!(0), json!("ok")]);
    assert_eq!((redis.int(STOCK), redis.ask::<i64>(("HGET", PARTICIPANTS, GBK))), (45, 2));
    assert_match(&redis);
    redis.seckill(["ledger", "trim", "1001", "--before", "2100-01-01T00:00:00Z", "--yes"]).code(0);
    assert_match(&redis);
}

#[test]
fn a_plan_names_a_user_that_is_not_utf_8_in_hex_and_repair_reads_it() {
    let redis = sale();
    redis.cmd(("HSET", PARTICIPANTS, GBK, 2));
    let dir = TempDir::new().unwrap();
    let plan = dir.path().join("plan.jsonl");
    redis.seckill(["reconcile", "--plan"]).args([&plan]).code(7);
    let row: Value = serde_json::from_str(&fs::read_to_string(&plan).unwrap()).unwrap();
    assert_eq!((&row["user"], &row["user_hex"]), (&json!(null), &json!("c4e3")));
    redis.seckill(["repair", "--yes"]).args([&plan]).code(0).stdout_has("hex:c4e3");
    assert!(!redis.ask::<bool>(("HEXISTS", PARTICIPANTS, GBK)));
    assert_eq!(redis.int(STOCK), 47);
    assert_match(&redis);
    let odd = fs::read_to_string(&plan).unwrap().replace("c4e3", "c4e");
    redis.seckill(["repair", "-", "--yes"]).stdin(odd).code(2).stderr_has("user_hex: `c4e` is not hexadecimal");
}
