//! The proxy passes on, counts, and breaks exactly what a test asks for.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use crate::support::{Fault, Proxy, TestRedis, When, wait_until};

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
fn counts_connections_round_trips_and_commands() {
    let redis = TestRedis::start();
    let proxy = Proxy::before(&redis);
    let mut client = connect(&proxy);
    assert_eq!(exchange(&mut client, &[incr("a"), incr("a")].concat(), 8), ":1\r\n:2\r\n");
    assert_eq!((proxy.connections(), proxy.round_trips()), (1, 1));
    assert_eq!(exchange(&mut client, &incr("a"), 4), ":3\r\n");
    assert_eq!((proxy.connections(), proxy.round_trips()), (1, 2));
    assert_eq!(exchange(&mut connect(&proxy), &incr("a"), 4), ":4\r\n");
    assert_eq!((proxy.connections(), proxy.round_trips()), (2, 3));
    assert_eq!(proxy.commands(), ["INCR"; 4]);
}

#[test]
fn passes_every_kind_of_reply() {
    let redis = TestRedis::start();
    let proxy = Proxy::before(&redis);
    let client = redis::Client::open(proxy.url() + "?protocol=resp3").unwrap();
    let mut connection = client.get_connection().unwrap();
    let large = "x".repeat(100_000);
    let script = "return {1, false, 'text', {}, {ok='fine'}, ARGV[1]}";
    let reply = redis::cmd("EVAL").arg(script).arg(0).arg(&large).query::<redis::Value>(&mut connection);
    assert!(format!("{reply:?}").contains(&large));
    let error = redis::cmd("NONSENSE").query::<()>(&mut connection);
    assert!(error.unwrap_err().to_string().contains("unknown command"));
    redis.cmd(&["HSET", "h", "a", "1"]);
    let map: Vec<(String, i64)> = redis::cmd("HGETALL").arg("h").query(&mut connection).unwrap();
    assert_eq!(map, [("a".to_owned(), 1)]);
}

#[test]
fn a_lost_request_is_not_run_and_a_lost_reply_is() {
    let redis = TestRedis::start();
    let proxy = Proxy::before(&redis);
    let three = [incr("a"), incr("b"), incr("c")].concat();

    proxy.inject(When::Nth(2), Fault::LoseRequest);
    assert_eq!(exchange(&mut connect(&proxy), &three, 99), ":1\r\n");
    assert_eq!(redis.get("b"), None);

    proxy.inject(When::Nth(2), Fault::LoseReply);
    assert_eq!(exchange(&mut connect(&proxy), &three, 99), ":2\r\n");
    assert_eq!(redis.int("b"), 1);

    assert_eq!(exchange(&mut connect(&proxy), &incr("b"), 4), ":2\r\n"); // a fault happens once
}

#[test]
fn a_fault_waits_for_the_command_it_is_meant_for() {
    let redis = TestRedis::start();
    let proxy = Proxy::before(&redis);
    proxy.inject(When::Next("INCR"), Fault::LoseReply);
    let mut client = connect(&proxy);
    assert_eq!(exchange(&mut client, b"*1\r\n$4\r\nPING\r\n", 7), "+PONG\r\n");
    assert_eq!(exchange(&mut client, &incr("a"), 99), "");
    proxy.inject(When::Always, Fault::LoseRequest);
    for _ in 0..3 {
        assert_eq!(exchange(&mut connect(&proxy), &incr("a"), 99), "");
    }
    proxy.heal();
    assert_eq!(exchange(&mut connect(&proxy), &incr("a"), 4), ":2\r\n");
}

#[test]
fn a_cut_passes_that_many_bytes() {
    let redis = TestRedis::start();
    let proxy = Proxy::before(&redis);
    proxy.inject(When::Nth(1), Fault::CutReply(2));
    assert_eq!(exchange(&mut connect(&proxy), &incr("a"), 99), ":1");
    proxy.inject(When::Nth(1), Fault::CutRequest(9));
    assert_eq!(exchange(&mut connect(&proxy), &incr("a"), 99), "");
    assert_eq!(redis.int("a"), 1);
}

#[test]
fn a_hanging_request_may_still_run_late() {
    let redis = TestRedis::start();
    let proxy = Proxy::before(&redis);
    for fault in [Fault::HangReply, Fault::HangRequest] {
        proxy.inject(When::Nth(1), fault);
        let mut client = connect(&proxy);
        client.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        client.write_all(&incr("a")).unwrap();
        assert!(client.read(&mut [0; 9]).is_err(), "{fault:?} answers nothing and does not break");
        wait_until("the first of the two has run", || redis.get("a").as_deref() == Some("1"));
    }
    proxy.deliver_late();
    assert_eq!(redis.int("a"), 2);
}

#[test]
fn a_held_reply_comes_when_it_is_released() {
    let redis = TestRedis::start();
    let proxy = Proxy::before(&redis);
    proxy.inject(When::Nth(2), Fault::Hold);
    let mut client = connect(&proxy);
    assert_eq!(exchange(&mut client, &[incr("a"), incr("a"), incr("a")].concat(), 4), ":1\r\n");
    proxy.wait_until_held();
    assert!(redis.int("a") >= 2, "it has run");
    client.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
    assert!(client.read(&mut [0; 9]).is_err());
    client.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    proxy.release();
    assert_eq!(exchange(&mut client, b"", 8), ":2\r\n:3\r\n");
}

#[test]
fn a_server_that_is_down_closes_the_connection() {
    let mut redis = TestRedis::start();
    let proxy = Proxy::before(&redis);
    redis.stop();
    let mut answer = Vec::new();
    // Reading is enough: nothing may be sent to a socket that is already closed.
    connect(&proxy).read_to_end(&mut answer).unwrap();
    assert_eq!(answer, b"");
}
