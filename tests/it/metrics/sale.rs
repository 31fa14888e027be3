//! What the metrics say of a sale.

use super::{assert_metrics_are_valid, metrics, samples};
use crate::support::{SECKILL, TestCluster, TestRedis, follow, seckill};

fn sale() -> TestRedis {
    let redis = TestRedis::start();
    redis.seckill(["preheat", "--id", "1", "--stock", "50", "--per-user-limit", "3"]).code(0);
    redis.seckill(["preheat", "--id", "2", "--stock", "5", "--ends-at", "2001-01-01"]).code(0);
    redis.seckill(["deduct", "1", "--user", "hidden-user", "--quantity", "3"]).code(0);
    redis
}

#[test]
fn stock_buyers_and_states_of_each_activity() {
    let redis = sale();
    redis.seckill(["pause", "1", "--withdraw-stock"]).code(0);
    let text = metrics(&redis, &["inspect"], 0);
    assert_metrics_are_valid(&text);
    for (family, expected) in [
        ("seckill_up", vec!["command=\"inspect\" 1"]),
        ("seckill_preheated_units", vec!["activity=\"1\" 50", "activity=\"2\" 5"]),
        ("seckill_stock_units", vec!["activity=\"1\" 47", "activity=\"2\" 5"]),
        ("seckill_withdrawn_units", vec!["activity=\"1\" 47", "activity=\"2\" 0"]),
        ("seckill_sold_units", vec!["activity=\"1\" 3", "activity=\"2\" 0"]),
        ("seckill_buyers", vec!["activity=\"1\" 1", "activity=\"2\" 0"]),
        ("seckill_user_limit_units", vec!["activity=\"1\" 3"]),
        ("seckill_end_timestamp_seconds", vec!["activity=\"2\" 978307200"]),
        ("seckill_ledger_entries_total", vec!["activity=\"1\" 3", "activity=\"2\" 1"]),
        ("seckill_replicas", vec![&format!("node=\"{}\" 0", redis.url())]),
    ] {
        assert_eq!(samples(&text, family), expected, "{family}");
    }
    let states = samples(&text, "seckill_activity_state");
    let on: Vec<&String> = states.iter().filter(|line| line.ends_with(" 1")).collect();
    assert_eq!(on, ["activity=\"1\",state=\"paused\" 1", "activity=\"2\",state=\"ended\" 1"]);
    assert_eq!(states.len(), 16);
    assert!(!text.contains("hidden-user"));
    // The same sale is the same text, but for times and counters.
    let again = metrics(&redis, &["inspect"], 0);
    let names = |text: &str| text.lines().map(|line| line.rsplit_once(' ').unwrap().0.to_owned()).collect::<Vec<_>>();
    assert_eq!(names(&text), names(&again));
}

#[test]
fn a_trimmed_ledger_has_as_many_entries_as_ever() {
    let redis = sale();
    let entries = |redis: &TestRedis| samples(&metrics(redis, &["inspect", "1"], 0), "seckill_ledger_entries_total");
    redis.seckill(["deduct", "1", "--user", "8"]).code(0);
    assert_eq!(entries(&redis), ["activity=\"1\" 3"]);
    redis.seckill(["ledger", "trim", "1", "--before", "1ms", "--yes"]).code(0);
    assert_eq!(redis.ask::<i64>(("XLEN", SECKILL.ledger("1"))), 1);
    assert_eq!(entries(&redis), ["activity=\"1\" 3"]);
}

#[test]
fn an_archived_activity_hides_no_entries_of_others() {
    let (redis, directory) = (TestRedis::start(), tempfile::tempdir().unwrap());
    let call = |line: &str| redis.seckill(["-l", "cluster"]).args(line.split(' ')).code(0);
    call("preheat --id a --stock 8 --shards 2");
    call("preheat --id b --stock 9");
    call("pause a");
    call(&format!("archive a --yes --to {}", directory.path().display()));
    let text = metrics(&redis, &["-l", "cluster", "inspect"], 0);
    assert_eq!(samples(&text, "seckill_ledger_entries_total"), ["activity=\"b\" 1"]);
}

