//! Order records of one activity: what a database says each user bought.

use super::interner::Interner;
use super::ledger::EntryId;

/// Where sums of rows saturate: at the most units that there can be, which no sale sells to one user.
const MOST_SUM: i64 = 9_007_199_254_740_991;

/// The rows of one activity, summed by user.
#[derive(Default)]
pub struct OrderSums {
    /// Whom the rows name.
    pub users: Interner,
    /// The sum of each user's rows, by number.
    pub units: Vec<i64>,
    /// How many rows there were.
    pub rows: u64,
    /// The newest ledger entry that a row names.
    pub newest: Option<EntryId>,
}

impl OrderSums {
    /// Adds a row of at most 2^53-1 units; units below zero are a refund.
    pub fn add(&mut self, user: &str, units: i64, entry: Option<EntryId>) {
        let number = self.users.number(user.as_bytes()) as usize;
        if self.units.len() <= number {
            self.units.resize(number + 1, 0);
        }
        // Far from the ends of an i64: what an audit adds to it or takes from it must not overflow.
        self.units[number] = (self.units[number] + units).clamp(-MOST_SUM, MOST_SUM);
        self.rows += 1;
        self.newest = self.newest.max(entry);
    }
}
