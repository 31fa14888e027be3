//! Users by number: each name is kept once, however often it comes.

use std::hash::BuildHasher;

use hashbrown::{DefaultHashBuilder, HashTable};

/// Names of users, in one piece of memory.
#[derive(Default)]
pub struct Users {
    /// All names, one after the other.
    names: Vec<u8>,
    /// Where each name ends.
    ends: Vec<usize>,
    /// Numbers by hash; the hash beside a number spares a look at its name, which is elsewhere in memory.
    numbers: HashTable<(u32, u32)>,
    hasher: DefaultHashBuilder,
}

impl Users {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// The name of a number that [`number`](Self::number) gave.
    pub fn name(&self, number: u32) -> &[u8] {
        name(&self.names, &self.ends, number)
    }

    /// The number of a name, and a new one for a new name.
    pub fn number(&mut self, user: &[u8]) -> u32 {
        // Half a hash is kept: it tells four thousand million users apart well enough.
        #[allow(clippy::cast_possible_truncation)]
        let hash = self.hasher.hash_one(user) as u32;
        let (names, ends) = (&self.names, &self.ends);
        let is_user = |known: &(u32, u32)| known.0 == hash && name(names, ends, known.1) == user;
        if let Some((_, number)) = self.numbers.find(spread(hash), is_user) {
            return *number;
        }
        // Four thousand million users have another problem.
        let number = u32::try_from(self.ends.len()).unwrap_or(u32::MAX);
        self.names.extend_from_slice(user);
        self.ends.push(self.names.len());
        self.numbers.insert_unique(spread(hash), (hash, number), |other| spread(other.0));
        number
    }
}

/// Half a hash over all bits of a whole one, of which the table looks at the highest and the lowest.
fn spread(half: u32) -> u64 {
    u64::from(half).wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

fn name<'a>(names: &'a [u8], ends: &[usize], number: u32) -> &'a [u8] {
    let at = number as usize;
    let start = if at == 0 { 0 } else { ends[at - 1] };
    &names[start..ends[at]]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_one_number_and_keeps_it() {
        let mut users = Users::default();
        let numbers: Vec<u32> = (0..5000).map(|i| users.number(format!("u{i}").as_bytes())).collect();
        for (i, number) in numbers.iter().enumerate() {
            assert_eq!(users.number(format!("u{i}").as_bytes()), *number);
            assert_eq!(users.name(*number), format!("u{i}").as_bytes());
        }
        assert_eq!(users.number(b""), 5000);
        assert_eq!(users.number(b"\xff"), 5001);
        assert_eq!(users.len(), 5002);
    }
}
