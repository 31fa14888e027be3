//! `preheat`, `pause` and `snapshot`: each status of their headers.

use super::{FUTURE, PAST, scripts, spoil_record};
use crate::support::{LAYOUTS, SKU, Scripts};

fn pause(scripts: &mut Scripts, state: &str, dry: &str) -> String {
    pause_with(scripts, state, dry, "")
}

fn pause_with(scripts: &mut Scripts, state: &str, dry: &str, withdraw: &str) -> String {
    let keys = scripts.layout.keys("1");
    scripts.call("pause", &keys, &[state, "tester", "why", dry, withdraw])
}

fn snapshot(scripts: &mut Scripts, users: &[&str]) -> String {
    let (keys, kind) = (scripts.layout.keys("1"), scripts.layout.kind);
    scripts.call("snapshot", &keys, &[&[kind], users].concat())
}

#[test]
fn preheat_ok_creates_leaves_alone_updates_and_resets() {
    for layout in LAYOUTS {
        let (redis, mut scripts) = scripts(layout);
        let limit = if layout.records_once() { "1" } else { "nil" };
        let created = scripts.preheat_as("create", "1", "10", &[]);
        assert_eq!(created, format!("1 create nil 10 nil 10 {limit}"), "{layout:?}");
        let before = redis.dump_all();
        let again = scripts.preheat_as("create", "1", "10", &[]);
        assert_eq!(again, format!("1 unchanged 10 10 10 10 {limit}"), "{layout:?}");
        assert_eq!(scripts.preheat_as("update", "1", "10", &[]), again, "{layout:?}");
        redis.assert_unchanged_since(&before);
        scripts.deduct("1", ("7", "1", "r1"));
        let updated = scripts.preheat_as("update", "1", "12", &[]);
        assert_eq!(updated, format!("1 update 10 12 9 11 {limit} stock 10 12"), "{layout:?}");
        let reset = scripts.preheat_as("reset", "1", "3", &[]);
        assert_eq!(reset, format!("1 reset 12 3 11 3 {limit}"), "{layout:?}");
        assert_eq!(redis.rule(&layout.meta("1"), "epoch").as_deref(), Some("2"));
        assert_eq!(redis.xrange(&layout.ledger("1")).len(), 1);
        assert!(!redis.exists(&layout.requests("1")));
    }
}

#[test]
fn preheat_out_of_stock_is_an_update_below_what_is_sold() {
    for layout in LAYOUTS {
        let (redis, mut scripts) = scripts(layout);
        scripts.preheat("1", "2");
        scripts.orders("deduct", "first", "1", &[("7", "1", "r1"), ("8", "1", "r2")]);
        let before = redis.dump_all();
        let reply = scripts.preheat_as("update", "1", "1", &[]);
        assert!(reply.starts_with("-3 refused 2 2 0 0"), "{layout:?}: {reply}");
        redis.assert_unchanged_since(&before);
    }
}

#[test]
fn preheat_exists_tells_each_field_that_differs() {
    for layout in LAYOUTS {
        let (redis, mut scripts) = scripts(layout);
        scripts.preheat_with("1", "10", &[("title", "a")]);
        let before = redis.dump_all();
        let reply = scripts.preheat_as("create", "1", "12", &[("title", "b"), ("ends_at", "5000")]);
        assert!(reply.starts_with("-10 refused 10 10 10 10"), "{layout:?}: {reply}");
        assert!(reply.ends_with("stock 10 12 title a b ends_at  5000"), "{layout:?}: {reply}");
        let ledger = scripts.preheat_as("update", "1", "10", &[("ledger", "0")]);
        assert!(ledger.starts_with("-10 refused "), "{layout:?}: {ledger}");
        redis.assert_unchanged_since(&before);
        redis.cmd(("DEL", layout.stock("1")));
        for mode in ["create", "update"] {
            let evicted = scripts.preheat_as(mode, "1", "10", &[("title", "a")]);
            assert!(evicted.starts_with("-10 refused "), "{layout:?}: a stock that was evicted: {evicted}");
        }
        assert!(!redis.exists(&layout.stock("1")));
    }
}

