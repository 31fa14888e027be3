use crate::model::ledger::*;

impl Entry {
    /// An entry of orders as `user units` (of a repair `user from to`), with a comma between.
    pub(crate) fn of_orders(id: &str, op: &str, orders: &str) -> Self {
        let mut entry = Self::new(id.parse().unwrap());
        entry.op = op.into();
        let column = |at: usize| {
            let texts: Option<Vec<&str>> = orders.split(", ").map(|order| order.split(' ').nth(at)).collect();
            texts.map(|texts| texts.join("\t").into_bytes())
        };
        if !orders.is_empty() {
            (entry.users, entry.to) = (column(0), column(2));
            *(if op == "repair" { &mut entry.from } else { &mut entry.quantity }) = column(1);
        }
        entry
    }
}

#[test]
fn before_an_id_is_the_one_that_could_be_written_last() {
    for (id, previous) in [("5-3", "5-2"), ("5-0", "4-18446744073709551615"), ("0-0", "0-0")] {
        assert_eq!(id.parse::<EntryId>().unwrap().previous().to_string(), previous);
    }
    let before = |at| EntryId::before(Millis::new(at)).to_string();
    assert_eq!([before(5), before(0)], ["4-18446744073709551615", "0-0"]);
}

#[test]
fn ids_are_ordered_as_numbers_not_as_text() {
    let id = |text: &str| text.parse::<EntryId>().unwrap();
    assert!(id("9-0") < id("10-0"));
    assert!(id("10-9") < id("10-10"));
    assert_eq!(id("1762790400000-3").to_string(), "1762790400000-3");
    for text in ["", "1", "1-", "-1", "1-2-3", "01-0", "*"] {
        assert!(text.parse::<EntryId>().is_err(), "{text:?}");
    }
}

#[test]
fn lines_are_a_range_or_a_list() {
    assert_eq!(lines("7-9", 3), [7, 8, 9]);
    assert_eq!(lines("7 9 12", 3), [7, 9, 12]);
    assert_eq!(lines("7", 1), [7]);
    for (wrong, count) in [("7-9", 2), ("7-9", 4), ("1-18446744073709551615", 3), ("7 x", 2), ("", 1), ("9-7", 0)] {
        assert!(lines(wrong, count).is_empty(), "{wrong}");
    }
    let mut entry = Entry::new(EntryId::ZERO);
    assert!(entry.line_names(1).is_empty());
    (entry.job, entry.lines) = (Some(b"night".to_vec()), Some(b"2-3".to_vec()));
    assert_eq!(entry.line_names(2), ["night:2", "night:3"]);
}

#[test]
fn orders_are_texts_and_never_numbers() {
    let sale = Entry {
        requests: Some(b"r\"1\t".to_vec()),
        reasons: Some(b"\twhy".to_vec()),
        ..Entry::of_orders("1-0", "deduct", "0123 2, 中 9007199254740991")
    };
    let rows = sale.rows().unwrap();
    assert_eq!(
        (rows[0].user(), rows[0].quantity(), rows[0].request(), rows[0].reason()),
        (&b"0123"[..], Some(2), Some("r\"1"), None)
    );
    assert_eq!(
        (rows[1].user(), rows[1].quantity(), rows[1].reason()),
        ("中".as_bytes(), Some(9_007_199_254_740_991), Some("why"))
    );
    // As a backend wrote it that does not speak UTF-8.
    let (users, requests) = (Some(b"\xc4\xe3".to_vec()), Some(b"\xff".to_vec()));
    let other = Entry { users, requests, ..Entry::of_orders("1-0", "deduct", "7 1") };
    let rows = other.rows().unwrap();
    assert_eq!(
        (rows[0].user(), rows[0].text(0), rows[0].quantity(), rows[0].request()),
        (&b"\xc4\xe3"[..], None, Some(1), None)
    );
}

#[test]
fn orders_move_the_stock_and_a_pause_does_not() {
    let change = |op: &str| Entry::of_orders("1-0", op, "a 2, b 3").stock_change();
    assert_eq!((change("deduct"), change("refund")), (Some(-5), Some(5)));
    assert_eq!((change("pause"), change("resume")), (Some(0), Some(0)));
    for op in ["preheat", "update", "repair", "sell", "lend", "borrow"] {
        assert_eq!(change(op), None, "{op}");
    }
    let transfer = |op| Entry { units: Some(b"7".to_vec()), ..Entry::of_orders("1-0", op, "") }.stock_change();
    assert_eq!((transfer("lend"), transfer("borrow")), (Some(-7), Some(7)));
    let repaired = |by: &str| Entry { stock_change: Some(by.into()), ..Entry::of_orders("1-0", "repair", "") };
    assert_eq!(["3", "-2", "+2", "02"].map(|by| repaired(by).stock_change()), [Some(3), Some(-2), None, None]);
    assert_eq!(Entry::of_orders("1-0", "deduct", "a many").stock_change(), None);
}

#[test]
fn holds_take_units_as_purchases_do_and_return_them_as_refunds_do() {
    let named = |is: fn(Op) -> bool| Op::ALL.iter().copied().filter(|op| is(*op)).collect::<Vec<_>>();
    assert_eq!(named(Op::takes), [Op::Deduct, Op::Hold]);
    assert_eq!(named(Op::returns), [Op::Refund, Op::Release, Op::Expire]);
    for op in Op::ALL {
        let sign = i64::from(op.returns()) - i64::from(op.takes());
        let change = Entry::of_orders("1-0", op.name(), "a 2, b 3").stock_change();
        assert_eq!(change.unwrap_or(0), 5 * sign, "{op}");
    }
}

#[test]
fn one_quantity_is_that_of_all_and_a_repair_has_two() {
    let sale = Entry { quantity: Some(b"3".to_vec()), ..Entry::of_orders("1-0", "deduct", "a 1, b 1") };
    assert_eq!(sale.rows().unwrap().iter().map(|row| row.quantity()).collect::<Vec<_>>(), [Some(3), Some(3)]);
    let repair = Entry::of_orders("1-0", "repair", "a 3 1");
    let rows = repair.rows().unwrap();
    assert_eq!((rows[0].user(), rows[0].from(), rows[0].to()), (&b"a"[..], Some(3), Some(1)));
}

#[test]
fn columns_of_another_length_are_refused() {
    let two_quantities = Entry { quantity: Some(b"1\t2".to_vec()), ..Entry::of_orders("1-0", "deduct", "a 1") };
    assert!(two_quantities.order_units().is_err());
    let one_request = Entry { requests: Some(b"r".to_vec()), ..Entry::of_orders("1-0", "deduct", "a 1, b 1") };
    assert_eq!(one_request.rows().unwrap_err(), "requests: 1 texts for 2 users");
    assert!(Entry::new(EntryId::ZERO).rows().unwrap().is_empty());
}
