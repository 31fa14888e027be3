//! `ledger --map`: fields by the names that consumers know. `sessions/ledger.txt` has each format.

use crate::support::TestRedis;

#[test]
fn consumers_get_the_same_names() {
    let redis = TestRedis::selling("1", 5);
    redis.seckill(["deduct", "1", "--user", "0123", "--quantity", "2", "--request", "r"]).code(0);
    let folder = tempfile::tempdir().unwrap();
    let got = folder.path().join("got");
    let command = format!("cat > {}", got.display());
    let call = ["ledger", "1", "--group", "a", "-o", "csv", "--map", "user=userId", "--exec", &command];
    redis.seckill(call).code(0);
    let rows = std::fs::read_to_string(&got).unwrap();
    assert!(rows.starts_with("activity,id,n,time,op,userId,quantity,"), "{rows}");
    let printed = redis.seckill(["ledger", "1", "--group", "b", "-o", "jsonl", "--map", "user=userId"]).code(0).jsonl();
    assert_eq!(printed[1]["userId"], "0123");
    let following = redis.seckill(["ledger", "1", "--follow", "-o", "jsonl", "--map", "user=userId"]).spawn();
    following.wait_for_stdout(r#""userId":"0123""#);
    following.interrupt();
}
