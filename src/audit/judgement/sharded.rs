//! The audit of a sharded activity: each shard is judged by itself, at an instant of its own; then their sums, and the transfers
//! between them.
//!
//! In each shard `stock + bought = total` holds at each instant, and a transfer moves stock and total by the same number. So at any mix of instants
//! the units of all shards are the total of the activity, less what was lent, and with what was borrowed. Which of that is in
//! transit, the ids of the transfers say.

use std::collections::BTreeMap;

use crate::audit::class::Class;
use crate::audit::evidence::Evidence;
use crate::audit::judgement::judge;
use crate::audit::ledger_state::transfers::{
    BrokenTransfer, CutChange, Direction, TransferEntry, TransferSide, Transfers,
};
use crate::audit::plan::{MissingOrders, RepairPlan};
use crate::audit::result::{Audit, Difference, Proof, RecordedUnits, Verdict};
use crate::model::number::signed;
use crate::model::shards::transfer_age;
use crate::model::{ActivityId, Shards, StoredUser};

/// A transfer is stuck when it is older than this, in milliseconds by the donor's clock: the client that began it is gone.
pub(crate) const STUCK_AFTER: u64 = 5000;

/// All that was found of a sharded activity.
pub struct ShardedEvidence {
    /// The activity.
    pub(crate) activity: ActivityId,
    /// Its shards.
    pub(crate) shards: Shards,
    /// Units that it was preheated with, updates included.
    pub(crate) total: u64,
    /// The total that the caller says it has.
    pub(crate) given: Option<u64>,
    /// Its epoch, which is that of each shard unless a reset is unfinished.
    pub(crate) epoch: u64,
    /// Whether a preheat of it has not come to its end, or changed it while it was read.
    pub(crate) is_changing: bool,
    /// Each shard, in their order.
    pub(crate) parts: Vec<ShardEvidence>,
}

/// All that was found of one shard.
pub(crate) struct ShardEvidence {
    /// What was found as of any activity.
    pub(crate) evidence: Evidence,
    /// Whether it is in files.
    pub(crate) is_archived: bool,
    /// Transfers that it has and that were written after it was read, as far as they were looked for.
    pub(crate) later: Transfers,
    /// The change of its total that a cut left, if there is one.
    pub(crate) cut: Option<CutChange>,
}

impl ShardEvidence {
    /// Nothing was looked for besides.
    pub(crate) fn new(evidence: Evidence) -> Self {
        Self { evidence, is_archived: false, later: Transfers::default(), cut: None }
    }

    /// The change that the shard began to write, if its entry is lacking: a side of a transfer.
    fn cut_transfer(&self) -> Option<(Direction, &CutChange)> {
        let cut = self.cut.as_ref()?;
        let side = (cut.direction?, cut.id.clone());
        let has = |transfers: &Transfers| transfers.get(&side).is_some();
        (!has(&self.evidence.ledger.transfers) && !has(&self.later)).then_some((side.0, cut))
    }

    /// Whether a change of its total is not finished.
    fn is_cut(&self) -> bool {
        self.cut_transfer().is_some() || self.cut.as_ref().is_some_and(|cut| cut.direction.is_none())
    }
}

impl ShardedEvidence {
    /// For each shard, the sides of transfers that it should have, and whose entry it did not have when it was read.
    pub(crate) fn missing(&self) -> Vec<Vec<TransferSide>> {
        let mut missing = vec![Vec::new(); self.parts.len()];
        if !self.has_all_ledgers() {
            return missing;
        }
        for side in self.sides() {
            let Some(other) = side.other else { continue };
            let wanted = (side.direction.other(), side.id.clone());
            if self.parts[other].evidence.ledger.transfers.get(&wanted).is_none() {
                missing[other].push(wanted);
            }
        }
        missing
    }

    /// The units that all shards were preheated with, updates included; `None` if a ledger does not say it.
    pub(crate) fn planned(&self) -> Option<i64> {
        let of_shard = |part: &ShardEvidence| {
            let ledger = &part.evidence.ledger;
            ledger.total.map(|total| signed(total) - ledger.transfers.balance())
        };
        self.parts.iter().map(of_shard).sum()
    }

    /// Whether each ledger is whole and of this sale, so that it has all transfers.
    fn has_all_ledgers(&self) -> bool {
        let has = |found: &Evidence| {
            found.by_ledger && found.settled && found.meta().is_some_and(|meta| meta.epoch == self.epoch)
        };
        self.parts.iter().all(|part| has(&part.evidence))
    }

