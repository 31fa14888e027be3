//! Every command does on a cluster what it does on one server.

use std::io::Write;
use std::time::{Duration, Instant};

use crate::support::{CLUSTER, TestCluster, wait_until};

#[test]
fn a_sale_runs_from_preheat_to_repair() {
    let cluster = TestCluster::start(3);
    let ids: Vec<String> = (0..3).map(|node| cluster.activity_on(node, "100")).collect();
    for id in &ids {
        cluster.seckill(["preheat", "--stock", "50", "--per-user-limit", "3", "--id", id]).code(0);
        cluster.seckill(["deduct", id, "--user", "7", "--quantity", "2", "--request", "r1"]).code(0);
        cluster
            .seckill(["deduct", id, "--user", "7", "--quantity", "2", "--request", "r1"])
            .code(0)
            .stdout_has("replayed");
        cluster.seckill(["deduct", id, "--user", "7", "--quantity", "2"]).code(3).stdout_has("limit_exceeded");
        cluster.seckill(["refund", id, "--user", "7", "--quantity", "1", "--reason", "wrong size"]).code(0);
        cluster.seckill(["pause", id, "--withdraw-stock"]).code(0).stdout_has("paused");
        cluster.seckill(["deduct", id, "--user", "8"]).code(3);
        cluster.seckill(["resume", id]).code(0).stdout_has("live");
        cluster.seckill(["hold", id, "--user", "9", "--for", "15m", "--request", "h"]).code(0);
        cluster.seckill(["confirm", id, "--request", "h"]).code(0);
        cluster.seckill(["hold", id, "--user", "9", "--for", "1ms", "--request", "late"]).code(0);
        cluster.seckill(["preheat", "--stock", "60", "--id", id, "--update", "--yes"]).code(0);
        cluster.seckill(["inspect", id, "--user", "7", "-o", "csv"]).code(0).stdout_has(&format!("{id},7,1,"));
    }
    let mut rows = Vec::new();
    wait_until("what is held until a millisecond later is over", || {
        cluster.seckill(["expire"]).code(0);
        rows = cluster.seckill(["inspect", "-o", "jsonl"]).code(0).jsonl();
        rows.iter().all(|row| row["held"] == 0)
    });
    assert_eq!(rows.len(), 3);
    assert!(rows.iter().all(|row| row["stock"] == 58), "{rows:?}");
    let ledger = cluster.seckill(["ledger", "--all", "-o", "jsonl"]).code(0).jsonl();
    assert_eq!(ledger.iter().filter(|row| row["op"] == "deduct").count(), 3);
    cluster.seckill(["reconcile"]).code(0);
    // A write outside the scripts is found, and repaired.
    for id in &ids {
        let participants = CLUSTER.participants(id);
        let _: i64 = cluster.ask(&participants, ("HSET", &participants, "8", 5));
    }
    cluster.seckill(["reconcile", "-o", "json"]).code(7);
    cluster.seckill(["reconcile", "--fix", "--yes"]).code(0);
    cluster.seckill(["reconcile"]).code(0);
    for id in &ids {
        cluster.seckill(["ledger", "trim", id, "--before", "0s", "--yes"]).code(0);
    }
    cluster.seckill(["reconcile"]).code(0);
    cluster.seckill(["preheat", "--stock", "5", "--id", &ids[1], "--reset", "--yes"]).code(0);
    cluster.seckill(["inspect", &ids[1], "-o", "json"]).code(0).stdout_has("\"stock\":5");
}

#[test]
fn many_activities_take_one_pipeline_a_node() {
    let cluster = TestCluster::start(3);
    let mut list = tempfile::NamedTempFile::new().unwrap();
    writeln!(list, "id,stock").unwrap();
    (1..=300).for_each(|id| writeln!(list, "{id},10").unwrap());
    let path = list.path().to_str().unwrap();
    cluster.seckill(["preheat", "--from", path, "--yes"]).code(0);
    assert_eq!(cluster.seckill(["inspect", "-o", "jsonl"]).code(0).jsonl().len(), 300);
    // Each node has a third of them, and the index is whole.
    let index: i64 = cluster.ask(CLUSTER.index, ("SCARD", CLUSTER.index));
    assert_eq!(index, 300);
    for node in cluster.nodes() {
        let keys: i64 = node.ask("DBSIZE");
        assert!(keys > 200, "{keys}");
    }
    // Without the index, a scan of all primaries finds them.
    let _: i64 = cluster.ask(CLUSTER.index, ("DEL", CLUSTER.index));
    cluster.seckill(["inspect"]).code(0).stdout_lacks("300");
    assert_eq!(cluster.seckill(["inspect", "--scan", "-o", "jsonl"]).code(0).jsonl().len(), 300);
}

#[test]
fn scripts_are_loaded_into_every_primary() {
    let cluster = TestCluster::start(3);
    let rows = cluster.seckill(["script", "load", "-o", "jsonl"]).code(0).jsonl();
    for node in cluster.nodes() {
        for row in &rows {
            let loaded: Vec<bool> = node.ask(("SCRIPT", "EXISTS", row["sha1"].as_str().unwrap()));
            assert_eq!(loaded, [true], "{row}");
        }
    }
}

