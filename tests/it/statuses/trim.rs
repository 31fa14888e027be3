//! `trim`: each status of its header, step by step.

use super::scripts;
use crate::support::{LAYOUTS, Scripts};

fn trim(scripts: &mut Scripts, args: &[&str]) -> String {
    let keys = scripts.layout.keys("1");
    scripts.call("trim", &keys, args)
}

#[test]
fn trim_has_every_status_of_its_header() {
    for layout in LAYOUTS {
        let (redis, mut scripts) = scripts(layout);
        let plan = ["plan", "", "9999999999999-0"];
        assert_eq!(trim(&mut scripts, &plan), "-4", "{layout:?}");
        scripts.preheat_with("1", "10", &[("ledger", "0")]);
        assert_eq!(trim(&mut scripts, &plan), "1 1 nil nil nil nil nil", "{layout:?}: without a ledger");
        scripts.preheat_as("reset", "1", "10", &[]);
        scripts.deduct("1", ("7", "1", "r1"));
        scripts.deduct("1", ("8", "1", "r2"));
        let ids: Vec<String> = redis.xrange(&layout.ledger("1")).into_iter().map(|(id, _)| id).collect();
        let [first, second, last] = &ids[..] else { panic!("{ids:?}") };

        // What is refused, and what only reads, writes nothing.
        let before = redis.dump_all();
        assert_eq!(trim(&mut scripts, &plan), format!("1 2 {last} nil {first} nil nil"), "{layout:?}");
        assert_eq!(trim(&mut scripts, &["plan", "", second]), format!("1 2 {second} nil {first} nil nil"));
        let sums = format!("{last} {second} 2 10 1");
        let page = ["page", "2", "a", "0", "[[\"7\",\"1\"]]"];
        let switch = ["switch", "2", "a", "1", "", &sums, "me"];
        assert_eq!(trim(&mut scripts, &switch), "-23", "{layout:?}: no draft");
        assert_eq!(trim(&mut scripts, &["page", "1", "a", "0", "x"]), "-23", "{layout:?}: another epoch");
        assert_eq!(trim(&mut scripts, &["page", "2", "a", "1", "x"]), "-23", "{layout:?}: a gap");
        assert_eq!(trim(&mut scripts, &["cut", "2", ""]), "1 0 0", "{layout:?}: no checkpoint");
        assert_eq!(trim(&mut scripts, &["clear", "2", ""]), "1 0", "{layout:?}: no draft");
        for wrong in [
            &["plan", "", "x"][..],
            &["plan", ""],
            &["page", "2", "a b", "0", "x"],
            &["page", "2", "a", "-1", "x"],
            &["page", "2", "a", "0"],
            &["switch", "2", "a", "1", "", "1-0 0-0 1 1", ""],
            &["switch", "2", "a", "1", "", "1-0 0-0 1e3 1 1", ""],
            &["chop", "2", "a"],
        ] {
            let reply = trim(&mut scripts, wrong);
            assert!(reply.contains("USAGE trim"), "{layout:?} {wrong:?}: {reply}");
        }
        redis.assert_unchanged_since(&before);

        // A draft, sent twice; then the checkpoint, sent twice.
        for _ in 0..2 {
            assert_eq!(trim(&mut scripts, &page), "1", "{layout:?}");
        }
        assert_eq!(redis.hget(&layout.meta("1"), "draft").as_deref(), Some("a 1 1"));
        assert_eq!(trim(&mut scripts, &["page", "2", "b", "0", "x"]), "-23", "{layout:?}: another's draft");
        assert_eq!(trim(&mut scripts, &["switch", "2", "a", "2", "", &sums, "me"]), "-23", "{layout:?}: a page short");
        assert_eq!(trim(&mut scripts, &["switch", "2", "a", "1", "z", &sums, "me"]), "-23", "{layout:?}: no such one");
        for _ in 0..2 {
            assert_eq!(trim(&mut scripts, &switch), "1", "{layout:?}");
        }
        let meta = redis.hgetall(&layout.meta("1"));
        assert!(meta["checkpoint"].starts_with(&format!("0 a 1 2 {sums} ")), "{}", meta["checkpoint"]);
        assert!(meta["checkpoint"].ends_with(" me") && meta["draft"] == "none 0 0", "{meta:?}");

        // A group that has not read holds back what would go, and what it took and did not acknowledge.
        let ledger = layout.ledger("1");
        redis.cmd(("XGROUP", "CREATE", &ledger, "db", "0"));
        assert_eq!(trim(&mut scripts, &["cut", "2", ""]), "-24 0 db", "{layout:?}");
        assert!(trim(&mut scripts, &plan).starts_with(&format!("1 2 {first} db {first} 0 a ")), "{layout:?}");
        redis.cmd(("XREADGROUP", "GROUP", "db", "me", "STREAMS", &ledger, ">"));
        redis.cmd(("XACK", &ledger, "db", first, last));
        assert!(trim(&mut scripts, &plan).starts_with(&format!("1 2 {second} db {first} ")), "{layout:?}");
        assert_eq!(trim(&mut scripts, &["cut", "2", ""]), "-24 0 db", "{layout:?}");
        redis.cmd(("XACK", &ledger, "db", second));
        let cut = trim(&mut scripts, &["cut", "2", ""]);
        assert_eq!(cut, "1 2 0", "{layout:?}");
        assert_eq!(trim(&mut scripts, &["cut", "2", ""]), "1 2 0", "{layout:?}: again");
        assert!(redis.hget(&layout.meta("1"), "checkpoint").unwrap().starts_with("2 a 1 2 "));
        assert_eq!(redis.xrange(&ledger).len(), 1);

        // The next one replaces it, and its pages go.
        assert_eq!(trim(&mut scripts, &["clear", "2", ""]), "1 0", "{layout:?}");
        assert_eq!(trim(&mut scripts, &["page", "2", "b", "0", "x"]), "1", "{layout:?}");
        assert_eq!(trim(&mut scripts, &["switch", "2", "b", "1", "a", &sums, ""]), "1", "{layout:?}");
        assert_eq!(redis.hget(&layout.meta("1"), "draft").as_deref(), Some("a 1 0"));
        assert_eq!(trim(&mut scripts, &["page", "2", "a", "1", "x"]), "-23", "{layout:?}: it is closed");
        assert_eq!(trim(&mut scripts, &["clear", "2", ""]), "1 0", "{layout:?}");
        assert_eq!(redis.hget(&layout.requests("1"), "\tc:a:0"), None);
        assert_eq!(redis.hget(&layout.requests("1"), "\tc:b:0").as_deref(), Some("x"));

        redis.cmd(("HSET", layout.meta("1"), "checkpoint", "0 a"));
        assert_eq!(trim(&mut scripts, &plan), "-11 nil nil 2 0 a", "{layout:?}");
        redis.cmd(("HDEL", layout.meta("1"), "checkpoint"));
        redis.cmd(("HSET", layout.meta("1"), "draft", "a -1 1"));
        assert_eq!(trim(&mut scripts, &plan), "-11 nil nil 2 a -1 1", "{layout:?}");
    }
}

