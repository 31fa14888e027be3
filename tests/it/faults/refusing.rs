//! A server that answers but will not write: named, nothing changed, exit 1.

use super::{all_fail, on_one_server, sale};
use crate::support::{TestRedis, wait_until};

#[test]
fn a_replica_is_read_only() {
    let primary = TestRedis::with_tcp([]);
    let (redis, _) = on_one_server();
    // A replica of nobody it can reach keeps its data, serves it, and takes no writes.
    let port = primary.port().unwrap().to_string();
    drop(primary);
    redis.cmd(&["REPLICAOF", "127.0.0.1", &port]);
    let before = redis.dump_all();
    all_fail(&redis, &before, 1, "is read-only");
    redis.seckill(["inspect", "1"]).code(0);
    redis.config_set("replica-serve-stale-data", "no");
    let refused = redis.seckill(["inspect", "1", "--timeout", "400ms"]).code(1);
    refused.stderr_has("is not connected to its primary").stderr_has("the primary's address to `--url`");
}

#[test]
fn a_server_out_of_memory_refuses_before_anything_is_written() {
    let redis = TestRedis::selling("3", 5);
    let before = sale(&redis);
    redis.config_set("maxmemory", "1");
    all_fail(&redis, &before, 1, "is out of memory");
    redis.config_set("maxmemory", "0");
    redis.seckill(["deduct", "1", "--user", "8"]).code(0);
}

#[test]
fn too_few_replicas_refuse_writes() {
    let (redis, before) = on_one_server();
    redis.config_set("min-replicas-to-write", "1");
    all_fail(&redis, &before, 1, "has too few replicas");
}

#[test]
fn a_server_that_cannot_save_refuses_writes() {
    let (redis, before) = on_one_server();
    // A save that failed, as with a full disk: a directory is where its file should be.
    redis.config_set("save", "3600 1");
    let dir: Vec<String> = redis.ask(&["CONFIG", "GET", "dir"]);
    std::fs::create_dir(std::path::Path::new(&dir[1]).join("dump.rdb")).unwrap();
    redis.cmd(&["BGSAVE"]);
    let has_failed = || redis.ask::<String>(&["INFO", "persistence"]).contains("rdb_last_bgsave_status:err");
    wait_until("a save has failed", has_failed);
    all_fail(&redis, &before, 1, "cannot save its data");
}

#[test]
fn preheat_warns_of_every_eviction_policy_but_the_right_one() {
    let redis = TestRedis::start();
    redis.config_set("maxmemory-policy", "allkeys-lru");
    redis.seckill(["preheat", "--id", "1", "--stock", "5"]).code(0).stderr_has("allkeys-lru").stderr_has("noeviction");
    redis.config_set("maxmemory-policy", "noeviction");
    redis.seckill(["preheat", "--id", "2", "--stock", "5"]).code(0).stderr("");
}
