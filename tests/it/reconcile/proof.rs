//! Users are bytes from the scan to the repair.

use std::fs;

use serde_json::{Value, json};
use tempfile::TempDir;

use super::sale;
use crate::support::TestRedis;

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
