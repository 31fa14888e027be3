//! The shards of a sharded activity: activities of their own, each with a part of the stock, in slots of their own. A user belongs to
//! one of them, the home, so that a limit is checked in one place.

use std::fmt;
use std::str::FromStr;

use crate::model::id::{ActivityId, InvalidText};

/// The numbers of an activity's shards, in the order in which homes are counted: `3 17 29`. They are fixed until a reset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shards(Vec<u32>);

impl Shards {
    /// Shards with these numbers; `None` if there are none, or one comes twice.
    pub fn new(numbers: Vec<u32>) -> Option<Self> {
        let mut sorted = numbers.clone();
        sorted.sort_unstable();
        sorted.dedup();
        (!numbers.is_empty() && sorted.len() == numbers.len()).then_some(Self(numbers))
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// Their numbers.
    pub fn numbers(&self) -> &[u32] {
        &self.0
    }

    /// Which of them, counted from 0, is the home of a user: the CRC-32 of the id (that of zlib and zip, which most languages have in
    /// their standard library) modulo their number.
    pub fn home(&self, user: &[u8]) -> usize {
        crc32fast::hash(user) as usize % self.0.len()
    }

    /// The activity that is the home of a user.
    pub fn home_of(&self, activity: &ActivityId, user: &[u8]) -> ActivityId {
        activity.shard(self.0[self.home(user)])
    }

    /// All of them as activities.
    pub fn ids(&self, activity: &ActivityId) -> impl Iterator<Item = ActivityId> {
        self.0.iter().map(|number| activity.shard(*number))
    }
}

impl FromStr for Shards {
    type Err = InvalidText;

    fn from_str(text: &str) -> Result<Self, InvalidText> {
        let number = |word: &str| word.parse::<u32>().ok().filter(|number| number.to_string() == word);
        let numbers = text.split(' ').map(number).collect::<Option<Vec<u32>>>();
        numbers.and_then(Self::new).ok_or_else(|| InvalidText::new(text, "a list of shards, such as `3 17 29`"))
    }
}

impl fmt::Display for Shards {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let numbers: Vec<String> = self.0.iter().map(u32::to_string).collect();
        formatter.write_str(&numbers.join(" "))
    }
}

/// How old a transfer is, in milliseconds by the donor's clock. One of the future is as old: the clock was set back, and may need
/// hours to get there again.
pub(crate) fn transfer_age(now_ms: u64, lent_ms: u64) -> u64 {
    now_ms.abs_diff(lent_ms)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_shards_reads_as_it_is_written() {
        let shards: Shards = "3 17 29".parse().unwrap();
        assert_eq!((shards.count(), shards.to_string().as_str()), (3, "3 17 29"));
        for invalid in ["", " ", "3  17", "3 3", "03", "-1", "x", "3 "] {
            assert!(invalid.parse::<Shards>().is_err(), "{invalid:?}");
        }
    }

    #[test]
    fn a_home_is_the_crc_32_of_the_user() {
        // crc32("123456789") is 0xCBF43926 in every table of check values: 3421780262.
        let shards: Shards = "3 17 29".parse().unwrap();
        assert_eq!(shards.home(b"123456789"), 3_421_780_262 % 3);
        let activity = ActivityId::validated(b"1001");
        assert_eq!(shards.home_of(&activity, b"123456789").as_str(), "1001#29");
        assert_eq!(
            shards.ids(&activity).map(|id| id.to_string()).collect::<Vec<_>>(),
            ["1001#3", "1001#17", "1001#29"]
        );
    }

    #[test]
    fn users_are_spread_evenly() {
        let shards = Shards::new((0..16).collect()).unwrap();
        let mut users = [0; 16];
        (0..160_000).for_each(|user| users[shards.home(user.to_string().as_bytes())] += 1);
        assert!(users.iter().all(|count| (9_300..10_700).contains(count)), "{users:?}");
    }
}
