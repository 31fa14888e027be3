//! Which shards an activity gets: one in each part of a cluster's slots, so that nodes with as many slots serve as many shards.

use crate::model::id::ActivityId;
use crate::model::layout::Layout;
use crate::model::slot::{SLOTS, slot};
use crate::script::keys::Keys;

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
