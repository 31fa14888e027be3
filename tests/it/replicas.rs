//! `--wait-replicas`: what is applied counts only when replicas have it, whichever connection wrote it.

use seckill::{Order, Status};

use crate::shards::orders::{order, store};
use crate::support::{Fault, LAYOUTS, Proxy, TestCluster, TestRedis, TestSentinel, When, follow, seckill};

/// A primary with a replica that has everything.
fn replicated() -> (TestRedis, TestRedis) {
    let primary = TestRedis::with_tcp(["--repl-diskless-sync-delay", "0"]);
    let replica = TestRedis::start();
    follow(&replica, &primary);
    (primary, replica)
}

/// Commands that change data, for an activity 1 of 100 units.
const COMMANDS: [&str; 12] = [
    "preheat --id 1 --stock 100",
    "preheat --id 1 --stock 110 --update",
    "deduct 1 --user 7 --quantity 1",
    "deduct 1 --user 7 --quantity 1 --request again",
    "deduct 1 --user 7 --quantity 1 --request again",
    "multi-deduct --user 8 1=1",
    "refund 1 --user 8 --quantity 1",
    "pause 1",
    "resume 1",
    "ledger trim 1 --before 1ms --yes",
    "reconcile 1 --fix --yes",
    "preheat --id 1 --stock 100 --reset --yes",
];

#[test]
fn every_command_that_changes_something_waits_for_replicas() {
    let (primary, replica) = replicated();
    for line in COMMANDS {
        primary.seckill([]).args(line.split(' ')).args(["--wait-replicas", "1"]).code(0);
        assert!(primary.dump_all() == replica.dump_all(), "{line}");
    }
    replica.freeze();
    for line in COMMANDS.into_iter().filter(|line| !line.starts_with("reconcile")) {
        let call = primary.seckill([]).args(line.split(' ')).args(["--wait-replicas", "1", "--timeout", "500ms"]);
        // Of a server that is slow it is not known how many have it.
        call.code(6).stderr_has("applied, but ");
    }
    let patient = ["deduct", "1", "--user", "8", "--wait-replicas", "1", "--timeout", "5s"];
    primary.seckill(patient).code(6).stderr_has("applied, but 0 of 1 replicas of").stderr_has("INFO replication");
    replica.thaw();
    let two = ["deduct", "1", "--user", "9", "--wait-replicas", "2", "--timeout", "2s"];
    primary.seckill(two).code(6).stderr_has("of 2 replicas");
}

/// Behind a failover the new primary and its replica may lack what the old one said.
#[test]
fn a_connection_that_broke_before_replicas_have_it_proves_nothing() {
    let (primary, _replica) = replicated();
    primary.seckill(["preheat", "--id", "1", "--stock", "10"]).code(0);
    primary.seckill(["script", "load"]).code(0);
    let order = ["deduct", "1", "--user", "7", "--request", "a", "--wait-replicas", "1"];
    let proxy = Proxy::before(&primary);
    for command in ["EVAL", "WAIT"] {
        proxy.inject(When::Next(command), Fault::LoseReply);
        proxy.seckill(order).code(6).stderr_has("applied, but whether replicas have it is not known");
    }
    proxy.seckill(order).code(0).stdout_has("replayed");
}

#[test]
fn a_file_waits_once_at_its_end() {
    let (primary, replica) = replicated();
    primary.seckill(["preheat", "--id", "1", "--stock", "10000"]).code(0);
    let rows: String = (0..2000).map(|user| format!("1,u{user},1\n")).collect();
    let file = format!("activity,user,quantity\n{rows}");
    let proxy = Proxy::before(&primary);
    let apply = || ["deduct", "--from", "-", "--format", "csv", "--job", "night", "--wait-replicas", "1"];
    proxy.seckill(apply()).stdin(&file).code(0);
    assert_eq!(proxy.commands().iter().filter(|command| *command == "WAIT").count(), 1);
    assert_eq!(replica.int("seckill:stock:1"), 8000);
    replica.freeze();
    // What is applied already is waited for as well.
    let again = primary.seckill(apply()).args(["--timeout", "300ms", "-o", "json"]).stdin(&file);
    let again = again.code(6).stdout_has("replayed");
    assert_eq!(again.error_line()["code"], 6);
    replica.thaw();
}

