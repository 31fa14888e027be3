//! What is sold in a load test, and to whom.

use crate::model::id::RequestId;
use crate::model::order::Items;

/// What is sold, and to whom.
#[derive(Debug, Clone)]
pub(crate) struct Sale {
    /// Each client buys from one of them; there is at least one.
    pub baskets: Vec<Basket>,
    /// Who buys.
    pub buyers: Buyers,
    /// The most units a user may hold, as a backend without our script knows it.
    pub per_user_limit: Option<u64>,
    /// Whether units run out.
    pub is_short: bool,
    /// Why, for the ledger.
    pub reason: Option<String>,
    /// Request ids begin with it, and jobs are named by it.
    pub run: RequestId,
}

/// What one order takes: all of it or nothing.
#[derive(Debug, Clone)]
pub(crate) struct Basket {
    /// Activities and quantities, at least one; on a cluster in one slot.
    pub items: Items,
}

/// Who buys: `user-1` to `user-<count>`, again and again.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Buyers {
    /// How many there are, at least one.
    pub count: u64,
    /// How many orders in a row are one user's, at least one.
    pub in_a_row: u64,
}

impl Buyers {
    /// The user who places this order; both are counted from 0.
    pub(crate) fn number(self, order: u64) -> u64 {
        order / self.in_a_row.max(1) % self.count.max(1) + 1
    }
}

/// The user of that number.
pub(crate) fn write_user(out: &mut String, number: u64) {
    use std::fmt::Write;
    out.clear();
    // Writing to a text cannot fail.
    let _ = write!(out, "user-{number}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_buy_in_turn_each_so_many_times_in_a_row() {
        let users =
            |count, in_a_row| -> Vec<u64> { (0..7).map(|order| Buyers { count, in_a_row }.number(order)).collect() };
        assert_eq!(users(3, 1), [1, 2, 3, 1, 2, 3, 1]);
        assert_eq!(users(2, 2), [1, 1, 2, 2, 1, 1, 2]);
        assert_eq!(users(1, 1), [1; 7]);
    }
}
