//! `ledger trim` that is cut short, races or loses a reply: the audit stays exact, and the next trim resumes.

use super::trim::{LATER, matches, now, sale, trim};
use crate::support::{Fault, Proxy, SECKILL, TestRedis, When};

/// A thousand users' purchases, more than one call removes, with a checkpoint of an earlier trim; and a time.
fn long_sale() -> (TestRedis, String) {
    let redis = TestRedis::start();
    redis.seckill(["preheat", "--id", "1001", "--stock", "100000"]).code(0);
    let sell = "for i = 1, ARGV[1] do
        local user = 'user-' .. i % 1100
        redis.call('DECR', KEYS[1])
        redis.call('HINCRBY', KEYS[2], user, 1)
        redis.call('XADD', KEYS[3], '*', 'op', 'deduct', 'stock', '1', 'users', user, 'quantity', '1')
    end";
    let keys = (SECKILL.stock("1001"), SECKILL.participants("1001"), SECKILL.ledger("1001"));
    redis.cmd(("EVAL", sell, 3, &keys, 700));
    trim(&redis, &now(&redis)).code(0);
    redis.cmd(("EVAL", sell, 3, &keys, 2100));
    let time = now(&redis);
    redis.cmd(("EVAL", sell, 3, &keys, 10));
    (redis, time)
}

#[test]
fn of_two_at_once_one_gives_way() {
    let (redis, time) = long_sale();
    redis.seckill(["script", "load"]).code(0);
    let network = Proxy::before(&redis);
    let args = ["ledger", "trim", "1001", "--yes", "--before", &time];
    // The third page of the first comes again only when the second is through.
    let so_far = {
        let count = Proxy::before(&redis);
        count.seckill(args).args(["--dry-run"]).code(0);
        count.commands().len()
    };
    network.inject(When::Nth(so_far + 1 + 3), Fault::HangRequest);
    let first = network.seckill(args).args(["--timeout", "1s"]).spawn();
    network.wait_for_commands(so_far + 1 + 3);
    first.signal(libc::SIGSTOP);
    redis.seckill(args).code(0);
    first.signal(libc::SIGCONT);
    first.wait().code(1).stderr_has("somebody else");
    matches(&redis, SECKILL);
    let pages = redis.hgetall(&SECKILL.requests("1001")).into_keys().filter(|field| field.starts_with("\tc:"));
    assert_eq!(pages.count(), 3);
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
