//! Many activities at once: lists and fixtures, created, updated, reset and run in few round trips, each with its row.

use super::{Orders, start_and_hold};
use crate::support::{Fault, Proxy, TestRedis, When};

const MANY: usize = 450;

/// A list of `MANY` activities, each with that many units.
pub fn list(stock: usize) -> Orders {
    let rows: String = (0..MANY).map(|index| format!("a{index},{stock}\n")).collect();
    Orders::named("activities.csv", format!("id,stock\n{rows}"))
}

/// `action status stock_before stock` of each row, which must be equal.
#[track_caller]
fn all_alike(rows: &serde_json::Value, count: usize) -> String {
    let rows = rows.as_array().unwrap();
    let ids: Vec<String> = (0..count).map(|index| format!("a{index}")).collect();
    assert_eq!(
        rows.iter().map(|row| row["activity"].as_str().unwrap()).collect::<Vec<_>>(),
        ids,
        "in the list's order"
    );
    let shown = |row: &serde_json::Value| {
        let text = ["action", "status", "stock_before", "stock"].map(|field| row[field].to_string());
        text.join(" ").replace('"', "")
    };
    assert!(rows.iter().all(|row| shown(row) == shown(&rows[0])), "{rows:?}");
    shown(&rows[0])
}

#[test]
fn a_list_is_preheated_in_few_round_trips() {
    let redis = TestRedis::start();
    let rows: String = (0..1_000).map(|index| format!("{index},{},\"Item, {index}\",2,false\n", index + 1)).collect();
    let list = Orders::named("activities.csv", format!("id,stock,title,per_user_limit,ledger\n{rows}"));
    let proxy = Proxy::before(&redis);
    let outcome = proxy.seckill(["preheat", "-o", "json", "--from", list.path()]).code(0);
    assert_eq!(outcome.json().as_array().unwrap().len(), 1_000);
    assert_eq!(redis.int("seckill:stock:999"), 1_000);
    let meta = redis.meta("seckill:meta:7");
    assert_eq!(
        (meta["title"].as_str(), meta["per_user_limit"].as_str(), meta["ledger"].as_str()),
        ("Item, 7", "2", "0")
    );
    assert_eq!(redis.smembers("seckill:activities").len(), 1_000);
    assert!(proxy.round_trips() < 25, "{} round trips", proxy.round_trips());

    redis.cmd(("SCRIPT", "FLUSH"));
    let again = redis.seckill(["preheat", "-o", "json", "--from", list.path()]).code(0).json();
    assert!(again.as_array().unwrap().iter().all(|row| row["action"] == "unchanged"));
    let one = redis.seckill(["preheat", "-o", "json", "--activity", "5", "--from", list.path()]).code(0).json();
    assert_eq!(one.as_array().unwrap().len(), 1);
}

#[test]
fn a_list_in_another_encoding_is_refused_and_named() {
    let redis = TestRedis::start();
    let utf16: Vec<u8> = "\u{feff}id,stock\n1,5\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
    let gbk = [&b"id,stock,title\n1,5,"[..], &[0xca, 0xd6, 0xbb, 0xfa, 0xca, 0xd6, 0xbb, 0xfa], b"\n"].concat();
    for (bytes, name) in [(utf16, "UTF-16"), (gbk, "GBK")] {
        redis.seckill(["preheat", "--from", "-"]).stdin(bytes).code(2).stderr_has(name).stderr_has("UTF-8");
    }
    redis
        .seckill(["preheat", "--from", "-"])
        .stdin("\n")
        .code(2)
        .stderr_has("nothing here, expected a header with `id`");
    assert!(redis.dump_all().is_empty());
}

#[test]
fn a_record_of_a_list_behind_empty_lines_is_named_by_its_own_line() {
    let redis = TestRedis::start();
    let list = Orders::named("activities.csv", "id,stock\r\nx y,5\r\n\n\n\"a\"b,5\r\n1,6\n1,7\n");
    let refused = redis.seckill(["preheat", "--from", list.path()]).code(2);
    let refused = refused.stderr_has(".csv:2:1: id: `x y`").stderr_has(".csv:5:1: text after a closing quote");
    refused.stderr_has(".csv:7:1: activity `1` is given twice, first in line 6");
}

#[test]
fn many_are_updated_and_reset_in_few_round_trips() {
    let redis = TestRedis::start();
    redis.seckill(["preheat", "--from", list(10).path()]).code(0);
    redis.seckill(["deduct", "a7", "--user", "7", "--quantity", "10"]).code(0);
    redis.seckill(["deduct", "a449", "--user", "7"]).code(0);

    let proxy = Proxy::before(&redis);
    let updated = proxy.seckill(["preheat", "--update", "-o", "json", "--from", list(12).path()]).code(0).json();
    let stocks = ["a7", "a449", "a8"].map(|id| redis.int(&format!("seckill:stock:{id}")));
    assert_eq!(stocks, [2, 11, 12]);
    assert_eq!((updated[7]["stock_before"].as_u64(), updated[7]["stock"].as_u64()), (Some(0), Some(2)));
    assert!(proxy.round_trips() < 15, "{} round trips", proxy.round_trips());

    // One of them cannot be had, and its row says so; the others are as if it were not there.
    let less = proxy.seckill(["preheat", "--update", "-o", "json", "--from", list(9).path()]).code(3).json();
    assert_eq!((less[7]["status"].as_str(), less[8]["status"].as_str()), (Some("out_of_stock"), Some("ok")));
    assert_eq!((redis.int("seckill:stock:a7"), redis.int("seckill:stock:a8")), (2, 9));

    let proxy = Proxy::before(&redis);
    let reset = ["preheat", "--reset", "--yes", "-o", "json", "--from"];
    let rows = proxy.seckill(reset).args([list(3).path()]).code(0).json();
    assert_eq!((rows[7]["stock_before"].as_u64(), rows[8]["stock_before"].as_u64()), (Some(2), Some(9)));
    assert!(rows.as_array().unwrap().iter().all(|row| row["action"] == "reset" && row["stock"] == 3));
    assert!(!redis.exists("seckill:participants:a7"));
    assert_eq!(redis.rule("seckill:meta:a449", "epoch").as_deref(), Some("2"));
    assert!(proxy.round_trips() < 15, "{} round trips", proxy.round_trips());
}

