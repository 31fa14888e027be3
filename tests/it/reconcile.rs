//! `reconcile`: what `sessions/reconcile.txt` cannot show, because it takes more than a few commands.

mod beside;
mod databases;
mod fix;
mod formats;
mod live;
mod orders;
mod plans;
mod proof;
mod service;

use crate::support::TestRedis;

/// A sale of 50 units in which `a` holds 1 and `b` 2.
fn sale() -> TestRedis {
    let redis = TestRedis::selling("1001", 50);
    redis.seckill(["deduct", "1001", "--user", "a"]).code(0);
    redis.seckill(["deduct", "1001", "--user", "b", "--quantity", "2"]).code(0);
    redis
}

#[test]
fn a_user_whom_only_a_backend_could_have_named_so_is_counted() {
    let redis = TestRedis::start();
    redis.cmd(("SET", "seckill:stock:1001", 10));
    for (user, units) in [(&b"a\0b"[..], 2), (b"\xff", 1), (b"1 2", 3)] {
        redis.cmd(("HSET", "seckill:participants:1001", user, units));
    }
    redis.seckill(["reconcile", "1001", "--total", "16"]).code(0);
}
