//! Repairs as they are applied: in parts, once, and during the sale.

use super::sale;
use crate::support::TestRedis;

const PARTICIPANTS: &str = "seckill:participants:1001";
const STOCK: &str = "seckill:stock:1001";

#[test]
fn a_large_plan_needs_to_be_allowed_and_is_applied_in_parts() {
    let redis = TestRedis::start();
    redis.seckill(["preheat", "--id", "1001", "--stock", "5000"]).code(0);
    for page in 0..3 {
        let users = (0..400).flat_map(|user| [format!("u{}", page * 400 + user), "2".to_owned()]);
        redis.cmd(("HSET", PARTICIPANTS, users.collect::<Vec<_>>()));
    }
    let before = redis.dump_all();
    let fix = redis.seckill(["reconcile", "--fix", "--yes"]).code(7);
    fix.stderr_has("1200 repairs are wanted, more than `--max-repairs 100`");
    redis.assert_unchanged_since(&before);
    redis.seckill(["reconcile", "--fix", "--yes", "--max-repairs", "1200"]).code(0);
    assert_eq!(redis.hgetall(PARTICIPANTS).len(), 0);
    redis.seckill(["reconcile"]).code(0);
}

#[test]
fn a_repair_whose_reply_is_lost_is_applied_once() {
    let redis = sale("seckill");
    redis.cmd(("DECRBY", STOCK, 5));
    let network = crate::support::Proxy::before(&redis);
    // Of the script's calls the last one is the repair: two of the audit come before it.
    network.inject(crate::support::When::Nth(4), crate::support::Fault::LoseReply);
    network.seckill(["reconcile", "1001", "--fix", "--yes"]).code(0);
    assert_eq!(redis.int(STOCK), 47);
    redis.seckill(["reconcile"]).code(0);
}