#[test]
fn a_fixture_of_many_runs_after_few_round_trips() {
    let redis = TestRedis::start();
    let activities: String = (0..MANY).map(|index| format!("  - {{id: a{index}, stock: 5}}\n")).collect();
    let step = "steps:\n  - deduct: {activity: a449, user: 7}\n    expect: ok\n";
    let fixture = Orders::named("sale.yaml", format!("activities:\n{activities}{step}"));
    let proxy = Proxy::before(&redis);
    proxy.seckill(["run", fixture.path()]).code(0).stderr_has("450 created");
    assert_eq!(redis.int("seckill:stock:a449"), 4);
    assert!(proxy.round_trips() < 25, "{} round trips", proxy.round_trips());
    proxy.seckill(["run", "--yes", fixture.path()]).code(0).stderr_has("450 there already");
}

#[test]
fn what_a_broken_connection_left_open_is_sent_again_where_that_is_safe() {
    for fault in [Fault::LoseReply, Fault::LoseRequest, Fault::CutReply(3), Fault::CutRequest(90)] {
        let redis = TestRedis::start();
        redis.seckill(["script", "load"]).code(0);
        let proxy = Proxy::before(&redis);
        // In the midst of the second page of what is done.
        proxy.inject(When::Command(2 * MANY - 100), fault);
        let rows = proxy.seckill(["preheat", "-o", "json", "--from", list(12).path()]).code(0).json();
        let rows = rows.as_array().unwrap();
        assert_eq!(rows.len(), MANY, "{fault:?}");
        assert!(rows.iter().all(|row| row["action"] == "create" && row["stock"] == 12));
        let replayed = rows.iter().filter(|row| row["status"] == "replayed").count();
        let ran = matches!(fault, Fault::LoseReply | Fault::CutReply(_));
        assert!(if ran { (1..=100).contains(&replayed) } else { replayed == 0 }, "{fault:?}: {replayed}");
        assert!((0..MANY).all(|at| redis.xrange(&format!("seckill:ledger:a{at}")).len() == 1), "{fault:?}: once each");
    }
}

#[test]
fn a_reset_that_may_have_happened_is_not_done_again_but_shown() {
    let redis = TestRedis::start();
    redis.seckill(["script", "load"]).code(0);
    redis.seckill(["preheat", "--from", list(10).path()]).code(0);
    let proxy = Proxy::before(&redis);
    // Planned, which are paused, the policy, the index; then 50 that are answered.
    let before = 2 * MANY + 2 + 50;
    proxy.inject(When::Command(before + 1), Fault::LoseReply);
    let outcome = proxy.seckill(["preheat", "--reset", "--yes", "-o", "json", "--from", list(4).path()]).code(6);
    assert_eq!(all_alike(&outcome.json(), 50), "reset ok 10 4");
    outcome.stderr_has("50 of 450 activities are done").stderr_has("seckill inspect a50");
    let epochs: Vec<String> =
        (0..MANY).map(|index| redis.rule(&format!("seckill:meta:a{index}"), "epoch").unwrap()).collect();
    assert!(epochs.iter().all(|epoch| epoch == "1" || epoch == "2"), "none was reset twice: {epochs:?}");
    assert!(epochs[..51].iter().all(|epoch| epoch == "2"));
}

#[test]
fn a_script_that_is_lost_in_the_midst_is_loaded_again() {
    let redis = TestRedis::start();
    redis.seckill(["script", "load"]).code(0);
    redis.seckill(["preheat", "--from", list(10).path()]).code(0);
    let proxy = Proxy::before(&redis);
    // Planned, which are paused, the policy, index and a page; then the index, before the second page of resets.
    let place = 2 * MANY + 1 + 201 + 1;
    let list = list(4);
    let call = proxy.seckill(["preheat", "--reset", "--yes", "-o", "json", "--from", list.path()]);
    let call = start_and_hold(&proxy, place, call);
    redis.cmd(("SCRIPT", "FLUSH"));
    proxy.release();
    assert_eq!(all_alike(&call.wait().code(0).json(), MANY), "reset ok 10 4");
}

#[test]
fn an_error_in_the_midst_says_what_was_done_and_not_that_nothing_was() {
    let redis = TestRedis::start();
    redis.seckill(["script", "load"]).code(0);
    let proxy = Proxy::before(&redis);
    let list = list(4);
    // Planned, the policy, index and a page, and the index of the next.
    let call = proxy.seckill(["preheat", "-o", "json", "--from", list.path()]);
    let call = start_and_hold(&proxy, MANY + 1 + 201 + 1, call);
    redis.config_set("maxmemory", "1");
    proxy.release();
    let outcome = call.wait().code(1).stderr_has("200 of 450 activities are done").stderr_has("raise `maxmemory`");
    assert_eq!(all_alike(&outcome.json(), 200), "create ok null 4");
    outcome.stderr_lacks("nothing was changed");
    redis.config_set("maxmemory", "0");
    let rows = redis.seckill(["preheat", "-o", "json", "--from", list.path()]).code(0).json();
    let count = |action: &str| rows.as_array().unwrap().iter().filter(|row| row["action"] == action).count();
    assert_eq!((count("unchanged"), count("create")), (200, 250));
}
