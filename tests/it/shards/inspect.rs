//! What is shown of a sharded activity: the sum over its shards, and each shard if asked.

use super::sharded::{Whole, call, fixture, preheated};
use super::transfer;
use crate::support::{CLUSTER, Scripts, TestCluster, TestRedis, seckill};

/// 12 units over 3 shards; a, b and c bought 2, 1 and 1.
fn sale() -> (TestRedis, Scripts, Whole) {
    let redis = preheated(12, 3);
    let (mut scripts, whole) = (Scripts::of(&redis, CLUSTER), Whole::of(&redis));
    for (user, quantity) in [("a", "2"), ("b", "1"), ("c", "1")] {
        whole.sell_to(&mut scripts, user, quantity, &format!("r-{user}"));
    }
    let whole = Whole::of(&redis);
    (redis, scripts, whole)
}

/// Lends units of the shard that has most to another one, which does not get them.
fn lend(scripts: &mut Scripts, whole: &Whole, units: &str) {
    let donor = (0..3).max_by_key(|index| whole.stocks()[*index]).unwrap();
    let keys = &CLUSTER.keys(&whole.ids()[donor])[..4];
    let home = whole.numbers()[(donor + 1) % 3].to_string();
    let reply = scripts.call("lend", keys, &["t", &transfer(7), "1", &home, units, units, ""]);
    assert!(reply.starts_with(&format!("1 {units} ")), "{reply}");
}

#[test]
fn a_row_is_the_sum_with_what_is_in_transit() {
    let (redis, mut scripts, whole) = sale();
    let row = |line: &str| call(&redis, line).code(0).stderr("").json()[0].clone();
    let units =
        |row: &serde_json::Value| ["total", "stock", "sold", "buyers", "in_transit"].map(|name| row[name].as_i64());
    let first = row("inspect 1001");
    assert_eq!(units(&first), [Some(12), Some(8), Some(4), Some(3), Some(0)]);
    assert_eq!((first["state"].as_str(), first["title"].as_str()), (Some("live"), Some("phone")));
    assert_eq!(first["participants"].as_array().unwrap().len(), 3);
    assert_eq!(first["participants"][0]["user"], "a");
    lend(&mut scripts, &whole, "2");
    for line in ["inspect 1001", "inspect", "inspect 10*"] {
        assert_eq!(units(&row(line)), [Some(12), Some(6), Some(4), Some(3), Some(2)], "{line}");
    }
    let rows = call(&redis, "inspect --shards").code(0).stderr("").json();
    let sum = |name: &str| rows.as_array().unwrap().iter().map(|row| row[name].as_i64().unwrap()).sum::<i64>();
    assert_eq!((sum("total"), sum("stock"), sum("sold")), (10, 6, 4));
    redis.seckill(["-l", "cluster", "inspect"]).code(0).stdout_has("6 (+2 in transit)").stdout_has("1001");
    let csv = redis.seckill(["-l", "cluster", "inspect", "-o", "csv"]).code(0);
    csv.stdout_has("held,in_transit,withdrawn\n").stdout_has(",0,2,\n");
    // An activity without shards has nothing that could be.
    call(&redis, "preheat --id 1 --stock 3").code(0);
    assert_eq!(units(&row("inspect 1")), [Some(3), Some(3), Some(0), Some(0), None]);
    assert_eq!(call(&redis, "inspect --state live").code(0).json().as_array().unwrap().len(), 2);
    call(&redis, "inspect --alert-below 7").code(3).stderr_has("`1001` has 6 of 12 units left");
}

