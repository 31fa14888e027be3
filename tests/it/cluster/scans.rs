//! A scan never continues on another node or connection: nobody is left out, and nobody is shown twice.

use std::collections::HashSet;

use crate::support::{CLUSTER, Running, TestCluster, wait_until};

const USERS: usize = 60_000;

/// An activity that this many users bought outside the scripts: it has no ledger.
fn bought(cluster: &TestCluster, node: usize) -> String {
    let activity = cluster.activity_on(node, "a");
    let args = ["preheat", "--from", "-", "--yes"];
    cluster.seckill(args).stdin(format!("id,stock,ledger\n{activity},100000,false\n")).code(0);
    let participants = CLUSTER.participants(&activity);
    let fill = "for i = 1, tonumber(ARGV[1]) do redis.call('HSET', KEYS[1], 'user-' .. i, '1') end return redis.call('DECRBY', KEYS[2], ARGV[1])";
    let _: i64 = cluster.ask(&participants, ("EVAL", fill, 2, &participants, CLUSTER.stock(&activity), USERS));
    activity
}

fn all_once(running: Running, activity: &str) {
    let outcome = running.wait().code(0);
    let prefix = format!("{activity},user-");
    let users: Vec<&str> = outcome.stdout.lines().filter_map(|line| line.strip_prefix(&prefix)).collect();
    let distinct: HashSet<&str> = users.iter().copied().collect();
    assert_eq!((users.len(), distinct.len()), (USERS, USERS));
}

#[test]
fn a_slot_that_moves_during_a_scan_leaves_nobody_out() {
    let cluster = TestCluster::start(3);
    let activity = bought(&cluster, 0);
    let slot = cluster.slot_of(&activity);
    for to in [1, 2] {
        let scan = cluster.seckill(["inspect", &activity, "--all", "-o", "csv"]).spawn();
        scan.wait_for_stdout("user-");
        cluster.move_slot(slot, to);
        all_once(scan, &activity);
    }
    let audit = cluster.seckill(["reconcile", &activity, "--total", "100000", "-o", "json"]).spawn();
    cluster.move_slot(slot, 0);
    let audit = audit.wait().code(0).json();
    assert_eq!(audit["activities"][0]["bought"], USERS, "{audit}");
}

#[test]
fn a_failover_during_a_scan_leaves_nobody_out() {
    let mut cluster = TestCluster::with_replicas(3);
    let activity = bought(&cluster, 1);
    let primary = cluster.node(1).ask::<Vec<redis::Value>>("ROLE")[1].clone();
    wait_until("the replica has it", || cluster.node(4).ask::<Vec<redis::Value>>("ROLE")[4] == primary);
    let scan = cluster.seckill(["inspect", &activity, "--all", "-o", "csv"]).spawn();
    scan.wait_for_stdout("user-");
    cluster.kill_primary(1);
    all_once(scan, &activity);
    cluster.seckill(["inspect", "--scan"]).code(0).stdout_has(&activity);
}
