//! `run`: fixtures as they come with the tool, expectations that fail, and what stops a run.

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

const FAILING: &str = "
activities: [{id: 1001, stock: 10}]
steps:
  - deduct: {activity: 1001, user: 7, quantity: 2}
    expect: {status: ok, stock: 9, bought: 2}
  - deduct: {activity: 1001, user: 7}
    expect: out_of_stock
  - deduct: {activity: 1001, user: 7}
";

#[test]
fn a_run_stops_at_the_first_failed_expectation() {
    let redis = TestRedis::start();
    let outcome = redis.seckill(["run", "-", "-o", "json"]).stdin(FAILING).code(1);
    let outcome = outcome.stderr_has("step 1 at <stdin>:4:5: expected stock 9, got 8");
    let outcome = outcome.stderr_has("2 more steps were not run; `--keep-going` continues");
    let steps = steps(&outcome.json());
    assert_eq!(steps.len(), 1);
    assert_eq!(steps[0]["operation"], "deduct");
    assert_eq!(steps[0]["status"], "ok");
    assert_eq!(steps[0]["expected"], "ok, stock 9, bought 2");
    assert_eq!(steps[0]["passed"], false);
    assert_eq!(redis.int("seckill:stock:1001"), 8);
}

#[test]
fn keep_going_does_the_rest_and_fails_all_the_same() {
    let redis = TestRedis::start();
    let outcome = redis.seckill(["run", "-", "--keep-going", "-o", "jsonl"]).stdin(FAILING).code(1);
    let outcome = outcome.stderr_has("step 2 at <stdin>:6:5: expected `out_of_stock`, got `ok`");
    let passed: Vec<Value> = outcome.jsonl().iter().map(|step| step["passed"].clone()).collect();
    assert_eq!(passed, [false, false, true]);
    assert_eq!(redis.int("seckill:stock:1001"), 6);
}

#[test]
fn a_step_that_expects_nothing_passes_whatever_its_status() {
    let redis = TestRedis::start();
    redis.cmd(("HSET", "seckill:stock:broken", "a", "1"));
    let rows = redis
        .seckill(["run", "-", "--yes", "-o", "jsonl"])
        .stdin("steps: [{deduct: {activity: none, user: 7}}, {deduct: {activity: broken, user: 7}}]")
        .code(0)
        .stderr_has("seckill:stock:broken")
        .jsonl();
    for (row, status) in rows.iter().zip(["not_preheated", "corrupt"]) {
        assert_eq!((&row["status"], &row["passed"], &row["expected"]), (&status.into(), &true.into(), &Value::Null));
    }
}

#[test]
fn csv_has_the_rows_of_the_contract() {
    let redis = TestRedis::start();
    redis
        .seckill(["run", "-", "-o", "csv"])
        .stdin("activities: [{id: 1, stock: 5}]\nsteps: [{deduct: {activity: 1, user: 7}, expect: {status: ok, stock: 4}}]")
        .code(0)
        .stdout_is("step,operation,status,expected,passed\n1,deduct,ok,\"ok, stock 4\",true\n");
}

#[test]
fn an_activity_that_differs_stops_the_run_before_anything_is_created() {
    let redis = TestRedis::start();
    redis.seckill(["preheat", "--id", "b", "--stock", "5"]).code(0);
    let before = redis.dump_all();
    redis
        .seckill(["run", "-"])
        .stdin("activities: [{id: a, stock: 1}, {id: b, stock: 6}]\nsteps: [{deduct: {activity: b, user: 7}}]")
        .code(3)
        .stderr_has("`5` → `6`")
        .stderr_has("--update")
        .stderr_has("was not run");
    redis.assert_unchanged_since(&before);
}

#[test]
fn an_equal_activity_is_left_alone_with_a_hint_about_its_stock() {
    let redis = TestRedis::start();
    let fixture = "activities: [{id: 1, stock: 5}]\nsteps: [{deduct: {activity: 1, user: 7}, expect: {stock: 4}}]";
    redis.seckill(["run", "-"]).stdin(fixture).code(0);
    redis
        .seckill(["run", "-", "--yes"])
        .stdin(fixture)
        .code(1)
        .stderr_has("expected stock 4, got 3")
        .stderr_has("units were sold before this run");
}

