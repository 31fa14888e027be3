//! What differs of one user, with what each side says.

use crate::audit::class::Class;
use crate::audit::ledger_state::Newer;
use crate::model::number::signed;

/// What a participant's record holds.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Holding {
    /// This many units.
    Units(u64),
    /// A member of a set that another system's script recorded without units.
    Unknown,
    /// A text that is no number, cut short.
    Invalid(String),
}

/// A user whose counter, ledger or order records disagree, or who exceeds the limit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mismatch {
    /// The user's index in the ledger state.
    pub user: u32,
    /// What the record holds.
    pub holds: Holding,
    /// What the ledger said at that same instant; `None` if it does not know.
    pub ledger: Option<i64>,
    /// What the order records say; `None` if there are none.
    pub orders: Option<i64>,
    /// What the ledger has that is newer than the order records.
    pub newer: Newer,
    /// How many of the units are held open: order records may have them or not.
    pub open: i64,
}

impl Mismatch {
    /// Units held. Of a record without units, what the order records say of the user.
    pub(crate) fn units(&self) -> Option<i64> {
        match &self.holds {
            Holding::Units(units) => Some(signed(*units)),
            Holding::Unknown => self.recorded_now().filter(|units| *units > 0),
            Holding::Invalid(_) => None,
        }
    }

    fn recorded_now(&self) -> Option<i64> {
        self.orders.map(|orders| orders.saturating_add(self.newer.net))
    }

    /// What the order records say, with what the ledger has that is newer. Where they may have what is held open or not, what
    /// is nearer to the units held; what is held open at least.
    pub(crate) fn ordered_now(&self) -> Option<i64> {
        let recorded = self.recorded_now()?;
        match self.holds {
            Holding::Units(units) => {
                let open = self.open.max(0);
                Some(signed(units).clamp(recorded, recorded.saturating_add(open)).max(open))
            }
            _ => Some(recorded),
        }
    }

    /// Whether the user holds more than order records, or else the ledger, say: a repair may take some of it.
    pub(crate) fn loses_units(&self) -> bool {
        let to = self.ordered_now().or(self.ledger);
        to.is_some_and(|to| self.units().is_none_or(|units| to < units))
    }

    /// By how much the counter is above the ledger; `None` if either is unknown.
    pub(crate) fn drift(&self) -> Option<i64> {
        Some(self.units()?.saturating_sub(self.ledger?))
    }

    /// How the order records differ from Redis; `None` if they agree, or if nobody knows.
    pub(crate) fn against_orders(&self) -> Option<Class> {
        let orders = self.orders?;
        let units = match &self.holds {
            // The records do not name the user.
            Holding::Unknown if orders == 0 => return Some(Class::MissingOrder),
            _ => self.units()?,
        };
        // What is held open was promised, and was returned outside the scripts.
        if units < self.open {
            return Some(Class::QuantityMismatch);
        }
        if orders == units || (units - self.open..=units).contains(&orders) {
            return None;
        }
        // What Redis held when the records were written.
        let then = units - self.newer.net;
        if (then + self.newer.low..=then + self.newer.high).contains(&orders) {
            return Some(Class::Timing);
        }
        Some(match (then, orders) {
            (_, 0) => Class::MissingOrder,
            (0, 1..) => Class::MissingPurchase,
            _ => Class::QuantityMismatch,
        })
    }

