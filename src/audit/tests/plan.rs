//! Plans of repairs, and what is kept.

use crate::audit::evidence::purchases::{Purchase, UserPurchases};
use crate::audit::ledger_state::NewerMoves;
use crate::audit::ledger_state::order_parts::SplitOrder;
use crate::audit::plan::plan;
use crate::audit::plan::repair::{Audited, gate};
use crate::audit::tests::*;
use crate::model::id::StoredUser;
use crate::model::number::signed;
use crate::model::order::Corrupt;

#[test]
fn stock_does_not_go_up_for_a_member_without_units_whom_the_ledger_knows() {
    let unproven = Sale { stock: Some(5), held: vec![("a", -1), ("b", 2)], ..sale(Layout::Sku) };
    assert_eq!((unproven.repairs(), unproven.audit().verdict), (vec![], Verdict::Drift));
    // Without the member's units the next audit would take the ledger for proof of the stock.
    assert_eq!(unproven.kept(), [Class::CounterDrift, Class::Conservation]);
}

#[test]
fn units_that_a_set_lost_return_from_the_ledger_and_the_stock_stays() {
    let lost = Sale { held: vec![("a", -1), ("b", -1)], ..sale(Layout::Sku) };
    let restored = ["counter_drift a ? 1 +0", "counter_drift b ? 2 +0"];
    assert_eq!((lost.repairs(), lost.kept()), (restored.map(str::to_owned).to_vec(), vec![]));
    // `c` is a member past the ledger, and the stock moved with it, or not.
    let more = Sale { held: vec![("a", -1), ("b", 2), ("c", 3)], stock: Some(4), ..lost.clone() };
    assert_eq!(more.repairs(), ["counter_drift a ? 1 +0", "counter_drift c 3 3 +0"]);
    assert_eq!(Sale { stock: Some(7), ..more }.repairs(), ["counter_drift a ? 1 +0", "counter_drift c 3 0 +0"]);
    // Records prove the stock as well, and decide where they say something else.
    let recorded = |a| Sale { orders: Some(vec![("a", a), ("b", 2)]), stock: Some(5), ..lost.clone() }.repairs();
    assert_eq!(recorded(1), ["conservation - 0 0 +2", restored[0], restored[1]]);
    assert_eq!(recorded(2), ["conservation - 0 0 +1", "quantity_mismatch a ? 2 +0", restored[1]]);
}

#[test]
fn only_a_repair_that_raises_the_stock_alone_has_the_stock_as_audited() {
    let audited =
        |sale: Sale| sale.audit().plan.repairs.iter().map(|it| it.audited_stock.is_some()).collect::<Vec<_>>();
    assert_eq!(audited(Sale { stock: Some(5), ..sale(Layout::Seckill) }), [true]);
    assert_eq!(audited(Sale { stock: Some(9), ..sale(Layout::Seckill) }), [false]);
    assert_eq!(audited(Sale { stock: Some(5), ..sale(Layout::Product) }), [false], "only the ledger is corrected");
    assert_eq!(audited(Sale { orders: Some(vec![("a", 1), ("b", 1)]), ..sale(Layout::Seckill) }), [false]);
}

#[test]
fn a_stock_that_moved_past_the_ledger_during_the_audit_is_not_raised() {
    for orders in [None, Some(sale(Layout::Seckill).held)] {
        let mut evidence = Sale { stock: Some(5), orders, ..sale(Layout::Seckill) }.evidence();
        let at = |stock| Snapshot { stock: Some(stock), ..evidence.end.clone().unwrap() };
        let (same, other) = (at(5), at(8));
        evidence.compare_stock(&same);
        evidence.compare_stock(&same);
        let repairs = plan(&evidence, false, MissingOrders::Repair).repairs;
        assert_eq!((repairs[0].stock_change, repairs[0].audited()), (2, Some(Audited { stock: 5, last: None })));
        // A page before, three more were left than when the audit ended: a purchase took them, and its user may have a counter by now.
        evidence.compare_stock(&other);
        let plan = plan(&evidence, false, MissingOrders::Repair);
        assert_eq!((plan.repairs.len(), plan.kept.len()), (0, 1), "{:?}", plan.kept);
    }
}