    /// The transfer that has a side in a shard, by its place in the list, and the other one in the shard with this number.
    fn broken(&self, shard: usize, direction: Direction, (id, units, other): (&str, u64, u32)) -> BrokenTransfer {
        let (own, other) = (self.parts[shard].evidence.activity.clone(), self.activity.shard(other));
        let (class, donor, home) = match direction {
            Direction::Lend => (Class::StuckTransfer, own, other),
            Direction::Borrow => (Class::UnbackedTransfer, other, own),
        };
        BrokenTransfer { class, id: id.to_owned(), donor, home, units, epoch: self.epoch }
    }

    /// Each entry of a transfer, with the shard that has the other one.
    fn sides(&self) -> Vec<Side<'_>> {
        let place = |number: u32| self.shards.numbers().iter().position(|known| *known == number);
        let mut sides = Vec::new();
        for (shard, part) in self.parts.iter().enumerate() {
            sides.extend(part.evidence.ledger.transfers.iter().map(|((direction, id), entry)| Side {
                id,
                shard,
                direction: *direction,
                entry,
                other: place(entry.shard),
            }));
        }
        sides.sort_by_key(|side| (side.entry.at, side.id, side.direction));
        sides
    }
}

/// One of the two entries of a transfer.
struct Side<'a> {
    id: &'a String,
    /// The shard that has it, by its place in the list.
    shard: usize,
    direction: Direction,
    entry: &'a TransferEntry,
    /// The shard that should have the other one; `None` if there is no such shard.
    other: Option<usize>,
}

/// What becomes of transfers when both sides are compared.
#[derive(Default)]
struct Matched {
    /// Units that are in no stock.
    in_transit: u64,
    /// By how many units the sum of the stocks is off, because one side was read before its entry, and the other after its own.
    moved_since: i64,
    broken: Vec<BrokenTransfer>,
    differences: Vec<Difference>,
    notes: Vec<String>,
}

impl Matched {
    fn new(found: &ShardedEvidence) -> Self {
        let mut matched = Self::default();
        let mut cut_borrows = Vec::new();
        for (shard, part) in found.parts.iter().enumerate() {
            let Some((direction, cut)) = part.cut_transfer() else { continue };
            match direction {
                Direction::Lend => matched.in_transit += cut.units,
                Direction::Borrow => cut_borrows.push(&cut.id),
            }
            let transfer = found.broken(shard, direction, (&cut.id, cut.units, cut.shard));
            matched.cut(BrokenTransfer { class: Class::CutTransfer, ..transfer }, direction);
        }
        for side in found.sides() {
            let Side { id, shard, direction, entry, other } = side;
            let units = entry.units;
            let broken = || found.broken(shard, direction, (id, units, entry.shard));
            let number = found.shards.numbers()[shard];
            let known = other.and_then(|other| {
                let other = &found.parts[other];
                let wanted = (direction.other(), id.clone());
                let of = |transfers: &Transfers| transfers.get(&wanted).filter(|other| other.shard == number).cloned();
                let read = of(&other.evidence.ledger.transfers).map(|entry| (entry, false));
                read.or_else(|| of(&other.later).map(|entry| (entry, true)))
            });
            match (direction, known) {
                // The home has it all, or less: the rest is nowhere.
                (Direction::Lend, Some((other, is_late))) => {
                    matched.moved_since += if is_late { signed(other.units) } else { 0 };
                    matched.in_transit += units.saturating_sub(other.units);
                }
                (Direction::Borrow, Some((lent, is_late))) => {
                    matched.moved_since -= if is_late { signed(lent.units) } else { 0 };
                    if lent.units < units {
                        matched.unbacked(broken(), lent.units);
                    }
                }
                (Direction::Lend, None) => {
                    matched.in_transit += units;
                    let read_at = found.parts[shard].evidence.end.as_ref().map_or(0, |end| end.at.get());
                    let age = transfer_age(read_at, entry.at.get());
                    if age > STUCK_AFTER && !cut_borrows.contains(&id) {
                        matched.stuck(broken(), age);
                    }
                }
                (Direction::Borrow, None) => matched.unbacked(broken(), 0),
            }
        }
        matched
    }

    /// `home` got units, of which `lent` are known to the donor.
    fn unbacked(&mut self, transfer: BrokenTransfer, lent: u64) {
        let BrokenTransfer { id, donor, home, units, .. } = &transfer;
        self.notes.push(format!(
            "`{home}` got {units} units from `{donor}` by the transfer `{id}`, and `{donor}` lent {lent}: a failover lost the rest, so \
             {} units too many are for sale; `reconcile --fix` takes them out of `{donor}`",
            units - lent
        ));
        self.differ(Class::UnbackedTransfer, home.clone(), *units, lent);
        self.broken.push(transfer);
    }

