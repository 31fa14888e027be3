//! A server that refuses to write, a caller without the right to, and an end in mid-script: nothing half applied, and never more
//! for sale than there is.

use super::{ALL, COUPON, Caller, HM_DIANPING, SECKILL, SKU, SKU_MULTI, is_error};
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

#[test]
fn a_caller_without_a_right_is_refused_before_the_first_write() {
    for drop_in in ALL {
        let redis = TestRedis::start();
        drop_in.stock(&redis, "10");
        let needs = commands(drop_in.file, "set");
        for denied in &needs {
            if later_writes(drop_in.file).contains(&denied.as_str()) && !redis.scripts_can_check_permissions() {
                continue; // Redis 6.2 cannot be asked
            }
            let before = redis.dump_all();
            let rights: Vec<String> = needs.iter().filter(|right| *right != denied).cloned().collect();
            let reply = Caller::with(&redis, shown(drop_in.file), &rights).call(drop_in.keys, drop_in.good);
            let is_said = ["NOPERM", "can't run this command", "ACL failure"].iter().any(|text| reply.contains(text));
            assert!(reply.starts_with("ERROR") && is_said, "{} without {denied}: {reply}", drop_in.name);
            redis.assert_unchanged_since(&before);
        }
    }
}

#[test]
fn a_caller_who_may_write_the_first_key_only_is_refused_first() {
    let redis = TestRedis::start();
    if !redis.scripts_can_check_permissions() {
        return; // a command is allowed on all keys or on none there
    }
    for drop_in in [SECKILL, SKU, SKU_MULTI, COUPON, HM_DIANPING] {
        for later in later_writes(drop_in.file) {
            drop_in.stock(&redis, "10");
            let before = redis.dump_all();
            let mut rights = commands(drop_in.file, "set");
            rights.retain(|right| right != later);
            rights.push(format!("(+{later} ~{})", drop_in.keys[0]));
            let reply = Caller::with(&redis, shown(drop_in.file), &rights).call(drop_in.keys, drop_in.good);
            is_error(&reply, "NOPERM", &format!("may not run `{}`", later.to_uppercase()));
            redis.assert_unchanged_since(&before);
        }
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