#[test]
fn a_lost_stock_key_is_restored_only_on_proof() {
    let lost = Sale { stock: None, ..sale(Layout::Seckill) };
    assert_eq!(Sale { withdrawn: Some(7), ..lost.clone() }.repairs(), ["conservation - ? 7 +0"]);
    for unproven in [
        Sale { ledger: None, ..lost.clone() },
        Sale { layout: Layout::Sku, held: vec![("a", -1), ("b", 2)], ..lost.clone() },
    ] {
        assert_eq!(unproven.repairs(), NONE);
        assert!(unproven.kept().contains(&Class::Conservation));
    }
    let recorded = Sale { ledger: None, orders: Some(vec![("a", 1), ("b", 1), ("c", 1)]), ..lost.clone() };
    assert_eq!(
        recorded.repairs(),
        ["conservation - ? 7 +7", "quantity_mismatch b 2 1 +0", "missing_purchase c 0 1 +0"]
    );
    let counter = Sale { layout: Layout::Product, orders: Some(vec![("", 4)]), ..lost };
    assert_eq!(counter.repairs(), ["conservation - ? 6 +6", "counter_drift - 3 4 +0"]);
}

#[test]
fn evicted_participants_return_from_the_ledger_and_the_stock_stays() {
    // `d` is there, with a unit more than the ledger knows.
    let ledger = Some(vec![("a", 1), ("b", 2), ("d", 1)]);
    let more = Sale { held: vec![("d", 2)], ledger, stock: Some(5), ..sale(Layout::Seckill) };
    assert_eq!(more.repairs(), ["counter_drift a 0 1 +0", "counter_drift b 0 2 +0", "counter_drift d 2 2 +0"]);
    let unclear = Sale { held: vec![("c", 3)], stock: Some(5), ..sale(Layout::Seckill) };
    assert_eq!((unclear.repairs(), unclear.kept()), (vec![], vec![Class::CounterDrift, Class::Conservation]));
    // Records that lack a refund have two coupons of a user, or fewer than none.
    for of_a in [2, -1] {
        let (ledger, orders) = (Some(vec![("a", 1), ("b", 1)]), Some(vec![("a", of_a), ("b", 1)]));
        let lost = Sale { held: vec![], ledger, orders, stock: Some(8), ..sale(Layout::Coupon) };
        assert_eq!(lost.repairs(), ["counter_drift a 0 1 +0", "missing_purchase b 0 1 +0"], "{of_a}");
    }
}

#[test]
fn a_user_whom_the_ledger_has_with_two_coupons_holds_one_at_most() {
    let ledger = Some(vec![("a", 2), ("b", 1)]);
    let twice = Sale { held: vec![("a", 1), ("b", 1)], ledger, ..sale(Layout::Coupon) };
    assert_eq!((twice.repairs(), twice.kept()), (vec![], vec![Class::CounterDrift]));
    let lost = Sale { held: vec![], ..twice };
    assert_eq!((lost.repairs(), lost.kept()), (vec!["counter_drift b 0 1 +0".to_owned()], vec![Class::CounterDrift]));
    let recorded = Sale { orders: lost.ledger.clone(), ..lost };
    assert_eq!(recorded.repairs(), ["missing_purchase b 0 1 +0"]);
}

#[test]
fn units_of_evicted_users_that_return_end_their_request_ids() {
    let lost = Sale { held: vec![("a", 1)], orders: Some(vec![("a", 1)]), ..sale(Layout::Seckill) };
    for (stock, repairs) in
        [(7, vec!["counter_drift b 0 0 +2"]), (5, vec!["conservation - 0 0 +4", "counter_drift b 0 0 +0"])]
    {
        let mut evidence = Sale { stock: Some(stock), ..lost.clone() }.evidence();
        let user = evidence.ledger.user(b"b");
        let purchase = Purchase { request: "o2".to_owned(), units: Some(2), has_entry: true, is_newer: false };
        evidence.purchases.by_user.insert(user, UserPurchases { purchases: vec![purchase], refunded: 0 });
        let audit = judge(evidence, MissingOrders::Repair);
        assert_eq!(shown(&audit), repairs);
        assert!(audit.plan.repairs.iter().any(|repair| repair.reversed() == ["o2"]), "{stock}");
    }
}

