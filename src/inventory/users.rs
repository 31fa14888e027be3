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
    numbers: HashTable<u32>,
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
        let hash = self.hasher.hash_one(user);
        let (names, ends) = (&self.names, &self.ends);
        if let Some(number) = self.numbers.find(hash, |number| name(names, ends, *number) == user) {
            return *number;
        }
        // Four thousand million users have another problem.
        let number = u32::try_from(self.ends.len()).unwrap_or(u32::MAX);
        self.names.extend_from_slice(user);
        self.ends.push(self.names.len());
        let (names, ends, hasher) = (&self.names, &self.ends, &self.hasher);
        self.numbers.insert_unique(hash, number, |other| hasher.hash_one(name(names, ends, *other)));
        number
    }
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
