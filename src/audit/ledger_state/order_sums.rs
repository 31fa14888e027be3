//! Order records of one activity: what a database says each user bought.

use std::hash::{DefaultHasher, Hash, Hasher};

use hashbrown::HashSet;

use crate::audit::ledger_state::column::Column;
use crate::model::{EntryId, Interner};

/// Where sums of rows saturate: at the most units that there can be, which no sale sells to one user.
const MAX_SUM: i64 = 9_007_199_254_740_991;

/// Adds a row to a user's sum, far from the ends of an `i64`: what an audit adds to a sum must not overflow.
fn add(units: &mut Column<1>, user: u32, quantity: i64) {
    let [sum] = units.get(user);
    units.set(user, [(sum + quantity).clamp(-MAX_SUM, MAX_SUM)]);
}

/// The fingerprint of a user's request id.
fn fingerprint(user: &[u8], request: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    (user, request).hash(&mut hasher);
    hasher.finish()
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
    /// Fingerprints of the request ids that rows name, with their users: a false one is one in billions of billions.
    requests: HashSet<u64>,
    /// Whether a purchase of a user names no request id, by the user's index.
    unnamed: Vec<bool>,
}

impl OrderSums {
    /// Adds rows. `users` numbers their users, here and wherever else these sums are compared.
    pub fn add(&mut self, rows: &OrderRows, users: &mut Interner) {
        let users = users.numbers(rows.users());
        for ((user, quantity), request) in users.into_iter().zip(&rows.quantities).zip(&rows.requests) {
            add(&mut self.units, user, *quantity);
            match request {
                Some(request) => _ = self.requests.insert(*request),
                None if *quantity > 0 => {
                    let at = user as usize;
                    self.unnamed.resize(self.unnamed.len().max(at + 1), false);
                    self.unnamed[at] = true;
                }
                None => (),
            }
        }
        self.rows += rows.len() as u64;
        self.newest = self.newest.max(rows.newest);
    }

    /// Whether the rows of a user name their request ids, and none of them this one.
    pub fn lacks(&self, user: u32, name: &[u8], request: &str) -> bool {
        self.names_all(user) && !self.names(name, request)
    }

    /// Whether each purchase of a user names its request id.
    pub fn names_all(&self, user: u32) -> bool {
        !self.unnamed.get(user as usize).is_some_and(|unnamed| *unnamed)
    }

    /// Whether a row of the user of this name names this request id.
    pub fn names(&self, name: &[u8], request: &str) -> bool {
        self.requests.contains(&fingerprint(name, request))
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
    /// The fingerprint of each request id.
    requests: Vec<Option<u64>>,
    newest: Option<EntryId>,
}

impl OrderRows {
    /// Adds a row of at most 2^53-1 units; units below zero are a refund. `entry` is the ledger entry that it names.
    pub fn push(&mut self, user: &str, quantity: i64, entry: Option<EntryId>) {
        self.names.extend_from_slice(user.as_bytes());
        // Some hundred names of at most 256 bytes.
        self.ends.push(u32::try_from(self.names.len()).unwrap_or(u32::MAX));
        self.quantities.push(quantity);
        self.requests.push(None);
        self.newest = self.newest.max(entry);
    }

    /// Says which request id the last row names.
    pub fn name_request(&mut self, request: &str) {
        let ends: Vec<usize> = self.ends.iter().rev().take(2).map(|end| *end as usize).collect();
        let begin = ends.get(1).copied().unwrap_or_default();
        if let Some(last) = self.requests.last_mut() {
            *last = Some(fingerprint(&self.names[begin..], request));
        }
    }

    /// Forgets all rows, and keeps the memory.
    pub fn clear(&mut self) {
        self.names.clear();
        self.ends.clear();
        self.quantities.clear();
        self.requests.clear();
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

    #[test]
    fn rows_that_all_name_a_request_lack_every_other_one() {
        let (mut users, mut sums, mut rows) = (Interner::default(), OrderSums::default(), OrderRows::default());
        for (user, quantity, request) in
            [("a", 1, Some("r")), ("a", -1, None), ("b", 1, Some("s")), ("b", 1, None), ("ab", 1, Some("t"))]
        {
            rows.push(user, quantity, None);
            if let Some(request) = request {
                rows.name_request(request);
            }
        }
        sums.add(&rows, &mut users);
        let mut lacks = |user: &str, request: &str| sums.lacks(users.number(user.as_bytes()), user.as_bytes(), request);
        assert_eq!(["r", "s"].map(|request| lacks("a", request)), [false, true]);
        assert_eq!(["r", "s"].map(|request| lacks("b", request)), [false, false], "one of its rows names none");
        assert_eq!([lacks("ab", "t"), lacks("c", "t")], [false, true]);
        rows.clear();
        rows.push("a", 1, None);
        assert!(rows.requests == [None], "a row names nothing until it is said");
    }
}
