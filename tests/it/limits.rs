//! A reason has 1,024 bytes and lands in the ledger. `sessions/formats.txt` has the bounds of numbers.

use crate::support::TestRedis;

#[test]
fn a_reason_has_1024_bytes_at_most() {
    let redis = TestRedis::selling("1001", 10);
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
