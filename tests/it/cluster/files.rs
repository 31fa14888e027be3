//! Files of orders on a cluster: each order once, whatever happens to its nodes meanwhile.

use std::io::Write;

use tempfile::NamedTempFile;

use crate::support::{CLUSTER, Running, TestCluster, wait_until};

/// Orders of one unit each by as many users, of four activities on each of three nodes.
struct Sale {
    cluster: TestCluster,
    activities: Vec<String>,
    orders: usize,
    file: NamedTempFile,
}

const STOCK: i64 = 100_000;

impl Sale {
    fn new(cluster: TestCluster, orders: usize) -> Self {
        let mut activities = Vec::new();
        for (node, prefix) in (0..3).flat_map(|node| ["a", "b", "c", "d"].map(|prefix| (node, prefix))) {
            activities.push(cluster.activity_on(node, prefix));
        }
        let mut list = String::from("id,stock\n");
        activities.iter().for_each(|id| list += &format!("{id},{STOCK}\n"));
        cluster.seckill(["preheat", "--from", "-", "--yes"]).stdin(list).code(0);
        let mut file = NamedTempFile::with_suffix(".csv").unwrap();
        writeln!(file, "activity,user").unwrap();
        for index in 0..orders {
            // In no regular order.
            writeln!(file, "{},u{index}", activities[(index * 7 + index / 11) % activities.len()]).unwrap();
        }
        Self { cluster, activities, orders, file }
    }

    fn path(&self) -> &str {
        self.file.path().to_str().unwrap()
    }

    /// Applies the file, slowly enough that something can happen meanwhile.
    fn apply(&self) -> Running {
        let call = self.cluster.seckill(["deduct", "--from", self.path(), "--rate", "4000", "--timeout", "1s"]);
        call.spawn()
    }

    fn sold(&self, activity: &str) -> i64 {
        let stock = CLUSTER.stock(activity);
        let left: i64 = self.cluster.ask(&stock, ("GET", &stock));
        STOCK - left
    }

    /// Waits until that many units of the first activity of a node are sold.
    fn wait_until_sold(&self, node: usize, count: i64) {
        wait_until("some are sold", || self.sold(&self.activities[4 * node]) >= count);
    }

    /// Each order was applied once, and all that is stored says so.
    fn check(&self) {
        let sold: i64 = self.activities.iter().map(|activity| self.sold(activity)).sum();
        assert_eq!(sold, i64::try_from(self.orders).unwrap());
        for activity in &self.activities {
            let participants = CLUSTER.participants(activity);
            let users: i64 = self.cluster.ask(&participants, ("HLEN", &participants));
            assert_eq!(users, self.sold(activity), "{activity}");
        }
        self.cluster.seckill(["reconcile"]).code(0);
        let again = self.cluster.seckill(["deduct", "--from", self.path(), "-o", "json"]).code(0).json();
        assert!(again.as_array().unwrap().iter().all(|row| row["status"] == "replayed"), "{again:?}");
    }
}

#[test]
fn a_file_goes_to_all_nodes_and_each_order_is_applied_once() {
    let sale = Sale::new(TestCluster::start(3), 6_000);
    // One seed says nothing about the others.
    let url = format!("redis://127.0.0.1:{}", sale.cluster.node(2).port().unwrap());
    let rows = sale.cluster.seckill(["deduct", "--from", sale.path(), "-o", "json", "-u", &url]).code(0).json();
    let orders = rows.as_array().unwrap().iter().map(|row| row["orders"].as_u64().unwrap());
    assert_eq!((orders.clone().count(), orders.sum::<u64>()), (12, 6_000));
    sale.check();
}

#[test]
fn rows_come_in_the_order_of_the_file() {
    let sale = Sale::new(TestCluster::start(3), 2_000);
    let orders = std::fs::read(sale.file.path()).unwrap();
    let call = sale.cluster.seckill(["deduct", "--from", "-", "-o", "jsonl", "--job", "night"]).stdin(&orders);
    let lines: Vec<u64> = call.code(0).jsonl().iter().filter_map(|row| row["line"].as_u64()).collect();
    assert_eq!(lines, (2..2_002).collect::<Vec<_>>());
    let refund = sale.cluster.seckill(["refund", "--from", sale.path(), "--fast"]);
    refund.code(0);
    assert!(sale.activities.iter().all(|activity| sale.sold(activity) == 0));
    sale.cluster.seckill(["reconcile"]).code(0);
}

#[test]
fn a_primary_that_is_killed_is_replaced_and_nothing_is_applied_twice() {
    let mut sale = Sale::new(TestCluster::with_replicas(3), 10_000);
    let run = sale.apply();
    sale.wait_until_sold(0, 100);
    sale.cluster.kill_primary(0);
    run.wait().code(0);
    sale.check();
}

#[test]
fn a_primary_that_stops_answering_is_replaced_and_may_come_back() {
    let sale = Sale::new(TestCluster::with_replicas(3), 10_000);
    let run = sale.apply();
    sale.wait_until_sold(0, 100);
    sale.cluster.freeze_primary(1);
    wait_until("the replica is a primary", || sale.cluster.role(4) == "master");
    sale.cluster.node(1).thaw();
    run.wait().code(0);
    sale.check();
}

