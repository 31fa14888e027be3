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
    pub(crate) evidence: Vec<Evidence>,
    /// Shards that are in files.
    pub(crate) archived: Vec<ActivityId>,
    /// Of each shard the transfers that it has and that were written after it was read, as far as somebody looked for them.
    pub(crate) later: Vec<Transfers>,
    /// Of each shard the change of its total that a cut left, if there is one.
    pub(crate) cut: Vec<Option<CutChange>>,
}

impl ShardedEvidence {
    /// For each shard, the sides of transfers that it should have, and whose entry it did not have when it was read.
    pub(crate) fn missing(&self) -> Vec<Vec<TransferSide>> {
        let mut missing = vec![Vec::new(); self.evidence.len()];
        if !self.has_all_ledgers() {
            return missing;
        }
        for side in self.sides() {
            let Some(other) = side.other else { continue };
            let wanted = (side.direction.other(), side.id.clone());
            if self.evidence[other].ledger.transfers.get(&wanted).is_none() {
                missing[other].push(wanted);
            }
        }
        missing
    }

    /// The units that all shards were preheated with, updates included; `None` if a ledger does not say it.
    pub(crate) fn planned(&self) -> Option<i64> {
        let of_shard = |part: &Evidence| part.ledger.total.map(|total| signed(total) - part.ledger.transfers.balance());
        self.evidence.iter().map(of_shard).sum()
    }

    /// Whether each ledger is whole and of this sale, so that it has all transfers.
    fn has_all_ledgers(&self) -> bool {
        let has = |found: &Evidence| {
            found.by_ledger && found.settled && found.meta().is_some_and(|meta| meta.epoch == self.epoch)
        };
        self.evidence.iter().all(has)
    }

    /// The transfers that a shard, by its place in the list, began to write and whose entry it lacks.
    fn cut_transfers(&self) -> impl Iterator<Item = (usize, Direction, &CutChange)> {
        let changes = self.cut.iter().enumerate().filter_map(|(shard, cut)| {
            let cut = cut.as_ref()?;
            Some((shard, cut.direction?, cut))
        });
        changes.filter(|(shard, direction, cut)| {
            let side = (*direction, cut.id.clone());
            let has = |transfers: &Transfers| transfers.get(&side).is_some();
            !has(&self.evidence[*shard].ledger.transfers) && !has(&self.later[*shard])
        })
    }

