//! Repairs: each class injected, named, repaired and clean after; nothing set blindly; the sale continues.

use std::fs;
use std::path::PathBuf;

use serde_json::json;
use tempfile::TempDir;

use super::live::while_selling;
use super::sale;
use crate::support::{TestRedis, backend};

const PARTICIPANTS: &str = "seckill:participants:1001";
const STOCK: &str = "seckill:stock:1001";

/// Repairs without order records, and holds that all is well then.
#[track_caller]
fn fix(redis: &TestRedis) -> Vec<String> {
    let fixed = redis.seckill(["reconcile", "1001", "--fix", "--yes", "-o", "json"]).code(0).json();
    redis.seckill(["reconcile", "1001"]).code(0);
    shown(&fixed["repairs"])
}

/// Repairs by order records in a file.
#[track_caller]
fn fix_by(redis: &TestRedis, csv: &str, code: i32) -> Vec<String> {
    let (_dir, file) = orders(csv);
    let call = redis.seckill(["reconcile", "1001", "--fix", "--yes", "-o", "json", "--as-of", "2100-01-01T00:00:00Z"]);
    let fixed = call.args([format!("--orders={}", file.display())]).code(code).json();
    if code == 0 {
        let again = redis.seckill(["reconcile", "1001", "--orders", "-"]).stdin(csv);
        again.code(0).stdout_has("match");
    }
    shown(&fixed["repairs"])
}

fn orders(csv: &str) -> (TempDir, PathBuf) {
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("orders.csv");
    fs::write(&file, csv).unwrap();
    (dir, file)
}

/// Repairs as `class user from to stock_change status`.
fn shown(repairs: &serde_json::Value) -> Vec<String> {
    let text = |value: &serde_json::Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let fields = ["class", "user", "from", "to", "stock_change", "status"];
    let rows = repairs.as_array().unwrap().iter();
    rows.map(|row| fields.map(|field| text(&row[field])).join(" ")).collect()
}

#[test]
fn units_that_a_cut_withheld_come_back() {
    for (layout, key) in [("seckill", STOCK), ("sku", "stock:1001"), ("coupon", "coupon:stock:1001")] {
        let redis = sale(layout);
        let stock = redis.int(key);
        redis.cmd(("DECRBY", key, 4));
        redis.seckill(["reconcile", "--fix", "--yes", "-l", layout]).code(0);
        assert_eq!(redis.int(key), stock);
        redis.cmd(("INCRBY", key, 3));
        redis.seckill(["reconcile", "--fix", "--yes", "-l", layout]).code(0);
        assert_eq!(redis.int(key), stock, "a stock that is too high");
        redis.seckill(["reconcile", "-l", layout]).code(0);
    }
}

#[test]
fn a_bare_counter_is_never_sold_twice() {
    let redis = sale("product");
    backend::buy_product(&redis, "1001", 5);
    redis.seckill(["reconcile", "--fix", "--yes", "-l", "product"]).code(0);
    assert_eq!(redis.int("product_stock_1001"), 42);
    redis.cmd(("INCRBY", "product_stock_1001", 2));
    redis.seckill(["reconcile", "--fix", "--yes", "-l", "product"]).code(0);
    assert_eq!(redis.int("product_stock_1001"), 42);
    redis.seckill(["reconcile", "-l", "product"]).code(0);
    // Order records know better: 6 were sold.
    let (_dir, file) = orders("quantity\n6\n");
    redis.seckill(["reconcile", "1001", "--fix", "--yes", "-l", "product", "--orders"]).args([&file]).code(0);
    assert_eq!(redis.int("product_stock_1001"), 44);
    redis.seckill(["reconcile", "1001", "-l", "product", "--orders"]).args([&file]).code(0);
}

#[test]
fn a_counter_that_the_stock_moved_with_is_noted_and_never_undone() {
    let redis = sale("seckill");
    backend::buy_hash(&redis, "1001", "c", 3, 9);
    assert_eq!(fix(&redis), ["counter_drift c 3 3 0 ok"]);
    assert_eq!((redis.int(STOCK), redis.hget(PARTICIPANTS, "c").as_deref()), (44, Some("3")));
}

