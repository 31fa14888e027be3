//! `none` (in a fixture `null`) clears the limit or one end of the window of a live sale, and of all its shards. `sessions/preheat.txt` has all
//! else.

use crate::support::layout::json_call;
use crate::support::{CLUSTER, TestRedis};

const WINDOW: &str = "--starts-at 2020-01-01T00:00:00Z --ends-at 2200-01-01T00:00:00Z";

#[test]
fn all_shards_and_the_parent_lose_the_field() {
    let redis = TestRedis::start();
    let line = format!("preheat --id 1 --stock 10 --shards 4 --title phone --per-user-limit 2 {WINDOW}");
    json_call(&redis, CLUSTER, &line).code(0);
    json_call(&redis, CLUSTER, "deduct 1 --user 7 --quantity 2").code(0);
    let clear = "preheat --id 1 --update --per-user-limit none --ends-at none";
    let dry = json_call(&redis, CLUSTER, &format!("{clear} --dry-run")).code(0);
    dry.stderr_has("1: per_user_limit `2` → none").stderr_has("1: ends_at 2200-01-01T00:00:00");
    let row = json_call(&redis, CLUSTER, clear).code(0).json()[0].clone();
    assert_eq!((&row["action"], &row["stock"], row["per_user_limit"].is_null()), (&"update".into(), &8.into(), true));
    let meta = redis.hgetall(&CLUSTER.meta("1"));
    assert_eq!(meta["rules"], "live 1 1 - 10 1577836800000 -");
    for shard in meta["shards"].split(' ') {
        let shard = redis.hgetall(&CLUSTER.meta(&format!("1#{shard}")));
        assert!(shard["rules"].starts_with("live 1 1 - ") && shard["rules"].ends_with(" 1577836800000 -"), "{shard:?}");
        assert_eq!(shard["title"], "phone");
    }
    assert_eq!(json_call(&redis, CLUSTER, clear).code(0).json()[0]["action"], "unchanged");
    json_call(&redis, CLUSTER, "deduct 1 --user 7 --quantity 5").code(0);
    let fixture = "layout: cluster\nactivities: [{id: 1, stock: 10, shards: 4, starts_at: null}]";
    redis.seckill(["preheat", "-", "--update"]).stdin(fixture).code(0);
    assert_eq!(redis.hgetall(&CLUSTER.meta("1"))["rules"], "live 1 1 - 10 - -");
    json_call(&redis, CLUSTER, "reconcile 1").code(0);
}
