use std::collections::HashSet;

use crate::audit::ledger_state::order_sums::OrderRows;
use crate::audit::ledger_state::*;

fn entry(id: &str, op: &str, total: Option<&str>, orders: &str) -> Entry {
    Entry { total: total.map(Into::into), epoch: Some("1".into()), ..Entry::of_orders(id, op, orders) }
}

#[test]
fn it_adds_up() {
    let mut state = LedgerState::new(Kind::Hash, None);
    state.add(&entry("1-0", "preheat", Some("10"), ""));
    state.add(&entry("2-0", "deduct", None, "a 3, b 1, a 1"));
    state.add(&entry("2-1", "refund", None, "a 2"));
    state.add(&entry("3-0", "update", Some("20"), ""));
    let a = state.user(b"a");
    assert_eq!((state.units(a), state.sum, state.total, state.epoch, state.entries), (2, 3, Some(20), Some(1), 4));
    assert!(state.mark_seen(a) && !state.mark_seen(a));
    assert_eq!(state.unseen().iter().map(|user| state.users.name(*user)).collect::<Vec<_>>(), [b"b"]);
}

#[test]
fn who_once_held_less_than_nothing_is_looked_up_though_nothing_is_held_now() {
    let mut state = LedgerState::new(Kind::Set, None);
    state.add(&entry("1-0", "preheat", Some("10"), ""));
    // The entry of a's first order was cut.
    state.add(&entry("2-0", "refund", None, "a 1"));
    state.add(&entry("3-0", "deduct", None, "a 1, b 1"));
    state.add(&entry("4-0", "refund", None, "b 1"));
    assert_eq!(state.unseen().iter().map(|user| state.users.name(*user)).collect::<Vec<_>>(), [b"a"]);
}

#[test]
fn a_transfer_moves_the_total_and_is_remembered_until_it_begins_again() {
    let transfer = |id: &str, op: &str, total: &str, units: &str| Entry {
        transfer: Some("ab".into()),
        shard: Some("17".into()),
        units: Some(units.into()),
        ..entry(id, op, Some(total), "")
    };
    let mut state = LedgerState::new(Kind::Hash, None);
    state.add(&entry("1-0", "preheat", Some("10"), ""));
    state.add(&transfer("2-0", "lend", "6", "4"));
    state.add(&transfer("3-0", "borrow", "8", "2"));
    assert_eq!((state.total, state.sum, state.transfers.balance()), (Some(8), 0, -2));
    // One that contradicts what is known, or has no units, changes nothing.
    state.add(&transfer("4-0", "lend", "1", "5"));
    state.add(&transfer("5-0", "lend", "1", ""));
    assert_eq!((state.total, state.transfers.balance(), state.unreadable.len()), (Some(8), -2, 2));
    state.begin_again();
    assert_eq!(state.transfers, Transfers::default());
}

#[test]
fn a_pause_lasts_until_it_is_resumed() {
    let mut state = LedgerState::new(Kind::Hash, None);
    let mut paused = Vec::new();
    for (id, op) in [("1-0", "preheat"), ("2-0", "pause"), ("3-0", "deduct"), ("4-0", "resume")] {
        state.add(&entry(id, op, Some("10"), if op == "deduct" { "a 1" } else { "" }));
        paused.push(state.is_paused);
    }
    assert_eq!(paused, [false, true, true, false]);
}

#[test]
fn a_repair_sets_a_users_units_but_of_a_bare_counter_the_difference() {
    for (kind, sum) in [(Kind::Hash, 2), (Kind::Counter, 4)] {
        let mut state = LedgerState::new(kind, None);
        state.add(&entry("1-0", "preheat", Some("10"), ""));
        state.add(&entry("2-0", "deduct", None, "a 7"));
        state.add(&entry("3-0", "repair", None, "a 5 2"));
        assert_eq!(state.sum, sum, "{kind:?}");
    }
}

