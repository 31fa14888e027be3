//! Repairs as they are applied: once, only if nothing changed, with a yes, and during the sale.

use serde_json::json;
use tempfile::TempDir;

use super::live::while_selling;
use super::repair::{PARTICIPANTS, STOCK, fix, fix_by, orders, shown};
use super::sale;
use crate::support::TestRedis;

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
    // Another operator repairs it in another way.
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
        .stderr_has("dry run: 1 of 1 repair would be applied");
    let dry = redis.seckill(["reconcile", "--fix", "--dry-run", "-o", "json"]).code(7).json();
    assert_eq!((&dry["dry_run"], &dry["repairs"][0]["dry_run"]), (&json!(true), &json!(true)));
    redis.assert_unchanged_since(&before);
    redis.seckill(["reconcile", "--fix", "--yes"]).code(0).stdout_has("repairs\n").stderr_has("1 of 1 repair applied");
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
        // These buy meanwhile: a user who buys between audit and repair is skipped.
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
