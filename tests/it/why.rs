//! Why can't X buy? What did X do, and which order is this? `sessions/why.txt` has each answer; here is how holds ended, and long ledgers.

use serde_json::json;

use crate::support::layout::json_call;
use crate::support::{COUPON, SECKILL, SKU, TestCluster, TestRedis};

#[test]
fn a_hold_that_ended_says_how_and_when_and_by_whom() {
    for layout in [SECKILL, SKU, COUPON] {
        let redis = TestRedis::start();
        json_call(&redis, layout, "preheat --id 1 --stock 50").code(0);
        let find = |id: &str| json_call(&redis, layout, "inspect --request").args([id]).code(0).json()[0].clone();
        for (request, duration) in [("open", "1h"), ("paid", "1h"), ("left", "1h"), ("late", "1ms"), ("void", "1ms")] {
            let line = format!("hold 1 --user {request} --request {request} --for {duration}");
            json_call(&redis, layout, &line).code(0);
        }
        let by = |name: &'static str, line: &str| json_call(&redis, layout, line).env("SECKILL_OPERATOR", name).run();
        by("cashier", "confirm 1 --request paid").code(0);
        let file = json_call(&redis, layout, "release --from -").stdin("activity,request\n1,left\n");
        file.env("SECKILL_OPERATOR", "desk").code(0);
        crate::support::wait_until("both are expired", || {
            by("timer", "expire 1").code(0);
            ["late", "void"]
                .iter()
                .all(|id| redis.hget(&layout.requests("1"), &format!("\th:{id}")).unwrap().starts_with("expired"))
        });
        let ended = |id: &str| {
            let row = find(id);
            assert_eq!((&row["op"], &row["status"], &row["by"]), (&json!("hold"), &json!("ok"), &json!("tester@test")));
            assert!(row["ended_at"].is_string() == row["ended_by"].is_string(), "{row}");
            assert!(row["ended_at"].as_str().is_none_or(|end| end >= row["time"].as_str().unwrap()), "{row}");
            (row["state"].as_str().unwrap().to_owned(), row["ended_by"].as_str().unwrap_or_default().to_owned())
        };
        let is = |state: &str, by: &str| (state.to_owned(), by.to_owned());
        assert_eq!(ended("open"), is("held", ""), "{layout:?}");
        assert_eq!(ended("paid"), is("confirmed", "cashier"), "{layout:?}");
        assert_eq!(ended("left"), is("released", "desk"), "{layout:?}");
        assert_eq!(ended("late"), is("expired", "timer"), "{layout:?}");
        by("cashier", "confirm 1 --request late").code(0);
        assert_eq!(ended("late"), is("confirmed", "cashier"), "{layout:?}");
        by("desk", "release 1 --request void").code(3);
        assert_eq!(ended("void"), is("void", "timer"), "{layout:?}");
        let table = redis.seckill(["-l", layout.name, "inspect", "--request", "left"]).env("COLUMNS", "200").code(0);
        table.stdout_has("released").stderr_has("the hold `left` was released in `1` at ").stderr_has(" by desk");
        // Who is no hold has none of it.
        json_call(&redis, layout, "deduct 1 --user 7 --request plain").code(0);
        assert!(find("plain").get("state").is_none() && find("plain").get("ended_at").is_none());
    }
}

/// Entries of single orders, as backends write them: more than a page, and more orders of one user than are kept.
#[test]
fn a_long_ledger_is_read_in_pages_and_the_newest_orders_are_kept() {
    let redis = TestRedis::selling("1", 5_000);
    let rows: String = (0..2500).map(|index| format!("1,{}\n", if index % 2 == 0 { "bot" } else { "7" })).collect();
    redis.seckill(["deduct", "--from", "-", "--job", "j"]).stdin(format!("activity,user\n{rows}")).code(0);
    let mut connection = redis.connection();
    for index in 0..450 {
        let mut entry = redis::cmd("XADD");
        entry.arg("seckill:ledger:1").arg("*").arg(&["op", "deduct", "by", "shop", "stock", "1", "quantity", "1"]);
        entry.arg("users").arg("bot").arg("requests").arg(format!("r{index}"));
        entry.exec(&mut connection).unwrap();
    }
    redis.cmd(("HINCRBY", "seckill:participants:1", "bot", 450));
    let why = json_call(&redis, SECKILL, "inspect 1 --user bot --why").code(0).json();
    assert_eq!((why["entries"].as_array().unwrap().len(), &why["more"]), (1000, &json!(700)));
    assert_eq!((&why["ledger_bought"], &why["bought"]), (&json!(1700), &json!(1700)));
    assert_eq!(why["entries"][999]["request"], "r449");
    redis.seckill(["inspect", "1", "--user", "bot", "--why"]).code(0).stderr_has("700 older orders");
}

#[test]
fn on_a_cluster_too() {
    let cluster = TestCluster::start(2);
    for id in ["1", "2", "3"] {
        cluster.seckill(["preheat", "--id", id, "--stock", "5", "--per-user-limit", "1"]).code(0);
        cluster.seckill(["deduct", id, "--user", "7", "--request", &format!("r-{id}")]).code(0);
    }
    for id in ["1", "2", "3"] {
        let row = cluster.seckill(["inspect", "--request", &format!("r-{id}"), "-o", "json"]).code(0).json();
        assert_eq!(row[0]["activity"], id);
        cluster.seckill(["inspect", id, "--user", "7", "--why"]).code(0).stdout_has("limit_exceeded");
    }
    assert_eq!(cluster.seckill(["inspect", "--user", "7", "--why", "-o", "jsonl"]).code(0).jsonl().len(), 3);
}
