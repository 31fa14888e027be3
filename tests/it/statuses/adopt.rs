//! `adopt`: each status of its header, step by step.

use super::scripts;
use crate::support::{LAYOUTS, Layout, Scripts};

fn adopt(scripts: &mut Scripts, args: &[&str]) -> String {
    let (keys, kind) = (scripts.layout.keys("1"), scripts.layout.kind);
    scripts.call("adopt", &keys, &[&[kind], args].concat())
}

/// The arguments of a switch of ten units; no user holds any.
fn switch(name: &str) -> [&str; 15] {
    ["switch", "me", "why", name, "10", "0", "10", "0", "", "0", "", "", "", "", "live"]
}

const WITHDRAW: [&str; 5] = ["withdraw", "me", "", "a", "10"];

fn limit(layout: Layout) -> &'static str {
    if layout.records_once() { "1" } else { "nil" }
}

#[test]
fn adopt_ok_withdraws_switches_and_is_replayed() {
    for layout in LAYOUTS {
        let (redis, mut scripts) = scripts(layout);
        redis.cmd(("SET", layout.stock("1"), "10"));
        let before = redis.dump_all();
        assert_eq!(adopt(&mut scripts, &["plan", ""]), "1 foreign 10 nil nil nil 1 nil 0 0 10 0", "{layout:?}");
        redis.assert_unchanged_since(&before);
        // Withdrawn, sent twice: nothing is withdrawn twice.
        for _ in 0..2 {
            let withdrawn = adopt(&mut scripts, &WITHDRAW);
            assert!(withdrawn.starts_with("1 unfinished 10 10 nil "), "{layout:?}: {withdrawn}");
            assert!(withdrawn.ends_with(" 1 nil 0 0 0 0"), "{layout:?}: {withdrawn}");
        }
        assert_eq!(redis.get(&layout.stock("1")).as_deref(), Some("0"), "{layout:?}");
        for (field, value) in [("state", "paused"), ("withdrawn", "10"), ("adopt", "live 0"), ("total", "10")] {
            assert_eq!(redis.rule(&layout.meta("1"), field).as_deref(), Some(value), "{layout:?}: {field}");
        }
        assert_eq!(adopt(&mut scripts, &switch("a")), "1 10", "{layout:?}");
        let after = redis.dump_all();
        assert_eq!(adopt(&mut scripts, &switch("a")), "2 10", "{layout:?}");
        let whole = adopt(&mut scripts, &["plan", ""]);
        assert!(whole.starts_with(&format!("1 whole 10 nil 10 {} 1 ", limit(layout))), "{layout:?}: {whole}");
        assert_eq!(adopt(&mut scripts, &WITHDRAW), "-23", "{layout:?}: it is whole");
        assert_eq!(adopt(&mut scripts, &["undo", "me", "", "a"]), "1 10", "{layout:?}: nothing to undo");
        redis.assert_unchanged_since(&after);
        assert!(scripts.deduct("1", ("7", "1", "r1")).starts_with("1 9"), "{layout:?}");
    }
}

#[test]
fn adopt_undo_leaves_everything_as_it_was() {
    for layout in LAYOUTS {
        let (redis, mut scripts) = scripts(layout);
        redis.cmd(("SET", layout.stock("1"), "10"));
        let before = redis.dump_all();
        adopt(&mut scripts, &WITHDRAW);
        assert_eq!(adopt(&mut scripts, &["undo", "me", "", "a"]), "1 10", "{layout:?}");
        redis.assert_unchanged_since(&before);
        // With a meta, its state comes back.
        scripts.preheat_as("reset", "1", "10", &[("title", "t")]);
        redis.cmd(("DEL", layout.ledger("1")));
        redis.set_rule(&layout.meta("1"), "state", "paused");
        let before = redis.dump_all();
        assert!(adopt(&mut scripts, &WITHDRAW).starts_with("1 unfinished 10 10 10 "), "{layout:?}");
        assert_eq!(adopt(&mut scripts, &["undo", "me", "", "a"]), "1 10", "{layout:?}");
        redis.assert_unchanged_since(&before);
    }
}

