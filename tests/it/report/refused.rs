//! Without a ledger there is no report.

use crate::support::{SECKILL, TestRedis};

#[test]
fn an_activity_without_a_ledger_is_refused_with_what_to_do_instead() {
    let redis = TestRedis::start();
    let refused = |id: &str| redis.seckill(["report", id]).code(3).stdout_is("");
    refused("1001").stderr_has("`1001` is not_preheated");
    redis.cmd(("SET", SECKILL.stock("1001"), 5));
    refused("1001").stderr_has("another system created it").stderr_has("seckill inspect 1001");
    redis.seckill(["preheat", "-"]).stdin("activities: [{id: plain, stock: 5, ledger: false}]").code(0);
    refused("plain").stderr_has("has no ledger").stderr_has("--orders FILE");
    redis.seckill(["preheat", "--id", "gone", "--stock", "5"]).code(0);
    redis.cmd(("DEL", SECKILL.ledger("gone")));
    refused("gone").stderr_has("its entries were lost").stderr_has("preheat --adopt");
    redis.cmd(("HSET", SECKILL.meta("gone"), "rules", "archived 1 1 - 5 - -"));
    refused("gone").stderr_has("is archived").stderr_has("preheat --restore DIR");
    redis.cmd(("HSET", SECKILL.meta("gone"), "rules", "nonsense"));
    refused("gone").stderr_has("corrupt");
}

#[test]
fn another_layout_that_has_it_is_named() {
    let redis = TestRedis::start();
    redis.seckill(["preheat", "--id", "1001", "--stock", "5", "-l", "sku"]).code(0);
    redis.seckill(["report", "1001"]).code(3).stderr_has("--layout sku");
}

#[test]
fn the_top_is_a_number_and_metrics_are_of_other_commands() {
    let redis = TestRedis::start();
    for top in ["-1", "100001", "x"] {
        redis.seckill(["report", "1001", "--top", top]).code(2).stderr_has("--top");
    }
    redis.seckill(["report", "1001", "-o", "prometheus"]).code(2);
    redis.seckill(["report"]).code(2).stderr_has("ACTIVITY");
}