#[test]
fn a_feed_follows_ledgers_of_all_nodes_but_one_that_is_corrupt() {
    let cluster = TestCluster::start(3);
    let ids: Vec<String> = (0..3).map(|node| cluster.activity_on(node, "a")).collect();
    for id in &ids {
        cluster.seckill(["preheat", "--stock", "50", "--id", id]).code(0);
    }
    let follow = cluster.seckill(["ledger", "--all", "--follow", "-o", "jsonl"]).spawn();
    let group = cluster.seckill(["ledger", "--all", "--follow", "--group", "loader", "-o", "jsonl"]).spawn();
    for id in &ids {
        follow.wait_for_stdout(&format!("\"{id}\""));
        group.wait_for_stdout(&format!("\"{id}\""));
    }
    for id in &ids {
        cluster.seckill(["deduct", id, "--user", "7", "--request", &format!("late-{id}")]).code(0);
        follow.wait_for_stdout(&format!("late-{id}"));
        group.wait_for_stdout(&format!("late-{id}"));
    }
    let _: () = cluster.ask(&CLUSTER.ledger(&ids[0]), ("SET", CLUSTER.ledger(&ids[0]), "x"));
    cluster.seckill(["deduct", &ids[1], "--user", "7", "--request", "latest"]).code(0);
    for running in [follow, group] {
        running.wait_for_stdout("latest");
        running.interrupt().stderr_has(&format!("`{}` is corrupt: key `{}`", ids[0], CLUSTER.ledger(&ids[0])));
    }
}

/// The shards of an activity that living nodes serve, once node 2 is down.
fn living_shards(cluster: &TestCluster, activity: &str) -> Vec<String> {
    let meta = CLUSTER.meta(activity);
    let numbers: String = cluster.ask(&meta, ("HGET", &meta, "shards"));
    let shards = numbers.split(' ').map(|number| format!("{activity}#{number}"));
    shards.filter(|shard| cluster.owner_of(shard) != 2).collect()
}

#[test]
fn living_nodes_are_preheated_paused_and_expired_though_one_is_down() {
    let mut cluster = TestCluster::with(3, false, &["--cluster-require-full-coverage", "no"]);
    let [lost, also_lost, lost_parent] = ["a", "b", "c"].map(|prefix| cluster.activity_on(2, prefix));
    let [first, parent, second, moving] =
        [(0, "d"), (0, "e"), (1, "f"), (0, "g")].map(|(node, prefix)| cluster.activity_on(node, prefix));
    for id in [&lost, &also_lost, &first, &second, &moving] {
        cluster.seckill(["preheat", "--id", id, "--stock", "5"]).code(0);
    }
    for id in [&parent, &lost_parent] {
        cluster.seckill(["preheat", "--id", id, "--stock", "40", "--shards", "8"]).code(0);
    }
    let shards = [&parent, &lost_parent].map(|id| living_shards(&cluster, id)).concat();
    cluster.kill_primary(2);
    let sale = format!("activities: [{{id: {lost}, stock: 6}}, {{id: {first}, stock: 6}}]");
    let updated =
        cluster.seckill(["preheat", "-", "--update", "-o", "json", "--timeout", "300ms"]).stdin(&sale).code(5);
    assert_eq!(updated.stderr_has(&format!("not reached, and as before: `{lost}`")).json()[0]["stock"], 6);
    let expire = ["expire", &lost, &first, "-o", "jsonl", "--timeout", "300ms"];
    let hold = || cluster.seckill(["hold", &first, "--user", "7", "--for", "1ms"]).code(0);
    hold();
    // Nor is a node given up because it has some keys of one slot, and another node the others.
    let slot = cluster.slot_of(&moving);
    cluster.begin_move(slot, 1);
    cluster.move_keys(slot, 0, 1, 1);
    let service =
        cluster.seckill([]).args([&expire[..2], &[&moving], &expire[2..], &["--every", "10ms"]].concat()).spawn();
    service.wait_for_stdout("\"holds\":1");
    service.interrupt().stderr_has(&format!("`{lost}`: cannot reach the server at"));
    hold();
    let expiring = cluster.seckill(expire).spawn();
    let began = Instant::now();
    let call = cluster.seckill(["pause", "-o", "json", "--timeout", "300ms"]);
    let paused = call.args([&lost, &first, &also_lost, &parent, &lost_parent, &second]).code(5);
    assert!(began.elapsed() < Duration::from_secs(60), "a node that is down is waited for once");
    paused.json().as_array().unwrap().iter().zip([&first, &second]).for_each(|(row, id)| {
        assert_eq!((&row["activity"], &row["state"]), (&id.as_str().into(), &"paused".into()));
    });
    let lost_ones = format!("`{lost}`, `{also_lost}`, `{parent}`, `{lost_parent}`: cannot reach the server at");
    paused.stderr_has(&lost_ones).stderr_has(&format!("`{parent}` is not reached as a whole"));
    assert!(shards.len() > 8, "{shards:?}");
    for id in shards.iter().chain([&first, &second]) {
        let node = cluster.node(cluster.owner_of(id));
        assert_eq!(node.rule(&CLUSTER.meta(id), "state").as_deref(), Some("paused"), "{id}");
    }
    expiring.wait().code(5).stdout_has("\"holds\":1").stderr_has(&format!("`{lost}`: cannot reach the server at"));
}
