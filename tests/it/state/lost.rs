//! Keys that expired, were evicted or deleted: nothing is sold anew, and no limit starts over.

use super::{is_corrupt, sale};
use crate::support::layout::json_call;
use crate::support::{LAYOUTS, TestRedis};

#[test]
fn an_evicted_stock_is_never_sold_anew() {
    for layout in LAYOUTS {
        let redis = sale(layout);
        redis.cmd(("DEL", layout.stock("1")));
        let before = redis.dump_all();
        for line in ["preheat --id 1 --stock 10", "preheat --id 1 --stock 20 --update"] {
            let row = json_call(&redis, layout, line).code(3).json()[0].clone();
            assert_eq!((&row["status"], &row["action"]), (&"exists".into(), &"refused".into()), "{layout:?}: {row}");
        }
        redis.assert_unchanged_since(&before);
    }
}

#[test]
fn a_ledger_without_its_meta_is_corrupt_because_the_limit_is_gone() {
    for layout in LAYOUTS {
        let redis = sale(layout);
        redis.cmd(("DEL", layout.meta("1")));
        for line in super::CHANGES.into_iter().chain(["deduct 1 --user 8 --per-user-limit 1"]) {
            if line.contains("--per-user-limit") && !layout.has_users() {
                continue;
            }
            is_corrupt(&redis, layout, line, &layout.meta("1"), "nothing, beside a ledger");
        }
    }
}

#[test]
fn participants_that_vanished_while_units_are_sold_stop_the_sale() {
    for layout in LAYOUTS.into_iter().filter(|layout| layout.has_users()) {
        let redis = sale(layout);
        redis.cmd(("DEL", layout.participants("1")));
        for line in ["deduct 1 --user 7", "deduct 1 --user 8", "multi-deduct --user 8 1=1 2=1"] {
            is_corrupt(&redis, layout, line, &layout.participants("1"), "units were sold");
        }
    }
}

#[test]
fn participants_that_are_gone_because_all_was_given_back_do_not() {
    for layout in LAYOUTS {
        let redis = sale(layout);
        json_call(&redis, layout, "refund 1 --user 7").code(0);
        json_call(&redis, layout, "deduct 1 --user 8").code(0);
    }
}

#[test]
fn an_activity_of_another_system_without_buyers_yet_sells() {
    for layout in LAYOUTS {
        let redis = TestRedis::start();
        redis.cmd(("SET", layout.stock("1"), 3));
        json_call(&redis, layout, "deduct 1 --user 7").code(0);
        assert_eq!(redis.int(&layout.stock("1")), 2);
        assert!(!redis.exists(&layout.meta("1")) && !redis.exists(&layout.ledger("1")), "{layout:?}");
    }
}
