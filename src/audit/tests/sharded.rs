//! Judgement of sharded sales, each shard at an instant of its own.

use crate::audit::class::Class;
use crate::audit::evidence::Evidence;
use crate::audit::evidence::mismatch::Holding;
use crate::audit::judgement::sharded::{ShardEvidence, ShardedEvidence, judge_shards};
use crate::audit::ledger_state::transfers::{Direction, TransferEntry};
use crate::audit::plan::MissingOrders;
use crate::audit::result::{Audit, Proof, Verdict};
use crate::model::number::signed;
use crate::model::{Entry, Layout, Meta, Millis, Shards, Snapshot};

/// What a ledger has of a shard: a deduct of a user, or a transfer.
#[derive(Clone, Copy)]
enum Does {
    Sells(&'static str, u64),
    /// Transfer, units, and to which shard.
    Lends(&'static str, u64, u32),
    Borrows(&'static str, u64, u32),
}
use Does::{Borrows, Lends, Sells};

/// When shards are read, in milliseconds; the entries are of the first ones.
const READ_AT: u64 = 4000;

/// A shard, as its ledger has it, and with what is for sale beyond that.
fn shard(total: u64, ledger: &[Does], surplus: i64) -> Evidence {
    let mut evidence = Evidence::new(&"1#3".parse().unwrap(), Layout::Cluster, None, None);
    let total_text = |total: i64| Some(total.to_string().into());
    let (mut total, mut sold) = (signed(total), 0);
    let begin = Entry::of_orders("1-0", "preheat", "");
    evidence.ledger.add(&Entry { epoch: Some(b"1".to_vec()), total: total_text(total), ..begin });
    for (does, at) in ledger.iter().zip(2..) {
        let id = format!("{at}-0");
        let (op, transfer, change, other) = match *does {
            Sells(user, units) => {
                sold += signed(units);
                evidence.ledger.add(&Entry::of_orders(&id, "deduct", &format!("{user} {units}")));
                continue;
            }
            Lends(transfer, units, other) => ("lend", transfer, -signed(units), other),
            Borrows(transfer, units, other) => ("borrow", transfer, signed(units), other),
        };
        total += change;
        evidence.ledger.add(&Entry {
            total: total_text(total),
            transfer: Some(transfer.into()),
            shard: Some(other.to_string().into()),
            units: Some(change.unsigned_abs().to_string().into()),
            ..Entry::of_orders(&id, op, "")
        });
    }
    assert!(evidence.ledger.unreadable.is_empty());
    let count = |units: i64| u64::try_from(units).unwrap();
    let meta = Some(Meta { total: count(total), epoch: 1, ledger: true, ..Meta::default() });
    let stock = Some(count(total - sold + surplus));
    evidence.end = Some(Snapshot { at: Millis::new(READ_AT), meta, ..Snapshot::sample("1#3", stock) });
    (evidence.by_ledger, evidence.settled) = (true, true);
    for user in evidence.ledger.unseen() {
        let holds = Holding::Units(count(evidence.ledger.units(user)));
        evidence.ledger.mark_seen(user);
        evidence.mismatches.extend(evidence.ledger.against_ledger(user, holds, None));
    }
    evidence.compare_all();
    evidence
}

/// Shards 3 and 9 of activity 1, which has 10 units.
fn found([first, second]: [Evidence; 2]) -> ShardedEvidence {
    let second = Evidence { activity: "1#9".parse().unwrap(), ..second };
    ShardedEvidence {
        activity: "1".parse().unwrap(),
        shards: "3 9".parse::<Shards>().unwrap(),
        total: 10,
        given: None,
        epoch: 1,
        is_changing: false,
        parts: [first, second].map(ShardEvidence::new).into(),
    }
}

fn judged(found: ShardedEvidence) -> Audit {
    judge_shards(found, MissingOrders::Repair)
}

/// Total, stock, bought, in transit and drift.
fn sums(audit: &Audit) -> (u64, u64, i64, i64, i64) {
    let in_transit = audit.in_transit.unwrap();
    assert_eq!(audit.expected_stock.unwrap() + audit.drift.unwrap(), signed(audit.stock.unwrap()));
    (audit.total.unwrap(), audit.stock.unwrap(), audit.bought.unwrap(), in_transit, audit.drift.unwrap())
}

/// The differences as `shard class redis ledger`, and the transfers of the plan.
fn differences(audit: &Audit) -> Vec<String> {
    let difference = audit.differences.iter().map(|one| {
        let shard = one.shard.as_ref().map_or("-", |shard| shard.as_str());
        let units = |held: &Option<_>| held.as_ref().map_or("-".to_owned(), ToString::to_string);
        format!("{shard} {} {} {}", one.class, units(&one.redis), units(&one.ledger))
    });
    difference.collect()
}

// `e` and `d` are at home in 3, `a` and `c` in 9.

#[test]
fn users_of_these_tests_are_at_home() {
    let shards: Shards = "3 9".parse().unwrap();
    let homes = ["a", "e", "c", "d"].map(|user| shards.numbers()[shards.home(user.as_bytes())]);
    assert_eq!(homes, [9, 3, 9, 3]);
}

#[test]
fn the_sums_of_shards_match_whatever_was_lent() {
    let quiet = judged(found([shard(6, &[Sells("e", 1)], 0), shard(4, &[Sells("a", 3)], 0)]));
    assert_eq!((quiet.verdict, quiet.proof, sums(&quiet)), (Verdict::Match, Proof::Ledger, (10, 6, 4, 0, 0)));
    let done = [shard(6, &[Lends("t", 2, 9)], 0), shard(4, &[Borrows("t", 2, 3), Sells("a", 5)], 0)];
    let done = judged(found(done));
    assert_eq!((done.verdict, sums(&done), done.notes), (Verdict::Match, (10, 5, 5, 0, 0), vec![]));
    let open = judged(found([shard(6, &[Lends("t", 2, 9)], 0), shard(4, &[Sells("a", 3)], 0)]));
    assert_eq!((open.verdict, sums(&open), open.notes), (Verdict::Match, (10, 5, 3, 2, 0), vec![]));
}

#[test]
fn a_side_that_was_written_after_its_shard_was_read_counts() {
    // The donor was read before it lent, the home after it borrowed.
    let mut lent_later = found([shard(6, &[], 0), shard(4, &[Borrows("t", 2, 3), Sells("a", 6)], 0)]);
    assert_eq!(lent_later.missing(), [vec![(Direction::Lend, "t".to_owned())], vec![]]);
    let entry = |shard| TransferEntry { units: 2, shard, at: Millis::new(READ_AT + 1) };
    lent_later.parts[0].later.add(Direction::Lend, "t".to_owned(), entry(9));
    let audit = judged(lent_later);
    assert_eq!((audit.verdict, sums(&audit)), (Verdict::Match, (10, 4, 6, 0, 0)));

    let mut borrowed_later = found([shard(6, &[Lends("t", 2, 9)], 0), shard(4, &[], 0)]);
    assert_eq!(borrowed_later.missing(), [vec![], vec![(Direction::Borrow, "t".to_owned())]]);
    borrowed_later.parts[1].later.add(Direction::Borrow, "t".to_owned(), entry(3));
    let audit = judged(borrowed_later);
    assert_eq!((audit.verdict, sums(&audit)), (Verdict::Match, (10, 10, 0, 0, 0)));
}

#[test]
fn units_that_were_sold_again_elsewhere_between_two_reads_count_once() {
    // Shard 3 was read when it had sold all; then they were given back, lent, and sold in shard 9, which was read after that.
    let mut again = found([shard(6, &[Sells("e", 6)], 0), shard(4, &[Borrows("t", 2, 3), Sells("a", 6)], 0)]);
    let entry = TransferEntry { units: 2, shard: 9, at: Millis::new(READ_AT + 1) };
    again.parts[0].later.add(Direction::Lend, "t".to_owned(), entry);
    let audit = judged(again);
    assert_eq!((audit.verdict, sums(&audit)), (Verdict::Match, (10, 0, 12, -2, 0)));
}

#[test]
fn units_that_nobody_lent_are_unbacked_and_a_plan_takes_them_out_of_the_donor() {
    let audit = judged(found([shard(6, &[], 0), shard(4, &[Borrows("t", 2, 3)], 0)]));
    assert_eq!((audit.verdict, sums(&audit)), (Verdict::Drift, (10, 12, 0, 0, 2)));
    assert_eq!(differences(&audit), ["1#9 unbacked_transfer 2 0"]);
    let planned = &audit.plan.transfers[0];
    assert_eq!((planned.class, planned.donor.as_str(), planned.home.as_str()), (Class::UnbackedTransfer, "1#3", "1#9"));
    assert!(audit.notes[0].contains("2 units too many are for sale"), "{:?}", audit.notes);
    // The donor lent fewer than the home got; or to another shard.
    let less = judged(found([shard(6, &[Lends("t", 1, 9)], 0), shard(4, &[Borrows("t", 2, 3)], 0)]));
    assert_eq!((sums(&less), differences(&less)), ((10, 11, 0, 0, 1), vec!["1#9 unbacked_transfer 2 1".to_owned()]));
    let mut other = found([shard(6, &[], 0), shard(4, &[Borrows("t", 2, 3)], 0)]);
    let to_another = TransferEntry { units: 2, shard: 4, at: Millis::new(1) };
    other.parts[0].later.add(Direction::Lend, "t".to_owned(), to_another);
    assert_eq!(differences(&judged(other)), ["1#9 unbacked_transfer 2 0"]);
}

#[test]
fn units_in_transit_are_stuck_after_five_seconds() {
    for (read_at, is_stuck) in [(5002, false), (5003, true)] {
        let mut donor = shard(6, &[Lends("t", 2, 9)], 0);
        donor.end.as_mut().unwrap().at = Millis::new(read_at);
        let audit = judged(found([donor, shard(4, &[], 0)]));
        assert_eq!(sums(&audit), (10, 8, 0, 2, 0), "they are missing nowhere");
        let expected = if is_stuck { vec!["1#3 stuck_transfer 0 2".to_owned()] } else { vec![] };
        assert_eq!((differences(&audit), audit.plan.transfers.len()), (expected, usize::from(is_stuck)));
        assert_eq!(audit.verdict == Verdict::Drift, is_stuck);
    }
}

#[test]
fn what_differs_in_a_shard_names_it_and_its_users_do_not() {
    let surplus = judged(found([shard(6, &[Sells("e", 1)], 2), shard(4, &[], 0)]));
    assert_eq!((surplus.verdict, sums(&surplus)), (Verdict::Drift, (10, 11, 1, 0, 2)));
    assert_eq!(differences(&surplus), ["1#3 conservation 7 5"]);
    assert_eq!(surplus.plan.repairs[0].activity, "1#3");
    let mut counter = shard(6, &[Sells("e", 1)], 0);
    let user = counter.ledger.user(b"e");
    counter.mismatches.extend(counter.ledger.against_ledger(user, Holding::Units(2), None));
    let audit = judged(found([counter, shard(4, &[], 0)]));
    assert_eq!(differences(&audit), ["1#3 conservation 5 5", "- counter_drift 2 1"]);
}

#[test]
fn shards_that_were_preheated_with_another_total_differ_as_a_whole() {
    let audit = judged(found([shard(6, &[Lends("t", 2, 9)], 0), shard(5, &[Borrows("t", 2, 3)], 0)]));
    assert_eq!((audit.verdict, sums(&audit)), (Verdict::Drift, (10, 11, 0, 0, 1)));
    assert_eq!(differences(&audit), ["- conservation 11 10"]);
    let given = ShardedEvidence { given: Some(12), ..found([shard(6, &[], 0), shard(4, &[], 0)]) };
    let audit = judged(given);
    assert_eq!((sums(&audit), differences(&audit)), ((12, 10, 0, 0, -2), vec!["- conservation 10 12".to_owned()]));
    // A preheat that is under way explains it, and proves nothing.
    let changing = ShardedEvidence { is_changing: true, ..found([shard(6, &[], 0), shard(5, &[], 0)]) };
    let audit = judged(changing);
    assert_eq!((audit.verdict, audit.proof, differences(&audit)), (Verdict::Unsettled, Proof::None, vec![]));
}

#[test]
fn without_all_ledgers_transfers_prove_nothing() {
    let mut headless = shard(6, &[], 0);
    (headless.by_ledger, headless.settled) = (false, false);
    let audit = judged(found([headless, shard(4, &[Borrows("t", 2, 3)], 0)]));
    assert_eq!((audit.verdict, audit.proof, audit.in_transit), (Verdict::Unsettled, Proof::None, None));
    assert_eq!(differences(&audit), Vec::<String>::new());
    // A shard of another epoch: its reset is unfinished.
    let other = ShardedEvidence { epoch: 2, ..found([shard(6, &[], 0), shard(4, &[], 0)]) };
    assert_eq!(judged(other).verdict, Verdict::Unsettled);
}

#[test]
fn a_shard_that_is_gone_is_drift_and_all_of_them_are_no_activity() {
    let gone = || {
        let mut gone = shard(0, &[], 0);
        (gone.end, gone.by_ledger, gone.settled) = (None, false, false);
        gone
    };
    let audit = judged(found([shard(6, &[], 0), gone()]));
    assert_eq!(
        (audit.verdict, audit.stock, differences(&audit)),
        (Verdict::Drift, None, vec!["1#9 conservation - -".to_owned()])
    );
    assert!(audit.notes.iter().any(|note| note.starts_with("`1#9`: it is gone")), "{:?}", audit.notes);
    // In files, until the others are.
    let mut archived = found([shard(6, &[], 0), gone()]);
    archived.parts[1].is_archived = true;
    let audit = judged(archived);
    assert_eq!((audit.verdict, differences(&audit)), (Verdict::Unsettled, vec![]));
    assert!(audit.notes.iter().any(|note| note.contains("1 of its 2 shards are archived")), "{:?}", audit.notes);
    let none = judged(found([gone(), gone()]));
    assert_eq!((none.verdict, none.notes), (Verdict::NotPreheated, vec![]));
}

#[test]
fn a_user_who_bought_elsewhere_than_at_home_is_a_warning() {
    let audit = judged(found([shard(6, &[Sells("a", 1)], 0), shard(4, &[Sells("c", 1)], 0)]));
    assert_eq!(audit.verdict, Verdict::Match);
    assert!(audit.notes[0].starts_with("1 users bought") && audit.notes[0].contains("`a` in `1#3` instead of `1#9`"));
}