#[test]
fn who_comes_back_beside_nobody_is_recorded_with_the_stock_as_audited() {
    let lost = Sale { held: vec![], orders: Some(vec![("a", 1), ("c", 1)]), ..sale(Layout::Seckill) };
    let audited = |all_lost: bool| {
        let mut evidence = lost.evidence();
        let what = "nothing, though units were sold".to_owned();
        let lost_users = all_lost.then(|| Corrupt { key: "participants".to_owned(), what });
        evidence.end.as_mut().unwrap().lost_users = lost_users;
        let audit = judge(evidence, MissingOrders::Repair);
        assert_eq!(shown(&audit), ["missing_purchase c 0 1 -1", "counter_drift b 0 0 +2", "missing_purchase a 0 1 +0"]);
        audit.plan.repairs.iter().map(|repair| repair.audited_stock).collect::<Vec<_>>()
    };
    assert_eq!(audited(true), [Some(7), None, Some(7)]);
    assert_eq!(audited(false), [None, None, Some(7)]);
}

#[test]
fn what_was_bought_behind_the_records_stays_with_a_user_whose_counter_was_lost() {
    let repairs = |stock| {
        let lost = Sale { held: vec![("a", 1)], orders: Some(vec![("a", 1)]), ..sale(Layout::Seckill) };
        let mut evidence = Sale { stock: Some(stock), ..lost }.evidence();
        let of_b = evidence.mismatches.iter_mut().find(|mismatch| mismatch.ledger == Some(2)).unwrap();
        of_b.newer = NewerMoves { net: 2, high: 2, ..NewerMoves::default() };
        shown(&judge(evidence, MissingOrders::Repair))
    };
    assert_eq!(repairs(7), ["counter_drift b 0 2 +0"]);
    assert_eq!(repairs(5), ["conservation - 0 0 +2", "counter_drift b 0 2 +0"], "two more are missing");
    assert_eq!(repairs(9), ["counter_drift b 0 0 +0"], "who took the counter returned its units");
}

#[test]
fn who_was_lost_is_back_though_the_records_sum_up_below_zero() {
    let lost = Sale { held: vec![], orders: Some(vec![("a", 1), ("b", -1)]), ..sale(Layout::Seckill) };
    assert_eq!(lost.repairs(), ["missing_purchase a 0 1 +0", "counter_drift b 0 2 +0"]);
    assert_eq!(lost.kept(), [Class::QuantityMismatch], "a human decides about the records");
    assert_eq!(Sale { stock: Some(9), ..lost }.repairs().len(), 1, "stock and ledger differ");
}

#[test]
fn units_that_ledger_and_stock_have_are_not_given_to_others_while_records_may_have_them() {
    let short =
        |b| Sale { held: vec![("a", 1), ("b", 1)], orders: Some(vec![("a", 1), ("b", b)]), ..sale(Layout::Seckill) };
    let mut evidence = short(1).evidence();
    evidence.mismatches.iter_mut().for_each(|mismatch| mismatch.open = 1);
    assert_eq!(shown(&judge(evidence, MissingOrders::Repair)), ["counter_drift b 1 2 +0"]);
    assert_eq!(short(1).repairs(), ["counter_drift b 1 1 +1"], "nothing is held open");
}

#[test]
fn a_counter_that_the_stock_moved_with_is_undone_by_records() {
    let past = Sale { held: vec![("a", 1), ("b", 2), ("c", 3)], stock: Some(4), ..sale(Layout::Seckill) };
    let recorded = Sale { orders: Some(vec![("a", 1), ("b", 2)]), ..past };
    assert_eq!(recorded.repairs(), ["missing_order c 3 0 +3"]);
}

#[test]
fn of_a_bare_counter_nothing_is_corrected_below_nothing_sold() {
    let bare = Sale { ledger: None, stock: Some(11), ..sale(Layout::Product) };
    assert_eq!(
        (bare.audit().verdict, bare.repairs(), bare.kept()),
        (Verdict::Drift, vec![], vec![Class::Conservation])
    );
    // Nothing was sold, and all say so.
    let unsold = Sale { stock: Some(10), ledger: None, ..sale(Layout::Product) };
    let recorded = Sale { orders: Some(vec![("", 0)]), ..unsold.clone() };
    for unsold in [unsold, recorded] {
        assert_eq!((unsold.repairs(), unsold.kept()), (vec![], vec![]));
    }
    // A ledger or records that say less than nothing was sold correct nothing.
    let below = Sale { stock: Some(10), ledger: Some(vec![("", -1)]), ..sale(Layout::Product) };
    assert_eq!((below.repairs(), below.kept()), (vec![], vec![Class::Conservation]));
    let below = Sale { stock: Some(11), ledger: None, orders: Some(vec![("", -1)]), ..sale(Layout::Product) };
    assert_eq!(reasons(&below, MissingOrders::Emit), reasons(&below, MissingOrders::Repair));
}