#[test]
fn a_counter_that_the_stock_did_not_move_with_is_set_back() {
    let redis = sale("seckill");
    redis.cmd(("HINCRBY", PARTICIPANTS, "a", 4));
    redis.cmd(("HDEL", PARTICIPANTS, "b"));
    assert_eq!(fix(&redis), ["counter_drift a 5 1 0 ok", "counter_drift b 0 2 0 ok"]);
    assert_eq!(redis.int(STOCK), 47);
    for (layout, user, key) in [("sku", "b", "bought:1001"), ("coupon", "a", "coupon:user:1001")] {
        let redis = sale(layout);
        redis.cmd(("SREM", key, user));
        redis.cmd(("HSET", "sku:units:1001", "stranger", 1));
        redis.cmd(("SADD", key, "stranger"));
        redis.seckill(["reconcile", "-l", layout]).code(7);
        redis.seckill(["reconcile", "--fix", "--yes", "-l", layout]).code(0);
        redis.seckill(["reconcile", "-l", layout]).code(0);
    }
}

#[test]
fn where_stock_moved_with_some_counters_only_order_records_must_tell() {
    let redis = sale("seckill");
    backend::buy_hash(&redis, "1001", "c", 3, 9);
    redis.cmd(("HINCRBY", PARTICIPANTS, "a", 1));
    let before = redis.dump_all();
    redis.seckill(["reconcile", "--fix", "--yes"]).code(7).stderr_has("order records would show which");
    redis.assert_unchanged_since(&before);
    assert_eq!(
        fix_by(&redis, "user,quantity\na,1\nb,2\nc,3\n", 0),
        ["conservation null 0 0 -1 ok", "quantity_mismatch a 2 1 1 ok", "counter_drift c 3 3 0 ok"]
    );
    assert_eq!((redis.int(STOCK), redis.hget(PARTICIPANTS, "a").as_deref()), (44, Some("1")));
}

#[test]
fn units_of_missing_orders_return_to_stock() {
    let redis = sale("seckill");
    assert_eq!(fix_by(&redis, "user,quantity\na,1\n", 0), ["missing_order b 2 0 2 ok"]);
    assert_eq!((redis.int(STOCK), redis.hget(PARTICIPANTS, "b")), (49, None));
}

#[test]
fn missing_orders_may_be_delivered_again_instead() {
    let redis = sale("seckill");
    let before = redis.dump_all();
    let (_dir, file) = orders("user,quantity\na,1\nc,1\n");
    let emit = ["reconcile", "1001", "--emit", "missing_order", "--as-of", "2100-01-01T00:00:00Z", "--orders"];
    let row = "{\"activity\":\"1001\",\"user\":\"b\",\"quantity\":2}\n";
    redis.seckill(emit).args([&file]).code(7).stdout_is(row);
    redis.assert_unchanged_since(&before);
    redis
        .seckill(emit)
        .args([&file])
        .args(["-o", "csv"])
        .code(7)
        .stdout_is("activity,user,quantity,user_hex\n1001,b,2,\n");
    // The others are repaired, these are left alone.
    redis.seckill(emit).args([&file]).args(["--fix", "--yes"]).code(7).stdout_is(row);
    assert_eq!(
        (redis.hget(PARTICIPANTS, "b").as_deref(), redis.hget(PARTICIPANTS, "c").as_deref()),
        (Some("2"), Some("1"))
    );
    redis.seckill(["reconcile", "1001"]).code(0);
}

#[test]
fn purchases_that_redis_lost_are_taken_while_stock_suffices() {
    let redis = sale("seckill");
    let repairs = fix_by(&redis, "user,quantity\na,2\nb,2\nc,40\nd,40\n", 7);
    assert_eq!(
        repairs,
        ["quantity_mismatch a 1 2 -1 ok", "missing_purchase c 0 40 -40 ok", "missing_purchase d 0 40 -40 out_of_stock"]
    );
    assert_eq!(redis.int(STOCK), 6);
    redis.seckill(["reconcile", "1001"]).code(0);
}

