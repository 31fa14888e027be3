//! Files that are not what they should be: cut short, in another encoding, with quotes in the wrong place, without end.

use super::{Orders, held};
use crate::support::{Call, TestRedis};

fn deduct(redis: &TestRedis, name: &str, text: impl AsRef<[u8]>) -> (Orders, Call) {
    let orders = Orders::named(name, text);
    let call = redis.seckill(["deduct", "-o", "jsonl", "--from", orders.path()]);
    (orders, call)
}

/// Refuses the text as a file, as standard input, and as order records.
#[track_caller]
fn assert_refused(name: &str, text: impl AsRef<[u8]>, why: &str) {
    let redis = TestRedis::selling("1001", 1_000);
    let before = redis.dump_all();
    let (orders, call) = deduct(&redis, name, &text);
    call.code(2).stdout_is("").stderr_has(&format!("{name}:{why}"));
    redis.seckill(["reconcile", "--orders", orders.path()]).code(2).stderr_has(&format!("{name}:{why}"));
    redis.seckill(["deduct", "-o", "jsonl", "--from", "-"]).stdin(&text).code(2).stderr_has(&format!("<stdin>:{why}"));
    redis.assert_unchanged_since(&before);
}

#[test]
fn utf_16_and_gbk_are_named() {
    let text = "activity,user\n1001,王小明\n";
    let little: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
    let big: Vec<u8> = text.encode_utf16().flat_map(u16::to_be_bytes).collect();
    for utf16 in [&[&b"\xff\xfe"[..], &little].concat(), &[&b"\xfe\xff"[..], &big].concat(), &little, &big] {
        assert_refused("o", utf16, "1:1: the file is UTF-16, expected UTF-8");
    }
    let gbk = b"activity,user\n1001,\xcd\xf5\xd0\xa1\xc3\xf7\n";
    let redis = TestRedis::selling("1001", 1_000);
    let (_orders, call) = deduct(&redis, "o.csv", gbk);
    call.code(2)
        .stderr_has("o.csv:2:6: byte `0xcd` is not UTF-8: the file seems to be GBK")
        .stderr_has("\"hint\":\"save it as UTF-8")
        .stderr_has("iconv -f GBK -t UTF-8");
    let json = b"{\"activity\":1001,\"user\":\"\xcd\xf5\xd0\xa1\xc3\xf7\"}\n";
    deduct(&redis, "o.jsonl", json).1.code(2).stderr_has("the file seems to be GBK");
    let header = b"activity,user,\xca\xfd\xc1\xbf\n1001,7,1\n";
    deduct(&redis, "o.csv", header)
        .1
        .code(2)
        .stderr_has("o.csv:1:15: byte `0xca` is not UTF-8: the file seems to be GBK");
    deduct(&redis, "o.csv", b"activity,user\n1001,Jos\xe9\n")
        .1
        .code(2)
        .stderr_has("`0xe9` is not UTF-8")
        .stderr_lacks("GBK");
    assert_eq!(held(&redis, "1001"), 0);
}

#[test]
fn a_row_without_end_is_refused_before_it_fills_the_memory() {
    let long = "x".repeat(6_000_000);
    for (name, text) in [
        ("o.csv", format!("activity,user\n1001,\"{long}\n")),
        ("o.csv", format!("activity,user\n1001,{long}\n")),
        ("o.csv", format!("activity,{long}\n1001,7\n")),
        ("o.jsonl", format!("{{\"activity\":1001,\"user\":\"{long}\"}}\n")),
    ] {
        let redis = TestRedis::selling("1001", 1_000);
        let (_orders, call) = deduct(&redis, name, &text);
        let outcome = call.code(2).stdout_is("").stderr_has("a row is longer than 4194304 bytes");
        assert!(outcome.stderr.len() < 1_000, "{} bytes of error", outcome.stderr.len());
    }
    // What is long and ignored does no harm.
    let redis = TestRedis::selling("1001", 1_000);
    let text = format!("activity,note,user\n1001,{},7\n", &long[..3_000_000]);
    deduct(&redis, "o.csv", text).1.code(0);
}
