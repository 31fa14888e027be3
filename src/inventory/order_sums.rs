//! Order records of one activity: what a database says each user bought.

use super::column::Column;
use super::interner::Interner;
use super::ledger::EntryId;

/// Where sums of rows saturate: at the most units that there can be, which no sale sells to one user.
const MAX_SUM: i64 = 9_007_199_254_740_991;

/// Adds a row to a user's sum, far from the ends of an `i64`: what an audit adds to a sum must not overflow.
fn add(units: &mut Column<1>, user: u32, quantity: i64) {
    let [sum] = units.get(user);
    units.set(user, [(sum + quantity).clamp(-MAX_SUM, MAX_SUM)]);
}

/// The rows of one activity, summed by user.
#[derive(Default)]
pub struct OrderSums {
    /// Units by user.
    units: Column<1>,
    /// How many rows there were.
    pub rows: u64,
    /// The newest ledger entry that a row names.
    pub newest: Option<EntryId>,
}

impl OrderSums {
    /// Adds rows. `users` numbers their users, here and wherever else these sums are compared.
    pub fn add(&mut self, rows: &OrderRows, users: &mut Interner) {
        for (user, quantity) in users.numbers(rows.users()).into_iter().zip(&rows.quantities) {
            add(&mut self.units, user, *quantity);
        }
        self.rows += rows.len() as u64;
        self.newest = self.newest.max(rows.newest);
    }

    /// What a user bought by the rows so far.
    pub fn of(&self, user: u32) -> i64 {
        let [units] = self.units.get(user);
        units
    }
}

/// Some rows of one activity, in one piece of memory, to be handed from thread to thread.
#[derive(Default)]
pub struct OrderRows {
    names: Vec<u8>,
    /// Where each user's name ends.
    ends: Vec<u32>,
    quantities: Vec<i64>,
    newest: Option<EntryId>,
}

impl OrderRows {
    /// Adds a row of at most 2^53-1 units; units below zero are a refund. `entry` is the ledger entry that it names.
    pub fn push(&mut self, user: &str, quantity: i64, entry: Option<EntryId>) {
        self.names.extend_from_slice(user.as_bytes());
        // Some hundred names of at most 256 bytes.
        self.ends.push(u32::try_from(self.names.len()).unwrap_or(u32::MAX));
        self.quantities.push(quantity);
        self.newest = self.newest.max(entry);
    }

    /// Forgets all rows, and keeps the memory.
    pub fn clear(&mut self) {
        self.names.clear();
        self.ends.clear();
        self.quantities.clear();
        self.newest = None;
    }

    /// How many rows there are.
    pub fn len(&self) -> usize {
        self.quantities.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.quantities.is_empty()
    }

    fn users(&self) -> impl Iterator<Item = &[u8]> + Clone {
        let begins = std::iter::once(0).chain(self.ends.iter().copied());
        begins.zip(&self.ends).map(|(begin, end)| &self.names[begin as usize..*end as usize])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_summed_by_user_and_the_sums_saturate() {
        let entry = |text: &str| Some(text.parse().unwrap());
        let (mut users, mut sums) = (Interner::default(), OrderSums::default());
        let mut rows = OrderRows::default();
        assert!(rows.is_empty());
        rows.push("a", 3, entry("7-0"));
        rows.push("", MAX_SUM, entry("5-1"));
        rows.push("a", -1, None);
        rows.push("", MAX_SUM, None);
        assert_eq!((rows.len(), rows.is_empty()), (4, false));
        sums.add(&rows, &mut users);
        rows.clear();
        rows.push("b", -MAX_SUM, None);
        rows.push("b", -MAX_SUM, None);
        sums.add(&rows, &mut users);
        let mut of = |user: &[u8]| sums.of(users.number(user));
        assert_eq!((of(b"a"), of(b""), of(b"b"), of(b"c")), (2, MAX_SUM, -MAX_SUM, 0));
        assert_eq!((sums.rows, sums.newest), (6, entry("7-0")));
    }
}
