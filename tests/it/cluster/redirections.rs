//! Where an order goes: the first guess, one `MOVED`, a slot that is moving, a primary that is gone.

use crate::support::{TestCluster, TestRedis, seckill};

/// How often a node was asked to run a script, and for the map, since its statistics were reset.
fn calls(node: &TestRedis) -> (u64, bool) {
    let stats: String = node.ask(("INFO", "commandstats"));
    let scripts = stats.lines().find_map(|line| line.strip_prefix("cmdstat_evalsha:calls="));
    let scripts = scripts.map_or(0, |rest| rest.split(',').next().unwrap().parse().unwrap());
    (scripts, stats.contains("cluster|slots") || stats.contains("cmdstat_cluster:"))
}

/// The seeds from a node on.
fn seeds(cluster: &TestCluster, order: &[usize]) -> String {
    let seeds: Vec<String> =
        order.iter().map(|nth| format!("127.0.0.1:{}", cluster.node(*nth).port().unwrap())).collect();
    format!("redis://{}", seeds.join(","))
}

fn reset(cluster: &TestCluster) {
    cluster.nodes().iter().for_each(|node| drop(node.cmd(("CONFIG", "RESETSTAT"))));
}

#[test]
fn an_order_reads_no_map_and_follows_one_moved() {
    let cluster = TestCluster::start(3);
    cluster.seckill(["script", "load"]).code(0);
    for node in 0..3 {
        let activity = cluster.activity_on(node, "a");
        cluster.seckill(["preheat", "--stock", "10", "--id", &activity]).code(0);
        for (order, others) in [([0, 1, 2], 0), ([2, 1, 0], 1), ([1, 2, 0], 1)] {
            let expected = if order[node] == node { 0 } else { others };
            reset(&cluster);
            let call = cluster.seckill(["deduct", &activity, "--user", "7", "-u", &seeds(&cluster, &order)]);
            call.code(0);
            let all: Vec<(u64, bool)> = cluster.nodes().iter().map(calls).collect();
            assert_eq!(all.iter().map(|(scripts, _)| scripts).sum::<u64>(), 1, "{order:?} {all:?}");
            assert_eq!(all[node].0, 1, "the owner ran it, after {expected} redirections");
            assert!(all.iter().all(|(_, has_map)| !has_map), "{order:?} {all:?}");
        }
    }
}

#[test]
fn one_seed_is_enough_and_needs_no_flag() {
    let cluster = TestCluster::start(3);
    for node in 0..3 {
        let url = seeds(&cluster, &[node]);
        for owner in 0..3 {
            let activity = cluster.activity_on(owner, &format!("from{node}-"));
            seckill(["preheat", "--stock", "10", "--id", &activity, "-u", &url, "-l", "cluster"]).code(0);
            seckill(["deduct", &activity, "--user", "7", "-u", &url, "-l", "cluster"]).code(0);
        }
    }
    let rows = cluster.seckill(["inspect", "-o", "jsonl", "-u", &seeds(&cluster, &[2])]).code(0).jsonl();
    assert_eq!(rows.len(), 9);
    assert!(rows.iter().all(|row| row["stock"] == 9), "{rows:?}");
}

#[test]
fn a_moved_without_a_host_means_the_host_that_sent_it() {
    let cluster = TestCluster::start(3);
    if cluster.node(0).version() < (7, 0, 0) {
        eprintln!("skipped: this server always names the host");
        return;
    }
    cluster.nodes().iter().for_each(|node| node.config_set("cluster-preferred-endpoint-type", "unknown-endpoint"));
    let activity = cluster.activity_on(2, "a");
    let url = seeds(&cluster, &[0]);
    cluster.seckill(["preheat", "--stock", "10", "--id", &activity, "-u", &url]).code(0);
    cluster.seckill(["deduct", &activity, "--user", "7", "-u", &url]).code(0);
    cluster.seckill(["inspect", "--scan", "-u", &url]).code(0).stdout_has(&activity);
}