#[test]
fn preheat_not_preheated_and_exists_unless_the_total_is_the_one_given() {
    for layout in LAYOUTS {
        let (redis, mut scripts) = scripts(layout);
        let before = redis.dump_all();
        let absent = scripts.preheat_as("update", "1", "12", &[("if_total", "10")]);
        assert!(absent.starts_with("-4 refused nil nil nil nil"), "{layout:?}: {absent}");
        redis.assert_unchanged_since(&before);
        scripts.preheat("1", "10");
        let before = redis.dump_all();
        let other = scripts.preheat_as("update", "1", "12", &[("if_total", "11")]);
        assert!(other.starts_with("-10 refused 10 10 10 10"), "{layout:?}: {other}");
        assert!(other.ends_with("stock 10 12 if_total 10 11"), "{layout:?}: {other}");
        // Also if nothing else differs.
        let equal = scripts.preheat_as("update", "1", "10", &[("if_total", "11")]);
        assert!(equal.starts_with("-10 refused ") && equal.ends_with("if_total 10 11"), "{layout:?}: {equal}");
        for (mode, wrong) in [("create", "10"), ("reset", "10"), ("update", "010"), ("update", "-1"), ("update", "1e1")]
        {
            let error = scripts.preheat_as(mode, "1", "12", &[("if_total", wrong)]);
            assert!(error.contains("ARGV[12]"), "{layout:?} {mode} {wrong}: {error}");
        }
        redis.assert_unchanged_since(&before);
        assert!(
            scripts.preheat_as("update", "1", "12", &[("if_total", "10")]).starts_with("1 update 10 12"),
            "{layout:?}"
        );
        assert!(
            scripts.preheat_as("update", "1", "12", &[("if_total", "12")]).starts_with("1 unchanged "),
            "{layout:?}"
        );
        assert!(
            scripts.preheat_as("update", "1", "14", &[("if_total", "")]).starts_with("1 update 12 14"),
            "{layout:?}"
        );
    }
}

#[test]
fn preheat_exists_where_any_key_is_there_that_it_did_not_write() {
    for layout in LAYOUTS {
        let (redis, mut scripts) = scripts(layout);
        redis.cmd(("SET", layout.stock("1"), "5"));
        let before = redis.dump_all();
        for mode in ["create", "update"] {
            let reply = scripts.preheat_as(mode, "1", "5", &[]);
            assert!(reply.starts_with("-10 refused "), "{layout:?} {mode}: {reply}");
        }
        redis.assert_unchanged_since(&before);
        assert!(scripts.preheat_as("reset", "1", "5", &[]).starts_with("1 reset "), "{layout:?}");
    }
}

#[test]
fn preheat_corrupt_names_the_key() {
    for layout in LAYOUTS {
        for key in 1..=layout.key_count().min(5) {
            let (redis, mut scripts) = scripts(layout);
            redis.cmd(("RPUSH", layout.key(key, "1"), "x"));
            let before = redis.dump_all();
            for mode in ["create", "update"] {
                let reply = scripts.preheat_as(mode, "1", "5", &[]);
                assert_eq!(reply, format!("-11 nil nil {key} nil"), "{layout:?}");
            }
            redis.assert_unchanged_since(&before);
            assert!(scripts.preheat_as("reset", "1", "5", &[]).starts_with("1 reset "), "{layout:?}: key {key}");
            assert!(scripts.deduct("1", ("7", "1", "r1")).starts_with("1 4"), "{layout:?}: key {key}");
        }
    }
}