#[test]
fn what_is_newer_than_the_order_records_is_told_apart() {
    let mut rows = OrderRows::default();
    rows.push("a", 3, None);
    rows.push("a", -1, None);
    let mut state = LedgerState::new(Kind::Hash, Some(Compared::unread(None, "5-0".parse().unwrap(), true)));
    state.add_orders(&rows);
    state.add(&entry("4-9", "deduct", None, "a 2, b 1"));
    state.add(&entry("5-0", "deduct", None, "b 4"));
    state.add(&entry("6-0", "refund", None, "b 5"));
    let (a, b) = (state.user(b"a"), state.user(b"b"));
    assert_eq!((state.units(a), state.ordered(a), state.newer(a)), (2, Some(2), NewerMoves::default()));
    assert_eq!(
        (state.units(b), state.ordered(b), state.newer(b)),
        (0, Some(0), NewerMoves { net: -1, low: -1, high: 4, returned: 5, ..NewerMoves::default() })
    );
    state.begin_again();
    assert_eq!((state.units(a), state.ordered(a), state.entries), (0, Some(2), 0));
}

#[test]
fn a_ledger_is_whole_from_the_preheat_of_its_epoch_on() {
    let mut state = LedgerState::new(Kind::Set, Some(Compared::unread(None, EntryId::ZERO, true)));
    assert!(!state.is_whole(1));
    state.add(&entry("1-0", "preheat", Some("10"), ""));
    assert!(state.is_whole(1) && !state.is_whole(2));
    state.carry_unknown(b"a");
    assert_eq!(state.unknown().collect::<Vec<_>>(), [b"a"]);
    state.begin_again();
    assert_eq!((state.kind, state.named, state.is_whole(1), state.unknown().count()), (Kind::Set, true, false, 0));
    // Behind a checkpoint it is whole once the very next entry was read.
    let checkpoint = Checkpoint::read("7 0a-b 2 1 1700-0 1699-5 12 50 3 1800 me").unwrap();
    state.begin_at(&checkpoint);
    assert!(!state.is_whole(checkpoint.epoch));
    state.add(&entry(&checkpoint.from.to_string(), "deduct", None, "b 1"));
    assert!(state.is_whole(checkpoint.epoch));
}

#[test]
fn an_entry_that_cannot_be_read_is_named_and_changes_nothing() {
    let mut state = LedgerState::new(Kind::Hash, None);
    state.add(&entry("1-0", "deduct", None, "a 1, b -1"));
    state.add(&entry("2-0", "sell", None, ""));
    let mut invalid = entry("3-0", "deduct", None, "a 1");
    invalid.quantity = Some(b"1\t2".to_vec());
    state.add(&invalid);
    state.add(&entry("4-0", "deduct", None, "a 9007199254740991, b 1"));
    assert_eq!((state.sum, state.epoch, state.unreadable.len(), state.entries), (0, None, 4, 4));
}

#[test]
fn entries_of_more_units_than_a_number_holds_are_summed_up_to_its_end() {
    let mut state = LedgerState::new(Kind::Hash, None);
    for at in 0..1100 {
        state.add(&entry(&format!("{at}-0"), "hold", None, "a 9007199254740991"));
        state.add(&entry(&format!("{at}-1"), "deduct", None, "b 9007199254740991"));
    }
    assert_eq!(
        (state.sum, state.known_units(), state.open_units(), state.unreadable.len()),
        (i64::MAX, i64::MAX, i64::MAX, 0)
    );
    // What users held before a repair may come to anything.
    state.add(&entry("9999-0", "repair", None, "a 9007199254740991 1, b 9007199254740991 1"));
    assert_eq!((state.known_units(), state.unreadable.len()), (2, 0));
}

/// A ledger of a sale, whose preheat is entry `1-0`.
fn ledger(kind: Kind, compared: Option<Compared>, entries: &[(&str, &str, &str)]) -> LedgerState {
    let mut state = LedgerState::new(kind, compared);
    state.add(&entry("1-0", "preheat", Some("10"), ""));
    entries.iter().for_each(|(id, op, orders)| state.add(&entry(id, op, None, orders)));
    state
}

