//! What the server, the thresholds and the amount of orders may be.

use serde_json::Value;

use super::{row, server, wait_for_orders};
use crate::support::{TestRedis, seckill};

#[test]
fn the_server_must_be_named_and_loading_it_confirmed() {
    let (redis, unchanged) = server();
    seckill(["bench", "--yes"])
        .without_env("SECKILL_URL")
        .code(2)
        .stderr_has("a load test needs a server that is named")
        .stderr_has("--embedded");
    let question = "Load `unix://";
    redis
        .seckill(["bench"])
        .code(2)
        .stderr_has("needs confirmation, but stdin is no terminal: Load `unix://")
        .stderr_has("--yes");
    redis.seckill(["bench"]).at_terminal("n\n").code(1).stdout_has(question).stdout_has("nothing was changed");
    redis.seckill(["bench", "--orders", "5"]).at_terminal("y\n").code(0).stdout_has("1  lua");
    seckill(["bench", "--embedded", "--orders", "5", "--clients", "2"]).code(0).stdout_has("1  lua");
    unchanged(&redis);
}

#[test]
fn thresholds_decide_the_verdict_and_the_exit_code() {
    let redis = TestRedis::start();
    for (judge, verdict, code) in [("p99<1h:2h", "ok", 0), ("mean<1ns:1h", "warn", 0), ("p99.9<1ns:2ns", "fail", 3)] {
        let line = ["bench", "--yes", "--orders", "20", "--clients", "4", "-o", "json", "--judge", "p50<1h:2h"];
        let run = redis.seckill(line).args(["--judge", judge]).code(code);
        assert_eq!(row(&run, "lua")["verdict"], verdict, "{judge}");
    }
}

#[test]
fn a_row_has_the_fields_of_the_contract_in_every_format() {
    let redis = TestRedis::start();
    let fields = "strategy,qps,mean,p50,p90,p99,p99_9,errors,retries,oversold,verdict";
    let line = ["bench", "--yes", "--orders", "20", "--clients", "4"];
    let csv = redis.seckill(line).args(["-o", "csv"]).code(0);
    assert_eq!(csv.stdout.lines().next(), Some(fields));
    let json = redis.seckill(line).args(["-o", "json"]).code(0).stderr_has("enough: service time in ms, closed loop");
    let row = row(&json, "lua");
    assert!(fields.split(',').all(|field| row.get(field).is_some()) && row.as_object().unwrap().len() == 11, "{row}");
    assert!(row["p50"].as_f64().unwrap() <= row["p99_9"].as_f64().unwrap() && row["mean"].as_f64().unwrap() > 0.0);
}

#[test]
fn with_a_rate_a_pause_of_the_server_counts_for_every_order_that_should_have_started() {
    let redis = TestRedis::start();
    for strategy in ["lua", "batch"] {
        let line = ["bench", "--yes", "--rate", "200", "--orders", "200", "--clients", "1", "-o", "json"];
        let running = redis.seckill(line).args(["--strategy", strategy]).spawn();
        wait_for_orders(&redis);
        redis.freeze();
        std::thread::sleep(std::time::Duration::from_millis(400));
        redis.thaw();
        let run = running.wait().code(0).stderr_has("time in ms from the intended start, 200 orders a second");
        let row = row(&run, strategy);
        // One client has one order in flight: as service time, only that one would be slow.
        assert!(row["p90"].as_f64().unwrap() >= 100.0, "{row}");
        assert_eq!(row["errors"], 0);
    }
}

#[test]
fn orders_that_no_client_is_free_for_are_dropped_and_counted_as_errors() {
    let redis = TestRedis::start();
    let line = ["bench", "--yes", "--rate", "1000", "--duration", "1s", "--clients", "1", "--timeout", "300ms"];
    let running = redis.seckill(line).args(["-o", "json"]).spawn();
    wait_for_orders(&redis);
    redis.freeze();
    std::thread::sleep(std::time::Duration::from_millis(700));
    redis.thaw();
    let run = running.wait().code(3).stderr_has("orders dropped: no client was free in time");
    let row = row(&run, "lua");
    assert!(row["errors"].as_u64().unwrap() > 0 && row["verdict"] == "fail" && row["oversold"] == 0, "{row}");
    assert_eq!(redis.ask::<u64>(("DBSIZE",)), 0);
}

#[test]
fn a_duration_ends_each_strategy_in_time() {
    let redis = TestRedis::start();
    let line = ["bench", "--yes", "--duration", "200ms", "--clients", "8", "--strategy", "lua,batch", "-o", "json"];
    let run = redis.seckill(line).code(0);
    for strategy in ["lua", "batch"] {
        assert!(row(&run, strategy)["qps"].as_u64().unwrap() > 0, "{}", run.stdout);
        assert_ne!(row(&run, strategy)["p99"], Value::Null);
    }
}
