//! A plan never passes through a state in which more is for sale than is left, however it is applied.

use std::fs;
use std::path::PathBuf;

use serde_json::Value;
use tempfile::TempDir;

use super::sale;
use crate::support::TestRedis;

const STOCK: &str = "seckill:stock:1001";
const PARTICIPANTS: &str = "seckill:participants:1001";

/// A plan by order records, in a file, and its rows.
#[track_caller]
fn plan(redis: &TestRedis, csv: &str) -> (TempDir, PathBuf, Vec<Value>) {
    let dir = TempDir::new().unwrap();
    let (orders, plan) = (dir.path().join("orders.csv"), dir.path().join("plan.jsonl"));
    fs::write(&orders, csv).unwrap();
    let call = redis.seckill(["reconcile", "1001", "--as-of", "2100-01-01T00:00:00Z", "--orders"]);
    call.args([&orders]).args(["--plan".into(), plan.clone()]).code(7);
    let rows = fs::read_to_string(&plan).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    (dir, plan, rows)
}

/// Applies rows of a plan in their order, and shows what became of each.
#[track_caller]
fn apply(redis: &TestRedis, rows: &[&Value], code: i32) -> Vec<String> {
    let text: String = rows.iter().map(|row| format!("{row}\n")).collect();
    let applied = redis.seckill(["repair", "-", "--yes", "-o", "json"]).stdin(text).code(code).json();
    let row = |row: &Value| {
        format!("{} {} {}", row["user"].as_str().unwrap_or("-"), row["stock_change"], row["status"].as_str().unwrap())
    };
    applied.as_array().unwrap().iter().map(row).collect()
}

#[test]
fn a_plan_file_that_lacks_what_lowers_the_stock_is_refused() {
    let redis = sale("seckill");
    let (_dir, _, rows) = plan(&redis, "user,quantity\na,1\nc,3\n");
    let before = redis.dump_all();
    let raise = rows.iter().find(|row| row["stock_change"] == 2).unwrap();
    redis
        .seckill(["repair", "-", "--yes"])
        .stdin(raise.to_string())
        .code(2)
        .stderr_has("is not a whole plan")
        .stderr_has("write the plan again");
    redis.assert_unchanged_since(&before);
}

#[test]
fn units_that_were_withheld_go_to_purchases_that_redis_lost() {
    // Sold out, 600 units withheld, and 600 purchases that Redis lost: more than one call repairs.
    let redis = TestRedis::start();
    redis.seckill(["preheat", "--id", "1001", "--stock", "600"]).code(0);
    redis.cmd(("SET", STOCK, 0));
    let mut csv = "user,quantity\n".to_owned();
    (0..600).for_each(|user| csv += &format!("u{user},1\n"));
    let (_dir, file, rows) = plan(&redis, &csv);
    assert!(rows.len() == 600 && rows.iter().all(|row| row["stock_change"] == 0));
    // However far it came, nothing was ever for sale.
    assert!(apply(&redis, &rows[..300].iter().collect::<Vec<_>>(), 0).iter().all(|row| row.ends_with("0 ok")));
    assert_eq!(redis.int(STOCK), 0);
    redis.seckill(["repair", "--yes"]).args([&file]).code(3).stdout_has("replayed").stdout_has("stale");
    let (_dir, file, _) = plan(&redis, &csv);
    redis.seckill(["repair", "--yes"]).args([&file]).code(0);
    assert_eq!((redis.int(STOCK), redis.hgetall(PARTICIPANTS).len()), (0, 600));
    redis.seckill(["reconcile", "1001"]).code(0);
}

#[test]
fn a_large_plan_of_both_kinds_is_applied_in_parts_and_adds_up() {
    let redis = TestRedis::start();
    redis.seckill(["preheat", "--id", "1001", "--stock", "5000"]).code(0);
    let mut lines = String::new();
    (0..700).for_each(|user| lines += &format!("1001,x{user},2\n"));
    redis.seckill(["deduct", "--from", "-"]).stdin(format!("activity,user,quantity\n{lines}")).code(0);
    let mut csv = "user,quantity\n".to_owned();
    (0..700).for_each(|user| csv += &format!("y{user},1\n"));
    let (_dir, file, rows) = plan(&redis, &csv);
    let first_raise = rows.iter().position(|row| row["stock_change"].as_i64() > Some(0)).unwrap();
    assert_eq!((rows.len(), first_raise), (1400, 700));
    redis.seckill(["repair", "--yes"]).args([&file]).code(0);
    assert_eq!((redis.int(STOCK), redis.hgetall(PARTICIPANTS).len()), (4300, 700));
    redis.seckill(["reconcile", "1001"]).code(0);
}
