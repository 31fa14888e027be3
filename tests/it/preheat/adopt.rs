//! `--adopt`: another system's activity, or one that lost its meta, is taken over with all that was sold. `sessions/preheat.txt` has each
//! state that it may be in.

use crate::support::layout::json_call;
use crate::support::{COUPON, LAYOUTS, Layout, PRODUCT, SECKILL, SKU, TestRedis, write_now};

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

/// The verdict and the proof of its audit.
#[track_caller]
pub fn assert_proven(redis: &TestRedis, layout: Layout) {
    let audit = json_call(redis, layout, "reconcile 1").code(0).json();
    let row = &audit["activities"][0];
    assert_eq!(row["verdict"], "match", "{layout:?}: {audit}");
    assert_eq!(row["proof"], "ledger", "{layout:?}: {audit}");
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

/// Who bought is recorded, and not how much: what order records lack of the total is missing.
#[test]
fn complete_order_records_show_what_is_missing_of_units_that_nobody_recorded() {
    for (records, missing) in [("a,2\nb,2\n", 0), ("a,2\nb,1\n", 1), ("a,2\n", 2)] {
        let redis = TestRedis::start();
        redis.cmd(("SET", SKU.stock("1"), "6"));
        redis.cmd(("SADD", SKU.participants("1"), "a", "b"));
        json_call(&redis, SKU, "preheat --id 1 --adopt --yes --total 10").code(0);
        assert_proven(&redis, SKU);
        let dir = tempfile::tempdir().unwrap();
        let orders = dir.path().join("orders.csv");
        write_now(&orders, &format!("user,quantity\n{records}"));
        let audit = |more: &str| json_call(&redis, SKU, &format!("reconcile 1{more} --orders")).args([&orders]);
        let is_off = missing > 0;
        let found = audit("").code(if is_off { 7 } else { 0 }).json();
        assert_eq!(found["activities"][0]["verdict"], if is_off { "drift" } else { "match" }, "{records}: {found}");
        for _ in 0..2 {
            audit(" --fix --yes").run();
        }
        assert_eq!(redis.int(&SKU.stock("1")), 6 + missing, "{records}");
        audit("").code(0);
        assert_proven(&redis, SKU);
    }
}

/// As a repair leaves it that was cut before its entry.
#[test]
fn a_member_of_unknown_units_who_is_gone_is_no_buyer_any_more_once_order_records_say_so() {
    let redis = TestRedis::start();
    redis.cmd(("SET", SKU.stock("1"), "6"));
    redis.cmd(("SADD", SKU.participants("1"), "a", "b"));
    json_call(&redis, SKU, "preheat --id 1 --adopt --yes --total 10").code(0);
    redis.cmd(("SREM", SKU.participants("1"), "b"));
    let dir = tempfile::tempdir().unwrap();
    let orders = dir.path().join("orders.csv");
    write_now(&orders, "user,quantity\na,2\n");
    let audit = |more: &str| json_call(&redis, SKU, &format!("reconcile 1{more} --orders")).args([&orders]);
    let found = audit("").code(7).json();
    assert_eq!(found["activities"][0]["differences"], 1, "only units are missing: {found}");
    audit(" --fix --yes").code(0);
    assert_eq!(redis.int(&SKU.stock("1")), 8);
    assert_proven(&redis, SKU);
    json_call(&redis, SKU, "deduct 1 --user b").code(0);
    audit("").code(0);
    assert_proven(&redis, SKU);
}
