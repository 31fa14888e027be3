//! `preheat` with `shards: N`: the shards are made, changed and removed together, whatever comes between.

use std::collections::BTreeMap;

use super::sharded::{Whole, call, fixture};
use crate::support::{CLUSTER, TestRedis, seckill};

#[test]
fn a_sharded_activity_is_its_shards_and_a_parent_that_names_them() {
    let redis = TestRedis::start();
    let before = redis.dump_all();
    let dry = call(&redis, "preheat - --dry-run").stdin(fixture(50, 8)).code(0).json();
    assert_eq!((dry[0]["action"].as_str(), dry[0]["dry_run"].as_bool()), (Some("create"), Some(true)));
    redis.assert_unchanged_since(&before);
    let rows = call(&redis, "preheat -").stdin(fixture(50, 8)).code(0).json();
    assert_eq!((rows[0]["action"].as_str(), rows[0]["stock"].as_u64()), (Some("create"), Some(50)));
    assert_eq!((&dry[0]["shards"], &rows[0]["shards"]), (&8.into(), &8.into()));

    // The numbers are a function of id and count, in every version.
    let whole = Whole::of(&redis);
    assert_eq!(whole.shards, "10 1 11 0 12 3 13 2");
    assert_eq!(whole.stocks(), [7, 7, 6, 6, 6, 6, 6, 6]);
    let meta = redis.hgetall(&CLUSTER.meta("1001"));
    assert_eq!(meta.keys().map(String::as_str).collect::<Vec<_>>(), ["rules", "shards", "title"]);
    assert_eq!(meta["rules"], "live 1 1 2 50 - 4102444800000");
    assert_eq!(redis.smembers(CLUSTER.index).into_iter().collect::<Vec<_>>(), ["1001"]);
    for key in CLUSTER.all_keys("1001").iter().filter(|key| !key.ends_with(":meta")) {
        assert!(!redis.exists(key), "{key}");
    }
    let shard = redis.hgetall(&CLUSTER.meta("1001#10"));
    assert_eq!((shard["rules"].as_str(), shard["title"].as_str()), ("live 1 1 2 7 - 4102444800000", "phone"));
    let entries = redis.xrange(&CLUSTER.ledger("1001#10"));
    assert_eq!((entries.len(), entries[0].1["op"].as_str(), entries[0].1["epoch"].as_str()), (1, "preheat", "1"));

    let before = redis.dump_all();
    assert_eq!(call(&redis, "preheat -").stdin(fixture(50, 8)).code(0).json()[0]["action"], "unchanged");
    redis.assert_unchanged_since(&before);
    for (other, part) in [
        (fixture(60, 8), "1001: stock `50` → `60`"),
        (fixture(50, 4), "1001: shards `8` → `4`"),
        (fixture(50, 8).replace("phone", "pear"), "title `phone` → `pear`"),
        (fixture(50, 8).replace("shards: 8", ""), "shards `8` is not given"),
    ] {
        let refused = call(&redis, "preheat -").stdin(other).code(3).stderr_has(part);
        assert_eq!(refused.json()[0]["status"], "exists");
    }
    redis.assert_unchanged_since(&before);
}

#[test]
fn flags_make_the_same_shards_as_a_fixture() {
    let (by_flags, by_fixture) = (TestRedis::start(), TestRedis::start());
    let line = "preheat --id 1001 --title phone --stock 50 --per-user-limit 2 --ends-at 2100-01-01T00:00:00Z --shards";
    call(&by_fixture, "preheat -").stdin(fixture(50, 8)).code(0);
    let before = by_flags.dump_all();
    call(&by_flags, &format!("{line} 8 --dry-run")).code(0);
    by_flags.assert_unchanged_since(&before);
    call(&by_flags, &format!("{line} 8")).code(0);
    let (flags, fixture) = (Whole::of(&by_flags), Whole::of(&by_fixture));
    assert_eq!((flags.shards, flags.rules, flags.title), (fixture.shards, fixture.rules, fixture.title));
    assert_eq!(call(&by_flags, &format!("{line} 8 --update")).code(0).json()[0]["action"], "unchanged");
    let before = by_flags.dump_all();
    call(&by_flags, &format!("{line} 4 --update")).code(3).stderr_has("only `--reset` can change this");
    call(&by_flags, &format!("{line} 1")).code(2).stderr_has("a number of shards from 2 to 256");
    call(&by_flags, "preheat --id 1001 --adopt --shards 8").code(2).stderr_has("--shards");
    let elsewhere = by_flags.seckill(["preheat", "--id", "7", "--stock", "9", "--shards", "3"]).code(2);
    elsewhere.stderr_has("only the layout `cluster` has shards, not `seckill`").stderr_has("hint: `--layout cluster`");
    by_flags.assert_unchanged_since(&before);
}

