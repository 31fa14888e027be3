//! The index names every activity before its keys exist.

use crate::support::{Proxy, TestRedis, When};

#[test]
fn an_activity_is_in_the_index_before_its_keys_exist() {
    for flags in [&[][..], &["--update"], &["--reset"]] {
        let redis = TestRedis::start();
        redis.seckill(["script", "load"]).code(0);
        let proxy = Proxy::before(&redis);
        let call = proxy
            .start_and_hold(When::Next("SADD"), proxy.seckill(["preheat", "--id", "1", "--stock", "3"]).args(flags));
        assert_eq!(redis.smembers("seckill:activities").len(), 1, "{flags:?}");
        assert!(!redis.exists("seckill:stock:1") && !redis.exists("seckill:meta:1"), "{flags:?}");
        proxy.release();
        call.wait().code(0);
        assert_eq!(redis.int("seckill:stock:1"), 3, "{flags:?}");
    }
}
