//! One activity in detail: its row, and those who bought most, in at most one pass over all participants.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};

use crate::cli::commands::inspect::rows::{ActivityRow, ParticipantRow};
use crate::cli::failure::{Failure, Result};
use crate::cli::output::{Warnings, counted, row};
use crate::cli::shared::hints;
use crate::model::{ActivityId, Bought, Kind, PackedRules, ShardPlan, Snapshot, Status, StoredUser};
use crate::read::participants;
use crate::store::Store;

row! {
    /// One activity, and if asked those who bought most of it.
    pub struct ActivityDetail as _row {
        flat pub activity: ActivityRow;
        /// The largest first.
        data pub participants: Vec<ParticipantRow>;
        /// How many participants there are besides.
        data pub more: u64;
    }
}

/// Reads at most `top` participants of an activity, and warns of what is wrong with it.
pub fn read(store: &mut Store, warnings: &mut Warnings, snapshot: &Snapshot, top: usize) -> Result<ActivityDetail> {
    warn(warnings, snapshot);
    if top > 0 {
        note_archived(warnings, snapshot);
    }
    let mut tally = TopBuyers::new(top);
    let limit = snapshot.meta.as_ref().and_then(|meta| meta.per_user_limit);
    let kind = store.layout().kind();
    let held = if tally_is_needed(snapshot, kind, top) {
        for part in snapshot.parts() {
            participants::each(store, &part, |user, units| {
                tally.count(user, units);
                Ok::<_, Failure>(())
            })?;
        }
        tally.held()
    } else {
        snapshot.buyers
    };
    let mut activity = ActivityRow::new(snapshot, held);
    tally.invalid.warn(warnings, &snapshot.activity);
    if !tally.invalid.is_empty() {
        (activity.status, activity.state) = (Some(Status::Corrupt), Status::Corrupt.name());
    }
    let participants = tally.rows(limit);
    let more = snapshot.buyers.unwrap_or_default().saturating_sub(participants.len() as u64);
    Ok(ActivityDetail { activity, participants, more })
}

/// Whether anything is wanted that only the participants show. A coupon is one unit, so their count is enough.
fn tally_is_needed(snapshot: &Snapshot, kind: Kind, top: usize) -> bool {
    if snapshot.is_archived() {
        return false;
    }
    let has_participants = snapshot.buyers.is_some_and(|buyers| buyers > 0) && snapshot.status != Status::Corrupt;
    has_participants && (top > 0 || (snapshot.meta.is_none() && kind != Kind::Coupon))
}

/// Warns of what is wrong with an activity.
pub fn warn(warnings: &mut Warnings, snapshot: &Snapshot) {
    let activity = &snapshot.activity;
    warn_of_shards(warnings, snapshot);
    if let Some(corrupt) = hints::corrupt(snapshot) {
        warnings.warn(corrupt);
    } else if snapshot.status == Status::NotPreheated && snapshot.meta.is_none() {
        warnings
            .note(format!("`{activity}` does not exist in this layout: it was never preheated, or its keys are gone"));
    } else if snapshot.stock.is_none() && !snapshot.is_archived() && !is_half_made(snapshot) {
        warnings.warn(format!("the stock key of `{activity}` is gone (evicted? expired?): nobody can buy it"));
    }
}

/// Whether the preheat of its shards is unfinished.
fn is_half_made(snapshot: &Snapshot) -> bool {
    matches!(snapshot.meta.as_ref().and_then(|meta| meta.plan.as_ref()), Some(ShardPlan::Start { .. }))
}

/// Warns of a preheat of shards that is unfinished, and of units that should not be.
fn warn_of_shards(warnings: &mut Warnings, snapshot: &Snapshot) {
    let activity = &snapshot.activity;
    let Some(meta) = &snapshot.meta else { return };
    match &meta.plan {
        Some(ShardPlan::Start { shards, .. }) => warnings.warn(format!(
            "the preheat of `{activity}`, {} units over {} shards, is unfinished, and nobody can buy: give the `preheat` that began \
             it again to finish it",
            meta.total,
            shards.len()
        )),
        Some(ShardPlan::Update { rules: PackedRules { total, .. }, .. }) => warnings.warn(format!(
            "an update of `{activity}` from {} units to {total} is unfinished, so what is in transit is not known: {} finishes it",
            meta.total,
            hints::preheat(activity, &format!("--stock {total} --update"))
        )),
        None => {}
    }
    if let Some(units @ ..=-1) = snapshot.sums.as_ref().and_then(|sums| sums.in_transit) {
        warnings.warn(format!(
            "the shards of `{activity}` have {} more than its total: `seckill reconcile {activity:#}` says why",
            counted(units.unsigned_abs(), "unit")
        ));
    }
}

/// Says of an activity that was asked for, and is archived, since when, and where the rest is.
pub fn note_archived(warnings: &mut Warnings, snapshot: &Snapshot) {
    if !snapshot.is_archived() {
        return;
    }
    let archived = snapshot.meta.as_ref().and_then(|meta| meta.archived.as_ref());
    let when = archived.map(|it| format!(" at {} by {}", it.at.to_second(), it.by)).unwrap_or_default();
    warnings.note(format!(
        "`{}` was archived{when}: who bought is in its files; `seckill preheat --restore DIR` brings it back",
        snapshot.activity
    ));
}

