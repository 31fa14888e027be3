//! Sharded activities: finding the home of a user, and getting units from other shards.
//!
//! An order goes to the user's home, a shard that is an activity of its own. Only if the home is out of stock does anybody look at
//! the others: `ShardBorrower` transfers units to it, or proves that there are none. docs/inside.md says why.
//!
//! An activity gets a shard in each part of a cluster's slots, so that nodes with as many slots serve as many shards.

pub(crate) mod borrower;
pub(crate) mod transfer;

use std::collections::HashMap;

use crate::model::slot::{SLOTS, slot};
use crate::model::{ActivityId, Layout, Shards};
use crate::script::keys::Keys;
pub(crate) use crate::shards::borrower::ShardBorrower;

/// Numbers in which shards are looked for whose parent is gone, or not reached. A reset to others takes the next ones.
pub(crate) const NUMBERS: u32 = 4096;

/// Lists of shards by activity; `None` of one that had no shards when it was read. A list is fixed until a reset, which a
/// shard that is gone shows.
#[derive(Debug, Clone, Default)]
pub(crate) struct Directory(HashMap<ActivityId, Option<Shards>>);

impl Directory {
    /// The shards of an activity that is known to have some.
    pub(crate) fn get(&self, activity: &ActivityId) -> Option<&Shards> {
        self.0.get(activity)?.as_ref()
    }

    /// Whether the shards of an activity were not read yet.
    pub(crate) fn is_unknown(&self, activity: &ActivityId) -> bool {
        !self.0.contains_key(activity)
    }

    /// The shards of an activity, from now on; `None` if it has none.
    pub(crate) fn learn(&mut self, activity: &ActivityId, shards: Option<Shards>) {
        self.0.insert(activity.clone(), shards);
    }

    /// What is known of an activity may be old.
    pub(crate) fn forget(&mut self, activity: &ActivityId) {
        self.0.remove(activity);
    }
}

/// The smallest numbers from `from` on whose shards are in the first, second, … of `count` equal parts of the slots.
pub(crate) fn choose(activity: &ActivityId, count: usize, from: u32) -> Vec<u32> {
    let mut chosen: Vec<Option<u32>> = vec![None; count];
    let mut left = count;
    for number in from.. {
        if left == 0 {
            break;
        }
        let key = Keys::of(Layout::Cluster, &activity.shard(number)).stock;
        let part = usize::from(slot(key.as_bytes())) * count / usize::from(SLOTS);
        if let Some(free @ None) = chosen.get_mut(part) {
            *free = Some(number);
            left -= 1;
        }
    }
    chosen.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(activity: &ActivityId, number: u32, count: usize) -> usize {
        let key = format!("seckill:{{{activity}#{number}}}:stock");
        usize::from(slot(key.as_bytes())) * count / 16_384
    }

    #[test]
    fn each_part_of_the_slots_gets_the_smallest_number_that_falls_in_it() {
        for (id, count) in [("1001", 2), ("1001", 3), ("1001", 8), ("手机", 16), ("a", 256)] {
            let activity = ActivityId::validated(id.as_bytes());
            let chosen = choose(&activity, count, 0);
            let parts: Vec<usize> = chosen.iter().map(|number| part(&activity, *number, count)).collect();
            assert_eq!(parts, (0..count).collect::<Vec<_>>(), "{id}");
            for (of, number) in chosen.iter().enumerate() {
                assert!((0..*number).all(|smaller| part(&activity, smaller, count) != of), "{id}: {number}");
            }
        }
    }

    #[test]
    fn numbers_stay_the_same_in_every_version() {
        let activity = ActivityId::validated(b"1001");
        assert_eq!(choose(&activity, 8, 0), [10, 1, 11, 0, 12, 3, 13, 2]);
    }

    #[test]
    fn numbers_that_were_used_are_left_out() {
        let activity = ActivityId::validated(b"1001");
        let first = choose(&activity, 8, 0);
        let next = first.iter().max().unwrap() + 1;
        assert!(choose(&activity, 3, next).iter().all(|number| *number >= next));
    }
}
