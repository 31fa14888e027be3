//! How a layout records who bought.

use crate::model::names::names;

names! {
    /// How a layout records who bought, by the names that the scripts know.
    #[derive(Default, Hash)]
    pub enum Kind {
        /// A hash: user to units.
        #[default]
        Hash = "hash",
        /// A set of users; units that are not 1 are stored beside it.
        Set = "set",
        /// A set of users, one unit each.
        Coupon = "coupon",
        /// Nobody is recorded.
        Counter = "counter",
    }
}

impl Kind {
    /// What a kind must be, for errors.
    pub const EXPECTED: &'static str = "one of `hash`, `set`, `coupon`, `counter`";

    /// Whether users are recorded at all.
    pub fn has_users(self) -> bool {
        self != Self::Counter
    }

    /// Whether a user is recorded once, so that the limit counts orders and is always 1.
    pub fn records_once(self) -> bool {
        matches!(self, Self::Set | Self::Coupon)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_record_a_user_once_and_a_counter_nobody() {
        let facts = Kind::ALL.iter().map(|kind| (kind.has_users(), kind.records_once()));
        assert!(facts.eq([(true, false), (true, true), (true, true), (false, false)]));
    }
}
