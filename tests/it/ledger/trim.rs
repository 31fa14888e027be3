//! `ledger trim`: what is removed leaves audits exact. `sessions/ledger.txt` has what it refuses.

use serde_json::Value;

use crate::support::{Call, LAYOUTS, Layout, SECKILL, TestRedis, rfc3339};

pub const LATER: &str = "2200-01-01T00:00:00Z";

/// `a` and `b` bought before the time that is given, `c` after.
pub fn sale(layout: Layout) -> (TestRedis, String) {
    let redis = TestRedis::start();
    let run = |line: &str| drop(redis.seckill(["-l", layout.name]).args(line.split(' ')).code(0));
    run("preheat --id 1001 --stock 50");
    run("deduct 1001 --user a");
    run("deduct 1001 --user b");
    if layout.has_users() {
        run("refund 1001 --user b");
        run("deduct 1001 --user b");
    }
    run("preheat --id 1001 --stock 60 --update");
    let time = rfc3339(redis.next_millisecond());
    run("deduct 1001 --user c --request last");
    run("pause 1001");
    (redis, time)
}

pub fn trim(redis: &TestRedis, before: &str) -> Call {
    redis.seckill(["ledger", "trim", "1001", "--yes", "-o", "jsonl", "--before"]).args([before])
}

/// The ledger as `id op`.
fn entries(redis: &TestRedis, layout: Layout) -> Vec<String> {
    redis.xrange(&layout.ledger("1001")).into_iter().map(|(id, entry)| format!("{id} {}", entry["op"])).collect()
}

#[track_caller]
pub fn matches(redis: &TestRedis, layout: Layout) -> Value {
    redis.seckill(["reconcile", "1001", "-o", "json", "-l", layout.name]).code(0).stderr("").json()
}

#[test]
fn an_audit_says_the_same_before_and_after_in_every_layout() {
    for layout in LAYOUTS {
        let (redis, time) = sale(layout);
        let (audit, all) = (matches(&redis, layout), entries(&redis, layout));
        let before = redis.dump_all();
        let mut dry = trim(&redis, &time).args(["--dry-run", "-l", layout.name]).code(0).json();
        assert_eq!(dry.as_object_mut().unwrap().remove("dry_run"), Some(true.into()));
        redis.assert_unchanged_since(&before);

        let row = trim(&redis, &time).args(["-l", layout.name]).code(0).stderr("").json();
        assert_eq!(row, dry, "{layout:?}");
        let left = &all[all.len() - 2..];
        let first = left[0].split(' ').next().unwrap();
        assert_eq!(row["removed"], all.len() - 2, "{layout:?}");
        assert_eq!((&row["status"], &row["from"]), (&"ok".into(), &first.into()), "{layout:?}");
        assert_eq!(row["users"], if layout.has_users() { 2 } else { 1 }, "{layout:?}");
        assert_eq!(entries(&redis, layout), left, "{layout:?}");
        assert_eq!(matches(&redis, layout), audit, "{layout:?}");

        // Again: nothing to do. Then all but the last entry, which is always kept.
        let before = redis.dump_all();
        let again = trim(&redis, &time).args(["-l", layout.name]).code(0).stderr("").json();
        assert_eq!((&again["removed"], &again["from"]), (&0.into(), &first.into()), "{layout:?}");
        redis.assert_unchanged_since(&before);
        let rest = trim(&redis, LATER).args(["-l", layout.name]).code(0).stderr("").json();
        assert_eq!(rest["removed"], 1, "{layout:?}");
        assert_eq!(entries(&redis, layout), all[all.len() - 1..], "{layout:?}");
        assert_eq!(matches(&redis, layout), audit, "{layout:?}");
        let pages = redis.hgetall(&layout.requests("1001")).into_keys().filter(|field| field.starts_with("\tc:"));
        assert_eq!(pages.count(), 1, "{layout:?}: the pages of the first checkpoint are gone");
        assert!(!redis.hgetall(&layout.meta("1001")).contains_key("draft"), "{layout:?}");

        // What was applied is known by its request id as before, and the sale continues.
        let line = "resume 1001|deduct 1001 --user c --request last|deduct 1001 --user d";
        for line in line.split('|') {
            redis.seckill(["-l", layout.name]).args(line.split(' ')).code(0);
        }
        let bought = |audit: &Value| audit["activities"][0]["bought"].as_i64().unwrap();
        assert_eq!(bought(&matches(&redis, layout)), bought(&audit) + 1, "{layout:?}");
    }
}

#[test]
fn one_question_names_all_activities_before_anything_is_removed() {
    let redis = TestRedis::start();
    for activity in ["1001", "1002"] {
        redis.seckill(["preheat", "--id", activity, "--stock", "9"]).code(0);
        for user in ["a", "b"] {
            redis.seckill(["deduct", activity, "--user", user]).code(0);
        }
    }
    let before = redis.dump_all();
    let call = || redis.seckill(["ledger", "trim", "1001", "1002", "--before", LATER]);
    call().code(2).stdout_is("").stderr_has("Remove 4 ledger entries of 2 activities (`1001`, `1002`), older than");
    call().at_terminal("n\n").code(1).stdout_has("not confirmed");
    redis.assert_unchanged_since(&before);
    let outcome = call().at_terminal("y\n").code(0);
    assert_eq!(outcome.stdout.matches("[y/N]").count(), 1, "{}", outcome.stdout);
    assert_eq!(redis.xrange(&SECKILL.ledger("1002")).len(), 1);
    // Nothing is left to ask about.
    call().code(0);
}

#[test]
fn a_damaged_checkpoint_is_unsettled_and_never_a_match() {
    let unsettled = |spoil: &dyn Fn(&TestRedis)| {
        let (redis, time) = sale(SECKILL);
        trim(&redis, &time).code(0);
        spoil(&redis);
        let audit = redis.seckill(["reconcile", "1001", "-o", "json"]).code(7).stderr_has("nor continues a checkpoint");
        assert_eq!(audit.json()["verdict"], "unsettled");
        trim(&redis, LATER).code(1);
    };
    let page = |redis: &TestRedis| {
        redis.hgetall(&SECKILL.requests("1001")).into_keys().find(|field| field.starts_with("\tc:")).unwrap()
    };
    unsettled(&|redis| drop(redis.cmd(("HDEL", SECKILL.requests("1001"), page(redis)))));
    unsettled(&|redis| drop(redis.cmd(("HSET", SECKILL.requests("1001"), page(redis), "[[\"a\",\"3\"]]"))));
    unsettled(&|redis| drop(redis.cmd(("HSET", SECKILL.requests("1001"), page(redis), "x"))));
    unsettled(&|redis| drop(redis.cmd(("XTRIM", SECKILL.ledger("1001"), "MAXLEN", 1))));
    let (redis, time) = sale(SECKILL);
    trim(&redis, &time).code(0);
    redis.cmd(("HSET", SECKILL.meta("1001"), "checkpoint", "1 x"));
    redis.seckill(["reconcile", "1001"]).code(7).stdout_has("corrupt").stderr_has("holds `1 x`");
}
