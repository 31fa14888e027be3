//! `ledger trim` that is cut short, races or loses a reply: the audit stays exact, and the next trim resumes.

use super::trim::{LATER, matches, now, sale, trim};
use crate::holds::cut::cut_after;
use crate::support::{Fault, Proxy, SECKILL, Scripts, TestRedis, When};

/// A thousand users' purchases, more than one call removes, with a checkpoint of an earlier trim; and a time.
fn long_sale() -> (TestRedis, String) {
    let redis = TestRedis::start();
    redis.seckill(["preheat", "--id", "1001", "--stock", "100000"]).code(0);
    let sell = "for i = 1, ARGV[1] do
        local user = 'user-' .. i % 1100
        redis.call('DECR', KEYS[1])
        redis.call('HINCRBY', KEYS[2], user, 1)
        redis.call('XADD', KEYS[3], '*', 'op', 'deduct', 'stock', '1', 'users', '[\"' .. user .. '\"]', 'quantity', '1')
    end";
    let keys = (SECKILL.stock("1001"), SECKILL.participants("1001"), SECKILL.ledger("1001"));
    redis.cmd(("EVAL", sell, 3, &keys, 700));
    trim(&redis, &now(&redis)).code(0);
    redis.cmd(("EVAL", sell, 3, &keys, 2100));
    let time = now(&redis);
    redis.cmd(("EVAL", sell, 3, &keys, 10));
    (redis, time)
}

/// The same state as another activity.
fn copy(redis: &TestRedis, activity: &str) {
    for number in 1..=SECKILL.key_count() {
        redis.cmd(("COPY", SECKILL.key(number, "1001"), SECKILL.key(number, activity), "REPLACE"));
    }
}

#[test]
fn killed_anywhere_it_leaves_an_exact_audit_and_the_next_trim_resumes() {
    let (redis, time) = long_sale();
    redis.seckill(["script", "load"]).code(0);
    let args = ["ledger", "trim", "7", "--yes", "-o", "jsonl", "--before", &time];
    let expected = {
        copy(&redis, "7");
        let count = Proxy::before(&redis);
        let row = count.seckill(args).code(0).json();
        assert_eq!(row["removed"], 2101, "the last of the former sale too");
        count.commands().len()
    };
    assert!(expected > 8, "plan, clear, three pages, switch, two cuts, clear");
    let after = redis.xrange(&SECKILL.ledger("7"));
    for nth in 1..=expected {
        copy(&redis, "7");
        let network = Proxy::before(&redis);
        network.inject(When::Nth(nth), Fault::HangRequest);
        let killed = network.seckill(args).spawn();
        network.wait_for_commands(nth);
        killed.signal(libc::SIGKILL);
        killed.wait().killed_by(libc::SIGKILL);
        redis.seckill(["reconcile", "7"]).code(0).stderr("").stdout_has("match");
        redis.seckill(args).code(0);
        assert_eq!(redis.xrange(&SECKILL.ledger("7")), after, "{nth}");
        let meta = redis.hgetall(&SECKILL.meta("7"));
        assert!(!meta.contains_key("draft"), "{nth}: {meta:?}");
        let pages = redis.hgetall(&SECKILL.requests("7")).into_keys().filter(|field| field.starts_with("\tc:"));
        assert_eq!(pages.count(), 3, "{nth}");
        // What was on its way arrives after all; at most it begins a draft, which the next one clears.
        network.deliver_late();
        assert_eq!(redis.xrange(&SECKILL.ledger("7")), after, "{nth}");
        redis.seckill(["reconcile", "7"]).code(0).stderr("");
    }
}

#[test]
fn a_lost_reply_changes_nothing() {
    let (redis, time) = long_sale();
    let args = ["ledger", "trim", "7", "--yes", "-o", "jsonl", "--before", &time];
    for nth in 1..=9 {
        copy(&redis, "7");
        let network = Proxy::before(&redis);
        network.inject(When::Nth(nth), Fault::LoseReply);
        let row = network.seckill(args).code(0).json();
        assert_eq!((&row["removed"], &row["status"]), (&2101.into(), &"ok".into()), "{nth}");
        redis.seckill(["reconcile", "7"]).code(0).stderr("");
    }
}

