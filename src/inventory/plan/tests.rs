//! Judgement and plan of sales that are written down in a line each.

use super::super::audit::{Audit, Proof, Verdict};
use super::super::evidence::{ActivityView, Rules};
use super::super::judgement::judge;
use super::super::layout::Layout;
use super::super::ledger::{Entry, EntryId};
use super::super::ledger_state::Compared;
use super::super::order_sums::OrderRows;
use super::super::time::Millis;
use super::*;

/// A sale as an audit finds it. What is `None` was not there.
#[derive(Clone)]
struct Sale {
    layout: Layout,
    total: Option<u64>,
    stock: Option<u64>,
    withdrawn: Option<u64>,
    /// Users and what the ledger says of them; `None`: there is no whole ledger.
    ledger: Option<Vec<(&'static str, i64)>>,
    /// Users and what the order records say of them.
    orders: Option<Vec<(&'static str, i64)>>,
    /// Users and what their records hold; -1: a member without units, -2: no number.
    held: Vec<(&'static str, i64)>,
    named: bool,
}

/// Ten units, of which `a` holds 1 and `b` 2, and all agrees.
fn sale(layout: Layout) -> Sale {
    let users = vec![("a", 1), ("b", 2)];
    Sale {
        layout,
        total: Some(10),
        stock: Some(7),
        withdrawn: None,
        ledger: Some(users.clone()),
        orders: None,
        held: users,
        named: true,
    }
}

impl Sale {
    fn evidence(&self) -> Evidence {
        let kind = self.layout.kind();
        let mut rows = OrderRows::default();
        let compared = self.orders.as_ref().map(|orders| {
            orders.iter().for_each(|(user, units)| rows.push(user, *units, None));
            Compared::unread(None, EntryId::first_at(Millis::new(u64::MAX)), self.named)
        });
        let mut evidence = Evidence::new(&"1001".parse().unwrap(), self.layout, None, compared);
        let id = |at: u64| EntryId::first_at(Millis::new(at));
        let by_ledger = self.ledger.is_some();
        if let Some(users) = &self.ledger {
            let mut begin = Entry::new(id(1));
            (begin.op, begin.epoch) = (b"preheat".to_vec(), Some(b"1".to_vec()));
            begin.total = self.total.map(|total| total.to_string().into_bytes());
            evidence.ledger.add(&begin);
            for ((user, units), at) in users.iter().zip(2..) {
                let mut entry = Entry::new(id(at));
                entry.op = if *units < 0 { b"refund".to_vec() } else { b"deduct".to_vec() };
                entry.users = Some(format!(r#"["{user}"]"#).into_bytes());
                entry.quantity = Some(units.abs().to_string().into_bytes());
                evidence.ledger.add(&entry);
            }
        }
        let rules = self.total.map(|total| Rules {
            total,
            per_user_limit: None,
            epoch: 1,
            repairs: 0,
            ledger: by_ledger,
            withdrawn: self.withdrawn,
        });
        let at = Millis::new(1000);
        let end = ActivityView { at, stock: self.stock, rules, last: None, length: None, checkpoint: None };
        (evidence.end, evidence.by_ledger, evidence.settled) = (Some(end), by_ledger, true);
        evidence.ledger.add_orders(&rows);
        for (user, units) in self.held.iter().filter(|_| kind.has_users()) {
            let holds = match units {
                -1 => Holding::Unknown,
                -2 => Holding::Invalid("x".to_owned()),
                units => Holding::Units(units.unsigned_abs()),
            };
            let user = evidence.ledger.user(user.as_bytes());
            evidence.ledger.see(user);
            evidence.without_units += u64::from(holds == Holding::Unknown);
            evidence.held.add(&holds, &evidence.ledger, user);
            evidence.mismatches.extend(match by_ledger {
                true => evidence.ledger.against_ledger(user, holds, None),
                false => evidence.ledger.mismatch(user, holds, None, false),
            });
        }
        for user in evidence.ledger.unseen() {
            evidence.mismatches.extend(evidence.ledger.mismatch(user, Holding::Units(0), None, by_ledger));
        }
        if by_ledger {
            evidence.compare_all();
        }
        evidence
    }

    fn audit(&self) -> Audit {
        judge(self.evidence(), MissingOrders::Repair)
    }

    /// Verdict, proof and differences as `class user redis ledger orders`.
    fn judged(&self) -> (Verdict, Proof, Vec<String>) {
        let audit = self.audit();
        let differences = audit.differences.iter().map(|difference| {
            let text =
                |held: &Option<super::super::audit::Held>| held.as_ref().map_or("-".to_owned(), ToString::to_string);
            let user = difference.user.as_ref().map_or("-".to_owned(), ToString::to_string);
            let (redis, ledger, orders) = (text(&difference.redis), text(&difference.ledger), text(&difference.orders));
            let count = difference.count.map(|count| format!(" of {count}")).unwrap_or_default();
            format!("{} {user} {redis} {ledger} {orders}{count}", difference.class.name())
        });
        (audit.verdict, audit.proof, differences.collect())
    }

    /// The repairs as `class user from to stock_change`.
    fn repairs(&self) -> Vec<String> {
        shown(&self.audit())
    }

    fn kept(&self) -> Vec<Class> {
        self.audit().plan.kept.iter().map(|(class, ..)| *class).collect()
    }
}

fn shown(audit: &Audit) -> Vec<String> {
    let shown = |repair: &Repair| {
        let user = repair.user.as_ref().map_or("-".to_owned(), ToString::to_string);
        let from = repair.from.map_or("?".to_owned(), |from| from.to_string());
        format!("{} {user} {from} {} {:+}", repair.class.name(), repair.to, repair.stock_change)
    };
    audit.plan.repairs.iter().map(shown).collect()
}

const NONE: [&str; 0] = [];

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
fn stock_goes_up_only_if_a_whole_ledger_equals_every_counter() {
    let withheld = |layout| Sale { stock: Some(5), ..sale(layout) };
    assert_eq!(withheld(Layout::Seckill).repairs(), ["conservation - 0 0 +2"]);
    assert_eq!(withheld(Layout::Sku).repairs(), ["conservation - 0 0 +2"]);
    // A bare counter sold past its ledger, so the ledger is corrected.
    assert_eq!(withheld(Layout::Product).repairs(), ["conservation - 3 5 +0"]);
    for unproven in [
        Sale { ledger: None, ..withheld(Layout::Seckill) },
        Sale { ledger: None, stock: Some(9), ..withheld(Layout::Seckill) },
        Sale { ledger: None, ..withheld(Layout::Sku) },
        // A member without units, though the ledger knows the user.
        Sale { held: vec![("a", -1), ("b", 2)], ..withheld(Layout::Sku) },
        // A counter that differs, so that nobody knows what the stock moved with.
        Sale { held: vec![("a", 1), ("b", 2), ("c", 1)], ..withheld(Layout::Seckill) },
        Sale { held: vec![("a", -2), ("b", 2)], ..withheld(Layout::Seckill) },
    ] {
        assert_eq!(unproven.repairs(), NONE);
        assert_eq!(unproven.audit().verdict, Verdict::Drift);
        assert!(!unproven.kept().is_empty());
    }
}

#[test]
fn a_stock_that_moved_past_the_ledger_during_the_audit_is_not_raised() {
    let mut evidence = Sale { stock: Some(5), ..sale(Layout::Seckill) }.evidence();
    let at = |stock| ActivityView { stock: Some(stock), ..evidence.end.clone().unwrap() };
    let (same, other) = (at(5), at(8));
    evidence.compare_stock(&same);
    evidence.compare_stock(&same);
    let repairs = plan(&evidence, false, MissingOrders::Repair).repairs;
    assert_eq!((repairs[0].stock_change, repairs[0].audited), (2, Some(Audited { stock: 5, last: None })));
    // A page before, three more were left than when the audit ended.
    evidence.compare_stock(&other);
    let plan = plan(&evidence, false, MissingOrders::Repair);
    assert_eq!((plan.repairs.len(), plan.kept.len()), (0, 1), "{:?}", plan.kept);
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
    // Order records tell what they hold.
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
fn a_lost_stock_key_is_restored_only_on_proof() {
    for layout in [Layout::Seckill, Layout::Sku, Layout::Coupon] {
        let ones = vec![("a", 1), ("b", 1)];
        let lost = Sale { stock: None, ledger: Some(ones.clone()), held: ones, ..sale(layout) };
        assert_eq!(lost.repairs(), ["conservation - ? 8 +8"], "{layout:?}");
    }
    let lost = Sale { stock: None, ..sale(Layout::Seckill) };
    assert_eq!(Sale { withdrawn: Some(7), ..lost.clone() }.repairs(), ["conservation - ? 7 +0"]);
    for unproven in [
        Sale { ledger: None, ..lost.clone() },
        Sale { held: vec![("a", 1)], ..lost.clone() },
        Sale { held: vec![], ..lost.clone() },
        Sale { layout: Layout::Product, ..lost.clone() },
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
    let evicted = Sale { held: vec![], ..sale(Layout::Seckill) };
    assert_eq!(evicted.repairs(), ["counter_drift a 0 1 +0", "counter_drift b 0 2 +0"]);
    // A backend sold to `c` since then, and the stock moved with that.
    let since = Sale { held: vec![("c", 3)], stock: Some(4), ..sale(Layout::Seckill) };
    assert_eq!(since.repairs(), ["counter_drift a 0 1 +0", "counter_drift b 0 2 +0", "counter_drift c 3 3 +0"]);
    let unclear = Sale { held: vec![("c", 3)], stock: Some(5), ..sale(Layout::Seckill) };
    assert_eq!((unclear.repairs(), unclear.kept()), (vec![], vec![Class::CounterDrift, Class::Conservation]));
}

#[test]
fn a_counter_that_the_stock_moved_with_is_never_undone_without_order_records() {
    let past = Sale { held: vec![("a", 1), ("b", 2), ("c", 3)], stock: Some(4), ..sale(Layout::Seckill) };
    assert_eq!(past.judged().2, ["counter_drift c 3 0 -"]);
    assert_eq!(past.repairs(), ["counter_drift c 3 3 +0"]);
    let alone = Sale { stock: Some(7), ..past.clone() };
    assert_eq!(alone.repairs(), ["counter_drift c 3 0 +0"]);
    let recorded = Sale { orders: Some(vec![("a", 1), ("b", 2)]), ..past };
    assert_eq!(recorded.repairs(), ["missing_order c 3 0 +3"]);
}

#[test]
fn of_a_bare_counter_the_stock_stays_if_the_order_records_agree() {
    // A backend sold 2 past the ledger, and the records have them.
    let behind = Sale { stock: Some(5), orders: Some(vec![("", 5)]), ..sale(Layout::Product) };
    assert_eq!(behind.judged(), (Verdict::Drift, Proof::Ledger, vec!["counter_drift - 5 3 5".to_owned()]));
    assert_eq!(behind.repairs(), ["counter_drift - 3 5 +0"]);
    // The ledger knows more than the records and the stock.
    let ahead = Sale { stock: Some(8), orders: Some(vec![("", 2)]), ..sale(Layout::Product) };
    assert_eq!(ahead.repairs(), ["counter_drift - 3 2 +0"]);
    // OrderSums override both.
    let recorded = Sale { orders: Some(vec![("", 2)]), ..sale(Layout::Product) };
    assert_eq!(recorded.repairs(), ["quantity_mismatch - 3 2 +1"]);
    // Without records nothing is sold twice, and nothing returns.
    assert_eq!(Sale { stock: Some(9), ..sale(Layout::Product) }.repairs(), ["conservation - 3 3 -2"]);
    let bare = Sale { ledger: None, stock: Some(11), ..sale(Layout::Product) };
    assert_eq!((bare.audit().verdict, bare.repairs()), (Verdict::Drift, vec![]));
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
    assert_eq!(super::super::repair::incomplete(&plan.repairs), None);
    assert!(super::super::repair::incomplete(&plan.repairs[1..]).is_some());
}

#[test]
fn one_unusual_user_does_not_block_the_others() {
    for user in [" a", "", "x\u{7}"] {
        let odd = Sale { held: vec![("a", 1), ("b", 2), (user, 2), ("c", 1)], stock: Some(4), ..sale(Layout::Seckill) };
        let odd = Sale { ledger: Some(vec![("a", 1), ("b", 2)]), ..odd };
        assert_eq!((odd.repairs(), odd.kept()), (vec!["counter_drift c 1 1 +0".to_owned()], vec![Class::CounterDrift]));
        let recorded = Sale { orders: Some(vec![("a", 1), ("b", 1), ("c", 1)]), ..odd };
        assert_eq!(recorded.repairs(), ["quantity_mismatch b 2 1 +1", "counter_drift c 1 1 +0"]);
        assert_eq!(recorded.kept(), [Class::MissingOrder]);
    }
}

#[test]
fn an_activity_that_the_records_dont_mention_is_one_difference_with_a_count() {
    let unnamed = Sale { orders: Some(vec![]), named: false, ..sale(Layout::Seckill) };
    assert_eq!(unnamed.judged(), (Verdict::Drift, Proof::Ledger, vec!["missing_order - 3 3 0 of 2".to_owned()]));
    assert_eq!((unnamed.repairs(), unnamed.kept()), (vec![], vec![]));
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
fn missing_orders_are_what_the_records_lack_and_emitted_ones_are_no_repairs() {
    let orders = Some(vec![("a", 3), ("c", 1)]);
    let repeat = Sale {
        held: vec![("a", 5), ("b", 2)],
        ledger: Some(vec![("a", 5), ("b", 2)]),
        stock: Some(3),
        orders,
        ..sale(Layout::Seckill)
    };
    let missing = |audit: &Audit| {
        let row = |missing: &super::super::audit::MissingOrder| {
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
        let (held, ledger, orders) = (users(3), users(3), users(3));
        let layout = [Layout::Seckill, Layout::Sku, Layout::Product][usize::try_from(random(3)).unwrap()];
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
