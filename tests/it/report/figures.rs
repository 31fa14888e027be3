//! The figures of a report are those of the sale.

use serde_json::{Value, json};

use super::{Sale, report, sale_of_2021};
use crate::support::{CLUSTER, LAYOUTS, SECKILL, SKU, TestCluster, TestRedis, rfc3339};

/// A field of each row, summed.
fn sum(rows: &Value, field: &str) -> i64 {
    rows.as_array().unwrap().iter().map(|row| row[field].as_i64().unwrap()).sum()
}

#[test]
fn a_sale_is_summed_up_from_its_ledger() {
    let redis = sale_of_2021();
    let row = report(&redis, SECKILL);
    // 800 less 600 and 200 more, less 430, and 30 + 2 + 4 returned.
    let figures = json!({
        "activity": "1001", "title": "Phone <手机> & \"case\"", "state": "ended", "total": 1000, "stock": 6, "sold": 994,
        "buyers": 299, "per_user_limit": 9, "starts_at": "2021-11-10T16:00:00.000Z", "ends_at": "2021-11-10T18:00:00.000Z",
        "since": null, "sold_before": 0,
        "first_order": "2021-11-10T16:00:00.500Z", "last_order": "2021-11-10T16:00:04.600Z",
        "last_refund": "2021-11-11T16:00:00.000Z", "sold_out_at": "2021-11-10T16:00:04.600Z", "sold_out_in": 4.6,
        "orders": 515, "bought": 1030, "refunds": 35, "returned": 36, "half_bought_at": "2021-11-10T16:00:01.342Z", "rate": 251.2195,
        "peak_rate": 300, "peak_at": "2021-11-10T16:00:00.000Z",
        "verdict": "match", "proof": "sums", "objection": null, "held": 0, "counters": 994, "period": 0.01,
    });
    for (name, value) in figures.as_object().unwrap() {
        assert_eq!(&row[name], value, "{name}");
    }
    let timeline = &row["timeline"];
    let last = timeline.as_array().unwrap().last().unwrap();
    assert_eq!((sum(timeline, "bought"), sum(timeline, "returned"), &last["sold"]), (1030, 36, &json!(994)));
    assert_eq!((&last["to"], &last["returned"]), (&json!("2021-11-11T16:00:00.001Z"), &json!(4)), "a day later");
    let marks: Vec<_> = row["marks"].as_array().unwrap().iter().map(|mark| (&mark["op"], &mark["quantity"])).collect();
    assert_eq!(json!(marks), json!([["preheat", 800], ["pause", null], ["resume", null], ["update", 1000]]));
    assert_eq!(row["units_a_user"][0]["from"], 2);
    assert_eq!(sum(&row["units_a_user"], "users"), 299);
    assert_eq!(row["top_buyers"].as_array().map(Vec::len), Some(10));
    assert_eq!(row["top_buyers"][0], json!({"user": "user-100", "bought": 4, "left": 5}));
}

#[test]
fn flat_formats_have_a_row_of_figures_and_json_lines_have_all() {
    let redis = sale_of_2021();
    let call = |format: &str| redis.seckill(["report", "1001", "--top", "2", "-o", format]).code(0).stderr("").stdout;
    let (csv, tsv) = (call("csv"), call("tsv"));
    let lines: Vec<&str> = csv.lines().collect();
    assert!(lines.len() == 2 && lines[0].starts_with("activity,title,state,total,stock,sold,"), "{csv}");
    assert!(lines[1].starts_with("1001,\"Phone <手机> & \"\"case\"\"\",ended,1000,6,994,"), "{csv}");
    assert_eq!(lines[0].split(',').count(), tsv.lines().nth(1).unwrap().split('\t').count());
    let row: Value = serde_json::from_str(&call("jsonl")).unwrap();
    let fields: Vec<&String> = row.as_object().unwrap().keys().collect();
    assert!(lines[0].split(',').all(|field| fields.iter().any(|known| *known == field)));
    assert_eq!(row["top_buyers"].as_array().map(Vec::len), Some(2));
    assert!(call("yaml").contains("  verdict: match\n"));
}

#[test]
fn every_layout_has_a_report_and_those_without_users_leave_them_out() {
    for layout in LAYOUTS {
        let redis = TestRedis::start();
        let run = |line: &str| drop(redis.seckill(["-l", layout.name]).args(line.split(' ')).code(0));
        run("preheat --id 1001 --stock 3");
        run("deduct 1001 --user a");
        run("deduct 1001 --user b");
        run("refund 1001 --user b");
        run("deduct 1001 --user c");
        run("deduct 1001 --user d");
        let row = report(&redis, layout);
        let found = ["verdict", "sold", "orders", "returned", "stock"].map(|name| row[name].clone());
        assert_eq!(json!(found), json!(["match", 3, 4, 1, 0]), "{layout:?}");
        assert!(row["sold_out_at"].is_string(), "{layout:?}");
        let users = if layout.has_users() { json!([3, 3, 1]) } else { json!([null, null, 0]) };
        let ranges = row["units_a_user"].as_array().unwrap().len();
        assert_eq!(json!([row["buyers"], row["counters"], ranges]), users, "{layout:?}");
        let shown = redis.seckill(["report", "1001", "-l", layout.name]).code(0).stdout;
        assert_eq!(shown.contains("Units a user"), layout.has_users(), "{shown}");
    }
}

