//! What audits see of counts of holds that another program changed, and of a hold whose entry is missing.

use super::{LONG, WITH_USERS};
use crate::support::scripts::cut_after;
use crate::support::{SECKILL, Scripts, TestRedis};

/// Holds `r` of user 7, and one of user 8.
fn prepare(redis: &TestRedis, scripts: &mut Scripts) {
    let (layout, kind) = (scripts.layout, scripts.layout.kind);
    scripts.preheat("1", "10");
    assert!(scripts.hold("r", LONG).starts_with("1 "));
    let args = [kind, "tester", "8", "1", "s", "first", "", LONG];
    assert!(scripts.call("hold", &layout.all_keys("1"), &args).starts_with("1 "));
    redis.seckill(["-l", layout.name, "reconcile", "1"]).code(0);
}

#[test]
fn fix_counts_anew_what_another_program_changed() {
    for layout in WITH_USERS {
        let redis = TestRedis::start();
        prepare(&redis, &mut Scripts::of(&redis, layout));
        let (requests, deadlines) = (layout.requests("1"), layout.deadlines("1"));
        let right = redis.hget(&requests, "\tholds");
        let audit = ["-l", layout.name, "reconcile", "1"];
        for (field, wrong) in [("\tholds", "9"), ("\to:7", "0")] {
            redis.cmd(("HSET", &requests, field, wrong));
            redis.seckill(audit).code(7).stdout_has("open_count").stderr_has("`reconcile --fix` counts them anew");
            // Nobody can count what a damaged record says.
            let whole = redis.hget(&requests, "\th:s").unwrap();
            redis.cmd(("HSET", &requests, "\th:s", "held ? 1 - 8"));
            redis.seckill(audit).code(7).stdout_has("corrupt").stderr_has("could not be counted");
            redis.cmd(("HSET", &requests, "\th:s", whole));
            redis.seckill(audit).args(["--fix", "--yes"]).code(0).stdout_has("open_count");
            redis.seckill(audit).code(0);
            assert_eq!(redis.hget(&requests, "\tholds"), right, "{layout:?}");
        }
        // A hold that was cut leaves its deadline alone.
        redis.cmd(("ZADD", &deadlines, 1, "cut"));
        redis.seckill(["-l", layout.name, "expire", "1"]).code(0);
        assert_eq!(redis.ask::<i64>(("ZCARD", &deadlines)), 2, "{layout:?}");
    }
}

#[test]
fn an_audit_does_not_take_the_ledgers_word_for_what_is_held_open() {
    let redis = TestRedis::start();
    let mut scripts = Scripts::of(&redis, SECKILL);
    prepare(&redis, &mut scripts);
    // The last write of the call is the ledger entry.
    let hold = ["hash", "tester", "9", "2", "t", "first", "", LONG];
    let reply = scripts.eval(&cut_after("hold", 4), &SECKILL.all_keys("1"), &hold);
    assert!(reply.contains("CUT"), "{reply}");
    let lost = "units held open: its ledger has 3, its holds have 5";
    redis.seckill(["reconcile", "1"]).code(7).stderr_has(lost);
}
