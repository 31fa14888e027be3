//! What is sold in each scenario, and to whom.

use crate::bench::{Buyers, Until};
use crate::model::names::names;
use crate::model::{Kind, Limit, Units};

names! {
    /// Who wants how much of what there is.
    #[derive(clap::ValueEnum)]
    pub enum Scenario {
        /// Enough for all
        Enough = "enough",
        /// One unit for ten orders, one a user
        Short = "short",
        /// The same few users again and again, four orders at once, at most two units each
        Conflict = "conflict",
        /// Orders of three activities, all or nothing; enough for all
        Multi = "multi",
        /// The same with one unit for ten orders
        MultiShort = "multi-short",
    }
}

/// Activities of an order of several.
const ITEMS: usize = 3;
/// Orders for each unit in a scenario where stock is short.
const SHORTAGE: u64 = 10;
/// The number of users in a conflict.
const CONFLICT: u64 = 100;
/// Orders of a user at the same time, and the units that each may hold.
const AT_ONCE: u64 = 4;
const CONFLICT_LIMIT: u64 = 2;
/// More than any run sells in its time.
const PLENTY: u64 = 1_000_000_000_000;

/// What is sold, and to whom.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Terms {
    /// Activities of an order.
    pub items: usize,
    /// Units of each activity.
    pub stock: Units,
    pub limit: Option<Limit>,
    pub buyers: Buyers,
    /// Whether units run out.
    pub is_short: bool,
}

impl Scenario {
    /// The terms for a number of users, in a layout of that kind.
    pub(super) fn terms(self, users: u64, until: Until, kind: Kind) -> Terms {
        let wanted = until.orders().unwrap_or(PLENTY);
        let (stock, limit) = match self {
            Self::Short | Self::MultiShort => ((wanted.min(users) / SHORTAGE).max(1), Some(1)),
            Self::Conflict => (wanted, Some(CONFLICT_LIMIT)),
            Self::Enough | Self::Multi => (wanted, None),
        };
        let limit = match kind {
            Kind::Hash => limit,
            Kind::Set | Kind::Coupon => Some(1),
            Kind::Counter => None,
        };
        let count = match self {
            Self::Conflict => (users / CONFLICT).max(1),
            // Where a user buys once, everybody is another one.
            Self::Enough | Self::Multi if kind.records_once() => u64::MAX,
            _ => users,
        };
        Terms {
            items: if matches!(self, Self::Multi | Self::MultiShort) { ITEMS } else { 1 },
            stock: Units::new(stock).unwrap_or(Units::ZERO),
            limit: limit.and_then(Limit::new),
            buyers: Buyers { count, in_a_row: if self == Self::Conflict { AT_ONCE } else { 1 } },
            is_short: matches!(self, Self::Short | Self::MultiShort),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn terms(scenario: Scenario, until: Until, kind: Kind) -> (u64, Option<u64>, u64) {
        let terms = scenario.terms(1000, until, kind);
        (terms.stock.get(), terms.limit.map(Limit::get), terms.buyers.count)
    }

    #[test]
    fn a_scenario_says_what_there_is_and_who_wants_it() {
        let orders = Until::Orders(500);
        assert_eq!(terms(Scenario::Enough, orders, Kind::Hash), (500, None, 1000));
        assert_eq!(terms(Scenario::Short, orders, Kind::Hash), (50, Some(1), 1000));
        assert_eq!(terms(Scenario::Conflict, orders, Kind::Hash), (500, Some(2), 10));
        assert_eq!(terms(Scenario::MultiShort, Until::Orders(3), Kind::Hash), (1, Some(1), 1000));
        assert_eq!(terms(Scenario::Short, Until::Elapsed(std::time::Duration::MAX), Kind::Hash), (100, Some(1), 1000));
        assert_eq!(terms(Scenario::Enough, orders, Kind::Set), (500, Some(1), u64::MAX));
        assert_eq!(terms(Scenario::Short, orders, Kind::Counter), (50, None, 1000));
        assert_eq!(Scenario::Multi.terms(1, orders, Kind::Hash).items, 3);
    }
}
