use crate::audit::result::Verdict;
use crate::report::merged::MergedLedgers;
use crate::report::*;
use crate::report::{Balance, Objection};

fn entry(id: &str, op: &str, stock: &str, total: Option<&str>, orders: &str) -> Entry {
    let (stock, total, epoch) = (Some(stock.into()), total.map(Into::into), Some("1".into()));
    Entry { stock, total, epoch, ..Entry::of_orders(id, op, orders) }
}

fn sales(entries: &[Entry]) -> Sales {
    let mut sales = Sales::new(None);
    entries.iter().for_each(|entry| sales.add(entry));
    sales
}

fn sale() -> Vec<Entry> {
    vec![
        entry("1000-0", "preheat", "10", Some("10"), ""),
        entry("5100-0", "deduct", "6", None, "a 3, b 1"),
        entry("5900-0", "deduct", "0", None, "c 6"),
        entry("6000-0", "pause", "0", None, ""),
        entry("7000-0", "refund", "2", None, "a 2"),
        entry("8000-0", "update", "7", Some("15"), ""),
        entry("9000-0", "deduct", "4", None, "d 3"),
    ]
}

#[test]
fn holds_take_units_and_those_that_nobody_paid_are_no_refunds() {
    let mut entries = sale();
    entries.push(entry("9100-0", "hold", "1", None, "h 1, i 2"));
    entries.push(entry("9200-0", "confirm", "1", None, "h 1"));
    entries.push(entry("9300-0", "expire", "3", None, "i 2"));
    let sales = sales(&entries);
    assert_eq!((sales.holds, sales.held, sales.confirmed, sales.released), (2, 3, 1, 2));
    assert_eq!((sales.orders, sales.bought, sales.refunds, sales.returned, sales.sold), (6, 16, 1, 2, 12));
    assert_eq!((sales.last_refund, sales.timeline.span().unwrap().last), (Some(Millis::new(7000)), Millis::new(9300)));
    assert_eq!((sales.differs_at, Balance::new(&sales, 1, 15, Some(3), Some(12)).objection), (None, None));
}

#[test]
fn sums_that_agree_are_a_match_and_others_say_what_differs() {
    let sales = sales(&sale());
    let of = |epoch, total, stock, held| {
        let balance = Balance::new(&sales, epoch, total, stock, held);
        (balance.verdict(), balance.objection)
    };
    assert_eq!(of(1, 15, Some(4), Some(11)), (Verdict::Match, None));
    assert_eq!(of(1, 15, Some(4), None), (Verdict::Match, None));
    assert_eq!(of(1, 15, Some(4), Some(12)), (Verdict::Drift, Some(Objection::Participants)));
    assert_eq!(of(1, 15, Some(5), Some(11)), (Verdict::Drift, Some(Objection::Stock)));
    assert_eq!(of(1, 15, None, Some(11)), (Verdict::Drift, Some(Objection::NoStock)));
    assert_eq!(of(1, 16, Some(5), Some(11)), (Verdict::Drift, Some(Objection::Total)));
    assert_eq!(of(2, 15, Some(4), Some(11)), (Verdict::Unsettled, Some(Objection::NoBeginning)));
}

#[test]
fn the_first_entry_whose_stock_nothing_explains_is_remembered() {
    let mut entries = sale();
    assert_eq!(sales(&entries).differs_at, None);
    // Somebody took a unit between the two orders, and wrote no entry.
    entries[2] = entry("5900-0", "deduct", "0", None, "c 5");
    let sales = sales(&entries);
    assert_eq!(sales.differs_at, Some(Millis::new(5900)));
    assert_eq!(Balance::new(&sales, 1, 15, Some(4), None).since, Some(Millis::new(5900)));
}

