//! The index names every activity before its keys exist, and gets back what it lost.

use crate::support::{Fault, Proxy, TestRedis, When};

#[test]
fn an_activity_is_in_the_index_before_its_keys_exist() {
    for flags in [&[][..], &["--update"], &["--reset"]] {
        let redis = TestRedis::start();
        redis.seckill(["script", "load"]).code(0);
        let proxy = Proxy::before(&redis);
        proxy.inject(When::Next("SADD"), Fault::Hold);
        let call = proxy.seckill(["preheat", "--id", "1", "--stock", "3"]).args(flags).spawn();
        proxy.wait_until_held();
        assert_eq!(redis.smembers("seckill:activities").len(), 1, "{flags:?}");
        assert!(!redis.exists("seckill:stock:1") && !redis.exists("seckill:meta:1"), "{flags:?}");
        proxy.release();
        call.wait().code(0);
        assert_eq!(redis.int("seckill:stock:1"), 3, "{flags:?}");
    }
}

#[test]
fn an_index_that_was_lost_comes_back_with_the_next_preheat() {
    let redis = TestRedis::start();
    let fixture = "activities: [{id: 1, stock: 3}, {id: 2, stock: 3}]";
    for how in ["--dry-run", "--update", "-q"] {
        redis.seckill(["preheat", "-"]).stdin(fixture).code(0);
        redis.cmd(&["DEL", "seckill:activities"]);
        redis.seckill(["preheat", "-", how]).stdin(fixture).code(0);
        let expected = if how == "--dry-run" { 0 } else { 2 };
        assert_eq!(redis.smembers("seckill:activities").len(), expected, "{how}");
    }
}
