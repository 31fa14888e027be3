//! A shop's backend that buys with a plain script of its own, on the keys it shares with the tool.
//!
//! The key names are written out: they are the contract, and must not follow a change of the tool.

use redis::{FromRedisValue, ToRedisArgs};

use super::TestRedis;

/// Buys on the keys of the layout `seckill`, with the limit that this backend believes in.
#[track_caller]
pub fn buy_hash(redis: &TestRedis, activity: &str, user: &str, quantity: i64, limit: i64) -> (i64, String) {
    let keys = (format!("seckill:stock:{activity}"), format!("seckill:participants:{activity}"));
    run(redis, include_str!("../backend/hash.lua"), 2, keys, (user, quantity, limit))
}

/// Buys on the keys of the layout `sku`.
#[track_caller]
pub fn buy_sku(redis: &TestRedis, activity: &str, user: &str, quantity: i64) -> i64 {
    let keys = (format!("stock:{activity}"), format!("bought:{activity}"));
    run(redis, include_str!("../backend/sku.lua"), 2, keys, (quantity, user))
}

/// Claims on the keys of the layout `coupon`.
#[track_caller]
pub fn claim_coupon(redis: &TestRedis, activity: &str, user: &str) -> i64 {
    let keys = (format!("coupon:stock:{activity}"), format!("coupon:user:{activity}"));
    run(redis, include_str!("../backend/coupon.lua"), 2, keys, user)
}

/// Buys on the one key of the layout `product`.
#[track_caller]
pub fn buy_product(redis: &TestRedis, activity: &str, quantity: i64) -> i64 {
    let key = format!("product_stock_{activity}");
    run(redis, include_str!("../backend/product.lua"), 1, key, quantity)
}

#[track_caller]
fn run<T: FromRedisValue>(
    redis: &TestRedis,
    script: &str,
    key_count: i64,
    keys: impl ToRedisArgs,
    args: impl ToRedisArgs,
) -> T {
    redis.ask(("EVAL", script, key_count, keys, args))
}
