//! A preheat of shards over a failover of the node that has the parent: what is not on a replica yet was not begun.

use super::sharded::fixture;
use crate::support::{CLUSTER, Call, TestCluster};

/// A command in the layout `cluster` whose output is JSON.
fn call(cluster: &TestCluster, line: &str, total: u64) -> Call {
    cluster.seckill(["-o", "json"]).args(line.split(' ')).stdin(fixture(total, 3))
}

/// Units that the shards, and the parent, say that there are.
fn totals(cluster: &TestCluster) -> (u64, u64) {
    let total = |activity: &str| {
        let meta = CLUSTER.meta(activity);
        let rules: String = cluster.ask(&meta, &["HGET", &meta, "rules"][..]);
        rules.split(' ').nth(4).unwrap().parse::<u64>().unwrap()
    };
    let meta = CLUSTER.meta("1001");
    let shards: String = cluster.ask(&meta, &["HGET", &meta, "shards"][..]);
    (shards.split(' ').map(|number| total(&format!("1001#{number}"))).sum(), total("1001"))
}

#[test]
fn an_update_that_no_replica_knows_changes_no_shard() {
    let mut cluster = TestCluster::with_replicas(3);
    call(&cluster, "preheat -", 30).code(0);
    let node = cluster.owner_of("1001");
    cluster.cut_replication(node);
    let refused = call(&cluster, "preheat - --update --timeout 1s", 60).code(1);
    let error = refused.error_json();
    assert!(error["error"].as_str().unwrap().contains("no replica of `1001` confirmed"), "{error}");
    assert_eq!(totals(&cluster), (30, 30));
    let plan: Option<String> = cluster.ask(&CLUSTER.meta("1001"), &["HGET", &CLUSTER.meta("1001"), "plan"][..]);
    assert!(plan.is_some(), "the primary has the plan");

    cluster.node_mut(node).kill9();
    cluster.take_over(node + 3);
    call(&cluster, "preheat - --update", 60).code(0);
    assert_eq!(totals(&cluster), (60, 60));
    call(&cluster, "reconcile 1001", 60).code(0);
}

#[test]
fn no_update_begins_while_shards_and_parent_differ() {
    let cluster = TestCluster::start(3);
    call(&cluster, "preheat -", 30).code(0);
    // As after a failover that lost what the parent said.
    let meta = CLUSTER.meta("1001");
    let rules: String = cluster.ask(&meta, &["HGET", &meta, "rules"][..]);
    let _: i64 = cluster.ask(&meta, &["HSET", &meta, "rules", &rules.replace(" 30 ", " 20 ")][..]);
    let refused = call(&cluster, "preheat - --update", 60).code(1);
    let error = refused.error_json();
    assert!(error["error"].as_str().unwrap().contains("its shards have 30 units in all, and it has 20"), "{error}");
    assert_eq!(totals(&cluster), (30, 20));
}