#[test]
fn a_repair_leaves_what_it_says_and_explains_the_stock() {
    let mut entries = sale();
    // Two units were taken without an entry; the repair corrects both sides.
    entries.push(entry("9500-0", "repair", "2", None, "d 5 5, e 0 2"));
    let sales = sales(&entries);
    assert_eq!((sales.sold, sales.differs_at), (13, None));
    let moved = |sales: &Sales| sales.timeline.span().unwrap().buckets.iter().map(|bucket| bucket.sold).sum::<i64>();
    assert_eq!(moved(&sales), 13);
    assert_eq!(sales.marks.last().map(|mark| mark.quantity), Some(Some(2)));
    assert_eq!(Balance::new(&sales, 1, 15, Some(2), Some(13)).verdict(), Verdict::Match);
    // Without a stock, what the repair says itself is all that is known.
    entries.last_mut().unwrap().stock = None;
    let sales = self::sales(&entries);
    assert_eq!((sales.sold, moved(&sales)), (13, 13));
}

#[test]
fn behind_a_checkpoint_its_sums_are_where_the_sale_begins() {
    let checkpoint = Checkpoint::read("7 0a-b 2 1 5000-0 4000-5 12 50 30 1800 me").unwrap();
    let mut sales = Sales::new(Some(&checkpoint));
    assert!(!sales.is_whole(1));
    sales.add(&entry("5000-0", "deduct", "18", None, "a 2"));
    assert!(sales.is_whole(1));
    assert_eq!((sales.sold_before, sales.sold, sales.total, sales.bought), (30, 32, Some(50), 2));
    // Another entry comes next: what came between is gone.
    let mut sales = Sales::new(Some(&checkpoint));
    sales.add(&entry("5000-1", "deduct", "18", None, "a 2"));
    assert!(!sales.is_whole(1));
    sales.set_sold(35);
    assert_eq!((sales.sold_at_begin, sales.sold_before, sales.sold), (33, 33, 35));
}

#[test]
fn an_entry_that_cannot_be_read_is_named_and_changes_nothing() {
    let mut entries = sale();
    entries[2].quantity = Some(b"1\t2\t3".to_vec());
    entries[3].op = b"sell".to_vec();
    let sales = sales(&entries);
    assert_eq!(sales.unreadable.as_ref().map(|(id, _)| id.to_string()).as_deref(), Some("5900-0"));
    assert_eq!((sales.bought, sales.marks.len()), (7, 2));
    assert_eq!(Balance::new(&sales, 1, 15, Some(4), None).objection, Some(Objection::Unreadable));
}

#[test]
fn entries_of_more_units_than_a_number_holds_are_summed_up_to_its_end() {
    let sold = |op| {
        let entries = (0..1100).map(|at| entry(&format!("{at}-0"), op, "0", None, "a 9007199254740991"));
        sales(&entries.collect::<Vec<_>>()).sold
    };
    assert_eq!((sold("deduct"), sold("refund")), (i64::MAX, i64::MIN));
    assert!(sales(&[entry("1-0", "deduct", "0", None, "a 9007199254740991, b 1")]).unreadable.is_some());
}

#[test]
fn many_marks_are_counted() {
    let mut entries = sale();
    entries.extend((0..300).map(|seconds| entry(&format!("9500-{seconds}"), "pause", "4", None, "")));
    let sales = sales(&entries);
    assert_eq!((sales.marks.len(), sales.more_marks), (MAX_MARKS, 103));
}

#[test]
fn only_a_preheat_that_comes_first_begins_a_sale() {
    let preheat = || entry("2000-0", "preheat", "10", Some("10"), "");
    let other = |op| entry("1000-0", op, "10", Some("10"), "");
    assert!(sales(&[preheat()]).is_whole(1));
    for entries in [vec![other("adopt")], vec![other("update")], vec![other("update"), preheat()]] {
        assert!(!sales(&entries).is_whole(1));
    }
}

#[test]
fn a_sale_is_sold_out_when_its_total_is_held_for_the_first_time() {
    let mut entries = sale();
    entries.push(entry("9600-0", "deduct", "0", None, "e 4"));
    for (count, sold_out_at) in [(2, None), (3, Some(5900)), (8, Some(5900))] {
        assert_eq!(sales(&entries[..count]).sold_out_at, sold_out_at.map(Millis::new), "{count}");
    }
    // Of a total of nothing, nothing sells out.
    let none = [entry("1000-0", "preheat", "0", Some("0"), ""), entry("5100-0", "deduct", "0", None, "a 1")];
    assert_eq!(sales(&none).sold_out_at, None);
}

