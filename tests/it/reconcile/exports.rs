//! An export is believed only if it is whole: rows that are counted, a command that ends well, a time that is known.

use std::fs;
use std::time::{Duration, SystemTime};

use tempfile::TempDir;

use super::sale;
use crate::support::{TestRedis, write_now};

const NO_RECORDS: &str = "no order records, so nothing was compared";

#[test]
fn an_empty_export_is_an_error_unless_no_rows_are_expected() {
    let redis = sale("seckill");
    for (name, text) in [("a.csv", "activity,user,quantity\n"), ("b.csv", ""), ("c.jsonl", ""), ("d.tsv", "")] {
        let dir = TempDir::new().unwrap();
        let file = dir.path().join(name);
        write_now(&file, text);
        let audit = || redis.seckill(["reconcile", "--orders"]).args([&file]);
        audit().code(2).stdout_is("").stderr_has(NO_RECORDS).stderr_has("`--expect-rows 0`");
        audit().args(["1001"]).code(2).stdout_is("").stderr_has(NO_RECORDS);
        audit().args(["--expect-rows", "0"]).code(7).stdout_has("missing_order");
        audit().args(["--expect-rows", "1"]).code(2).stdout_is("").stderr_has("has 0 order records, expected 1");
    }
    redis.seckill(["reconcile", "--orders-cmd", "true"]).code(2).stdout_is("").stderr_has(NO_RECORDS);
    redis.seckill(["reconcile", "--orders-cmd", "true", "--expect-rows", "0"]).code(7);
    redis.seckill(["reconcile", "--orders", "-"]).code(2).stdout_is("").stderr_has(NO_RECORDS);
    redis.seckill(["reconcile", "--orders", "-", "--expect-rows", "0"]).stdin("user\n").code(2);
    // Nothing was sold, and nothing is recorded.
    let redis = TestRedis::start();
    redis.seckill(["preheat", "--id", "1001", "--stock", "50"]).code(0);
    redis.seckill(["reconcile", "--orders-cmd", "true", "--expect-rows", "0"]).code(0).stdout_has("match");
}

#[test]
fn standard_input_is_only_one_of_the_inputs() {
    let redis = sale("seckill");
    let both = redis.seckill(["reconcile", "-f", "-", "--orders", "-"]).stdin("activities: [{id: 1001, stock: 50}]");
    both.code(2).stdout_is("").stderr_has("standard input cannot be both");
}

#[test]
fn rows_are_counted_whatever_activity_they_are_of() {
    let redis = sale("seckill");
    let csv = "activity,user,quantity\n1001,a,1\n1001,b,2\nother,x,1\n";
    let audit =
        |rows: &'static str| redis.seckill(["reconcile", "1001", "--orders", "-", "--expect-rows", rows]).stdin(csv);
    audit("3").code(0);
    for wrong in ["0", "2", "4"] {
        audit(wrong).code(2).stdout_is("").stderr_has(&format!("has 3 order records, expected {wrong}"));
    }
}

#[test]
fn standard_input_that_is_a_file_counts_as_of_its_modification() {
    let redis = sale("seckill");
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("orders.csv");
    fs::write(&file, "user,quantity\na,1\n").unwrap();
    let old = SystemTime::now() - Duration::from_secs(3600);
    fs::File::options().write(true).open(&file).unwrap().set_modified(old).unwrap();
    let audit = redis
        .seckill(["reconcile", "1001", "--orders", "-", "-o", "csv", "--differences"])
        .stdin_file(fs::File::open(&file).unwrap());
    audit.code(0).stdout_has("timing");
    // A pipe has no time of its own: then it is the start of the command.
    let audit = redis
        .seckill(["reconcile", "1001", "--orders", "-", "-o", "csv", "--differences"])
        .stdin("user,quantity\na,1\n");
    audit.code(7).stdout_has("missing_order");
}

#[test]
fn too_many_activities_in_the_records_are_another_column() {
    let redis = sale("seckill");
    let mut csv = "activity,user\n".to_owned();
    for order in 0..100_001 {
        csv += &format!("{order},a\n");
    }
    redis
        .seckill(["reconcile", "--orders", "-"])
        .stdin(csv)
        .code(2)
        .stdout_is("")
        .stderr_has("<stdin>:100002: the rows name more than 100000 activities")
        .stderr_has("another column");
}

#[test]
fn near_miss_columns_and_null_quantities_are_refused() {
    let redis = TestRedis::start();
    redis.seckill(["preheat", "--id", "1001", "--stock", "5000"]).code(0);
    redis.seckill(["deduct", "1001", "--user", "a", "--quantity", "701"]).code(0);
    let audit = |text: &'static str| redis.seckill(["reconcile", "--orders", "-"]).stdin(text);
    audit("ACTIVITY,User,Quantity\n1001,a,701\n").code(0);
    audit("activity,user,Quantity\n1001,a,1\n").code(7).stdout_has("quantity_mismatch");
    for alias in ["qty", "num", "QTY"] {
        let csv = format!("activity,user,{alias}\n1001,a,701\n");
        let refused = redis.seckill(["reconcile", "--orders", "-"]).stdin(csv).code(2).stdout_is("");
        refused.stderr_has(&format!("`--map quantity={alias}`"));
    }
    audit("activity,user,quantity,note\n1001,a,701,x\n").code(0).stderr_has("`note`");
    for text in [
        "activity,user,quantity\n1001,a,NULL\n",
        "activity,user,quantity\n1001,a,null\n",
        "activity,user,quantity\n1001,a,\n",
        "{\"activity\":\"1001\",\"user\":\"a\",\"quantity\":null}\n",
    ] {
        audit(text).code(2).stdout_is("").stderr_has("quantity: `");
    }
    let mysql = redis.seckill(["reconcile", "--orders", "-", "--format", "mysql"]);
    mysql.stdin("activity\tuser\tquantity\n1001\ta\tNULL\n").code(2).stderr_has("<stdin>:2:8: quantity: `NULL`");
    let semicolons = redis.seckill(["reconcile", "--orders", "-", "--delimiter", ";"]);
    semicolons.stdin("activity;user;quantity\n1001;a;701\n").code(0);
}

#[test]
fn sums_of_rows_saturate() {
    let redis = sale("seckill");
    let rows = |user: &str, quantity: &str| format!("{user},{quantity}\n").repeat(1100);
    let csv = format!("user,quantity\n{}{}", rows("a", "9007199254740991"), rows("b", "-9007199254740991"));
    // As of now and as of before the sale: what is newer is added.
    for as_of in ["2100-01-01T00:00:00Z", "2020-01-01T00:00:00Z"] {
        let audit = redis.seckill(["reconcile", "1001", "--orders", "-", "-o", "json", "--as-of", as_of]);
        let found = audit.stdin(&csv).code(7).json();
        let orders: Vec<i64> =
            found["differences"].as_array().unwrap().iter().filter_map(|row| row["orders"].as_i64()).collect();
        assert!(orders.contains(&9_007_199_254_740_991) && orders.contains(&-9_007_199_254_740_991), "{orders:?}");
    }
}
