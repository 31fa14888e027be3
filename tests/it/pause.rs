//! `pause` and `resume`: questions, and a failure in the middle. `sessions/pause.txt` has what they print.

use serde_json::Value;

use crate::support::layout::json_call;
use crate::support::{Layout, SECKILL, TestRedis};

/// `activity status state` of each row.
fn rows(value: &Value) -> Vec<String> {
    let text = |row: &Value, field: &str| row[field].as_str().unwrap_or("-").to_owned();
    let rows = value.as_array().unwrap().iter();
    rows.map(|row| ["activity", "status", "state"].map(|field| text(row, field)).join(" ")).collect()
}

fn said(redis: &TestRedis, layout: Layout, line: &str, code: i32) -> Vec<String> {
    rows(&json_call(redis, layout, line).code(code).json())
}

#[test]
fn a_pattern_or_all_pauses_after_one_question_that_names_them() {
    let redis = TestRedis::start();
    for id in ["sku-1", "sku-2", "other"] {
        json_call(&redis, SECKILL, &format!("preheat --id {id} --stock 5")).code(0);
    }
    let before = redis.dump_all();
    let asked = redis.seckill(["pause", "sku-*"]).code(2);
    asked.stderr_has("needs confirmation, but stdin is no terminal: Pause 2 activities (`sku-1`, `sku-2`) on `unix:");
    redis.seckill(["pause", "--all"]).at_terminal("n\n").code(1).stdout_has("(`other`, `sku-1`, `sku-2`)");
    redis.seckill(["pause", "x*", "--yes"]).code(3).stderr_has("no preheated activity fits `x*`");
    redis.seckill(["pause"]).code(2).stderr_has("usage: seckill pause [OPTIONS] ACTIVITY...|--all");
    assert_eq!(said(&redis, SECKILL, "pause --all --dry-run", 0).len(), 3, "a dry run does not ask");
    redis.assert_unchanged_since(&before);
    redis.seckill(["pause", "sku-*"]).at_terminal("y\n").code(0);
    let all = said(&redis, SECKILL, "pause --all --yes", 0);
    assert_eq!(all, ["other ok paused", "sku-1 replayed paused", "sku-2 replayed paused"]);
    assert_eq!(said(&redis, SECKILL, "resume sku-2 sku-* --yes", 0), ["sku-2 ok live", "sku-1 ok live"]);
}

#[test]
fn what_was_paused_before_a_failure_is_reported() {
    let redis = TestRedis::start();
    for id in ["1", "2"] {
        json_call(&redis, SECKILL, &format!("preheat --id {id} --stock 5")).code(0);
    }
    redis.cmd(&["ACL", "SETUSER", "op", "reset", "on", ">pw", "+@all", "~seckill:*:1"]);
    let call = redis.seckill(["-o", "json", "pause", "1", "2"]).env("SECKILL_PASSWORD", "pw");
    let url = format!("{}?user=op", redis.url());
    let outcome = call.env("SECKILL_URL", &url).code(4);
    assert_eq!(rows(&outcome.json()), ["1 ok paused"]);
    assert_eq!(redis.rule(&SECKILL.meta("2"), "state").as_deref(), Some("live"));
}
