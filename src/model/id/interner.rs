//! Names as small numbers: each is kept once, however often it comes.

use std::hash::BuildHasher;

use hashbrown::{DefaultHashBuilder, HashTable};

/// The longest name, in bytes, that is kept in its slot; nearly all are shorter.
const SHORT: usize = 15;
/// In a slot, in place of a length: the name is kept in `long`.
const ELSEWHERE: u8 = 255;

/// Names of users, activities or keys, numbered from 0 in the order in which they came. To find one of a million takes a look at a slot of
/// the table and at one name: memory is slower than everything else here.
#[derive(Default)]
pub struct Interner {
    /// A short name and its length; of a longer one, where in `long` it is and its length.
    slots: Vec<[u8; SHORT + 1]>,
    /// Longer names, one after the other.
    long: Vec<u8>,
    /// Indexes by hash; the hash beside an index spares a look at its name.
    indexes: HashTable<(u32, u32)>,
    hasher: DefaultHashBuilder,
    /// The index that was asked for last: in files most rows name the same one again.
    last: u32,
}

impl Interner {
    /// How many names there are.
    pub fn count(&self) -> usize {
        self.slots.len()
    }

    /// The name of an index that [`number`](Self::number) gave.
    pub fn name(&self, index: u32) -> &[u8] {
        name(&self.slots[index as usize], &self.long)
    }

    /// The index of a name, and a new one for a new name.
    pub fn number(&mut self, user: &[u8]) -> u32 {
        if (self.last as usize) >= self.count() || !self.is(self.last, user) {
            let hash = self.hash(user);
            self.last = self.index_of(user, hash);
        }
        self.last
    }

    /// The indexes of many names, as [`number`](Self::number) gives them. Each step is taken for all of them before the
    /// next one is, so that the waits for memory overlap.
    pub fn numbers<'a>(&mut self, users: impl Iterator<Item = &'a [u8]> + Clone) -> Vec<u32> {
        let hashes: Vec<u32> = users.clone().map(|user| self.hash(user)).collect();
        let likely = |hash: &u32| self.indexes.find(widened(*hash), |known| known.0 == *hash).map(|known| known.1);
        let likely: Vec<Option<u32>> = hashes.iter().map(likely).collect();
        users
            .zip(hashes.into_iter().zip(likely))
            .map(|(user, (hash, likely))| match likely {
                Some(number) if self.is(number, user) => number,
                _ => self.index_of(user, hash),
            })
            .collect()
    }

    /// Half a hash is kept: that distinguishes four thousand million users well enough.
    fn hash(&self, user: &[u8]) -> u32 {
        self.hasher.hash_one(user) as u32
    }

    /// Whether an index has this name.
    fn is(&self, index: u32, user: &[u8]) -> bool {
        let slot = &self.slots[index as usize];
        short(user).map_or_else(|| name(slot, &self.long) == user, |short| *slot == short)
    }

    fn index_of(&mut self, user: &[u8], hash: u32) -> u32 {
        if let Some((_, number)) = self.indexes.find(widened(hash), |known| known.0 == hash && self.is(known.1, user)) {
            return *number;
        }
        let short = short(user);
        // Four thousand million users have another problem.
        let number = u32::try_from(self.slots.len()).unwrap_or(u32::MAX);
        let slot = short.unwrap_or_else(|| {
            let mut slot = [ELSEWHERE; SHORT + 1];
            slot[..8].copy_from_slice(&(self.long.len() as u64).to_le_bytes());
            slot[8..12].copy_from_slice(&u32::try_from(user.len()).unwrap_or(u32::MAX).to_le_bytes());
            self.long.extend_from_slice(user);
            slot
        });
        self.slots.push(slot);
        self.indexes.insert_unique(widened(hash), (hash, number), |other| widened(other.0));
        number
    }
}

/// The slot of a short name.
fn short(user: &[u8]) -> Option<[u8; SHORT + 1]> {
    let mut slot = [0; SHORT + 1];
    slot[..SHORT].get_mut(..user.len())?.copy_from_slice(user);
    slot[SHORT] = u8::try_from(user.len()).ok()?;
    Some(slot)
}

/// The name that a slot says.
fn name<'a>(slot: &'a [u8; SHORT + 1], long: &'a [u8]) -> &'a [u8] {
    if slot[SHORT] != ELSEWHERE {
        return &slot[..usize::from(slot[SHORT])];
    }
    let [a, b, c, d, e, f, g, h, i, j, k, l, ..] = *slot;
    // It was a place in memory once.
    let start = u64::from_le_bytes([a, b, c, d, e, f, g, h]) as usize;
    &long[start..start + u32::from_le_bytes([i, j, k, l]) as usize]
}

/// Half a hash over all bits of a whole one, of which the table looks at the highest and the lowest.
fn widened(half: u32) -> u64 {
    u64::from(half).wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_one_hash_are_not_one() {
        // So many have about ten pairs whose half hashes are equal.
        let mut users = Interner::default();
        assert!((0..300_000).all(|n: u32| users.number(&n.to_le_bytes()) == n));
        let names: Vec<[u8; 4]> = (0..300_000).map(u32::to_le_bytes).collect();
        assert!(users.numbers(names.iter().map(<[u8; 4]>::as_slice)).into_iter().eq(0..300_000));
    }

    #[test]
    fn a_long_name_is_kept_as_well_as_a_short_one() {
        let mut users = Interner::default();
        let names: Vec<Vec<u8>> =
            (0..300).map(|length| vec![b'x'; length]).chain([vec![0; 16], vec![255; 16]]).collect();
        let numbers: Vec<u32> = names.iter().map(|name| users.number(name)).collect();
        for (name, number) in names.iter().zip(numbers) {
            assert_eq!((users.number(name), users.name(number)), (number, &name[..]));
        }
        assert_eq!(users.count(), 302);
    }

    #[test]
    fn many_names_have_the_numbers_that_each_has() {
        let (mut together, mut each) = (Interner::default(), Interner::default());
        for page in 0..50u32 {
            // Known ones, new ones, and new ones that come twice.
            let names: Vec<Vec<u8>> = (0..100)
                .map(|n| vec![b'x'; ((n * 7 + page * 13) % 600) as usize])
                .chain([vec![page as u8], vec![page as u8]])
                .collect();
            let numbers: Vec<u32> = names.iter().map(|name| each.number(name)).collect();
            assert_eq!(together.numbers(names.iter().map(Vec::as_slice)), numbers);
        }
        assert_eq!(together.count(), each.count());
    }
}
