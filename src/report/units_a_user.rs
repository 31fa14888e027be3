//! How many users hold how many units, in constant memory.

/// How many ranges there are: each number up to 10, then up to 20, 50, 100, 200, …
const RANGES: usize = 10 + 3 * 16;

/// Users by the units that they hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct UnitsAUser {
    users: [u64; RANGES],
    /// Users whose units nobody recorded.
    pub unknown: u64,
    /// The units of all others.
    pub units: u64,
}

/// Users whose units are in a range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct UnitRange {
    /// The fewest.
    pub from: u64,
    /// The most.
    pub to: u64,
    /// How many users.
    pub users: u64,
}

impl Default for UnitsAUser {
    fn default() -> Self {
        Self { users: [0; RANGES], unknown: 0, units: 0 }
    }
}

/// The last number of a range.
fn last(range: usize) -> u64 {
    match range {
        0..10 => range as u64 + 1,
        _ => [2, 5, 10][(range - 10) % 3] * 10_u64.saturating_pow(u32::try_from((range - 10) / 3).unwrap_or(0) + 1),
    }
}

impl UnitsAUser {
    /// Counts a user; `None` if nobody recorded the units. Who holds none is no buyer.
    pub(crate) fn count(&mut self, units: Option<u64>) {
        let Some(units) = units else {
            self.unknown += 1;
            return;
        };
        if units == 0 {
            return;
        }
        self.units = self.units.saturating_add(units);
        let range = (0..RANGES).find(|range| units <= last(*range)).unwrap_or(RANGES - 1);
        self.users[range] += 1;
    }

    /// Users whose units are known.
    pub(crate) fn users(&self) -> u64 {
        self.users.iter().sum()
    }

    /// The ranges that have users, the fewest units first.
    pub(crate) fn ranges(&self) -> Vec<UnitRange> {
        let all = self.users.iter().enumerate().filter(|(_, users)| **users > 0);
        all.map(|(range, users)| UnitRange {
            from: if range == 0 { 1 } else { last(range - 1) + 1 },
            to: last(range),
            users: *users,
        })
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::number::MAX_UNITS;

    #[test]
    fn few_units_are_counted_exactly_and_many_in_ranges() {
        let mut users = UnitsAUser::default();
        for units in [1, 1, 2, 10, 11, 20, 21, 50, 51, 100, 101, 200, 201, MAX_UNITS, 0] {
            users.count(Some(units));
        }
        users.count(None);
        let found: Vec<_> = users.ranges().iter().map(|range| (range.from, range.to, range.users)).collect();
        let expected =
            [(1, 1, 2), (2, 2, 1), (10, 10, 1), (11, 20, 2), (21, 50, 2), (51, 100, 2), (101, 200, 2), (201, 500, 1)];
        assert_eq!(found[..8], expected);
        assert!(found[8].0 <= MAX_UNITS && MAX_UNITS <= found[8].1 && found.len() == 9);
        assert_eq!((users.users(), users.unknown, users.units), (14, 1, 769 + MAX_UNITS));
    }

    #[test]
    fn units_past_all_ranges_are_in_the_last() {
        let mut users = UnitsAUser::default();
        users.count(Some(u64::MAX));
        let last = UnitRange { from: 50_000_000_000_000_001, to: 100_000_000_000_000_000, users: 1 };
        assert_eq!(users.ranges(), [last]);
    }
}
