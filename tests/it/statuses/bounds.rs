//! The largest number, text and list that each script accepts, and the next one, which is a usage error.

use crate::support::{CLUSTER, Layout, SECKILL, SKU, Scripts, TestRedis};

fn list(count: usize, text: impl Fn(usize) -> String) -> String {
    (0..count).map(text).collect::<Vec<_>>().join("\t")
}

/// One server and one layout, spoken to through the scripts.
fn scripts(layout: Layout) -> (TestRedis, Scripts) {
    let redis = TestRedis::start();
    let scripts = Scripts::of(&redis, layout);
    (redis, scripts)
}

/// Whether a call is no usage error.
fn is_accepted(scripts: &mut Scripts, script: &'static str, keys: &[String], args: &[&str]) -> bool {
    let reply = scripts.call(script, keys, args);
    assert!(!reply.starts_with("ERROR") || reply.starts_with("ERROR USAGE"), "{script}: {reply}");
    !reply.starts_with("ERROR")
}

#[test]
fn orders_of_a_call() {
    let (_redis, mut scripts) = scripts(SECKILL);
    scripts.preheat("1", "10");
    let (keys, all_keys) = (SECKILL.keys("1"), SECKILL.all_keys("1"));
    for (count, expected) in [(2000, true), (2001, false)] {
        let users = list(count, |index| index.to_string());
        let lines = format!("1-{count}");
        for script in ["deduct", "refund"] {
            let args = ["hash", "t", &users, "1", "j", "d", "1", "0", &lines];
            assert_eq!(is_accepted(&mut scripts, script, &keys, &args), expected, "{script} {count}");
        }
        let args = ["hash", "t", "j", "d", "", "", "", "", "1", "0", &lines, "1", &users];
        assert_eq!(is_accepted(&mut scripts, "multi_deduct_file", &keys, &args), expected, "multi_deduct_file {count}");
    }
    for (count, expected) in [(1000, true), (1001, false)] {
        let (users, ids) = (list(count, |index| index.to_string()), list(count, |index| format!("r{index}")));
        let lines = format!("1-{count}");
        let args = ["hash", "t", &users, "1", "j", "d", "1", "0", &lines, &ids, "", "", "", "1"];
        assert_eq!(is_accepted(&mut scripts, "hold", &all_keys, &args), expected, "hold {count}");
        let args = ["hash", "t", &ids, "confirm", "j", "d", "1", "0", &lines];
        assert_eq!(is_accepted(&mut scripts, "settle", &all_keys, &args), expected, "settle {count}");
        let ids: Vec<String> = (0..count).map(|index| format!("r{index}")).collect();
        let repairs: Vec<&str> = ids.iter().flat_map(|id| [id, "", "0", "0", "0"]).collect();
        let args = [&["hash", "t", "", "1", "1", "0"], &repairs[..]].concat();
        assert_eq!(is_accepted(&mut scripts, "repair", &keys, &args), expected, "repair {count}");
    }
}

#[test]
fn a_repair_that_raises_the_stock_looks_at_64_new_entries() {
    for (count, expected) in [(64, "1 11 o"), (65, "1 10 c")] {
        let (redis, mut scripts) = scripts(SECKILL);
        scripts.preheat("1", "12");
        scripts.send(&["DECRBY", &SECKILL.stock("1"), "2"]);
        let (last, _) = redis.xrange(&SECKILL.ledger("1")).pop().unwrap();
        for _ in 0..count {
            scripts.send(&["XADD", &SECKILL.ledger("1"), "*", "op", "resume"]);
        }
        let args = ["hash", "t", "", "0", "1", "0", "a", "", "0", "0", "1", "10", &last];
        assert_eq!(scripts.call("repair", &SECKILL.keys("1"), &args), expected, "{count}");
    }
}

