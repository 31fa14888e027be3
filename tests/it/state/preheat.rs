//! Preheat on what is there already, mid-sale: refused, moved by a difference, or started over on demand.

use super::sale;
use crate::support::layout::json_call;
use crate::support::{LAYOUTS, Scripts, TestRedis};

#[test]
fn a_second_preheat_mid_sale_changes_nothing() {
    for layout in LAYOUTS {
        let redis = sale(layout);
        let before = redis.dump_all();
        let same = json_call(&redis, layout, "preheat --id 1 --stock 10").code(0).json();
        assert_eq!((&same[0]["action"], &same[0]["stock"]), (&"unchanged".into(), &9.into()), "{layout:?}");
        let other = json_call(&redis, layout, "preheat --id 1 --stock 50 --title phone").code(3);
        let other =
            other.stderr_has("1: stock `10` → `50`").stderr_has("1: title none → `phone`").stderr_has("--update");
        assert_eq!(other.json()[0]["status"], "exists");
        redis.assert_unchanged_since(&before);
    }
}

#[test]
fn an_update_moves_the_stock_by_the_difference_and_keeps_purchases() {
    for layout in LAYOUTS {
        let redis = sale(layout);
        let up = json_call(&redis, layout, "preheat --id 1 --stock 15 --update").code(0).json();
        let row = &up[0];
        let told = ["total_before", "total", "stock_before", "stock"].map(|field| row[field].as_u64().unwrap());
        assert_eq!((told, &row["action"]), ([10, 15, 9, 14], &"update".into()), "{layout:?}");
        assert_eq!(redis.int(&layout.stock("1")), 14);
        json_call(&redis, layout, "preheat --id 1 --stock 1 --update").code(0);
        assert_eq!(redis.int(&layout.stock("1")), 0, "{layout:?}: what is sold stays sold");
        let before = redis.dump_all();
        let below = json_call(&redis, layout, "preheat --id 1 --stock 0 --update").code(3);
        assert_eq!(below.stderr_has("more units are sold").json()[0]["status"], "out_of_stock", "{layout:?}");
        redis.assert_unchanged_since(&before);
        json_call(&redis, layout, "refund 1 --user 7").code(0);
        let ops: Vec<_> = redis.xrange(&layout.ledger("1")).into_iter().map(|(_, entry)| entry["op"].clone()).collect();
        assert_eq!(ops, ["preheat", "deduct", "update", "update", "refund"]);
    }
}

#[test]
fn an_update_keeps_what_is_not_given() {
    for layout in LAYOUTS {
        let redis = TestRedis::start();
        let times = ["--starts-at", "2026-01-01T00:00:00Z", "--ends-at", "2300-01-01T00:00:00Z"];
        redis
            .seckill(["preheat", "--id", "1", "--stock", "9", "--title", "a b", "-l", layout.name])
            .args(times)
            .code(0);
        json_call(&redis, layout, "pause 1").code(0);
        let mut expected = redis.meta(&layout.meta("1"));
        json_call(&redis, layout, "preheat --id 1 --stock 12 --update").code(0);
        expected.insert("total".to_owned(), "12".to_owned());
        assert_eq!(redis.meta(&layout.meta("1")), expected, "{layout:?}");
    }
}

#[test]
fn a_reset_asks_where_it_can_and_refuses_where_it_cannot() {
    for layout in LAYOUTS {
        let redis = sale(layout);
        let before = redis.dump_all();
        for line in ["preheat --id 1 --stock 5 --reset", "preheat --id 1 --stock 10 --reset"] {
            let error = json_call(&redis, layout, line).code(2).stdout_is("").error_json();
            assert!(error["hint"].as_str().unwrap().contains("--yes"), "{error}");
            let question = format!("Reset `1` (1 of 10 units sold) on `{}`?", redis.url());
            assert!(error["error"].as_str().unwrap().contains(&question), "{error}");
        }
        let dry = json_call(&redis, layout, "preheat --id 1 --stock 5 --reset --dry-run").code(0);
        assert_eq!(dry.stderr_has("dry run").json()[0]["action"], "reset");
        redis.assert_unchanged_since(&before);

        json_call(&redis, layout, "preheat --id 1 --stock 5 --reset --yes").code(0);
        assert_eq!(redis.int(&layout.stock("1")), 5);
        assert_eq!(redis.rule(&layout.meta("1"), "epoch").as_deref(), Some("2"));
        let gone: Vec<_> = [3, 5, 6].into_iter().filter(|number| *number <= layout.key_count()).collect();
        assert!(gone.iter().all(|number| !redis.exists(&layout.key(*number, "1"))), "{layout:?}");
        assert_eq!(redis.xrange(&layout.ledger("1")).len(), 1);
        json_call(&redis, layout, "deduct 1 --user 7 --request r1").code(0);
    }
}