    /// The shard of one side began to write it, and was cut.
    fn cut(&mut self, transfer: BrokenTransfer, direction: Direction) {
        let BrokenTransfer { id, donor, home, units, .. } = &transfer;
        let (shard, redis, ledger) = match direction {
            Direction::Lend => (donor, *units, 0),
            Direction::Borrow => (home, 0, *units),
        };
        self.notes.push(format!(
            "{units} units on their way from `{donor}` to `{home}` by the transfer `{id}` are in no stock: `{shard}` began to write it and \
             was cut off; `reconcile --fix` finishes it"
        ));
        self.differ(Class::CutTransfer, shard.clone(), redis, ledger);
        self.broken.push(transfer);
    }

    fn stuck(&mut self, transfer: BrokenTransfer, age: u64) {
        let BrokenTransfer { id, donor, home, units, .. } = &transfer;
        self.notes.push(format!(
            "{units} units left `{donor}` {} s ago by the transfer `{id}` and did not reach `{home}`: `reconcile --fix` finishes it",
            age / 1000
        ));
        self.differ(Class::StuckTransfer, donor.clone(), 0, *units);
        self.broken.push(transfer);
    }

    fn differ(&mut self, class: Class, shard: ActivityId, redis: u64, ledger: u64) {
        let units = |units| Some(RecordedUnits::Units(signed(units)));
        let (redis, ledger, shard) = (units(redis), units(ledger), Some(shard));
        self.differences.push(Difference { shard, ..Difference::of(class, redis, ledger) });
    }
}

/// Says what the evidence means.
pub fn judge_shards(found: ShardedEvidence, missing_orders: MissingOrders) -> Audit {
    let has_all_ledgers = found.has_all_ledgers();
    let matched = if has_all_ledgers { Matched::new(&found) } else { Matched::default() };
    let mut notes = Vec::new();
    if !has_all_ledgers && found.parts.iter().any(|part| part.evidence.end.is_some()) {
        notes
            .push("not every shard has a whole ledger of this sale, so its transfers could not be compared".to_owned());
    }
    if found.is_changing {
        notes.push(
            "a `preheat` of it is unfinished, or changed it while it was read: the same `preheat` resumes it"
                .to_owned(),
        );
    }
    let (some, all) = (found.parts.iter().filter(|part| part.is_archived).count(), found.shards.count());
    if (1..all).contains(&some) {
        notes.push(format!("{some} of its {all} shards are archived: the same `archive` takes the others"));
    }
    notes.extend(misplaced(&found));
    let planned = found.planned();
    let given = found.given;
    let parts = found.parts.into_iter().map(|part| JudgedShard::new(part, missing_orders)).collect::<Vec<_>>();
    // `None` if that of one shard is not known.
    let stock = parts.iter().map(|part| part.audit.stock).sum::<Option<u64>>();
    let stock = stock.map(|stock| signed(stock) + matched.moved_since);
    let bought = parts.iter().map(|part| part.audit.bought).sum::<Option<i64>>();
    let total = given.unwrap_or(found.total);
    let in_transit = signed(matched.in_transit) + stock.map_or(0, |stock| stock.min(0));
    let stock = stock.map(|stock| stock.max(0));
    let expected = bought.map(|bought| signed(total) - bought - in_transit);
    let drift = stock.zip(expected).map(|(stock, expected)| stock - expected);

    let mut differences = matched.differences;
    let is_planned = !has_all_ledgers || found.is_changing || planned == Some(signed(found.total));
    if !is_planned || given.is_some_and(|given| given != found.total) {
        let [stock, expected] = [stock, expected].map(|units| units.map(RecordedUnits::Units));
        differences.push(Difference::of(Class::Conservation, stock, expected));
        notes.extend(planned.filter(|_| !is_planned).map(|planned| {
            format!("its shards were preheated with {planned} units in all, and the activity with {}", found.total)
        }));
    }
    notes.extend(matched.notes);
    let mut plan = RepairPlan { transfers: matched.broken, ..RepairPlan::default() };
    let own = if differences.is_empty() { Verdict::Match } else { Verdict::Drift };
    let is_settled = has_all_ledgers && !found.is_changing;
    let own = if is_settled { own } else { own.max(Verdict::Unsettled) };
    let verdict = match parts.iter().all(|part| part.audit.verdict == Verdict::NotPreheated) {
        true => Verdict::NotPreheated,
        false => Verdict::worst(parts.iter().map(JudgedShard::verdict).chain([own])),
    };
    let proof = parts.iter().map(|part| part.audit.proof).max_by_key(|proof| *proof as usize).unwrap_or(Proof::None);
    let records_are_older = parts.iter().any(|part| part.audit.records_are_older);
    let mut missing = Vec::new();
    let mut said: Vec<(String, Vec<ActivityId>)> = Vec::new();
    for JudgedShard { audit: mut part, is_archived, is_cut } in parts {
        let shard = part.activity;
        // What a change lacks that is not finished is no loss yet: to finish it and to return the units would sell them twice.
        if is_cut {
            part.differences.retain(|difference| difference.class != Class::Conservation);
            part.plan = RepairPlan::default();
        }
        if part.verdict == Verdict::NotPreheated && verdict != Verdict::NotPreheated && !is_archived {
            let gone = Difference::of(Class::Conservation, None, None);
            differences.push(Difference { shard: Some(shard.clone()), ..gone });
            said.push(("it is gone: no key of it is there".to_owned(), vec![shard.clone()]));
        }
        let of_shard = |difference: Difference| {
            let is_whole = difference.user.is_none() && difference.count.is_none();
            Difference { shard: is_whole.then(|| shard.clone()), ..difference }
        };
        differences.extend(part.differences.into_iter().map(of_shard));
        for note in part.notes {
            match said.iter_mut().find(|(known, _)| *known == note) {
                Some((_, shards)) => shards.push(shard.clone()),
                None => said.push((note, vec![shard.clone()])),
            }
        }
        plan.extend(part.plan);
        missing.extend(part.missing_orders);
    }
    notes.extend(said.into_iter().map(|(note, shards)| match &shards[..] {
        [shard] => format!("`{shard}`: {note}"),
        shards => format!("{} shards, as `{}`: {note}", shards.len(), shards[0]),
    }));
    let mut differences = counted_once(differences);
    differences.sort_by(|one, other| (one.class, &one.user, &one.shard).cmp(&(other.class, &other.user, &other.shard)));
    Audit {
        activity: found.activity,
        verdict,
        proof: if is_settled { proof } else { Proof::None },
        total: Some(total),
        stock: stock.and_then(|stock| u64::try_from(stock).ok()),
        bought,
        expected_stock: expected,
        drift,
        in_transit: has_all_ledgers.then_some(in_transit),
        differences,
        notes,
        records_are_older,
        plan,
        missing_orders: missing,
    }
}

