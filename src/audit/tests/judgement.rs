//! Verdicts, proofs and differences.

use crate::audit::evidence::mismatch::Mismatch;
use crate::audit::ledger_state::NewerMoves;
use crate::audit::result::Difference;
use crate::audit::tests::*;
use crate::model::StoredUser;
use crate::model::order::Corrupt;
use crate::model::order::hold::OpenCounts;

#[test]
fn order_records_of_all_units_prove_a_bare_counter() {
    let recorded = Sale { ledger: None, orders: Some(vec![("", 3)]), ..sale(Layout::Product) };
    assert_eq!(recorded.judged(), (Verdict::Match, Proof::Orders, Vec::new()));
}

#[test]
fn members_that_lost_their_units_hold_what_the_ledger_says_and_drift() {
    let lost = Sale { held: vec![("a", -1), ("b", 2)], ..sale(Layout::Sku) };
    assert_eq!(lost.judged(), (Verdict::Drift, Proof::Ledger, vec!["counter_drift a - 1 -".to_owned()]));
    assert_eq!((lost.audit().bought, lost.audit().drift), (Some(3), Some(0)));
    let recorded = |units| Sale { orders: Some(vec![("a", units), ("b", 2)]), ..lost.clone() }.judged().2;
    assert_eq!(recorded(1), ["counter_drift a - 1 1"]);
    assert_eq!(recorded(3), ["quantity_mismatch a - 1 3"], "the records decide");
}

#[test]
fn an_activity_the_records_dont_mention_is_one_counted_difference() {
    let unnamed = Sale { orders: Some(vec![]), named: false, ..sale(Layout::Seckill) };
    assert_eq!(unnamed.judged(), (Verdict::Drift, Proof::Ledger, vec!["missing_order - 3 3 0 of 2".to_owned()]));
    for sale in [unnamed.clone(), Sale { stock: Some(5), ..unnamed.clone() }] {
        assert_eq!((sale.repairs(), sale.kept()), (vec![], vec![]));
    }
    assert_eq!(unnamed.audit().missing_orders, []);
    let scanned = Sale { ledger: None, ..unnamed.clone() };
    assert_eq!(scanned.judged(), (Verdict::Drift, Proof::Total, vec!["missing_order - 3 - 0 of 2".to_owned()]));
    let unsold = Sale { ledger: Some(vec![]), held: vec![], stock: Some(10), ..unnamed.clone() };
    assert_eq!(unsold.judged(), (Verdict::Match, Proof::Ledger, Vec::new()));
    let counter = Sale { layout: Layout::Product, ..unnamed };
    assert_eq!(counter.judged().2, ["missing_order - 3 3 0"]);
    assert_eq!(counter.repairs(), NONE);
}

#[test]
fn who_holds_the_limit_and_not_what_the_ledger_says_is_not_over_it() {
    let drifted = Sale { ledger: Some(vec![("a", 1), ("b", 1)]), ..sale(Layout::Seckill) };
    let audit = judge(limited(&drifted, 2), MissingOrders::Repair);
    assert_eq!(audit.differences.iter().map(|it| it.class).collect::<Vec<_>>(), [Class::CounterDrift]);
}

#[test]
fn a_user_who_gave_back_more_than_the_records_have_lacks_no_order() {
    let refunds = Sale { orders: Some(vec![("a", -1), ("b", 2)]), ..sale(Layout::Seckill) };
    assert_eq!(refunds.audit().missing_orders, []);
    let lacking = Sale { orders: Some(vec![("a", 0), ("b", 2)]), ..refunds };
    assert_eq!(lacking.audit().missing_orders.len(), 1);
}

#[test]
fn what_is_not_settled_is_no_match_and_lacks_nothing() {
    let lacking = |settled| {
        let mut lacking = Sale { orders: Some(vec![("a", 1)]), ..sale(Layout::Seckill) }.evidence();
        lacking.settled = settled;
        let audit = judge(lacking, MissingOrders::Repair);
        (audit.proof, audit.missing_orders.len(), audit.plan.repairs.len())
    };
    assert_eq!((lacking(true), lacking(false)), ((Proof::Ledger, 1, 1), (Proof::None, 0, 0)));
    let moving = Evidence { settled: false, ..sale(Layout::Seckill).evidence() };
    assert_eq!(judge(moving, MissingOrders::Repair).verdict, Verdict::Unsettled);
}

#[test]
fn nothing_proves_what_is_corrupt_and_a_lost_stock_key_is_not_named_then() {
    let mut corrupt = Sale { stock: None, ..sale(Layout::Seckill) }.evidence();
    corrupt.corrupt = Some(Corrupt { key: "a key".to_owned(), what: "is a list".to_owned() });
    let audit = judge(corrupt, MissingOrders::Repair);
    assert_eq!(audit.proof, Proof::None);
    assert!(!audit.notes.iter().any(|note| note.contains("stock key")), "{:?}", audit.notes);
}

#[test]
fn a_member_who_bought_nothing_but_what_is_newer_lacks_no_order() {
    let mut evidence = Sale { orders: Some(vec![("a", 1), ("b", 2)]), ..sale(Layout::Sku) }.evidence();
    let user = evidence.ledger.user(b"c");
    let newer = NewerMoves { net: 2, high: 2, ..NewerMoves::default() };
    evidence.mismatches.push(Mismatch { user, holds: Holding::Unknown, ledger: None, orders: Some(0), newer, open: 0 });
    assert_eq!(judge(evidence, MissingOrders::Repair).missing_orders, []);
}

#[test]
fn a_count_of_open_holds_that_is_partial_shows_no_number_of_them() {
    let mut evidence = sale(Layout::Seckill).evidence();
    let users = vec![(StoredUser::new("a"), Some(2), 1)];
    evidence.open = Some(OpenCounts { stored: 9, counted: 1, undated: 0, is_partial: true, users });
    let differences = judge(evidence, MissingOrders::Repair).differences;
    assert_eq!(differences, [Difference::of(Class::OpenCount, Some(RecordedUnits::Units(9)), None)]);
}
