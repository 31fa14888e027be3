//! The rules in plain Rust against random histories: every reply and every key afterwards, for each layout.
//!
//! The seed is fixed, so that a failure comes again; `PROPTEST_RNG_SEED` and `PROPTEST_CASES` choose others. A third of the cases
//! run unless searches are full.

mod checks;
mod history;
mod holds;
mod rules;

use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use crate::support::{CLUSTER, COUPON, Layout, PRODUCT, SECKILL, SKU, Scripts, TestRedis, has_full_searches};
use history::{Step, histories};
use rules::Sale;

/// A runner of this number of cases at full size; other cases for each name.
pub fn runner(cases: u32, name: &str) -> TestRunner {
    let mut seed = [7; 32];
    seed[8..].iter_mut().zip(name.bytes()).for_each(|(byte, letter)| *byte ^= letter);
    if let Some(chosen) = std::env::var("PROPTEST_RNG_SEED").ok().and_then(|text| text.parse::<u64>().ok()) {
        seed[..8].copy_from_slice(&chosen.to_le_bytes());
    }
    let cases = if has_full_searches() { cases } else { cases.div_ceil(3) };
    let cases = std::env::var("PROPTEST_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(cases);
    let config = Config { cases, failure_persistence: None, max_shrink_iters: 100, ..Config::default() };
    TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &seed))
}

/// Histories driven by EVALSHA over one connection.
fn scripts_keep_the_rules(layout: Layout) {
    let redis = TestRedis::start();
    let mut runner = runner(40, layout.name);
    runner
        .run(&histories(layout, 25), |steps| {
            redis.cmd(&["FLUSHALL"]);
            let mut scripts = Scripts::of(&redis, layout);
            let mut sale = Sale::new(layout);
            for (nth, step) in steps.iter().enumerate() {
                if sale.has_lost_records(step) {
                    continue;
                }
                let (expected, replied) = (sale.apply(step), checks::by_script(&redis, &mut scripts, step));
                proptest::prop_assert_eq!(&replied, &expected, "step {} {:?} of {:#?}", nth, step, &steps[..nth]);
            }
            let differs = checks::keys_differ(&redis, &sale);
            proptest::prop_assert!(differs.is_none(), "{}\nafter {:#?}", differs.unwrap_or_default(), steps);
            Ok(())
        })
        .unwrap();
}

/// A few of them driven through the binary, whose words are compared.
fn the_binary_keeps_the_rules(layout: Layout) {
    let redis = TestRedis::start();
    let mut runner = runner(3, layout.name);
    runner
        .run(&histories(layout, 12), |steps| {
            redis.cmd(&["FLUSHALL"]);
            let mut sale = Sale::new(layout);
            let steps = steps.iter().filter(|step| !matches!(step, Step::Orders { .. } | Step::Plain { .. }));
            for step in steps.clone().map(Step::as_first_try) {
                let step = &step;
                let (expected, replied) = (sale.apply(step), checks::by_binary(&redis, layout, step));
                let expected = checks::status_of(step, &expected);
                proptest::prop_assert_eq!(&replied, &expected, "{:?} of {:#?}", step, steps.collect::<Vec<_>>());
            }
            let differs = checks::keys_differ(&redis, &sale);
            proptest::prop_assert!(
                differs.is_none(),
                "{}\nafter {:#?}",
                differs.unwrap_or_default(),
                steps.collect::<Vec<_>>()
            );
            Ok(())
        })
        .unwrap();
}

macro_rules! layouts {
    ($($name:ident: $layout:expr;)*) => {$(
        mod $name {
            #[test]
            fn scripts_keep_the_rules() {
                super::scripts_keep_the_rules($layout);
            }

            #[test]
            fn the_binary_keeps_the_rules() {
                super::the_binary_keeps_the_rules($layout);
            }
        }
    )*};
}

layouts! {
    seckill: super::SECKILL;
    sku: super::SKU;
    coupon: super::COUPON;
    product: super::PRODUCT;
    cluster: super::CLUSTER;
}
