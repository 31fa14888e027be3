//! Order records against Redis: every class of difference, where records come from, and when they count.

use std::fs;

use tempfile::TempDir;

use super::sale;
use crate::support::TestRedis;

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
fn records_that_say_the_same_match() {
    for layout in ["seckill", "sku", "cluster"] {
        let redis = sale(layout);
        let csv = "user,quantity,activity\nb,3,1001\na,1,1001\nb,-1,1001\nx,9,1002\n";
        let call = redis.seckill(["reconcile", "1001", "--orders", "-", "-l", layout]).stdin(csv);
        call.code(0).stderr_has("1 order records are of other activities");
    }
    let redis = sale("coupon");
    redis.seckill(["reconcile", "1001", "--orders", "-", "-l", "coupon"]).stdin("user\na\nb\n").code(0).stderr("");
}

#[test]
fn each_side_that_lacks_something_has_its_class() {
    let redis = sale("seckill");
    assert_eq!(differences(&redis, "user,quantity\na,1\n", 7), ["missing_order b 2 2 0"]);
    assert_eq!(differences(&redis, "user,quantity\na,1\nb,2\nc,4\n", 7), ["missing_purchase c 0 0 4"]);
    assert_eq!(differences(&redis, "user,quantity\na,1\nb,1\n", 7), ["quantity_mismatch b 2 2 1"]);
    assert_eq!(differences(&redis, "user,quantity\na,1\nb,2\nc,-1\n", 7), ["quantity_mismatch c 0 0 -1"]);
    assert_eq!(
        differences(&redis, "user,quantity\nc,1\n", 7),
        ["missing_order a 1 1 0", "missing_order b 2 2 0", "missing_purchase c 0 0 1"]
    );
}

#[test]
fn a_bare_counter_is_compared_as_a_whole() {
    let redis = sale("product");
    let audit = |csv: &'static str| {
        redis.seckill(["reconcile", "1001", "-l", "product", "--differences", "--orders", "-", "-o", "csv"]).stdin(csv)
    };
    audit("quantity\n1\n2\n").code(0);
    audit("activity,user,quantity\n1001,a,3\n").code(0);
    audit("quantity\n2\n").code(7).stdout_has("1001,,quantity_mismatch,3,,2,,\n");
    audit("quantity\n0\n").code(7).stdout_has("1001,,missing_order,3,,0,,\n");
}

#[test]
fn without_a_ledger_records_are_compared_with_the_counters() {
    let redis = TestRedis::start();
    redis.cmd(("SET", "seckill:stock:1001", 7));
    redis.cmd(("HSET", "seckill:participants:1001", "a", 1, "b", 2));
    assert_eq!(differences(&redis, "user,quantity\na,1\nb,2\n", 0), [""; 0]);
    assert_eq!(
        differences(&redis, "user,quantity\na,1\nc,2\n", 7),
        ["missing_order b 2 null 0", "missing_purchase c 0 null 2"]
    );
}

