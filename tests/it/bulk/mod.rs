//! Files of orders: each order is applied exactly once, whatever breaks on the way.

mod damaged;
mod dialects;
mod ending;
mod exactly_once;
mod faults;
mod forgotten;
mod interrupted;
mod mixed;
mod multi;
mod output;
mod preheat;
mod progress;
mod rejects;
mod second_run;

use std::path::PathBuf;

use tempfile::TempDir;

use crate::support::{Call, Outcome, Proxy, Running, TestRedis, When};

/// A directory with a file of orders.
struct Orders {
    dir: TempDir,
    path: PathBuf,
}

impl Orders {
    fn new(text: &str) -> Self {
        Self::named("orders.csv", text)
    }

    fn named(name: &str, text: impl AsRef<[u8]>) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        Self { dir, path }
    }

    /// One unit of `activity` for each of that many users.
    fn of_users(activity: &str, users: usize) -> Self {
        let rows: String = (0..users).map(|user| format!("{activity},u{user},1\n")).collect();
        Self::new(&format!("activity,user,quantity\n{rows}"))
    }

    fn path(&self) -> &str {
        self.path.to_str().unwrap()
    }
}

fn preheat(redis: &TestRedis, activity: &str, stock: u64) {
    redis.seckill(["preheat", "--id", activity, "--stock"]).args([stock.to_string()]).code(0);
}

/// Starts a call that waits long, and lets it come as far as that command.
#[track_caller]
fn start_and_hold(proxy: &Proxy, number: usize, call: Call) -> Running {
    proxy.start_and_hold(When::Command(number), call.args(["--timeout", "60s"]))
}

/// `activity status orders` of each row of a summary.
fn summary(outcome: &Outcome) -> Vec<String> {
    let rows = outcome.json();
    let text = |value: &serde_json::Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    rows.as_array()
        .unwrap()
        .iter()
        .map(|row| format!("{} {} {}", text(&row["activity"]), text(&row["status"]), row["orders"]))
        .collect()
}

/// `line status` of each row.
fn statuses(outcome: &Outcome) -> Vec<String> {
    outcome.jsonl().iter().map(|row| format!("{} {}", row["line"], row["status"].as_str().unwrap())).collect()
}

/// How many units users hold, in total.
fn held(redis: &TestRedis, activity: &str) -> u64 {
    redis.hgetall(&format!("seckill:participants:{activity}")).values().map(|units| units.parse::<u64>().unwrap()).sum()
}
