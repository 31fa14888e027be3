//! `seckill doctor`: every outcome of every check, and every fix pasted.

mod clusters;
mod output;
mod pasted;
mod rights;
mod sale;
mod servers;

use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::Value;

use crate::support::transcript::words;
use crate::support::{Fault, Proxy, TestRedis, seckill};

/// The rows of a check.
#[track_caller]
fn rows(redis: &TestRedis, check: &str) -> Vec<Value> {
    let outcome = redis.seckill(["doctor", "-o", "json"]).run();
    let has_fail = of_check(&outcome.json(), "").iter().any(|row| row["status"] == "fail");
    let outcome = outcome.code(if has_fail { 3 } else { 0 });
    of_check(&outcome.json(), check)
}

/// The rows of a check, or all.
fn of_check(rows: &Value, check: &str) -> Vec<Value> {
    rows.as_array().unwrap().iter().filter(|row| check.is_empty() || row["check"] == check).cloned().collect()
}

/// All rows if INFO has these lines and no others.
#[track_caller]
fn info_says(proxy: &Proxy, lines: &str) -> Value {
    let reply: &'static str = Box::leak(format!("${}\r\n{lines}\r\n", lines.len()).into_boxed_str());
    proxy.decide(move |command| (command == "INFO").then_some(Fault::Reply(reply)));
    proxy.seckill(["doctor", "-o", "json"]).code(3).json()
}

/// All rows if the server's clock is ahead by that many seconds.
#[track_caller]
fn at_another_time(proxy: &Proxy, seconds: u64) -> Value {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() + seconds;
    let reply: &'static str = Box::leak(format!("*2\r\n$10\r\n{now}\r\n$1\r\n0\r\n").into_boxed_str());
    proxy.decide(move |command| (command == "TIME").then_some(Fault::Reply(reply)));
    proxy.seckill(["doctor", "-o", "json"]).code(3).json()
}

/// The one row of a check.
#[track_caller]
fn row(redis: &TestRedis, check: &str) -> Value {
    let rows = rows(redis, check);
    assert_eq!(rows.len(), 1, "{rows:#?}");
    rows[0].clone()
}

/// Holds a check to its status and a part of what it found; a warning or a failure has a reason and a fix.
#[track_caller]
fn assert_row(redis: &TestRedis, check: &str, status: &str, found: &str) -> Value {
    let row = row(redis, check);
    assert_eq!(row["status"], status, "{row:#}");
    assert!(text(&row, "found").contains(found), "{row:#}");
    assert!(!text(&row, "why").is_empty(), "{row:#}");
    assert_eq!(row["fix"].is_string(), ["warn", "fail"].contains(&status), "{row:#}");
    row
}

fn text<'a>(row: &'a Value, field: &str) -> &'a str {
    row[field].as_str().unwrap_or_default()
}

/// Sees a fault, pastes its fix, and sees what it comes to.
#[track_caller]
fn assert_fixed(redis: &TestRedis, check: &str, status: &str, found: &str, then: &str) {
    let row = assert_row(redis, check, status, found);
    paste(redis, text(&row, "fix"));
    assert_row(redis, check, then, "");
}

/// Does what a shell would do with a fix: `redis-cli` and `seckill`, joined by `&&`.
#[track_caller]
fn paste(redis: &TestRedis, fix: &str) {
    for line in fix.split(" && ") {
        let words = words(line);
        match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
            ["redis-cli" | "valkey-cli", "-s", path, ref rest @ ..] => {
                assert_eq!(path, redis.socket().display().to_string(), "{fix}");
                let rest = if rest.first() == Some(&"--user") { &rest[2..] } else { rest };
                redis.cmd(rest);
            }
            ["seckill", command, ref rest @ ..] => {
                let call = seckill([command, "-y"]).args(rest).env("SECKILL_URL", &redis.url());
                let outcome = call.run();
                assert!([Some(0), Some(7)].contains(&outcome.status.code()), "{fix}: {}", outcome.stderr);
            }
            _ => panic!("no command to paste: {fix}"),
        }
    }
}