#[test]
fn what_is_newer_than_the_records_is_timing_and_no_drift() {
    let redis = sale("seckill");
    let before = time_of_last_entry(&redis);
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

/// The instant of the ledger's last entry, once the server's clock has passed it.
fn time_of_last_entry(redis: &TestRedis) -> String {
    let last = redis.xrange("seckill:ledger:1001").last().unwrap().0.clone();
    let millis: i64 = last.split('-').next().unwrap().parse().unwrap();
    loop {
        let now: (i64, i64) = redis.ask("TIME");
        if now.0 * 1000 + now.1 / 1000 > millis {
            return jiff::Timestamp::from_millisecond(millis).unwrap().to_string();
        }
    }
}

#[test]
fn a_file_counts_as_of_its_modification() {
    let redis = sale("seckill");
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
    modified(now + hour);
    audit().code(7).stdout_has("1001,b,missing_order");
    modified(now - hour);
    audit().code(0).stdout_has("1001,b,timing,2,2,0");
}

#[test]
fn records_of_ledger_entries_that_are_gone_are_a_lost_tail() {
    let redis = sale("seckill");
    let last = redis.xrange("seckill:ledger:1001").last().unwrap().0.clone();
    let known = format!("user,quantity,ledger\na,1,\nb,2,{last}\n");
    assert_eq!(differences(&redis, &known, 0), [""; 0]);
    let lost = format!("{known}c,1,9999999999999-0\n");
    assert_eq!(
        differences(&redis, &lost, 7),
        ["missing_purchase c 0 0 1", &format!("lost_tail null null {last} 9999999999999-0")]
    );
    redis
        .seckill(["reconcile", "1001", "--orders", "-", "--map", "ledger=entry"])
        .stdin("user,quantity,entry\na,1,17\n")
        .code(2)
        .stderr_has("<stdin>:2:5: entry: `17` is not the id of a ledger entry");
}

#[test]
fn columns_may_have_other_names_and_rows_other_forms() {
    let redis = sale("seckill");
    let maps = ["reconcile", "--orders", "-", "--map", "user=buyer_id,quantity=n", "--map", "activity=sku"];
    redis.seckill(maps).stdin("sku\tbuyer_id\tn\n1001\ta\t1\n1001\tb\t2\n").code(0);
    let json = "{\"activity\":1001,\"user\":\"a\"}\n{\"activity\":\"1001\",\"user\":\"b\",\"quantity\":2}\n";
    redis.seckill(["reconcile", "--orders", "-"]).stdin(json).code(0);
    redis
        .seckill(["reconcile", "--orders", "-", "--map", "user=buyer"])
        .stdin("activity,user\n")
        .code(2)
        .stderr_has("no column `buyer`");
    redis.seckill(["reconcile", "--map", "user=buyer"]).code(2);
}

#[test]
fn what_mysql_prints_is_read_as_mysql_means_it() {
    let redis = TestRedis::start();
    redis.seckill(["preheat", "--id", "1001", "--stock", "50"]).code(0);
    redis.seckill(["deduct", "1001", "--user", "back\\slash"]).code(0);
    let batch = "user\tquantity\tledger\nback\\\\slash\t1\tNULL\n";
    let audit = |text: &str| redis.seckill(["reconcile", "1001", "--orders", "-", "--format", "mysql"]).stdin(text);
    audit(batch).code(0);
    audit("user\tquantity\nback\\\\slash\t1\nNULL\t1\n").code(2).stderr_has("<stdin>:3:1: `user` is missing");
}

#[test]
fn a_command_counts_only_where_it_ends_well() {
    let redis = sale("seckill");
    let audit = |command: &'static str| redis.seckill(["reconcile", "1001", "--orders-cmd", command]);
    audit("printf 'user,quantity\\na,1\\nb,2\\n'").code(0).stderr("");
    audit("printf 'user,quantity\\na,1\\nb,2\\n'; exit 3").code(1).stdout_is("").stderr_has("failed (exit status: 3)");
    audit("echo broken >&2; false").code(1).stdout_is("").stderr_has("broken");
    audit("printf 'user,quantity\\na,x\\n'; yes").code(2).stdout_is("").stderr_has("<orders-cmd>:2:3: quantity: `x`");
    audit("printf 'user,quantity\\na,1\\n'; kill -9 $$").code(1).stdout_is("");
}

#[test]
fn a_file_that_cannot_be_trusted_is_no_drift() {
    let redis = sale("seckill");
    let audit = |text: &str| redis.seckill(["reconcile", "1001", "--orders", "-"]).stdin(text).code(2).stdout_is("");
    audit("user,quantity\na,1\nb\n").stderr_has("<stdin>:3:1: 1 value, but the header has 2");
    audit("user,quantity\na,1\n\"b,2\n").stderr_has("a quote is not closed");
    audit("user,quantity\na,\n,2\n").stderr_has("2 problems in `<stdin>`");
    audit("buyer,quantity\na,1\n").stderr_has("no column `user`");
    let counted = |rows: &'static str| {
        redis.seckill(["reconcile", "1001", "--orders", "-", "--expect-rows", rows]).stdin("user,quantity\na,1\nb,2\n")
    };
    counted("2").code(0);
    counted("3").code(2).stdout_is("").stderr_has("has 2 order records, expected 3");
    redis.seckill(["reconcile", "1001", "--orders", "/no/such/file"]).code(2);
    redis.seckill(["reconcile", "1001", "--orders", "-", "--orders-cmd", "true"]).code(2);
}
