//! `archive` and `restore`: each status of their headers, step by step.

use super::{PAST, scripts};
use crate::support::{LAYOUTS, Layout, Scripts, TestRedis};

const SHA: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
const OTHER: &str = "0000000000000000000000000000000000000000000000000000000000000000";

fn call(scripts: &mut Scripts, name: &'static str, args: &[&str]) -> String {
    let (layout, kind) = (scripts.layout, scripts.layout.kind);
    let keys = if name == "archive" { layout.all_keys("1") } else { layout.keys("1") };
    scripts.call(name, &keys, &[&[kind], args].concat())
}

fn last(redis: &TestRedis, layout: Layout) -> String {
    redis.xrange(&layout.ledger("1")).pop().unwrap().0
}

#[test]
fn archive_has_every_status_of_its_header() {
    for layout in LAYOUTS {
        let (redis, mut scripts) = scripts(layout);
        assert_eq!(call(&mut scripts, "archive", &["plan"]), "-4", "{layout:?}");
        scripts.preheat("1", "10");
        scripts.deduct("1", ("7", "1", "r1"));
        let (counted, of_set) = (u8::from(layout.has_users()), u8::from(layout.kind == "set"));
        let seen = format!("9 {} 1 2 {counted} {of_set} 0", last(&redis, layout));
        let before = redis.dump_all();
        assert_eq!(call(&mut scripts, "archive", &["plan"]), format!("1 live 1 {seen} nil 0 nil"), "{layout:?}");
        assert_eq!(call(&mut scripts, "archive", &["mark", "a", "2"]), "-23", "{layout:?}: another epoch");
        for wrong in [
            &["look"][..],
            &["mark"],
            &["mark", "a b", "1"],
            &["mark", "a", "x"],
            &["remove", "a", "1", "abc", &seen, ""],
            &["remove", "a", "1", SHA],
        ] {
            let reply = call(&mut scripts, "archive", wrong);
            assert!(reply.contains("USAGE archive"), "{layout:?} {wrong:?}: {reply}");
        }
        redis.assert_unchanged_since(&before);

        assert_eq!(call(&mut scripts, "archive", &["mark", "a", "1"]), "1 a", "{layout:?}");
        assert_eq!(call(&mut scripts, "archive", &["mark", "b", "1"]), "1 a", "{layout:?}: of an earlier run");
        let before = redis.dump_all();
        let remove = ["remove", "a", "1", SHA, &seen, "me"];
        assert_eq!(call(&mut scripts, "archive", &remove), "-23", "{layout:?}: it is live");
        redis.set_rule(&layout.meta("1"), "ends_at", PAST);
        assert_eq!(call(&mut scripts, "archive", &["plan"]), format!("1 ended 1 {seen} a 0 nil"), "{layout:?}");
        redis.set_rule(&layout.meta("1"), "ends_at", "-");
        redis.set_rule(&layout.meta("1"), "state", "paused");
        let paused = redis.dump_all();
        let (meta, requests) = (layout.meta("1"), layout.requests("1"));
        for (key, field, value, expected) in [(&requests, "\tholds", "1", "-23"), (&meta, "adopt", "live 1", "-10")] {
            redis.cmd(("HSET", key, field, value));
            let reply = call(&mut scripts, "archive", &remove);
            assert_eq!(reply, expected, "{layout:?}");
            redis.cmd(("HDEL", key, field));
        }
        let other_seen = seen.replacen('9', "8", 1);
        for wrong in [
            ["remove", "b", "1", SHA, &seen, ""],
            ["remove", "a", "2", SHA, &seen, ""],
            ["remove", "a", "1", SHA, &other_seen, ""],
        ] {
            assert_eq!(call(&mut scripts, "archive", &wrong), "-23", "{layout:?} {wrong:?}");
        }
        redis.cmd(("XGROUP", "CREATE", layout.ledger("1"), "db", "0"));
        let plan = call(&mut scripts, "archive", &["plan"]);
        assert!(plan.ends_with(" a 0 db"), "{layout:?}: {plan}");
        redis.cmd(("XGROUP", "DESTROY", layout.ledger("1"), "db"));
        redis.assert_unchanged_since(&paused);
        redis.set_rule(&layout.meta("1"), "state", "live");
        redis.assert_unchanged_since(&before);
        redis.set_rule(&layout.meta("1"), "state", "paused");

        assert_eq!(call(&mut scripts, "archive", &remove), "1", "{layout:?}");
        let meta = redis.hgetall(&layout.meta("1"));
        let buyers = if layout.has_users() { "1" } else { "-" };
        assert!(meta["archive"].starts_with(&format!("a {SHA} ")), "{meta:?}");
        assert!(meta["archive"].ends_with(&format!(" 9 {buyers} 2 me")), "{meta:?}");
        assert_eq!((meta.len(), meta["rules"].split(' ').next()), (2, Some("archived")), "{layout:?}: {meta:?}");
        let left = layout.keys("1").iter().filter(|key| redis.exists(key)).count();
        assert_eq!(left, 1, "{layout:?}");
        assert_eq!(call(&mut scripts, "archive", &remove), "2", "{layout:?}");
        assert_eq!(call(&mut scripts, "archive", &["plan"]), format!("-6 {} 1", meta["archive"]), "{layout:?}");
        assert!(call(&mut scripts, "archive", &["remove", "a", "1", OTHER, &seen, ""]).starts_with("-6 a "));

        redis.cmd(("HSET", layout.meta("1"), "rules", "archived"));
        assert_eq!(call(&mut scripts, "archive", &["plan"]), "-11 nil nil 2 archived", "{layout:?}");
    }
}