#[test]
fn shards_that_cannot_be_are_errors_with_line_and_column() {
    for (line, part) in [
        ("shards: 1", "<stdin>:7:13: shards: `1` is not a number of shards from 2 to 256"),
        ("shards: 257", "<stdin>:7:13: shards: `257` is not"),
        ("shards: many", "<stdin>:7:13: shards: `many` is not"),
        ("shards: \"8\"", "write `8` without quotes"),
        ("ledger: false\n    shards: 8", "<stdin>:7:13: ledger: `false` does not go with `shards: 8`"),
    ] {
        let text = fixture(50, 8).replace("shards: 8", line);
        seckill(["preheat", "-"]).stdin(text).code(2).stderr_has(part);
    }
    for layout in ["seckill", "sku", "product"] {
        let text =
            fixture(50, 8).replace("layout: cluster", &format!("layout: {layout}")).replace("per_user_limit: 2", "");
        let part = format!("<stdin>:7:13: shards: `8` shards need the layout `cluster`, not `{layout}`");
        seckill(["preheat", "-"]).stdin(text).code(2).stderr_has(&part).stderr_has("layout: cluster");
    }
    // The layout may come from elsewhere.
    let text = fixture(50, 8).replace("layout: cluster\n", "");
    seckill(["preheat", "-"])
        .stdin(text)
        .code(2)
        .stderr_has("<stdin>:6:13: shards: `8` shards need the layout `cluster`");
    let long = fixture(50, 8).replace("id: 1001", &format!("id: {}", "x".repeat(121)));
    seckill(["preheat", "-"]).stdin(long).code(2).stderr_has("at most 120 bytes");
}

#[test]
fn an_update_moves_total_limit_title_and_window_of_all_shards() {
    let redis = TestRedis::start();
    call(&redis, "preheat -").stdin(fixture(50, 8)).code(0);
    let up = call(&redis, "preheat - --update").stdin(fixture(61, 8).replace("phone", "pear")).code(0).json();
    let row = |row: &serde_json::Value| {
        ["action", "status", "total_before", "total", "stock_before", "stock"].map(|name| row[name].to_string())
    };
    assert_eq!(row(&up[0]), ["\"update\"", "\"ok\"", "50", "61", "50", "61"]);
    let whole = Whole::of(&redis);
    assert_eq!((whole.rules.as_str(), whole.title.as_deref()), ("live 1 1 2 61 - 4102444800000", Some("pear")));
    assert_eq!(whole.stocks(), [9, 9, 8, 7, 7, 7, 7, 7]);
    assert!(whole.parts.values().all(|part| part.title.as_deref() == Some("pear") && part.plans == 1));
    // By its flags, as an operator types it; what is not given stays.
    let down = call(&redis, "preheat --id 1001 --stock 20 --per-user-limit 5 --update --if-total 61").code(0).json();
    assert_eq!(row(&down[0]), ["\"update\"", "\"ok\"", "61", "20", "61", "20"]);
    let whole = Whole::of(&redis);
    assert_eq!((whole.rules.as_str(), whole.title.as_deref()), ("live 1 1 5 20 - 4102444800000", Some("pear")));
    assert_eq!(whole.stocks(), [3, 3, 3, 3, 2, 2, 2, 2]);
    whole.assert_sound(20);
    let titled = call(&redis, "preheat --id 1001 --title plum --update").code(0).json();
    assert_eq!(row(&titled[0]), ["\"update\"", "\"ok\"", "20", "20", "20", "20"]);
    let whole = Whole::of(&redis);
    assert_eq!((whole.title.as_deref(), whole.stocks()), (Some("plum"), vec![3, 3, 3, 3, 2, 2, 2, 2]));

    let before = redis.dump_all();
    let again = call(&redis, "preheat --id 1001 --stock 20 --update").code(0).json();
    assert_eq!(again[0]["action"], "unchanged");
    call(&redis, "preheat --id 1001 --stock 30 --update --if-total 61")
        .code(3)
        .stderr_has("its total is `20`, not `61`");
    call(&redis, "preheat --id 1001 --stock 30 --update --ends-at 1971-01-01 --starts-at 1972-01-01").code(2);
    call(&redis, "preheat --id 1001 --stock 30 --update --starts-at 2101-01-01").code(2).stderr_has("window");
    call(&redis, "preheat - --update").stdin(fixture(20, 4)).code(3).stderr_has("only `--reset` can change this");
    redis.assert_unchanged_since(&before);
}

