//! `--adopt`: another system's activity, or one that lost its meta, is taken over with all that was sold.

use crate::support::layout::json_call;
use crate::support::{COUPON, LAYOUTS, Layout, PRODUCT, SECKILL, SKU, TestRedis};

/// What another system made: 10 units left, three of them sold to two users in the layouts that record them.
pub fn foreign(layout: Layout) -> TestRedis {
    let redis = TestRedis::start();
    redis.cmd(("SET", layout.stock("1"), "10"));
    match layout.kind {
        "hash" => drop(redis.cmd(("HSET", layout.participants("1"), "7", "2", "8", "1"))),
        "coupon" => drop(redis.cmd(("SADD", layout.participants("1"), "7", "8", "9"))),
        "set" => {
            redis.cmd(("SADD", layout.participants("1"), "7", "8"));
            redis.cmd(("HSET", layout.key(6, "1"), "7", "2", "8", "1"));
        }
        _ => {}
    }
    redis
}

/// The command line that adopts it.
pub fn line(layout: Layout) -> &'static str {
    if layout == PRODUCT { "preheat --id 1 --adopt --yes --total 13" } else { "preheat --id 1 --adopt --yes" }
}

/// The flag for a total, if what was sold is recorded nowhere.
fn total(layout: Layout, total: &str) -> String {
    if matches!(layout.kind, "counter" | "set") { format!(" --total {total}") } else { String::new() }
}

/// The verdict and the proof of its audit.
#[track_caller]
pub fn assert_proven(redis: &TestRedis, layout: Layout) {
    let audit = json_call(redis, layout, "reconcile 1").code(0).json();
    let row = &audit["activities"][0];
    assert_eq!(row["verdict"], "match", "{layout:?}: {audit}");
    assert_eq!(row["proof"], "ledger", "{layout:?}: {audit}");
}

#[test]
fn an_activity_of_another_system_is_adopted_with_its_purchases() {
    for layout in LAYOUTS {
        let redis = foreign(layout);
        let participants = redis.dump_all();
        let row = json_call(&redis, layout, line(layout)).code(0).json()[0].clone();
        let numbers = ["total", "stock_before", "stock"].map(|field| row[field].as_u64());
        assert_eq!((numbers, &row["action"]), ([Some(13), Some(10), Some(10)], &"adopt".into()), "{layout:?}");
        assert!(row["total_before"].is_null() && row["status"] == "ok", "{row}");
        let changes = participants.changes_to(&redis.dump_all());
        let same = |key: String| assert!(!changes.contains(&format!("{key}:")), "{layout:?}: {changes}");
        same(layout.stock("1"));
        if layout.has_users() {
            same(layout.participants("1"));
        }
        assert_eq!(redis.smembers(layout.index).len(), 1);
        let (_, entry) = redis.xrange(&layout.ledger("1")).pop().unwrap();
        assert_eq!((entry["op"].as_str(), entry["total"].as_str(), entry["stock"].as_str()), ("adopt", "13", "10"));
        assert_proven(&redis, layout);

        // It sells, refunds and is audited as if it had been preheated.
        json_call(&redis, layout, "deduct 1 --user 70").code(0);
        json_call(&redis, layout, "refund 1 --user 7").code(0);
        assert_proven(&redis, layout);
        let again = json_call(&redis, layout, line(layout)).code(0).json()[0].clone();
        assert_eq!((&again["action"], &again["status"]), (&"unchanged".into(), &"ok".into()), "{layout:?}");
        json_call(&redis, layout, "ledger trim 1 --before 2200-01-01T00:00:00Z --yes").code(0);
        assert_proven(&redis, layout);
        let rows = json_call(&redis, layout, "ledger 1").code(0).json();
        assert!(!rows.as_array().unwrap().is_empty());
    }
}

#[test]
fn the_question_says_what_it_comes_to_and_a_dry_run_changes_nothing() {
    for layout in LAYOUTS {
        let redis = foreign(layout);
        let before = redis.dump_all();
        let asked = line(layout).replace(" --yes", "");
        let error = json_call(&redis, layout, &asked).code(2).error_json();
        let question = format!("Adopt `1` on `{}`? ", redis.url());
        let text = error["error"].as_str().unwrap();
        assert!(text.contains(&question) && text.contains("10 are left, so its total is 13"), "{error}");
        let dry = json_call(&redis, layout, &format!("{asked} --dry-run")).code(0).json()[0].clone();
        assert_eq!((&dry["dry_run"], &dry["action"], &dry["total"]), (&true.into(), &"adopt".into(), &13.into()));
        let call = redis.seckill(["-l", layout.name]).args(asked.split(' '));
        call.at_terminal("n\n").code(1).stdout_has("nothing was changed");
        redis.assert_unchanged_since(&before);
    }
}

