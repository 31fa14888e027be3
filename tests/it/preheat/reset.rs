//! `--reset`: asked with what it destroys, and sent once. `sessions/preheat.txt` has what it removes.

use crate::support::{Proxy, TestRedis, When};

#[test]
fn the_question_names_server_activities_and_units_sold() {
    let redis = TestRedis::start();
    let ids: Vec<String> = (1..=12).map(|id| format!("{{id: {id}, stock: 4}}")).collect();
    let fixture = format!("activities: [{}]", ids.join(", "));
    redis.seckill(["preheat", "-"]).stdin(&fixture).code(0);
    for (id, quantity) in [("2", "3"), ("11", "2"), ("12", "1")] {
        redis.seckill(["deduct", id, "--user", "7", "--quantity", quantity]).code(0);
    }
    let before = redis.dump_all();
    redis
        .seckill(["preheat", "-", "--reset"])
        .stdin(&fixture)
        .code(2)
        .stderr_has("Reset 12 activities: `1` (0 of 4 units sold), `2` (3 of 4 units sold), ")
        .stderr_has(&format!("`10` (0 of 4 units sold) and 2 more (3 units sold) on `{}`?", redis.url()));
    redis.assert_unchanged_since(&before);
    let one = ["preheat", "--id", "2", "--stock", "9", "--reset"];
    let declined = redis.seckill(one).at_terminal("n\n").code(1);
    declined.stdout_has("Reset `2` (3 of 4 units sold) on ").stdout_has("nothing was changed");
    redis.assert_unchanged_since(&before);
    let proxy = Proxy::before(&redis);
    let call = proxy.start_and_hold(When::Command(1), proxy.seckill(one).at_terminal("y\n"));
    redis.seckill(["deduct", "2", "--user", "8"]).code(0);
    proxy.release();
    call.wait().code(1).stdout_has("now it is: Reset `2` (4 of 4 units sold)");
    redis.seckill(one).at_terminal("y\n").code(0).stdout_has("4 → 9");
    assert_eq!(redis.int("seckill:stock:2"), 9);
    // Plan, epoch, and the plan once more: another sale with the same numbers.
    let call = proxy.start_and_hold(When::Command(3), proxy.seckill(one).at_terminal("y\n"));
    redis.seckill(one).args(["--yes"]).code(0);
    proxy.release();
    call.wait().code(1).stdout_has("changed since the question");
}

#[test]
fn what_another_creates_after_the_question_is_not_reset() {
    let redis = TestRedis::start();
    redis.seckill(["script", "load"]).code(0);
    let proxy = Proxy::before(&redis);
    // The plan finds nothing to destroy, so nobody is asked.
    let reset = proxy.seckill(["preheat", "--id", "1", "--stock", "3", "--reset", "-o", "json"]);
    let call = proxy.start_and_hold(When::Command(1), reset);
    redis.seckill(["preheat", "--id", "1", "--stock", "9"]).code(0);
    let before = redis.dump_all();
    proxy.release();
    assert_eq!(call.wait().code(3).json()[0]["status"], "exists");
    redis.assert_unchanged_since(&before);
}
