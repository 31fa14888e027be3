//! An export is believed only if it is whole: rows that are counted, a command that ends well, a time that is known.

use tempfile::TempDir;

use super::sale;
use crate::support::{TestRedis, write_now};

const NO_RECORDS: &str = "no order records, so nothing was compared";

#[test]
fn an_empty_export_is_an_error_unless_no_rows_are_expected() {
    let redis = sale();
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
    let redis = TestRedis::selling("1001", 50);
    redis.seckill(["reconcile", "--orders-cmd", "true", "--expect-rows", "0"]).code(0).stdout_has("match");
}

#[test]
fn standard_input_is_only_one_of_the_inputs() {
    let redis = sale();
    let both = redis.seckill(["reconcile", "-f", "-", "--orders", "-"]).stdin("activities: [{id: 1001, stock: 50}]");
    both.code(2).stdout_is("").stderr_has("standard input cannot be both");
}

#[test]
fn rows_are_counted_whatever_activity_they_are_of() {
    let redis = sale();
    let csv = "activity,user,quantity\n1001,a,1\n1001,b,2\nother,x,1\n";
    let audit =
        |rows: &'static str| redis.seckill(["reconcile", "1001", "--orders", "-", "--expect-rows", rows]).stdin(csv);
    audit("3").code(0);
    for wrong in ["0", "2", "4"] {
        audit(wrong).code(2).stdout_is("").stderr_has(&format!("has 3 order records, expected {wrong}"));
    }
}

#[test]
fn too_many_activities_in_the_records_are_another_column() {
    let redis = sale();
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
