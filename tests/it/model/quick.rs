//! Quick paths refuse whatever the reference path refuses: the same call, with hostile arguments and on damaged data,
//! to a script as it is and to a copy without its quick path. Replies and all data afterwards are equal.
//!
//! `PROPTEST_RNG_SEED` and `PROPTEST_CASES` choose other histories, and more of them.

mod calls;
mod damage;
mod long;
mod multi;
mod outcome;
mod single;
mod twins;

use std::cell::RefCell;

use proptest::prelude::*;

use super::runner;
use crate::support::{CLUSTER, COUPON, Layout, PRODUCT, SECKILL, SKU};
use calls::Shape;
use damage::{Damage, Edit};
use twins::{JUST_OVER, NOW, SOON, Twins};

/// Texts that are no plain value of any kind, or only of some.
pub const HOSTILE: [&[u8]; 48] = [
    b"",
    b"0",
    b"00",
    b"007",
    b"1e3",
    b"-5",
    b"+5",
    b" 5",
    b"5 ",
    b"0x10",
    b"1.5",
    b"nan",
    b"inf",
    b"9 9 9",
    b"1 2 3",
    b"3 2 1",
    b"1 1",
    b"1  2",
    b"1-3",
    b"3-1",
    b"1-1",
    b"5-",
    b"-",
    b"2-3-4",
    b"1,2",
    b"999999999",
    b"1000000000",
    b"1000000001",
    b"9999999999999",
    b"99999999999999",
    b"9007199254740991",
    b"9007199254740992",
    b"99999999999999999999",
    b"all",
    b"\"",
    b"a\"b",
    b"a\\b",
    b"\\u0041",
    b"tab\there",
    b"\x01",
    b"\x7f",
    b"\xff\xfe",
    "用户".as_bytes(),
    b"[]",
    b"[1,2]",
    b"[\"1\"",
    b"{}",
    b"null",
];

/// One call, what is done to its arguments, and to the data before it.
#[derive(Clone, Debug)]
struct Step<C> {
    call: C,
    edits: Vec<Edit>,
    damage: Option<Damage>,
    /// A command that the caller may not run, by its place in the header.
    denied: Option<usize>,
}

fn hostile() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![40 => proptest::sample::select(&HOSTILE[..]).prop_map(<[u8]>::to_vec), 1 => Just(vec![b'x'; 300])]
}

fn steps<C: Clone + std::fmt::Debug>(
    call: impl Strategy<Value = C>,
    damage: impl Strategy<Value = Damage>,
) -> impl Strategy<Value = Vec<Step<C>>> {
    let edits = prop_oneof![
        14 => Just(Vec::new()),
        4 => proptest::collection::vec(damage::edit(), 1),
        1 => proptest::collection::vec(damage::edit(), 2..4),
    ];
    let damage = proptest::option::weighted(0.2, damage);
    let step = (call, edits, damage, proptest::option::weighted(0.02, 0..20_usize));
    let step = step.prop_map(|(call, edits, damage, denied)| Step { call, edits, damage, denied });
    proptest::collection::vec(step, 1..20)
}

/// What the activity is preheated with: total, limit, window, ledger, paused.
fn sales() -> impl Strategy<Value = Shape> {
    (
        prop_oneof![1 => Just(0_u64), 2 => Just(3), 4 => Just(12), 6 => Just(1_000), 1 => Just(99_999_999_999_999)],
        prop_oneof![3 => Just(None), 2 => Just(Some(2)), 1 => Just(Some(1)), 1 => Just(Some(99_999_999_999_999))],
        prop_oneof![16 => Just(["", ""]), 1 => Just(["=1000", ""]), 1 => Just(["", "=9000000000000"]),
            1 => Just(["=9000000000000", ""]), 1 => Just(["", "=1000"]), 1 => Just([NOW, SOON]), 1 => Just([SOON, ""]),
            1 => Just([JUST_OVER, NOW])],
        prop::bool::weighted(0.93),
        prop::bool::weighted(0.05),
    )
        .prop_map(|(total, limit, window, ledger, paused)| Shape { total, limit, window, ledger, paused })
}

/// A call that can be made of the state of the sale: the script, its keys and arguments.
trait AsArguments: Clone + std::fmt::Debug {
    fn arguments(&self, layout: Layout, twins: &mut Twins) -> (&'static str, Vec<String>, Vec<Vec<u8>>);
}

fn a_quick_path_does_what_the_reference_path_does<C: AsArguments>(
    layout: Layout,
    activities: &'static [&'static str],
    call: impl Strategy<Value = C>,
    cases: u32,
) -> RefCell<Twins> {
    let twins = RefCell::new(Twins::of(layout, activities));
    let mut runner = runner(cases, layout.name);
    runner
        .run(&(sales(), steps(call, damage::damage(layout))), |(shape, steps)| {
            let mut twins = twins.borrow_mut();
            twins.preheat(&shape);
            for (nth, step) in steps.iter().enumerate() {
                let (script, keys, mut args) = step.call.arguments(layout, &mut twins);
                step.edits.iter().for_each(|edit| edit.apply(&mut args));
                let damage = step.damage.as_ref();
                let found = twins.run((script, &keys, &args), damage, step.denied);
                let shown: Vec<String> = args.iter().map(|arg| arg.escape_ascii().to_string()).collect();
                prop_assert!(found.is_ok(), "{}\nin step {nth} of {steps:#?}\n{shown:?}", found.unwrap_err());
            }
            Ok(())
        })
        .unwrap();
    twins
}

#[test]
fn the_quick_path_of_multi_orders_does_what_the_reference_path_does() {
    for (layout, cases) in [(SECKILL, 70), (CLUSTER, 10)] {
        let twins = a_quick_path_does_what_the_reference_path_does(layout, &multi::ACTIVITIES, multi::call(), cases);
        twins.borrow().assert_both_paths_were_used(5);
    }
}

#[test]
fn quick_paths_leave_other_kinds_to_the_reference_path_or_agree() {
    for layout in [SKU, COUPON, PRODUCT] {
        a_quick_path_does_what_the_reference_path_does(layout, &multi::ACTIVITIES, multi::call(), 10);
    }
}