#[test]
fn what_is_held_is_open_until_it_is_confirmed_or_returns() {
    let entries = [
        ("2-0", "hold", "a 5, b 3, c 2"),
        ("3-0", "confirm", "a 2"),
        ("4-0", "release", "a 1"),
        ("5-0", "expire", "b 3"),
        // More than the ledger knows of: it was held before an adoption.
        ("6-0", "confirm", "c 4"),
    ];
    let held = |count: usize| {
        let state = ledger(Kind::Hash, None, &entries[..count]);
        let name = |user: &[u8]| String::from_utf8(user.to_vec()).unwrap();
        let held = state.held().map(|(user, units, open)| format!("{} {units} {open}", name(user)));
        (held.collect::<Vec<_>>().join(", "), state.sum)
    };
    assert_eq!(held(1), ("a 5 5, b 3 3, c 2 2".to_owned(), 10));
    assert_eq!(held(2), ("a 5 3, b 3 3, c 2 2".to_owned(), 10));
    assert_eq!(held(3), ("a 4 2, b 3 3, c 2 2".to_owned(), 9));
    assert_eq!(held(4), ("a 4 2, c 2 2".to_owned(), 6));
    assert_eq!(held(5), ("a 4 2, c 2 0".to_owned(), 6));
}

#[test]
fn order_records_may_lack_what_is_held_open() {
    let newer = |entries: &[(&str, &str, &str)]| {
        let mut state = ledger(Kind::Hash, Some(Compared::unread(None, "5-0".parse().unwrap(), true)), entries);
        let a = state.user(b"a");
        let NewerMoves { net, low, high, closed, .. } = state.newer(a);
        (net, low, high, closed)
    };
    let held = ("4-0", "hold", "a 4");
    assert_eq!(newer(&[held]), (0, -4, 0, 0));
    assert_eq!(newer(&[held, ("6-0", "confirm", "a 4")]), (0, -4, 0, 4));
    assert_eq!(newer(&[held, ("6-0", "release", "a 4")]), (-4, -4, 0, 4));
    assert_eq!(newer(&[("4-0", "deduct", "a 3"), held, ("6-0", "refund", "a 3")]), (-3, -7, 0, 0));
    assert_eq!(newer(&[("6-0", "hold", "a 4")]), (4, 0, 4, -4));
}

/// The same records must not take again what a repair took, nor what was refunded of an order that they lack.
#[test]
fn a_repair_since_the_order_records_is_no_move_and_a_refund_may_be_of_any_order() {
    let entries =
        [("4-0", "deduct", "a 3"), ("6-0", "refund", "a 1"), ("7-0", "repair", "a 2 1"), ("8-0", "deduct", "a 4")];
    let mut state = ledger(Kind::Hash, Some(Compared::unread(None, "5-0".parse().unwrap(), true)), &entries);
    let a = state.user(b"a");
    let moves = NewerMoves { net: 3, low: -1, high: 3, returned: 1, taken: -1, ..NewerMoves::default() };
    assert_eq!((state.units(a), state.newer(a)), (5, moves));
}

#[test]
fn only_a_preheat_that_comes_first_begins_an_epoch() {
    let first = |op| {
        let mut state = LedgerState::new(Kind::Hash, None);
        state.add(&entry("1-0", op, Some("10"), ""));
        state.epoch
    };
    assert_eq!([first("preheat"), first("adopt"), first("update")], [Some(1), None, None]);
    let mut state = LedgerState::new(Kind::Hash, None);
    state.add(&entry("1-0", "update", Some("10"), ""));
    state.add(&entry("2-0", "preheat", Some("10"), ""));
    assert_eq!(state.epoch, None);
}

