//! The plan is what is applied, whatever others change meanwhile. `sessions/preheat.txt` has what it shows.

use crate::support::{Proxy, TestRedis, When};

#[test]
fn a_person_sees_what_a_pipe_sees_and_the_plan_only_to_answer_a_question() {
    let redis = TestRedis::start();
    let update = ["preheat", "--id", "1", "--stock", "8", "--update"];
    let call = |line: &str, answer: &str| redis.seckill([]).args(line.split(' ')).at_terminal(answer).code(0);
    call("preheat --id 1 --stock 5", "").stdout_has("create").stdout_lacks("Plan");
    let piped = redis.seckill(update).args(["--dry-run"]).code(0);
    assert_eq!(piped.stdout.matches("5 → 8").count() + piped.stderr.matches("stock `5` → `8`").count(), 3, "{piped:?}");
    let seen = redis.seckill(update).at_terminal("").code(0);
    assert_eq!(seen.stdout.matches("stock `5` → `8`").count(), 1, "{}", seen.stdout);
    seen.stdout_has("ok      5 → 8  5 → 8      -").stdout_lacks("Plan");
    call("preheat --id 1 --stock 9 --reset -y", "").stdout_has("reset").stdout_lacks("Plan");
    call("preheat --id 1 --stock 7 --reset -q", "y\n").stdout_has("Plan").stdout_has("Reset `1` (0 of 9 units sold");
}

/// Another caller changes the total before each step of the update in turn.
#[test]
fn a_total_that_is_not_named_stays_what_others_made_it() {
    let update = ["preheat", "--id", "1", "--title", "phone", "--update", "-o", "json"];
    let preheated = || TestRedis::selling("1", 10);
    let undisturbed = preheated();
    let proxy = Proxy::before(&undisturbed);
    proxy.seckill(update).code(0);
    let steps = proxy.commands().len();
    assert!(steps > 3, "{:?}", proxy.commands());
    for step in 1..=steps {
        let redis = preheated();
        let proxy = Proxy::before(&redis);
        let call = proxy.start_and_hold(When::Command(step), proxy.seckill(update));
        redis.seckill(["preheat", "--id", "1", "--stock", "12", "--update"]).code(0);
        proxy.release();
        call.wait().code(0);
        let meta = redis.meta("seckill:meta:1");
        assert_eq!((meta["total"].as_str(), meta["title"].as_str()), ("12", "phone"), "{step}");
        assert_eq!(redis.int("seckill:stock:1"), 12, "{step}");
    }
}