/// A shard that was judged by itself.
struct JudgedShard {
    audit: Audit,
    is_archived: bool,
    is_cut: bool,
}

impl JudgedShard {
    fn new(found: ShardEvidence, missing_orders: MissingOrders) -> Self {
        let (is_archived, is_cut) = (found.is_archived, found.is_cut());
        Self { audit: judge(found.evidence, missing_orders), is_archived, is_cut }
    }

    /// A shard that is gone is more than an activity that never was, unless it is in files.
    fn verdict(&self) -> Verdict {
        match self.audit.verdict {
            Verdict::NotPreheated if self.is_archived => Verdict::Unsettled,
            Verdict::NotPreheated => Verdict::Drift,
            verdict => verdict,
        }
    }
}

/// Users who hold something by the ledger of a shard that is not their home.
fn misplaced(found: &ShardedEvidence) -> Option<String> {
    let name = |shard: usize| &found.parts[shard].evidence.activity;
    let (mut first, mut count) = (None, 0usize);
    for (shard, part) in found.parts.iter().enumerate().filter(|(_, part)| part.evidence.by_ledger) {
        for (user, units, _) in part.evidence.ledger.held() {
            let home = found.shards.home(user);
            if units > 0 && home != shard {
                count += 1;
                first.get_or_insert_with(|| {
                    format!("`{}` in `{}` instead of `{}`", StoredUser::new(user), name(shard), name(home))
                });
            }
        }
    }
    first.map(|first| {
        format!(
            "{count} users bought in a shard that is not their home, such as {first}: somebody computes homes in another way, and \
             the limit of these users is not kept"
        )
    })
}

/// Users who are counted and not named are one difference for all shards.
fn counted_once(differences: Vec<Difference>) -> Vec<Difference> {
    let (counted, mut rest): (Vec<_>, Vec<_>) = differences.into_iter().partition(|one| one.count.is_some());
    let mut sums: BTreeMap<Class, Difference> = BTreeMap::new();
    for one in counted {
        match sums.get_mut(&one.class) {
            None => _ = sums.insert(one.class, one),
            Some(sum) => {
                sum.count = sum.count.zip(one.count).map(|(sum, count)| sum + count);
                sum.redis = added(sum.redis.take(), one.redis);
                sum.ledger = added(sum.ledger.take(), one.ledger);
            }
        }
    }
    rest.extend(sums.into_values());
    rest
}

fn added(one: Option<RecordedUnits>, other: Option<RecordedUnits>) -> Option<RecordedUnits> {
    match (one?, other?) {
        (RecordedUnits::Units(one), RecordedUnits::Units(other)) => {
            Some(RecordedUnits::Units(one.saturating_add(other)))
        }
        _ => None,
    }
}
