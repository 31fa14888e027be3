//! What is said of activities of other layouts.

use crate::support::TestRedis;

#[test]
fn nothing_to_audit_is_exit_3_and_names_the_layouts_that_have_activities() {
    let redis = TestRedis::start();
    redis.seckill(["preheat", "--id", "1", "--stock", "5", "-l", "sku"]).code(0);
    redis.seckill(["preheat", "--id", "2", "--stock", "5", "-l", "sku"]).code(0);
    redis.seckill(["preheat", "--id", "1", "--stock", "5", "-l", "cluster"]).code(0);
    let call = redis.seckill(["reconcile", "-o", "json"]).code(3).stdout_is("");
    assert_eq!(
        call.error_json()["hint"],
        "`--layout sku` has 2, `--layout cluster` has 1; `seckill inspect --scan` searches for activities that the \
         index does not name"
    );
    redis.seckill(["reconcile", "-l", "sku"]).code(0);
}

#[test]
fn an_activity_of_another_layout_is_named_with_it() {
    let redis = TestRedis::start();
    redis.seckill(["preheat", "--id", "1", "--stock", "5", "-l", "sku"]).code(0);
    redis.seckill(["reconcile", "1"]).code(3).stderr_has("`1` exists in the layout `sku`: add `--layout sku`");
}