#[test]
fn pause_ok_replayed_not_preheated_and_corrupt() {
    for layout in LAYOUTS {
        let (redis, mut scripts) = scripts(layout);
        assert_eq!(pause(&mut scripts, "paused", "0"), "-4 nil nil", "{layout:?}");
        redis.cmd(("SET", layout.stock("1"), "5"));
        assert_eq!(pause(&mut scripts, "paused", "0"), "-4 nil 5", "{layout:?}: another system's");
        redis.cmd(("DEL", layout.stock("1")));
        scripts.preheat("1", "5");
        let before = redis.dump_all();
        assert_eq!(pause(&mut scripts, "paused", "1"), "1 paused 0", "{layout:?}: dry");
        assert_eq!(pause_with(&mut scripts, "paused", "1", "1"), "1 paused 5", "{layout:?}: dry");
        assert_eq!(pause(&mut scripts, "live", "0"), "2 live 0", "{layout:?}");
        redis.assert_unchanged_since(&before);
        assert_eq!(pause(&mut scripts, "paused", "0"), "1 paused 0", "{layout:?}");
        assert_eq!(pause(&mut scripts, "paused", "0"), "2 paused 0", "{layout:?}");
        assert_eq!(pause(&mut scripts, "live", "0"), "1 live 0", "{layout:?}");
        let ops: Vec<String> = redis.xrange(&layout.ledger("1")).iter().map(|(_, entry)| entry["op"].clone()).collect();
        assert_eq!(ops, ["preheat", "pause", "resume"]);
        redis.set_rule(&layout.meta("1"), "total", "many");
        let before = redis.dump_all();
        let limit = if layout.records_once() { "1" } else { "-" };
        let corrupt = format!("-11 nil nil 2 live 1 1 {limit} many - -");
        assert_eq!(pause(&mut scripts, "paused", "0"), corrupt, "{layout:?}");
        redis.assert_unchanged_since(&before);
    }
}

#[test]
fn pause_withdraws_the_stock_once_and_resume_returns_it_once() {
    for layout in LAYOUTS {
        let (redis, mut scripts) = scripts(layout);
        scripts.preheat("1", "5");
        scripts.deduct("1", ("7", "1", "r1"));
        assert_eq!(pause_with(&mut scripts, "paused", "0", "1"), "1 paused 4", "{layout:?}");
        let withdrawn = redis.dump_all();
        assert_eq!(pause_with(&mut scripts, "paused", "0", "1"), "2 paused 0", "{layout:?}");
        assert_eq!(pause(&mut scripts, "paused", "0"), "2 paused 0", "{layout:?}");
        assert!(scripts.deduct("1", ("8", "1", "r2")).starts_with("-7 4"), "{layout:?}: a refusal reports the stock");
        redis.assert_unchanged_since(&withdrawn);
        assert_eq!(redis.int(&layout.stock("1")), 0, "{layout:?}: what a plain script sees");
        assert_eq!(redis.hget(&layout.meta("1"), "withdrawn").as_deref(), Some("4"));
        assert!(scripts.refund("1", ("7", "1", "r3")).starts_with("1 5"), "{layout:?}");
        assert_eq!(redis.int(&layout.stock("1")), 0, "{layout:?}: a refund goes to the withdrawn units");
        // A plain script refunds a unit: only the next pause withdraws that too.
        redis.cmd(("INCRBY", layout.stock("1"), 1));
        assert_eq!(pause_with(&mut scripts, "paused", "0", "1"), "1 paused 1", "{layout:?}");
        assert_eq!(redis.hget(&layout.meta("1"), "withdrawn").as_deref(), Some("6"));
        assert_eq!(pause(&mut scripts, "live", "0"), "1 live 6", "{layout:?}");
        let resumed = redis.dump_all();
        assert_eq!(pause(&mut scripts, "live", "0"), "2 live 0", "{layout:?}: a resume whose reply was lost");
        redis.assert_unchanged_since(&resumed);
        assert_eq!(redis.int(&layout.stock("1")), 6);
        assert_eq!(redis.hget(&layout.meta("1"), "withdrawn"), None);
        let entries = redis.xrange(&layout.ledger("1"));
        let moved = |op: &str| -> Vec<String> {
            let entries = entries.iter().filter(|(_, entry)| entry["op"] == op);
            entries.map(|(_, entry)| format!("{} {}", entry["stock"], entry["withdrawn"])).collect()
        };
        assert_eq!((moved("pause"), moved("resume")), (vec!["4 4".into(), "6 1".into()], vec!["6 6".into()]));
    }
}

