//! What people see of a report.

use super::sale_of_2021;
use crate::snapshots::is_as_stored;
use crate::support::TestRedis;

#[test]
fn a_report_fits_the_terminal() {
    let redis = sale_of_2021();
    for columns in ["80", "140", "30"] {
        let call = redis.seckill(["report", "1001", "--timezone", "Asia/Shanghai"]).env("COLUMNS", columns);
        let text = call.code(0).stdout;
        let width = columns.parse::<usize>().unwrap().max(40);
        // A title of Chinese characters is wider than its count, and in no chart.
        let charts = text.lines().skip(1).filter(|line| line.contains(['│', '┤', '┼']));
        assert!(charts.clone().count() > 15 && charts.clone().all(|line| line.chars().count() <= width), "{text}");
        if columns != "30" {
            is_as_stored(&format!("report_{columns}.txt"), &text);
        }
    }
}

#[test]
fn before_the_first_order_there_is_nothing_to_draw() {
    let redis = TestRedis::start();
    redis.seckill(["preheat", "--id", "1001", "--stock", "5"]).code(0);
    redis
        .seckill(["report", "1001"])
        .code(0)
        .stdout_has("0 of 5 units (0%)")
        .stdout_has("Nobody has bought anything yet.")
        .stdout_has("preheat of 5 units")
        .stdout_lacks("Units a second")
        .stderr_has("`seckill reconcile 1001` is the full audit");
}

#[test]
fn a_sale_that_goes_on_says_as_of_when() {
    let redis = TestRedis::start();
    redis.seckill(["preheat", "--id", "1001", "--stock", "5"]).code(0);
    redis.seckill(["deduct", "1001", "--user", "a"]).code(0);
    redis.seckill(["report", "1001"]).code(0).stdout_has("1001  live at 20").stdout_has("no: 4 units are left");
}
