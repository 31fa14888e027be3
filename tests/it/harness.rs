//! The harness is code too: what would let other tests pass without a check is tested here, once.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use crate::support::{Fault, Proxy, TestRedis, When, seckill, wait_until};

#[test]
fn a_failed_check_shows_the_call_and_all_it_said() {
    let judge = || seckill(["--version"]).args(["--quiet"]).env("SECKILL_LAYOUT", "sku").code(42);
    let panic = catch_unwind(judge).err().unwrap();
    let message = panic.downcast_ref::<String>().unwrap();
    for part in ["exit code 42", "SECKILL_LAYOUT=sku", "seckill --version --quiet", env!("CARGO_PKG_VERSION")] {
        assert!(message.contains(part), "{message}");
    }
}

#[test]
fn a_dump_names_each_key_that_changed() {
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

/// A client that speaks RESP by hand, so that these tests decide what is sent together.
fn connect(proxy: &Proxy) -> UnixStream {
    let stream = UnixStream::connect(proxy.socket()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream
}

fn incr(key: &str) -> Vec<u8> {
    format!("*2\r\n$4\r\nINCR\r\n${}\r\n{key}\r\n", key.len()).into_bytes()
}

/// Sends, and gives back the reply: that number of bytes, or all before the connection breaks.
fn exchange(stream: &mut UnixStream, sent: &[u8], bytes: usize) -> String {
    stream.write_all(sent).unwrap();
    let mut answer = Vec::new();
    stream.take(bytes as u64).read_to_end(&mut answer).unwrap();
    String::from_utf8(answer).unwrap()
}

#[test]
fn a_fault_hits_one_command_and_that_once() {
    let redis = TestRedis::start();
    let three = [incr("a"), incr("b"), incr("c")].concat();
    for (fault, got, times) in [
        (Fault::LoseRequest, ":1\r\n", ""),
        (Fault::CutRequest(9), ":2\r\n", ""),
        (Fault::LoseReply, ":3\r\n", "1"),
        (Fault::CutReply(2), ":4\r\n:2", "2"),
    ] {
        // Its own, because the third command may be counted behind the end of its connection.
        let proxy = Proxy::before(&redis);
        proxy.inject(When::Command(2), fault);
        assert_eq!(exchange(&mut connect(&proxy), &three, 99), got, "{fault:?}");
        assert_eq!(redis.get("b").unwrap_or_default(), times, "{fault:?}");
        assert_eq!(exchange(&mut connect(&proxy), &incr("d"), 4).len(), 4, "{fault:?}");
    }
}

#[test]
fn a_hanging_request_may_still_run_late() {
    let redis = TestRedis::start();
    let proxy = Proxy::before(&redis);
    for fault in [Fault::HangReply, Fault::HangRequest] {
        proxy.inject(When::Command(1), fault);
        let mut client = connect(&proxy);
        client.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        client.write_all(&incr("a")).unwrap();
        assert!(client.read(&mut [0; 9]).is_err(), "{fault:?} answers nothing and does not break");
        wait_until("the first of the two has run", || redis.get("a").as_deref() == Some("1"));
    }
    proxy.deliver_late();
    assert_eq!(redis.int("a"), 2);
}
