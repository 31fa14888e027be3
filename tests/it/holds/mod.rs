//! Holds: units that are taken with a deadline, and confirmed, released or expired.

mod audit;
mod begun;
mod commands;
mod files;
mod finish;
mod hostile;
mod killed;
mod transitions;

use crate::support::{CLUSTER, COUPON, Layout, SECKILL, SKU, Scripts, TestRedis, wait_until};

/// The layouts that record users.
const WITH_USERS: [Layout; 4] = [SECKILL, SKU, COUPON, CLUSTER];

/// A quarter of an hour, in ms.
const LONG: &str = "900000";

/// Units of one hold, as the kind allows it.
fn quantity(layout: Layout) -> i64 {
    if layout.kind == "coupon" { 1 } else { 2 }
}

impl Scripts {
    /// Holds units of activity 1 for user 7.
    fn hold(&mut self, request: &str, duration: &str) -> String {
        let (kind, units) = (self.layout.kind, quantity(self.layout).to_string());
        self.call("hold", &self.layout.all_keys("1"), &[kind, "tester", "7", &units, request, "first", "", duration])
    }

    /// A step of `settle` for one hold of activity 1.
    fn settle(&mut self, step: &str, request: &str) -> String {
        self.call("settle", &self.layout.all_keys("1"), &[self.layout.kind, "tester", request, step])
    }

    /// Expires what is overdue of activity 1; a hold of that many ms is, or soon will be.
    fn expire_soon(&mut self) {
        wait_until("a hold is overdue", || self.settle("expire", "500").split(' ').nth(2) == Some("1"));
    }
}

/// Units that are for sale, wherever they are.
fn units_left(redis: &TestRedis, layout: Layout) -> i64 {
    let withdrawn = redis.hget(&layout.meta("1"), "withdrawn").map_or(0, |text| text.parse::<i64>().unwrap());
    redis.int(&layout.stock("1")) + withdrawn
}

/// Units that user 7 holds of activity 1.
fn units_of_7(redis: &TestRedis, layout: Layout) -> i64 {
    let member = || redis.smembers(&layout.participants("1")).contains("7");
    let number = |text: Option<String>| text.map_or(0, |text| text.parse().unwrap());
    match layout.kind {
        "hash" => number(redis.hget(&layout.participants("1"), "7")),
        "set" if member() => number(redis.hget(&layout.key(6, "1"), "7")),
        _ => i64::from(layout.kind == "coupon" && member()),
    }
}
