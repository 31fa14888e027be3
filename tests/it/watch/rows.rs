//! Off a terminal: a row per activity and interval.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{is_new, shop, watched};
use crate::support::{SECKILL, TestCluster, TestRedis, scripts};

const FIELDS: &str = "time activity title state total stock sold buyers per_user_limit starts_at ends_at held in_transit rate sold_out_in \
    lag alarms server_calls server_errors server_success server_p50 server_p99 server_p99_9";

#[test]
fn a_row_per_activity_and_interval_with_the_fields_of_inspect_and_more() {
    let redis = shop(&["a", "b"]);
    redis.seckill(["deduct", "a", "--user", "7"]).code(0);
    let before = redis.dump_all();
    let ended = watched(&redis).args(["--count", "3"]).code(0).stderr("");
    let rows = ended.jsonl();
    let ids: Vec<&str> = rows.iter().map(|row| row["activity"].as_str().unwrap()).collect();
    assert_eq!(ids, ["a", "b", "a", "b", "a", "b"]);
    let first = ended.stdout.lines().next().unwrap();
    let at = |field: &str| first.find(&format!("\"{field}\":")).unwrap_or_else(|| panic!("{field} in {first}"));
    assert!(FIELDS.split_whitespace().map(at).is_sorted(), "{first}");
    assert_eq!(rows[0].as_object().unwrap().len(), FIELDS.split_whitespace().count());
    assert!(rows[0]["rate"].is_null() && rows[4]["rate"] == 0.0 && rows[0]["sold"] == 1, "{rows:?}");
    assert!(rows.iter().map(|row| row["time"].as_str().unwrap()).is_sorted());
    redis.assert_unchanged_since(&before);
}

#[test]
fn other_formats_have_the_same_rows() {
    let redis = shop(&["a"]);
    redis.seckill(["pause", "a"]).code(0);
    let csv = watched(&redis).args(["--count", "2", "-o", "csv", "--alert-below", "50%"]).code(0).stdout;
    let lines: Vec<&str> = csv.lines().collect();
    let header =
        FIELDS.replace("in_transit", "in_transit withdrawn alert").split_whitespace().collect::<Vec<_>>().join(",");
    assert_eq!((lines[0], lines.len()), (header.as_str(), 3));
    assert!(lines[1].contains(",a,双十一手机,paused,10,10,0,0,,,,0,,,false,"), "{csv}");
    assert!(lines[1].contains("\"[\"\"paused\"\"]\""), "{csv}");
    let json = watched(&redis).args(["--count", "2", "-o", "json"]).code(0).json();
    assert_eq!((json.as_array().unwrap().len(), &json[1]["alarms"][0]), (2, &"paused".into()));
}

#[test]
fn each_reading_is_printed_at_once_and_ctrl_c_ends_it() {
    let redis = shop(&["a"]);
    let call = redis.seckill(["inspect", "a", "--watch=1h"]).spawn();
    call.wait_for_stdout("\"activity\":\"a\"");
    call.interrupt().stderr("");
}

#[test]
fn a_reader_that_left_ends_it_quietly() {
    let redis = shop(&["a"]);
    watched(&redis).stdout_closed().code(0).stderr("");
    watched(&redis).stdout_closed_after(1).code(0).stderr("");
    // Also between two readings.
    redis.seckill(["inspect", "--watch=1h"]).stdout_closed_after(10).code(0).stderr("");
}

