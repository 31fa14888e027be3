//! Commands that are given a sharded activity: all its shards, or a clear refusal.

use std::io::Write;

use serde_json::{Value, json};
use tempfile::TempDir;

use super::audit::{on_cluster, sale};
use super::sharded::{Whole, preheated};
use super::transfer;
use crate::support::{CLUSTER, Copy, Dump, Fault, Proxy, TestRedis, When};

#[test]
fn the_ledger_of_a_sharded_activity_is_that_of_its_shards_by_time() {
    let (redis, mut scripts) = sale();
    for (shard, user) in [("1#3", "d"), ("1#9", "a"), ("1#3", "e")] {
        assert!(scripts.deduct(shard, (user, "1", "")).starts_with("1 "));
    }
    assert!(scripts.lend("1#3", &transfer(1), "2", "2", "").starts_with("1 2 "));
    assert!(scripts.borrow(&transfer(1), "1", "2").starts_with("1 "));
    let rows = on_cluster(&redis, "ledger 1 -o jsonl").code(0).stderr("").jsonl();
    let mut ids: Vec<(&Value, &Value)> = rows.iter().map(|row| (&row["id"], &row["activity"])).collect();
    assert_eq!(ids.len(), 7);
    assert!(ids.iter().any(|(_, shard)| **shard == "1#3") && ids.iter().any(|(_, shard)| **shard == "1#9"));
    let shown = ids.clone();
    ids.sort_by_key(|(id, shard)| {
        let (millis, number) = id.as_str().unwrap().split_once('-').unwrap();
        (
            millis.parse::<u64>().unwrap(),
            number.parse::<u64>().unwrap(),
            shard.as_str().unwrap().len(),
            shard.to_string(),
        )
    });
    assert_eq!(shown, ids);
    // All that is preheated, one user, and a feed of all shards.
    assert_eq!(on_cluster(&redis, "ledger --all -o jsonl").code(0).jsonl(), rows);
    let of_user = on_cluster(&redis, "ledger 1 --user a -o jsonl").code(0).jsonl();
    assert_eq!(of_user.iter().map(|row| &row["activity"]).collect::<Vec<_>>(), [&json!("1#9")]);
    assert_eq!(on_cluster(&redis, "ledger 1 --group g -o jsonl").code(0).jsonl().len(), 7);
    assert_eq!(on_cluster(&redis, "ledger 1 --group g -o jsonl").code(0).jsonl().len(), 0);
}

#[test]
fn a_report_of_a_sharded_activity_is_of_all_shards() {
    let (redis, mut scripts) = sale();
    for (shard, user, units) in [("1#3", "d", "2"), ("1#9", "a", "10")] {
        assert!(scripts.deduct(shard, (user, units, "")).starts_with("1 "));
    }
    assert!(scripts.lend("1#3", &transfer(1), "4", "4", "").starts_with("1 4 "));
    let report = |code| on_cluster(&redis, "report 1 -o json").code(code);
    let row = &report(0).json()[0];
    let figures = "activity total stock sold buyers orders bought verdict objection held counters".split(' ');
    let figures: Vec<&Value> = figures.map(|field| &row[field]).collect();
    assert_eq!(json!(figures), json!(["1", 20, 8, 12, 2, 2, 12, "match", null, 0, 12]));
    assert_eq!(row["top_buyers"][0]["user"], "a", "{row}");
    let marks: Vec<_> = row["marks"].as_array().unwrap().iter().map(|mark| (&mark["op"], &mark["quantity"])).collect();
    assert_eq!(marks, [(&json!("preheat"), &json!(20))]);
    let moving = "no: 8 units are left, 4 of them in transit between shards";
    on_cluster(&redis, "report 1").code(0).stdout_has("12 of 20 units (60.0%)").stdout_has(moving);
    on_cluster(&redis, "report 1#3").code(0).stdout_has("2 of 6 units");
    on_cluster(&redis, "hold 1 --user a --quantity 3 --for 1h").code(0);
    assert_eq!(report(0).json()[0]["held"], 3);
    on_cluster(&redis, "ledger trim 1 --yes --before 2200-01-01").code(0);
    report(2).error_json();
    let partly = "a report of ledgers that were trimmed, or whose beginning is gone, is of one shard: `1#3`, `1#9`";
    on_cluster(&redis, "report 1").code(2).stderr_has(partly).stderr_has("`seckill -l cluster report '1#3'`");
}

