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
    let call = redis.seckill(["reconcile", "1001", "--as-of", "0s", "--orders"]);
    call.args([&orders]).args(["--plan".into(), plan.clone()]).code(7);
    let rows = fs::read_to_string(&plan).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    (dir, plan, rows)
}

#[test]
fn a_plan_file_that_lacks_what_lowers_the_stock_is_refused() {
    let redis = sale();
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
fn a_large_plan_of_both_kinds_is_applied_in_parts_and_adds_up() {
    let redis = TestRedis::selling("1001", 5000);
    let mut lines = String::new();
    (0..700).for_each(|user| lines += &format!("1001,x{user},2\n"));
    redis.seckill(["deduct", "--from", "-"]).stdin(format!("activity,user,quantity\n{lines}")).code(0);
    let mut csv = "user,quantity\n".to_owned();
    (0..700).for_each(|user| csv += &format!("y{user},1\n"));
    let (_dir, file, rows) = plan(&redis, &csv);
    let first_raise = rows.iter().position(|row| row["stock_change"].as_i64() > Some(0)).unwrap();
    assert_eq!((rows.len(), first_raise), (1400, 700));
    let before = redis.dump_all();
    let fix = redis.seckill(["reconcile", "1001", "--fix", "--yes", "--as-of", "0s", "--orders-cmd"]);
    let fix = fix.args([format!("printf '{csv}'")]).code(7);
    fix.stderr_has("1400 repairs wanted, more than `--max-repairs 100`");
    redis.assert_unchanged_since(&before);
    redis.seckill(["repair", "--yes"]).args([&file]).code(0);
    assert_eq!((redis.int(STOCK), redis.hgetall(PARTICIPANTS).len()), (4300, 700));
    redis.seckill(["reconcile", "1001"]).code(0);
}
