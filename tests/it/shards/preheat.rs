//! `preheat` with `shards: N`: the shards are made, changed and removed together, whatever comes between.

use super::sharded::{Whole, call, fixture, preheated};
use crate::support::{CLUSTER, Fault, Proxy, TestRedis, When, wait_until};

#[test]
fn a_total_below_what_is_sold_is_refused_and_nothing_changes() {
    let redis = preheated(12, 3);
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
    let redis = preheated(12, 3);
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
    // Also if it had no shards in between, and nothing but the removed ones says which numbers it had.
    call(&redis, "preheat --id 1001 --stock 5 --reset --yes").code(0);
    call(&redis, "preheat - --reset --yes").stdin(fixture(12, 3)).code(0);
    let whole = Whole::of(&redis);
    assert!(whole.numbers().iter().all(|number| !used.contains(number)), "{} after {used:?}", whole.shards);
    whole.assert_sound(12);
}

#[test]
fn a_reset_removes_the_shards_whose_parent_was_lost() {
    for (first, second, third) in [(4, 2, 2), (2, 4, 4), (4, 4, 2), (4, 2, 3)] {
        let redis = preheated(12, first);
        call(&redis, "preheat - --reset --yes").stdin(fixture(12, second)).code(0);
        let whole = Whole::of(&redis);
        redis.cmd(("DEL", CLUSTER.meta("1001")));
        let hint = "`--shards N --reset` starts over";
        if first != second {
            call(&redis, "preheat -").stdin(fixture(12, second)).code(3).stderr_has(hint);
        }
        call(&redis, "preheat - --reset --yes").stdin(fixture(12, third)).code(0);
        let after = Whole::of(&redis);
        after.assert_sound(12);
        let is_lost = |number: &u32| !after.numbers().contains(number);
        let lost: Vec<u32> = whole.numbers().into_iter().filter(is_lost).collect();
        assert_eq!(lost, whole.numbers(), "{first} {second} {third}: {}", after.shards);
        lost.iter().for_each(|number| assert_removed(&redis, &format!("1001#{number}")));
    }
}

#[test]
fn a_shard_that_is_lost_is_never_made_anew_by_itself() {
    let redis = preheated(12, 3);
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

/// The units that the first update added, and the second one took, would be added to the total alone.
#[test]
fn an_update_whose_late_copy_finds_the_parent_as_it_was_begins_nothing() {
    let redis = TestRedis::start();
    redis.seckill(["script", "load"]).code(0);
    call(&redis, "preheat -").stdin(fixture(12, 3)).code(0);
    let proxy = Proxy::before(&redis);
    proxy.inject(When::With("=update ".to_owned()), Fault::HangRequest);
    let update = |total| {
        let call = proxy.seckill(["-l", "cluster", "preheat", "-", "--update", "--timeout", "2s"]);
        call.stdin(fixture(total, 3))
    };
    let first = update(20).spawn();
    wait_until("its plan hangs", || {
        let commands = proxy.commands();
        commands.iter().position(|name| name == "SADD").is_some_and(|at| commands.len() > at + 1)
    });
    proxy.heal();
    first.wait().code(0);
    update(12).code(0);
    let before = redis.dump_all();
    proxy.deliver_late();
    redis.assert_unchanged_since(&before);
    Whole::of(&redis).assert_sound(12);
}

/// Lets a command write what the parent plans, and nothing more.
fn stop_at_the_plan(redis: &TestRedis, line: &str, text: &str) {
    let proxy = Proxy::before(redis);
    let plan = if line.contains("--update") { "=update " } else { "=start " };
    proxy.inject(When::With(plan.to_owned()), Fault::HangReply);
    let running = proxy.seckill(["-l", "cluster", "-o", "json"]).args(line.split(' ')).stdin(text).spawn();
    wait_until("a plan is there", || redis.hget(&CLUSTER.meta("1001"), "plan").is_some());
    drop(running);
}

#[test]
fn what_is_unfinished_is_said_if_something_else_is_wanted() {
    let redis = TestRedis::start();
    redis.seckill(["script", "load"]).code(0);
    stop_at_the_plan(&redis, "preheat -", &fixture(12, 3));
    let half = redis.dump_all();
    let refused =
        call(&redis, "preheat -").stdin(fixture(13, 3)).code(3).stderr_has("a preheat that makes it new is unfinished");
    refused.stderr_has("`12` → `13`").stderr_has("give the command that began it again");
    call(&redis, "preheat - --dry-run").stdin(fixture(12, 3)).code(0);
    assert_eq!(call(&redis, "deduct 1001 --user 7").code(3).json()["status"], "not_preheated");
    redis.assert_unchanged_since(&half);
    // The same command finishes it.
    call(&redis, "preheat -").stdin(fixture(12, 3)).code(0);
    Whole::of(&redis).assert_sound(12);
    // A reset takes over, with another epoch, so that whatever is still on its way finds no shard of its own.
    stop_at_the_plan(&redis, "preheat - --reset --yes", &fixture(12, 3));
    call(&redis, "preheat - --reset --yes").stdin(fixture(13, 4)).code(0);
    let whole = Whole::of(&redis);
    whole.assert_sound(13);
    assert!(whole.rules.starts_with("live 1 3 "), "{}", whole.rules);

    // An update is finished before another one begins.
    stop_at_the_plan(&redis, "preheat - --update", &fixture(21, 4));
    call(&redis, "preheat -").stdin(fixture(13, 4)).code(3).stderr_has("an update of it is unfinished");
    // The parent's last change is two writes, and a cut may leave only the first: the new rules, then the plan goes.
    redis.cmd(("HSET", CLUSTER.meta("1001"), "rules", whole.rules.replace(" 13 ", " 21 ")));
    call(&redis, "preheat - --update").stdin(fixture(30, 4)).code(0);
    let whole = Whole::of(&redis);
    whole.assert_sound(30);
    assert!(whole.parts.values().all(|part| part.plans == 2), "{whole:?}");
}

#[test]
fn no_update_begins_while_shards_and_parent_differ() {
    let redis = preheated(30, 3);
    // As after a failover that lost what the parent said.
    let whole = Whole::of(&redis);
    redis.cmd(("HSET", CLUSTER.meta("1001"), "rules", whole.rules.replace(" 30 ", " 20 ")));
    let refused = call(&redis, "preheat - --update").stdin(fixture(60, 3)).code(1).error_json();
    assert!(refused["error"].as_str().unwrap().contains("its shards have 30 units in all, and it has 20"), "{refused}");
    assert_eq!(Whole::of(&redis).parts, whole.parts);
}
