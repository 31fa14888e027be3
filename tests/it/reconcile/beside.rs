//! Order records of one activity are read while the server is. What they show counts only once all of them were read.

use std::fs;

use tempfile::TempDir;

use super::sale;
use crate::support::TestRedis;

const BINARY: &str = env!("CARGO_BIN_EXE_seckill");

#[test]
fn an_export_that_fails_in_the_end_is_an_error_and_nothing_is_repaired() {
    let redis = sale();
    redis.cmd(("HINCRBY", "seckill:participants:1001", "a", 1));
    let before = redis.dump_all();
    // `a` has no order, and the server was read long before the export fails.
    let export = "printf 'user,quantity\\nb,2\\n'; sleep 0.3; exit 3";
    let audit = redis.seckill(["reconcile", "1001", "--fix", "--yes", "--orders-cmd", export]);
    audit.code(1).stdout_is("").stderr_has("failed (exit status: 3)");
    redis.assert_unchanged_since(&before);
}

#[test]
fn a_row_at_the_end_that_is_not_valid_is_named_and_nothing_is_shown() {
    let redis = sale();
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("orders.csv");
    // More rows than wait for an audit that takes one batch a page.
    let rows: String = (0..100_000).map(|user| format!("user-{user},1\n")).collect();
    fs::write(&file, format!("user,quantity\n{rows}user-x,many\n")).unwrap();
    let audit = redis.seckill(["reconcile", "1001", "--orders"]).args([&file]);
    audit.code(2).stdout_is("").stderr_has("orders.csv:100002:8: quantity: `many`");
}

#[test]
fn an_order_that_is_sold_while_the_export_runs_is_no_difference() {
    let redis = sale();
    let url = redis.url();
    // The server's pages were read before `late` bought, and the records know the order.
    let export = format!(
        "printf 'user,quantity\\na,1\\nb,2\\n'; sleep 0.3; \
         {BINARY} --url {url} deduct 1001 --user late >&2 && printf 'late,1\\n'"
    );
    let audit = redis.seckill(["reconcile", "1001", "-o", "json", "--orders-cmd", &export]).code(0).json();
    assert_eq!((audit["verdict"].as_str(), audit["differences"].as_array().unwrap().len()), (Some("match"), 0));
    assert_eq!(audit["activities"][0]["bought"], 4);
}

#[test]
fn many_users_that_differ_are_compared_at_one_instant_too() {
    let redis = TestRedis::selling("1001", 9000);
    let orders: String = (0..1500).map(|user| format!("1001,{user},2\n")).collect();
    redis.seckill(["deduct", "--from", "-"]).stdin(format!("activity,user,quantity\n{orders}")).code(0);
    // The records know half of each order, and of `7` what is sold meanwhile.
    let url = redis.url();
    let export = format!(
        "echo user; seq 0 1499; sleep 0.3; {BINARY} --url {url} deduct 1001 --user 7 --quantity 3 >&2; \
         {BINARY} --url {url} refund 1001 --user 8 >&2; seq 7 7"
    );
    let audit = redis.seckill(["reconcile", "1001", "-o", "json", "--orders-cmd", &export]).code(7).json();
    let rows = audit["differences"].as_array().unwrap();
    // `8` gave back what the records don't know of.
    assert!(rows.len() == 1499 && rows.iter().all(|row| row["user"] != "8"), "{}", rows.len());
    let row = |user: &str| rows.iter().find(|row| row["user"] == user).unwrap();
    let shown = |user| ["class", "redis", "ledger", "orders"].map(|field| row(user)[field].to_string()).join(" ");
    assert_eq!(shown("6"), "\"quantity_mismatch\" 2 2 1");
    // Two were held when the records were written, and five are now.
    assert_eq!(shown("7"), "\"timing\" 5 5 2");
}

#[test]
fn the_export_of_an_activity_that_is_not_there_is_read_to_its_end_too() {
    let redis = sale();
    let gone = |rows: &'static str| redis.seckill(["reconcile", "gone", "--orders", "-"]).stdin(rows);
    gone("user,quantity\na,1\n").code(3);
    gone("user,quantity\na,x\n").code(2).stdout_is("").stderr_has("<stdin>:2:3: quantity: `x`");
}

#[test]
fn without_a_server_nobody_waits_for_the_export() {
    let redis = sale();
    let url = redis.url();
    drop(redis);
    let other = TestRedis::start();
    let audit =
        ["reconcile", "1001", "--orders-cmd", "exec sleep 600", "--as-of", "2020-01-01T00:00:00Z", "--url", &url];
    other.seckill(audit).code(5).stdout_is("");
}
