//! `ledger --group`: each row at least once, acknowledged by the command that loads it, and through a reset.

use std::fs;
use std::path::Path;

use tempfile::TempDir;

use super::{ALL, rows, sale};
use crate::support::{SECKILL, TestRedis};

/// Entries that the group took and did not acknowledge.
fn pending(redis: &TestRedis) -> i64 {
    let (count, ..): (i64, Option<String>, Option<String>, redis::Value) =
        redis.ask(("XPENDING", SECKILL.ledger("1001"), "db"));
    count
}

fn lines(file: &Path) -> usize {
    fs::read_to_string(file).unwrap_or_default().lines().count()
}

#[test]
fn exec_acknowledges_what_its_command_loaded() {
    let redis = sale();
    let dir = TempDir::new().unwrap();
    let loaded = dir.path().join("loaded");
    let feed = |command: &str| {
        let call = redis.seckill(["ledger", "1001", "--group", "db", "-o", "jsonl", "--batch", "4", "--exec"]);
        call.args([command])
    };
    // A loader that fails after it read everything: nothing counts as loaded.
    let failed = feed("cat >/dev/null; exit 9").code(1).stdout_is("");
    failed.stderr_has("ended with 9: nothing is acknowledged of 4 rows").stderr_has("delivers them again");
    assert!(pending(&redis) > 0);
    feed("kill -9 $$").code(1).stderr_has("by a signal");
    // One that fails in its second batch: the first is acknowledged.
    let first = format!("test ! -e {0} && cat > {0}", loaded.display());
    feed(&first).code(1);
    assert_eq!(lines(&loaded), 4);
    assert_eq!(pending(&redis), 2);
    fs::remove_file(&loaded).unwrap();
    feed(&first).code(0).stdout_is("").stderr("");
    assert_eq!(lines(&loaded), 2, "the last two rows, in one batch");
    assert!(fs::read_to_string(&loaded).unwrap().contains("pause"));
    assert_eq!(pending(&redis), 0);
    feed("exit 1").code(0).stderr("");
    // Its output is shown, and its format is that of `-o`.
    redis.seckill(["refund", "1001", "--user", "b"]).code(0);
    let shown = redis.seckill(["ledger", "1001", "--group", "db", "-o", "csv", "--exec", "cat"]).code(0);
    shown.stdout_has("activity,id,n,time,op,user,quantity,stock,request,by,reason\n1001,").stdout_has(",refund,b,1,");
    redis.seckill(["ledger", "1001", "--exec", "cat"]).code(2).stderr_has("--group");
    redis.seckill(["ledger", "1001", "--group", "db", "--exec", "cat", "--batch", "0"]).code(2);
}

#[test]
fn a_batch_splits_an_entry_and_its_entry_is_acknowledged_last() {
    let redis = TestRedis::selling("1001", 500);
    let dir = TempDir::new().unwrap();
    let orders = dir.path().join("orders.csv");
    let users: String = (0..100).map(|user| format!("1001,u{user}\n")).collect();
    fs::write(&orders, format!("activity,user\n{users}")).unwrap();
    redis.seckill(["deduct", "--from"]).args([&orders]).code(0);
    let counts = dir.path().join("counts");
    // 1 row of the preheat and 100 of one entry, 30 at a time; the third time fails.
    let command = format!("wc -l >> {0}; test $(wc -l < {0}) -ne 3", counts.display());
    let feed =
        || redis.seckill(["ledger", "1001", "--group", "db", "-o", "jsonl", "--batch", "30", "--exec", &command]);
    feed().code(1);
    assert_eq!(pending(&redis), 1);
    feed().code(0);
    let counts: Vec<String> = fs::read_to_string(&counts).unwrap().split_whitespace().map(str::to_owned).collect();
    assert_eq!(counts, ["30", "30", "30", "30", "30", "30", "10"]);
    assert_eq!(pending(&redis), 0);
}

#[test]
fn a_feed_finds_the_shards_that_a_reset_makes() {
    let redis = TestRedis::start();
    let preheat = |shards: &str, reason: &str| {
        let line = format!("preheat --id a --stock 12{shards} --reset --yes --reason {reason}");
        redis.seckill(["-l", "cluster"]).args(line.split(' ')).code(0);
    };
    preheat("", "first");
    for which in [&["a"][..], &["--all"], &["--all", "--group", "db"]] {
        let feed = redis.seckill(["-l", "cluster", "ledger", "--follow", "-o", "jsonl"]).args(which).spawn();
        feed.wait_for_stdout("preheat");
        for (shards, reason) in [(" --shards 4", "four"), (" --shards 3", "three"), ("", "none")] {
            preheat(shards, reason);
            feed.wait_for_stdout(reason);
        }
        feed.interrupt();
    }
}

#[test]
fn a_feed_survives_a_reset() {
    let redis = sale();
    let feed = redis.seckill(["ledger", "1001", "--follow", "--group", "db", "-o", "jsonl"]).spawn();
    feed.wait_for_stdout("pause");
    redis.seckill(["preheat", "--id", "1001", "--stock", "7", "--reset", "--yes", "--reason", "second sale"]).code(0);
    feed.wait_for_stdout("second sale");
    redis.seckill(["deduct", "1001", "--user", "late"]).code(0);
    feed.wait_for_stdout("late");
    let ended = feed.interrupt().stderr_lacks("NOGROUP");
    assert_eq!(ended.jsonl().len(), 8);
    assert_eq!(rows(redis.seckill(["ledger", "1001", "--group", "db"])), [""; 0]);
    // Also if the group alone is removed, which then starts over.
    redis.cmd(("XGROUP", "DESTROY", SECKILL.ledger("1001"), "db"));
    assert_eq!(rows(redis.seckill(["ledger", "1001", "--group", "db"])).len(), 2);
    assert_eq!(ALL.len(), 6);
}
