//! What audits and dry runs see of a call of holds that was cut, and counts that the simulator does not miss.

use super::{LONG, WITH_USERS};
use crate::support::scripts::{cut_after, cut_call};
use crate::support::{SECKILL, Scripts, TestRedis};

/// Holds `r` of user 7, one of user 8, and, if a user can have several, another one of user 7.
fn prepare(scripts: &mut Scripts) {
    let (layout, kind) = (scripts.layout, scripts.layout.kind);
    scripts.preheat("1", "10");
    assert!(scripts.hold("r", LONG).starts_with("1 "));
    let mut more = |user: &str, request: &str| {
        let args = [kind, "tester", user, "1", request, "first", "", LONG];
        assert!(scripts.call("hold", &layout.all_keys("1"), &args).starts_with("1 "));
    };
    more("8", "s");
    if kind == "hash" {
        more("7", "t");
    }
}

#[test]
fn an_audit_sees_what_a_cut_left_of_the_counts_and_fix_counts_them_anew() {
    for layout in WITH_USERS {
        let redis = TestRedis::start();
        let mut scripts = Scripts::of(&redis, layout);
        prepare(&mut scripts);
        // The record is written, and nothing else.
        let confirm = [layout.kind, "tester", "r", "confirm"];
        let reply = scripts.eval(&cut_call("settle", layout, &confirm, 1), &layout.all_keys("1"), &confirm);
        assert!(reply.contains("CUT"), "{layout:?}: {reply}");
        let audit = ["-l", layout.name, "reconcile", "1"];
        redis.seckill(audit).code(7).stdout_has("open_count").stderr_has("`reconcile --fix` counts them anew");
        redis.seckill(audit).args(["--fix", "--yes"]).code(0).stdout_has("open_count");
        redis.seckill(audit).code(0);
        assert!(scripts.settle("confirm", "r").starts_with("2 "), "{layout:?}");
    }
}