#[test]
fn a_total_below_what_is_sold_is_refused_and_nothing_changes() {
    let redis = TestRedis::start();
    call(&redis, "preheat -").stdin(fixture(12, 3)).code(0);
    let whole = Whole::of(&redis);
    for (shard, units) in whole.ids().iter().zip([4, 4, 1]) {
        whole.sell(&redis, shard, units);
    }
    let before = redis.dump_all();
    let refused = call(&redis, "preheat --id 1001 --stock 8 --update").code(3).stderr_has("more units are sold");
    assert_eq!(refused.json()[0]["status"], "out_of_stock");
    redis.assert_unchanged_since(&before);
    // All that is left is in one shard.
    call(&redis, "preheat --id 1001 --stock 9 --update").code(0);
    let whole = Whole::of(&redis);
    assert_eq!(whole.stocks(), [0, 0, 0]);
    whole.assert_sound(9);
    call(&redis, "preheat --id 1001 --stock 10 --update").code(0);
    assert_eq!(Whole::of(&redis).stocks(), [1, 0, 0]);
}

/// Nothing is left of a shard but its epoch.
#[track_caller]
fn assert_removed(redis: &TestRedis, shard: &str) {
    let keys = CLUSTER.all_keys(shard);
    assert_eq!(keys.iter().filter(|key| redis.exists(key)).collect::<Vec<_>>(), [&CLUSTER.meta(shard)]);
    let meta = redis.hgetall(&CLUSTER.meta(shard));
    assert!(meta.len() == 1 && meta["rules"].starts_with("archived 0 "), "{shard}: {meta:?}");
}

#[test]
fn a_reset_starts_over_and_another_count_gets_numbers_that_were_never_used() {
    let redis = TestRedis::start();
    call(&redis, "preheat -").stdin(fixture(12, 3)).code(0);
    let first = Whole::of(&redis);
    first.sell(&redis, &first.ids()[0], 3);
    let asked = call(&redis, "preheat - --reset").stdin(fixture(12, 3)).code(2);
    asked.stderr_has("Reset `1001` (3 of 12 units sold)");
    call(&redis, "preheat - --reset --yes").stdin(fixture(12, 3)).code(0);
    let second = Whole::of(&redis);
    assert_eq!((second.shards.as_str(), second.stocks()), (first.shards.as_str(), vec![4, 4, 4]));
    assert_eq!(second.rules, "live 1 2 2 12 - 4102444800000");
    assert!(!redis.exists(&CLUSTER.participants(&first.ids()[0])));

    let mut used: Vec<u32> = first.numbers();
    for (count, epoch) in [(5, 3), (3, 4), (5, 5)] {
        call(&redis, "preheat - --reset --yes").stdin(fixture(12, count)).code(0);
        let whole = Whole::of(&redis);
        assert_eq!(whole.numbers().len(), count);
        assert!(whole.numbers().iter().all(|number| !used.contains(number)), "{} after {used:?}", whole.shards);
        used.iter().for_each(|number| assert_removed(&redis, &format!("1001#{number}")));
        assert!(whole.rules.starts_with(&format!("live 1 {epoch} ")), "{}", whole.rules);
        whole.assert_sound(12);
        used.extend(whole.numbers());
    }
}

