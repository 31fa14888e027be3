//! A preheat of shards that is cut short, wherever, is finished by the same command, and ends the same.

use super::sharded::{Whole, call, fixture};
use crate::support::{CLUSTER, Call, Copy, Fault, Outcome, Proxy, TestRedis, When, wait_until};

/// What is done to an activity of 12 units over 3 shards; 5 units are sold.
const CHANGES: [(&str, u64, usize); 5] = [
    ("preheat - --update", 20, 3),
    ("preheat - --update", 6, 3),
    ("preheat - --reset --yes", 20, 3),
    ("preheat - --reset --yes", 20, 4),
    ("preheat - --reset --yes", 20, 0),
];

/// The fixture; 0 shards are none.
fn wanted(total: u64, shards: usize) -> String {
    fixture(total, shards).replace("    shards: 0\n", "")
}

fn sale() -> TestRedis {
    let redis = TestRedis::start();
    redis.seckill(["script", "load"]).code(0);
    call(&redis, "preheat -").stdin(fixture(12, 3)).code(0);
    let whole = Whole::of(&redis);
    for (shard, units) in whole.ids().iter().zip([4, 1, 0]) {
        whole.sell(&redis, shard, units);
    }
    redis
}

/// All that a change leaves, but for what is different each time: ids of plans and entries.
fn state(redis: &TestRedis) -> (Whole, Vec<(String, usize)>) {
    let mut keys: Vec<String> = redis.ask(("KEYS", "*"));
    keys.sort();
    let size = |key: String| {
        let entries = if key.ends_with(":ledger") { redis.xrange(&key).len() } else { 0 };
        (key, entries)
    };
    (Whole::of(redis), keys.into_iter().map(size).collect())
}

/// Cuts a command after each of its writes, and gives it again.
fn cut_everywhere(redis: &TestRedis, line: &str, text: &str) {
    let before = Copy::of(redis);
    let proxy = Proxy::before(redis);
    let command =
        |proxy: &Proxy| -> Call { proxy.seckill(["-l", "cluster", "-o", "json"]).args(line.split(' ')).stdin(text) };
    command(&proxy).code(0);
    let expected = state(redis);
    let commands = proxy.commands();
    // Before the index is written nothing is.
    let first = commands.iter().position(|name| name == "SADD").unwrap() + 1;
    // A reset that is done and given again is another one.
    let last = commands.len() - usize::from(line.contains("--reset"));
    for number in first..=last {
        before.put_back(redis);
        let proxy = Proxy::before(redis);
        proxy.inject(When::Nth(number), Fault::HangReply);
        let running = command(&proxy).spawn();
        wait_until("it hangs", || proxy.commands().len() >= number);
        drop(running); // Killed.
        drop(proxy);
        call(redis, line).stdin(text).code(0);
        assert_eq!(state(redis), expected, "{line} cut after {number} of {commands:?}");
        assert_eq!(call(redis, "preheat -").stdin(text).code(0).json()[0]["action"], "unchanged");
    }
    before.put_back(redis);
}

#[test]
fn a_preheat_that_is_killed_after_any_step_is_finished_by_the_same_command() {
    let redis = TestRedis::start();
    redis.seckill(["script", "load"]).code(0);
    cut_everywhere(&redis, "preheat -", &fixture(12, 3));
}

#[test]
fn a_change_that_is_killed_after_any_step_is_finished_by_the_same_command() {
    let redis = sale();
    for (line, total, shards) in CHANGES {
        cut_everywhere(&redis, line, &wanted(total, shards));
    }
}

/// The parent's last change is two writes: the new rules, then the plan goes.
#[test]
fn an_update_whose_parent_was_cut_is_finished_by_the_same_command() {
    let redis = sale();
    for total in [20, 6] {
        let (before, line, text) = (Copy::of(&redis), "preheat - --update", wanted(total, 3));
        let proxy = Proxy::before(&redis);
        let command = |proxy: &Proxy| proxy.seckill(["-l", "cluster"]).args(line.split(' ')).stdin(&text);
        command(&proxy).code(0);
        let (expected, last) = (state(&redis), proxy.commands().len());
        before.put_back(&redis);
        let proxy = Proxy::before(&redis);
        proxy.inject(When::Nth(last), Fault::HangRequest);
        let running = command(&proxy).spawn();
        wait_until("it hangs", || proxy.commands().len() >= last);
        drop(running); // Killed.
        let meta = CLUSTER.meta("1001");
        let plan = redis.hget(&meta, "plan").unwrap();
        let rules = plan.splitn(12, ' ').skip(4).take(7).collect::<Vec<_>>().join(" ");
        redis.cmd(("HSET", &meta, "rules", rules));
        call(&redis, line).stdin(&text).code(0);
        assert_eq!(state(&redis), expected, "{total}");
        before.put_back(&redis);
    }
}

