//! `ledger trim` beside another one, and a reset behind it: the audit stays exact.

use super::trim::{LATER, matches, sale, trim};
use crate::support::{Proxy, SECKILL, When};

#[test]
fn of_two_at_once_one_gives_way() {
    let (redis, time) = sale(SECKILL);
    redis.seckill(["script", "load"]).code(0);
    let network = Proxy::before(&redis);
    let args = ["ledger", "trim", "1001", "--yes", "--before", &time];
    let page = When::With("\r\npage\r\n".to_owned());
    let first = network.start_and_hold(page, network.seckill(args).args(["--timeout", "60s"]));
    network.heal();
    redis.seckill(args).code(0);
    network.release();
    first.wait().code(1).stderr_has("trimmed by somebody else");
    matches(&redis, SECKILL);
    let pages = redis.hgetall(&SECKILL.requests("1001")).into_keys().filter(|field| field.starts_with("\tc:"));
    assert_eq!(pages.count(), 1);
}

#[test]
fn a_reset_takes_the_checkpoint_along() {
    let (redis, time) = sale(SECKILL);
    trim(&redis, &time).code(0);
    redis.cmd(("HSET", SECKILL.meta("1001"), "draft", "left-over 3 1"));
    redis.seckill(["preheat", "--id", "1001", "--stock", "9", "--reset", "--yes"]).code(0);
    let meta = redis.hgetall(&SECKILL.meta("1001"));
    assert!(!meta.contains_key("checkpoint") && !meta.contains_key("draft"), "{meta:?}");
    assert!(!redis.exists(&SECKILL.requests("1001")));
    matches(&redis, SECKILL);
    redis.seckill(["ledger", "1001", "-o", "csv"]).code(0).stderr("");
    // A checkpoint that an older tool's reset left means nothing in the new sale.
    redis.cmd(("HSET", SECKILL.meta("1001"), "checkpoint", "8 x 1 1 1700000000000-0 1600000000000-0 8 9 3 1 me"));
    matches(&redis, SECKILL);
    redis.seckill(["ledger", "1001", "-o", "csv"]).code(0).stderr("");
    redis.seckill(["deduct", "1001", "--user", "a"]).code(0);
    assert_eq!(trim(&redis, LATER).code(0).json()["removed"], 1);
    matches(&redis, SECKILL);
}
