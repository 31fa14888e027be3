//! `run`: fixtures as they come with the tool, rushes, and what stops a run; `sessions/run.txt` has all else.

use std::fs;

use serde_json::Value;

use crate::support::{TestRedis, root, wait_until};

/// The steps of `-o json`.
fn steps(document: &Value) -> Vec<Value> {
    document["steps"].as_array().unwrap().clone()
}

#[test]
fn every_fixture_that_comes_with_the_tool_passes() {
    let fixtures = root().join("fixtures");
    let mut count = 0;
    for entry in fs::read_dir(&fixtures).unwrap() {
        let file = entry.unwrap().path();
        // A server each: they name the same activities.
        let redis = TestRedis::start();
        let document = redis.seckill(["run", "-o", "json"]).args([&file]).code(0).json();
        let steps = steps(&document);
        assert!(!steps.is_empty(), "{}", file.display());
        for step in steps {
            assert_eq!(step["passed"], true, "{}: {step}", file.display());
            assert!(step["expected"].is_string(), "{}: {step} expects nothing", file.display());
        }
        count += 1;
    }
    assert!(count >= 6, "{count} fixtures");
}

#[test]
fn the_sale_night_is_large_and_sells_each_phone_once() {
    let redis = TestRedis::start();
    redis
        .seckill(["run", "fixtures/double11.yaml"])
        .code(0)
        .stdout_has("rush phone: 20000 users")
        .stdout_has("sold 100, oversold 0")
        .stdout_has("双11 手机 Pro 📱")
        .stdout_has("and 97 more")
        .stderr_has("rush on phone: 20000 buyers in");
    assert_eq!(redis.int("seckill:stock:phone"), 0);
    assert_eq!(redis.hgetall("seckill:participants:phone").len(), 100);
}

#[test]
fn a_fault_ends_the_run_and_shows_what_was_done() {
    let redis = TestRedis::selling("1", 5);
    redis.config_set("maxmemory", "1");
    let outcome = redis
        .seckill(["run", "-", "--yes", "--keep-going", "-o", "jsonl"])
        .stdin("steps: [{reconcile: 1, expect: match}, {deduct: {activity: 1, user: 7}}, {reconcile: 1}]")
        .code(1)
        .stderr_has("out of memory");
    // The error is alone on stderr, and the step that was done on stdout.
    assert_eq!(outcome.jsonl().len(), 1);
    assert_eq!(outcome.error_json()["code"], 1);
}

#[test]
fn a_rush_takes_several_activities_one_user_batches_and_a_thousand_clients() {
    let redis = TestRedis::start();
    let fixture = "
activities:
  - {id: phone, stock: 50}
  - {id: case, stock: 80}
  - {id: cable, stock: 100, per_user_limit: 3}
  - {id: stand, stock: 700}
steps:
  - rush: {items: {phone: 1, case: 2}, users: 200, clients: 20}
    expect: {status: ok, ok: 40, sold: 120, stock: 10, out_of_stock: 160, oversold: 0}
  - rush: {activity: cable, users: 60, same_user: true, clients: 30}
    expect: {status: ok, sold: 3, limit_exceeded: 57}
  - rush: {activity: stand, quantity: 3, users: 300, batch: 16, clients: 100}
    expect: {sold: 699, stock: 1, out_of_stock: 67}
  - rush: {items: {cable: 1, stand: 1}, users: 5, batch: 128}
    expect: {ok: 0, out_of_stock: 4}
  - rush: {activity: cable, users: 1000, clients: 1000}
    expect: {sold: 100, oversold: 0}
  - reconcile: cable
    expect: match
";
    let run = redis.seckill(["run", "-", "--keep-going"]).stdin(fixture).run();
    // `user-1` holds 3 cables, so the fourth rush sells one unit of both to the next user.
    run.clone().stdout_has("rush phone case=2: 200 users").stdout_has("rush cable: 60 orders of one user");
    run.clone().code(1).stderr_has("step 4 at").stderr_has("expected ok 0, got 1").stderr_lacks("step 5 at");
    assert_eq!(run.stderr.matches("warning: step").count(), 1, "{}", run.stderr);
    assert_eq!(redis.hget("seckill:participants:cable", "user-1").as_deref(), Some("3"));
}

#[test]
fn ctrl_c_ends_the_wait_for_a_deadline() {
    let redis = TestRedis::start();
    let fixture = "
activities: [{id: 1, stock: 5}]
steps:
  - hold: {activity: 1, user: 7, for: 2h, request: a}
  - expire: {activity: 1, wait: 3h}
";
    let running = redis.seckill(["run", "-", "-o", "json"]).stdin(fixture).spawn();
    wait_until("the hold is there", || redis.hget("seckill:requests:1", "\th:a").is_some());
    let outcome = running.interrupt().stderr_has("interrupted; 1 more step was not run");
    assert_eq!(steps(&outcome.json()).len(), 1);
    assert_eq!(redis.int("seckill:stock:1"), 4);
}

#[test]
fn ctrl_c_ends_a_rush_at_whole_orders() {
    let redis = TestRedis::start();
    let fixture = "
activities: [{id: 1, stock: 9000000}]
steps:
  - rush: {activity: 1, users: 9000000, clients: 4}
    expect: {sold: 9000000}
  - reconcile: 1
";
    let running = redis.seckill(["run", "-", "-o", "json"]).stdin(fixture).spawn();
    wait_until("the rush begins", || redis.get("seckill:stock:1").is_some_and(|stock| stock != "9000000"));
    let outcome = running.interrupt().stderr_has("interrupted; 1 more step was not run");
    let steps = steps(&outcome.json());
    assert_eq!(steps.len(), 1);
    assert_eq!(steps[0]["passed"], Value::Null);
    let bought: u64 = redis.hgetall("seckill:participants:1").values().map(|units| units.parse::<u64>().unwrap()).sum();
    assert_eq!(redis.int("seckill:stock:1"), 9_000_000 - i64::try_from(bought).unwrap());
    redis.seckill(["reconcile", "1"]).code(0);
}

const SELLS: &str = "activities: [{id: 1, stock: 50}]\nsteps: [{deduct: {activity: 1, user: 7}}]";
const RUSHES: &str = "activities: [{id: 1, stock: 50}]\nsteps: [{rush: {activity: 1, users: 60}}]";

#[test]
fn a_person_may_decline_a_run_on_existing_activities() {
    let redis = TestRedis::selling("1", 50);
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("sale.yaml");
    fs::write(&file, SELLS).unwrap();
    let before = redis.dump_all();
    redis.seckill(["run"]).args([&file]).at_terminal("n\n").code(1).stdout_has("(0 of 50 units sold)? [y/N]");
    redis.assert_unchanged_since(&before);
    redis.seckill(["run"]).args([&file]).at_terminal("y\n").code(0);
    assert_eq!(redis.int("seckill:stock:1"), 49);
    // No answer lets invented buyers in.
    fs::write(&file, RUSHES).unwrap();
    redis.seckill(["run"]).args([&file]).at_terminal("y\n").code(2).stdout_has("invented buyers");
    assert_eq!(redis.int("seckill:stock:1"), 49);
}
