//! Verdicts, proofs and differences.

use crate::audit::evidence::mismatch::Mismatch;
use crate::audit::ledger_state::Newer;
use crate::audit::tests::*;
use crate::model::order::Corrupt;

#[test]
fn a_match_names_its_proof_and_without_one_it_is_unproven() {
    for layout in [Layout::Seckill, Layout::Sku, Layout::Product] {
        let whole = sale(layout);
        assert_eq!(whole.judged(), (Verdict::Match, Proof::Ledger, Vec::new()), "{layout:?}");
        let recorded = Sale { ledger: None, orders: whole.ledger.clone(), ..whole.clone() };
        let recorded = match layout {
            Layout::Product => Sale { orders: Some(vec![("", 3)]), ..recorded },
            _ => recorded,
        };
        assert_eq!(recorded.judged(), (Verdict::Match, Proof::Orders, Vec::new()), "{layout:?}");
        let bare = Sale { ledger: None, ..whole.clone() };
        let by_total =
            if layout == Layout::Product { (Verdict::Unproven, Proof::None) } else { (Verdict::Match, Proof::Total) };
        assert_eq!((bare.audit().verdict, bare.audit().proof), by_total, "{layout:?}");
        let foreign = Sale { total: None, ..bare };
        assert_eq!((foreign.audit().verdict, foreign.audit().proof), (Verdict::Unproven, Proof::None), "{layout:?}");
    }
}

#[test]
fn members_without_units_are_unproven_and_never_repaired() {
    // Ten units, sold out by a script that records no quantities.
    let plain = Sale {
        stock: Some(0),
        ledger: None,
        held: vec![("a", -1), ("b", -1), ("c", -1), ("d", -1), ("e", -1)],
        ..sale(Layout::Sku)
    };
    assert_eq!(plain.judged(), (Verdict::Unproven, Proof::None, Vec::new()));
    assert_eq!((plain.audit().bought, plain.audit().drift, plain.repairs()), (None, None, vec![]));
    // Order records say what they hold.
    let orders = Some(["a", "b", "c", "d", "e"].map(|user| (user, 2)).to_vec());
    let recorded = Sale { orders, ..plain.clone() };
    assert_eq!(recorded.judged(), (Verdict::Match, Proof::Orders, Vec::new()));
    assert_eq!(recorded.audit().bought, Some(10));
    // One of them has no order: the units return, and the user is no member any more.
    let orders = Some(["a", "b", "c", "d"].map(|user| (user, 2)).to_vec());
    let missing = Sale { orders, ..plain.clone() };
    assert_eq!(missing.judged().2, ["missing_order e - - 0"]);
    assert_eq!(missing.repairs(), ["conservation - 0 0 +2", "missing_order e ? 0 +0"]);
    // With a ledger that doesn't know them, they differ from it.
    let beside = Sale { ledger: Some(vec![]), held: vec![("c", -1)], stock: Some(8), ..sale(Layout::Sku) };
    assert_eq!(beside.judged(), (Verdict::Drift, Proof::Ledger, vec!["counter_drift c - 0 -".to_owned()]));
    assert_eq!(beside.repairs(), NONE);
    // With one that does, they hold what it says.
    let known = Sale { held: vec![("a", -1), ("b", -1)], ..sale(Layout::Sku) };
    assert_eq!(known.judged(), (Verdict::Match, Proof::Ledger, Vec::new()));
}

#[test]
fn an_activity_the_records_dont_mention_is_one_counted_difference() {
    let unnamed = Sale { orders: Some(vec![]), named: false, ..sale(Layout::Seckill) };
    assert_eq!(unnamed.judged(), (Verdict::Drift, Proof::Ledger, vec!["missing_order - 3 3 0 of 2".to_owned()]));
    for sale in [unnamed.clone(), Sale { stock: Some(5), ..unnamed.clone() }] {
        assert_eq!((sale.repairs(), sale.kept()), (vec![], vec![]));
    }
    assert_eq!(unnamed.audit().missing_orders, []);
    let named = Sale { named: true, ..unnamed.clone() };
    assert_eq!(named.judged().2, ["missing_order - 3 3 0 of 2"]);
    assert_eq!(named.repairs(), ["missing_order b 2 0 +2", "missing_order a 1 0 +1"]);
    assert_eq!(named.audit().missing_orders.len(), 2);
    let scanned = Sale { ledger: None, ..unnamed.clone() };
    assert_eq!(scanned.judged(), (Verdict::Drift, Proof::Total, vec!["missing_order - 3 - 0 of 2".to_owned()]));
    let unsold = Sale { ledger: Some(vec![]), held: vec![], stock: Some(10), ..unnamed.clone() };
    assert_eq!(unsold.judged(), (Verdict::Match, Proof::Ledger, Vec::new()));
    let counter = Sale { layout: Layout::Product, ..unnamed };
    assert_eq!(counter.judged().2, ["missing_order - 3 3 0"]);
    assert_eq!(counter.repairs(), NONE);
}

