//! The library as a backend in Rust uses it: the example, on a real server.

use crate::support::TestRedis;

#[allow(dead_code, reason = "its main is not called here")]
#[path = "../../examples/backend.rs"]
mod backend;

#[test]
fn the_example_of_a_backend_sells_refunds_and_audits() {
    let redis = TestRedis::start();
    let mut log = Vec::new();
    backend::sell(&redis.url(), &mut log).unwrap();
    assert_eq!(
        String::from_utf8(log).unwrap(),
        "preheat: ok, stock 3\n\
         deduct: sold (ok), stock 1\n\
         deduct: sold before, by the same request (replayed), stock 1\n\
         deduct: refused (limit_exceeded), stock 1\n\
         refund: ok, stock 2\n\
         audit: match\n"
    );
    redis.seckill(["reconcile", "phone"]).code(0).stdout_has("match");
}