#[test]
fn the_first_of_two_equal_seconds_is_the_peak_and_one_instant_has_no_rate() {
    let order = |id| entry(id, "deduct", "5", None, "a 3");
    let equal = sales(&[order("5100-0"), order("6100-0")]);
    assert_eq!((equal.peak, equal.rate()), (Some(Peak { at: Millis::new(5000), units: 3 }), Some(6.0)));
    assert_eq!(sales(&[order("5100-0"), order("5100-1")]).rate(), None);
}

#[test]
fn a_mark_says_who_did_it_and_why_if_somebody_said() {
    let by = |by: &str| {
        let mut pause = entry("1000-0", "pause", "4", None, "");
        (pause.by, pause.reason) = (Some(by.into()), Some(by.into()));
        let mark = sales(&[pause]).marks.remove(0);
        (mark.by, mark.reason)
    };
    assert_eq!((by("ann"), by("")), ((Some("ann".to_owned()), Some("ann".to_owned())), (None, None)));
}

/// Entries of shards as those of the whole.
fn merged(first: &[Entry], rest: &[(usize, Entry)]) -> (Sales, i64) {
    let (mut merged, preheat) = MergedLedgers::new(first).unwrap();
    let mut sales = sales(&[preheat]);
    rest.iter().filter_map(|(shard, entry)| merged.next(*shard, entry)).for_each(|entry| sales.add(&entry));
    (sales, merged.in_transit)
}

#[test]
fn shards_are_one_sale_whatever_they_lend() {
    let first = [entry("1001-0", "preheat", "6", Some("6"), ""), entry("1000-0", "preheat", "4", Some("4"), "")];
    let transfer = |id: &str, op: &str, stock: &str, total: &str| Entry {
        units: Some("2".into()),
        ..entry(id, op, stock, Some(total), "")
    };
    let withdrawn = |entry: Entry| Entry { withdrawn: Some("3".into()), ..entry };
    let rest = [
        (0, entry("2000-0", "deduct", "5", None, "d 1")),
        // By the home's clock the units came before they went.
        (1, transfer("2999-0", "borrow", "6", "6")),
        (1, entry("2999-1", "deduct", "1", None, "a 5")),
        (0, transfer("3000-0", "lend", "3", "4")),
        (0, withdrawn(entry("4000-0", "pause", "3", None, ""))),
        (1, entry("4001-0", "pause", "1", None, "")),
        (0, entry("5000-0", "update", "8", Some("9"), "")),
        (1, entry("5000-1", "refund", "2", None, "a 1")),
        (1, entry("5001-0", "update", "3", Some("7"), "")),
        (0, transfer("6000-0", "lend", "6", "7")),
        (0, withdrawn(entry("7000-0", "pause", "6", None, ""))),
        (1, withdrawn(entry("7001-0", "pause", "3", None, ""))),
    ];
    let (sales, in_transit) = merged(&first, &rest);
    assert_eq!((sales.total, sales.sold, sales.orders, sales.differs_at, in_transit), (Some(16), 5, 2, None, 2));
    let marks: Vec<_> = sales.marks.iter().map(|mark| (mark.op, mark.quantity, mark.stock)).collect();
    assert_eq!(
        marks,
        [
            (Op::Preheat, Some(10), Some(10)),
            (Op::Pause, Some(3), Some(4)),
            (Op::Update, Some(16), Some(11)),
            (Op::Pause, Some(6), Some(11))
        ]
    );
    assert!(sales.is_whole(1));
    assert_eq!(Balance::new(&sales, 1, 16, Some(11), Some(5)).objection, None);
    // A ledger that does not begin with its preheat is none that can be merged.
    assert!(MergedLedgers::new(&[first[0].clone(), entry("1000-0", "deduct", "3", None, "a 1")]).is_none());
}
