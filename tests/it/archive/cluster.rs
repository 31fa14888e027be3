//! On a cluster: each activity at its own node, also while a slot moves.

use crate::support::{CLUSTER, TestCluster};

#[test]
fn activities_of_all_nodes_are_archived_and_restored() {
    let cluster = TestCluster::start(3);
    let directory = tempfile::tempdir().unwrap();
    let to = directory.path().to_str().unwrap();
    let ids: Vec<String> = (0..3).map(|node| cluster.activity_on(node, "100")).collect();
    for id in &ids {
        cluster.seckill(["preheat", "--stock", "50", "--id", id]).code(0);
        cluster.seckill(["deduct", id, "--user", "7", "--request", "r1"]).code(0);
        cluster.seckill(["ledger", "trim", id, "--before", "0s", "--yes"]).code(0);
        cluster.seckill(["pause", id]).code(0);
    }
    let entries = |id: &str| -> Vec<redis::Value> {
        let ledger = CLUSTER.ledger(id);
        cluster.ask(&ledger, ("XRANGE", &ledger, "-", "+"))
    };
    let before: Vec<_> = ids.iter().map(|id| entries(id)).collect();
    let rows = cluster.seckill(["archive", "--yes", "-o", "jsonl", "--to", to]).args(&ids).code(0).jsonl();
    assert!(rows.len() == 3 && rows.iter().all(|row| row["status"] == "ok"), "{rows:?}");
    for id in &ids {
        let stock = CLUSTER.stock(id);
        assert!(!cluster.ask::<bool>(&stock, ("EXISTS", &stock)));
    }
    cluster.seckill(["reconcile"]).code(3).stderr_has("nothing to audit: 3 activities are archived");
    cluster.seckill(["deduct", &ids[0], "--user", "8"]).code(3).stdout_has("ended");
    let rows = cluster.seckill(["preheat", "-o", "jsonl", "--restore", to]).code(0).jsonl();
    assert!(rows.len() == 3 && rows.iter().all(|row| row["action"] == "restore"), "{rows:?}");
    cluster.seckill(["reconcile"]).code(0);
    assert_eq!(ids.iter().map(|id| entries(id)).collect::<Vec<_>>(), before);
    // A slot that moved is followed.
    let slot = cluster.slot_of(&ids[0]);
    cluster.move_slot(slot, (cluster.owner(slot) + 1) % 3);
    std::fs::remove_dir_all(directory.path().join(format!("{}.cluster.1", ids[0]))).unwrap();
    cluster.seckill(["archive", &ids[0], "--yes", "--to", to]).code(0);
    cluster.move_slot(slot, (cluster.owner(slot) + 1) % 3);
    cluster.seckill(["preheat", "--restore", to]).code(0);
    cluster.seckill(["deduct", &ids[0], "--user", "7", "--request", "r1"]).code(0).stdout_has("replayed");
    cluster.seckill(["reconcile"]).code(0);
}

#[test]
fn an_archive_of_another_layout_is_refused_on_a_cluster() {
    let shop = super::Shop::small(crate::support::SECKILL);
    shop.archive().code(0);
    let cluster = TestCluster::start(3);
    let refused = cluster.seckill(["preheat", "--restore", shop.to()]).without_env("SECKILL_LAYOUT").code(2);
    refused.stdout_is("").stderr_has("layout");
}