#[test]
fn every_primary_of_a_cluster_that_was_written_to_is_waited_for() {
    let cluster = TestCluster::with_replicas(3);
    let ids: Vec<String> = (0..3).map(|node| cluster.activity_on(node, "w")).collect();
    let wait = ["--wait-replicas", "1"];
    for id in &ids {
        cluster.seckill(["preheat", "--id", id, "--stock", "1000"]).args(wait).code(0);
    }
    let rows: String = (0..300).map(|index| format!("{},u{index},1\n", ids[index % 3])).collect();
    let file = format!("activity,user,quantity\n{rows}");
    let apply = |job: &str| {
        let call = cluster.seckill(["deduct", "--from", "-", "--format", "csv", "--timeout", "2s", "--job", job]);
        call.args(wait).stdin(&file)
    };
    apply("one").code(0);
    // The replica of the last primary, which is node 2.
    cluster.node(5).freeze();
    let short =
        format!("applied, but 0 of 1 replicas of `redis://127.0.0.1:{}` have it", cluster.node(2).port().unwrap());
    apply("two").code(6).stdout_has("ok").stderr_has(&short);
    cluster.seckill(["deduct", &ids[0], "--user", "7", "--timeout", "2s"]).args(wait).code(0);
    cluster.seckill(["deduct", &ids[2], "--user", "7", "--timeout", "2s"]).args(wait).code(6).stderr_has(&short);
    cluster.node(5).thaw();
}

/// Before a slot moves, another server may have taken over, without what was written.
#[test]
fn a_slot_that_has_moved_since_the_write_proves_nothing() {
    let cluster = TestCluster::with_replicas(2);
    let id = cluster.activity_on(0, "x");
    let mut store = store(&cluster.url());
    cluster.seckill(["preheat", "--id", &id, "--stock", "10"]).code(0);
    store.require_replicas(Some(1));
    let order = Order { activity: id.parse().unwrap(), ..order("7", 1) };
    assert_eq!(seckill::place(&mut store, &order, false).unwrap().status, Status::Ok);
    cluster.move_slot(cluster.slot_of(&id), 1);
    let error = store.wait_for_replicas().expect_err("nobody knows what the new node got");
    assert!(error.to_string().contains("another one may have taken over"), "{error}");
}

/// It answers on for a while after a failover, and may have replicas still, though orders went to the new one.
#[test]
fn a_primary_that_sentinels_have_replaced_proves_nothing() {
    let ((primary, _replica), other) = (replicated(), TestRedis::with_tcp([]));
    let sentinel = TestSentinel::of(primary.port().unwrap(), "");
    primary.seckill(["-l", "cluster", "preheat", "--id", "1001", "--stock", "10"]).code(0);
    let mut store = store(&sentinel.url());
    store.require_replicas(Some(1));
    assert_eq!(seckill::place(&mut store, &order("7", 1), false).unwrap().status, Status::Ok);
    assert_eq!(store.wait_for_replicas().unwrap(), None);
    let _: () = sentinel.ask(("SENTINEL", "REMOVE", "shop"));
    let _: () = sentinel.ask(("SENTINEL", "MONITOR", "shop", "127.0.0.1", other.port().unwrap(), 1));
    let error = store.wait_for_replicas().expect_err("another one has taken over");
    assert!(error.to_string().contains("another one may have taken over"), "{error}");
}

/// What is written there is not at the node that the map names, which has another activity, too.
#[test]
fn a_slot_on_its_way_is_waited_for_where_it_was_written() {
    let cluster = TestCluster::with_replicas(2);
    let mut ids = ["x", "y"].map(|prefix| cluster.activity_on(0, prefix));
    ids.sort_by_key(|id| cluster.slot_of(id));
    for id in &ids {
        cluster.seckill(["preheat", "--id", id, "--stock", "10"]).code(0);
        // So that all of its keys are there.
        cluster.seckill(["deduct", id, "--user", "6", "--request", "a"]).code(0);
    }
    let moving = cluster.slot_of(&ids[1]);
    cluster.begin_move(moving, 1);
    cluster.move_keys(moving, 0, 1, usize::MAX);
    let mut store = store(&cluster.url());
    store.require_replicas(Some(1));
    cluster.node(3).freeze();
    for id in &ids {
        let order = Order { activity: id.parse().unwrap(), ..order("7", 1) };
        assert_eq!(seckill::place(&mut store, &order, false).unwrap().status, Status::Ok);
    }
    let short = store.wait_for_replicas().unwrap().expect("its replica has nothing");
    assert_eq!((short.server, short.replicas), (format!("redis://127.0.0.1:{}", cluster.node(1).port().unwrap()), 0));
    cluster.node(3).thaw();
    assert_eq!(store.wait_for_replicas().unwrap(), None);
}