#[test]
fn adopt_stale_is_a_switch_of_what_changed() {
    for layout in LAYOUTS {
        let (redis, mut scripts) = scripts(layout);
        redis.cmd(("SET", layout.stock("1"), "10"));
        assert_eq!(adopt(&mut scripts, &switch("a")), "-23", "{layout:?}: nothing is withdrawn");
        adopt(&mut scripts, &WITHDRAW);
        redis.cmd(("INCRBY", layout.stock("1"), "1"));
        let before = redis.dump_all();
        assert_eq!(adopt(&mut scripts, &switch("a")), "-23", "{layout:?}: a backend gave a unit back");
        redis.assert_unchanged_since(&before);
        redis.cmd(("DECRBY", layout.stock("1"), "1"));
        redis.cmd(("HSET", layout.meta("1"), "withdrawn", "9"));
        assert_eq!(adopt(&mut scripts, &switch("a")), "-23", "{layout:?}: other units");
        redis.cmd(("HSET", layout.meta("1"), "withdrawn", "10", "draft", "b 1 1"));
        assert_eq!(adopt(&mut scripts, &switch("a")), "-23", "{layout:?}: another's pages");
        redis.cmd(("HDEL", layout.meta("1"), "draft"));
        redis.cmd(("XADD", layout.ledger("1"), "1-0", "op", "deduct"));
        assert_eq!(adopt(&mut scripts, &switch("a")), "-23", "{layout:?}: a newer entry");
        redis.cmd(("DEL", layout.ledger("1")));
        if layout.has_users() {
            let command = if layout.kind == "hash" { "HSET" } else { "SADD" };
            redis.cmd((command, layout.participants("1"), "7", "1"));
            assert_eq!(adopt(&mut scripts, &switch("a")), "-23", "{layout:?}: a new participant");
            redis.cmd(("DEL", layout.participants("1")));
        }
        assert_eq!(adopt(&mut scripts, &switch("a")), "1 10", "{layout:?}");
    }
}

#[test]
fn a_plan_tells_that_any_of_the_keys_expires() {
    for layout in LAYOUTS {
        let (redis, mut scripts) = scripts(layout);
        scripts.preheat("1", "10");
        scripts.deduct("1", ("7", "1", "r1"));
        for key in layout.keys("1") {
            assert!(adopt(&mut scripts, &["plan", ""]).ends_with(" 0"), "{layout:?}");
            redis.cmd(("PEXPIRE", &key, 100_000_000));
            assert!(adopt(&mut scripts, &["plan", ""]).ends_with(" 1"), "{layout:?} {key}");
            redis.cmd(("PERSIST", &key));
        }
    }
}

#[test]
fn adopt_not_preheated_and_corrupt() {
    for layout in LAYOUTS {
        let (redis, mut scripts) = scripts(layout);
        for step in [&["plan", ""][..], &WITHDRAW, &switch("a"), &["undo", "me", "", "a"]] {
            assert_eq!(adopt(&mut scripts, step), "-4", "{layout:?}");
        }
        for key in 1..=layout.key_count() {
            redis.cmd(&["FLUSHALL"]);
            redis.cmd(("RPUSH", layout.key(key, "1"), "x"));
            let before = redis.dump_all();
            for step in [&["plan", ""][..], &WITHDRAW, &switch("a"), &["undo", "me", "", "a"]] {
                assert_eq!(adopt(&mut scripts, step), format!("-11 nil nil {key} nil"), "{layout:?}");
            }
            redis.assert_unchanged_since(&before);
        }
        for (field, value) in [("withdrawn", "1e3"), ("rules", "many"), ("repairs", "-1"), ("adopt", "open 1")] {
            redis.cmd(&["FLUSHALL"]);
            scripts.preheat("1", "10");
            redis.cmd(("HSET", layout.meta("1"), field, value));
            assert_eq!(adopt(&mut scripts, &["plan", ""]), format!("-11 nil nil 2 {value}"), "{layout:?}");
        }
        redis.cmd(&["FLUSHALL"]);
        redis.cmd(("SET", layout.stock("1"), "007"));
        assert_eq!(adopt(&mut scripts, &["plan", ""]), "-11 nil nil 1 007", "{layout:?}");
    }
}

#[test]
fn adopt_refuses_arguments_that_are_none() {
    for layout in LAYOUTS {
        let (redis, mut scripts) = scripts(layout);
        redis.cmd(("SET", layout.stock("1"), "10"));
        let before = redis.dump_all();
        let mut wrong =
            vec![vec!["steal", ""], vec!["withdraw", "", "", "a b", "10"], vec!["withdraw", "", "", "a", "1e3"]];
        for (at, value) in [(5, "-1"), (6, "1.5"), (9, "x"), (10, "2"), (10, "=x"), (12, "=0x10")] {
            let mut arguments = switch("a").to_vec();
            arguments[at] = value;
            wrong.push(arguments);
        }
        wrong.push(switch("a")[..9].to_vec());
        let mut window = switch("a").to_vec();
        (window[12], window[13]) = ("=5", "=5");
        wrong.push(window);
        for arguments in wrong {
            let reply = adopt(&mut scripts, &arguments);
            assert!(reply.contains("USAGE adopt"), "{layout:?} {arguments:?}: {reply}");
        }
        redis.assert_unchanged_since(&before);
    }
}
