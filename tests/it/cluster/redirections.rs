//! Where an order goes: the first guess, one `MOVED`, a slot that is moving, a primary that is gone.

use std::io::Write;

use crate::support::{CLUSTER, Fault, Proxy, TestCluster, TestRedis, When, seckill, wait_until};

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
        order.iter().map(|index| format!("127.0.0.1:{}", cluster.node(*index).port().unwrap())).collect();
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
            wait_until("it was asked to try again", tried);
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
    wait_until("the replica has it", || cluster.node(4).ask::<Vec<redis::Value>>("ROLE")[4] == primary);
    cluster.kill_primary(1);
    // The promoted replica has none of the scripts that were loaded by their SHA-1 alone.
    let outcome = cluster.seckill(["deduct", &activity, "--user", "8", "-o", "json"]).code(0).json();
    assert_eq!((&outcome["status"], &outcome["stock"]), (&"ok".into(), &8.into()));
    cluster.seckill(["reconcile", &activity]).code(0);
}

#[test]
fn what_a_node_refuses_for_a_while_is_sent_again() {
    let cluster = TestCluster::start(3);
    let activity = cluster.activity_on(1, "a");
    cluster.seckill(["preheat", "--stock", "100", "--id", &activity]).code(0);
    let networks = Proxy::before_all(&cluster);
    let url = networks.iter().map(Proxy::url).collect::<Vec<_>>().join(",").replace(",redis://", ",");
    let mut file = tempfile::NamedTempFile::with_suffix(".csv").unwrap();
    let mut left = 100;
    for (index, words) in [
        "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
        "READONLY You can't write against a read only replica.",
        "CLUSTERDOWN The cluster is down",
        "TRYAGAIN Multiple keys request during rehashing of slot",
    ]
    .into_iter()
    .enumerate()
    {
        let user = format!("u{index}");
        networks[1].inject(When::Next("EVALSHA"), Fault::Refuse(words));
        let order = cluster.seckill(["deduct", &activity, "--user", &user, "-o", "json", "-u", &url]).code(0);
        left -= 1;
        assert_eq!((&order.json()["status"], &order.json()["stock"]), (&"ok".into(), &left.into()), "{words}");

        writeln!(file, "{}{activity},f{index}", if index == 0 { "activity,user\n" } else { "" }).unwrap();
        networks[1].inject(When::Next("EVALSHA"), Fault::Refuse(words));
        let path = file.path().to_str().unwrap();
        cluster.seckill(["deduct", "--from", path, "--job", &format!("j{index}"), "-u", &url]).code(0);
        left -= i64::try_from(index).unwrap() + 1;
        assert_eq!(cluster.ask::<i64>(&CLUSTER.stock(&activity), ("GET", CLUSTER.stock(&activity))), left, "{words}");
    }
    cluster.seckill(["reconcile"]).code(0);
}

#[test]
fn a_replica_that_lost_its_primary_is_waited_for_until_it_takes_over() {
    let mut cluster = TestCluster::with(3, true, &["--replica-serve-stale-data", "no"]);
    let activity = cluster.activity_on(0, "a");
    cluster.seckill(["preheat", "--stock", "10", "--id", &activity]).code(0);
    let primary = cluster.node(0).ask::<Vec<redis::Value>>("ROLE")[1].clone();
    wait_until("the replica has it", || cluster.node(3).ask::<Vec<redis::Value>>("ROLE")[4] == primary);
    cluster.kill_primary(0);
    let down = || cluster.node(3).try_ask::<i64>("DBSIZE").is_err_and(|error| error.code() == Some("MASTERDOWN"));
    wait_until("the replica serves nothing", || down() || cluster.role(3) == "master");
    let replica = seeds(&cluster, &[3]);
    cluster.seckill(["deduct", &activity, "--user", "7", "-u", &replica]).code(0);
    let orders = format!("activity,user\n{activity},8\n");
    cluster.seckill(["deduct", "--from", "-", "-u", &replica]).stdin(orders).code(0);
    // Other nodes may not have heard yet whose slot it is.
    assert_eq!(cluster.node(3).ask::<i64>(("GET", CLUSTER.stock(&activity))), 8);
}

#[test]
fn a_cluster_in_which_nobody_serves_a_slot_is_named_at_once() {
    let cluster = TestCluster::start(3);
    cluster.nodes().iter().for_each(|node| drop(node.cmd(&["CLUSTER", "RESET"])));
    let down = |node: &TestRedis| node.ask::<String>(("CLUSTER", "INFO")).contains("cluster_slots_assigned:0");
    wait_until("no node serves a slot", || cluster.nodes().iter().all(down));
    let orders = "activity,user\n1,7\n";
    let multi_orders = "{\"user\":\"7\",\"items\":{\"1\":1}}\n";
    for url in [seeds(&cluster, &[0]), cluster.url()] {
        for (line, stdin) in [
            ("preheat --id 1 --stock 5", ""),
            ("deduct 1 --user 7", ""),
            ("multi-deduct --user 7 1=1", ""),
            ("deduct --from -", orders),
            ("multi-deduct --from -", multi_orders),
            ("refund --from -", orders),
            ("pause 1", ""),
            ("inspect", ""),
            ("inspect 1", ""),
            ("inspect 1 --all", ""),
            ("inspect --scan", ""),
            ("reconcile", ""),
            ("reconcile 1", ""),
            ("ledger 1", ""),
            ("ledger --all", ""),
            ("script load", ""),
        ] {
            let began = std::time::Instant::now();
            let refused = cluster.seckill(["-u", &url, "--timeout", "20s"]).args(line.split(' ')).stdin(stdin).code(1);
            refused.stderr_has("nobody serves any slot").stderr_has("redis-cli --cluster create");
            assert!(began.elapsed().as_secs() < 15, "{line}: a failover would be waited for as long as 60 s");
        }
    }
}