#[test]
fn a_dry_run_shows_the_plan_and_writes_nothing() {
    let redis = TestRedis::start();
    let empty = redis.dump_all();
    let rows = redis
        .seckill(["run", "fixtures/double11.yaml", "--dry-run", "-o", "jsonl"])
        .code(0)
        .stderr_has("5 to be created")
        .stderr_has("dry run: nothing was changed")
        .jsonl();
    assert_eq!(rows[3]["operation"], "rush");
    assert_eq!(rows[3]["status"], Value::Null);
    assert_eq!(rows[3]["passed"], Value::Null);
    redis.assert_unchanged_since(&empty);
}

#[test]
fn fixtures_are_read_before_the_first_one_is_run() {
    let redis = TestRedis::start();
    let empty = redis.dump_all();
    redis.seckill(["run", "fixtures/seckill.yaml", "tests/it/bad/steps.yaml"]).code(2);
    redis
        .seckill(["run", "fixtures/seckill.yaml", "fixtures/sku.yaml"])
        .code(2)
        .stderr_has("`fixtures/sku.yaml` has the layout `sku`, but `fixtures/seckill.yaml` has `seckill`");
    redis.assert_unchanged_since(&empty);
}

#[test]
fn a_rush_of_a_second_round_meets_the_limits_of_the_first() {
    let redis = TestRedis::start();
    let fixture = "
activities: [{id: 1, stock: 100, per_user_limit: 1}]
steps:
  - rush: {activity: 1, users: 30, clients: 8}
    expect: {status: ok, sold: 30, ok: 30, oversold: 0, stock: 70}
  - rush: {activity: 1, users: 50, clients: 8}
    expect: {status: ok, sold: 50, ok: 20, limit_exceeded: 30, out_of_stock: 0}
  - rush: {activity: none, users: 3}
    expect: {status: not_preheated, ok: 0}
  - pause: 1
  - rush: {activity: 1, users: 3}
    expect: {status: paused, ok: 0, sold: 50}
  - reconcile: 1
    expect: match
";
    redis.seckill(["run", "-"]).stdin(fixture).code(0).stderr_has("rush on 1: 30 buyers in");
}

#[test]
fn json_has_the_steps_and_each_activity_as_it_is_then() {
    let redis = TestRedis::start();
    let document = redis.seckill(["run", "fixtures/seckill.yaml", "-o", "json"]).code(0).json();
    assert_eq!((steps(&document).len(), &document["activities"][0]["stock"]), (8, &7.into()));
    assert_eq!(document["activities"][0]["participants"][0]["user"], "12345");
}

#[test]
fn a_table_says_what_fell_short_and_what_is_left() {
    let redis = TestRedis::start();
    redis
        .seckill(["run", "-"])
        .stdin(
            "
activities: [{id: a, stock: 5, per_user_limit: 2}, {id: b, stock: 1}]
steps:
  - multi_deduct: {user: 7, items: {a: 1, b: 2}}
    expect: refused
  - deduct: {activity: a, user: 7, quantity: 2}
",
        )
        .code(0)
        .stdout_has("multi_deduct a b=2 for 7  refused: b out_of_stock")
        .stdout_has("deduct a=2 for 7          ok: stock 3, bought 2, quantity 2")
        .stdout_has("Stock\nACTIVITY")
        .stdout_has("Participants\nACTIVITY");
}

#[test]
fn a_fault_ends_the_run_and_shows_what_was_done() {
    let redis = TestRedis::start();
    redis.seckill(["preheat", "--id", "1", "--stock", "5"]).code(0);
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
    for (line, says) in [
        ("{items: {a: 1}, quantity: 2, users: 1}", "rush: `quantity` beside `items`"),
        ("{activity: a, users: 1, batch: 1001}", "batch"),
        ("{activity: a, users: 1, clients: 50001}", "is not a whole number from 1 to 50000"),
        ("{activity: a, users: 1, same_user: often}", "same_user"),
    ] {
        redis.seckill(["run", "-"]).stdin(format!("steps:\n  - rush: {line}\n")).code(2).stderr_has(says);
    }
    redis
        .seckill(["run", "-", "-l", "product"])
        .stdin("steps:\n  - rush: {activity: a, users: 1, same_user: true}\n")
        .code(2)
        .stderr_has("same_user: `true` names a user, but the layout `product` records no users");
}