#[test]
fn what_it_says_about_the_limit_works_as_it_is_printed() {
    let redis = foreign(SECKILL);
    let adopted = redis.seckill(["preheat", "--id", "1", "--adopt", "--yes", "-l", "seckill"]).code(0);
    let hint = adopted.stderr.lines().find_map(|line| line.strip_prefix("hint: `seckill ")?.strip_suffix("` sets one"));
    let line = hint.unwrap_or_else(|| panic!("{}", adopted.stderr)).replace(" N", " 3");
    assert_eq!(line, "preheat --id 1 --update -l seckill --per-user-limit 3");
    redis.seckill([]).args(line.split(' ')).code(0);
    let meta = redis.meta("seckill:meta:1");
    assert_eq!((meta["per_user_limit"].as_str(), meta["total"].as_str()), ("3", "13"));
}

#[test]
fn limit_title_and_window_may_be_given() {
    let redis = foreign(SECKILL);
    let given = ["--per-user-limit", "2", "--title", "old phone", "--ends-at", "2200-01-01T00:00:00Z"];
    redis.seckill(["preheat", "--id", "1", "--adopt", "--yes", "--reason", "takeover"]).args(given).code(0);
    let meta = redis.meta("seckill:meta:1");
    assert_eq!((meta["per_user_limit"].as_str(), meta["title"].as_str()), ("2", "old phone"));
    assert_eq!(meta["ends_at"], "7258118400000");
    assert_eq!(redis.xrange("seckill:ledger:1")[0].1["reason"], "takeover");
    json_call(&redis, SECKILL, "deduct 1 --user 7").code(3).stdout_has("limit_exceeded");
    // Once it is whole, a change is an update.
    let refused = json_call(&redis, SECKILL, "preheat --id 1 --adopt --yes --per-user-limit 3").code(3);
    refused.stderr_has("per_user_limit `2` → `3`").stderr_has("--update").stdout_has("exists");
    json_call(&redis, SECKILL, "preheat --id 1 --adopt --yes --total 20").code(3).stderr_has("stock `13` → `20`");
}

#[test]
fn what_is_recorded_nowhere_needs_a_total() {
    let redis = foreign(PRODUCT);
    let before = redis.dump_all();
    json_call(&redis, PRODUCT, "preheat --id 1 --adopt --yes").code(2).stderr_has("--total N");
    json_call(&redis, PRODUCT, "preheat --id 1 --adopt --yes --total 9").code(3).stderr_has("total `10` → `9`");
    redis.assert_unchanged_since(&before);
}

#[test]
fn a_total_that_stock_and_participants_contradict_is_refused() {
    for layout in [SECKILL, SKU, COUPON] {
        let redis = foreign(layout);
        let before = redis.dump_all();
        for total in ["12", "14"] {
            let refused = json_call(&redis, layout, &format!("preheat --id 1 --adopt --yes --total {total}")).code(3);
            let refused = refused.stderr_has(&format!("total `13` → `{total}`")).stderr_has("`--total 13` takes over");
            assert_eq!(refused.json()[0]["status"], "exists", "{layout:?}");
        }
        redis.assert_unchanged_since(&before);
        json_call(&redis, layout, "preheat --id 1 --adopt --yes --total 13").code(0);
    }
}

#[test]
fn an_activity_whose_participants_were_evicted_is_not_adopted() {
    for layout in LAYOUTS.into_iter().filter(|layout| layout.has_users()) {
        let redis = foreign(layout);
        redis.cmd(("DEL", layout.participants("1")));
        let before = redis.dump_all();
        let refused = json_call(&redis, layout, "preheat --id 1 --adopt --yes --total 13").code(3);
        let refused = refused.stderr_has(&format!("`{}` holds nothing", layout.participants("1")));
        assert_eq!(refused.stderr_has("reconcile 1 --fix").json()[0]["status"], "corrupt", "{layout:?}");
        redis.assert_unchanged_since(&before);
    }
}