    /// Each entry of a transfer, with the shard that has the other one.
    fn sides(&self) -> Vec<Side<'_>> {
        let place = |number: u32| self.shards.numbers().iter().position(|known| *known == number);
        let mut sides = Vec::new();
        for (shard, found) in self.evidence.iter().enumerate() {
            sides.extend(found.ledger.transfers.iter().map(|((direction, id), entry)| Side {
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
        let names: Vec<ActivityId> = found.shards.ids(&found.activity).collect();
        let mut cut_borrows = Vec::new();
        for (shard, direction, cut) in found.cut_transfers() {
            let (own, other) = (names[shard].clone(), found.activity.shard(cut.shard));
            let (donor, home) = match direction {
                Direction::Lend => (own, other),
                Direction::Borrow => (other, own),
            };
            match direction {
                Direction::Lend => matched.in_transit += cut.units,
                Direction::Borrow => cut_borrows.push(&cut.id),
            }
            let (id, units, epoch) = (cut.id.clone(), cut.units, found.epoch);
            matched.cut(BrokenTransfer { class: Class::CutTransfer, id, donor, home, units, epoch }, direction);
        }
        for side in found.sides() {
            let Side { id, shard, direction, entry, other } = side;
            let units = entry.units;
            let (own, others) = (names[shard].clone(), found.activity.shard(entry.shard));
            let (class, donor, home) = match direction {
                Direction::Lend => (Class::StuckTransfer, own, others),
                Direction::Borrow => (Class::UnbackedTransfer, others, own),
            };
            let broken = || BrokenTransfer { class, id: id.clone(), donor, home, units, epoch: found.epoch };
            let number = found.shards.numbers()[shard];
            let known = other.and_then(|other| {
                let (read, later) = (&found.evidence[other].ledger.transfers, &found.later[other]);
                let wanted = (direction.other(), id.clone());
                let of = |transfers: &Transfers| transfers.get(&wanted).filter(|other| other.shard == number).cloned();
                of(read).map(|entry| (entry, false)).or_else(|| of(later).map(|entry| (entry, true)))
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
                    let read_at = found.evidence[shard].end.as_ref().map_or(0, |end| end.at.get());
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
pub fn judge_shards(mut found: ShardedEvidence, missing_orders: MissingOrders) -> Audit {
    let has_all_ledgers = found.has_all_ledgers();
    let matched = if has_all_ledgers { Matched::new(&found) } else { Matched::default() };
    let mut notes = Vec::new();
    if !has_all_ledgers && found.evidence.iter().any(|shard| shard.end.is_some()) {
        notes
            .push("not every shard has a whole ledger of this sale, so its transfers could not be compared".to_owned());
    }
    if found.is_changing {
        notes.push(
            "a `preheat` of it is unfinished, or changed it while it was read: the same `preheat` resumes it"
                .to_owned(),
        );
    }
    if (1..found.shards.count()).contains(&found.archived.len()) {
        let (some, all) = (found.archived.len(), found.shards.count());
        notes.push(format!("{some} of its {all} shards are archived: the same `archive` takes the others"));
    }
    notes.extend(misplaced(&found));
    let planned = found.planned();
    let is_cut: Vec<bool> = (0..found.shards.count())
        .map(|shard| {
            found.cut_transfers().any(|(cut, ..)| cut == shard)
                || found.cut[shard].as_ref().is_some_and(|cut| cut.direction.is_none())
        })
        .collect();
    let given = found.given;
    let parts = judge_each(&mut found, missing_orders);
    let mut whole = Sums::of(&parts);
    let total = given.unwrap_or(found.total);
    let mut in_transit = signed(matched.in_transit);
    if let Some(stock) = whole.stock.map(|stock| signed(stock) + matched.moved_since) {
        in_transit += stock.min(0);
        whole.stock = u64::try_from(stock.max(0)).ok();
    }
    let expected = whole.bought.map(|bought| signed(total) - bought - in_transit);
    let drift = whole.stock.zip(expected).map(|(stock, expected)| signed(stock) - expected);

    let mut differences = matched.differences;
    let is_planned = !has_all_ledgers || found.is_changing || planned == Some(signed(found.total));
    if !is_planned || given.is_some_and(|given| given != found.total) {
        let stock = whole.stock.map(|stock| RecordedUnits::Units(signed(stock)));
        differences.push(Difference::of(Class::Conservation, stock, expected.map(RecordedUnits::Units)));
        notes.extend(planned.filter(|_| !is_planned).map(|planned| {
            format!("its shards were preheated with {planned} units in all, and the activity with {}", found.total)
        }));
    }
    notes.extend(matched.notes);
    let mut plan = RepairPlan { transfers: matched.broken, ..RepairPlan::default() };
    let own = if differences.is_empty() { Verdict::Match } else { Verdict::Drift };
    let is_settled = has_all_ledgers && !found.is_changing;
    let own = if is_settled { own } else { own.max(Verdict::Unsettled) };
    let verdict = match parts.iter().all(|(_, part)| part.verdict == Verdict::NotPreheated) {
        true => Verdict::NotPreheated,
        false => Verdict::worst(parts.iter().map(|(shard, part)| of_shard(&found, shard, part.verdict)).chain([own])),
    };
    let proof = parts.iter().map(|(_, part)| part.proof).max_by_key(|proof| *proof as usize).unwrap_or(Proof::None);
    let mut missing = Vec::new();
    let mut said: Vec<(String, Vec<ActivityId>)> = Vec::new();
    for ((shard, mut part), is_cut) in parts.into_iter().zip(is_cut) {
        // What a change lacks that is not finished is no loss yet: to finish it and to return the units would sell them twice.
        if is_cut {
            part.differences.retain(|difference| difference.class != Class::Conservation);
            part.plan = RepairPlan::default();
        }
        if part.verdict == Verdict::NotPreheated && verdict != Verdict::NotPreheated && !found.archived.contains(&shard)
        {
            differences.push(gone(&shard));
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
        stock: whole.stock,
        bought: whole.bought,
        expected_stock: expected,
        drift,
        in_transit: has_all_ledgers.then_some(in_transit),
        differences,
        notes,
        plan,
        missing_orders: missing,
    }
}

fn judge_each(found: &mut ShardedEvidence, missing_orders: MissingOrders) -> Vec<(ActivityId, Audit)> {
    let names = found.shards.ids(&found.activity);
    names.zip(std::mem::take(&mut found.evidence)).map(|(name, part)| (name, judge(part, missing_orders))).collect()
}

/// A shard that is gone is more than an activity that never was, unless it is in files.
fn of_shard(found: &ShardedEvidence, shard: &ActivityId, verdict: Verdict) -> Verdict {
    match verdict {
        Verdict::NotPreheated if found.archived.contains(shard) => Verdict::Unsettled,
        Verdict::NotPreheated => Verdict::Drift,
        verdict => verdict,
    }
}

fn gone(shard: &ActivityId) -> Difference {
    Difference { shard: Some(shard.clone()), ..Difference::of(Class::Conservation, None, None) }
}

/// The sums of all shards; `None` if one of them is not known.
struct Sums {
    stock: Option<u64>,
    bought: Option<i64>,
}

impl Sums {
    fn of(parts: &[(ActivityId, Audit)]) -> Self {
        let stock = parts.iter().map(|(_, part)| part.stock).sum();
        let bought = parts.iter().map(|(_, part)| part.bought).sum();
        Self { stock, bought }
    }
}

/// Users who hold something by the ledger of a shard that is not their home.
fn misplaced(found: &ShardedEvidence) -> Option<String> {
    let names: Vec<ActivityId> = found.shards.ids(&found.activity).collect();
    let (mut first, mut count) = (None, 0usize);
    for (shard, part) in found.evidence.iter().enumerate().filter(|(_, part)| part.by_ledger) {
        for (user, units, _) in part.ledger.held() {
            let home = found.shards.home(user);
            if units > 0 && home != shard {
                count += 1;
                first.get_or_insert_with(|| {
                    format!("`{}` in `{}` instead of `{}`", StoredUser::new(user), names[shard], names[home])
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