#[test]
fn a_lag_that_is_not_known_is_left_out() {
    let redis = sale();
    let key = SECKILL.ledger("1");
    redis.cmd(("XGROUP", "CREATE", &key, "db", "0"));
    redis.cmd(["XREADGROUP", "GROUP", "db", "me", "COUNT", "1", "STREAMS", &key, ">"].as_slice());
    let text = metrics(&redis, &["inspect", "1"], 0);
    assert_metrics_are_valid(&text);
    let lag = samples(&text, "seckill_group_lag_entries");
    match redis.version() >= (7, 0, 0) {
        true => assert_eq!(lag, ["activity=\"1\",group=\"db\" 1"]),
        false => assert_eq!(lag, [""; 0]),
    }
    assert_eq!(samples(&text, "seckill_group_pending_entries"), ["activity=\"1\",group=\"db\" 1"]);
    assert_eq!(samples(&text, "seckill_group_waiting_seconds").len(), 1);
    // An entry in the middle is gone: nobody can count what is between.
    redis.cmd(("XADD", &key, "*", "op", "pause"));
    redis.cmd(("XDEL", &key, &redis.xrange(&key)[1].0));
    let text = metrics(&redis, &["inspect", "1"], 0);
    assert_eq!(samples(&text, "seckill_group_lag_entries"), [""; 0]);
    // Who may not ask learns nothing, and the rest is there.
    redis.cmd(&["ACL", "SETUSER", "default", "-info", "-xinfo", "-latency"]);
    let text = metrics(&redis, &["inspect", "1"], 0);
    assert_metrics_are_valid(&text);
    for family in [
        "seckill_group_pending_entries",
        "seckill_replicas",
        "seckill_script_calls_total",
        "seckill_script_duration_seconds_count",
    ] {
        assert_eq!(samples(&text, family), [""; 0], "{family}");
    }
    assert_eq!(samples(&text, "seckill_stock_units"), ["activity=\"1\" 47"]);
}

#[test]
fn scripts_of_all_callers_are_counted_with_how_long_they_took() {
    let redis = sale();
    redis.cmd(("CONFIG", "RESETSTAT"));
    for _ in 0..3 {
        redis.cmd(("EVAL", "return 1", 0));
    }
    _ = redis.try_ask::<i64>(("EVAL", "return redis.error_reply('no')", 0));
    let text = metrics(&redis, &["inspect", "1"], 0);
    let number = |family: &str| -> f64 { samples(&text, family)[0].rsplit_once(' ').unwrap().1.parse().unwrap() };
    assert!(number("seckill_script_calls_total") >= 5.0, "{text}");
    assert!((1.0..3.0).contains(&number("seckill_script_failures_total")), "{text}");
    if redis.version() < (7, 0, 0) {
        assert_eq!(samples(&text, "seckill_script_duration_seconds_count"), [""; 0]);
        return;
    }
    assert!(number("seckill_script_duration_seconds_count") >= 5.0);
    assert!(number("seckill_script_duration_seconds_sum") > 0.0);
    let buckets: Vec<u64> = samples(&text, "seckill_script_duration_seconds_bucket")
        .iter()
        .map(|line| line.rsplit_once(' ').unwrap().1.parse().unwrap())
        .collect();
    assert!(buckets.is_sorted() && buckets.len() == 18, "{buckets:?}");
    // The server's own bounds, of calls from microseconds to a tenth of a second, are those of the buckets.
    for steps in [1, 1_000, 10_000, 100_000, 1_000_000, 10_000_000] {
        redis.cmd(("EVAL", format!("for i = 1, {steps} do end"), 0));
    }
    let text = metrics(&redis, &["inspect", "1"], 0);
    let histogram = redis.ask::<Vec<redis::Value>>(("LATENCY", "HISTOGRAM", "eval"));
    let [_, redis::Value::Array(fields)] = &histogram[..] else { panic!("{histogram:?}") };
    let Some(redis::Value::Array(counted)) = fields.last() else { panic!("{fields:?}") };
    assert!(counted.len() >= 8, "{counted:?}");
    for bound in counted.chunks(2) {
        let redis::Value::Int(micros) = bound[0] else { panic!("{bound:?}") };
        if micros >= 16 {
            assert!(text.contains(&format!("le=\"{}\"", micros as f64 / 1e6)), "{micros}\n{text}");
        }
    }
}

#[test]
fn durations_that_are_not_tracked_are_left_out_and_rejected_calls_count() {
    let redis = TestRedis::start();
    if redis.version() < (7, 0, 0) {
        return;
    }
    redis.config_set("latency-tracking", "no");
    redis.seckill(["preheat", "--id", "1", "--stock", "50"]).code(0);
    let text = metrics(&redis, &["inspect"], 0);
    assert!(!text.contains("seckill_script_duration_seconds_count{"), "{text}");
    redis.cmd(("CONFIG", "RESETSTAT"));
    (0..20).for_each(|_| _ = redis.try_ask::<i64>(("EVAL", "return 1")));
    let text = metrics(&redis, &["inspect", "1"], 0);
    let number = |family: &str| -> u64 { samples(&text, family)[0].rsplit_once(' ').unwrap().1.parse().unwrap() };
    let [calls, failures] = ["calls", "failures"].map(|what| number(&format!("seckill_script_{what}_total")));
    assert!(failures == 20 && calls > 20, "{text}");
}

