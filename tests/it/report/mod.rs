//! `report`: a sale after it is over.

mod figures;
mod picture;
mod shown;

use std::collections::BTreeMap;

use serde_json::Value;

use crate::support::{Layout, SECKILL, TestRedis};

/// 2021-11-11T00:00:00+08:00.
pub const MIDNIGHT: u64 = 1_636_560_000_000;

/// The report of the only activity.
#[track_caller]
pub fn report(redis: &TestRedis, layout: Layout) -> Value {
    let rows = redis.seckill(["report", "1001", "-o", "json", "-l", layout.name]).code(0).stderr("").json();
    assert_eq!(rows.as_array().map(Vec::len), Some(1), "{rows}");
    rows[0].clone()
}

/// A ledger whose entries have the times that the test wants.
struct Sale {
    redis: TestRedis,
    stock: i64,
    held: BTreeMap<String, i64>,
}

impl Sale {
    /// The rules are those of the end of the sale; the ledger begins with this many units.
    fn begin(stock: i64, title: &str, rules: &[&str]) -> Self {
        let redis = TestRedis::start();
        redis
            .seckill(["preheat", "--id", "1001", "--title", title])
            .args(["--starts-at", "2021-11-11T00:00:00+08:00", "--ends-at", "2021-11-11T02:00:00+08:00"])
            .args(rules)
            .code(0);
        redis.cmd(("DEL", SECKILL.ledger("1001")));
        let mut sale = Self { redis, stock, held: BTreeMap::new() };
        sale.add(0, "preheat", &[("total", &stock.to_string()), ("epoch", "1")]);
        sale
    }

    fn add(&mut self, after: u64, op: &str, fields: &[(&str, &str)]) {
        let id = format!("{}-0", MIDNIGHT + after);
        let mut entry = vec!["XADD".to_owned(), SECKILL.ledger("1001"), id];
        let stock = self.stock.to_string();
        for (name, text) in [("op", op), ("stock", &stock), ("by", "ann@ops")].iter().chain(fields) {
            entry.extend([(*name).to_owned(), (*text).to_owned()]);
        }
        self.redis.cmd(&entry);
    }

    /// Orders of a range of users, each of the same number of units.
    fn orders(&mut self, after: u64, op: &str, users: std::ops::Range<u64>, units: i64) {
        let names: Vec<String> = users.map(|user| format!("user-{user}")).collect();
        let moved = if op == "refund" { -units } else { units };
        for name in &names {
            *self.held.entry(name.clone()).or_default() += moved;
            self.stock -= moved;
        }
        let names = names.join("\t");
        self.add(after, op, &[("users", &names), ("quantity", &units.to_string())]);
    }

    /// Stock and participants as the ledger leaves them.
    fn end(self) -> TestRedis {
        let Self { redis, stock, held } = self;
        redis.cmd(("SET", SECKILL.stock("1001"), stock));
        for (user, units) in held.iter().filter(|(_, units)| **units > 0) {
            redis.cmd(("HSET", SECKILL.participants("1001"), user, *units));
        }
        redis
    }
}

/// A sale as shops have them: a rush that slows down, a pause, more stock, some refunds. The numbers are random, and the same
/// at each run.
pub fn rush_of_2021() -> TestRedis {
    let mut sale = Sale::begin(10_000, "Double-11 phone", &["--stock", "12000", "--per-user-limit", "20"]);
    let mut seed: u64 = 7;
    let mut random = |below: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % below
    };
    let mut at = 120;
    let mut user = 0;
    let mut was_paused = false;
    while sale.stock > 0 {
        if sale.stock < 4000 && !was_paused {
            was_paused = true;
            sale.add(at, "pause", &[("reason", "wrong price")]);
            at += 640;
            sale.add(at, "resume", &[]);
            sale.stock += 2000;
            at += 180;
            sale.add(at, "update", &[("total", "12000")]);
            at += 1;
        }
        let users = (16 + random(24) + 4_000 / at).min(u64::try_from(sale.stock).unwrap());
        let units = i64::try_from(1 + random(3)).unwrap();
        let units = if units * i64::try_from(users).unwrap() > sale.stock { 1 } else { units };
        // Some come again.
        let first = if user > 900 && random(3) == 0 { user - 900 } else { user };
        sale.orders(at, "deduct", first..first + users, units);
        user = user.max(first + users);
        at += 12 + at / 200 + random(20);
        if at > 3400 && random(8) == 0 {
            let from = random(user - 3);
            sale.orders(at, "refund", from..from + 1 + random(3), 1);
            at += 1;
        }
    }
    sale.orders(at + 7_000_000, "refund", 40..48, 1);
    sale.end()
}

/// A sale of 2021: 800 units, and 200 more after a pause; sold out after 4.6 seconds; the last refund a day later.
pub fn sale_of_2021() -> TestRedis {
    let mut sale = Sale::begin(800, "Phone <手机> & \"case\"", &["--stock", "1000", "--per-user-limit", "9"]);
    for index in 0..50 {
        sale.orders(500 + index * 20, "deduct", index * 6..index * 6 + 6, 2);
    }
    sale.add(1600, "pause", &[("reason", "price\u{1b}[2J is \"wrong\" & <low>")]);
    sale.add(2600, "resume", &[]);
    sale.stock += 200;
    sale.add(2700, "update", &[("total", "1000")]);
    sale.orders(2900, "refund", 0..30, 1);
    for index in 0..43 {
        sale.orders(2920 + index * 40, "deduct", index * 5..index * 5 + 5, 2);
    }
    sale.orders(4700, "refund", 299..300, 2);
    sale.orders(86_400_000, "refund", 200..204, 1);
    sale.end()
}
