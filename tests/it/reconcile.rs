//! `reconcile`: what `sessions/reconcile.txt` cannot show, because it takes more than a few commands.

mod beside;
mod databases;
mod fix;
mod live;
mod orders;
mod plans;
mod service;

use crate::support::TestRedis;

/// A sale of 50 units in which `a` holds 1 and `b` 2.
fn sale() -> TestRedis {
    let redis = TestRedis::selling("1001", 50);
    redis.seckill(["deduct", "1001", "--user", "a"]).code(0);
    redis.seckill(["deduct", "1001", "--user", "b", "--quantity", "2"]).code(0);
    redis
}
