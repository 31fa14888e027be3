//! A server that refuses to write, and an end in mid-script: nothing half applied, and never more for sale than there is.

use super::{ALL, COUPON, Caller, HM_DIANPING, SECKILL, SKU};
use crate::support::TestRedis;
use crate::support::scripts::{commands, shown};

#[test]
fn a_server_that_refuses_writes_refuses_before_the_first_one() {
    let primary = TestRedis::with_tcp([]);
    let port = primary.port().unwrap().to_string();
    drop(primary);
    for drop_in in ALL {
        let redis = TestRedis::start();
        drop_in.stock(&redis, "10");
        let caller = Caller::of(&redis, drop_in);
        let before = redis.dump_all();
        let refuses = |kind: &str| {
            let reply = caller.call(drop_in.keys, drop_in.good);
            assert!(reply.starts_with("ERROR ") && reply.contains(kind), "{}: {kind}: {reply}", drop_in.name);
            redis.assert_unchanged_since(&before);
        };
        redis.config_set("maxmemory", "1");
        refuses("OOM");
        redis.config_set("maxmemory", "0");
        redis.config_set("min-replicas-to-write", "1");
        refuses("NOREPLICAS");
        redis.config_set("min-replicas-to-write", "0");
        redis.cmd(("REPLICAOF", "127.0.0.1", &port));
        refuses("READONLY");
    }
}

/// The commands behind the first write: they record the user, queue the order, or take of the second stock.
fn later_writes(file: &str) -> &'static [&'static str] {
    match file {
        "drop-in/seckill" => &["hincrby"],
        "drop-in/sku" | "drop-in/coupon" => &["sadd"],
        "drop-in/hm-dianping" => &["sadd", "xadd"],
        _ => &["decrby"],
    }
}

/// A write that fails in mid-script is what a cut leaves: here a right that the script, changed for this, does not check.
#[test]
fn a_cut_leaves_fewer_units_for_sale_and_nobody_with_more() {
    for drop_in in [SECKILL, SKU, COUPON, HM_DIANPING] {
        let redis = TestRedis::start();
        drop_in.stock(&redis, "10");
        let unchecked = shown(drop_in.file).replace("redis.acl_check_cmd and", "nil and");
        assert_ne!(unchecked, shown(drop_in.file));
        let mut rights = commands(drop_in.file, "set");
        rights.retain(|right| !later_writes(drop_in.file).contains(&right.as_str()));
        let reply = Caller::with(&redis, &unchecked, &rights).call(drop_in.keys, drop_in.good);
        assert!(reply.starts_with("ERROR"), "{reply}");
        assert_eq!((redis.int(drop_in.keys[0]), redis.exists(drop_in.keys[1])), (9, false), "{}", drop_in.name);
    }
}