#[test]
fn a_meta_that_was_lost_comes_back_from_a_whole_ledger() {
    for layout in LAYOUTS {
        let redis = TestRedis::start();
        json_call(&redis, layout, "preheat --id 1 --stock 10").code(0);
        json_call(&redis, layout, "deduct 1 --user 7 --request a").code(0);
        json_call(&redis, layout, "deduct 1 --user 8").code(0);
        json_call(&redis, layout, "preheat --id 1 --stock 9 --update").code(0);
        json_call(&redis, layout, "pause 1").code(0);
        let meta = redis.meta(&layout.meta("1"));
        redis.cmd(("DEL", layout.meta("1")));
        json_call(&redis, layout, "preheat --id 1 --adopt --yes --total 12").code(3).stderr_has("total `9` → `12`");
        let row = json_call(&redis, layout, "preheat --id 1 --adopt --yes").code(0).json()[0].clone();
        assert_eq!((row["total"].as_u64(), row["stock"].as_u64()), (Some(9), Some(7)), "{layout:?}");
        let restored = redis.meta(&layout.meta("1"));
        for field in ["total", "state", "epoch", "ledger"] {
            assert_eq!(restored[field], meta[field], "{layout:?}: {field}");
        }
        assert_proven(&redis, layout);
        json_call(&redis, layout, "resume 1").code(0);
        assert_eq!(json_call(&redis, layout, "deduct 1 --user 7 --request a").code(0).json()["status"], "replayed");
        json_call(&redis, layout, "deduct 1 --user 9").code(0);
        assert_proven(&redis, layout);
    }
}

#[test]
fn a_meta_lost_behind_a_trimmed_ledger_is_made_from_what_is_there() {
    for layout in LAYOUTS {
        let redis = TestRedis::start();
        json_call(&redis, layout, "preheat --id 1 --stock 10").code(0);
        json_call(&redis, layout, "deduct 1 --user 7").code(0);
        json_call(&redis, layout, "deduct 1 --user 8").code(0);
        json_call(&redis, layout, "ledger trim 1 --before 2200-01-01T00:00:00Z --yes").code(0);
        redis.cmd(("DEL", layout.meta("1")));
        let entries = redis.xrange(&layout.ledger("1"));
        let adopt = format!("preheat --id 1 --adopt --yes{}", total(layout, "10"));
        let row = json_call(&redis, layout, &adopt).code(0).json()[0].clone();
        assert_eq!((row["total"].as_u64(), row["stock"].as_u64()), (Some(10), Some(8)), "{layout:?}");
        // The entries that the ledger had are still there.
        assert_eq!(redis.xrange(&layout.ledger("1"))[..entries.len()], entries[..]);
        assert_proven(&redis, layout);
        json_call(&redis, layout, "deduct 1 --user 9").code(0);
        json_call(&redis, layout, "ledger trim 1 --before 2200-01-01T00:00:00Z --yes").code(0);
        assert_proven(&redis, layout);
    }
}

#[test]
fn a_ledger_that_was_evicted_begins_anew_with_an_adoption() {
    for layout in LAYOUTS {
        let redis = TestRedis::start();
        json_call(&redis, layout, "preheat --id 1 --stock 10 --title t").code(0);
        json_call(&redis, layout, "deduct 1 --user 7").code(0);
        redis.cmd(("DEL", layout.ledger("1")));
        json_call(&redis, layout, "preheat --id 1 --adopt --yes").code(0);
        assert_eq!(redis.hget(&layout.meta("1"), "title").as_deref(), Some("t"), "{layout:?}");
        assert_proven(&redis, layout);
        json_call(&redis, layout, "deduct 1 --user 9").code(0);
        assert_proven(&redis, layout);
    }
}

#[test]
fn a_lost_stock_key_is_what_nobody_holds_of_the_total() {
    for layout in LAYOUTS {
        let redis = foreign(layout);
        redis.cmd(("DEL", layout.stock("1")));
        redis.cmd(("HSET", layout.requests("1"), "a", "x"));
        let before = redis.dump_all();
        if layout == PRODUCT {
            json_call(&redis, layout, line(layout)).code(3).stdout_has("not_preheated");
            redis.assert_unchanged_since(&before);
            continue;
        }
        json_call(&redis, layout, line(layout)).code(2).stderr_has("--total N");
        json_call(&redis, layout, "preheat --id 1 --adopt --yes --total 2").code(3).stderr_has("total `3` → `2`");
        redis.assert_unchanged_since(&before);
        json_call(&redis, layout, "preheat --id 1 --adopt --yes --total 13").code(0);
        assert_eq!(redis.int(&layout.stock("1")), 10, "{layout:?}");
        assert_proven(&redis, layout);
    }
}

#[test]
fn keys_that_expire_no_longer_do() {
    for layout in LAYOUTS {
        let redis = foreign(layout);
        for key in layout.keys("1") {
            redis.cmd(("PEXPIRE", key, 100_000_000));
        }
        let expiring = json_call(&redis, layout, line(layout)).code(0);
        expiring.stderr_has("expiry, which is removed");
        for key in layout.keys("1") {
            assert!(redis.ask::<i64>(("PTTL", &key)) < 0, "{layout:?}: {key}");
        }
        assert_proven(&redis, layout);
    }
}