#[test]
fn units_that_return_go_to_missing_purchases_first() {
    // 4 units are withheld, and 4 users bought one each that Redis lost: nothing is raised and taken again.
    let mut users = sale(Layout::Seckill).held;
    users.extend([("c", 1), ("d", 1), ("e", 1), ("f", 1)]);
    let lost = Sale { stock: Some(3), orders: Some(users), ..sale(Layout::Seckill) };
    let repairs = ["c", "d", "e", "f"].map(|user| format!("missing_purchase {user} 0 1 +0"));
    assert_eq!(lost.repairs(), repairs);
    let more = Sale { stock: Some(2), ..lost.clone() };
    assert_eq!(more.repairs()[0], "conservation - 0 0 +1");
    let fewer = Sale { stock: Some(4), ..lost };
    assert_eq!(fewer.repairs().iter().filter(|repair| repair.ends_with("-1")).count(), 1);
}

#[test]
fn what_raises_the_stock_names_what_comes_before() {
    let mixed = Sale { orders: Some(vec![("a", 2), ("c", 1)]), ..sale(Layout::Seckill) };
    let plan = mixed.audit().plan;
    assert_eq!(mixed.repairs(), ["quantity_mismatch a 1 2 -1", "missing_purchase c 0 1 -1", "missing_order b 2 0 +2"]);
    let before = gate(plan.repairs[..2].iter().map(|repair| repair.id.as_str()));
    let after: Vec<_> = plan.repairs.iter().map(|repair| repair.after.clone()).collect();
    assert_eq!(after, [None, None, before]);
}

#[test]
fn one_unusual_user_does_not_block_the_others() {
    for user in [" a", "", "x\u{7}"] {
        let unusual =
            Sale { held: vec![("a", 1), ("b", 2), (user, 2), ("c", 1)], stock: Some(4), ..sale(Layout::Seckill) };
        assert_eq!(
            (unusual.repairs(), unusual.kept()),
            (vec!["counter_drift c 1 1 +0".to_owned()], vec![Class::CounterDrift])
        );
        let recorded = Sale { orders: Some(vec![("a", 1), ("b", 1), ("c", 1)]), ..unusual };
        assert_eq!(recorded.repairs(), ["quantity_mismatch b 2 1 +1", "counter_drift c 1 1 +0"]);
        assert_eq!(recorded.kept(), [Class::MissingOrder]);
    }
}

/// Why something is kept as it is.
fn reasons(sale: &Sale, missing_orders: MissingOrders) -> Vec<&'static str> {
    judge(sale.evidence(), missing_orders).plan.kept.iter().map(|(_, _, why)| *why).collect()
}

#[test]
fn what_is_kept_says_why() {
    let ones = vec![("a", 1), ("b", 1)];
    let coupon = Sale { ledger: Some(ones.clone()), held: ones, stock: Some(8), ..sale(Layout::Coupon) };
    let two = Sale { orders: Some(vec![("a", 2), ("b", 1)]), ..coupon.clone() };
    let reasons_of = |sale: &Sale| reasons(sale, MissingOrders::Repair);
    assert_eq!((reasons_of(&two), two.repairs()), (vec!["a user can hold one coupon only"], vec![]));
    let another = Sale { orders: Some(vec![("a", 1), ("b", 1), ("c", 1)]), ..coupon };
    assert_eq!((reasons_of(&another), another.repairs()), (vec![], vec!["missing_purchase c 0 1 -1".to_owned()]));
    let orders = Some(vec![("b", 2)]);
    let member = Sale { held: vec![("a", -1), ("b", 2)], ledger: None, orders, ..sale(Layout::Sku) };
    assert!(reasons(&member, MissingOrders::Emit).iter().any(|why| why.contains("how many to deliver")));
    let invalid = Sale { held: vec![("a", -2), ("b", -2)], ..sale(Layout::Seckill) };
    assert_eq!(invalid.audit().plan.kept[0].1, 2, "how often");
}

