//! The clusters that tests start.

use redis::Value;

use crate::support::{TestCluster, wait_until};

#[test]
fn a_cluster_serves_all_slots_and_moves_one_key_by_key() {
    let cluster = TestCluster::start(3);
    assert_eq!((cluster.nodes().len(), cluster.url().matches("127.0.0.1:").count()), (3, 3));
    cluster.seckill(["script", "list"]).code(0);
    let served: Vec<usize> = [0, 6000, 16383].map(|slot| cluster.owner(slot)).into();
    assert_eq!(served, [0, 1, 2]);

    let slot = cluster.slot_of("1001");
    let (from, to) = (cluster.owner(slot), (cluster.owner(slot) + 1) % 3);
    for part in ["a", "b"] {
        let () = cluster.ask(&format!("{{1001}}:{part}"), ("SET", format!("{{1001}}:{part}"), part));
    }
    cluster.begin_move(slot, to);
    cluster.move_keys(slot, from, to, 1);
    let asked = cluster.node(from).try_ask::<Value>(("GET", "{1001}:a")).unwrap_err();
    assert_eq!(asked.code(), Some("ASK"));
    assert_eq!(cluster.node(from).get("{1001}:b").as_deref(), Some("b"));
    cluster.move_keys(slot, from, to, 1);
    cluster.end_move(slot, from, to);
    assert_eq!(cluster.owner(slot), to);
    assert_eq!(cluster.node(to).get("{1001}:a").as_deref(), Some("a"));

    cluster.move_slot(slot, from);
    assert_eq!(cluster.owner_of("1001"), from);
    assert_eq!(cluster.owner_of(&cluster.activity_on(2, "x")), 2);
}

#[test]
fn a_replica_takes_over_from_a_primary_that_died() {
    let mut cluster = TestCluster::with_replicas(3);
    assert_eq!((cluster.role(0), cluster.role(3)), ("master".to_owned(), "slave".to_owned()));
    let () = cluster.node(0).ask(("SET", "{06S}", "kept"));
    wait_until("the replica has it", || cluster.node(3).ask::<i64>("DBSIZE") == 1);
    cluster.kill_primary(0);
    wait_until("the replica took over", || cluster.role(3) == "master");
    cluster.wait_until_ok();
    assert_eq!(cluster.owner(cluster.slot("06S")), 3);
    assert_eq!(cluster.node(3).get("{06S}").as_deref(), Some("kept"));
    cluster.node_mut(0).restart();
    wait_until("the old primary follows", || cluster.role(0) == "slave");
}

#[test]
fn a_replica_that_was_cut_off_has_lost_what_came_since() {
    let mut cluster = TestCluster::with_replicas(3);
    let slot = cluster.slot("06S");
    assert_eq!(cluster.owner(slot), 0);
    cluster.cut_replication(0);
    let () = cluster.node(0).ask(("SET", "{06S}", "lost"));
    cluster.node_mut(0).kill9();
    cluster.take_over(3);
    cluster.wait_until_ok();
    assert_eq!(cluster.owner(slot), 3);
    assert_eq!(cluster.node(3).get("{06S}"), None);
}
