//! Acknowledged orders that a server lost: found from the order records, repaired, and the numbers add up again.

use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::support::{TestRedis, wait_until};

/// Sells one unit each to users of these numbers.
fn sell(redis: &TestRedis, users: std::ops::Range<u32>) {
    for user in users {
        redis.seckill(["deduct", "1001", "--user", &format!("u{user}")]).code(0);
    }
}

/// What a database holds that was fed from the ledger.
fn records(redis: &TestRedis) -> (TempDir, PathBuf) {
    let mut csv = "user,quantity,ledger\n".to_owned();
    for row in redis.seckill(["ledger", "1001", "-o", "jsonl"]).code(0).jsonl() {
        if row["op"] == "deduct" {
            csv += &format!("{},{},{}\n", row["user"].as_str().unwrap(), row["quantity"], row["id"].as_str().unwrap());
        }
    }
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("orders.csv");
    fs::write(&file, csv).unwrap();
    (dir, file)
}

/// Finds what these users bought and the server forgot, repairs it, and holds that all adds up to 50 units.
fn recover(redis: &TestRedis, file: &Path, lost: std::ops::Range<u32>) {
    let audit = |more: &[&str]| {
        let call = redis.seckill(["reconcile", "1001", "-o", "json", "--as-of", "2100-01-01T00:00:00Z", "--orders"]);
        call.args([file]).args(more)
    };
    let found = audit(&[]).code(7).json();
    let classes: Vec<&str> =
        found["differences"].as_array().unwrap().iter().map(|row| row["class"].as_str().unwrap()).collect();
    let mut expected = vec!["missing_purchase"; lost.len()];
    expected.push("lost_tail");
    assert_eq!(classes, expected);
    audit(&["--fix", "--yes", "--reason", "failover"]).code(0);
    let after = audit(&[]).code(0).json();
    let activity = &after["activities"][0];
    assert_eq!(activity["stock"].as_i64().unwrap() + activity["bought"].as_i64().unwrap(), 50);
    for user in lost {
        assert_eq!(redis.hget("seckill:participants:1001", &format!("u{user}")).as_deref(), Some("1"));
    }
    redis.seckill(["reconcile", "1001"]).code(0);
}

#[test]
fn a_failover_to_a_replica_that_lagged_is_found_and_repaired() {
    let mut primary = TestRedis::with_tcp([]);
    let port = primary.port().unwrap().to_string();
    let replica = TestRedis::with(["--replicaof", "127.0.0.1", &port, "--repl-diskless-sync-delay", "0"]);
    primary.seckill(["preheat", "--id", "1001", "--stock", "50", "--per-user-limit", "2"]).code(0);
    sell(&primary, 0..5);
    let synced = |redis: &TestRedis| redis.hget("seckill:participants:1001", "u4").is_some();
    wait_until("the replica has caught up", || synced(&replica));
    // The replica loses its link, the primary still sells, and then dies.
    replica.cmd(("REPLICAOF", "127.0.0.1", "1"));
    sell(&primary, 5..9);
    let (_dir, file) = records(&primary);
    primary.kill9();
    replica.cmd(("REPLICAOF", "NO", "ONE"));
    recover(&replica, &file, 5..9);
}