#[test]
fn a_meta_of_any_number_of_fields_is_cleared() {
    let (redis, mut scripts) = scripts(CLUSTER);
    let meta = CLUSTER.meta("1");
    let others: Vec<String> = (0..2500).flat_map(|index| [format!("other{index}"), "x".to_owned()]).collect();
    let fill = |scripts: &mut Scripts| {
        scripts.send(&[&["HSET", &meta], &others.iter().map(String::as_str).collect::<Vec<_>>()[..]].concat());
    };
    scripts.preheat("1", "10");
    fill(&mut scripts);
    assert!(scripts.preheat_as("reset", "1", "10", &[]).starts_with("1 reset "));
    assert_eq!(redis.hgetall(&meta).len(), 2, "rules and repairs");
    fill(&mut scripts);
    let keys = CLUSTER.keys("1");
    scripts.call("pause", &keys, &["paused", "t", "", "0"]);
    scripts.call("archive", &CLUSTER.all_keys("1"), &["hash", "mark", "a", "2"]);
    let (last, _) = redis.xrange(&CLUSTER.ledger("1")).pop().unwrap();
    let seen = format!("10 {last} 0 2 0 0 0");
    assert_eq!(
        scripts.call("archive", &CLUSTER.all_keys("1"), &["hash", "remove", "a", "2", &"0".repeat(64), &seen, "t"]),
        "1"
    );
    assert_eq!(redis.hgetall(&meta).len(), 2, "rules and archive");
    fill(&mut scripts);
    let rules = format!("={}", redis.hget(&meta, "rules").unwrap());
    let args = ["clear", &rules, "", "", "", "", "=live 1 1 - 12 - -", "", "=3 9", "", "=1"];
    assert!(scripts.call("parent", &CLUSTER.all_keys("1"), &args).starts_with("1 live "));
    assert_eq!(redis.hgetall(&meta).len(), 3, "rules, shards and revision");
}

#[test]
fn a_snapshot_of_any_number_of_users() {
    let (redis, mut scripts) = scripts(SKU);
    scripts.preheat("1", "10");
    redis.cmd(("SADD", SKU.participants("1"), "2500"));
    let users: Vec<String> = (0..2501).map(|user: u32| user.to_string()).collect();
    let args: Vec<&str> = ["set"].into_iter().chain(users.iter().map(String::as_str)).collect();
    let reply = scripts.call("snapshot", &SKU.keys("1"), &args);
    assert!(reply.ends_with(&format!("1{} ?", " nil".repeat(2500))), "{reply}");
}

#[test]
fn ten_thousand_ids_are_reversed_in_one_call() {
    let (redis, mut scripts) = scripts(SECKILL);
    scripts.preheat("1", "20000");
    let ids: Vec<String> = (0..10_000).map(|id| format!("r{id}")).collect();
    for ids in ids.chunks(2000) {
        let orders: Vec<_> = ids.iter().map(|id| ("7", "1", &**id)).collect();
        assert!(scripts.orders("deduct", "first", "1", &orders).starts_with("oo"));
    }
    let mut reverse = |ids: &str| {
        let args = ["hash", "me", "", "0", "1", "", "i", "7", "10000", "0", "10000", ids];
        scripts.call("repair", &SECKILL.keys("1"), &args)
    };
    assert!(reverse(&[&ids[..], &["more".to_owned()]].concat().join("\t")).contains("more than 10000 request ids"));
    assert_eq!(reverse(&ids.join("\t")), "1 20000 o");
    let stored = redis.hgetall(&SECKILL.requests("1"));
    assert_eq!(stored.values().filter(|record| *record == "-16\t7").count(), 10_000);
    assert_eq!(scripts.deduct("1", ("7", "1", "r9999")), "-16 20000 0");
}

#[test]
fn pages_of_a_checkpoint_are_cleared_a_hundred_at_a_time_from_the_last_on() {
    let (redis, mut scripts) = scripts(SECKILL);
    scripts.preheat("1", "10");
    let mut trim = |args: &[&str]| scripts.call("trim", &SECKILL.keys("1"), args);
    for page in 0..150 {
        assert_eq!(trim(&["page", "1", "a", &page.to_string(), "x"]), "1");
    }
    assert_eq!(trim(&["clear", "1", ""]), "1 1");
    assert_eq!(redis.hgetall("seckill:requests:1").len(), 50);
    assert!(redis.hget("seckill:requests:1", "\tc:a:49").is_some());
    assert_eq!(trim(&["page", "1", "a", "50", "x"]), "-23", "it is closed");
    assert_eq!(trim(&["clear", "1", ""]), "1 0");
    assert!(!redis.exists("seckill:requests:1"));
}