#[test]
fn a_server_has_one_name_in_all_labels_without_a_login() {
    let primary = TestRedis::with_tcp(["--repl-diskless-sync-delay", "0"]);
    let replica = TestRedis::start();
    follow(&replica, &primary);
    primary.cmd(&["ACL", "SETUSER", "ops", "on", ">secret", "~*", "&*", "+@all"]);
    let place = format!("127.0.0.1:{}", primary.port().unwrap());
    let text = || {
        let url = format!("redis://ops:secret@{place}/1");
        primary.seckill(["inspect", "-o", "prometheus", "-u", &url]).code(0).stdout
    };
    crate::support::wait_until("it has acknowledged", || text().contains("seckill_replica_lag_bytes{"));
    let text = text();
    assert!(!text.contains("ops") && !text.contains('@') && !text.contains("***"), "{text}");
    assert!(text.contains(&format!("seckill_up{{server=\"redis://{place}/1\",layout=\"seckill\",")), "{text}");
    assert_eq!(samples(&text, "seckill_replicas"), [format!("node=\"redis://{place}\" 1")]);
    let lag = &samples(&text, "seckill_replica_lag_bytes")[0];
    assert!(lag.starts_with(&format!("node=\"redis://{place}\",replica=\"redis://")), "{lag}");
}

#[test]
fn each_primary_of_a_cluster_is_a_node() {
    let cluster = TestCluster::start(3);
    let id = cluster.activity_on(2, "m");
    cluster.seckill(["preheat", "--id", &id, "--stock", "5"]).code(0);
    let text = cluster.seckill(["inspect", "-o", "prometheus"]).code(0).stdout;
    assert_metrics_are_valid(&text);
    assert_eq!(samples(&text, "seckill_replicas").len(), 3);
    assert_eq!(samples(&text, "seckill_stock_units"), [format!("activity=\"{id}\" 5")]);
    // Each asks the first node first, and with the SHA-1 alone.
    for user in ["a", "b", "c"] {
        seckill(["-l", "cluster", "-u", &cluster.node(0).url(), "deduct", &id, "--user", user]).code(0);
    }
    let text = cluster.seckill(["inspect", "-o", "prometheus"]).code(0).stdout;
    let failures = samples(&text, "seckill_script_failures_total");
    assert!(failures.len() == 3 && failures.iter().all(|sample| sample.ends_with(" 0")), "{text}");
}

#[test]
fn an_audit_says_what_differs_and_ends_as_ever() {
    let redis = sale();
    let text = metrics(&redis, &["reconcile"], 0);
    assert_metrics_are_valid(&text);
    assert_eq!(samples(&text, "seckill_reconcile_match"), ["activity=\"1\" 1", "activity=\"2\" 1"]);
    redis.cmd(("INCRBY", SECKILL.stock("1"), 4));
    redis.cmd(("HINCRBY", SECKILL.participants("1"), "hidden-user", 2));
    let text = metrics(&redis, &["reconcile", "1"], 7);
    assert_metrics_are_valid(&text);
    assert_eq!(samples(&text, "seckill_reconcile_match"), ["activity=\"1\" 0"]);
    let has =
        |family: &str, sample: &str| assert!(samples(&text, family).contains(&sample.to_owned()), "{sample}\n{text}");
    has("seckill_reconcile_verdict", "activity=\"1\",verdict=\"drift\" 1");
    has("seckill_reconcile_verdict", "activity=\"1\",verdict=\"match\" 0");
    has("seckill_drift_units", "activity=\"1\",class=\"counter_drift\" 2");
    has("seckill_drift_differences", "activity=\"1\",class=\"over_limit\" 1");
    has("seckill_drift_differences", "activity=\"1\",class=\"lost_tail\" 0");
    // The limit is no side of a comparison.
    assert!(!samples(&text, "seckill_drift_units").iter().any(|line| line.contains("over_limit")));
    assert!(!text.contains("hidden-user"));
    // A server that answered, and has nothing to audit, is up.
    let empty = TestRedis::start();
    empty
        .seckill(["reconcile", "-o", "prometheus"])
        .code(3)
        .stdout_has("seckill_up{")
        .stdout_lacks("seckill_reconcile_match");
}
