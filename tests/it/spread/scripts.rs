//! What `hold`, `settle`, `lend` and `borrow` write for a wait to cover. What they reply is in `tests/sim/transcripts/`.

use crate::support::{CLUSTER, Scripts, TestRedis};

/// A wait covers what its connection wrote: so what was decided before is written again, and nothing else.
#[test]
fn what_was_decided_before_is_written_again() {
    const ORDER: &str = "m:seckill:{1}:stock";
    let redis = TestRedis::start();
    let mut scripts = Scripts::of(&redis, CLUSTER);
    for activity in ["1", "1#3", "1#9"] {
        scripts.preheat(activity, "10");
    }
    let (keys, [donor, home]) = (CLUSTER.all_keys("1"), ["1#3", "1#9"].map(|shard| CLUSTER.keys(shard)));
    let (id, digest) = ("a".repeat(40), format!("multi_deduct {}", "0".repeat(40)));
    let hold = ["hash", "tester", "7", "2", "r", "first", "", "900000", ORDER, &digest, "seckill:{2}:stock"];
    let [confirm, abort, unknown] = [("r", "confirm"), ("r", "abort"), ("s", "abort")]
        .map(|(request, step)| ["hash", "tester", request, step, ORDER]);
    let [lend, borrow] =
        [&["1", "9", "4", "4", ""][..], &["1", "3", "4"]].map(|rest| [&["tester", &*id][..], rest].concat());
    let changes = || {
        let info: String = redis.ask(("INFO", "persistence"));
        let line = info.lines().find_map(|line| line.strip_prefix("rdb_changes_since_last_save:")).unwrap().to_owned();
        line.parse::<u64>().unwrap()
    };
    let calls = [
        ("hold", &keys[..], &hold[..], "2"),
        ("settle", &keys, &confirm[..], "2"),
        ("settle", &keys, &abort[..], "-14"),
        ("hold", &keys[..], &hold[..], "2"),
        ("settle", &keys, &unknown[..], "2"),
        ("lend", &donor[..4], &lend, "2"),
        ("borrow", &home[..4], &borrow, "2"),
    ];
    for (script, keys, args, again) in calls {
        scripts.call(script, keys, args);
        let (before, state) = (changes(), redis.dump_all());
        let reply = scripts.call(script, keys, args);
        assert!(reply.starts_with(&format!("{again} ")), "{script} {args:?}: {reply}");
        assert!(changes() > before, "{script} {args:?}: nothing was written");
        redis.assert_unchanged_since(&state);
    }
}