    /// Whether the order records agree with Redis, and the ledger does not.
    pub(crate) fn is_of_ledger_alone(&self) -> bool {
        let is_recorded = self.orders.is_some() && self.against_orders().is_none_or(|class| class == Class::Timing);
        is_recorded && self.drift().is_some_and(|drift| drift != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Units held, units of the order records, and how far the ledger is newer than they are.
    fn found(units: u64, orders: i64, (net, low, high): (i64, i64, i64)) -> Mismatch {
        Mismatch {
            user: 0,
            holds: Holding::Units(units),
            ledger: Some(5),
            orders: Some(orders),
            newer: Newer { net, low, high },
            open: 0,
        }
    }

    #[test]
    fn order_records_are_compared_with_what_was_held_when_they_were_written() {
        use Class::{MissingOrder, MissingPurchase, QuantityMismatch, Timing};
        let still = (0, 0, 0);
        for (units, orders, newer, class) in [
            (2, 2, still, None),
            (2, 0, still, Some(MissingOrder)),
            (0, 2, still, Some(MissingPurchase)),
            (0, -2, still, Some(QuantityMismatch)),
            (2, 3, still, Some(QuantityMismatch)),
            // Three were taken since, and one of them returned: from 1 up to 4, then 3.
            (3, 1, (2, 0, 3), Some(Timing)),
            (3, 4, (2, 0, 3), Some(Timing)),
            (3, 3, (2, 0, 3), None),
            (3, 0, (2, 0, 3), Some(MissingOrder)),
            (3, 5, (2, 0, 3), Some(QuantityMismatch)),
            // All was taken since.
            (2, 0, (2, 0, 2), Some(Timing)),
            (2, -1, (2, 0, 2), Some(QuantityMismatch)),
            (2, 3, (2, 0, 2), Some(MissingPurchase)),
            // Two returned since.
            (1, 3, (-2, -2, 0), Some(Timing)),
            (1, 4, (-2, -2, 0), Some(QuantityMismatch)),
        ] {
            assert_eq!(found(units, orders, newer).against_orders(), class, "{units} {orders} {newer:?}");
        }
    }

    #[test]
    fn order_records_have_what_is_held_open_or_not() {
        // Five units, of which two are held open, and nothing moved since the records.
        for (orders, class, now) in [
            (5, None, 5),
            (4, None, 5),
            (3, None, 5),
            (2, Some(Class::QuantityMismatch), 4),
            (0, Some(Class::MissingOrder), 2),
            (6, Some(Class::QuantityMismatch), 6),
        ] {
            let open = Mismatch { open: 2, ..found(5, orders, (0, -2, 0)) };
            assert_eq!((open.against_orders(), open.ordered_now()), (class, Some(now)), "{orders}");
        }
        // They were confirmed since: the records were right then without them, and are too old now.
        let confirmed = found(5, 3, (0, -2, 0));
        assert_eq!((confirmed.against_orders(), confirmed.ordered_now()), (Some(Class::Timing), Some(3)));
    }

    #[test]
    fn without_order_records_or_a_number_nothing_is_compared_with_them() {
        let known = found(2, 0, (0, 0, 0));
        assert_eq!(Mismatch { orders: None, ..known.clone() }.against_orders(), None);
        let invalid = Mismatch { holds: Holding::Invalid("x".to_owned()), ..known.clone() };
        assert_eq!((invalid.against_orders(), invalid.units(), invalid.drift()), (None, None, None));
        assert_eq!((known.units(), known.drift()), (Some(2), Some(-3)));
        assert_eq!(Mismatch { ledger: None, ..known }.drift(), None);
    }

    #[test]
    fn records_that_agree_with_redis_leave_the_ledger_alone_to_differ() {
        // The ledger says 5.
        for (units, orders, newer, alone) in
            [(4, 4, (0, 0, 0), true), (3, 1, (2, 0, 3), true), (2, 3, (0, 0, 0), false), (5, 5, (0, 0, 0), false)]
        {
            assert_eq!(found(units, orders, newer).is_of_ledger_alone(), alone, "{units} {orders}");
        }
        assert!(!Mismatch { orders: None, ..found(4, 4, (0, 0, 0)) }.is_of_ledger_alone());
    }

    #[test]
    fn a_member_without_units_holds_what_the_records_say_now() {
        let member = |orders, newer| Mismatch { holds: Holding::Unknown, ..found(0, orders, newer) };
        assert_eq!(member(4, (-1, -1, 0)).units(), Some(3));
        assert_eq!((member(1, (-1, -1, 0)).units(), member(0, (0, 0, 0)).units()), (None, None));
        assert_eq!(member(0, (0, 0, 0)).against_orders(), Some(Class::MissingOrder));
        assert_eq!(member(4, (0, 0, 0)).against_orders(), None);
        let unrecorded = Mismatch { orders: None, ..member(0, (0, 0, 0)) };
        assert_eq!((unrecorded.units(), unrecorded.ordered_now()), (None, None));
    }
}
