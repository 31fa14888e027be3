//! The field `rules` of meta: read as strictly by every command, and what its absence and an archived sale mean.

use super::{CHANGES, is_corrupt, sale};
use crate::support::layout::json_call;
use crate::support::{LAYOUTS, SECKILL};

/// Near misses of `live 1 1 2 10 - -`.
const INVALID: [&str; 16] = [
    "",
    "live",
    "live 1 1 2 10 -",
    "live 1 1 2 10 - - -",
    "live  1 1 2 10 - -",
    "live 1 1 2 10 - - ",
    "Live 1 1 2 10 - -",
    "open 1 1 2 10 - -",
    "live 2 1 2 10 - -",
    "live 1 01 2 10 - -",
    "live 1 - 2 10 - -",
    "live 1 1 1e3 10 - -",
    "live 1 1 -2 10 - -",
    "live 1 1 2 - - -",
    "live 1 1 2 9007199254740992 - -",
    "live 1 1 2 10 - 0x10",
];

#[test]
fn rules_that_are_not_exactly_seven_words_are_corrupt() {
    let redis = sale(SECKILL);
    for rules in INVALID {
        redis.cmd(("HSET", SECKILL.meta("1"), "rules", rules));
        for line in ["deduct 1 --user 8", "inspect 1"] {
            is_corrupt(&redis, SECKILL, line, &SECKILL.meta("1"), &format!("holds `{rules}`"));
        }
    }
}

#[test]
fn invalid_rules_are_corrupt_to_every_command() {
    for layout in LAYOUTS {
        let redis = sale(layout);
        redis.set_rule(&layout.meta("1"), "total", "1e3");
        let lines = ["inspect 1", "preheat --id 1 --adopt --total 10 --yes", "ledger trim 1 --before 1h --yes"];
        for line in CHANGES.into_iter().chain(lines) {
            is_corrupt(&redis, layout, line, &layout.meta("1"), " 1e3 - -`");
        }
        json_call(&redis, layout, "reconcile 1").code(7).stderr_has(" 1e3 - -`");
        json_call(&redis, layout, "preheat --id 1 --stock 10 --reset --yes").code(0);
        assert_eq!(redis.rule(&layout.meta("1"), "epoch").as_deref(), Some("2"), "{layout:?}: the epoch is kept");
    }
}

#[test]
fn data_of_a_later_version_is_corrupt_with_a_hint() {
    for layout in LAYOUTS {
        let redis = sale(layout);
        redis.cmd(("HSET", layout.meta("1"), "rules", "v2 live 1 1 - 10 - -"));
        for line in CHANGES.into_iter().chain(["inspect 1", "ledger trim 1 --before 1h --yes"]) {
            is_corrupt(&redis, layout, line, &layout.meta("1"), "a later version of seckill wrote it: use that one");
        }
    }
}

#[test]
fn data_of_version_0_1_is_corrupt_with_a_hint() {
    for layout in LAYOUTS {
        let redis = sale(layout);
        redis.cmd(("DEL", layout.meta("1")));
        redis.cmd((
            "HSET",
            layout.meta("1"),
            "total",
            "10",
            "state",
            "live",
            "ledger",
            "1",
            "epoch",
            "1",
            "repairs",
            "0",
        ));
        for line in CHANGES.into_iter().chain(["inspect 1"]) {
            is_corrupt(&redis, layout, line, &layout.meta("1"), "version 0.1: `seckill preheat --reset`");
        }
        json_call(&redis, layout, "preheat --id 1 --stock 10 --reset --yes").code(0);
        json_call(&redis, layout, "deduct 1 --user 7").code(0);
    }
}

#[test]
fn purchases_of_an_archived_activity_are_ended() {
    for layout in LAYOUTS {
        let redis = sale(layout);
        redis.set_rule(&layout.meta("1"), "state", "archived");
        for number in (1..=layout.key_count()).filter(|number| *number != 2) {
            redis.cmd(("DEL", layout.key(number, "1")));
        }
        let before = redis.dump_all();
        let status = |line: &str| json_call(&redis, layout, line).code(3).json()["status"].clone();
        assert_eq!(status("deduct 1 --user 7"), "ended", "{layout:?}");
        assert_eq!(status("refund 1 --user 7"), "not_preheated", "{layout:?}");
        let multi = json_call(&redis, layout, "multi-deduct --user 7 1=1 2=1").code(3).json();
        assert_eq!(multi["items"][0]["status"], "ended", "{layout:?}");
        let file = redis.seckill(["-l", layout.name, "-o", "jsonl", "deduct", "--from", "-"]);
        let file = file.stdin("activity,user\n1,7\n1,8\n");
        assert_eq!(file.code(3).jsonl()[0]["status"], "ended", "{layout:?}");
        for line in ["pause 1", "resume 1", "pause 1 --withdraw-stock"] {
            assert_eq!(json_call(&redis, layout, line).code(3).json()[0]["status"], "ended", "{layout:?}");
        }
        let adopt = json_call(&redis, layout, "preheat --id 1 --adopt --total 10 --yes").code(3).json();
        assert_eq!(adopt[0]["status"], "not_preheated", "{layout:?}");
        assert!(!redis.exists(&layout.stock("1")), "{layout:?}");
        let create = json_call(&redis, layout, "preheat --id 1 --stock 10").code(3).json();
        assert_eq!(create[0]["status"], "exists", "{layout:?}");
        redis.assert_unchanged_since(&before);
    }
}