#[test]
fn only_a_reset_makes_shards_of_an_activity_or_an_activity_of_shards() {
    let redis = TestRedis::start();
    call(&redis, "preheat --id 1001 --stock 12").code(0);
    call(&redis, "deduct 1001 --user 7 --quantity 2").code(0);
    let before = redis.dump_all();
    for line in ["preheat -", "preheat - --update"] {
        let refused = call(&redis, line).stdin(fixture(12, 3)).code(3).stderr_has("shards none → `3`");
        assert_eq!(refused.json()[0]["stock"], 10);
    }
    redis.assert_unchanged_since(&before);
    let asked = call(&redis, "preheat - --reset").stdin(fixture(12, 3)).code(2);
    asked.stderr_has("Reset `1001` (2 of 12 units sold)");
    call(&redis, "preheat - --reset --yes").stdin(fixture(12, 3)).code(0);
    let whole = Whole::of(&redis);
    whole.assert_sound(12);
    assert!(whole.rules.starts_with("live 1 2 "), "{}", whole.rules);
    let keys = CLUSTER.all_keys("1001");
    assert_eq!(keys.iter().filter(|key| redis.exists(key)).count(), 1, "a parent has a meta");

    call(&redis, "preheat --id 1001 --stock 9 --reset --yes").code(0);
    assert_eq!(redis.int(&CLUSTER.stock("1001")), 9);
    let meta: BTreeMap<String, String> = redis.hgetall(&CLUSTER.meta("1001"));
    assert!(!meta.contains_key("shards") && !meta.contains_key("plan"), "{meta:?}");
    whole.ids().iter().for_each(|shard| assert_removed(&redis, shard));
    call(&redis, "deduct 1001 --user 7").code(0);
}

#[test]
fn a_shard_that_is_lost_is_never_made_anew_by_itself() {
    let redis = TestRedis::start();
    call(&redis, "preheat -").stdin(fixture(12, 3)).code(0);
    let whole = Whole::of(&redis);
    redis.cmd(("DEL", CLUSTER.stock(&whole.ids()[1])));
    let before = redis.dump_all();
    for line in ["preheat -", "preheat - --update"] {
        let refused = call(&redis, line).stdin(fixture(12, 3)).code(3).stderr_has(&CLUSTER.stock(&whole.ids()[1]));
        assert_eq!(refused.json()[0]["status"], "corrupt");
    }
    redis.assert_unchanged_since(&before);

    // A parent that is lost alone is made again, and what its shards sold stays sold.
    call(&redis, "preheat - --reset --yes").stdin(fixture(12, 3)).code(0);
    let whole = Whole::of(&redis);
    whole.sell(&redis, &whole.ids()[0], 3);
    redis.cmd(("DEL", CLUSTER.meta("1001")));
    call(&redis, "preheat -").stdin(fixture(12, 4)).code(3).stderr_has("is there, and it is not");
    call(&redis, "preheat -").stdin(fixture(13, 3)).code(3);
}

#[test]
fn a_result_says_how_many_shards_there_are_if_any() {
    let redis = TestRedis::start();
    let result = |line: &str| call(&redis, line).code(0).json()[0]["shards"].as_u64();
    assert_eq!(result("preheat --id 1 --stock 50"), None);
    assert_eq!(result("preheat --id 2 --stock 50 --shards 8"), Some(8));
    assert_eq!(result("preheat --id 2 --stock 60 --update"), Some(8));
    assert_eq!(result("preheat --id 2 --stock 60 --update"), Some(8), "unchanged");
    assert_eq!(result("preheat --id 2 --stock 60 --shards 4 --reset -y"), Some(4));
    assert_eq!(result("preheat --id 2 --stock 60 --reset -y"), None);
    let both = "layout: cluster\nactivities: [{id: 1, stock: 50}, {id: 3, stock: 50, shards: 4}]";
    let table = redis.seckill(["preheat", "-", "-l", "cluster"]).stdin(both).code(0);
    table.stdout_has("LIMIT  SHARDS\n").stdout_has("-       4\n");
}