#[test]
fn a_seed_that_is_down_is_passed_over() {
    let cluster = TestCluster::start(3);
    let activity = cluster.activity_on(0, "a");
    cluster.seckill(["preheat", "--stock", "10", "--id", &activity]).code(0);
    // The guess for the first slots is the first seed, where nobody listens.
    let url = seeds(&cluster, &[1, 2]).replace("redis://", "redis://127.0.0.1:1,");
    cluster.seckill(["deduct", &activity, "--user", "7", "-u", &url]).code(0);
    cluster.seckill(["inspect", "--scan", "-u", &url]).code(0).stdout_has(&activity);
}

#[test]
fn keys_that_moved_already_are_asked_for_at_their_new_node() {
    let cluster = TestCluster::start(3);
    let activity = cluster.activity_on(0, "a");
    let slot = cluster.slot_of(&activity);
    cluster.seckill(["preheat", "--stock", "10", "--id", &activity]).code(0);
    // Participants and requests, so that no key is absent.
    cluster.seckill(["deduct", &activity, "--user", "7", "--request", "r1"]).code(0);
    cluster.begin_move(slot, 1);
    cluster.seckill(["deduct", &activity, "--user", "7"]).code(0);
    cluster.move_keys(slot, 0, 1, usize::MAX);
    for line in
        ["deduct ID --user 8", "refund ID --user 8", "inspect ID", "inspect ID --all", "reconcile ID", "ledger ID"]
    {
        cluster.seckill(["-v"]).args(line.replace("ID", &activity).split(' ')).code(0);
    }
    // The new node never got the script's text before: it is loaded there, after ASKING too.
    cluster.node(1).cmd(("SCRIPT", "FLUSH"));
    cluster.seckill(["deduct", &activity, "--user", "8"]).code(0);
    assert_eq!(cluster.node(1).ask::<i64>(("CLUSTER", "COUNTKEYSINSLOT", slot)), 5, "all of them");
    cluster.end_move(slot, 0, 1);
    let rows = cluster.seckill(["inspect", &activity, "-o", "jsonl"]).code(0).jsonl();
    assert_eq!(rows[0]["stock"], 7);
}

#[test]
fn a_call_waits_while_only_some_keys_have_moved() {
    let cluster = TestCluster::start(3);
    let cases: [(&str, usize); 3] = [("no-requests", 0), ("one-moved", 1), ("most-moved", 4)];
    for (name, moved) in cases {
        let activity = cluster.activity_on(0, name);
        let slot = cluster.slot_of(&activity);
        cluster.seckill(["preheat", "--stock", "10", "--id", &activity]).code(0);
        if moved > 0 {
            cluster.seckill(["deduct", &activity, "--user", "7", "--request", "r1"]).code(0);
        }
        cluster.begin_move(slot, 1);
        cluster.move_keys(slot, 0, 1, moved);
        reset(&cluster);
        let waiting = cluster.seckill(["deduct", &activity, "--user", "8", "-o", "json"]).spawn();
        let tried =
            || cluster.nodes()[..2].iter().any(|node| node.ask::<String>(("INFO", "errorstats")).contains("TRYAGAIN"));
        if cluster.node(0).version() >= (6, 2, 0) {
            crate::support::wait_until("it was asked to try again", tried);
        }
        cluster.move_keys(slot, 0, 1, usize::MAX);
        cluster.end_move(slot, 0, 1);
        let outcome = waiting.wait().code(0).json();
        assert_eq!(outcome["status"], "ok", "{name}: {outcome}");
    }
}

#[test]
fn an_order_waits_for_the_failover_of_a_primary_that_was_killed() {
    let mut cluster = TestCluster::with_replicas(3);
    let activity = cluster.activity_on(1, "a");
    cluster.seckill(["preheat", "--stock", "10", "--id", &activity]).code(0);
    cluster.seckill(["deduct", &activity, "--user", "7"]).code(0);
    let primary = cluster.node(1).ask::<Vec<redis::Value>>("ROLE")[1].clone();
    crate::support::wait_until("the replica has it", || cluster.node(4).ask::<Vec<redis::Value>>("ROLE")[4] == primary);
    cluster.node_mut(1).kill9();
    // The promoted replica has none of the scripts that were loaded by their SHA-1 alone.
    let outcome = cluster.seckill(["deduct", &activity, "--user", "8", "-o", "json"]).code(0).json();
    assert_eq!((&outcome["status"], &outcome["stock"]), (&"ok".into(), &8.into()));
    cluster.seckill(["reconcile", &activity]).code(0);
}
