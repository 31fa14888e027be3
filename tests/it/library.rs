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

#[allow(dead_code, reason = "its main is not called here")]
#[path = "../../examples/sharded_sale.rs"]
mod sharded_sale;

#[test]
fn of_a_thousand_units_over_sixteen_shards_most_are_sold_without_borrowing() {
    let sale = sharded_sale::Sale { stock: 1_000, shards: 16, favourite: None };
    let (without, with) = (sale.run(false).unwrap(), sale.run(true).unwrap());
    assert_eq!((with.sold, with.refused_wrongly), (1_000, 0));
    assert!(with.at_home >= 950, "{with:?}");
    assert!(without.refused_wrongly > 50 && without.left_at_first > Some(100), "{without:?}");
    let mut log = Vec::new();
    sharded_sale::report(&sale, &mut log).unwrap();
    assert!(String::from_utf8(log).unwrap().contains("with borrowing     0.0 % refused wrongly"));
}