#[test]
fn units_past_the_limit_stay_and_block_nothing_else() {
    let repairs = |sale: Sale| {
        let audit = judge(limited(&sale, 1), MissingOrders::Repair);
        let kept: Vec<_> = audit.plan.kept.iter().map(|(class, count, _)| (*class, *count)).collect();
        (shown(&audit), kept)
    };
    let nothing = (vec![], vec![(Class::OverLimit, 1)]);
    let over = sale(Layout::Seckill);
    let recorded = Sale { orders: over.ledger.clone(), ..over.clone() };
    assert_eq!(repairs(over.clone()), nothing);
    assert_eq!(repairs(recorded.clone()), nothing);
    assert_eq!(repairs(Sale { ledger: None, ..recorded }), nothing);
    // A user who holds the limit may be missing in the ledger.
    let drifted = Sale { ledger: Some(vec![("a", 1), ("b", 1)]), ..over.clone() };
    let audit = judge(limited(&drifted, 2), MissingOrders::Repair);
    assert_eq!((shown(&audit), audit.plan.kept.len()), (vec!["counter_drift b 2 2 +0".to_owned()], 0));
    // Every counter is what the whole ledger says, so the stock is corrected.
    let withheld = Sale { stock: Some(5), ..over };
    assert_eq!(repairs(withheld), (vec!["conservation - 0 0 +2".to_owned()], vec![(Class::OverLimit, 1)]));
}

#[test]
fn an_order_that_is_split_stays_whatever_else_is_repaired() {
    let withheld = Sale { stock: Some(5), ..sale(Layout::Seckill) };
    let mut evidence = withheld.evidence();
    let (request, user) = ("r".to_owned(), StoredUser::new("a"));
    let other = "1002".parse().unwrap();
    evidence.split_orders = vec![SplitOrder { request, user, is_bought: true, other, state: None }];
    let audit = judge(evidence, MissingOrders::Repair);
    assert_eq!(shown(&audit), ["conservation - 0 0 +2"]);
    assert_eq!(
        audit.plan.kept.iter().map(|(class, count, _)| (*class, *count)).collect::<Vec<_>>(),
        [(Class::SplitOrder, 1)]
    );
    let classes: Vec<Class> = audit.differences.iter().map(|difference| difference.class).collect();
    assert_eq!(classes, [Class::Conservation, Class::SplitOrder]);
}

#[test]
fn a_member_whom_the_ledger_has_below_zero_holds_nothing() {
    let ledger = Some(vec![("a", 1), ("b", 2), ("c", -1)]);
    let held = vec![("a", 1), ("b", 2), ("c", -1)];
    let below = Sale { ledger, held, orders: Some(vec![("a", 1), ("b", 2)]), ..sale(Layout::Sku) };
    assert_eq!(below.repairs(), ["missing_order c ? 0 +0"]);
}

#[test]
fn nothing_of_a_lost_stock_is_repaired_while_a_record_is_no_number() {
    let orders = Some(vec![("a", 1), ("b", 1)]);
    let corrupt = Sale { orders, held: vec![("a", 2), ("c", -2)], ledger: None, ..sale(Layout::Seckill) };
    let lost = Sale { stock: None, ..corrupt.clone() };
    assert_eq!(lost.repairs(), NONE);
    assert!(lost.kept().contains(&Class::Conservation));
    // With a stock, what lowers it is done, and what raises it is not.
    assert_eq!(corrupt.repairs(), ["missing_purchase b 0 1 -1"]);
    // What only the ledger lacks is recorded there: the stock stays.
    let orders = Some(vec![("a", 1), ("b", 2), ("c", 3)]);
    let held = vec![("a", 1), ("b", 2), ("c", 3), ("d", -2)];
    let behind = Sale { orders, held, stock: Some(4), ..sale(Layout::Seckill) };
    assert_eq!(behind.repairs(), ["counter_drift c 3 3 +0"]);
    assert_eq!(behind.kept(), [Class::Corrupt]);
}

#[test]
fn sums_that_saturated_are_kept_and_not_repaired() {
    const MOST: i64 = 9_007_199_254_740_991;
    let huge =
        Sale { orders: Some(vec![("a", MOST), ("a", MOST), ("b", -MOST), ("b", -MOST)]), ..sale(Layout::Seckill) };
    assert_eq!(huge.judged().2.len(), 2);
    assert_eq!((huge.repairs(), huge.kept()), (vec![], vec![Class::QuantityMismatch; 2]));
}

