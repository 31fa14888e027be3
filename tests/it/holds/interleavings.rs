//! Every interleaving of hold, confirm, release, abort, expire, retries and late messages, with scripts that are cut after any
//! write, keeps what was promised: by the rules in `model/`, to which `histories.rs` holds the scripts.
//!
//! Full searches (`SECKILL_TEST_SEARCHES=full`) look at more kinds, and follow each hold of each sale; that takes half a minute.

use super::model::search::Search;
use super::model::{Flaw, Kind, Sale};
use crate::support::has_full_searches;

/// Two users of whom one has two holds, short of stock and of the limit.
pub const HASH: Sale = Sale { kind: Kind::Hash, total: 2, limit: 2, holds: &[(0, 1), (0, 2), (1, 1)] };
pub const SET: Sale = Sale { kind: Kind::Set, total: 3, limit: 3, holds: &[(0, 1), (0, 2), (1, 2)] };
pub const COUPON: Sale = Sale { kind: Kind::Coupon, total: 1, limit: 1, holds: &[(0, 1), (0, 1), (1, 1)] };
const THREE_USERS: Sale = Sale { kind: Kind::Hash, total: 3, limit: 3, holds: &[(0, 1), (1, 1), (2, 2)] };

/// The same with the first two holds.
pub fn two_of(sale: Sale) -> Sale {
    Sale { holds: &sale.holds[..2], ..sale }
}

/// Looks at every state of some sales, each with the hold that is followed.
fn check(sales: &[(Sale, usize)], cuts: u8) {
    let holds = sales[0].0.holds.len();
    let all = [HASH, SET, COUPON, THREE_USERS].into_iter().flat_map(|sale| (0..holds).map(move |of| (sale, of)));
    let all: Vec<_> = all.map(|(sale, of)| (Sale { holds: &sale.holds[..holds], ..sale }, of)).collect();
    for (sale, of) in if has_full_searches() { &all } else { sales } {
        let found = Search { sale: *sale, flaw: Flaw::None, cuts, of: *of }.run();
        let found = found.unwrap_or_else(|broken| panic!("{sale:?}: {broken}"));
        assert!(found.states.len() > 5_000, "only {} states of {sale:?}", found.states.len());
    }
}

#[test]
fn three_holds_with_late_messages_keep_every_rule() {
    check(&[(HASH, 0), (HASH, 1), (HASH, 2), (COUPON, 1)], 0);
}

#[test]
fn a_cut_of_any_script_among_three_holds_sells_no_unit_twice() {
    check(&[(COUPON, 0)], 1);
}

#[test]
fn two_cuts_among_two_holds_sell_no_unit_twice() {
    check(&[(two_of(HASH), 1), (two_of(SET), 0)], 2);
}

#[test]
fn each_broken_rule_is_noticed() {
    for (flaw, cuts, rule) in [
        (Flaw::StockReturnsFirst, 1, "2 for sale and 1 taken of 2"),
        (Flaw::RecordedFirst, 1, "2 for sale and 1 taken of 2"),
        (Flaw::ExpireTrustsDeadlines, 1, "hold 0 was Absent and became Expired"),
        (Flaw::RefusedPaymentIsForgotten, 0, "somebody heard otherwise"),
        (Flaw::RefusedRetryIsForgotten, 0, "somebody heard otherwise"),
        (Flaw::CutIsForgotten, 1, "open units are counted wrong"),
        (Flaw::BegunIsForgotten, 1, "open units are counted wrong"),
        (Flaw::NoTombstone, 0, "somebody heard otherwise"),
        (Flaw::ConfirmIsDecidedTwice, 0, "was Confirmed and became Confirmed"),
    ] {
        let broken = Search { sale: two_of(HASH), flaw, cuts, of: 0 }.run().err().unwrap_or_default();
        assert!(broken.contains(rule), "{flaw:?} is noticed by nothing, or by another rule: {broken}");
    }
}
