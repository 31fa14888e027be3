//! What a call that was cut left of the counts of open units is put right: by the same call again, or by `expire`.

use super::cut::cut_after;
use super::{LONG, WITH_USERS, quantity, units_left, units_of_7};
use crate::support::{Layout, Scripts, TestRedis};

/// Compares the counts of open units, and the deadlines, with the holds themselves.
fn assert_exact(redis: &TestRedis, layout: Layout, users: &[&str], context: &str) {
    let (mut all, mut of) = (0, vec![0; users.len()]);
    for id in redis.ask::<Vec<String>>(("ZRANGE", layout.deadlines("1"), 0, -1)) {
        let record = redis.hget(&layout.requests("1"), &format!("\th:{id}"));
        let record = record.unwrap_or_else(|| panic!("{context}: {id} has a deadline and is no hold"));
        let words: Vec<&str> = record.split(' ').collect();
        assert_eq!(words[0], "held", "{context}: {id} has a deadline");
        let units: i64 = words[1].parse().unwrap();
        all += units;
        of[users.iter().position(|user| *user == words[4]).unwrap()] += units;
    }
    let number = |text: Option<String>| text.map_or(0, |text| text.parse::<i64>().unwrap());
    assert_eq!(number(redis.hget(&layout.meta("1"), "holds")), all, "{context}");
    for (user, units) in users.iter().zip(of) {
        let open = redis.hget(&layout.requests("1"), &format!("\to:{user}"));
        assert_eq!(number(open), units, "{context}: user {user}");
    }
}

/// Holds `r` of user 7, one of user 8, and, if a user can have several, another one of user 7.
fn prepare(scripts: &mut Scripts, duration: &str) {
    let (layout, kind) = (scripts.layout, scripts.layout.kind);
    scripts.preheat("1", "10");
    assert!(scripts.hold("r", duration).starts_with("1 "));
    let mut more = |user: &str, request: &str| {
        let args = [kind, "tester", user, "1", request, "first", "", LONG];
        assert!(scripts.call("hold", &layout.all_keys("1"), &args).starts_with("1 "));
    };
    more("8", "s");
    if kind == "hash" {
        more("7", "t");
    }
}

/// Cuts a call after each of its writes, and lets the rest be finished.
fn check(
    layout: Layout,
    name: &'static str,
    args: &[&str],
    duration: Option<&str>,
    finish: impl Fn(&mut Scripts, &str),
) {
    let redis = TestRedis::start();
    let mut cuts = 0;
    for nth in 0.. {
        redis.cmd("FLUSHALL");
        let mut scripts = Scripts::of(&redis, layout);
        match duration {
            Some(duration) => prepare(&mut scripts, duration),
            None => scripts.preheat("1", "10"),
        }
        let reply = scripts.eval(&cut_after(name, nth), &layout.all_keys("1"), args);
        let context = format!("{} {args:?} cut after {nth}: {reply}", layout.name);
        finish(&mut scripts, &context);
        assert_exact(&redis, layout, &["7", "8"], &context);
        if !reply.contains("CUT") {
            break;
        }
        cuts += 1;
        if name == "settle" {
            let sold = units_left(&redis, layout) + units_of_7(&redis, layout);
            assert_eq!(sold, 9, "{context}: user 8 has the tenth");
            redis.seckill(["-l", layout.name, "reconcile", "1"]).code(0);
        }
    }
    assert!(cuts >= 4, "{} {args:?}: only {cuts} writes", layout.name);
}

#[test]
fn a_confirm_that_was_cut_is_finished_by_the_same_call_again() {
    for layout in WITH_USERS {
        let single = [layout.kind, "tester", "r", "confirm"];
        check(layout, "settle", &single, Some(LONG), |scripts, context| {
            let reply = scripts.settle("confirm", "r");
            assert!(reply.starts_with("1 ") || reply.starts_with("2 "), "{context}: {reply}");
        });
        let job = [layout.kind, "tester", r#"["r"]"#, "confirm", "night", "d", "1", "0", "1"];
        check(layout, "settle", &job, Some(LONG), |scripts, context| {
            let reply = scripts.call("settle", &layout.all_keys("1"), &job);
            assert!(reply.starts_with('o') || reply.starts_with('r'), "{context}: {reply}");
        });
    }
}

#[test]
fn what_a_cut_left_is_finished_by_expire_once_the_deadline_is_over() {
    for layout in WITH_USERS {
        check(layout, "settle", &[layout.kind, "tester", "r", "confirm"], Some(LONG), |scripts, context| {
            scripts.send(&["ZADD", &layout.deadlines("1"), "XX", "1", "r"]);
            let reply = scripts.settle("expire", "500");
            assert!(reply.starts_with("1 "), "{context}: {reply}");
        });
    }
}

#[test]
fn a_hold_that_was_cut_and_sent_again_leaves_the_counts_exact() {
    for layout in WITH_USERS {
        let units = quantity(layout).to_string();
        let args = [layout.kind, "tester", "7", &units, "r", "first", "", LONG];
        check(layout, "hold", &args, None, |scripts, context| {
            let reply = scripts.hold("r", LONG);
            let is_refused = reply.starts_with("-2 ") || reply.starts_with("-11 ");
            assert!(reply.starts_with("1 ") || reply.starts_with("2 ") || is_refused, "{context}: {reply}");
            if is_refused {
                // Units without a hold: `reconcile` finds them. The deadline is removed once it is over.
                scripts.send(&["ZADD", &layout.deadlines("1"), "1", "r"]);
                assert!(scripts.settle("expire", "500").starts_with("1 "), "{context}");
            }
        });
    }
}
