//! Bounds of what the command line takes: numbers are plain digits, a reason has 1,024 bytes and lands in the ledger.

use crate::support::TestRedis;

/// A server with one activity of 10 units; user 7 holds 2.
fn sold() -> TestRedis {
    let redis = TestRedis::start();
    redis.seckill(["preheat", "--id", "1001", "--stock", "10", "--per-user-limit", "3"]).code(0);
    redis.seckill(["deduct", "1001", "--user", "7", "--quantity", "2"]).code(0);
    redis
}

#[test]
fn every_number_is_plain_digits_within_bounds() {
    let redis = sold();
    let before = redis.dump_all();
    let orders = ["--from", "-"];
    let feed = ["--group", "g", "--exec", "true"];
    for bad in ["-5", "+5", "007", "1e3", "0x10", " 5", "1.5", "", "99999999999999999999"] {
        let calls: [(&[&str], &str); 11] = [
            (&["deduct", "1001", "--user", "7"], "--quantity"),
            (&["refund", "1001", "--user", "7"], "--quantity"),
            (&["deduct", "1001", "--user", "7"], "--per-user-limit"),
            (&["preheat", "--id", "9"], "--stock"),
            (&["preheat", "--id", "9", "--stock", "5"], "--per-user-limit"),
            (&["reconcile", "1001"], "--total"),
            (&["reconcile", "1001", "--fix", "--yes"], "--max-repairs"),
            (&["reconcile", "1001", "--orders", "-"], "--expect-rows"),
            (&["inspect", "1001"], "--top"),
            (&["deduct", orders[0], orders[1]], "--rate"),
            (&["ledger", "1001", feed[0], feed[1], feed[2], feed[3]], "--batch"),
        ];
        let multi = redis.seckill(["multi-deduct", "--user", "7"]).args([format!("1001={bad}")]);
        multi.code(2).stdout_is("").stderr_has("is not a whole number from 1 to 1000000000");
        for (args, flag) in calls {
            redis
                .seckill([])
                .args(args)
                .args([flag, bad])
                .code(2)
                .stdout_is("")
                .stderr_has(flag)
                .stderr_has("whole number");
        }
    }
    for (args, bad) in [
        (["deduct", "1001", "--user", "7", "--quantity"], "1000000001"),
        (["deduct", "1001", "--user", "7", "--quantity"], "0"),
        (["inspect", "1001", "--color", "never", "--top"], "100001"),
        (["deduct", "--from", "-", "--fast", "--rate"], "0"),
    ] {
        redis.seckill(args).args([bad]).code(2).stdout_is("");
    }
    redis.assert_unchanged_since(&before);
}

#[test]
fn a_reason_has_1024_bytes_at_most() {
    let redis = sold();
    let before = redis.dump_all();
    let (most, long) = ("é".repeat(512), "é".repeat(513));
    for args in [
        &["deduct", "1001", "--user", "8"][..],
        &["multi-deduct", "--user", "8", "1001=1"],
        &["refund", "1001", "--user", "7"],
        &["preheat", "--id", "9", "--stock", "5"],
        &["pause", "1001"],
        &["resume", "1001"],
        &["reconcile", "1001", "--fix", "--yes"],
        &["repair", "-", "--yes"],
        &["ledger", "trim", "1001", "--before", "1h", "--yes"],
        &["run", "-", "--yes"],
    ] {
        let call = redis.seckill([]).args(args).args(["--reason", &long]).code(2);
        call.stdout_is("").stderr_has("--reason").stderr_has("1,024 bytes");
        redis.seckill([]).args(args).args(["--reason", ""]).code(2).stderr_has("1,024 bytes");
        // It is the same flag everywhere.
        redis.seckill([]).args(args).args(["--help"]).code(0).stdout_has("--reason <TEXT>").stdout_has("--dry-run");
    }
    let file = format!("activity,user,reason\n1001,8,{long}\n");
    redis.seckill(["deduct", "--from", "-"]).stdin(file).code(2).stderr_has("reason").stderr_has("1,024 bytes");
    let fixture = format!("steps:\n  - pause: {{activity: 1001, reason: \"{long}\"}}\n");
    redis.seckill(["run", "-", "--yes"]).stdin(fixture).code(2).stderr_has("reason").stderr_has("1,024 bytes");
    redis.assert_unchanged_since(&before);
    redis.seckill(["deduct", "1001", "--user", "8", "--reason", &most]).code(0);
    assert_eq!(redis.xrange("seckill:ledger:1001").pop().unwrap().1["reason"], most);
}

#[test]
fn the_reason_of_a_trim_is_in_its_checkpoint() {
    let redis = sold();
    redis.seckill(["deduct", "1001", "--user", "8"]).code(0);
    redis.seckill(["ledger", "trim", "1001", "--before", "2200-01-01", "--yes", "--reason", "keep it short"]).code(0);
    let checkpoint = redis.hget("seckill:meta:1001", "checkpoint").unwrap();
    assert!(checkpoint.ends_with(" tester@test: keep it short"), "{checkpoint}");
    redis.seckill(["ledger", "1001"]).code(0).stderr_has("keep it short");
    redis.seckill(["reconcile", "1001"]).code(0);
}