#[test]
fn what_may_never_be_repaired_is_not() {
    let redis = sale("seckill");
    redis.seckill(["preheat", "--id", "1001", "--stock", "50", "--per-user-limit", "1", "--update"]).code(0);
    redis.cmd(("HSET", PARTICIPANTS, "x", "1e3"));
    redis.cmd(("INCRBY", STOCK, 1));
    redis.cmd(("DECRBY", STOCK, 1));
    let before = redis.dump_all();
    redis
        .seckill(["reconcile", "--fix", "--yes"])
        .code(7)
        .stderr_has("over_limit not repaired")
        .stderr_has("corrupt not repaired");
    redis.assert_unchanged_since(&before);
    let redis = sale("seckill");
    let before = redis.dump_all();
    assert_eq!(fix_by(&redis, "user,quantity\na,1\nb,2\nc,-1\n", 7), [""; 0]);
    assert_eq!(fix_by(&redis, "user,quantity,ledger\na,1,\nb,2,9999999999999-0\n", 7), [""; 0]);
    redis.assert_unchanged_since(&before);
}

#[test]
fn a_total_that_differs_is_no_repair() {
    let redis = sale("seckill");
    let before = redis.dump_all();
    redis
        .seckill(["reconcile", "1001", "--total", "60", "--fix", "--yes"])
        .code(7)
        .stderr_has("`preheat --update` sets the total");
    redis.assert_unchanged_since(&before);
}

#[test]
fn a_repair_is_written_down_with_who_and_why() {
    let redis = sale("seckill");
    redis.cmd(("DECRBY", STOCK, 3));
    redis.cmd(("HINCRBY", PARTICIPANTS, "a", 3));
    redis.seckill(["reconcile", "--fix", "--yes", "--reason", "ticket 17"]).code(0);
    let (_, entry) = redis.xrange("seckill:ledger:1001").pop().unwrap();
    let field = |name: &str| entry.get(name).map(String::as_str);
    assert_eq!(
        ["op", "by", "reason", "stock", "stock_change"].map(field),
        [Some("repair"), Some("tester@test"), Some("ticket 17"), Some("44"), Some("0")]
    );
    assert_eq!(crate::support::ledger::orders(&entry), [["a", "4", "4"]]);
    assert_eq!(redis.hget("seckill:meta:1001", "repairs").as_deref(), Some("1"));
}

#[test]
fn a_plan_is_applied_later_and_once() {
    let redis = sale("seckill");
    redis.cmd(("HINCRBY", PARTICIPANTS, "a", 4));
    let dir = TempDir::new().unwrap();
    let plan = dir.path().join("plan.jsonl");
    redis.seckill(["reconcile", "--plan"]).args([&plan]).code(7).stderr_has("1 repairs written");
    let apply = || redis.seckill(["repair", "-o", "csv"]).args([&plan]);
    let before = redis.dump_all();
    apply().code(2).stderr_has("--yes");
    apply().args(["--dry-run"]).code(0).stdout_has("1001,a,counter_drift,5,1,0,ok");
    redis.assert_unchanged_since(&before);
    apply().args(["--yes"]).code(0).stdout_has("1001,a,counter_drift,5,1,0,ok");
    let after = redis.dump_all();
    apply().args(["--yes"]).code(0).stdout_has(",replayed,");
    redis.assert_unchanged_since(&after);
    redis.seckill(["reconcile"]).code(0);
}

#[test]
fn a_plan_of_which_something_changed_is_skipped_there_and_said() {
    let redis = sale("seckill");
    redis.cmd(("HINCRBY", PARTICIPANTS, "a", 1));
    redis.cmd(("HINCRBY", PARTICIPANTS, "b", 1));
    let dir = TempDir::new().unwrap();
    let plan = dir.path().join("plan.jsonl");
    redis.seckill(["reconcile", "--plan"]).args([&plan]).code(7);
    redis.seckill(["refund", "1001", "--user", "b"]).code(0);
    let applied = redis.seckill(["repair", "--yes", "-o", "json"]).args([&plan]).code(3).json();
    assert_eq!(shown(&applied), ["counter_drift a 2 1 0 ok", "counter_drift b 3 2 0 changed"]);
    // The next audit finds the rest.
    assert_eq!(fix(&redis), ["counter_drift b 2 1 0 ok"]);
}

