//! Order records against Redis: when they count.

use std::fs;

use tempfile::TempDir;

use super::sale;
use crate::support::{TestRedis, rfc3339};

/// What differs from records given on standard input, as `class user redis ledger orders`.
#[track_caller]
fn differences(redis: &TestRedis, csv: &str, code: i32) -> Vec<String> {
    let rows = redis
        .seckill(["reconcile", "1001", "--differences", "--orders", "-", "-o", "jsonl"])
        .stdin(csv)
        .code(code)
        .jsonl();
    let shown = |value: &serde_json::Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    rows.iter()
        .map(|row| ["class", "user", "redis", "ledger", "orders"].map(|field| shown(&row[field])).join(" "))
        .collect()
}

#[test]
fn what_is_newer_than_the_records_is_timing_and_no_drift() {
    let redis = sale();
    let before = rfc3339(redis.next_millisecond() - 1);
    redis.seckill(["deduct", "1001", "--user", "a", "--quantity", "2"]).code(0);
    redis.seckill(["refund", "1001", "--user", "b"]).code(0);
    redis.seckill(["deduct", "1001", "--user", "c"]).code(0);
    let audit = |csv: &str, code: i32| {
        let call =
            redis.seckill(["reconcile", "1001", "--differences", "--orders", "-", "-o", "csv", "--as-of", &before]);
        let rows = call.stdin(csv).code(code).stdout;
        rows.lines().skip(1).map(str::to_owned).collect::<Vec<_>>()
    };
    let timing = ["1001,a,timing,3,3,1,,", "1001,b,timing,1,1,2,,", "1001,c,timing,1,1,0,,"];
    assert_eq!(audit("user,quantity\na,1\nb,2\n", 0), timing);
    // Records may know some of what is newer, but nothing that never was.
    assert_eq!(audit("user,quantity\na,3\nb,1\nc,1\n", 0), [""; 0]);
    assert_eq!(audit("user,quantity\na,3\nb,3\nc,1\n", 7), ["1001,b,quantity_mismatch,1,1,3,,"]);
    // As of now they are all missing.
    assert_eq!(
        differences(&redis, "user,quantity\na,1\nb,2\n", 7),
        ["missing_order c 1 1 0", "quantity_mismatch a 3 3 1", "quantity_mismatch b 1 1 2"]
    );
}

#[test]
fn a_file_counts_as_of_its_modification() {
    let redis = sale();
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("orders.csv");
    fs::write(&file, "user,quantity\na,1\nb,2\n").unwrap();
    // Set by hand: what the file system notes may be some milliseconds old.
    let modified = |at: std::time::SystemTime| {
        fs::File::options().write(true).open(&file).unwrap().set_modified(at).unwrap();
    };
    let (now, hour) = (std::time::SystemTime::now(), std::time::Duration::from_secs(3600));
    let audit = || redis.seckill(["reconcile", "1001", "--differences", "-o", "csv", "--orders"]).args([&file]);
    audit().code(0);
    fs::write(&file, "user,quantity\na,1\n").unwrap();
    modified(now + hour / 120);
    audit().code(7).stdout_has("1001,b,missing_order");
    modified(now + hour);
    audit().code(2).stderr_has("were modified at ").stderr_has("`--as-of TIME`");
    modified(now - hour);
    audit().code(0).stdout_has("1001,b,timing,2,2,0");
    // Standard input that is a file is as old as that; a pipe has no time of its own: then it is the start of the command.
    let piped = || redis.seckill(["reconcile", "1001", "--orders", "-", "-o", "csv", "--differences"]);
    piped().stdin_file(fs::File::open(&file).unwrap()).code(0).stdout_has("timing");
    piped().stdin("user,quantity\na,1\n").code(7).stdout_has("missing_order");
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
