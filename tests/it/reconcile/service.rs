//! `reconcile --every`: a service that repairs what stays different.

use std::fs;

use serde_json::{Value, json};

use super::sale;
use crate::support::wait_until;

const STOCK: &str = "seckill:stock:1001";

/// What a round says of an activity.
fn round(row: &Value) -> (Value, u64, u64, u64) {
    let number = |field: &str| row[field].as_u64().unwrap();
    assert!(row["time"].as_str().unwrap().starts_with("20") && row["activity"] == "1001", "{row}");
    (row["verdict"].clone(), number("differences"), number("waiting"), number("repaired"))
}

#[test]
fn what_the_database_never_saw_is_repaired_once_it_is_old_and_said_when_it_changes() {
    let redis = sale();
    // Of `b`, who holds two, no order was written.
    let service = "--every 20ms --grace 100ms --fix --yes -o jsonl --orders-cmd";
    let running =
        redis.seckill(["reconcile", "1001"]).args(service.split(' ')).args(["echo user,quantity; echo a,1"]).spawn();
    running.wait_until_stdout("a match", |out| out.contains(r#""verdict":"match""#));
    let rows = running.interrupt().jsonl();
    let rounds: Vec<_> = rows.iter().map(round).collect();
    let drift = json!("drift");
    assert_eq!(rounds, [(drift.clone(), 1, 1, 0), (drift, 1, 0, 1), (json!("match"), 0, 0, 0)]);
    assert_eq!(redis.int(STOCK), 49);
}

#[test]
fn what_is_younger_than_the_grace_or_found_once_waits() {
    let redis = sale();
    let dir = tempfile::TempDir::new().unwrap();
    let (late, command) = (dir.path().join("late"), dir.path().join("export"));
    let export = format!("echo user,quantity; echo a,1; test -e {0} && echo b,2; true", late.display());
    fs::write(&command, export).unwrap();
    for grace in ["1h", "0s"] {
        // The database is late: with no grace at all, what one audit alone found is left alone.
        let every = if grace == "0s" { "1h" } else { "20ms" };
        let args =
            ["reconcile", "1001", "--every", every, "--grace", grace, "--fix", "--yes", "-o", "jsonl", "--orders-cmd"];
        let running = redis.seckill(args).args([format!("sh {}", command.display())]).spawn();
        running.wait_until_stdout("a drift", |out| out.contains(r#""waiting":1"#));
        if grace == "1h" {
            fs::write(&late, "").unwrap();
            running.wait_until_stdout("a match", |out| out.contains(r#""verdict":"match""#));
            fs::remove_file(&late).unwrap();
        }
        running.interrupt().stdout_lacks(r#""repaired":1"#);
        assert_eq!(redis.int(STOCK), 47, "{grace}");
    }
}

#[test]
fn without_fix_nothing_is_changed_and_metrics_are_written_anew() {
    let redis = sale();
    let dir = tempfile::TempDir::new().unwrap();
    let file = dir.path().join("audit.prom");
    redis.cmd(("DECRBY", STOCK, 4));
    let args =
        ["reconcile", "1001", "--every", "20ms", "--grace", "0s", "-o", "prometheus", "--to", file.to_str().unwrap()];
    let running = redis.seckill(args).args(["z*"]).spawn();
    let says = |line: &str| wait_until(line, || fs::read_to_string(&file).is_ok_and(|text| text.contains(line)));
    says(r#"verdict="drift"} 1"#);
    assert_eq!(redis.int(STOCK), 43, "it only audits");
    redis.cmd(("INCRBY", STOCK, 4));
    says(r#"verdict="match"} 1"#);
    running.interrupt().stdout_is("").stderr_lacks("repair").stderr_has("in the layout `seckill`; trying again");
    // There are no rows, so a repair is said.
    redis.cmd(("DECRBY", STOCK, 4));
    let running = redis.seckill(args).args(["--fix", "--yes"]).spawn();
    wait_until("it is repaired", || redis.int(STOCK) == 47);
    says(r#"verdict="match"} 1"#);
    running.interrupt().stdout_is("").stderr_has("`1001`: 1 repair applied");
}

#[test]
fn an_export_that_fails_is_said_once_and_tried_again() {
    let redis = sale();
    let dir = tempfile::TempDir::new().unwrap();
    let broken = dir.path().join("broken");
    let export = format!("test ! -e {} && echo user,quantity && echo a,1 && echo b,2", broken.display());
    let args = ["reconcile", "1001", "--every", "20ms", "-o", "jsonl", "--orders-cmd", &export];
    fs::write(&broken, "").unwrap();
    let running = redis.seckill(args).spawn();
    running.wait_until_stderr("the first failure", |err| err.contains("trying again"));
    fs::remove_file(&broken).unwrap();
    running.wait_until_stdout("a match", |out| out.contains(r#""verdict":"match""#));
    fs::write(&broken, "").unwrap();
    running.wait_until_stderr("the second failure", |err| err.matches("trying again").count() == 2);
    fs::remove_file(&broken).unwrap();
    redis.cmd(("DECRBY", STOCK, 1));
    running.wait_until_stdout("the next audit", |out| out.contains(r#""verdict":"drift""#));
    let ended = running.interrupt();
    assert_eq!(ended.stderr.matches("trying again").count(), 2, "{}", ended.stderr);
    // Columns that are wrong the first time stay so.
    let wrong = "echo who,quantity; echo a,1";
    redis.seckill(["reconcile", "1001", "--every", "20ms", "--orders-cmd", wrong]).code(2);
}

#[test]
fn more_repairs_than_are_allowed_at_once_are_left_alone() {
    let redis = sale();
    let line = "reconcile 1001 --every 20ms --grace 0s --fix --yes --max-repairs 1 -o jsonl --orders-cmd";
    let running = redis.seckill([]).args(line.split(' ')).args(["echo user,quantity; echo c,1"]).spawn();
    running.wait_until_stderr("the warning", |err| err.contains("more than `--max-repairs 1`"));
    running.interrupt().stdout_lacks(r#""repaired":1"#);
    assert_eq!(redis.int(STOCK), 47);
}