#[test]
fn two_operators_cannot_both_repair_by_the_same_audit() {
    let redis = sale("seckill");
    redis.cmd(("DECRBY", STOCK, 5));
    let dir = TempDir::new().unwrap();
    let plan = dir.path().join("plan.jsonl");
    redis.seckill(["reconcile", "--plan"]).args([&plan]).code(7);
    // Another operator mends it in another way.
    redis.cmd(("HSET", PARTICIPANTS, "c", 5));
    assert_eq!(fix(&redis), ["counter_drift c 5 5 0 ok"]);
    let before = redis.dump_all();
    redis
        .seckill(["repair", "--yes"])
        .args([&plan])
        .code(3)
        .stdout_has("stale")
        .stderr_has("run `seckill reconcile` again");
    redis.seckill(["preheat", "--id", "1001", "--stock", "50", "--reset", "--yes"]).code(0);
    assert!(!before.is_empty());
    redis.seckill(["repair", "--yes"]).args([&plan]).code(3).stdout_has("stale");
    assert_eq!(redis.int(STOCK), 50);
}

#[test]
fn a_large_plan_needs_to_be_allowed_and_is_applied_in_parts() {
    let redis = TestRedis::start();
    redis.seckill(["preheat", "--id", "1001", "--stock", "5000"]).code(0);
    for page in 0..3 {
        let users = (0..400).flat_map(|user| [format!("u{}", page * 400 + user), "2".to_owned()]);
        redis.cmd(("HSET", PARTICIPANTS, users.collect::<Vec<_>>()));
    }
    let before = redis.dump_all();
    let fix = redis.seckill(["reconcile", "--fix", "--yes"]).code(7);
    fix.stderr_has("1200 repairs are wanted, more than `--max-repairs 100`");
    redis.assert_unchanged_since(&before);
    redis.seckill(["reconcile", "--fix", "--yes", "--max-repairs", "1200"]).code(0);
    assert_eq!(redis.hgetall(PARTICIPANTS).len(), 0);
    redis.seckill(["reconcile"]).code(0);
}

#[test]
fn nothing_is_repaired_by_records_that_cannot_be_trusted() {
    let redis = sale("seckill");
    let before = redis.dump_all();
    let csv = "activity,user,quantity\n1002,x,1\n";
    redis
        .seckill(["reconcile", "1001", "--fix", "--yes", "--orders", "-"])
        .stdin(csv)
        .code(2)
        .stderr_has("a pipe hides");
    let (_dir, file) = orders(csv);
    let fix = redis.seckill(["reconcile", "--fix", "--yes", "--as-of", "2100-01-01T00:00:00Z", "--orders"]);
    fix.args([&file]).code(7).stderr_has("`1001` was left out: it has sales, and the order records have no row of it");
    redis.seckill(["reconcile", "1001", "--fix", "--yes", "--orders-cmd", "echo user; exit 1"]).code(1);
    redis.assert_unchanged_since(&before);
}

#[test]
fn without_a_yes_nothing_is_repaired() {
    let redis = sale("seckill");
    redis.cmd(("DECRBY", STOCK, 5));
    let before = redis.dump_all();
    redis.seckill(["reconcile", "--fix"]).code(2).stdout_is("").stderr_has("`--yes`");
    redis
        .seckill(["reconcile", "--fix", "--dry-run"])
        .code(7)
        .stdout_has("Dry run: nothing was changed")
        .stdout_has("repairs that would be applied\n")
        .stderr_has("dry run: 1 of 1 repairs would be applied");
    let dry = redis.seckill(["reconcile", "--fix", "--dry-run", "-o", "json"]).code(7).json();
    assert_eq!((&dry["dry_run"], &dry["repairs"][0]["dry_run"]), (&json!(true), &json!(true)));
    redis.assert_unchanged_since(&before);
    redis
        .seckill(["reconcile", "--fix", "--yes"])
        .code(0)
        .stdout_has("repairs\n")
        .stderr_has("1 of 1 repairs are in force");
}

