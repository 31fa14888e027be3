//! No hint leads in a circle: from each state that lost something, the hints lead to a sale that is proven again.

use super::adopt::{assert_proven, foreign};
use crate::support::layout::json_call;
use crate::support::{LAYOUTS, Layout, SECKILL, TestRedis};

/// Ten units, one of them sold to user 7.
fn sale(layout: Layout) -> TestRedis {
    let redis = TestRedis::start();
    for line in ["preheat --id 1 --stock 10", "deduct 1 --user 7"] {
        json_call(&redis, layout, line).code(0);
    }
    redis
}

/// Each of the commands says what leads out, and changes nothing.
#[track_caller]
fn assert_hinted(redis: &TestRedis, layout: Layout, hint: &str, lines: &[&str]) {
    let before = redis.dump_all();
    for line in lines {
        let outcome = json_call(redis, layout, line).run();
        assert!([3, 7].contains(&outcome.status.code().unwrap()), "{layout:?}: {line}: {outcome:?}");
        outcome.stderr_has(hint);
    }
    redis.assert_unchanged_since(&before);
}

#[test]
fn a_lost_meta_leads_to_an_adoption() {
    for layout in LAYOUTS {
        let redis = sale(layout);
        redis.cmd(("DEL", layout.meta("1")));
        let lines = [
            "inspect 1",
            "deduct 1 --user 8",
            "refund 1 --user 7",
            "preheat --id 1 --stock 10",
            "preheat --id 1 --stock 12 --update",
            "pause 1",
            "reconcile 1",
            "reconcile 1 --fix --yes",
        ];
        assert_hinted(&redis, layout, "preheat --adopt`", &lines);
        json_call(&redis, layout, "preheat --id 1 --adopt --yes").code(0);
        json_call(&redis, layout, "deduct 1 --user 8").code(0);
        assert_proven(&redis, layout);
        let row = json_call(&redis, layout, "preheat --id 1 --stock 10").code(0).json()[0].clone();
        assert_eq!(row["action"], "unchanged", "{layout:?}");
    }
}

#[test]
fn an_activity_of_another_system_leads_to_an_adoption() {
    for layout in LAYOUTS {
        let redis = foreign(layout);
        let lines = ["preheat --id 1 --stock 10", "preheat --id 1 --stock 12 --update", "pause 1"];
        assert_hinted(&redis, layout, "preheat --id 1 --adopt`", &lines);
        let total = if layout.has_users() { "" } else { " --total 13" };
        json_call(&redis, layout, &format!("preheat --id 1 --adopt --yes{total}")).code(0);
        json_call(&redis, layout, "pause 1").code(0);
        json_call(&redis, layout, "resume 1").code(0);
        json_call(&redis, layout, "preheat --id 1 --stock 15 --update").code(0);
        assert_proven(&redis, layout);
    }
}

#[test]
fn evicted_participants_lead_to_a_repair_from_the_ledger() {
    for layout in LAYOUTS.into_iter().filter(|layout| layout.has_users()) {
        let redis = sale(layout);
        redis.cmd(("DEL", layout.participants("1")));
        assert_hinted(&redis, layout, "reconcile --fix`", &["deduct 1 --user 8", "deduct 1 --user 7"]);
        assert_hinted(&redis, layout, "reconcile 1 --fix`", &["preheat --id 1 --adopt --yes"]);
        json_call(&redis, layout, "reconcile 1 --fix --yes").code(0);
        json_call(&redis, layout, "deduct 1 --user 8").code(0);
        assert_proven(&redis, layout);
    }
}

#[test]
fn meta_and_participants_both_lost_come_back_one_by_one() {
    for layout in LAYOUTS.into_iter().filter(|layout| layout.has_users()) {
        let redis = sale(layout);
        redis.cmd(("DEL", layout.participants("1"), layout.meta("1")));
        json_call(&redis, layout, "preheat --id 1 --adopt --yes").code(0);
        assert_hinted(&redis, layout, "reconcile --fix`", &["deduct 1 --user 8"]);
        json_call(&redis, layout, "reconcile 1 --fix --yes").code(0);
        assert_proven(&redis, layout);
    }
}

#[test]
fn a_lost_stock_leads_to_a_repair_from_a_whole_ledger() {
    for layout in LAYOUTS {
        let redis = sale(layout);
        redis.cmd(("DEL", layout.stock("1")));
        let lines = ["preheat --id 1 --stock 10", "preheat --id 1 --stock 12 --update", "preheat --id 1 --adopt --yes"];
        assert_hinted(&redis, layout, "reconcile 1 --fix`", &lines);
        // What a bare counter sold past the ledger is recorded nowhere: its stock is not restored.
        if layout.has_users() {
            json_call(&redis, layout, "reconcile 1 --fix --yes").code(0);
            assert_eq!(redis.int(&layout.stock("1")), 9, "{layout:?}");
            assert_proven(&redis, layout);
        } else {
            assert_hinted(&redis, layout, "`--reset` starts over", &lines);
        }
    }
}

#[test]
fn a_lost_stock_without_a_ledger_leads_to_an_adoption() {
    let redis = TestRedis::start();
    redis.seckill(["preheat", "-"]).stdin("activities: [{id: 1, stock: 10, ledger: false}]").code(0);
    json_call(&redis, SECKILL, "deduct 1 --user 7 --quantity 3").code(0);
    redis.cmd(("DEL", SECKILL.stock("1")));
    assert_hinted(&redis, SECKILL, "preheat --id 1 --adopt`", &["preheat --id 1 --stock 10"]);
    json_call(&redis, SECKILL, "preheat --id 1 --adopt --yes").code(0);
    assert_eq!(redis.int("seckill:stock:1"), 7);
    assert_eq!(redis.rule("seckill:meta:1", "ledger").as_deref(), Some("0"), "as it was");
    json_call(&redis, SECKILL, "deduct 1 --user 8").code(0);
    assert_eq!(json_call(&redis, SECKILL, "reconcile 1").code(0).json()["activities"][0]["proof"], "total");
}
