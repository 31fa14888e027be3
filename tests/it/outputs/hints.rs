//! What hints beside an answer cost, and that of a replica that may lag behind. `sessions/layouts.txt` has the layout that they name.

use crate::support::{Proxy, TestRedis, wait_until};

/// Commands about an activity 1.
const COMMANDS: [&str; 8] = [
    "deduct 1 --user 7",
    "refund 1 --user 7",
    "multi-deduct --user 7 1=1 2=1",
    "inspect 1",
    "inspect 1 --all",
    "ledger 1",
    "pause 1",
    "resume 1",
];

#[test]
fn a_hint_needs_no_right_and_costs_nothing_unless_it_is_wanted() {
    let redis = TestRedis::start();
    redis.seckill(["preheat", "--id", "1", "--stock", "5", "-l", "sku"]).code(0);
    redis.cmd(("ACL", "SETUSER", "default", "-exists", "-role"));
    for line in COMMANDS {
        redis.seckill([]).args(line.split(' ')).code(3).stderr_lacks("permission").stderr_lacks("--layout");
    }
    redis.cmd(("ACL", "SETUSER", "default", "+exists", "+role"));
    let proxy = Proxy::before(&redis);
    proxy.seckill(["script", "load"]).code(0);
    let before = proxy.round_trips();
    proxy.seckill(["deduct", "1", "--user", "7"]).code(3);
    let why = "the order, one look for all layouts, one whether another has its name, and one whether it is archived";
    assert_eq!(proxy.round_trips() - before, 4, "{why}");
}

#[test]
fn reading_from_a_replica_warns_and_orders_do_not_ask() {
    let primary = TestRedis::with_tcp([]);
    primary.seckill(["preheat", "--id", "1", "--stock", "5"]).code(0);
    let replica = TestRedis::start();
    replica.cmd(("REPLICAOF", "127.0.0.1", primary.port().unwrap()));
    wait_until("the replica has the sale", || replica.exists("seckill:stock:1"));
    for line in ["inspect", "inspect 1", "inspect 1 --user 7", "inspect --all", "ledger 1", "reconcile 1"] {
        replica.seckill([]).args(line.split(' ')).code(0).stderr_has("is a replica");
        replica.seckill(["-o", "json"]).args(line.split(' ')).code(0).stderr_has("is a replica");
        primary.seckill([]).args(line.split(' ')).code(0).stderr_lacks("replica");
    }
    replica.seckill(["ledger", "2"]).code(3).stderr_has("is a replica").stderr_has("not_preheated");
    replica.seckill(["confirm", "1", "--request", "h9"]).code(3).stderr_has("is a replica");
    // What changes nothing no replica refuses.
    let unchanged = ["preheat --id 1 --stock 5", "resume 1", "expire"];
    for line in
        ["pause 1 --dry-run", "preheat --id 1 --stock 6 --update --dry-run", "inspect -l sku"].iter().chain(&unchanged)
    {
        replica.seckill([]).args(line.split(' ')).code(0).stderr_has("is a replica");
    }
    let proxy = Proxy::before(&primary);
    for line in ["deduct 1 --user 7", "refund 1 --user 7", "multi-deduct --user 7 1=1"] {
        proxy.seckill([]).args(line.split(' ')).code(0);
    }
    assert!(!proxy.commands().contains(&"ROLE".to_owned()));
}