#[test]
fn a_hold_that_was_cut_behind_its_count_and_is_sent_again_is_counted_once() {
    let redis = TestRedis::start();
    let keys = SECKILL.all_keys("1");
    let file = ["hash", "tester", r#"["7"]"#, "2", "night", "d", "1", "0", "1", r#"["r"]"#, "", "", "", LONG];
    for args in [&["hash", "tester", "7", "2", "r", "first", "", LONG][..], &file] {
        redis.cmd("FLUSHALL");
        let mut scripts = Scripts::of(&redis, SECKILL);
        scripts.preheat("1", "10");
        // Deadline, mark, stock, user, mark, count; the record is missing.
        let reply = scripts.eval(&cut_call("hold", SECKILL, args, 6), &keys, args);
        assert!(reply.contains("CUT"), "{reply}");
        assert_eq!(redis.hget(&SECKILL.meta("1"), "holds").as_deref(), Some("2"), "{args:?}");
        let reply = scripts.call("hold", &keys, args);
        assert!(reply.starts_with("1 ") || reply.starts_with("o "), "{args:?}: {reply}");
        assert_eq!(redis.hget(&SECKILL.meta("1"), "holds").as_deref(), Some("2"), "{args:?}");
    }
}

#[test]
fn a_file_of_confirms_that_was_cut_is_finished_by_the_same_call_again() {
    let redis = TestRedis::start();
    let mut scripts = Scripts::of(&redis, SECKILL);
    prepare(&mut scripts);
    let keys = SECKILL.all_keys("1");
    let confirm = ["hash", "tester", r#"["r"]"#, "confirm", "night", "d", "1", "0", "1"];
    let reply = scripts.eval(&cut_call("settle", SECKILL, &confirm, 1), &keys, &confirm);
    assert!(reply.contains("CUT"), "{reply}");
    assert!(scripts.call("settle", &keys, &confirm).starts_with("r "));
    redis.seckill(["reconcile", "1"]).code(0).stdout_has("match").stderr_lacks("open_count");
}

#[test]
fn an_audit_does_not_take_the_ledgers_word_for_what_is_held_open() {
    let redis = TestRedis::start();
    redis.seckill(["preheat", "--id", "1", "--stock", "10"]).code(0);
    redis.seckill(["hold", "1", "--user", "7", "--quantity", "2", "--for", "1h", "--request", "r"]).code(0);
    redis.seckill(["hold", "1", "--user", "8", "--for", "1h", "--request", "s"]).code(0);
    // The last write of the call is the ledger entry.
    let mut scripts = Scripts::of(&redis, SECKILL);
    let confirm = ["hash", "tester", "r", "confirm"];
    let reply = scripts.eval(&cut_after("settle", 4), &SECKILL.all_keys("1"), &confirm);
    assert!(reply.contains("CUT"), "{reply}");
    assert_eq!(redis.ask::<i64>(("ZCARD", SECKILL.deadlines("1"))), 1, "the deadline is gone");
    let lost = "its ledger says that 3 units are held open, and 1 are";
    redis.seckill(["reconcile", "1"]).code(0).stdout_has("match").stderr_has(lost);
    // What was confirmed must be in the order records; what is held may be.
    let orders = |rows: &str| {
        redis.seckill(["reconcile", "1", "--orders", "-"]).stdin(format!("activity,user,quantity\n{rows}"))
    };
    orders("1,7,2\n").code(0);
    orders("1,8,1\n").code(7).stdout_has("missing_order");
}

#[test]
fn a_damaged_hold_keeps_what_is_still_to_be_counted() {
    for step in ["confirm", "expire"] {
        let redis = TestRedis::start();
        let mut scripts = Scripts::of(&redis, SECKILL);
        prepare(&mut scripts);
        let (requests, deadlines) = (SECKILL.requests("1"), SECKILL.deadlines("1"));
        let reply = scripts.eval(&cut_after("settle", 1), &SECKILL.all_keys("1"), &["hash", "tester", "r", "confirm"]);
        assert!(reply.contains("CUT"), "{reply}");
        let whole = redis.hget(&requests, "\th:s").unwrap();
        redis.cmd(("HSET", &requests, "\th:s", "held ? 1 - 8"));
        let before = redis.hget(&SECKILL.meta("1"), "holds");
        if step == "confirm" {
            assert!(scripts.settle("confirm", "r").starts_with("2 "));
        } else {
            redis.cmd(("ZADD", &deadlines, "XX", 1, "r"));
            redis.seckill(["expire", "1"]).code(0).stderr_has("`r` cannot be expired: the record of a hold is damaged");
        }
        assert_eq!(redis.hget(&SECKILL.meta("1"), "holds"), before, "{step}");
        assert_eq!(redis.ask::<i64>(("ZCARD", &deadlines)), 3, "{step}: the deadline stays");
        redis.seckill(["reconcile", "1"]).code(7).stdout_has("corrupt").stderr_has("could not be counted");
        redis.cmd(("HSET", &requests, "\th:s", whole));
        redis.seckill(["reconcile", "1"]).code(7).stdout_has("open_count");
        if step == "confirm" {
            assert!(scripts.settle("confirm", "r").starts_with("2 "));
        } else {
            redis.seckill(["reconcile", "1", "--fix", "--yes"]).code(0);
        }
        redis.seckill(["reconcile", "1"]).code(0);
    }
}

#[test]
fn a_dry_run_of_a_hold_counts_what_would_be_expired_first() {
    let redis = TestRedis::start();
    let mut scripts = Scripts::of(&redis, SECKILL);
    scripts.preheat_with("1", "10", &[("per_user_limit", "2")]);
    assert!(scripts.hold("r", LONG).starts_with("1 8 2 "));
    redis.cmd(("ZADD", SECKILL.deadlines("1"), "XX", 1, "r"));
    let before = redis.dump_all();
    for mode in ["dry", "first"] {
        let args = ["hash", "tester", "7", "2", "s", mode, "", LONG];
        let reply = scripts.call("hold", &SECKILL.all_keys("1"), &args);
        assert!(reply.starts_with("1 8 2 "), "{mode}: {reply}");
        if mode == "dry" {
            redis.assert_unchanged_since(&before);
        }
    }
}
