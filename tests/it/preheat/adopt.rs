//! `--adopt`: another system's activity, or one that lost its meta, is taken over with all that was sold. `sessions/preheat.txt` has each
//! state that it may be in.

use crate::support::layout::json_call;
use crate::support::{COUPON, Layout, PRODUCT, SECKILL, TestRedis};

/// What another system made: 10 units left, three of them sold to two users in the layouts that record them.
pub fn foreign(layout: Layout) -> TestRedis {
    let redis = TestRedis::start();
    redis.cmd(("SET", layout.stock("1"), "10"));
    match layout.kind {
        "hash" => drop(redis.cmd(("HSET", layout.participants("1"), "7", "2", "8", "1"))),
        "coupon" => drop(redis.cmd(("SADD", layout.participants("1"), "7", "8", "9"))),
        "set" => {
            redis.cmd(("SADD", layout.participants("1"), "7", "8"));
            redis.cmd(("HSET", layout.key(6, "1"), "7", "2", "8", "1"));
        }
        _ => {}
    }
    redis
}

/// The command line that adopts it.
pub fn line(layout: Layout) -> &'static str {
    if layout == PRODUCT { "preheat --id 1 --adopt --yes --total 13" } else { "preheat --id 1 --adopt --yes" }
}

/// The verdict and the proof of its audit.
#[track_caller]
pub fn assert_proven(redis: &TestRedis, layout: Layout) {
    let audit = json_call(redis, layout, "reconcile 1").code(0).json();
    let row = &audit["activities"][0];
    assert_eq!(row["verdict"], "match", "{layout:?}: {audit}");
    assert_eq!(row["proof"], "ledger", "{layout:?}: {audit}");
}

#[test]
fn unusual_participants_are_adopted_as_the_bytes_they_are() {
    for layout in [SECKILL, COUPON] {
        let redis = TestRedis::start();
        redis.cmd(("SET", layout.stock("1"), "10"));
        let users: [&[u8]; 6] = [b"\xc4\xe3", b" a", b"", b"\"\\\x01\0", b"\xff\xfe", "中".as_bytes()];
        for user in users {
            match layout.kind {
                "hash" => redis.cmd(("HSET", layout.participants("1"), user, "1")),
                _ => redis.cmd(("SADD", layout.participants("1"), user)),
            };
        }
        let row = json_call(&redis, layout, "preheat --id 1 --adopt --yes").code(0).json()[0].clone();
        assert_eq!(row["total"], 16, "{layout:?}");
        assert_proven(&redis, layout);
        json_call(&redis, layout, "refund 1 --user-hex c4e3").code(0);
        assert_eq!(redis.int(&layout.stock("1")), 11, "{layout:?}");
        assert_proven(&redis, layout);
    }
}
