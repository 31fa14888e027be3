//! Holds: units that are taken with a deadline, and confirmed, released or expired.

mod audit;
mod commands;
mod files;
mod finish;

use crate::support::{CLUSTER, COUPON, Layout, SECKILL, SKU, Scripts};

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
}