#[test]
fn of_two_at_once_one_gives_way() {
    let (redis, time) = long_sale();
    redis.seckill(["script", "load"]).code(0);
    let network = Proxy::before(&redis);
    let args = ["ledger", "trim", "1001", "--yes", "--before", &time];
    // The third page of the first comes again only when the second is through.
    let so_far = {
        let count = Proxy::before(&redis);
        count.seckill(args).args(["--dry-run"]).code(0);
        count.commands().len()
    };
    network.inject(When::Nth(so_far + 1 + 3), Fault::HangRequest);
    let first = network.seckill(args).args(["--timeout", "1s"]).spawn();
    network.wait_for_commands(so_far + 1 + 3);
    first.signal(libc::SIGSTOP);
    redis.seckill(args).code(0);
    first.signal(libc::SIGCONT);
    first.wait().code(1).stderr_has("somebody else");
    matches(&redis, SECKILL);
    let pages = redis.hgetall(&SECKILL.requests("1001")).into_keys().filter(|field| field.starts_with("\tc:"));
    assert_eq!(pages.count(), 3);
}

#[test]
fn a_reset_takes_the_checkpoint_along() {
    let (redis, time) = sale(SECKILL);
    trim(&redis, &time).code(0);
    redis.cmd(("HSET", SECKILL.meta("1001"), "draft", "left-over 3 1"));
    redis.seckill(["preheat", "--id", "1001", "--stock", "9", "--reset", "--yes"]).code(0);
    let meta = redis.hgetall(&SECKILL.meta("1001"));
    assert!(!meta.contains_key("checkpoint") && !meta.contains_key("draft"), "{meta:?}");
    assert!(!redis.exists(&SECKILL.requests("1001")));
    matches(&redis, SECKILL);
    redis.seckill(["ledger", "1001", "-o", "csv"]).code(0).stderr("");
    // A checkpoint that an older tool's reset left means nothing in the new sale.
    redis.cmd(("HSET", SECKILL.meta("1001"), "checkpoint", "8 x 1 1 1700000000000-0 1600000000000-0 8 9 3 1 me"));
    matches(&redis, SECKILL);
    redis.seckill(["ledger", "1001", "-o", "csv"]).code(0).stderr("");
    redis.seckill(["deduct", "1001", "--user", "a"]).code(0);
    assert_eq!(trim(&redis, LATER).code(0).json()["removed"], 1);
    matches(&redis, SECKILL);
}

#[test]
fn a_trim_whose_script_is_cut_after_any_write_is_finished_by_the_next() {
    let redis = TestRedis::start();
    let keys = SECKILL.keys("1");
    let mut scripts = Scripts::of(&redis, SECKILL);
    let mut cuts = 0;
    for (step, nth) in (0..6).flat_map(|step| (0..3).map(move |nth| (step, nth))) {
        redis.cmd("FLUSHALL");
        scripts.preheat("1", "10");
        for (user, request) in [("7", "a"), ("8", "b"), ("7", "c")] {
            assert!(scripts.deduct("1", (user, "1", request)).starts_with("1 "));
        }
        let entries = redis.xrange(&SECKILL.ledger("1"));
        let (upto, from) = (&entries[1].0, &entries[2].0);
        let sums = format!("{from} {upto} 2 10 1");
        let page = ["page", "1", "x", "0", r#"[["7","1"]]"#];
        let switch = ["switch", "1", "x", "1", "", &sums, "me"];
        let (cut, clear) = (["cut", "1", ""], ["clear", "1", ""]);
        let steps: [&[&str]; 6] = [&page, &switch, &cut, &clear, &["page", "1", "y", "0", "[]"], &clear];
        for before in &steps[..step] {
            assert!(scripts.call("trim", &keys, before).starts_with("1"), "{before:?}");
        }
        let reply = scripts.eval(&cut_after("trim", nth), &keys, steps[step]);
        cuts += usize::from(reply.contains("CUT"));
        // The same call again, for its reply was lost too; or another trim.
        if nth % 2 == 1 && step < 2 {
            assert!(scripts.call("trim", &keys, steps[step]).starts_with('1'), "{step} {nth}: {reply}");
        }
        let context = format!("{:?} cut after {nth}: {reply}", steps[step]);
        let audit = redis.seckill(["reconcile", "1", "-o", "json"]).run().json();
        assert!(["match", "unsettled"].contains(&audit["verdict"].as_str().unwrap()), "{context}: {audit}");
        redis.seckill(["ledger", "trim", "1", "--yes", "--before", "1ms"]).code(0);
        redis.seckill(["reconcile", "1"]).code(0).stdout_has("match");
        let meta = redis.hgetall(&SECKILL.meta("1"));
        assert!(!meta.contains_key("draft"), "{context}: {meta:?}");
        redis.seckill(["ledger", "trim", "1", "--yes", "--before", LATER]).code(0);
        redis.seckill(["reconcile", "1"]).code(0).stdout_has("match");
    }
    assert!(cuts >= 9, "{cuts}");
}
