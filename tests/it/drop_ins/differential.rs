//! Random calls: on all that is sane a drop-in replies and writes what the plain script does. `hostile.rs` has the rest.

use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use super::{ALL, Caller, DropIn, are_equal};
use crate::support::TestRedis;

const USERS: [&str; 6] = ["7", "07", "a b", "王小明", "7.0", "+7"];

/// Arguments that a shop sends.
fn sane(drop_in: DropIn) -> BoxedStrategy<Vec<Vec<u8>>> {
    let user = || proptest::sample::select(&USERS[..]).prop_map(str::to_owned);
    let quantity = || (1..5_u64).prop_map(|units| units.to_string());
    let limit = (0..7_u64).prop_map(|units| units.to_string());
    let args = match drop_in.name {
        "seckill" => (user(), quantity(), limit).prop_map(|(user, units, limit)| vec![user, units, limit]).boxed(),
        "sku" => (quantity(), user()).prop_map(|(units, user)| vec![units, user]).boxed(),
        "sku-multi" => (quantity(), quantity()).prop_map(|(one, two)| vec![one, two]).boxed(),
        "coupon" => user().prop_map(|user| vec![user]).boxed(),
        "hm-dianping" => (user(), user()).prop_map(|(user, order)| vec!["1".to_owned(), user, order]).boxed(),
        _ => quantity().prop_map(|units| vec![units]).boxed(),
    };
    args.prop_map(|args| args.into_iter().map(String::into_bytes).collect()).boxed()
}

#[test]
fn on_sane_calls_a_drop_in_is_the_plain_script() {
    let (redis, other) = (TestRedis::start(), TestRedis::start());
    // The same calls each time.
    let config = Config { cases: 10, failure_persistence: None, ..Config::default() };
    let mut runner = TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha));
    for drop_in in ALL {
        let history = (0..30_u64, proptest::collection::vec(sane(drop_in), 1..40));
        let (ours, plain) = (Caller::of(&redis, drop_in), Caller::plain(&other, drop_in));
        let run = |(stock, calls): (u64, Vec<Vec<Vec<u8>>>)| {
            for server in [&redis, &other] {
                server.cmd("FLUSHALL");
                drop_in.stock(server, &stock.to_string());
            }
            for args in &calls {
                let replies = (ours.call(drop_in.keys, args), plain.call(drop_in.keys, args));
                prop_assert_eq!(&replies.0, &replies.1, "{} {:?} of {:?}", drop_in.name, args, calls);
            }
            are_equal(&redis, &other);
            Ok(())
        };
        runner.run(&history, run).unwrap();
    }
}