/// The units that the first update added, and the second one took, would be added to the total alone.
#[test]
fn an_update_whose_late_copy_finds_the_parent_as_it_was_begins_nothing() {
    let redis = sale();
    let (before, line) = (Copy::of(&redis), "preheat - --update --timeout 2s");
    let command = |proxy: &Proxy, total| {
        proxy.seckill(["-l", "cluster"]).args(line.split(' ')).stdin(wanted(total, 3)).code(0);
    };
    let proxy = Proxy::before(&redis);
    command(&proxy, 20);
    let planned = proxy.commands().iter().position(|name| name == "SADD").unwrap() + 2;
    before.put_back(&redis);
    let proxy = Proxy::before(&redis);
    proxy.inject(When::Nth(planned), Fault::HangRequest);
    command(&proxy, 20);
    command(&proxy, 12);
    let before = redis.dump_all();
    proxy.deliver_late();
    redis.assert_unchanged_since(&before);
    Whole::of(&redis).assert_sound(12);
}

#[test]
fn an_audit_that_reads_shards_before_and_behind_an_update_that_is_undone_proves_nothing() {
    let redis = sale();
    let before = Whole::of(&redis);
    let proxy = Proxy::before(&redis);
    proxy.inject(When::With(CLUSTER.ledger(&before.ids()[1])), Fault::Hold);
    let audit = proxy.seckill(["-l", "cluster", "-o", "json", "reconcile", "1001"]).spawn();
    proxy.wait_until_held();
    for total in [20, 12] {
        call(&redis, "preheat - --update").stdin(wanted(total, 3)).code(0);
    }
    proxy.heal();
    proxy.release();
    let after = Whole::of(&redis);
    assert_eq!((&after.rules, &after.plan), (&before.rules, &before.plan));
    assert_ne!(after.stocks()[0], before.stocks()[0]);
    let audit = audit.wait().code(7).json();
    assert_eq!(audit["activities"][0]["verdict"], "unsettled", "{audit}");
    call(&redis, "reconcile 1001").code(0);
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
fn what_is_unfinished_is_said_to_whoever_wants_something_else() {
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
    // A reset takes over, with another epoch, so that whatever is still on its way finds no shard of its own.
    call(&redis, "preheat - --reset --yes").stdin(fixture(13, 4)).code(0);
    let whole = Whole::of(&redis);
    whole.assert_sound(13);
    assert!(whole.rules.starts_with("live 1 2 "), "{}", whole.rules);

    // An update is finished before another one begins.
    stop_at_the_plan(&redis, "preheat - --update", &fixture(21, 4));
    call(&redis, "preheat -").stdin(fixture(13, 4)).code(3).stderr_has("an update of it is unfinished");
    call(&redis, "preheat - --update").stdin(fixture(30, 4)).code(0);
    let whole = Whole::of(&redis);
    whole.assert_sound(30);
    assert!(whole.parts.values().all(|part| part.plans == 2), "{whole:?}");
}

/// Stops an update of 12 to 9 units when it is planned, sells units meanwhile, and lets it continue.
fn sold_meanwhile(units: [usize; 3]) -> (TestRedis, Outcome) {
    let redis = TestRedis::start();
    redis.seckill(["script", "load"]).code(0);
    call(&redis, "preheat -").stdin(fixture(12, 3)).code(0);
    let proxy = Proxy::before(&redis);
    proxy.inject(When::With("=update ".to_owned()), Fault::Hold);
    let running = proxy
        .seckill(["-l", "cluster", "-o", "json"])
        .args(["preheat", "--id", "1001", "--stock", "9", "--update"])
        .spawn();
    proxy.wait_until_held();
    let whole = Whole::of(&redis);
    for (shard, units) in whole.ids().iter().zip(units) {
        whole.sell(&redis, shard, units);
    }
    proxy.heal();
    proxy.release();
    (redis, running.wait())
}

#[test]
fn units_that_are_sold_meanwhile_are_taken_from_other_shards() {
    // One of each shard was planned.
    let (redis, outcome) = sold_meanwhile([4, 4, 1]);
    let rows = outcome.code(0).json();
    assert_eq!((rows[0]["total"].as_u64(), rows[0]["stock"].as_u64()), (Some(9), Some(0)));
    let whole = Whole::of(&redis);
    whole.assert_sound(9);
    assert_eq!(whole.stocks(), [0, 0, 0]);
}

#[test]
fn an_update_that_finds_too_few_units_returns_what_it_took() {
    let (redis, outcome) = sold_meanwhile([4, 4, 2]);
    let rows = outcome.code(3).json();
    assert_eq!(rows[0]["status"], "out_of_stock");
    let whole = Whole::of(&redis);
    whole.assert_sound(12);
    assert_eq!(whole.stocks().iter().sum::<i64>(), 2);
    assert_eq!(whole.rules, "live 1 1 2 12 - 4102444800000");
}
