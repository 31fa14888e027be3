//! `ledger trim` of several activities: a row each, one question.

use serde_json::Value;

use super::trim::{LATER, matches};
use crate::support::{SECKILL, TestRedis};

/// `1001` and `1002` with three entries each, and `1003` without a ledger.
fn sale() -> TestRedis {
    let redis = TestRedis::start();
    let fixture = "activities: [{id: 1001, stock: 9}, {id: 1002, stock: 9}, {id: 1003, stock: 9, ledger: false}]";
    redis.seckill(["preheat", "-"]).stdin(fixture).code(0);
    for activity in ["1001", "1002", "1003"] {
        for user in ["a", "b"] {
            redis.seckill(["deduct", activity, "--user", user]).code(0);
        }
    }
    redis
}

fn removed(rows: &[Value]) -> Vec<String> {
    rows.iter()
        .map(|row| format!("{} {} {}", row["activity"], row["status"], row["removed"]).replace('"', ""))
        .collect()
}

#[test]
fn each_activity_is_a_row_and_all_is_all_that_was_preheated() {
    let redis = sale();
    let before = redis.dump_all();
    let trim = |args: &[&str]| redis.seckill(["ledger", "trim", "--before", LATER, "-o", "jsonl"]).args(args);
    let dry = trim(&["--all", "--dry-run"]).code(0).stderr_lacks("no ledger").jsonl();
    assert_eq!(removed(&dry), ["1001 ok 2", "1002 ok 2", "1003 ok 0"]);
    redis.assert_unchanged_since(&before);
    let named = trim(&["1002", "1003", "1002", "nosuch", "--yes"]).code(3).stderr_has("`1003` has no ledger").jsonl();
    assert_eq!(removed(&named), ["1002 ok 2", "1003 ok 0", "nosuch not_preheated 0"]);
    let all = trim(&["--all", "--yes"]).code(0).stderr("").jsonl();
    assert_eq!(removed(&all), ["1001 ok 2", "1002 ok 0", "1003 ok 0"]);
    redis.seckill(["reconcile"]).code(0);
    matches(&redis, SECKILL);
    TestRedis::start()
        .seckill(["ledger", "trim", "--all", "--before", LATER])
        .code(0)
        .stderr_has("nothing was preheated");
    redis.seckill(["ledger", "trim", "1001", "--all", "--before", LATER]).code(2).stdout_is("");
}

#[test]
fn one_question_names_them_before_anything_is_removed() {
    let redis = sale();
    let before = redis.dump_all();
    let call = || redis.seckill(["ledger", "trim", "1001", "1002", "--before", LATER]);
    call().code(2).stdout_is("").stderr_has("Remove 4 ledger entries of 2 activities (`1001`, `1002`), older than");
    call().at_terminal("n\n").code(1).stdout_has("not confirmed");
    redis.assert_unchanged_since(&before);
    let outcome = call().at_terminal("y\n").code(0);
    assert_eq!(outcome.stdout.matches("[y/N]").count(), 1, "{}", outcome.stdout);
    assert_eq!(redis.xrange(&SECKILL.ledger("1002")).len(), 1);
    // Nothing is left to ask about.
    call().code(0);
}

#[test]
fn one_that_cannot_be_trimmed_does_not_stop_the_others() {
    let redis = sale();
    redis.cmd(("XTRIM", SECKILL.ledger("1001"), "MAXLEN", 2));
    redis.cmd(("XGROUP", "CREATE", SECKILL.ledger("1002"), "db", "0"));
    redis.seckill(["preheat", "--id", "1004", "--stock", "9"]).code(0);
    redis.seckill(["deduct", "1004", "--user", "a"]).code(0);
    let outcome = redis.seckill(["ledger", "trim", "--all", "--before", LATER, "--yes", "-o", "jsonl"]).code(1);
    outcome.stderr_has("of `1002` has not read").stderr_has("the ledger of `1001` does not begin with its preheat");
    let rows = redis.seckill(["ledger", "trim", "--all", "--before", LATER, "--yes", "-o", "jsonl"]).code(1).jsonl();
    assert_eq!(removed(&rows), ["1002 unread 0", "1003 ok 0", "1004 ok 0"]);
    assert_eq!(redis.xrange(&SECKILL.ledger("1004")).len(), 1);
}
