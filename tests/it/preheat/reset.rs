//! `--reset`: asked with what it destroys, sent once, and nothing of the old sale is left but the epoch.

use std::collections::BTreeMap;

use crate::support::layout::json_call;
use crate::support::{Fault, LAYOUTS, Proxy, TestRedis, When};

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
    redis.seckill(one).at_terminal("y\n").code(0).stdout_has("4 → 9");
    assert_eq!(redis.int("seckill:stock:2"), 9);
}

#[test]
fn what_is_left_of_an_activity_is_not_reset_without_a_question() {
    for layout in LAYOUTS {
        for number in 1..=layout.key_count() {
            let redis = TestRedis::start();
            let key = layout.key(number, "1");
            match (number, layout.kind) {
                (1, _) => redis.cmd(("SET", &key, "3")),
                (4, _) => redis.cmd(("XADD", &key, "*", "op", "deduct")),
                (5, "set" | "coupon") => redis.cmd(("SADD", &key, "7", "8")),
                _ => redis.cmd(("HSET", &key, "7", "2")),
            };
            let before = redis.dump_all();
            let sold = match (number, layout.kind) {
                (5, "hash") => "(2 units sold)",
                (5, "coupon") => "(2 units sold)",
                (5, "set") => "(2 buyers, units sold unknown)",
                _ => "sold",
            };
            json_call(&redis, layout, "preheat --id 1 --stock 3 --reset").code(2).stderr_has(sold);
            redis.assert_unchanged_since(&before);
        }
    }
}

#[test]
fn a_reset_leaves_nothing_of_the_old_sale_but_the_epoch() {
    for layout in LAYOUTS {
        let redis = TestRedis::start();
        json_call(&redis, layout, "preheat --id 1 --stock 3 --ends-at 2200-01-01T00:00:00Z").code(0);
        json_call(&redis, layout, "deduct 1 --user 7").code(0);
        json_call(&redis, layout, "ledger trim 1 --before 2200-01-01T00:00:00Z --yes").code(0);
        let leftovers = ["draft", "a 3 1", "withdrawn", "2", "adopt", "live", "whatever", "else"];
        redis.set_rule(&layout.meta("1"), "state", "paused");
        redis.cmd(("HSET", layout.meta("1"), &leftovers[..]));
        redis.cmd(("SET", layout.stock("1"), "0"));
        json_call(&redis, layout, "preheat --id 1 --stock 5 --reset --yes").code(0);
        let mut expected: BTreeMap<String, String> =
            [("total", "5"), ("state", "live"), ("epoch", "2"), ("repairs", "0"), ("ledger", "1")]
                .map(|(field, value)| (field.to_owned(), value.to_owned()))
                .into();
        if layout.records_once() {
            expected.insert("per_user_limit".to_owned(), "1".to_owned());
        }
        assert_eq!(redis.meta(&layout.meta("1")), expected, "{layout:?}");
        assert_eq!((redis.int(&layout.stock("1")), redis.exists(&layout.requests("1"))), (5, false), "{layout:?}");
        assert_eq!(redis.xrange(&layout.ledger("1")).len(), 1);
        json_call(&redis, layout, "reconcile 1").code(0);
    }
}

#[test]
fn what_another_creates_after_the_question_is_not_reset() {
    let redis = TestRedis::start();
    redis.seckill(["script", "load"]).code(0);
    let proxy = Proxy::before(&redis);
    // The plan finds nothing to destroy, so nobody is asked.
    proxy.inject(When::Nth(1), Fault::Hold);
    let call = proxy.seckill(["preheat", "--id", "1", "--stock", "3", "--reset", "-o", "json"]).spawn();
    proxy.wait_until_held();
    redis.seckill(["preheat", "--id", "1", "--stock", "9"]).code(0);
    let before = redis.dump_all();
    proxy.release();
    assert_eq!(call.wait().code(3).json()[0]["status"], "exists");
    redis.assert_unchanged_since(&before);
}