#[test]
fn missing_orders_are_what_records_lack_and_emitted_is_no_repair() {
    let orders = Some(vec![("a", 3), ("c", 1)]);
    let repeat = Sale {
        held: vec![("a", 5), ("b", 2)],
        ledger: Some(vec![("a", 5), ("b", 2)]),
        stock: Some(3),
        orders,
        ..sale(Layout::Seckill)
    };
    let missing = |audit: &Audit| {
        let row = |missing: &crate::audit::result::MissingOrder| {
            format!("{} {}", missing.user.as_ref().unwrap(), missing.quantity)
        };
        let mut rows: Vec<String> = audit.missing_orders.iter().map(row).collect();
        rows.sort();
        rows
    };
    assert_eq!(missing(&repeat.audit()), ["a 2", "b 2"]);
    assert_eq!(repeat.repairs(), ["missing_purchase c 0 1 -1", "quantity_mismatch a 5 3 +2", "missing_order b 2 0 +2"]);
    let emitted = judge(repeat.evidence(), MissingOrders::Emit);
    assert_eq!(
        (missing(&emitted), shown(&emitted)),
        (missing(&repeat.audit()), vec!["missing_purchase c 0 1 -1".to_owned()])
    );
    let counter = Sale { orders: Some(vec![("", 1)]), ..sale(Layout::Product) };
    let emitted = judge(counter.evidence(), MissingOrders::Emit);
    assert_eq!((emitted.missing_orders[0].quantity, shown(&emitted)), (2, vec![]));
}

#[test]
fn who_holds_the_limit_does_not_hold_more() {
    let over = |limit| {
        let mut evidence = sale(Layout::Seckill).evidence();
        evidence.end.as_mut().unwrap().meta.as_mut().unwrap().per_user_limit = Some(limit);
        evidence.mismatches.clear();
        let user = evidence.ledger.user(b"b");
        evidence.mismatches.extend(evidence.ledger.mismatch(user, Holding::Units(2), Some(limit), true));
        let audit = judge(evidence, MissingOrders::Repair);
        audit.differences.iter().map(|difference| difference.class).collect::<Vec<_>>()
    };
    assert_eq!((over(2), over(1)), (vec![], vec![Class::OverLimit]));
    // Who holds the limit, and not what the ledger says.
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
fn what_is_not_there_or_not_settled_is_no_match() {
    let mut gone = sale(Layout::Seckill).evidence();
    (gone.end, gone.by_ledger) = (None, false);
    gone.mismatches.clear();
    assert_eq!(judge(gone, MissingOrders::Repair).verdict, Verdict::NotPreheated);
    let mut moving = sale(Layout::Seckill).evidence();
    moving.settled = false;
    let moving = judge(moving, MissingOrders::Repair);
    assert_eq!((moving.verdict, moving.proof), (Verdict::Unsettled, Proof::None));
    // What the records lack is not known either.
    let lacking = |settled| {
        let mut lacking = Sale { orders: Some(vec![("a", 1)]), ..sale(Layout::Seckill) }.evidence();
        lacking.settled = settled;
        let audit = judge(lacking, MissingOrders::Repair);
        (audit.missing_orders.len(), audit.plan.repairs.len())
    };
    assert_eq!((lacking(true), lacking(false)), ((1, 1), (0, 0)));
    let mut corrupt = sale(Layout::Seckill).evidence();
    corrupt.corrupt = Some(Corrupt { key: "a key".to_owned(), what: "is a list".to_owned() });
    assert_eq!(judge(corrupt, MissingOrders::Repair).proof, Proof::None);
}

#[test]
fn a_lost_stock_key_comes_with_a_way_out() {
    let notes = |sale: Sale| sale.audit().notes.join(". ");
    let lost = Sale { stock: None, ..sale(Layout::Seckill) };
    assert!(notes(lost.clone()).contains("`reconcile --fix` restores it"), "{}", notes(lost));
    let unproven = Sale { stock: None, ledger: None, held: vec![], ..sale(Layout::Seckill) };
    assert!(notes(unproven.clone()).contains("`preheat --adopt`"), "{}", notes(unproven));
    let counter = Sale { stock: None, ledger: None, ..sale(Layout::Product) };
    assert!(notes(counter.clone()).ends_with("compare it with all order records (`--orders`)"), "{}", notes(counter));
    assert_eq!(notes(sale(Layout::Seckill)), "");
    let mut corrupt = Sale { stock: None, ..sale(Layout::Seckill) }.evidence();
    corrupt.corrupt = Some(Corrupt { key: "a key".to_owned(), what: "is a list".to_owned() });
    assert!(!judge(corrupt, MissingOrders::Repair).notes.iter().any(|note| note.contains("stock key")));
}

#[test]
fn without_a_ledger_newer_purchases_look_like_missing_orders() {
    let says = |sale: Sale| sale.audit().notes.iter().any(|note| note.contains("newer than the order records"));
    let lacking = Sale { orders: Some(vec![("b", 2)]), ..sale(Layout::Seckill) };
    assert!(!says(lacking.clone()));
    assert!(says(Sale { ledger: None, ..lacking.clone() }));
    assert!(!says(Sale { ledger: None, orders: Some(vec![("a", 1), ("b", 2)]), ..lacking }));
}

#[test]
fn a_stock_that_is_off_is_shown_beside_what_the_ledger_leaves() {
    let off = Sale { stock: Some(6), ..sale(Layout::Seckill) };
    assert_eq!(off.judged().2, ["conservation - 6 7 -"]);
    assert_eq!(Sale { ledger: None, ..off }.judged().2, ["conservation - 6 - -"]);
}

#[test]
fn a_member_who_bought_nothing_but_what_is_newer_lacks_no_order() {
    let mut evidence = Sale { orders: Some(vec![("a", 1), ("b", 2)]), ..sale(Layout::Sku) }.evidence();
    let user = evidence.ledger.user(b"c");
    let newer = Newer { net: 2, low: 0, high: 2, closed: 0 };
    evidence.mismatches.push(Mismatch { user, holds: Holding::Unknown, ledger: None, orders: Some(0), newer, open: 0 });
    assert_eq!(judge(evidence, MissingOrders::Repair).missing_orders, []);
}
