//! What all participants of an activity hold, scanned page by page: units in Redis, and none if nobody recorded them.

use std::collections::HashMap;

use crate::error::{Result, StoreError};
use crate::model::number::signed;
use crate::model::{ActivityId, Bought, Corrupt, Interner, Kind};
use crate::read::checkpoint::{PageRow, USERS, encode_page};
use crate::read::participants;
use crate::script::reply::corrupt;
use crate::store::Store;

/// Participants between two reports of progress.
const PROGRESS: u64 = 500;

/// What participants hold.
#[derive(Default)]
pub(crate) struct Holders {
    users: Interner,
    /// By index; `None` for a member of a set whose units nobody recorded.
    units: Vec<Option<u64>>,
    /// The first record that is no number.
    pub corrupt: Option<Corrupt>,
}

impl Holders {
    /// Units whose number is recorded.
    pub(crate) fn held(&self) -> u64 {
        self.units.iter().flatten().fold(0, |sum, units| sum.saturating_add(*units))
    }

    /// Participants who hold something.
    pub(crate) fn holders(&self) -> u64 {
        self.units.iter().filter(|units| **units != Some(0)).count() as u64
    }

    /// Participants whose units nobody recorded.
    pub(crate) fn unknown(&self) -> u64 {
        self.units.iter().filter(|units| units.is_none()).count() as u64
    }

    /// Participants who hold more than a limit.
    pub(crate) fn above(&self, limit: u64) -> u64 {
        self.units.iter().flatten().filter(|units| **units > limit).count() as u64
    }

    /// Units that participants hold above a limit.
    pub(crate) fn units_above(&self, limit: u64) -> u64 {
        self.units.iter().flatten().fold(0, |sum, units| sum.saturating_add(units.saturating_sub(limit)))
    }

    /// Records a participant; a scan may report one twice.
    fn record(&mut self, user: &[u8], units: Option<u64>) {
        let number = self.users.number(user) as usize;
        if number == self.units.len() {
            self.units.push(units);
        } else {
            self.units[number] = units;
        }
    }

    /// Whether another scan found the same.
    pub(crate) fn equal(&mut self, other: &Self) -> bool {
        if self.units.len() != other.units.len() {
            return false;
        }
        (0u32..).zip(&other.units).all(|(number, units)| {
            let own = self.users.number(other.users.name(number)) as usize;
            self.units.get(own) == Some(units)
        })
    }

    /// The pages of a checkpoint, with what users hold open.
    pub(crate) fn pages(&self, open: &HashMap<Vec<u8>, i64>) -> Vec<Vec<u8>> {
        let held: Vec<PageRow<'_>> = (0u32..)
            .zip(&self.units)
            .filter(|(_, units)| **units != Some(0))
            .map(|(number, units)| {
                let user = self.users.name(number);
                (user, units.map(signed), open.get(user).copied().unwrap_or_default())
            })
            .collect();
        held.chunks(USERS).map(encode_page).collect()
    }
}

/// What all participants hold. `each` is called with the number of participants read since the last call.
///
/// # Errors
/// Any of [`StoreError`].
pub(crate) fn holders(store: &mut Store, activity: &ActivityId, each: impl Fn(u64)) -> Result<Holders> {
    let keys = store.keys(activity);
    let units_key = if store.layout.kind() == Kind::Hash { 5 } else { 6 };
    let mut holders = Holders::default();
    let mut count = 0;
    participants::each(store, activity, |user, units| {
        match units {
            Ok(Bought::Units(units)) => holders.record(user, Some(units)),
            Ok(Bought::Unknown) => holders.record(user, None),
            Err(text) => _ = holders.corrupt.get_or_insert_with(|| corrupt(&keys, units_key, Some(&text))),
        }
        count += 1;
        if count == PROGRESS {
            each(std::mem::take(&mut count));
        }
        Ok::<_, StoreError>(())
    })?;
    each(count);
    Ok(holders)
}