#[test]
fn holds_are_orders_and_those_that_nobody_paid_are_no_refunds() {
    let redis = TestRedis::start();
    let run = |line: &str| drop(redis.seckill([]).args(line.split(' ')).code(0));
    run("preheat --id 1001 --stock 9");
    run("hold 1001 --user a --quantity 2 --for 15m --request r1");
    run("hold 1001 --user b --quantity 3 --for 15m --request r2");
    run("hold 1001 --user c --for 15m --request r3");
    run("confirm 1001 --request r1");
    run("release 1001 --request r2");
    redis
        .seckill(["report", "1001"])
        .code(0)
        .stdout_has("holds      3 holds of 6 units; 1 hold confirmed, 3 units released or expired, 1 unit held\n")
        .stdout_has("refunds    none\n");
}

#[test]
fn it_works_on_a_cluster() {
    let cluster = TestCluster::start(3);
    for node in 0..3 {
        let id = cluster.activity_on(node, "100");
        cluster.seckill(["preheat", "--stock", "5", "--id", &id]).code(0);
        cluster.seckill(["deduct", &id, "--user", "7", "--quantity", "2"]).code(0);
        let rows = cluster.seckill(["report", &id, "-o", "json", "-l", CLUSTER.name]).code(0).stderr("").json();
        assert_eq!(json!([rows[0]["sold"], rows[0]["verdict"], rows[0]["counters"]]), json!([2, "match", 2]));
    }
}

#[test]
fn of_a_trimmed_ledger_the_report_says_since_when_it_knows() {
    let redis = TestRedis::selling("1001", 9);
    redis.seckill(["deduct", "1001", "--user", "a", "--quantity", "4"]).code(0);
    redis.seckill(["deduct", "1001", "--user", "b", "--quantity", "2"]).code(0);
    // Another process wrote the last entry, so it is of another millisecond.
    let entries = redis.xrange(&SECKILL.ledger("1001"));
    let millis = entries[2].0.split('-').next().unwrap().parse().unwrap();
    let time = rfc3339(millis);
    redis.seckill(["ledger", "trim", "1001", "--yes", "--before", &time]).code(0);
    let row = report(&redis, SECKILL);
    let found = ["verdict", "sold", "sold_before", "bought", "orders"].map(|name| row[name].clone());
    assert_eq!(json!(found), json!(["match", 6, 4, 2, 1]));
    assert_eq!((&row["since"], &row["timeline"][0]["sold"]), (&row["first_order"], &json!(6)), "{row}");
    redis.seckill(["report", "1001"]).code(0).stdout_has("only: older entries were trimmed, of 4 units");
}

#[test]
fn what_was_sold_before_an_adoption_is_one_number() {
    let redis = TestRedis::start();
    redis.cmd(("SET", SKU.stock("1001"), 7));
    redis.cmd(("SADD", SKU.participants("1001"), "a", "b"));
    redis.seckill(["preheat", "--id", "1001", "--adopt", "--total", "10", "--yes", "-l", "sku"]).code(0);
    redis.seckill(["deduct", "1001", "--user", "c", "--quantity", "2", "-l", "sku"]).code(0);
    let row = report(&redis, SKU);
    let found = ["verdict", "sold", "sold_before", "counters", "unknown_users", "stock"].map(|name| row[name].clone());
    assert_eq!(json!(found), json!(["match", 5, 3, null, 2, 5]));
    redis.seckill(["report", "1001", "-l", "sku"]).code(0).stdout_has("taken over with 3 units sold");
}

#[test]
fn sums_that_differ_are_named_with_the_time_they_differ_from() {
    let redis = sale_of_2021();
    redis.cmd(("INCRBY", SECKILL.stock("1001"), 3));
    let row = report(&redis, SECKILL);
    assert_eq!(json!([row["verdict"], row["objection"]]), json!(["drift", "stock"]));
    redis.seckill(["report", "1001"]).code(0).stdout_has("drift: the stock of 9 is 3 units too many");
    // A backend that writes no ledger, in the midst of a sale.
    redis.cmd(("DECRBY", SECKILL.stock("1001"), 5));
    redis.seckill(["preheat", "--id", "1001", "--stock", "1001", "--update"]).code(0);
    let shown = redis.seckill(["report", "1001"]).code(0).stdout_has("shortly").stdout;
    let stock = "drift: the stock of 5 is 2 units too few, since 20";
    assert!(shown.replace("\n           ", " ").contains(stock), "{shown}");
}

#[test]
fn the_fastest_second_of_a_sale_over_days_has_its_date() {
    let mut sale = Sale::begin(9, "", &["--stock", "9"]);
    sale.orders(1000, "deduct", 0..1, 2);
    sale.orders(90_000_000, "deduct", 1..2, 3);
    let shown = sale.end().seckill(["report", "1001", "--timezone", "Asia/Shanghai"]).code(0).stdout;
    assert!(shown.replace("\n           ", " ").contains("at most 3 in the second of 2021-11-12 01:00:00"), "{shown}");
}

#[test]
fn a_sale_without_its_participants_is_corrupt_as_inspect_says() {
    let redis = sale_of_2021();
    redis.cmd(("DEL", SECKILL.participants("1001")));
    redis.seckill(["report", "1001", "-o", "json"]).code(0).stdout_has(r#""state":"corrupt""#);
    redis.seckill(["report", "1001"]).code(0).stdout_has("corrupt at ").stderr_has("`1001` is corrupt: key `");
}

#[test]
fn a_ledger_without_its_beginning_proves_nothing_and_is_still_shown() {
    let redis = sale_of_2021();
    redis.cmd(("XTRIM", SECKILL.ledger("1001"), "MAXLEN", 30));
    let row = report(&redis, SECKILL);
    assert_eq!(json!([row["verdict"], row["objection"], row["sold"]]), json!(["unsettled", "no_beginning", 994]));
    assert_eq!(row["since"], row["first_order"]);
    redis.seckill(["report", "1001"]).code(0).stdout_has("only: older entries are gone");
}