#[test]
fn no_prefix_of_a_plan_leaves_more_for_sale_than_there_is() {
    let mut seed = 7u64;
    let mut random = |below: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % below
    };
    let (mut proven, mut raised) = (0, 0);
    for _ in 0..20_000 {
        let mut users = |most: u64| -> Vec<(&'static str, i64)> {
            let names = ["a", "b", "c", "d"];
            names.into_iter().map(|name| (name, i64::try_from(random(most)).unwrap())).collect()
        };
        let (mut held, ledger, orders) = (users(3), users(3), users(3));
        let layout = [Layout::Seckill, Layout::Sku, Layout::Product][usize::try_from(random(3)).unwrap()];
        if layout == Layout::Sku && random(3) == 0 {
            // Units of its members were lost, or never there.
            held.iter_mut().filter(|(_, units)| *units > 1).for_each(|(_, units)| *units = -1);
        }
        let case = Sale {
            held: if random(3) == 0 { ledger.clone() } else { held },
            ledger: (random(3) > 0).then_some(ledger),
            orders: (random(2) > 0).then(|| if layout == Layout::Product { vec![("", 4)] } else { orders.clone() }),
            stock: (random(9) > 0).then(|| random(11)),
            layout,
            ..sale(layout)
        };
        let plan = case.audit().plan;
        let sold: i64 = match (&case.orders, &case.ledger) {
            (Some(orders), _) => orders.iter().map(|(_, units)| units).sum(),
            (None, Some(ledger)) => ledger.iter().map(|(_, units)| units).sum(),
            (None, None) => {
                assert!(plan.repairs.is_empty(), "nothing proves it");
                continue;
            }
        };
        let mut stock = signed(case.stock.unwrap_or_default());
        let most = stock.max(10 - sold);
        for repair in &plan.repairs {
            stock += repair.stock_change;
            raised += i64::from(repair.stock_change > 0);
            assert!(stock <= most, "{repair:?} of {plan:?}");
        }
        if case.orders.is_some() && plan.kept.is_empty() {
            proven += 1;
            assert_eq!(stock, 10 - sold, "{plan:?}");
        }
    }
    assert!(proven > 1000 && raised > 1000, "{proven} {raised}");
}

#[test]
fn what_is_corrupt_or_unreadable_is_never_repaired() {
    let drifted = || Sale { stock: Some(5), ..sale(Layout::Seckill) }.evidence();
    assert!(!plan(&drifted(), false, MissingOrders::Repair).repairs.is_empty());
    let mut corrupt = drifted();
    corrupt.corrupt = Some(Corrupt { key: "a key".to_owned(), what: "is a list".to_owned() });
    let mut unreadable = drifted();
    unreadable.ledger.unreadable.push((EntryId::ZERO, "no such operation".to_owned()));
    for evidence in [corrupt, unreadable] {
        let plan = plan(&evidence, false, MissingOrders::Repair);
        assert_eq!((plan.repairs.len(), plan.kept[0].0), (0, Class::Corrupt));
    }
}

#[test]
fn of_more_orders_than_one_repair_may_end_the_first_are_repaired() {
    let lost = |layout, user| {
        let all = vec![(user, 10_003)];
        let (total, stock) = (Some(20_000), Some(9_997));
        Sale { total, stock, ledger: Some(all.clone()), held: all, orders: Some(vec![(user, 0)]), ..sale(layout) }
    };
    for (layout, name, units, wanted) in [
        (Layout::Seckill, "a", 1, vec!["missing_order a 10003 3 +10000"]),
        (Layout::Product, "", 1, vec!["missing_order - 10003 3 +10000"]),
        // Nothing would be left to find the other ids by.
        (Layout::Seckill, "a", 2, vec![]),
    ] {
        let mut evidence = lost(layout, name).evidence();
        let user = evidence.ledger.user(name.as_bytes());
        let ids = (0..10_002).map(|at| format!("o{at}"));
        let purchases = ids.map(|request| Purchase { request, units: Some(units), has_entry: true, is_newer: false });
        let of_user = UserPurchases { purchases: purchases.collect(), refunded: 10_002 * (units - 1) };
        evidence.purchases.by_user.insert(user, of_user);
        let audit = judge(evidence, MissingOrders::Repair);
        assert_eq!((shown(&audit), audit.plan.kept.len()), (wanted.into_iter().map(str::to_owned).collect(), 1));
    }
}