#[test]
fn unusual_participants_are_adopted_as_the_bytes_they_are() {
    for layout in [SECKILL, COUPON] {
        let redis = TestRedis::start();
        redis.cmd(("SET", layout.stock("1"), "10"));
        let users: [&[u8]; 6] = [b"\xc4\xe3", b" a", b"", b"\"\\\x01\0", b"\xff\xfe", "中".as_bytes()];
        for user in users {
            match layout.kind {
                "hash" => redis.cmd(("HSET", layout.participants("1"), user, "1")),
                _ => redis.cmd(("SADD", layout.participants("1"), user)),
            };
        }
        let row = json_call(&redis, layout, "preheat --id 1 --adopt --yes").code(0).json()[0].clone();
        assert_eq!(row["total"], 16, "{layout:?}");
        assert_proven(&redis, layout);
        json_call(&redis, layout, "refund 1 --user-hex c4e3").code(0);
        assert_eq!(redis.int(&layout.stock("1")), 11, "{layout:?}");
        assert_proven(&redis, layout);
    }
}

#[test]
fn a_record_that_is_no_number_stops_an_adoption() {
    for (layout, key) in [(SECKILL, 5), (SKU, 6)] {
        let redis = foreign(layout);
        redis.cmd(("HSET", layout.key(key, "1"), "8", "1.5"));
        let before = redis.dump_all();
        let refused = json_call(&redis, layout, "preheat --id 1 --adopt --yes").code(3);
        refused.stderr_has("`1.5`").stdout_has("corrupt");
        redis.assert_unchanged_since(&before);
    }
}

#[test]
fn a_reader_may_not_adopt_and_changes_nothing() {
    for layout in LAYOUTS {
        let redis = foreign(layout);
        redis.cmd(("ACL", "SETUSER", "reader", "on", "nopass", "~*", "+@read", "+eval", "+evalsha", "+@connection"));
        let before = redis.dump_all();
        let call = json_call(&redis, layout, line(layout)).env("SECKILL_URL", &(redis.url() + "?user=reader&pass=x"));
        assert_eq!(call.code(4).error_line()["code"], 4, "{layout:?}");
        redis.assert_unchanged_since(&before);
    }
}

#[test]
fn nothing_is_adopted_that_does_not_exist() {
    for layout in LAYOUTS {
        let redis = TestRedis::start();
        let before = redis.dump_all();
        let row = json_call(&redis, layout, line(layout)).code(3).json()[0].clone();
        assert_eq!((&row["status"], &row["action"]), (&"not_preheated".into(), &"refused".into()), "{layout:?}");
        redis.assert_unchanged_since(&before);
    }
}

#[test]
fn members_without_units_need_a_total_and_stay_unknown() {
    let redis = foreign(SKU);
    redis.cmd(("DEL", SKU.key(6, "1")));
    redis.cmd(("HSET", SKU.key(6, "1"), "7", "2"));
    let before = redis.dump_all();
    json_call(&redis, SKU, "preheat --id 1 --adopt --yes").code(2).stderr_has("--total N");
    // A member has at least one unit.
    json_call(&redis, SKU, "preheat --id 1 --adopt --yes --total 12").code(3).stderr_has("total `13` → `12`");
    redis.assert_unchanged_since(&before);
    let row = json_call(&redis, SKU, "preheat --id 1 --adopt --yes --total 15").code(0).json()[0].clone();
    assert_eq!((row["total"].as_u64(), row["stock"].as_u64()), (Some(15), Some(10)));
    assert!(!redis.hgetall(&SKU.key(6, "1")).contains_key("8"), "nobody knows it");
    assert_proven(&redis, SKU);
    json_call(&redis, SKU, "deduct 1 --user 9 --quantity 3").code(0);
    json_call(&redis, SKU, "ledger trim 1 --before 2200-01-01T00:00:00Z --yes").code(0);
    assert_proven(&redis, SKU);
    json_call(&redis, SKU, "refund 1 --user 8 --quantity 3").code(0);
    assert_proven(&redis, SKU);
    assert_eq!(redis.int(&SKU.stock("1")), 10);
    json_call(&redis, SKU, "ledger trim 1 --before 2200-01-01T00:00:00Z --yes").code(0);
    assert_proven(&redis, SKU);
    redis.cmd(("SREM", SKU.participants("1"), "7"));
    json_call(&redis, SKU, "reconcile 1").code(7).stdout_has("counter_drift");
}