#[test]
fn orders_that_a_lagging_replica_lost_are_applied_again() {
    let mut sale = Sale::new(TestCluster::with_replicas(3), 20_000);
    let run = sale.apply();
    sale.wait_until_sold(2, 100);
    sale.cluster.cut_replication(2);
    let before = sale.sold(&sale.activities[8]);
    sale.wait_until_sold(2, before + 100);
    sale.cluster.node_mut(2).kill9();
    sale.cluster.take_over(5);
    run.wait().code(0).stderr_has("the server lost what it had decided");
    sale.check();
}

#[test]
fn slots_move_while_their_orders_are_applied() {
    let sale = Sale::new(TestCluster::start(3), 10_000);
    let run = sale.apply();
    sale.wait_until_sold(0, 20);
    for (index, activity) in sale.activities.iter().enumerate() {
        sale.cluster.move_slot(sale.cluster.slot_of(activity), (index / 4 + 1) % 3);
    }
    // And back.
    sale.cluster.move_slot(sale.cluster.slot_of(&sale.activities[0]), 0);
    run.wait().code(0);
    sale.check();
}

#[test]
fn a_slot_that_the_servers_move_at_once_is_followed() {
    let sale = Sale::new(TestCluster::start(3), 10_000);
    if !sale.cluster.moves_slots_at_once() {
        eprintln!("skipped: this server has no atomic slot migration");
        return;
    }
    let run = sale.apply();
    sale.wait_until_sold(0, 20);
    for (activity, to) in sale.activities[..2].iter().zip([1, 2]) {
        sale.cluster.move_at_once(sale.cluster.slot_of(activity), to);
    }
    run.wait().code(0);
    sale.check();
}

#[test]
fn a_slot_that_is_left_in_the_middle_of_a_move_is_named_with_what_ends_it() {
    let sale = Sale::new(TestCluster::start(3), 3_000);
    let slot = sale.cluster.slot_of(&sale.activities[0]);
    sale.cluster.begin_move(slot, 1);
    sale.cluster.move_keys(slot, 0, 1, 1);
    let stuck = sale.cluster.seckill(["deduct", "--from", sale.path(), "--retry-for", "1s"]).code(1);
    stuck.stderr_has("is moving these keys").stderr_has("redis-cli --cluster fix HOST:PORT");
    sale.cluster.move_keys(slot, 0, 1, usize::MAX);
    sale.cluster.end_move(slot, 0, 1);
    sale.cluster.seckill(["deduct", "--from", sale.path()]).code(0);
    sale.check();
}

#[test]
fn a_node_that_is_gone_at_the_start_is_waited_for_as_long_as_retry_for() {
    // Else the others refuse all calls, once they have noticed.
    let mut cluster = TestCluster::with(3, false, &["--cluster-require-full-coverage", "no"]);
    let ids: Vec<String> = (0..3).map(|node| cluster.activity_on(node, "10")).collect();
    let list: String = ids.iter().map(|id| format!("{id},9\n")).collect();
    cluster.seckill(["preheat", "--from", "-", "--yes"]).stdin(format!("id,stock\n{list}")).code(0);
    cluster.kill_primary(2);
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str, text: String| {
        std::fs::write(dir.path().join(name), text).unwrap();
        dir.path().join(name)
    };
    let rows = file("o.csv", format!("activity,user\n{},1\n{},1\n", ids[0], ids[2]));
    let spread = file("m.jsonl", format!("{{\"user\":1,\"items\":{{\"{}\":1,\"{}\":1}}}}\n", ids[0], ids[2]));
    for (command, path) in [("deduct", &rows), ("multi-deduct", &spread)] {
        let call = |time: &str| {
            let call = cluster.seckill([command, "--timeout", "1s", "--retry-for", time]);
            call.args(["--from", path.to_str().unwrap()])
        };
        let start = std::time::Instant::now();
        call("2s").code(5).stderr_has("trying again");
        assert!((2..29).contains(&start.elapsed().as_secs()), "{command} took {:?}", start.elapsed());
        let call = call("10m").spawn();
        call.wait_for_stderr("trying again");
        call.interrupt().stderr_has("stopped after 0 orders");
    }
}

#[test]
fn a_cluster_of_one_node_is_one_too() {
    let cluster = TestCluster::start(1);
    for id in ["1", "2"] {
        cluster.seckill(["preheat", "--id", id, "--stock", "10"]).code(0);
    }
    let orders = "{\"user\":\"7\",\"items\":{\"1\":1}}\n{\"user\":\"8\",\"items\":{\"1\":1,\"2\":1}}\n";
    cluster.seckill(["multi-deduct", "--from", "-"]).stdin(orders).code(0);
    cluster.seckill(["multi-deduct", "--user", "9", "1=1", "2=1"]).code(0);
    assert_eq!(cluster.ask::<i64>(&CLUSTER.stock("2"), ("GET", CLUSTER.stock("2"))), 8);
    let other = cluster.seckill(["deduct", "--from", "-", "-l", "seckill"]).stdin("activity,user\n1,7\n").code(2);
    other.stderr_has("layout `seckill` spreads an activity over 5 slots");
}