#[test]
fn what_is_unfinished_or_lost_is_said() {
    let (redis, _, whole) = sale();
    let meta = CLUSTER.meta("1001");
    redis.cmd(("HSET", &meta, "plan", "update x 0 1,1,0 live 1 1 2 14 - 4102444800000 phone"));
    let shown = call(&redis, "inspect 1001").code(0).stderr_has("from 12 units to 14 is unfinished");
    assert_eq!(shown.json()[0]["in_transit"], serde_json::Value::Null);
    call(&redis, "doctor").run().stdout_has("an update of its shards is unfinished");
    redis.cmd(("HDEL", &meta, "plan"));
    let doctor = call(&redis, "doctor").run().json();
    let keys: Vec<&serde_json::Value> =
        doctor.as_array().unwrap().iter().filter(|row| row["check"] == "keys").collect();
    assert_eq!((keys.len(), keys[0]["status"].as_str()), (1, Some("ok")), "{keys:?}");
    ["d", "e", "f"].iter().for_each(|user| drop(call(&redis, &format!("hold 1001 --user {user} --for 1h")).code(0)));
    redis.cmd(("DEL", CLUSTER.stock(&whole.ids()[2])));
    assert_eq!(call(&redis, "inspect 1001 --holds").code(3).json().as_array().unwrap().len(), 3);
    let lost =
        call(&redis, "inspect 1001").code(3).stderr_has(&format!("key `{}` is gone", CLUSTER.stock(&whole.ids()[2])));
    assert_eq!((lost.json()[0]["state"].as_str(), lost.json()[0]["stock"].as_u64()), (Some("corrupt"), None));
    // The name of the shard, and a command that takes its activity.
    let doctor = call(&redis, "doctor").code(3).stdout_has(&whole.ids()[2]);
    doctor
        .stdout_has("seckill reconcile 1001 -l cluster --fix")
        .stdout_lacks("RENAME")
        .stdout_lacks(&format!("reconcile '{}'", whole.ids()[2]));

    redis.cmd(("HDEL", &meta, "shards"));
    redis.cmd(("HSET", &meta, "plan", "start 1,0,2 -"));
    let half = call(&redis, "inspect 1001").code(3);
    half.stderr_has("the preheat of `1001`, 12 units over 3 shards, is unfinished").stderr_lacks("evicted");
    call(&redis, "preheat --id 1001 --adopt --yes").code(2).stderr_has("unfinished");
}

#[test]
fn metrics_and_watch_have_the_sum() {
    let (redis, mut scripts, whole) = sale();
    lend(&mut scripts, &whole, "2");
    let text = redis.seckill(["-l", "cluster", "inspect", "-o", "prometheus"]).code(0).stdout;
    for (name, units) in [
        ("seckill_stock_units", 6),
        ("seckill_sold_units", 4),
        ("seckill_in_transit_units", 2),
        ("seckill_buyers", 3),
        ("seckill_ledger_entries_total", 7),
    ] {
        let sample = format!("activity=\"1001\"}} {units}");
        let is_it = |line: &str| line.starts_with(&format!("{name}{{")) && line.ends_with(&sample);
        assert!(text.lines().any(is_it), "{name} in {text}");
    }
    assert!(!text.contains("1001#"), "{text}");
    let rows =
        redis.seckill(["-l", "cluster", "inspect", "--watch=100ms", "--count", "2", "-o", "jsonl"]).code(0).jsonl();
    assert_eq!(rows.len(), 2);
    for row in rows {
        assert_eq!(
            (row["activity"].as_str(), row["stock"].as_i64(), row["sold"].as_i64()),
            (Some("1001"), Some(6), Some(4))
        );
        assert_eq!(
            (row["in_transit"].as_i64(), row["state"].as_str(), row["alarms"][0].as_str()),
            (Some(2), Some("live"), None)
        );
    }
}

#[test]
fn shards_are_spread_over_a_cluster_and_read_from_every_node() {
    let cluster = TestCluster::start(3);
    seckill(["-u", &cluster.url(), "preheat", "-"]).stdin(fixture(50, 6)).code(0);
    let call = |line: &str| seckill(["-u", &cluster.url(), "-l", "cluster", "-o", "json"]).args(line.split(' '));
    let rows = call("inspect 1001 --shards").code(0).json();
    let ids: Vec<&str> = rows.as_array().unwrap().iter().map(|row| row["activity"].as_str().unwrap()).collect();
    let mut on_node = [0; 3];
    ids.iter().for_each(|id| on_node[cluster.owner_of(id)] += 1);
    assert_eq!((ids.len(), on_node), (6, [2; 3]));
    assert_eq!(call("inspect").code(0).json()[0]["stock"], 50);
    call("preheat --id 1001 --stock 40 --update").code(0);
    call("pause 1001 --withdraw-stock").code(0);
    let row = call("inspect 1001").code(0).json()[0].clone();
    assert_eq!((row["state"].as_str(), row["stock"].as_u64()), (Some("paused"), Some(40)));
    call("resume 1001").code(0);
    call("preheat --id 1001 --stock 9 --reset --yes").code(0);
    assert_eq!(call("deduct 1001 --user 7").code(0).json()["stock"], 8);
}