/// Records that are no number of units: the first of them, and how many.
#[derive(Debug, Default)]
pub struct InvalidRecords {
    first: String,
    count: u64,
}

impl InvalidRecords {
    pub fn add(&mut self, user: &[u8], text: &str) {
        if self.count == 0 {
            self.first = format!("user `{}` holds `{text}`", StoredUser::new(user));
        }
        self.count += 1;
    }

    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Warns of the first: one wrong client writes thousands of the same kind.
    pub fn warn(&self, warnings: &mut Warnings, activity: &ActivityId) {
        if self.is_empty() {
            return;
        }
        let more = if self.count > 1 { format!(" ({} more like it)", self.count - 1) } else { String::new() };
        warnings.warn(format!("`{activity}` is corrupt: {}, which is no number of units{more}", self.first));
    }
}

/// What a pass over the participants finds, in memory for `top` of them.
#[derive(Default)]
pub struct TopBuyers {
    top: usize,
    /// The largest first; units that are unknown come last.
    most: BTreeSet<(Reverse<Option<u64>>, Vec<u8>)>,
    /// Units of those in `most`: a scan may find a user twice, with another count the second time.
    units: HashMap<Vec<u8>, Option<u64>>,
    held: u64,
    /// Whether the units of a user are unknown.
    is_open: bool,
    pub invalid: InvalidRecords,
}

impl TopBuyers {
    pub fn new(top: usize) -> Self {
        Self { top, ..Self::default() }
    }

    pub fn count(&mut self, user: &[u8], units: Result<Bought, String>) {
        let units = match units {
            Ok(bought) => bought.units(),
            Err(text) => {
                self.invalid.add(user, &text);
                return;
            }
        };
        self.held = self.held.saturating_add(units.unwrap_or_default());
        self.is_open |= units.is_none();
        let is_full = self.most.len() >= self.top;
        // Nearly every participant of a large sale ends here, without being copied.
        if is_full && self.most.last().is_none_or(|(Reverse(least), last)| (units, last.as_slice()) < (*least, user)) {
            return;
        }
        if let Some(before) = self.units.insert(user.to_vec(), units) {
            self.most.remove(&(Reverse(before), user.to_vec()));
        }
        self.most.insert((Reverse(units), user.to_vec()));
        if self.most.len() > self.top
            && let Some((_, dropped)) = self.most.pop_last()
        {
            self.units.remove(&dropped);
        }
    }

    /// The row of each, the largest first.
    pub fn rows(&self, limit: Option<u64>) -> Vec<ParticipantRow> {
        let bought = |units: Option<u64>| units.map_or(Bought::Unknown, Bought::Units);
        self.most.iter().map(|(Reverse(units), user)| ParticipantRow::new(user, bought(*units), limit)).collect()
    }

    /// What all of them hold; `None` if a record is no number or unknown.
    fn held(&self) -> Option<u64> {
        (self.invalid.is_empty() && !self.is_open).then_some(self.held)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn most(top: usize, found: &[(&str, u64)]) -> Vec<(String, u64)> {
        let mut tally = TopBuyers::new(top);
        found.iter().for_each(|(user, units)| tally.count(user.as_bytes(), Ok(Bought::Units(*units))));
        assert_eq!(tally.most.len(), tally.units.len());
        tally.most.iter().map(|(units, user)| (String::from_utf8_lossy(user).into_owned(), units.0.unwrap())).collect()
    }

    #[test]
    fn the_largest_come_first_and_then_the_first_by_name() {
        let found = [("d", 1), ("b", 3), ("a", 1), ("c", 2), ("e", 3)];
        assert_eq!(most(3, &found), [("b".into(), 3), ("e".into(), 3), ("c".into(), 2)]);
        assert_eq!(most(4, &found)[3], ("a".to_owned(), 1));
        assert_eq!(most(0, &found), []);
    }

    #[test]
    fn a_user_who_is_found_twice_is_counted_once() {
        assert_eq!(most(3, &[("a", 1), ("b", 2), ("a", 1)]), [("b".into(), 2), ("a".into(), 1)]);
        assert_eq!(most(3, &[("a", 1), ("b", 2), ("a", 5)]), [("a".into(), 5), ("b".into(), 2)]);
    }

    #[test]
    fn units_that_are_no_number_are_not_summed() {
        let mut tally = TopBuyers::new(1);
        tally.count(b"a", Ok(Bought::Units(2)));
        tally.count(b"b", Err("1.5".to_owned()));
        assert_eq!(tally.held(), None);
        assert_eq!(tally.invalid.count, 1);
    }

    #[test]
    fn unknown_units_come_last_and_make_the_sum_unknown() {
        let mut tally = TopBuyers::new(2);
        tally.count(b"a", Ok(Bought::Unknown));
        tally.count(b"b", Ok(Bought::Units(1)));
        let units: Vec<Option<u64>> = tally.most.iter().map(|(units, _)| units.0).collect();
        assert_eq!((units, tally.held(), tally.invalid.count), (vec![Some(1), None], None, 0));
    }
}