#[test]
fn steps_of_holds_end_as_the_commands_do_and_say_what_differs() {
    let redis = TestRedis::start();
    let fixture = "
layout: sku
activities: [{id: 1, stock: 5}]
steps:
  - hold: {activity: 1, user: 7, for: 1ms, request: a, reason: why}
  - expire: {activity: 1, wait: 20ms}
    expect: {holds: 2, units: 1, stock: 5}
  - confirm: {activity: 1, request: a}
    expect: {status: expired, stock: 4}
  - hold: {activity: 1, user: 8, for: 15m, request: b}
  - release: {activity: 1, request: b}
  - expire: 1
    expect: {holds: 0, units: 0, stock: 4}
";
    let outcome = redis.seckill(["run", "-", "--keep-going", "-o", "json", "--reason", "drill"]).stdin(fixture).code(1);
    let outcome = outcome.stderr_has("step 2 at <stdin>:6:5: expected holds 2, got 1");
    let outcome = outcome.stderr_has("step 3 at <stdin>:8:5: expected `expired`, got `ok`");
    let ended: Vec<_> =
        steps(&outcome.json()).iter().map(|step| (step["operation"].clone(), step["status"].clone())).collect();
    let expected =
        [("hold", "ok"), ("expire", "ok"), ("confirm", "ok"), ("hold", "ok"), ("release", "ok"), ("expire", "ok")];
    assert_eq!(ended, expected.map(|(operation, status)| (Value::from(operation), Value::from(status))));
    let ledger = redis.seckill(["ledger", "1", "-l", "sku", "-o", "csv"]).code(0).stdout;
    assert_eq!((ledger.matches(",why").count(), ledger.matches(",drill").count()), (1, 5), "{ledger}");
    redis.seckill(["reconcile", "1", "-l", "sku"]).code(0);
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
    running.signal(libc::SIGINT);
    let outcome = running.wait().code(130).stderr_has("interrupted; 1 more step was not run");
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
    running.signal(libc::SIGINT);
    let outcome = running.wait().code(130).stderr_has("interrupted; 1 more step was not run");
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
fn a_run_asks_before_it_changes_an_activity_that_exists() {
    let redis = TestRedis::start();
    redis.seckill(["run", "-"]).stdin(SELLS).code(0);
    let before = redis.dump_all();
    // A step alone touches it too.
    let other = "steps: [{refund: {activity: 1, user: 7}}]";
    for fixture in [SELLS, other, "steps: [{pause: 1}]", "steps: [{multi_deduct: {user: 7, items: {2: 1, 1: 1}}}]"] {
        let error = redis.seckill(["run", "-", "-o", "json"]).stdin(fixture).code(2).error_line();
        let question = format!("Change activities that exist already on `{}`: `1` (1 of 50 units sold)?", redis.url());
        assert!(error["error"].as_str().unwrap().contains(&question), "{fixture}: {error}");
        assert!(error["hint"].as_str().unwrap().contains("--yes"), "{error}");
        redis.assert_unchanged_since(&before);
    }
    redis.seckill(["run", "-"]).stdin("steps: [{reconcile: 1, expect: match}]").code(0);
    redis.seckill(["run", "-", "--dry-run"]).stdin(SELLS).code(0);
    redis.assert_unchanged_since(&before);
    redis.seckill(["run", "-", "--yes"]).stdin(SELLS).code(0);
    assert_eq!(redis.int("seckill:stock:1"), 48);
}

#[test]
fn a_person_may_decline_a_run_on_existing_activities() {
    let redis = TestRedis::start();
    redis.seckill(["preheat", "--id", "1", "--stock", "50"]).code(0);
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

#[test]
fn a_rush_runs_only_on_what_this_run_created() {
    let redis = TestRedis::start();
    redis.seckill(["preheat", "--id", "1", "--stock", "50"]).code(0);
    let before = redis.dump_all();
    // A fixture that comes first is not begun either.
    let dir = tempfile::tempdir().unwrap();
    let first = dir.path().join("first.yaml");
    fs::write(&first, "activities: [{id: 2, stock: 5}]").unwrap();
    redis
        .seckill(["run"])
        .args([first.as_os_str(), "-".as_ref()])
        .stdin(RUSHES)
        .code(2)
        .stderr_has("<stdin>:2:9: a rush would sell `1` to invented buyers")
        .stderr_has("--yes");
    redis.assert_unchanged_since(&before);
    // Created by the first fixture, sold out by the second.
    redis
        .seckill(["run"])
        .args([first.as_os_str(), "-".as_ref()])
        .stdin(RUSHES.replace("1", "2").replace("50", "5"))
        .code(0);
    redis.seckill(["run", "-", "--yes"]).stdin(RUSHES).code(0);
    assert_eq!((redis.int("seckill:stock:1"), redis.int("seckill:stock:2")), (0, 0));
}