#[test]
fn an_archive_takes_all_shards_or_none_while_units_are_in_transit() {
    let (redis, mut scripts) = sale();
    assert!(scripts.deduct("1#9", ("a", "1", "")).starts_with("1 "));
    assert!(scripts.lend("1#3", &transfer(1), "2", "2", "").starts_with("1 2 "));
    let dir = tempfile::tempdir().unwrap();
    let archive = |code| {
        let line = format!("archive 1 --yes -o jsonl --to {}", dir.path().display());
        let done = on_cluster(&redis, &line).code(code);
        done.jsonl().into_iter().map(|row| row["status"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(archive(3), ["not_ended", "not_ended"]);
    on_cluster(&redis, "pause 1").code(0);
    assert_eq!(archive(3), ["in_transit", "in_transit"]);
    assert!(scripts.borrow(&transfer(1), "1", "2").starts_with("1 "));
    assert!(scripts.lend("1#3", "", "0", "0", &transfer(1)).starts_with("-3 "));
    assert_eq!(archive(0), ["ok", "ok"]);
    assert!(!redis.exists(&CLUSTER.stock("1#3")) && redis.exists(&CLUSTER.meta("1")));
    assert_eq!(archive(0), ["replayed", "replayed"]);
    on_cluster(&redis, "reconcile 1").code(3).stderr_has("`1` is archived");
    on_cluster(&redis, "reconcile").code(3).stderr_has("nothing to audit: 1 activity is archived");
    on_cluster(&redis, "preheat --id 5 --stock 1").code(0);
    on_cluster(&redis, "reconcile").code(0).stderr_has("1 activity is archived and left out");
    let restore = format!("preheat --yes --restore {}", dir.path().display());
    on_cluster(&redis, &format!("{restore} --activity 2")).code(2).stderr_has("no archive of `2`");
    on_cluster(&redis, &format!("{restore} --activity 1")).code(0).stderr_lacks("is not on this server");
    on_cluster(&redis, "reconcile 1").code(0);
    on_cluster(&redis, "inspect -o name").code(0).stdout_is("1\n5\n");
    // Another server has no parent, and these are not the shards that a preheat would choose.
    let other = TestRedis::start();
    let restored = on_cluster(&other, &format!("{restore} --activity 1")).code(0);
    restored.stderr_has("`1` itself is not on this server").stderr_lacks("hint");
}

/// A server whose sale of three shards is in the files of a directory, with what happened before.
fn archived(before: &[&str]) -> (TestRedis, TempDir) {
    let (redis, dir) = (TestRedis::start(), tempfile::tempdir().unwrap());
    for line in [&["preheat --id 1 --stock 12 --shards 3"], before, &["pause 1"]].concat() {
        on_cluster(&redis, line).code(0);
    }
    on_cluster(&redis, &format!("archive 1 --yes --to {}", dir.path().display())).code(0);
    (redis, dir)
}

#[test]
fn a_sharded_sale_in_files_refuses_as_any_other_and_stays_as_it_is() {
    let (redis, dir) = archived(&["deduct 1 --user 7", "deduct 1 --user 8"]);
    let before = redis.dump_all();
    let refused = |line: &str, words: &str| {
        on_cluster(&redis, line).code(3).stdout_has(words).stderr_has("`seckill -l cluster preheat --restore DIR`");
        assert_eq!(redis.dump_all(), before, "{line}");
    };
    refused("deduct 1 --user 9", "ended");
    refused("refund 1 --user 7", "not_preheated");
    refused("preheat --id 1 --stock 20 --update --yes", "exists");
    refused("preheat --id 1 --stock 12 --shards 3", "exists");
    on_cluster(&redis, "resume 1").code(3).stdout_has("archived");
    // What the files have is not nothing.
    let user = on_cluster(&redis, "inspect 1 --user 7 -o json").code(0).stderr_has("who bought is in its files").json();
    assert_eq!((&user[0]["user"], &user[0]["bought"]), (&"7".into(), &Value::Null));
    let file = dir.path().join("orders.csv");
    std::fs::write(&file, "activity,user,quantity\n1,7,1\n1,8,1\n").unwrap();
    let file = file.display();
    on_cluster(&redis, &format!("refund --from {file}")).code(3).stdout_has("not_preheated       2");
    on_cluster(&redis, &format!("deduct --from {file}")).code(3).stdout_has("ended        2");
    // One of three is not the sale.
    let one = std::fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().path()).find(|path| path.is_dir());
    on_cluster(&redis, &format!("preheat --restore {}", one.unwrap().display())).code(0);
    on_cluster(&redis, "resume 1").code(3).stdout_has("archived");
    let restore = || on_cluster(&redis, &format!("preheat --restore {}", dir.path().display())).code(0);
    restore().stderr_has("paused, as before: `1`; `seckill -l cluster resume 1` ends that");
    restore().stderr_lacks("as before");
    on_cluster(&redis, "resume 1").code(0);
    on_cluster(&redis, "preheat --id 1 --stock 20 --update --yes").code(0);
    on_cluster(&redis, "reconcile 1").code(0);
}

#[test]
fn a_refund_while_its_sale_comes_back_from_files_is_made_or_refused() {
    let (redis, dir) = archived(&["deduct 1 --user 7 --quantity 2", "script load"]);
    let archived = Copy::of(&redis);
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(b"activity,user,quantity\n1,7,2\n").unwrap();
    let from_file = format!("refund --from {} --format csv", file.path().display());
    for line in ["refund 1 --user 7 --quantity 2", &from_file] {
        let refund = |proxy: &Proxy| proxy.seckill(["-l", "cluster", "-q"]).args(line.split(' '));
        archived.put_back(&redis);
        let proxy = Proxy::before(&redis);
        refund(&proxy).code(3).stdout_has("not_preheated");
        let commands = proxy.commands().len();
        let mut made = 0;
        for command in 1..=commands {
            archived.put_back(&redis);
            let proxy = Proxy::before(&redis);
            proxy.inject(When::Command(command), Fault::HoldRequest);
            let refund = refund(&proxy).spawn();
            proxy.wait_until_held();
            on_cluster(&redis, &format!("preheat --restore {}", dir.path().display())).code(0);
            proxy.release();
            let outcome = refund.wait();
            let is_made = outcome.status.code() == Some(0);
            assert!(is_made || outcome.stdout.contains("not_preheated"), "{line}, {command}: {outcome:?}");
            made += usize::from(is_made);
        }
        assert!(made > 1, "{line}: {made} of {commands}");
    }
}

#[test]
fn shards_in_files_do_not_come_back_beside_a_later_sale_in_other_shards() {
    let (redis, dir) = archived(&["deduct 1 --user 7"]);
    on_cluster(&redis, "preheat --id 1 --stock 5 --shards 2 --reset --yes").code(0);
    let before = redis.dump_all();
    let rows = on_cluster(&redis, &format!("preheat -o jsonl --restore {}", dir.path().display())).code(3).jsonl();
    assert!(rows.len() == 3 && rows.iter().all(|row| row["status"] == "exists"), "{rows:?}");
    assert_eq!(redis.dump_all(), before);
}

#[test]
fn a_shard_is_archived_only_once_all_of_the_sale_are_over() {
    let (redis, _) = sale();
    on_cluster(&redis, "pause 1").code(0);
    // As a resume leaves it that was cut behind the first shard.
    let live = CLUSTER.meta("1#3");
    let rules: String = redis.ask(("HGET", &live, "rules"));
    let _: i64 = redis.ask(("HSET", &live, "rules", rules.replace("paused", "live")));
    let dir = tempfile::tempdir().unwrap();
    let refused = on_cluster(&redis, &format!("archive 1 --yes --to {}", dir.path().display())).code(3);
    refused.stderr_has("`1#3` is live, and only what has ended or is paused is archived");
    assert!(redis.exists(&CLUSTER.stock("1#9")));
}

#[test]
fn a_shard_that_cannot_be_archived_holds_back_all_shards_and_nothing_else() {
    let redis = preheated(12, 3);
    on_cluster(&redis, "preheat --id 2 --stock 5").code(0);
    on_cluster(&redis, "hold 1001 --user 7 --for 1h --request h").code(0);
    on_cluster(&redis, "pause 1001 2").code(0);
    let of_sale = |key: &&str| key.contains("1001");
    let is_as = |before: &Dump| !before.changed_keys(&redis.dump_all()).iter().any(of_sale);
    let (dir, before) = (tempfile::tempdir().unwrap(), redis.dump_all());
    let to = dir.path().display();
    for line in
        [format!("archive 1001 2 --dry-run --to {to} -o json"), format!("archive 1001 2 --yes --to {to} -o json")]
    {
        let refused = on_cluster(&redis, &line).code(3);
        assert_eq!(refused.stderr.matches("held open").count(), 1, "{}", refused.stderr);
        let rows = refused.json();
        let statuses: Vec<&str> = rows.as_array().unwrap().iter().map(|row| row["status"].as_str().unwrap()).collect();
        assert_eq!(statuses, ["held", "held", "held", "ok"], "{line}");
        assert!(is_as(&before), "{line}");
    }
    on_cluster(&redis, "release 1001 --user 7 --request h").code(0);
    // What the directory has of a later shard is no archive of it.
    let last = dir.path().join("1001%232.cluster.1");
    std::fs::create_dir(&last).unwrap();
    let before = redis.dump_all();
    on_cluster(&redis, &format!("archive 1001 --yes --to {to}")).code(2).stderr_has("holds something else");
    assert!(is_as(&before));
    std::fs::remove_dir(&last).unwrap();
    on_cluster(&redis, &format!("archive 1001 --yes --to {to}")).code(0);
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
        let refused = on_cluster(&redis, &format!("{line} -o json"))
            .code(3)
            .stderr_has("names a shard that is not there")
            .stderr_has(and);
        assert_eq!(refused.json()[0]["status"], "corrupt", "{line}");
    };
    refused("pause 1001 --dry-run", "all others would be");
    assert_eq!(states(), ["live 1"; 2]);
    refused("pause 1001", "a shard of `1001` cannot be paused; all others are");
    assert_eq!(states(), ["paused"; 2]);
    refused("resume 1001", "nothing was changed");
    assert_eq!(states(), ["paused"; 2]);
}