#[test]
fn pause_paused_here_only_is_a_sale_without_ledger_not_withdrawn() {
    for layout in LAYOUTS {
        let (redis, mut scripts) = scripts(layout);
        scripts.preheat_with("1", "5", &[("ledger", "0")]);
        let before = redis.dump_all();
        assert_eq!(pause(&mut scripts, "paused", "1"), "-17 paused 0", "{layout:?}");
        redis.assert_unchanged_since(&before);
        for _ in 0..2 {
            assert_eq!(pause(&mut scripts, "paused", "0"), "-17 paused 0", "{layout:?}");
            assert!(scripts.deduct("1", ("7", "1", "r1")).starts_with("-7 5"), "{layout:?}: refused here");
        }
        assert_eq!(pause_with(&mut scripts, "paused", "0", "1"), "1 paused 5", "{layout:?}");
        assert_eq!(pause(&mut scripts, "paused", "0"), "2 paused 0", "{layout:?}");
        assert_eq!(pause(&mut scripts, "live", "0"), "1 live 5", "{layout:?}");
        assert_eq!(redis.int(&layout.stock("1")), 5);
        assert!(!redis.exists(&layout.ledger("1")));
    }
}

#[test]
fn pause_moves_no_units_without_a_stock_key_or_with_a_damaged_count() {
    for layout in LAYOUTS {
        let (redis, mut scripts) = scripts(layout);
        scripts.preheat("1", "5");
        redis.cmd(("DEL", layout.stock("1")));
        let before = redis.dump_all();
        assert_eq!(pause_with(&mut scripts, "paused", "0", "1"), "-4 live", "{layout:?}");
        redis.set_rule(&layout.meta("1"), "state", "paused");
        redis.cmd(("HSET", layout.meta("1"), "withdrawn", "5"));
        let evicted = redis.dump_all();
        assert_eq!(pause(&mut scripts, "live", "0"), "-4 paused", "{layout:?}: an evicted stock is not made anew");
        redis.assert_unchanged_since(&evicted);
        redis.cmd(("HDEL", layout.meta("1"), "withdrawn"));
        redis.set_rule(&layout.meta("1"), "state", "live");
        redis.assert_unchanged_since(&before);
        for damaged in ["x", "-1", "05", "9007199254740993"] {
            redis.cmd(("SET", layout.stock("1"), "0"));
            redis.set_rule(&layout.meta("1"), "state", "paused");
            redis.cmd(("HSET", layout.meta("1"), "withdrawn", damaged));
            let before = redis.dump_all();
            let corrupt = format!("-11 nil nil 2 {damaged}");
            assert_eq!(pause(&mut scripts, "live", "0"), corrupt, "{layout:?}");
            assert_eq!(scripts.deduct("1", ("7", "1", "r1")), corrupt, "{layout:?}");
            assert_eq!(scripts.refund("1", ("7", "1", "r1")), corrupt, "{layout:?}");
            assert!(snapshot(&mut scripts, &[]).ends_with(&format!(" nil 2 {damaged}")), "{layout:?}");
            let multi = scripts.multi_deduct("first", "7", "r1", &[("1", "1")]);
            assert!(multi.starts_with("-1 -11,2,"), "{layout:?}: {multi}");
            redis.assert_unchanged_since(&before);
        }
    }
}

