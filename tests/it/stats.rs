//! What servers say about themselves, as the store reads it: INFO, and how far consumer groups are behind.

use std::time::Duration;

use seckill::Layout;
use seckill::Store;
use seckill::StoreError;
use seckill::Target;
use seckill::internals::{self, Info, Role, Section};

use crate::support::{TestCluster, TestRedis};

const ALL: [Section; 5] =
    [Section::Server, Section::Replication, Section::CommandStats, Section::LatencyStats, Section::ErrorStats];

fn store(url: &str, layout: Layout) -> Store {
    Store::new(Target::new(url, "the test", Duration::from_secs(5)).unwrap(), layout, "test".to_owned())
}

fn info(store: &mut Store) -> Info {
    internals::info(store, &ALL).unwrap().remove(0).info.unwrap()
}

/// Whether the server sends percentiles and lags: Redis 6.2 does not.
fn is_new(redis: &TestRedis) -> bool {
    !redis.ask::<String>(("INFO", "latencystats")).is_empty()
}

#[test]
fn counters_of_scripts_are_those_of_all_callers() {
    let redis = TestRedis::start();
    let mut store = store(&redis.url(), Layout::Seckill);
    let before = info(&mut store);
    assert!(before.product().is_some() && before.role() == Some(Role::Primary));
    redis.cmd(("EVAL", "return 1", 0));
    _ = redis.try_ask::<String>(("EVAL", "return redis.error_reply('MINE no')", 0));
    let after = info(&mut store);
    assert!(after.continues(&before) && !before.continues(&after));
    let scripts = after.scripts().unwrap().since(before.scripts().unwrap()).unwrap();
    assert_eq!((scripts.calls, scripts.failed), (2, 1));
    assert_eq!(after.errors().find(|(name, _)| *name == "MINE"), Some(("MINE", 1)));
    let latency = after.script_latency();
    assert_eq!(latency.is_some(), is_new(&redis));
    assert!(latency.is_none_or(|latency| latency.usec(99.9).unwrap() > 0.0));
    redis.cmd(("CONFIG", "RESETSTAT"));
    redis.cmd(("EVAL", "return 1", 0));
    assert!(!info(&mut store).continues(&after));
}

#[test]
fn who_may_not_ask_is_refused_and_a_dead_server_is_named() {
    let mut redis = TestRedis::start();
    redis.cmd(["ACL", "SETUSER", "default", "-info"].as_slice());
    let mut store = store(&redis.url(), Layout::Seckill);
    for _ in 0..2 {
        let found = internals::info(&mut store, &ALL).unwrap().remove(0);
        assert!(matches!(found.info, Err(StoreError::Permission { .. })), "{found:?}");
    }
    // The connection is in step.
    assert!(internals::preheated(&mut store).unwrap().is_empty());
    redis.stop();
    let found = internals::info(&mut store, &ALL).unwrap().remove(0);
    assert!(matches!(found.info, Err(StoreError::Unreachable { .. })) && found.server.contains("redis.sock"));
}

#[test]
fn each_primary_of_a_cluster_says_its_own() {
    let cluster = TestCluster::start(3);
    let mut store = store(&cluster.url(), Layout::Cluster);
    let found = internals::info(&mut store, &ALL).unwrap();
    let ids: std::collections::BTreeSet<String> =
        found.iter().map(|node| node.info.as_ref().unwrap().text("run_id").unwrap().to_owned()).collect();
    assert_eq!((found.len(), ids.len()), (3, 3));
    assert!(found.iter().all(|node| node.server.starts_with("redis://127.0.0.1:")), "{found:?}");
}

#[test]
fn a_group_is_behind_by_what_it_did_not_acknowledge() {
    let redis = TestRedis::start();
    let mut store = store(&redis.url(), Layout::Seckill);
    let activities = ["a", "b", "gone"].map(|id| id.parse().unwrap());
    for id in ["a", "b"] {
        redis.seckill(["preheat", "--id", id, "--stock", "5"]).code(0);
    }
    redis.cmd(("XGROUP", "CREATE", "seckill:ledger:a", "db", 0));
    redis.seckill(["deduct", "a", "--user", "7"]).code(0);
    redis.cmd(["XREADGROUP", "GROUP", "db", "c", "COUNT", "1", "STREAMS", "seckill:ledger:a", ">"].as_slice());
    let groups = internals::groups(&mut store, &activities).unwrap();
    assert_eq!((groups[0].len(), groups[1].len(), groups[2].len()), (1, 0, 0));
    let group = &groups[0][0];
    assert_eq!((group.name.as_str(), group.pending), ("db", 1));
    assert_eq!(group.behind(), is_new(&redis).then_some(2));
}
