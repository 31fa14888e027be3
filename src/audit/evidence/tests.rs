use crate::audit::evidence::*;
use crate::audit::ledger_state::order_sums::OrderRows;
use crate::model::{EntryId, Millis, StoredUser};

fn evidence(layout: Layout, compared: Option<Compared>) -> Evidence {
    Evidence::new(&"1001".parse().unwrap(), layout, None, compared)
}

fn view(stock: u64) -> Snapshot {
    let meta = Meta { total: 10, epoch: 1, ledger: true, ..Meta::default() };
    Snapshot { at: Millis::new(5000), meta: Some(meta), ..Snapshot::sample("1001", Some(stock)) }
}

#[test]
fn a_sale_is_live_for_a_second_after_its_last_entry() {
    let last = |at| Snapshot { ledger_last: Some(EntryId::first_at(Millis::new(at))), ..view(1) };
    assert!(last(4001).is_live() && last(6000).is_live());
    assert!(!last(4000).is_live() && !view(1).is_live());
}

#[test]
fn units_sold_are_known_unless_it_is_gone_or_corrupt_or_more_are_left_than_there_were() {
    let mut sale = evidence(Layout::Product, None);
    assert_eq!((sale.sold(), sale.bought()), (None, None));
    for (stock, sold) in [(10, Some(0)), (7, Some(3)), (11, None)] {
        sale.end = Some(view(stock));
        assert_eq!((sale.sold(), sale.bought()), (sold, sold), "{stock}");
    }
    (sale.end, sale.corrupt) = (Some(view(4)), Some(Corrupt { key: "a key".to_owned(), what: "is a list".to_owned() }));
    assert_eq!(sale.bought(), None);
}

#[test]
fn scans_that_differ_or_miss_the_ledgers_beginning_settle_nothing() {
    for (settled, lost_beginning, after) in
        [(true, false, (true, false, 0)), (true, true, (false, false, 1)), (false, true, (false, true, 1))]
    {
        let mut sale = evidence(Layout::Seckill, None);
        sale.settled = settled;
        sale.note_scans(lost_beginning);
        assert_eq!((sale.settled, sale.is_torn, sale.notes.len()), after);
    }
}

#[test]
fn order_records_older_than_the_checkpoint_are_named() {
    let checkpoint = Checkpoint::read("7 0a-b 2 1 1700-0 1699-5 12 50 3 1800 me").unwrap();
    for (newer_from, notes) in [(1699, 1), (1700, 0)] {
        let newer_from = EntryId::first_at(Millis::new(newer_from));
        let mut sale = evidence(Layout::Seckill, Some(Compared::unread(None, newer_from, true)));
        sale.ledger.begin_at(&checkpoint);
        let meta = Meta { checkpoint: Some(checkpoint.clone()), ..Meta::default() };
        sale.end = Some(Snapshot { meta: Some(meta), ..view(1) });
        sale.note_orders_too_old();
        assert_eq!(sale.notes.len(), notes, "{newer_from}");
    }
}

#[test]
fn the_tail_is_lost_if_records_name_entries_behind_the_last() {
    let id = |text: &str| text.parse::<EntryId>().unwrap();
    for (last, ledger, lost) in [("5-0", true, true), ("5-1", true, false), ("5-0", false, false)] {
        let mut sale = evidence(Layout::Seckill, Some(Compared::unread(None, id("9-0"), true)));
        assert!(!sale.lost_tail());
        let mut rows = OrderRows::default();
        rows.push("a", 1, Some(id("5-1")));
        sale.ledger.add_orders(&rows);
        let meta = Some(Meta { ledger, ..Meta::default() });
        sale.end = Some(Snapshot { ledger_last: Some(id(last)), meta, ..view(1) });
        assert_eq!(sale.lost_tail(), lost, "{last} {ledger}");
    }
}

