//! The cases in which plain scripts crash, sell what is not there, or write by halves: an error that says what is wrong, and
//! every key as it was. `tests/sim/one_wrong.rs` has each argument, number of arguments and key that is wrong.

use super::{ALL, Caller, DropIn, HM_DIANPING, PRODUCT, SECKILL, SKU, SKU_MULTI, is_error};
use crate::input::BAD_USERS;
use crate::support::TestRedis;

/// A sale with some units, in which user `7` bought one.
fn sale(drop_in: DropIn) -> (TestRedis, Caller) {
    let redis = TestRedis::start();
    drop_in.stock(&redis, "10");
    let caller = Caller::of(&redis, drop_in);
    let reply = caller.call(drop_in.keys, drop_in.good);
    assert!(!reply.starts_with("ERROR"), "{reply}");
    (redis, caller)
}

#[test]
fn a_quantity_is_plain_digits_from_1_to_a_billion() {
    for drop_in in ALL {
        let Some(at) = drop_in.quantity else { continue };
        let (redis, caller) = sale(drop_in);
        let before = redis.dump_all();
        for bad in ["1.5", "1e3", "0x10", " 5", "nan", "5\n", "1000000001"] {
            let mut args = drop_in.good.to_vec();
            args[at] = bad;
            let reply = caller.call(drop_in.keys, &args);
            is_error(&reply, "USAGE", &format!("{}: ARGV[{}], the quantity", drop_in.name, at + 1));
            assert!(reply.ends_with(&format!("`{}`", bad.replace('\n', "?"))), "{reply}");
        }
        redis.assert_unchanged_since(&before);
        drop_in.stock(&redis, "9007199254740991");
        let mut args = drop_in.good.to_vec();
        args[at] = "1000000000";
        drop_in.user.inspect(|at| args[*at] = "8");
        args.last_mut().filter(|_| drop_in == SECKILL).into_iter().for_each(|limit| *limit = "1000000000");
        let reply = caller.call(drop_in.keys, &args);
        let left = 9_007_199_254_740_991_i64 - 1_000_000_000;
        let expected = match drop_in.name {
            "seckill" => "1 成功".to_owned(),
            "sku" => left.to_string(),
            "sku-multi" => String::new(),
            _ => "1".to_owned(),
        };
        assert_eq!((reply, redis.int(drop_in.keys[0])), (expected, left), "{}", drop_in.name);
    }
}

#[test]
fn a_user_is_1_to_256_bytes_without_control_characters() {
    let (long, huge) = ("x".repeat(257), "x".repeat(100_000));
    for drop_in in ALL {
        let Some(at) = drop_in.user else { continue };
        let (redis, caller) = sale(drop_in);
        let before = redis.dump_all();
        for bad in BAD_USERS.into_iter().chain([&*long, &*huge]) {
            let mut args = drop_in.good.to_vec();
            args[at] = bad;
            is_error(&caller.call(drop_in.keys, &args), "USAGE", &format!("ARGV[{}], the user", at + 1));
        }
        redis.assert_unchanged_since(&before);

        // Bytes, never numbers: `07` is not `7`, and what is not UTF-8 is a user too.
        let most = "x".repeat(256);
        for good in [b"07".as_slice(), b"7.0", b"+7", b"a b", b"\xb0\xa2", most.as_bytes()] {
            let mut args: Vec<&[u8]> = drop_in.good.iter().map(|arg| arg.as_bytes()).collect();
            args[at] = good;
            let reply = caller.call(drop_in.keys, &args);
            let sold = if drop_in == HM_DIANPING { "0" } else { "1" };
            assert!(
                ["1 成功", sold].contains(&&*reply) || drop_in == SKU && !reply.starts_with('-'),
                "{good:?}: {reply}"
            );
        }
    }
}

#[test]
fn a_voucher_and_an_order_are_as_a_user_and_a_stream_takes_another_order() {
    let (redis, caller) = sale(HM_DIANPING);
    redis.cmd(("XADD", HM_DIANPING.keys[2], format!("{0}-{0}", u64::MAX), "f", "v"));
    let before = redis.dump_all();
    for (at, what) in [(0, "voucher"), (2, "order")] {
        let mut args = HM_DIANPING.good.to_vec();
        args[at] = "a\tb";
        is_error(&caller.call(HM_DIANPING.keys, &args), "USAGE", &format!("ARGV[{}], the {what}", at + 1));
    }
    is_error(&caller.call(HM_DIANPING.keys, &["1", "8", "901"]), "CORRUPT", "no stream that takes another order");
    redis.assert_unchanged_since(&before);
}

#[test]
fn a_sku_given_twice_counts_as_the_sum() {
    let (redis, caller) = sale(SKU_MULTI);
    redis.cmd(("SET", "stock:1", 10));
    let before = redis.dump_all();
    assert_eq!(caller.call(&["stock:1", "stock:1"], &["6", "6"]), "stock:1=10");
    assert_eq!(caller.call(&["stock:1", "stock:2", "stock:1"], &["6", "99", "5"]), "stock:1=10 stock:2=9");
    redis.assert_unchanged_since(&before);
    assert_eq!(caller.call(&["stock:1", "stock:2", "stock:1"], &["6", "2", "4"]), "");
    assert_eq!((redis.int("stock:1"), redis.int("stock:2")), (0, 7));
}

#[test]
fn several_skus_are_served_up_to_a_bound() {
    let redis = TestRedis::start();
    let caller = Caller::of(&redis, SKU_MULTI);
    let keys: Vec<String> = (0..8000).map(|sku| format!("stock:{sku}")).collect();
    let one = vec!["1"; 8000];
    keys.iter().for_each(|key| drop(redis.cmd(("SET", key, 1))));
    let before = redis.dump_all();
    for count in [513, 8000] {
        is_error(&caller.call(&keys[..count], &one[..count]), "USAGE", "more than 512 keys in one call");
    }
    redis.assert_unchanged_since(&before);
    assert_eq!(caller.call(&keys[..512], &one[..512]), "");
    let sold = keys.iter().filter(|key| redis.int(key) == 0).count();
    assert_eq!(sold, 512);
    assert_eq!(caller.call(&keys[..512], &one[..512]).split(' ').count(), 512);
}

#[test]
fn an_error_is_one_line_of_text_whatever_the_keys_are() {
    let redis = TestRedis::start();
    let caller = Caller::of(&redis, PRODUCT);
    let key = "product_stock_\r\n双11\u{7f}";
    redis.cmd(("SET", key, format!("a\r\n+OK\0{}", "x".repeat(1000))));
    let reply = caller.call(&[key], &["1"]);
    is_error(&reply, "CORRUPT", "`product_stock_??双11?` holds `a??+OK?xxx");
    assert!(reply.contains(&format!("+OK?{}`", "x".repeat(256 - 7))), "values are cut: {reply}");
    assert_eq!(caller.call(&["other"], &["1"]), "-1", "and the connection is in order");
}
