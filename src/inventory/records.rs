//! Order records of one activity: what a database says each user bought.

use super::ledger::EntryId;
use super::users::Users;

/// The rows of one activity, summed by user.
#[derive(Default)]
pub struct Records {
    /// Whom the rows name.
    pub users: Users,
    /// The sum of each user's rows, by number.
    pub units: Vec<i64>,
    /// How many rows there were.
    pub rows: u64,
    /// The newest ledger entry that a row names.
    pub newest: Option<EntryId>,
}

impl Records {
    /// Adds a row; units below zero are a refund.
    pub fn add(&mut self, user: &str, units: i64, entry: Option<EntryId>) {
        let number = self.users.number(user.as_bytes()) as usize;
        if self.units.len() <= number {
            self.units.resize(number + 1, 0);
        }
        self.units[number] = self.units[number].saturating_add(units);
        self.rows += 1;
        self.newest = self.newest.max(entry);
    }
}
