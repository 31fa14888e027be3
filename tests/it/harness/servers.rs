//! A server starts, persists, freezes and dies as a test asks for.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::support::TestRedis;

#[test]
fn each_test_has_a_server_of_its_own() {
    let (one, other) = (TestRedis::start(), TestRedis::start());
    one.cmd(&["SET", "k", "v"]);
    assert_eq!(one.get("k").as_deref(), Some("v"));
    assert!(!other.exists("k"));
    assert!(one.version() >= (6, 2, 0));
    assert_eq!(one.is_valkey(), one.log().to_lowercase().contains("valkey"));
}

#[test]
fn typed_reads_see_what_is_there() {
    let redis = TestRedis::start();
    redis.cmd(("SET", "n", 41));
    redis.cmd(("INCR", "n"));
    redis.cmd(&["HSET", "h", "用户", "2"]);
    redis.cmd(&["SADD", "s", "7", "8"]);
    redis.cmd(&["XADD", "x", "1-1", "op", "deduct"]);
    assert_eq!(redis.int("n"), 42);
    assert_eq!(redis.hget("h", "用户").as_deref(), Some("2"));
    assert_eq!(redis.hgetall("h").len(), 1);
    assert_eq!(redis.smembers("s").into_iter().collect::<Vec<_>>(), ["7", "8"]);
    let (id, fields) = &redis.xrange("x")[0];
    assert_eq!((id.as_str(), fields["op"].as_str()), ("1-1", "deduct"));
    assert!(redis.try_ask::<i64>(&["INCR", "h"]).unwrap_err().to_string().contains("WRONGTYPE"));
}

#[test]
fn a_dump_tells_what_changed() {
    let redis = TestRedis::start();
    redis.cmd(&["HSET", "h", "a", "1", "b", "2"]);
    redis.cmd(&["RPUSH", "l", "2", "1"]);
    redis.cmd(&["ZADD", "z", "1", "m"]);
    redis.cmd(&["SADD", "s", "m"]);
    redis.cmd(&["XADD", "x", "1-1", "f", "v"]);
    redis.cmd(("SET", &b"not utf-8 \xff"[..], "v"));
    let before = redis.dump_all();
    assert!(!before.is_empty());
    redis.assert_unchanged_since(&before);

    redis.cmd(&["PEXPIREAT", "l", "99999999999999"]);
    redis.cmd(&["HSET", "h", "a", "3"]);
    redis.cmd(&["SET", "new", "\u{1b}"]);
    redis.cmd(&["DEL", "z"]);
    // Redis 6.2 does not say when a key expires.
    let changes = before.changes_to(&redis.dump_all()).replace(" expires at 99999999999999", " expires");
    assert_eq!(
        changes,
        "h: hash {`a`=`1` `b`=`2`}\n  is now: hash {`a`=`3` `b`=`2`}\n\
         l: list [`2` `1`]\n  is now: list [`2` `1`] expires\n\
         z: zset [`m` `1`]\n  is gone\n\
         new is new: string `\\u{1b}`\n"
    );
}

#[test]
fn what_is_persisted_outlives_a_restart_and_a_kill() {
    let mut redis = TestRedis::with(["--appendonly", "yes", "--appendfsync", "always"]);
    redis.cmd(&["SET", "k", "v"]);
    redis.restart();
    assert_eq!(redis.get("k").as_deref(), Some("v"));
    redis.kill9();
    redis.restart();
    assert_eq!(redis.get("k").as_deref(), Some("v"));
}

#[test]
fn a_server_can_be_met_while_it_loads() {
    if !TestRedis::start().can_load_slowly() {
        return;
    }
    // A delay for each key, and a look at the clients after every few of them.
    let mut redis = TestRedis::with(["--key-load-delay", "20000", "--loading-process-events-interval-bytes", "1024"]);
    for key in 0..300 {
        redis.cmd(("SET", key, "x".repeat(100)));
    }
    redis.cmd(&["SAVE"]);
    redis.restart_loading();
    let refused = redis.try_ask::<String>(&["GET", "1"]).unwrap_err();
    assert_eq!(refused.code(), Some("LOADING"));
}

#[test]
fn a_frozen_server_answers_when_it_is_thawed() {
    let redis = TestRedis::start();
    redis.cmd(&["SET", "k", "v"]);
    redis.freeze();
    let answer = std::thread::scope(|scope| {
        let answer = scope.spawn(|| redis.get("k"));
        redis.thaw();
        answer.join().unwrap()
    });
    assert_eq!(answer.as_deref(), Some("v"));
    redis.freeze(); // and is killed as it is
}

#[test]
fn a_port_and_a_password_are_served() {
    let redis = TestRedis::with_tcp(["--requirepass", "secret"]);
    redis.config_set("maxmemory", "100mb");
    let address = ("127.0.0.1", redis.port().unwrap());
    let stranger = redis::Client::open(address).unwrap().get_connection();
    let refused = stranger.and_then(|mut it| redis::cmd("GET").arg("k").query::<String>(&mut it));
    assert!(refused.unwrap_err().to_string().contains("NOAUTH"));
    assert!(redis.url().starts_with("redis://127.0.0.1:"));
}

#[test]
fn nothing_is_left_of_a_server_whose_test_panics() {
    let mut socket = None;
    let panic = catch_unwind(AssertUnwindSafe(|| {
        let redis = TestRedis::start();
        socket = Some(redis.socket());
        panic!("on purpose");
    }));
    assert!(panic.is_err());
    assert!(!socket.unwrap().parent().unwrap().exists());
}

#[test]
fn a_server_that_cannot_start_says_why() {
    let panic = catch_unwind(|| TestRedis::with(["--no-such-option", "1"])).err().unwrap();
    let message = panic.downcast_ref::<String>().unwrap();
    assert!(message.contains("no-such-option"), "{message}");
}
