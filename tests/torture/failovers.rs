//! What happens to the nodes of a cluster: primaries fail, replicas take over, slots move.
//!
//! Node `n` of the first half is a primary at first, node `n` of the second half its replica. Each pair fails over once at most.

use std::thread;
use std::time::Duration;

use crate::chaos::{Chaos, How};
use crate::history::History;
use crate::schedule::Schedule;
use crate::support::{TestCluster, wait_until};

/// Does it, and waits until the cluster is well again.
pub fn wreak(chaos: &Chaos, cluster: &mut TestCluster, history: &History, schedule: &Schedule) {
    match chaos {
        Chaos::Pair { pair, how } => fail(cluster, history, *pair, *how),
        Chaos::Move { activity, to, ms, is_atomic } => {
            let slot = cluster.slot_of(&schedule.activities[*activity].id);
            move_slot(cluster, slot, *to, (Duration::from_millis(*ms), *is_atomic));
        }
        other => panic!("{other:?} is nothing of a cluster's nodes"),
    }
    cluster.wait_until_ok();
}

/// A pair has its one failure.
fn fail(cluster: &mut TestCluster, history: &History, primary: usize, how: How) {
    let replica = primary + cluster.nodes().len() / 2;
    match how {
        How::Restart => {
            cluster.node_mut(primary).kill9();
            cluster.node_mut(primary).restart();
            wait_until("the replica follows again", || is_linked(cluster, replica));
            return;
        }
        How::Killed => {
            cluster.node_mut(primary).kill9();
            wait_until_primary(cluster, replica);
        }
        How::KilledInStep => {
            let () = cluster.node(primary).ask(("CLIENT", "PAUSE", 5_000, "WRITE"));
            let written = offset(cluster, primary);
            wait_until("the replica is in step", || offset(cluster, replica) >= written);
            cluster.node_mut(primary).kill9();
            wait_until_primary(cluster, replica);
        }
        How::Lagging(calls) => {
            cluster.cut_replication(primary);
            history.wait_for(history.count() + calls);
            cluster.node_mut(primary).kill9();
            cluster.take_over(replica);
        }
        How::Stopped(ms) => {
            cluster.node(primary).freeze();
            wait_until_primary(cluster, replica);
            thread::sleep(Duration::from_millis(ms));
            cluster.node(primary).thaw();
        }
        How::HandedOver => {
            let () = cluster.node(replica).ask(("CLUSTER", "FAILOVER"));
            wait_until_primary(cluster, replica);
        }
        How::TakenOver => cluster.take_over(replica),
    }
    if !cluster.node(primary).is_running() {
        cluster.node_mut(primary).restart();
    }
    wait_until("the old primary is a replica", || cluster.role(primary) == "slave");
    wait_until("the old primary follows", || is_linked(cluster, primary));
}

/// Moves a slot to the primary of a pair: at once, if the servers can; else with a pause while its keys are on both sides.
fn move_slot(cluster: &TestCluster, slot: u16, pair: usize, (pause, is_atomic): (Duration, bool)) {
    let from = cluster.owner(slot);
    let to = if cluster.role(pair) == "master" { pair } else { pair + cluster.nodes().len() / 2 };
    if from == to {
        return;
    }
    if is_atomic && cluster.moves_slots_at_once() {
        cluster.move_at_once(slot, to);
    } else {
        cluster.begin_move(slot, to);
        thread::sleep(pause / 4);
        cluster.move_keys(slot, from, to, 2);
        thread::sleep(pause / 2);
        cluster.move_keys(slot, from, to, usize::MAX);
        thread::sleep(pause / 4);
        cluster.end_move(slot, from, to);
    }
    // If it fails next, its replica has the keys and knows whose slot it is.
    let half = cluster.nodes().len() / 2;
    let (follower, written) = (if to < half { to + half } else { to - half }, offset(cluster, to));
    wait_until("the replica has the keys", || is_linked(cluster, follower) && offset(cluster, follower) >= written);
    cluster.wait_until_agreed(slot, to);
}

fn wait_until_primary(cluster: &TestCluster, node: usize) {
    wait_until("the replica is a primary", || cluster.role(node) == "master");
}

/// Whether a replica gets what its primary writes.
fn is_linked(cluster: &TestCluster, replica: usize) -> bool {
    let info: String = cluster.node(replica).ask(("INFO", "replication"));
    info.contains("master_link_status:up")
}

/// How much of the stream of writes a node has.
fn offset(cluster: &TestCluster, node: usize) -> u64 {
    let info: String = cluster.node(node).ask(("INFO", "replication"));
    let line = info.lines().find_map(|line| line.strip_prefix("master_repl_offset:"));
    line.and_then(|text| text.trim().parse().ok()).expect("an offset")
}