#[test]
fn restore_has_every_status_of_its_header() {
    for layout in LAYOUTS {
        let (redis, mut scripts) = scripts(layout);
        let rules = "paused 1 1 - 10 - -";
        assert_eq!(call(&mut scripts, "restore", &["plan", SHA]), "1 absent nil nil", "{layout:?}");
        for wrong in [
            &["look", SHA][..],
            &["plan", "abc"],
            &["begin", SHA, "x"],
            &["page", SHA, "requests"],
            &["switch", SHA, "", "me", "x", "[]", "rules", rules],
            &["switch", SHA, "", "me", "9", "x", "rules", rules],
            &["switch", SHA, "", "me", "9", "[]", "rules"],
        ] {
            let reply = call(&mut scripts, "restore", wrong);
            assert!(reply.contains("USAGE restore"), "{layout:?} {wrong:?}: {reply}");
        }
        let page = ["page", SHA, "requests", "r1", "7"];
        let seen = format!("5-1 1 1 {} 0", u8::from(layout.has_users()));
        let switch = ["switch", SHA, &seen, "me", "9", "[\"db\",\"5-1\"]", "rules", rules, "title", "t"];
        for step in [&page[..], &switch, &["undo", SHA]] {
            assert_eq!(call(&mut scripts, "restore", step), "-23", "{layout:?}: {step:?}");
        }
        assert!(redis.dump_all().is_empty(), "{layout:?}");

        assert_eq!(call(&mut scripts, "restore", &["begin", SHA, rules]), "1 absent nil nil", "{layout:?}");
        assert_eq!(call(&mut scripts, "restore", &["begin", SHA, rules]), "1 unfinished 10 nil", "{layout:?}: again");
        assert_eq!(call(&mut scripts, "restore", &["plan", OTHER]), "-10 restore 10 nil", "{layout:?}");
        assert_eq!(redis.hget(&layout.meta("1"), "rules").as_deref(), Some("archived 1 1 - 10 - -"));
        assert_eq!(call(&mut scripts, "restore", &["undo", SHA]), "1", "{layout:?}");
        assert!(redis.dump_all().is_empty(), "{layout:?}: nothing was there before");

        call(&mut scripts, "restore", &["begin", SHA, rules]);
        let reply = call(&mut scripts, "restore", &["page", SHA, "stock", "9"]);
        assert!(reply.contains("USAGE restore"), "{layout:?}: {reply}");
        let entry = ["page", SHA, "ledger", "5-0", "4", "op", "preheat", "stock", "10", "5-1", "2", "op", "pause"];
        for _ in 0..2 {
            assert_eq!(call(&mut scripts, "restore", &page), "1", "{layout:?}");
            assert_eq!(call(&mut scripts, "restore", &entry), "1", "{layout:?}: sent twice");
        }
        assert_eq!(redis.xrange(&layout.ledger("1")).len(), 2, "{layout:?}");
        assert!(call(&mut scripts, "restore", &switch).starts_with("-23 5-1 1 2 0 0"), "{layout:?}: not all is there");
        let participant: &[&str] = if layout.kind == "hash" { &["7", "1"] } else { &["7"] };
        if layout.has_users() {
            let page = [&["page", SHA, "participants"][..], participant].concat();
            assert_eq!(call(&mut scripts, "restore", &page), "1", "{layout:?}");
        }
        let seen = seen.replacen("5-1 1 1", "5-1 1 2", 1);
        let mut switch = switch;
        switch[2] = &seen;
        redis.cmd(("SET", layout.stock("1"), 1));
        assert_eq!(call(&mut scripts, "restore", &switch), format!("-23 {seen} stock"), "{layout:?}");
        redis.cmd(("DEL", layout.stock("1")));
        assert_eq!(call(&mut scripts, "restore", &switch), "1", "{layout:?}");
        assert_eq!(redis.get(&layout.stock("1")).as_deref(), Some("9"), "{layout:?}");
        let meta = redis.hgetall(&layout.meta("1"));
        assert_eq!((&*meta["rules"], &*meta["title"]), (rules, "t"), "{layout:?}");
        assert!(meta["restored"].starts_with(SHA) && meta["restored"].ends_with(" me"), "{meta:?}");
        assert!(!meta.contains_key("restore"), "{meta:?}");
        let before = redis.dump_all();
        for step in [&["plan", SHA][..], &["begin", SHA, rules], &switch] {
            assert_eq!(call(&mut scripts, "restore", step), "2 restored 10 9", "{layout:?}");
        }
        for step in [&page[..], &["undo", SHA]] {
            assert_eq!(call(&mut scripts, "restore", step), "-23", "{layout:?}: a late one");
        }
        assert_eq!(call(&mut scripts, "restore", &["plan", OTHER]), "-10 keys 10 9", "{layout:?}");
        redis.assert_unchanged_since(&before);

        redis.cmd(&["FLUSHDB"]);
        redis.cmd((
            "HSET",
            layout.meta("1"),
            "rules",
            "archived 1 1 - 10 - -",
            "archive",
            format!("a {SHA} 5 9 1 2 me"),
        ));
        assert_eq!(call(&mut scripts, "restore", &["plan", SHA]), "1 archived 10 nil", "{layout:?}");
        assert_eq!(call(&mut scripts, "restore", &["plan", OTHER]), "-10 archived 10 nil", "{layout:?}");
        let archived = redis.dump_all();
        call(&mut scripts, "restore", &["begin", SHA, rules]);
        call(&mut scripts, "restore", &page);
        assert_eq!(call(&mut scripts, "restore", &["undo", SHA]), "1", "{layout:?}");
        redis.assert_unchanged_since(&archived);
        redis.cmd(("SET", layout.requests("1"), "x"));
        assert_eq!(call(&mut scripts, "restore", &["plan", SHA]), "-10 keys 10 nil", "{layout:?}");
        redis.cmd(("HSET", layout.meta("1"), "rules", "x"));
        assert_eq!(call(&mut scripts, "restore", &["plan", SHA]), "-11 nil nil 2 x", "{layout:?}");
    }
}