#[test]
fn pages_are_cleared_a_hundred_at_a_time_from_the_last_on() {
    let (redis, mut scripts) = scripts(LAYOUTS[0]);
    scripts.preheat("1", "10");
    for page in 0..150 {
        assert_eq!(trim(&mut scripts, &["page", "1", "a", &page.to_string(), "x"]), "1");
    }
    assert_eq!(trim(&mut scripts, &["clear", "1", ""]), "1 1");
    assert_eq!(redis.hgetall("seckill:requests:1").len(), 50);
    assert!(redis.hget("seckill:requests:1", "\tc:a:49").is_some());
    assert_eq!(trim(&mut scripts, &["page", "1", "a", "50", "x"]), "-23", "it is closed");
    assert_eq!(trim(&mut scripts, &["clear", "1", ""]), "1 0");
    assert!(!redis.exists("seckill:requests:1"));
}

#[test]
fn a_checkpoint_is_stale_if_its_first_kept_entry_was_lost() {
    for layout in LAYOUTS {
        let (redis, mut scripts) = scripts(layout);
        scripts.preheat("1", "10");
        scripts.deduct("1", ("7", "1", "r1"));
        let (last, _) = redis.xrange(&layout.ledger("1")).pop().unwrap();
        let switch = |pages| ["switch", "1", "a", pages, "", "9999999999999-0", "me"].map(str::to_owned);
        for pages in ["0", "1"] {
            if pages == "1" {
                assert_eq!(trim(&mut scripts, &["page", "1", "a", "0", "[[\"7\",\"1\"]]"]), "1", "{layout:?}");
            }
            let mut call = switch(pages);
            call[5] += &format!(" {last} 2 10 1");
            let before = redis.dump_all();
            assert_eq!(trim(&mut scripts, &call.each_ref().map(String::as_str)), "-23", "{layout:?}, {pages} pages");
            redis.assert_unchanged_since(&before);
        }
    }
}
