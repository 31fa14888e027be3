//! `pause`: a question, and a failure in the middle. `sessions/pause.txt` has all else.

use crate::support::{SECKILL, TestRedis};

#[test]
fn one_question_names_the_activities_that_all_or_a_pattern_means() {
    let redis = TestRedis::start();
    for id in ["sku-1", "sku-2", "other"] {
        redis.seckill(["preheat", "--id", id, "--stock", "5"]).code(0);
    }
    let before = redis.dump_all();
    redis.seckill(["pause", "--all"]).at_terminal("n\n").code(1).stdout_has("(`other`, `sku-1`, `sku-2`)");
    redis.assert_unchanged_since(&before);
    redis.seckill(["pause", "sku-*"]).at_terminal("y\n").code(0).stdout_has("(`sku-1`, `sku-2`)");
    assert_eq!(redis.rule(&SECKILL.meta("sku-2"), "state").as_deref(), Some("paused"));
}

#[test]
fn what_was_paused_before_a_failure_is_reported() {
    let redis = TestRedis::selling("1", 5);
    redis.seckill(["preheat", "--id", "2", "--stock", "5"]).code(0);
    redis.cmd(&["ACL", "SETUSER", "op", "reset", "on", ">pw", "+@all", "~seckill:*:1"]);
    let call = redis.seckill(["-o", "csv", "pause", "1", "2"]).env("SECKILL_PASSWORD", "pw");
    let outcome = call.env("SECKILL_URL", &format!("{}?user=op", redis.url())).code(4);
    outcome.stdout_is("activity,status,state\n1,ok,paused\n");
    assert_eq!(redis.rule(&SECKILL.meta("2"), "state").as_deref(), Some("live"));
}
