//! `ledger`: the history as rows, followed as it grows, and fed to a database at least once and in order.

mod feed;
mod map;
mod rows;
mod trim;
mod trim_cut;

use serde_json::json;

use crate::support::{Call, Fault, Proxy, TestRedis, When, rfc3339};

/// A sale with a preheat, an update, orders, a refund, a multi-order and a pause.
fn sale() -> TestRedis {
    let redis = TestRedis::start();
    let run = |line: &str| {
        let call = redis.seckill([]).args(line.split(' '));
        call.code(0);
    };
    run("preheat --id 1001 --stock 50 --reason launch");
    run("preheat --id 1001 --stock 60 --update");
    run("deduct 1001 --user a --quantity 2 --request r1");
    run("refund 1001 --user a --request r2 --reason broken");
    run("multi-deduct --user b 1001=3 --request r3");
    run("pause 1001");
    redis
}

/// Rows as `op user quantity stock request by reason`.
#[track_caller]
fn rows(call: Call) -> Vec<String> {
    let fields = ["op", "user", "quantity", "stock", "request", "by", "reason"];
    let text = |value: &serde_json::Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let rows = call.args(["-o", "jsonl"]).code(0).jsonl();
    rows.iter().map(|row| fields.map(|field| text(&row[field])).join(" ")).collect()
}

const ALL: [&str; 6] = [
    "preheat null 50 50 null tester@test launch",
    "update null 60 60 null tester@test null",
    "deduct a 2 58 r1 tester@test null",
    "refund a 1 59 r2 tester@test broken",
    "deduct b 3 56 r3 tester@test null",
    "pause null null 56 null tester@test null",
];

#[test]
fn everything_that_happened_is_a_row() {
    let redis = sale();
    assert_eq!(rows(redis.seckill(["ledger", "1001"])), ALL);
    let row = &redis.seckill(["ledger", "1001", "-o", "json"]).code(0).json()[2];
    let id = redis.xrange("seckill:ledger:1001")[2].0.clone();
    let millis: i64 = id.split('-').next().unwrap().parse().unwrap();
    let time = jiff::Timestamp::from_millisecond(millis).unwrap().strftime("%Y-%m-%dT%H:%M:%S%.3fZ");
    assert_eq!(
        *row,
        json!({"activity": "1001", "id": id, "n": 1, "time": time.to_string(), "op": "deduct", "user": "a", "quantity": 2, "stock": 58, "request": "r1",
            "by": "tester@test", "reason": null})
    );
    redis.seckill(["ledger", "1001"]).code(0).stdout_has("REASON").stdout_has("launch").stderr("");
}

#[test]
fn a_user_and_a_time_narrow_it() {
    let redis = sale();
    assert_eq!(rows(redis.seckill(["ledger", "1001", "--user", "a"])), [ALL[2], ALL[3]]);
    let ids: Vec<String> = redis.xrange("seckill:ledger:1001").into_iter().map(|(id, _)| id).collect();
    let millis: i64 = ids[3].split('-').next().unwrap().parse().unwrap();
    let from = ids.iter().position(|id| id.starts_with(&format!("{millis}-"))).unwrap();
    let since = rfc3339(millis);
    assert_eq!(rows(redis.seckill(["ledger", "1001", "--since", &since])), ALL[from..]);
    assert_eq!(rows(redis.seckill(["ledger", "1001", "--since", "2100-01-01T00:00:00Z"])), [""; 0]);
}

#[test]
fn what_the_output_did_not_take_comes_again() {
    let redis = sale();
    for user in 0..2000 {
        let (user, request) = (format!("u{user}"), format!("request-{user}"));
        let fields = [["op", "deduct"], ["stock", "1"], ["users", &user], ["quantity", "1"], ["requests", &request]];
        redis.cmd(("XADD", "seckill:ledger:1001", "*", &fields.concat()));
    }
    let group = || redis.seckill(["ledger", "1001", "--group", "db", "-o", "jsonl"]);
    // The reader goes away in mid-stream.
    let first = group().stdout_closed_after(20_000).run();
    let taken = first.stdout.lines().count();
    let rest = group().code(0).jsonl();
    assert!(taken < 2006 && taken + rest.len() >= 2006, "{taken} and {}", rest.len());
    // In order, and without a gap to what the reader got.
    let users: Vec<u32> = rest.iter().filter_map(|row| row["user"].as_str()?.strip_prefix('u')?.parse().ok()).collect();
    assert!(users.windows(2).all(|two| two[1] == two[0] + 1) && users.last() == Some(&1999), "{users:?}");
    // Entries that were delivered and never acknowledged come first.
    redis.cmd(("XGROUP", "SETID", "seckill:ledger:1001", "db", "0"));
    redis.cmd(("XREADGROUP", "GROUP", "db", "seckill", "COUNT", 3, "STREAMS", "seckill:ledger:1001", ">"));
    assert_eq!(group().code(0).jsonl().len(), 2006);
}

#[test]
fn a_lost_reply_loses_no_row() {
    let redis = sale();
    let network = Proxy::before(&redis);
    for number in 2..9 {
        redis.try_ask::<i64>(("XGROUP", "DESTROY", "seckill:ledger:1001", "db")).unwrap();
        network.inject(When::Command(number), Fault::LoseReply);
        assert_eq!(rows(network.seckill(["ledger", "1001", "--group", "db"])), ALL, "reply {number}");
    }
}
