//! `pause` and `resume` of a sharded activity: all shards and the parent, whatever comes between.

use super::sharded::{Whole, call, preheated};
use crate::support::{CLUSTER, Scripts, TestRedis};

fn states(redis: &TestRedis) -> Vec<String> {
    let whole = Whole::of(redis);
    let rules = whole.parts.into_values().map(|part| part.rules).chain([whole.rules]);
    rules.map(|rules| rules.split(' ').next().unwrap().to_owned()).collect()
}

#[test]
fn all_shards_and_the_parent_are_paused_and_resumed() {
    let redis = preheated(12, 3);
    let status = |line: &str| {
        let row = call(&redis, line).code(0).json()[0].clone();
        (row["status"].as_str().unwrap().to_owned(), row["state"].as_str().unwrap().to_owned())
    };
    let said = |status: &str, state: &str| (status.to_owned(), state.to_owned());
    let before = redis.dump_all();
    assert_eq!(status("pause 1001 --dry-run"), said("ok", "paused"));
    redis.assert_unchanged_since(&before);
    assert_eq!(status("pause 1001"), said("ok", "paused"));
    assert_eq!(states(&redis), ["paused"; 4]);
    assert!(!redis.exists(&CLUSTER.ledger("1001")), "a parent has no ledger");
    let (whole, mut scripts) = (Whole::of(&redis), Scripts::of(&redis, CLUSTER));
    assert!(scripts.deduct(&whole.ids()[0], ("7", "1", "")).starts_with("-7"));
    assert_eq!(call(&redis, "inspect 1001").code(0).json()[0]["state"], "paused");
    assert_eq!(status("pause 1001"), said("replayed", "paused"));
    // A total that changes meanwhile does not resume it.
    call(&redis, "preheat --id 1001 --stock 15 --update").code(0);
    assert_eq!(states(&redis), ["paused"; 4]);
    assert_eq!(status("resume 1001"), said("ok", "live"));
    assert_eq!(states(&redis), ["live"; 4]);
    assert_eq!(status("resume 1001"), said("replayed", "live"));

    call(&redis, "pause 1001 --withdraw-stock").code(0).stderr_has("15 units of `1001` withdrawn");
    assert_eq!(Whole::of(&redis).stocks(), [0; 3]);
    assert_eq!(call(&redis, "inspect 1001").code(0).json()[0]["stock"], 15);
    call(&redis, "preheat --id 1001 --stock 9 --update").code(0);
    assert_eq!(Whole::of(&redis).stocks(), [0; 3]);
    call(&redis, "resume 1001").code(0).stderr_has("9 units of `1001` returned");
    Whole::of(&redis).assert_sound(9);

    redis.cmd(("DEL", CLUSTER.stock(&Whole::of(&redis).ids()[1])));
    call(&redis, "pause 1001 --withdraw-stock").code(3).stderr_has("is gone");
}

#[test]
fn what_is_half_preheated_is_not_paused() {
    let redis = TestRedis::start();
    redis.cmd(("HSET", CLUSTER.meta("1001"), "rules", "live 1 1 - 12 - -"));
    redis.cmd(("HSET", CLUSTER.meta("1001"), "plan", "start 1,0,2 -"));
    let before = redis.dump_all();
    let refused = call(&redis, "pause 1001").code(3).stderr_has("is unfinished").stderr_has("finishes it");
    assert_eq!(refused.json()[0]["status"], "not_preheated");
    redis.assert_unchanged_since(&before);
}

#[test]
fn a_shard_that_is_gone_keeps_no_other_one_live_and_none_is_resumed_beside_it() {
    let redis = preheated(12, 3);
    let ids = Whole::of(&redis).ids();
    redis.cmd(("UNLINK", CLUSTER.all_keys(&ids[0])));
    let states = || {
        let rules = |id: &String| redis.hget(&CLUSTER.meta(id), "rules").unwrap();
        ids[1..].iter().map(|id| rules(id)[..6].to_owned()).collect::<Vec<_>>()
    };
    let refused = |line: &str, and: &str| {
        let refused = call(&redis, line).code(3).stderr_has("names a shard that is not there").stderr_has(and);
        assert_eq!(refused.json()[0]["status"], "corrupt", "{line}");
    };
    refused("pause 1001 --dry-run", "all others would be");
    assert_eq!(states(), ["live 1"; 2]);
    refused("pause 1001", "a shard of `1001` cannot be paused; all others are");
    assert_eq!(states(), ["paused"; 2]);
    refused("resume 1001", "nothing was changed");
    assert_eq!(states(), ["paused"; 2]);
}
