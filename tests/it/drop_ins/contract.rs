//! What shops rely on: every reply, which comes first, and the data afterwards.

use super::{ALL, COUPON, Caller, DropIn, HM_DIANPING, PRODUCT, SECKILL, SKU, SKU_MULTI, are_equal};
use crate::support::TestRedis;

/// The drop-in and the plain script answer each call like this, on a server each.
#[track_caller]
fn both_reply(drop_in: DropIn, stock: &str, calls: &[(&[&str], &str)]) -> TestRedis {
    let (redis, other) = (TestRedis::start(), TestRedis::start());
    drop_in.stock(&redis, stock);
    drop_in.stock(&other, stock);
    let (ours, plain) = (Caller::of(&redis, drop_in), Caller::plain(&other, drop_in));
    for (args, expected) in calls {
        assert_eq!(ours.call(drop_in.keys, args), *expected, "{} {args:?}", drop_in.name);
        assert_eq!(plain.call(drop_in.keys, args), *expected, "the plain script of {} {args:?}", drop_in.name);
    }
    are_equal(&redis, &other);
    redis
}

#[test]
fn seckill_sells_within_the_limit_and_the_stock() {
    let redis = both_reply(
        SECKILL,
        "5",
        &[
            (&["7", "2", "3"], "1 成功"),
            (&["7", "2", "3"], "0 超过个人限购"),
            (&["7", "1", "3"], "1 成功"),
            (&["7", "1", "3"], "0 超过个人限购"),
            (&["8", "3", "3"], "0 库存不足"),
            (&["8", "4", "3"], "0 超过个人限购"),
            (&["王小明", "2", "9007199254740991"], "1 成功"),
            (&["9", "1", "0"], "0 超过个人限购"),
            (&["9", "1", "1"], "0 库存不足"),
        ],
    );
    assert_eq!(redis.get(SECKILL.keys[0]).as_deref(), Some("0"));
    let held = redis.hgetall(SECKILL.keys[1]);
    assert_eq!(held, [("7", "3"), ("王小明", "2")].map(|(user, units)| (user.to_owned(), units.to_owned())).into());
}

#[test]
fn sku_takes_one_order_of_each_user() {
    let redis = both_reply(
        SKU,
        "5",
        &[
            (&["3", "7"], "2"),
            (&["1", "7"], "-2"),
            (&["9", "7"], "-2"),
            (&["3", "8"], "-1"),
            (&["2", "8"], "0"),
            (&["1", "9"], "-1"),
        ],
    );
    assert_eq!(redis.smembers(SKU.keys[1]), ["7", "8"].map(str::to_owned).into());
}

#[test]
fn sku_multi_takes_all_or_says_what_is_left_of_each_that_falls_short() {
    let redis = both_reply(
        SKU_MULTI,
        "3",
        &[
            (&["2", "1"], ""),
            (&["2", "1"], "stock:1=1"),
            (&["2", "3"], "stock:1=1 stock:2=2"),
            (&["1", "3"], "stock:2=2"),
            (&["1", "2"], ""),
            (&["1", "1"], "stock:1=0 stock:2=0"),
        ],
    );
    assert_eq!((redis.int("stock:1"), redis.int("stock:2")), (0, 0));
    redis.cmd(("SET", "stock:1", 1));
    let caller = Caller::of(&redis, SKU_MULTI);
    assert_eq!(caller.call(&["stock:1"], &["1"]), "", "one is several too");
    assert_eq!(caller.call(&["stock:1"], &["1"]), "stock:1=0");
}

#[test]
fn coupon_gives_one_to_each_user() {
    let redis = both_reply(COUPON, "2", &[(&["7"], "1"), (&["7"], "2"), (&["8"], "1"), (&["9"], "0"), (&["7"], "0")]);
    assert_eq!(redis.smembers(COUPON.keys[1]), ["7", "8"].map(str::to_owned).into());
}

#[test]
fn product_counts_down() {
    both_reply(PRODUCT, "3", &[(&["2"], "1"), (&["2"], "0"), (&["1"], "1"), (&["1"], "0")]);
    let redis = TestRedis::start();
    assert_eq!(Caller::of(&redis, PRODUCT).call(PRODUCT.keys, &["1"]), "-1");
    assert_eq!(Caller::plain(&redis, PRODUCT).call(PRODUCT.keys, &["1"]), "-1");
    assert!(!redis.exists(PRODUCT.keys[0]));
}

#[test]
fn hm_dianping_sells_one_to_each_user_and_queues_the_order() {
    let calls: [(&[&str], &str); 5] = [
        (&["1", "7", "900"], "0"),
        (&["1", "7", "901"], "2"),
        (&["1", "8", "902"], "0"),
        (&["1", "9", "903"], "1"),
        (&["1", "7", "904"], "1"),
    ];
    let redis = both_reply(HM_DIANPING, "2", &calls);
    assert_eq!(redis.smembers(HM_DIANPING.keys[1]), ["7", "8"].map(str::to_owned).into());
    let queued: Vec<String> = redis.ask(("LRANGE", HM_DIANPING.keys[2], 0, -1));
    let order = |user: &'static str, id: &'static str| ["userId", user, "voucherId", "1", "id", id];
    assert_eq!(queued, [order("7", "900"), order("8", "902")].concat());
}

/// A client reads integers and texts as such: `1` and `"1"` are not the same to it.
#[test]
fn replies_have_the_types_of_the_plain_scripts() {
    use redis::Value;
    for drop_in in ALL {
        let redis = TestRedis::start();
        let ask = |text: &str| -> Value { redis.ask(("EVAL", text, drop_in.keys.len(), drop_in.keys, drop_in.good)) };
        for stock in ["5", "0"] {
            redis.cmd("FLUSHALL");
            drop_in.stock(&redis, stock);
            let reply = ask(crate::support::scripts::shown(drop_in.file));
            redis.cmd("FLUSHALL");
            drop_in.stock(&redis, stock);
            assert_eq!(reply, ask(drop_in.plain), "{}", drop_in.name);
        }
    }
}

#[test]
fn the_header_lists_every_reply_and_what_it_cannot_know() {
    for drop_in in ALL {
        let header = crate::support::scripts::shown(drop_in.file).split("]]\n").next().unwrap();
        let replies: &[&str] = match drop_in.name {
            "seckill" => &["{1, \"成功\"}", "{0, \"超过个人限购\"}", "{0, \"库存不足\"}"],
            "sku" => &["\n    -2  ", "\n    -1  ", "what is left"],
            "sku-multi" => &["`key=rest`", "An empty list"],
            "coupon" | "hm-dianping" => &["\n    0  ", "\n    2  ", "\n    1  "],
            _ => &["\n    -1  ", "\n    0  ", "\n    1  "],
        };
        let unknown = ["pause ", "window ", "limit", "request id ", "ledger "];
        let is_told = |part: &&&str| ![SKU, COUPON, HM_DIANPING].contains(&drop_in) || **part != "limit";
        for part in replies.iter().chain(unknown.iter().filter(is_told)) {
            assert!(header.contains(part), "{}: {part:?}", drop_in.name);
        }
        for kind in ["USAGE", "CORRUPT"] {
            assert!(header.contains(&format!("\n    {kind}  ")), "{}: {kind}", drop_in.name);
        }
    }
}