#[test]
fn a_reset_of_what_is_not_there_creates_it_without_asking() {
    for layout in LAYOUTS {
        let redis = TestRedis::start();
        json_call(&redis, layout, "preheat --id 1 --stock 5 --reset").code(0);
        assert_eq!(redis.int(&layout.stock("1")), 5);
    }
}

#[test]
fn an_activity_is_there_if_any_of_its_keys_is() {
    for layout in LAYOUTS {
        for number in 1..=layout.key_count() {
            let redis = sale(layout);
            let kept = layout.key(number, "1");
            for key in layout.keys("1").iter().filter(|key| **key != kept) {
                redis.cmd(("DEL", key));
            }
            if !redis.exists(&kept) {
                continue; // units; all users hold one
            }
            let before = redis.dump_all();
            let row = json_call(&redis, layout, "preheat --id 1 --stock 10").code(3).json()[0].clone();
            let status = if number == 4 { "corrupt" } else { "exists" };
            assert_eq!(row["status"], status, "{layout:?}: only {kept} is left");
            redis.assert_unchanged_since(&before);
        }
    }
}

#[test]
fn another_systems_activity_is_taken_over_by_a_reset_alone() {
    for layout in LAYOUTS {
        let redis = TestRedis::start();
        redis.cmd(("SET", layout.stock("1"), 3));
        let before = redis.dump_all();
        for line in ["preheat --id 1 --stock 3", "preheat --id 1 --stock 3 --update"] {
            json_call(&redis, layout, line).code(3).stderr_has("1: it has no meta: another system created it");
        }
        json_call(&redis, layout, "preheat --id 1 --stock 3 --reset").code(2);
        redis.assert_unchanged_since(&before);
        json_call(&redis, layout, "preheat --id 1 --stock 3 --reset --yes").code(0);
        assert!(redis.exists(&layout.meta("1")));
    }
}

#[test]
fn pausing_what_another_system_preheated_is_not_preheated() {
    for layout in LAYOUTS {
        let redis = TestRedis::start();
        redis.cmd(("SET", layout.stock("1"), 3));
        let before = redis.dump_all();
        let row = json_call(&redis, layout, "pause 1").code(3).json()[0].clone();
        assert_eq!(row["status"], "not_preheated", "{layout:?}");
        redis.assert_unchanged_since(&before);
    }
}

#[test]
fn an_equals_sign_alone_clears_a_field_once_and_only_then_writes() {
    for layout in LAYOUTS {
        let redis = TestRedis::start();
        let mut scripts = Scripts::of(&redis, layout);
        let fields = [("per_user_limit", "3"), ("starts_at", "5"), ("ends_at", "9")];
        scripts.preheat_with("1", "10", &fields);
        let rules = || redis.hget(&layout.meta("1"), "rules").unwrap();
        let limit = if layout.records_once() { "1" } else { "3" };
        assert_eq!(rules(), format!("live 1 1 {limit} 10 5 9"), "{layout:?}");
        let reply = scripts.preheat_as("update", "1", "10", &[("starts_at", ""), ("ends_at", "")]);
        assert_eq!(reply, format!("1 update 10 10 10 10 {limit} starts_at 5  ends_at 9 "), "{layout:?}");
        assert_eq!(rules(), format!("live 1 1 {limit} 10 - -"));
        let before = redis.dump_all();
        let reply = scripts.preheat_as("update", "1", "10", &[("starts_at", ""), ("ends_at", "")]);
        assert_eq!(reply, format!("1 unchanged 10 10 10 10 {limit}"), "{layout:?}");
        redis.assert_unchanged_since(&before);
        if !layout.records_once() {
            let reply = scripts.preheat_as("update", "1", "12", &[("per_user_limit", "")]);
            assert_eq!(reply, "1 update 10 12 10 12 nil stock 10 12 per_user_limit 3 ", "{layout:?}");
            assert_eq!(rules(), "live 1 1 - 12 - -");
        }
    }
}