/// One may come between a look and the call that must be on it.
#[test]
fn a_replica_that_came_since_somebody_looked_is_waited_for() {
    let (primary, replica) = replicated();
    let on_cluster = |line: &str| primary.seckill(["-l", "cluster"]).args(line.split(' ').collect::<Vec<_>>());
    on_cluster("preheat --id 1001 --stock 8 --shards 2").code(0);
    replica.freeze();
    let proxy = Proxy::before(&primary);
    proxy.inject(When::Next("ROLE"), Fault::Reply("*3\r\n$6\r\nmaster\r\n:0\r\n*0\r\n"));
    let order = ["-l", "cluster", "deduct", "1001", "--user", "7", "--quantity", "6", "--timeout", "500ms"];
    proxy.seckill(order).code(1).stderr_has("no replica of `1001#");
    replica.thaw();
    proxy.seckill(order).code(0);
}

#[test]
fn what_changed_nothing_waits_for_nobody() {
    let (primary, replica) = replicated();
    primary.seckill(["preheat", "--id", "1", "--stock", "1"]).code(0);
    replica.freeze();
    for (line, code) in [
        ("deduct 1 --user 7 --quantity 2", 3),
        ("deduct none --user 7", 3),
        ("deduct 1 --user 7 --dry-run", 0),
        ("pause none", 3),
        ("preheat --id 1 --stock 5", 3),
    ] {
        let call = primary.seckill([]).args(line.split(' ')).args(["--wait-replicas", "1", "--timeout", "300ms"]);
        call.code(code).stderr_lacks("replica");
    }
    replica.thaw();
}

#[test]
fn a_server_without_replicas_says_so_at_once_in_every_layout() {
    let redis = TestRedis::start();
    for layout in LAYOUTS {
        let call = |line: &str| {
            let call = redis.seckill(["-l", layout.name, "--timeout", "60s"]).args(line.split(' '));
            call.args(["--wait-replicas", "1"])
                .code(6)
                .stderr_has("applied, but the server at")
                .stderr_has("has no replica")
        };
        call("preheat --id 1 --stock 5");
        call("deduct 1 --user 7").stdout_has("ok");
        // An activity of another system has no meta.
        redis.cmd(("SET", layout.stock("2"), 5));
        call("deduct 2 --user 7").stdout_has("ok");
        assert_eq!(redis.int(&layout.stock("2")), 4);
    }
}

#[test]
fn a_number_of_replicas_is_one_to_a_thousand_and_only_of_changes() {
    for (line, says) in [
        ("deduct 1 --user 7 --wait-replicas 0", "1 to 1000"),
        ("deduct 1 --user 7 --wait-replicas -1", "1 to 1000"),
        ("reconcile --wait-replicas 1", "--fix"),
        ("inspect --wait-replicas 1", "--wait-replicas"),
    ] {
        seckill([]).args(line.split(' ')).code(2).stderr_has(says);
    }
}

#[test]
fn a_fixture_and_a_plan_of_repairs_wait_for_replicas() {
    let (primary, replica) = replicated();
    let directory = tempfile::tempdir().unwrap();
    let plan = directory.path().join("plan.jsonl");
    let waits = ["--wait-replicas", "1", "--yes", "--timeout", "2s"];
    primary.seckill(["preheat", "--id", "1", "--stock", "10"]).code(0);
    primary.seckill(["deduct", "1", "--user", "7"]).code(0);
    primary.cmd(("HDEL", "seckill:participants:1", "7"));
    primary.seckill(["reconcile", "1", "--plan", plan.to_str().unwrap()]).code(7);
    replica.freeze();
    primary
        .seckill(["repair", plan.to_str().unwrap()])
        .args(waits)
        .code(6)
        .stdout_has("ok")
        .stderr_has("applied, but 0 of 1 replicas");
    assert_eq!(primary.hget("seckill:participants:1", "7").as_deref(), Some("1"));
    primary.seckill(["run", "fixtures/seckill.yaml"]).args(waits).code(6).stderr_has("applied, but 0 of 1 replicas");
    replica.thaw();
    primary.seckill(["run", "fixtures/coupon.yaml", "--wait-replicas", "1"]).code(0);
    assert!(primary.dump_all() == replica.dump_all());
}