#[test]
fn an_activity_without_a_meta_is_repaired_too() {
    let redis = TestRedis::start();
    redis.cmd(("SET", STOCK, 10));
    redis.cmd(("HSET", PARTICIPANTS, "a", 1, "b", 2));
    assert_eq!(
        fix_by(&redis, "user,quantity\na,2\n", 0),
        ["quantity_mismatch a 1 2 -1 ok", "missing_order b 2 0 2 ok"]
    );
    assert_eq!(redis.int(STOCK), 11);
    // The same again, later, is another repair.
    redis.cmd(("HSET", PARTICIPANTS, "b", 2));
    assert_eq!(fix_by(&redis, "user,quantity\na,2\n", 0), ["missing_order b 2 0 2 ok"]);
    assert!(!redis.exists("seckill:meta:1001") && !redis.exists("seckill:ledger:1001"));
}

#[test]
fn a_repair_whose_reply_is_lost_is_applied_once() {
    let redis = sale("seckill");
    redis.cmd(("DECRBY", STOCK, 5));
    let network = crate::support::Proxy::before(&redis);
    // Of the script's calls the last one is the repair: two of the audit come before it.
    network.inject(crate::support::When::Nth(4), crate::support::Fault::LoseReply);
    network.seckill(["reconcile", "1001", "--fix", "--yes"]).code(0);
    assert_eq!(redis.int(STOCK), 47);
    redis.seckill(["reconcile"]).code(0);
}

#[test]
fn a_repair_never_loses_what_is_sold_meanwhile() {
    let redis = TestRedis::start();
    redis.seckill(["preheat", "--id", "1001", "--stock", "100000"]).code(0);
    while_selling(&redis, || {
        redis.cmd(("DECRBY", STOCK, 7));
        redis.seckill(["reconcile", "1001", "--fix", "--yes"]).code(0);
        redis.cmd(("HSET", PARTICIPANTS, "stranger", 3));
        redis.seckill(["reconcile", "1001", "--fix", "--yes"]).code(0);
        // These buy meanwhile: whoever does between audit and repair is skipped.
        let lose = "local n = tonumber(redis.call('HGET', KEYS[1], ARGV[1]) or 0) \
                    if n > 1 then redis.call('HINCRBY', KEYS[1], ARGV[1], -1) end return n";
        for user in 0..50 {
            redis.cmd(("EVAL", lose, 1, PARTICIPANTS, format!("user-{user}")));
        }
        redis.seckill(["reconcile", "1001", "--fix", "--yes"]).run();
    });
    redis.seckill(["reconcile", "1001", "--fix", "--yes"]).code(0);
    // The sum of all that happened is the state.
    let audit = redis.seckill(["reconcile", "1001", "-o", "json"]).code(0).json();
    let activity = &audit["activities"][0];
    assert_eq!(activity["stock"].as_i64().unwrap() + activity["bought"].as_i64().unwrap(), 100_000);
}

#[test]
fn a_plan_that_is_none_is_refused_with_its_line() {
    let redis = sale("seckill");
    let good = json!({"id": "repair:1", "layout": "seckill", "activity": "1001", "class": "conservation", "user": null,
        "from": 0, "to": 0, "stock_change": 1, "epoch": 1, "repairs": 0});
    let before = redis.dump_all();
    for (field, value, why) in [
        ("activity", json!("a b"), "<stdin>:1:1: activity: `a b` is not"),
        ("class", json!("x"), "class: `\"x\"` is not a class of differences"),
        ("from", json!(-1), "from: `-1` is not a whole number of units"),
        ("to", json!("1"), "to: `\"1\"` is not a whole number of units"),
        ("stock_change", json!(1e3), "stock_change: `1000.0` is not a whole number of units"),
        ("surprise", json!(1), "unknown field `surprise`"),
        ("user", json!(" 7"), "user: ` 7` is not"),
        ("layout", json!("sku"), "contradicts"),
    ] {
        let mut plan = good.clone();
        plan["audited_stock"] = json!(1);
        plan[field] = value;
        redis.seckill(["repair", "-", "--yes", "-l", "seckill"]).stdin(plan.to_string()).code(2).stderr_has(why);
    }
    redis.assert_unchanged_since(&before);
    redis.seckill(["repair", "-", "--yes"]).stdin("\n").code(0).stderr_has("holds no repairs");
}