#[test]
fn totals_differ_if_two_who_know_one_say_others() {
    // What the caller, the ledger and preheat (10) say; whether the ledger is whole.
    for (given, ledger, by_ledger, differ) in [
        (None, None, false, false),
        (Some(10), None, false, false),
        (Some(11), None, false, true),
        (None, Some(10), true, false),
        (None, Some(9), true, true),
        (None, Some(9), false, false),
        (Some(10), Some(10), true, false),
    ] {
        let mut sale = evidence(Layout::Seckill, None);
        (sale.total, sale.ledger.total, sale.by_ledger, sale.end) = (given, ledger, by_ledger, Some(view(1)));
        assert_eq!(sale.totals_differ(), differ, "{given:?} {ledger:?} {by_ledger}");
    }
    let mut unread = evidence(Layout::Seckill, None);
    unread.total = Some(10);
    assert!(!unread.totals_differ(), "nobody else says a total");
}

#[test]
fn beginning_again_keeps_the_order_records_only() {
    let mut sale = evidence(Layout::Seckill, Some(Compared::unread(None, EntryId::ZERO, true)));
    let mut rows = OrderRows::default();
    rows.push("a", 2, None);
    sale.ledger.add_orders(&rows);
    (sale.end, sale.settled, sale.by_ledger, sale.is_torn) = (Some(view(1)), true, true, true);
    (sale.stock_drift, sale.stock_drift_changed, sale.without_units) = (Some(1), true, 1);
    let user = sale.ledger.user(b"a");
    sale.ledger.mark_seen(user);
    sale.notes.push(String::new());
    sale.begin_again();
    assert_eq!((sale.end.is_none(), sale.settled, sale.by_ledger, sale.is_torn), (true, false, false, false));
    assert_eq!((sale.stock_drift, sale.stock_drift_changed, sale.without_units), (None, false, 0));
    assert_eq!((sale.ledger.ordered(user), sale.ledger.unseen(), sale.notes.len()), (Some(2), vec![user], 0));
}

#[test]
fn a_hold_without_an_entry_counts_though_it_is_newer_than_the_ledger() {
    let counts = |stored| OpenCounts {
        stored,
        counted: stored,
        undated: 0,
        is_partial: false,
        users: vec![(StoredUser::new(b"a"), Some(stored), stored)],
    };
    for (stored, open) in [(1, 1), (0, 0)] {
        let mut sale = evidence(Layout::Seckill, None);
        (sale.by_ledger, sale.end) = (true, Some(view(4)));
        sale.take_open(Recounted::Counts(counts(stored)), true);
        let user = sale.ledger.user(b"a");
        assert_eq!((sale.ledger.open(user), sale.notes.len()), (open, 0));
    }
}

#[test]
fn many_holds_are_counted_only_if_something_is_wrong() {
    let open = |by_ledger, settled, orders: Option<&str>| {
        let mut sale = evidence(Layout::Seckill, orders.map(|_| Compared::unread(None, EntryId::ZERO, true)));
        let meta = Meta { holds: 501, ..Meta::default() };
        (sale.by_ledger, sale.settled) = (by_ledger, settled);
        sale.end = Some(Snapshot { meta: Some(meta), ..view(1) });
        let user = sale.ledger.user(b"a");
        let mut rows = OrderRows::default();
        orders.into_iter().for_each(|name| rows.push(name, 1, None));
        sale.ledger.add_orders(&rows);
        sale.mismatches.extend(sale.ledger.mismatch(user, Holding::Units(1), None, by_ledger));
        let most = sale.holds_to_count();
        sale.take_open(Recounted::TooMany, false);
        (most, sale.notes.len())
    };
    assert_eq!(open(true, true, None), (Some(Evidence::MANY_HOLDS), 1));
    // Without a ledger only order records that differ at rest need a count; else a note says that there was none.
    for (settled, orders) in [(true, None), (true, Some("a")), (false, Some("b"))] {
        assert_eq!(open(false, settled, orders), (Some(Evidence::FEW_HOLDS), 1), "{settled} {orders:?}");
    }
    assert_eq!(open(false, true, Some("b")), (Some(Evidence::MANY_HOLDS), 1));
}
