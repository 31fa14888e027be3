//! `seckill bench`: what each strategy sells, on activities that are gone afterwards.

mod faults;
mod options;

use serde_json::Value;

use crate::support::{Outcome, TestCluster, TestRedis, wait_until};

/// The row of a strategy.
#[track_caller]
fn row(outcome: &Outcome, strategy: &str) -> Value {
    let rows = outcome.json();
    let found = rows.as_array().unwrap().iter().find(|row| row["strategy"] == strategy);
    found.unwrap_or_else(|| panic!("no {strategy} in {rows}")).clone()
}

/// Waits until a load test sells.
fn wait_for_orders(redis: &TestRedis) {
    wait_until("orders are sold", || redis.ask::<Vec<String>>(("KEYS", "seckill:participants:bench-*")).len() == 1);
}

#[track_caller]
fn oversold(outcome: &Outcome, strategy: &str) -> u64 {
    row(outcome, strategy)["oversold"].as_u64().unwrap()
}

/// The strategies that check and take in one step sold no more than there was.
#[track_caller]
fn assert_exact(outcome: &Outcome) {
    for exact in ["lua", "batch", "watch"] {
        assert_eq!(oversold(outcome, exact), 0, "{exact}: {}", outcome.call);
    }
}

/// A sale that is nobody's business, and everything that the server holds with it.
fn server() -> (TestRedis, impl Fn(&TestRedis)) {
    let redis = TestRedis::selling("1001", 50);
    let before = redis.dump_all();
    (redis, move |redis: &TestRedis| redis.assert_unchanged_since(&before))
}

#[test]
fn plain_reads_and_a_lock_that_ends_oversell_and_are_struck() {
    let (redis, unchanged) = server();
    let line = ["bench", "--yes", "--scenario", "short", "--orders", "400", "--users", "400", "--clients", "60"];
    let run = redis.seckill(line).args(["--strategy", "naive,lock,lua,batch,watch", "-o", "json"]).code(3);
    assert_exact(&run);
    assert!(oversold(&run, "naive") > 0 && oversold(&run, "lock") > 0, "{}", run.stdout);
    assert_eq!((&row(&run, "naive")["verdict"], &row(&run, "lock")["verdict"]), (&"fail".into(), &"fail".into()));
    let rows = run.json();
    let order: Vec<u64> = rows.as_array().unwrap().iter().map(|row| row["oversold"].as_u64().unwrap()).collect();
    assert!(order[..3] == [0, 0, 0] && order[3] > 0 && order[4] > 0, "who oversold comes last: {order:?}");
    run.stderr_has("naive sold").stderr_has("out of the ranking").stderr_has("lua: 400 orders were answered");
    unchanged(&redis);
}

#[test]
fn the_table_ranks_who_sold_no_more_than_there_was() {
    let (redis, unchanged) = server();
    let line = ["bench", "--yes", "--scenario", "short", "--orders", "300", "--users", "300", "--clients", "50"];
    let run = redis.seckill(line).args(["--strategy", "naive,lua"]).code(3);
    let lines: Vec<&str> = run.stdout.lines().collect();
    assert_eq!(lines[0], "short: service time in ms, closed loop of 50 clients, 300 orders");
    assert!(lines[3].starts_with("1  lua") && lines[3].ends_with("ok"), "{}", run.stdout);
    assert!(lines[4].starts_with("-  naive") && lines[4].ends_with("fail"), "{}", run.stdout);
    // A narrow terminal keeps the verdict.
    let narrow = redis.seckill(["bench", "--yes", "--orders", "20", "--clients", "4"]).env("COLUMNS", "80").code(0);
    narrow.stdout_has("ERRORS  OVERSOLD  VERDICT");
    unchanged(&redis);
}

#[test]
fn a_user_who_orders_again_and_again_keeps_the_limit_unless_orders_are_read_then_written() {
    let (redis, unchanged) = server();
    let line = ["bench", "--yes", "--scenario", "conflict", "--orders", "800", "--users", "1000", "--clients", "40"];
    let run = redis.seckill(line).args(["--strategy", "lua,batch,watch,naive", "-o", "json"]).code(3);
    for exact in ["lua", "batch"] {
        assert_eq!((oversold(&run, exact), &row(&run, exact)["errors"]), (0, &0.into()), "{exact}");
    }
    assert_eq!(oversold(&run, "watch"), 0);
    assert!(oversold(&run, "naive") > 0, "{}", run.stdout);
    // 10 users, 2 units each.
    run.stderr_has("lua: 800 orders were answered").stderr_has("ok 20, limit_exceeded 780").stderr_has("users' limits");
    unchanged(&redis);
}

#[test]
fn orders_of_several_activities_take_all_or_nothing() {
    let (redis, unchanged) = server();
    for (scenario, ended) in [("multi", "ok 200"), ("multi-short", "ok 20, out_of_stock 180")] {
        let line = ["bench", "--yes", "--orders", "200", "--users", "200", "--clients", "10", "-o", "json"];
        let run = redis.seckill(line).args(["--strategy", "lua,batch,watch,lock", "--scenario", scenario]).run();
        assert_exact(&run);
        let said = |name: &str| run.stderr.lines().find(|line| line.starts_with(&format!("note: {name}:"))).unwrap();
        assert!(said("lua").ends_with(ended) && said("batch").ends_with(ended), "{}", run.stderr);
    }
    unchanged(&redis);
}

#[test]
fn each_layout_is_sold_by_each_strategy() {
    let (redis, unchanged) = server();
    for layout in ["sku", "coupon", "product", "cluster"] {
        let line = ["bench", "--yes", "--scenario", "short", "--orders", "200", "--users", "200", "--clients", "30"];
        let run = redis.seckill(line).args(["-l", layout, "-o", "json", "--strategy", "lua,batch,watch,naive"]).run();
        assert_exact(&run);
        assert!(oversold(&run, "naive") > 0, "{layout}");
        run.stderr_has("batch: 200 orders were answered").stderr_has("ok 20, out_of_stock 180");
    }
    let line = ["bench", "--yes", "-l", "coupon", "--orders", "50", "--users", "10", "--clients", "5"];
    redis.seckill(line).code(0).stderr_has(": ok 50");
    redis
        .seckill(["bench", "--yes", "-l", "product", "--scenario", "conflict"])
        .code(2)
        .stderr_has("the layout `product` knows none");
    unchanged(&redis);
}

#[test]
fn on_a_cluster_all_primaries_sell_and_nothing_remains() {
    let cluster = TestCluster::start(3);
    for scenario in ["short", "multi-short"] {
        let line = ["bench", "--yes", "--orders", "600", "--users", "600", "--clients", "30", "-o", "json"];
        let run =
            cluster.seckill(line).args(["--strategy", "lua,batch,watch,lock,naive", "--scenario", scenario]).run();
        assert_exact(&run);
        // Each primary has 60 units.
        run.stderr_has("lua: 600 orders were answered").stderr_has("ok 180, out_of_stock 420");
    }
    for node in cluster.nodes() {
        assert_eq!(node.ask::<u64>(("DBSIZE",)), 0);
        let stats: String = node.ask(("INFO", "commandstats"));
        assert!(stats.contains("cmdstat_watch:"), "every primary was loaded: {stats}");
    }
    cluster
        .seckill(["bench", "--yes", "-l", "seckill", "--orders", "5"])
        .code(2)
        .stderr_has("layout `seckill` spreads an activity");
}
