//! `--reset`: asked with what it destroys, and sent once.

use crate::support::{Proxy, TestRedis, When};

#[test]
fn the_question_names_server_activities_and_units_sold() {
    let redis = TestRedis::start();
    let ids: Vec<String> = (1..=12).map(|id| format!("{{id: {id}, stock: 4}}")).collect();
    let fixture = format!("activities: [{}]", ids.join(", "));
    redis.seckill(["preheat", "-"]).stdin(&fixture).code(0);
    for (id, quantity) in [("2", "3"), ("11", "2"), ("12", "1")] {
        redis.seckill(["deduct", id, "--user", "7", "--quantity", quantity]).code(0);
    }
    let before = redis.dump_all();
    redis
        .seckill(["preheat", "-", "--reset"])
        .stdin(&fixture)
        .code(2)
        .stderr_has("Reset 12 activities: `1` (0 of 4 units sold), `2` (3 of 4 units sold), ")
        .stderr_has(&format!("`10` (0 of 4 units sold) and 2 more (3 units sold) on `{}`?", redis.url()));
    redis.assert_unchanged_since(&before);
    let one = ["preheat", "--id", "2", "--stock", "9", "--reset"];
    let declined = redis.seckill(one).at_terminal("n\n").code(1);
    declined.stdout_has("Reset `2` (3 of 4 units sold) on ").stdout_has("nothing was changed");
    redis.assert_unchanged_since(&before);
    redis.seckill(one).at_terminal("y\n").code(0).stdout_has("4 → 9");
    assert_eq!(redis.int("seckill:stock:2"), 9);
}

#[test]
fn what_another_creates_after_the_question_is_not_reset() {
    let redis = TestRedis::start();
    redis.seckill(["script", "load"]).code(0);
    let proxy = Proxy::before(&redis);
    // The plan finds nothing to destroy, so nobody is asked.
    let call = proxy.start_and_hold(
        When::Command(1),
        proxy.seckill(["preheat", "--id", "1", "--stock", "3", "--reset", "-o", "json"]),
    );
    redis.seckill(["preheat", "--id", "1", "--stock", "9"]).code(0);
    let before = redis.dump_all();
    proxy.release();
    assert_eq!(call.wait().code(3).json()[0]["status"], "exists");
    redis.assert_unchanged_since(&before);
}

/// Asks about, plans and does a reset that says nothing of a window, a limit and a title which the sale has.
#[track_caller]
fn assert_named(redis: &TestRedis, line: &[&str], fixture: &str, removed: &str) {
    let call = |more: &[&str]| redis.seckill([]).args(line).args(more).stdin(fixture);
    let in_question = format!("; not given, so removed: {removed})");
    call(&[]).code(2).stderr_has(&in_question);
    let notes: Vec<String> =
        removed.split(", ").map(|field| format!("{field} is not given, so it is removed")).collect();
    let dry = call(&["--dry-run"]).code(0);
    let said: Vec<usize> =
        notes.iter().map(|note| dry.stderr.find(note).unwrap_or_else(|| panic!("{note}: {dry:?}"))).collect();
    assert!(said.is_sorted(), "{dry:?}");
    let done = call(&["--yes"]).code(0);
    notes.iter().for_each(|note| drop(done.clone().stderr_has(note)));
    // What is given, or is not there, is not removed.
    call(&["--yes"]).code(0).stderr_lacks("removed");
}

#[test]
fn a_reset_names_what_is_not_given_and_goes_the_window_first() {
    let redis = TestRedis::start();
    let sale = "{id: 1, stock: 4, title: phone, per_user_limit: 2, starts_at: 2200-01-01T00:00:00Z, ends_at: 2200-02-01T00:00:00Z, ledger: false}";
    redis.seckill(["preheat", "-"]).stdin(format!("activities: [{sale}, {{id: 2, stock: 3, title: tv}}]")).code(0);
    let window = "starts_at 2200-01-01T00:00:00+00:00, ends_at 2200-02-01T00:00:00+00:00";
    let one = ["preheat", "--id", "1", "--stock", "4", "--reset"];
    let same = "--per-user-limit 2 --title phone --starts-at 2200-01-01T00:00:00Z --ends-at 2200-02-01T00:00:00Z";
    redis.seckill(one).args(same.split(' ')).code(2).stderr_has("not given, so removed: ledger `false`)");
    // An activity that loses its window comes before others.
    let both = "activities: [{id: 2, stock: 3}, {id: 1, stock: 4}]";
    let asked = redis.seckill(["preheat", "-", "--reset"]).stdin(both).code(2);
    asked.stderr_has(&format!("Reset 2 activities: `1` (0 of 4 units sold; not given, so removed: {window}, "));
    assert_named(&redis, &one, "", &format!("{window}, per_user_limit `2`, title `phone`, ledger `false`"));
    assert_eq!(redis.meta("seckill:meta:1").get("starts_at"), None);
}

#[test]
fn a_reset_of_a_sharded_activity_names_what_goes_its_shards_too() {
    let redis = TestRedis::start();
    let sale =
        "layout: cluster\nactivities: [{id: 1, stock: 4, title: phone, ends_at: 2200-02-01T00:00:00Z, shards: 2}]";
    let window = "ends_at 2200-02-01T00:00:00+00:00";
    redis.seckill(["preheat", "-"]).stdin(sale).code(0);
    let sharded = "layout: cluster\nactivities: [{id: 1, stock: 4, shards: 2}]";
    assert_named(&redis, &["preheat", "-", "--reset"], sharded, &format!("{window}, title `phone`"));
    redis.seckill(["preheat", "-", "--reset", "--yes"]).stdin(sale).code(0);
    let ordinary = ["-l", "cluster", "preheat", "--id", "1", "--stock", "4", "--reset"];
    assert_named(&redis, &ordinary, "", &format!("{window}, title `phone`, shards `2`"));
    redis
        .seckill(["-l", "cluster", "preheat", "--id", "1", "--stock", "4", "--reset", "--yes", "--title", "tv"])
        .code(0);
    assert_named(&redis, &["preheat", "-", "--reset"], sharded, "title `tv`");
}
