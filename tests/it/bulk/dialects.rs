//! Each form of a file, with all that other programs make of it: byte order mark, line ends, quotes, columns in any
//! order, columns that nobody asked for, empty lines, no end of the last line.

use super::{Orders, preheat, statuses};
use crate::support::TestRedis;

/// What every file here asks for: a user of 7 bytes that must be quoted, one that must not be a number, one in Chinese.
const USERS: [&str; 4] = ["a,\"b\"\tc", "007", "王小明", "x y"];

/// Applies a file; gives the lines of its rows.
#[track_caller]
fn lines(name: &str, text: impl AsRef<[u8]>, flags: &[&str]) -> Vec<String> {
    let redis = TestRedis::selling("1001", 10);
    preheat(&redis, "010", 10);
    let orders = Orders::named(name, text);
    let outcome = redis.seckill(["deduct", "-o", "jsonl", "--from", orders.path()]).args(flags).code(0);
    let held = redis.hgetall("seckill:participants:1001");
    assert_eq!(held.get("007").map(String::as_str), Some("2"), "{held:?}");
    assert_eq!(held.get("王小明").map(String::as_str), Some("1"), "{held:?}");
    assert_eq!(redis.hgetall("seckill:participants:010").get("x y").map(String::as_str), Some("3"));
    assert!(redis.hget("seckill:requests:1001", "r 1").is_some());
    let rows = outcome.jsonl();
    let first = rows[0]["user"].as_str().unwrap();
    assert_eq!(held.get(first).map(String::as_str), Some("1"), "{held:?}");
    statuses(&outcome)
}

/// A row a user: quantity, what is ignored, user, activity, request.
fn separated(delimiter: char, line_end: &str, quoted: impl Fn(&str) -> String) -> String {
    let rows = [
        ("1", USERS[0], "1001", "r 1"),
        ("2", USERS[1], "1001", ""),
        ("1", USERS[2], "1001", ""),
        ("3", USERS[3], "010", ""),
    ];
    let joined = |fields: [&str; 5]| fields.join(&delimiter.to_string());
    let mut text = joined(["quantity", "note", "user", "activity", "request"]);
    for (quantity, user, activity, request) in rows {
        text += line_end;
        text += &joined([quantity, &quoted("a \"note\""), &quoted(user), activity, request]);
    }
    text
}

fn in_quotes(text: &str) -> String {
    format!("\"{}\"", text.replace('"', "\"\""))
}

#[test]
fn csv() {
    // A tab is a control character, which no id may have.
    let plain = separated(',', "\n", in_quotes).replace('\t', " ");
    assert_eq!(lines("o.csv", &plain, &[]), ["2 ok", "3 ok", "4 ok", "5 ok"]);
    assert_eq!(lines("o.txt", &plain, &["--format", "csv"]), ["2 ok", "3 ok", "4 ok", "5 ok"]);
    let windows = format!("\u{feff}{}\r\n", plain.replace('\n', "\r\n"));
    assert_eq!(lines("o.csv", &windows, &[]), ["2 ok", "3 ok", "4 ok", "5 ok"]);
    assert_eq!(lines("o.csv", plain.replacen('\n', "\r", 2), &[]), ["2 ok", "3 ok", "4 ok", "5 ok"]);
    assert_eq!(lines("o.csv", plain.replace('\n', "\r"), &[]), ["2 ok", "3 ok", "4 ok", "5 ok"]);
    // A note of two lines; lines are those of the file. Empty ones are passed.
    let folded = plain.replace("a \"\"note\"\"", "a\nnote").replacen("\n1,", "\n\n\n1,", 1);
    assert_eq!(lines("o.csv", folded + "\n\n", &[]), ["4 ok", "6 ok", "8 ok", "10 ok"]);
    // Names of columns may be quoted too.
    let header = plain.replace("quantity,note,user", "\"quantity\",\"note\",\"user\"");
    assert_eq!(lines("o.csv", header, &[]).len(), 4);
}

#[test]
fn tsv() {
    let plain = separated('\t', "\n", in_quotes).replace("b\"\"\tc", "b\"\" c");
    assert_eq!(lines("o.tsv", &plain, &[]), ["2 ok", "3 ok", "4 ok", "5 ok"]);
    assert_eq!(lines("o.csv", &plain, &["--format", "tsv"]), ["2 ok", "3 ok", "4 ok", "5 ok"]);
    let windows = format!("\u{feff}{}\r\n", plain.replace('\n', "\r\n"));
    assert_eq!(lines("export", &windows, &[]), ["2 ok", "3 ok", "4 ok", "5 ok"], "known by its first line");
}

#[test]
fn jsonl() {
    let text = [
        r#"{"quantity":1,"note":{"a":[1,"}"]},"user":"a,\"b\" c","activity":1001,"request":"r 1"}"#,
        r#" { "activity" : "1001" , "user":"007","quantity":"2", "note":null }"#,
        r#"{"user":"\u738b小明","activity":"1001","request":null}"#,
        r#"{"activity":"010","quantity":3,"user":"x y","request":""}"#,
    ];
    assert_eq!(lines("o.jsonl", text.join("\n"), &[]), ["1 ok", "2 ok", "3 ok", "4 ok"]);
    let windows = format!("\u{feff}{}\r\n\r\n", text.join("\r\n\r\n"));
    assert_eq!(lines("o.ndjson", &windows, &[]), ["1 ok", "3 ok", "5 ok", "7 ok"], "known by its first line");
    assert_eq!(lines("o.csv", &windows, &["--format", "jsonl"]).len(), 4);
}