#[test]
fn rows_are_chosen_and_sorted_as_without_watch() {
    let redis = shop(&["sku-1", "sku-2", "other"]);
    redis.seckill(["pause", "sku-1"]).code(0);
    let ids = |args: &[&str]| -> Vec<String> {
        let rows = watched(&redis).args(["--count", "1"]).args(args).code(0).jsonl();
        rows.iter().map(|row| row["activity"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(ids(&["sku-*"]), ["sku-1", "sku-2"]);
    assert_eq!(ids(&["--state", "live"]), ["other", "sku-2"]);
    redis.seckill(["deduct", "sku-2", "--user", "7", "--quantity", "9"]).code(0);
    assert_eq!(ids(&["--sort", "stock"])[0], "sku-2");
    // A mark is no end.
    let rows = watched(&redis).args(["sku-*", "--count", "1", "--alert-below", "2"]).code(0).jsonl();
    assert_eq!(rows.iter().map(|row| &row["alert"]).collect::<Vec<_>>(), [false, true]);
    watched(&redis).args(["x-*"]).code(3).stderr_has("no preheated activity fits `x-*`");
    let rows = watched(&redis).args(["gone", "--count", "1"]).code(3).jsonl();
    assert_eq!((&rows[0]["state"], &rows[0]["alarms"][0]), (&"not_preheated".into(), &"not_preheated".into()));
}

#[test]
fn participants_that_are_lost_are_an_alarm() {
    let redis = shop(&["1"]);
    redis.seckill(["deduct", "1", "--user", "7"]).code(0);
    redis.cmd(("DEL", "seckill:participants:1"));
    let rows = watched(&redis).args(["--count", "1"]).code(3).jsonl();
    assert_eq!((&rows[0]["state"], &rows[0]["alarms"]), (&"corrupt".into(), &serde_json::json!(["corrupt"])));
    redis.seckill(["reconcile", "1", "--fix", "--yes"]).code(0);
    let rows = watched(&redis).args(["--count", "1"]).code(0).jsonl();
    assert_eq!((&rows[0]["state"], &rows[0]["alarms"]), (&"live".into(), &serde_json::json!([])));
    // What the other shards have is shown all the same.
    redis.seckill(["preheat", "-l", "cluster", "--id", "1", "--stock", "40", "--shards", "2"]).code(0);
    redis.seckill(["deduct", "-l", "cluster", "1", "--user", "7"]).code(0);
    redis.cmd(("DEL", "seckill:{1#0}:participants", "seckill:{1#1}:participants"));
    let rows = watched(&redis).args(["-l", "cluster", "--count", "1"]).code(3).jsonl();
    assert_eq!((&rows[0]["state"], &rows[0]["stock"]), (&"corrupt".into(), &39.into()));
}

#[test]
fn an_activity_that_is_preheated_meanwhile_is_watched_too() {
    let redis = shop(&["sku-1"]);
    let call = watched(&redis).args(["sku-*"]).spawn();
    call.wait_for_stdout("sku-1");
    for id in ["other", "sku-2"] {
        redis.seckill(["preheat", "--id", id, "--stock", "7"]).code(0);
    }
    call.wait_for_stdout("\"sku-2\"");
    redis.seckill(["hold", "sku-2", "--user", "7", "--quantity", "3", "--for", "10m"]).code(0);
    call.wait_for_stdout("\"held\":3");
    call.interrupt().stdout_lacks("other");
}

#[test]
fn what_sells_most_comes_first() {
    let redis = shop(&["a", "b", "c"]);
    let call = watched(&redis).args(["--sort", "rate"]).spawn();
    call.wait_for_stdout("\"rate\":0.0");
    redis.seckill(["deduct", "b", "--user", "7", "--quantity", "5"]).code(0);
    call.wait_for_stdout("\"stock\":5");
    let ended = call.interrupt();
    let rows = ended.jsonl();
    let sold = rows.iter().position(|row| row["stock"] == 5).unwrap();
    assert_eq!((sold % 3, &rows[sold]["activity"]), (0, &"b".into()), "first of its reading");
    assert!(rows[sold]["rate"].as_f64().unwrap() > 0.0);
}

#[test]
fn script_calls_are_those_of_others() {
    let redis = shop(&["a"]);
    let call = watched(&redis).spawn();
    call.wait_for_stdout("\"server_calls\":0.0");
    for _ in 0..20 {
        redis.cmd(("EVAL", "return 1", 0));
    }
    let is_counted = |text: &str| rows(text).iter().any(|row| row["server_calls"].as_f64() > Some(0.0));
    call.wait_until_stdout("calls", is_counted);
    _ = redis.try_ask::<String>(("EVAL", "return redis.error_reply('NO')", 0));
    let has_failed = |text: &str| rows(text).iter().any(|row| row["server_errors"].as_f64() > Some(0.0));
    call.wait_until_stdout("errors", has_failed);
    let rows = call.interrupt().jsonl();
    let counted = rows.iter().find(|row| row["server_errors"].as_f64() > Some(0.0)).unwrap();
    assert!(counted["server_success"].as_f64().unwrap() < 1.0);
    assert_eq!(counted["server_p99_9"].is_f64(), is_new(&redis));
}

/// The whole rows of what was printed so far.
fn rows(text: &str) -> Vec<Value> {
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

#[test]
fn a_lost_server_is_reached_again_and_a_count_ends_all_the_same() {
    let mut redis = TestRedis::with(["--appendonly", "yes"]);
    redis.seckill(["preheat", "--id", "a", "--stock", "10"]).code(0);
    let call = watched(&redis).spawn();
    call.wait_for_stdout("\"rate\":0.0");
    redis.kill9();
    call.wait_for_stderr("warning: cannot reach the server");
    redis.restart();
    call.wait_for_stderr("answers again");
    let after = |text: &str| rows(text).iter().filter(|row| row["rate"].is_null()).count() >= 2;
    call.wait_until_stdout("a rate that begins anew", after);
    call.interrupt();
    let call = watched(&redis).args(["--count", "30"]).spawn();
    call.wait_for_stdout("\"rate\":0.0");
    redis.kill9();
    call.wait().code(5).stderr_has("cannot reach the server");
}

#[test]
fn on_a_cluster_all_nodes_are_read_and_a_lost_one_holds_up_no_other() {
    let mut cluster = TestCluster::start(3);
    let ids: Vec<String> = (0..3).map(|node| cluster.activity_on(node, "w")).collect();
    for id in &ids {
        cluster.seckill(["preheat", "--id", id, "--stock", "10"]).code(0);
    }
    let rows_of = cluster.seckill(["inspect", "--watch=100ms", "--count", "2"]).code(0).jsonl();
    let found: BTreeSet<&str> = rows_of.iter().map(|row| row["activity"].as_str().unwrap()).collect();
    assert_eq!((rows_of.len(), found.len()), (6, 3));
    assert_eq!(rows_of[3]["server_calls"], 0.0);
    // Whichever has the index.
    let lost = (0..3).find(|node| *node != cluster.owner(cluster.slot("seckill:cluster:activities"))).unwrap();
    let call = cluster.seckill(["inspect", "--watch=100ms"]).spawn();
    call.wait_for_stdout("\"rate\":0.0");
    cluster.node_mut(lost).kill9();
    call.wait_for_stderr("warning: ");
    let [one, other] = [1, 2].map(|step| &ids[(lost + step) % 3]);
    let count = |text: &str, id: &str| rows(text).iter().filter(|row| row["activity"] == id).count();
    let known = std::cell::Cell::new(None);
    call.wait_until_stdout("rows of the others", |text| {
        let now = [count(text, one), count(text, other)];
        let first = known.get().unwrap_or(now);
        known.set(Some(first));
        now[0] > first[0] + 2 && now[1] > first[1] + 2
    });
    call.interrupt();
}

#[test]
fn who_may_not_read_ends_with_exit_4() {
    let redis = shop(&["a"]);
    let denied = redis.seckill(["inspect", "--watch"]).args(["--count", "1"]);
    redis.cmd(["ACL", "SETUSER", "default", "-get"].as_slice());
    denied.code(4);
}

/// Rows that raise the alarm for foreign writes.
fn alarmed(text: &str) -> usize {
    let is_foreign = |row: &Value| row["alarms"].as_array().unwrap().contains(&"foreign_writer".into());
    rows(text).iter().filter(|row| is_foreign(row)).count()
}

#[test]
fn a_write_of_somebody_else_is_seen_though_an_order_follows_it_at_once() {
    let redis = shop(&["a", "b"]);
    let call = watched(&redis).spawn();
    call.wait_for_stdout("\"rate\":0.0");
    // No reading is between the two: at each instant the last entry says what the stock is.
    let (keys, by) = (&SECKILL.keys("a"), ["hash", "shop", "7", "1", "", "first"]);
    let mut both = redis::pipe();
    both.atomic().cmd("INCRBY").arg(SECKILL.stock("a")).arg(5);
    both.cmd("EVAL").arg(scripts::shown("deduct")).arg(keys.len()).arg(keys).arg(&by);
    both.exec(&mut redis.connection()).unwrap();
    call.wait_until_stdout("the alarm", |text| alarmed(text) > 0);
    let rows = call.interrupt().jsonl();
    assert!(rows.iter().all(|row| row["activity"] == "a" || row["alarms"][0].is_null()), "{rows:?}");
}

#[test]
fn what_our_own_commands_do_raises_no_alarm() {
    let redis = shop(&["a", "b"]);
    // Long before anybody looked.
    redis.seckill(["deduct", "a", "--user", "6"]).code(0);
    redis.cmd(("DECRBY", SECKILL.stock("a"), 2));
    redis.seckill(["deduct", "a", "--user", "6"]).code(0);
    let call = watched(&redis).spawn();
    call.wait_for_stdout("\"rate\":0.0");
    for line in [
        "hold a --user 7 --quantity 2 --for 1ms --request h",
        "hold a --user 8 --quantity 2 --for 1h --request i",
        "expire a",
        "confirm a --request h",
        "confirm a --request i",
        "refund a --user 8",
        "preheat --id a --stock 70 --update",
        "pause a --withdraw-stock",
        "refund a --user 8",
        "resume a",
        "multi-deduct --user 9 a=2 b=1",
        "preheat --id b --stock 9 --reset --yes",
        "deduct b --user 9 --quantity 4",
    ] {
        redis.seckill([]).args(line.split(' ')).code(0);
    }
    let orders: String = (0..300).map(|user| format!("a,u{}\n", user % 50)).collect();
    redis.seckill(["deduct", "--from", "-"]).stdin(format!("activity,user\n{orders}")).run();
    redis.seckill(["deduct", "b", "--user", "10", "--quantity", "4"]).code(0);
    call.wait_until_stdout("what is left of both", |text| {
        text.contains("\"stock\":0,") && rows(text).iter().any(|row| row["activity"] == "b" && row["stock"] == 1)
    });
    call.signal(libc::SIGINT);
    assert_eq!(alarmed(&call.wait().code(130).stdout), 0);
}
