//! The four plain scripts answer as the systems do that run them.

use crate::support::TestRedis;
use crate::support::backend::{buy_hash, buy_product, buy_sku, claim_coupon};

#[test]
fn the_hash_keeps_units_of_each_user_within_the_limit() {
    let redis = TestRedis::start();
    redis.cmd(("SET", "seckill:stock:1001", 4));
    assert_eq!(buy_hash(&redis, "1001", "7", 2, 3), (1, "成功".to_owned()));
    assert_eq!(buy_hash(&redis, "1001", "7", 2, 3), (0, "超过个人限购".to_owned()));
    assert_eq!(buy_hash(&redis, "1001", "8", 3, 3), (0, "库存不足".to_owned()));
    assert_eq!(redis.int("seckill:stock:1001"), 2);
    assert_eq!(redis.hget("seckill:participants:1001", "7").as_deref(), Some("2"));
}

#[test]
fn the_sku_set_takes_one_order_of_each_user() {
    let redis = TestRedis::start();
    redis.cmd(("SET", "stock:1001", 5));
    assert_eq!(buy_sku(&redis, "1001", "7", 3), 2);
    assert_eq!(buy_sku(&redis, "1001", "7", 1), -2);
    assert_eq!(buy_sku(&redis, "1001", "8", 3), -1);
    assert_eq!(redis.smembers("bought:1001").len(), 1);
}

#[test]
fn the_coupon_set_gives_one_to_each_user() {
    let redis = TestRedis::start();
    redis.cmd(("SET", "coupon:stock:1001", 1));
    assert_eq!(claim_coupon(&redis, "1001", "7"), 1);
    assert_eq!(claim_coupon(&redis, "1001", "8"), 0);
    redis.cmd(("SET", "coupon:stock:1001", 1));
    assert_eq!(claim_coupon(&redis, "1001", "7"), 2);
    assert_eq!(redis.smembers("coupon:user:1001").len(), 1);
}

#[test]
fn the_counter_knows_no_users() {
    let redis = TestRedis::start();
    assert_eq!(buy_product(&redis, "1001", 1), -1);
    redis.cmd(("SET", "product_stock_1001", 2));
    assert_eq!(buy_product(&redis, "1001", 2), 1);
    assert_eq!(buy_product(&redis, "1001", 1), 0);
    assert_eq!(redis.int("product_stock_1001"), 0);
}