#[test]
fn resume_exists_is_an_adoption_that_is_unfinished() {
    for layout in LAYOUTS {
        let (redis, mut scripts) = scripts(layout);
        scripts.preheat("1", "5");
        pause_with(&mut scripts, "paused", "0", "1");
        redis.cmd(("HSET", layout.meta("1"), "adopt", "live 1"));
        let before = redis.dump_all();
        assert_eq!(pause(&mut scripts, "live", "0"), "-10 nil nil", "{layout:?}");
        assert_eq!(pause_with(&mut scripts, "paused", "0", "1"), "2 paused 0", "{layout:?}");
        redis.assert_unchanged_since(&before);
    }
}

#[test]
fn pause_replies_with_the_state_afterwards() {
    for layout in LAYOUTS {
        for (fields, stock, paused, live) in [
            (&[("ends_at", PAST)][..], "5", "ended", "ended"),
            (&[("starts_at", FUTURE)], "5", "paused", "upcoming"),
            (&[], "0", "paused", "sold_out"),
            (&[("starts_at", PAST), ("ends_at", FUTURE)], "5", "paused", "live"),
        ] {
            let (_redis, mut scripts) = scripts(layout);
            scripts.preheat_with("1", stock, fields);
            assert_eq!(pause_with(&mut scripts, "paused", "0", "1"), format!("1 {paused} {stock}"), "{layout:?}");
            assert_eq!(pause(&mut scripts, "live", "0"), format!("1 {live} {stock}"), "{layout:?}");
        }
    }
}

#[test]
fn snapshot_tells_everything_at_one_instant() {
    for layout in LAYOUTS {
        let (redis, mut scripts) = scripts(layout);
        let nothing = snapshot(&mut scripts, &[]);
        assert!(nothing.starts_with("-4 1"), "{layout:?}: {nothing}");
        scripts.preheat_with("1", "10", &[("title", "t")]);
        scripts.deduct("1", ("7", "1", "r1"));
        let before = redis.dump_all();
        let reply = snapshot(&mut scripts, &["7", "8"]);
        let last = &redis.xrange(&layout.ledger("1"))[1].0;
        let end = if layout.has_users() { format!("1 {last} 2 1 nil") } else { format!("0 {last} 2") };
        assert!(reply.starts_with("1 1") && reply.trim_end().ends_with(&end), "{layout:?}: {reply}");
        assert!(reply.contains(" 10 - -"), "{layout:?}: {reply}");
        redis.assert_unchanged_since(&before);
    }
}

#[test]
fn snapshot_of_a_member_without_units_is_unknown_and_any_number_of_users_may_be_asked_for() {
    let (redis, mut scripts) = scripts(SKU);
    scripts.preheat("1", "10");
    redis.cmd(("SADD", SKU.participants("1"), "2500"));
    let users: Vec<String> = (0..2501).map(|user: u32| user.to_string()).collect();
    let reply = snapshot(&mut scripts, &users.iter().map(String::as_str).collect::<Vec<_>>());
    assert!(reply.ends_with(&format!("1{} ?", " nil".repeat(2500))), "{reply}");
}

#[test]
fn snapshot_corrupt_names_the_key() {
    for layout in LAYOUTS {
        for key in 1..=layout.key_count() {
            let (redis, mut scripts) = scripts(layout);
            redis.cmd(("RPUSH", layout.key(key, "1"), "x"));
            if key == 6 {
                redis.cmd(("SADD", layout.participants("1"), "7"));
            }
            let reply = snapshot(&mut scripts, &["7"]);
            assert!(reply.starts_with("-11 1") && reply.ends_with(&format!(" nil {key} nil")), "{layout:?}: {reply}");
        }
        let (redis, mut scripts) = scripts(layout);
        scripts.preheat("1", "5");
        spoil_record(&redis, layout, "1", "7");
        let reply = snapshot(&mut scripts, &["7"]);
        // A record is replied as it is stored, for the client to judge.
        assert_eq!(reply.contains("1.5"), matches!(layout.kind, "hash" | "set"), "{layout:?}: {reply}");
    }
}
