//! Every node of a cluster, and the primary that sentinels name.

use super::{of_check, text};
use crate::support::{TestCluster, Watched, wait_until};

#[test]
fn every_node_of_a_cluster_is_checked_replicas_included() {
    let cluster = TestCluster::with_replicas(3);
    cluster.seckill(["preheat", "--id", "1", "--stock", "5"]).code(0);
    let all = cluster.seckill(["doctor", "-o", "json"]).code(3).json();
    for (check, count) in [("role", 6), ("eviction", 6), ("clock", 6), ("slots", 1), ("keys", 1)] {
        let rows = of_check(&all, check);
        assert_eq!(rows.len(), count, "{check}");
        assert!(rows.iter().all(|row| row["status"] == "ok"), "{rows:#?}");
    }
    assert_eq!(of_check(&all, "slots")[0]["found"], "all 16384 served by 3 nodes");
    assert_eq!(of_check(&all, "role").iter().filter(|row| text(row, "found").starts_with("replica")).count(), 3);
    // Each primary runs scripts on a key of a slot that it serves.
    let scripts = of_check(&all, "scripts");
    let has_run = scripts.iter().filter(|row| row["status"] == "ok" && text(row, "found").ends_with(" run")).count();
    assert_eq!((scripts.len(), has_run), (6, 3), "{scripts:#?}");
    // What all lack is one finding, with a command for each.
    let shown = cluster.seckill(["doctor"]).code(3).stdout;
    assert_eq!(shown.lines().filter(|line| line.starts_with("persistence")).count(), 1, "{shown}");
    let (_, block) = shown.split_once("\nfail persistence\n").unwrap();
    assert_eq!(block.matches("neither append-only file nor snapshots").count(), 1, "{shown}");
    assert_eq!(shown.matches(" CONFIG SET appendonly yes\n").count(), 6, "{shown}");
    let lost = "A power cut loses everything; a failover may lose what no replica has yet.";
    assert_eq!(shown.lines().last(), Some(lost), "{shown}");
    // One node that differs is named.
    cluster.node(4).config_set("maxmemory-policy", "allkeys-lfu");
    let rows = of_check(&cluster.seckill(["doctor", "-o", "json"]).code(3).json(), "eviction");
    let failed: Vec<&str> = rows.iter().filter(|row| row["status"] == "fail").map(|row| text(row, "target")).collect();
    let port = cluster.node(4).port().unwrap();
    assert_eq!(failed, [format!("127.0.0.1:{port}")]);
    // A user whom a node does not know may do nothing there.
    for node in cluster.nodes() {
        node.cmd(&["ACL", "SETUSER", "reader", "on", ">secret", "~*", "+@all"]);
    }
    cluster.node(1).cmd(&["ACL", "SETUSER", "reader", "-decrby"]);
    let url = cluster.url().replace("redis://", "redis://reader:secret@");
    let rows = cluster.seckill(["doctor", "-o", "json", "-u", &url]).code(3).json();
    let deduct: Vec<_> = of_check(&rows, "rights").into_iter().filter(|row| row["target"] == "deduct").collect();
    let lacking = format!("user `reader` lacks +decrby at 127.0.0.1:{}", cluster.node(1).port().unwrap());
    assert_eq!((deduct.len(), text(&deduct[0], "found")), (1, lacking.as_str()), "{deduct:#?}");
    assert!(!rows.to_string().contains("secret"));
    // Users are not replicated: after a failover one primary may not know this one.
    cluster.node(2).cmd(("ACL", "DELUSER", "reader"));
    let rows = cluster.seckill(["doctor", "-o", "json", "-u", &url]).code(3).json();
    let refused: Vec<_> = of_check(&rows, "role").into_iter().filter(|row| row["status"] == "fail").collect();
    assert_eq!((refused.len(), of_check(&rows, "persistence").len()), (1, 5), "{rows:#}");
    assert!(text(&refused[0], "found").contains("refused the login"), "{refused:#?}");
}

#[test]
fn a_node_that_is_down_and_a_slot_that_is_left_open_are_named() {
    let mut cluster = TestCluster::start(3);
    let lost = cluster.activity_on(2, "a");
    cluster.seckill(["preheat", "--id", &lost, "--stock", "5"]).code(0);
    cluster.begin_move(7, 1);
    let slots =
        |cluster: &TestCluster| of_check(&cluster.seckill(["doctor", "-o", "json"]).code(3).json(), "slots")[0].clone();
    let open = slots(&cluster);
    assert!(open["status"] == "warn" && text(&open, "found").ends_with("left open in a move: 7"), "{open:#}");
    assert!(text(&open, "fix").contains("--cluster fix 127.0.0.1:"), "{open:#}");
    let down = format!("127.0.0.1:{}", cluster.node(2).port().unwrap());
    cluster.kill_primary(2);
    wait_until("the others know", || {
        let info: String = cluster.node(0).ask(("CLUSTER", "INFO"));
        info.contains("cluster_state:fail")
    });
    for node in &cluster.nodes()[..2] {
        node.cmd(&["CONFIG", "SET", "cluster-require-full-coverage", "no"]);
    }
    let url = cluster.node(0).url();
    let rows = cluster.seckill(["doctor", "-o", "json", "-u", &url, "--timeout", "300ms"]).code(3).json();
    let row = of_check(&rows, "role").into_iter().find(|row| row["target"] == down.as_str()).unwrap();
    assert!(row["status"] == "fail" && text(&row, "found").starts_with("cannot be reached"), "{row:#}");
    assert_eq!(of_check(&rows, "slots")[0]["status"], "fail");
    assert_eq!(of_check(&rows, "keys")[0]["status"], "skip");
}

#[test]
fn behind_sentinels_the_primary_is_checked_and_fixes_name_it() {
    let watched = Watched::start();
    watched.sentinel.seckill(["preheat", "--id", "1", "--stock", "5"]).code(0);
    let rows = watched.sentinel.seckill(["doctor", "-o", "json"]).code(3).json();
    let port = watched.primary.port().unwrap();
    let row = &of_check(&rows, "min_replicas")[0];
    assert_eq!((text(row, "status"), text(row, "target")), ("warn", format!("127.0.0.1:{port}").as_str()));
    let fix = format!("-cli -h 127.0.0.1 -p {port} CONFIG SET min-replicas-to-write 1");
    assert!(text(row, "fix").ends_with(&fix), "{row:#}");
}