#[test]
fn a_checkpoint_says_what_each_user_holds_and_how_much_of_it_is_open() {
    for (kind, names) in [(Kind::Hash, &[&b"a"[..], b"b"][..]), (Kind::Counter, &[b""])] {
        let mut state = LedgerState::new(kind, None);
        state.carry(b"a", 5, 2);
        state.carry(b"b", 3, 0);
        assert_eq!((state.sum, state.held().map(|(user, ..)| user).collect::<Vec<_>>()), (8, names.to_vec()));
    }
    let mut state = LedgerState::new(Kind::Hash, None);
    state.carry(b"a", 5, 2);
    assert_eq!(state.held().collect::<Vec<_>>(), [(&b"a"[..], 5, 2)]);
}

#[test]
fn units_beyond_those_of_known_users_are_of_unknown_ones() {
    for (unknown, sum, is_consistent) in [
        (0, 5, true),
        (0, 6, false),
        (0, 4, false),
        // Each of them has at least one.
        (2, 6, false),
        (2, 7, true),
        (2, 9, true),
        (2, 4, false),
    ] {
        let mut state = LedgerState::new(Kind::Set, None);
        state.carry(b"a", 5, 0);
        [&b"x"[..], b"y"][..unknown].iter().for_each(|user| state.carry_unknown(user));
        assert_eq!((state.carried(sum), state.sum), (is_consistent, sum), "{unknown} {sum}");
    }
}

#[test]
fn a_refund_of_a_user_of_unknown_units_makes_them_known() {
    let mut state = LedgerState::new(Kind::Set, None);
    state.carry_unknown(b"x");
    state.carry_unknown(b"y");
    state.add(&entry("2-0", "deduct", None, "a 2"));
    state.add(&entry("3-0", "refund", None, "x 3"));
    let [a, x, y] = ["a", "x", "y"].map(|user| state.user(user.as_bytes()));
    assert_eq!((state.units(a), state.units(x), state.sum), (2, 0, -1));
    assert_eq!([a, x, y].map(|user| state.is_unknown(user)), [false, false, true]);
}

/// Two members of unknown units, who hold seven together.
fn two_unknown(compared: Option<Compared>) -> LedgerState {
    let mut state = LedgerState::new(Kind::Set, compared);
    (state.total, state.sum) = (Some(10), 7);
    state.carry_unknown(b"x");
    state.carry_unknown(b"y");
    state
}

#[test]
fn what_the_last_user_of_unknown_units_did_not_hold_is_nobodys() {
    let mut state = two_unknown(None);
    state.add(&entry("3-0", "refund", None, "x 3"));
    assert_eq!(state.sum, 4);
    state.add(&entry("4-0", "repair", None, "y 0 0"));
    assert_eq!((state.sum, state.unknown().count()), (0, 0));
}

#[test]
fn a_repair_of_the_stock_says_what_users_of_unknown_units_hold() {
    let mut state = two_unknown(None);
    state.add(&Entry { stock: Some("8".into()), ..entry("3-0", "repair", None, "") });
    assert_eq!(state.sum, 2);
    state.add(&entry("4-0", "repair", None, ""));
    assert_eq!((state.sum, state.unreadable.len()), (2, 1), "one that does not say what is left");
}

#[test]
fn order_records_say_what_nobody_recorded() {
    for (records, sum, unknown) in [(&[("x", 2), ("y", 3)][..], 5, 0), (&[("x", 2)], 7, 1), (&[], 7, 2)] {
        let mut compared = Compared::unread(None, EntryId::ZERO, true);
        let mut rows = OrderRows::default();
        records.iter().for_each(|(user, units)| rows.push(user, *units, None));
        compared.orders.add(&rows, &mut compared.users);
        let mut state = two_unknown(Some(compared));
        assert_eq!(
            (state.learn_unknown(&HashSet::new()), state.sum, state.unknown().count()),
            (sum - 7, sum, unknown),
            "{records:?}"
        );
    }
}
