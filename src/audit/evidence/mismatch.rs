//! What differs of a user between Redis, the ledger and the order records, each at one instant.

use std::collections::HashSet;

use crate::audit::class::Class;
use crate::audit::evidence::{Evidence, limit};
use crate::audit::ledger_state::{LedgerState, NewerMoves};
use crate::model::number::signed;

/// What a participant's record holds.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Holding {
    /// This many units.
    Units(u64),
    /// A member of a set without units: another system's script recorded none, or they were lost.
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
    pub newer: NewerMoves,
    /// How many of the units are held open: order records may have them or not.
    pub open: i64,
}

impl Mismatch {
    /// Units held. Of a record that lost its units, what the ledger says of the user; of one that never had any, what the order
    /// records say.
    pub(crate) fn units(&self) -> Option<i64> {
        match &self.holds {
            Holding::Unknown => self.written().or_else(|| self.recorded_now().filter(|units| *units > 0)),
            _ => self.written(),
        }
    }

    /// Units that a script of ours wrote, though they may be lost. It writes them before the member, so a member without units whom
    /// the ledger knows had them.
    pub(crate) fn written(&self) -> Option<i64> {
        match &self.holds {
            Holding::Units(units) => Some(signed(*units)),
            Holding::Unknown => self.ledger.filter(|units| *units > 0),
            Holding::Invalid(_) => None,
        }
    }

    /// Whether the counter is not what the ledger says, or was lost. Order records that say something else than the ledger decide what
    /// becomes of a lost one.
    pub(crate) fn drifts(&self) -> bool {
        let is_lost = || self.holds == Holding::Unknown && !self.differs_from_orders();
        self.ledger.is_some() && (self.drift() != Some(0) || is_lost())
    }

    /// Whether the order records say something else, and not because they are older.
    fn differs_from_orders(&self) -> bool {
        self.against_orders().is_some_and(|class| class != Class::Timing)
    }

    fn recorded_now(&self) -> Option<i64> {
        self.orders.map(|orders| orders.saturating_add(self.newer.net))
    }

    /// What the order records say, with what the ledger has that is newer. Where they may have what is held open, or was, or not, where
    /// a refund since may be of what they lack, and a repair of what is newer: what is nearest to the units held, or, of a counter that
    /// was lost, to what the ledger says; what is held open at least.
    pub(crate) fn ordered_now(&self) -> Option<i64> {
        let recorded = self.recorded_now()?;
        match self.written() {
            Some(units) => {
                let (open, NewerMoves { taken, given, .. }) = (self.open.max(0), self.newer);
                let more = self.unrecorded().saturating_add(given);
                let (least, most) = (recorded.saturating_add(taken), recorded.saturating_add(more));
                let near = self.ledger.filter(|_| units == 0 || units < open).unwrap_or(units);
                Some(near.clamp(least, most).max(open))
            }
            None => Some(recorded),
        }
    }

    /// Units that records may lack without being wrong: what was held open when they were written, and what was refunded since.
    fn unrecorded(&self) -> i64 {
        self.open.max(0).saturating_add(self.newer.closed).max(0).saturating_add(self.newer.returned)
    }

    /// Whether the user holds more than order records, or else the ledger, say, or held more by the ledger: a repair may take some of
    /// it, or return it.
    pub(crate) fn loses_units(&self) -> bool {
        let to = self.ordered_now().or(self.ledger);
        let had = self.units().map(|units| self.ledger.unwrap_or(units).max(units));
        to.is_some_and(|to| had.is_none_or(|had| to < had))
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
            Holding::Unknown if orders == 0 && self.written().is_none() => return Some(Class::MissingOrder),
            _ => self.units()?,
        };
        // What is held open was promised, and was returned outside the scripts.
        if units < self.open {
            return Some(Class::QuantityMismatch);
        }
        if orders == units || (units - self.open..=units).contains(&orders) {
            return None;
        }
        // What Redis held when the records were written. What they lacked then may have been refunded, or repaired, since.
        let NewerMoves { net, low, high, taken, given, .. } = self.newer;
        let then = units - net - taken - given;
        let (least, most) = (then + low.min(-self.unrecorded()) + taken, then + high + given);
        if (least..=most).contains(&orders) {
            return Some(Class::Timing);
        }
        Some(match (then, orders) {
            (_, 0) => Class::MissingOrder,
            (0, 1..) => Class::MissingPurchase,
            _ => Class::QuantityMismatch,
        })
    }

    /// Whether the ledger has more than the counter, and the order records agree with that, too, by what is held open or newer.
    pub(crate) fn records_allow_ledger(&self) -> bool {
        let more = self.ledger.filter(|_| self.drift().is_some_and(|drift| drift < 0));
        let more = more.and_then(|units| u64::try_from(units).ok()).map(Holding::Units);
        let against = more.map(|holds| Self { holds, ..self.clone() }.against_orders());
        against.is_some_and(|class| class.is_none_or(|class| class == Class::Timing))
    }

    /// Whether the order records agree with Redis, and the ledger does not.
    pub(crate) fn is_of_ledger_alone(&self) -> bool {
        let is_recorded = self.orders.is_some() && !self.differs_from_orders();
        is_recorded && self.drift().is_some_and(|drift| drift != 0)
    }
}

impl LedgerState {
    /// What a participant's record holds if it is what the ledger says.
    pub(crate) fn holding(&self, user: u32) -> Holding {
        match self.is_unknown(user) {
            true => Holding::Unknown,
            false => Holding::Units(u64::try_from(self.units(user)).unwrap_or(0)),
        }
    }

    /// What a record holds if a call that was cut is about to write the units that a member lacks, as the ledger says already.
    pub(crate) fn to_be_held(&self, user: u32, holds: Holding) -> Holding {
        match holds {
            Holding::Unknown if self.units(user) > 0 => self.holding(user),
            holds => holds,
        }
    }

    /// What differs of a user between record, ledger and limit, at the instant at which the ledger state ends. What the
    /// ledger does not know counts too, unless it is as unknown to the record.
    pub(crate) fn against_ledger(&self, user: u32, holds: Holding, limit: Option<u64>) -> Option<Mismatch> {
        self.differing(self.compare(user, holds, true, None), limit, true)
    }

    /// What differs of a user between record, ledger, limit and order records, at the instant at which the ledger state
    /// ends; nothing of most.
    pub(crate) fn mismatch(&self, user: u32, holds: Holding, limit: Option<u64>, by_ledger: bool) -> Option<Mismatch> {
        let orders = if self.lists_users() { self.ordered(user) } else { None };
        self.differing(self.compare(user, holds, by_ledger, orders), limit, false)
    }

    /// What was compared, if anything differs. `unknown_counts`: also what the ledger does not know.
    fn differing(&self, found: Mismatch, limit: Option<u64>, unknown_counts: bool) -> Option<Mismatch> {
        let agrees = || found.against_orders().is_none();
        let is_equal = match &found.holds {
            Holding::Invalid(_) => false,
            Holding::Unknown => found.ledger.is_none() && agrees(),
            Holding::Units(0) if unknown_counts && self.is_unknown(found.user) => false,
            Holding::Units(units) => {
                found.ledger.map_or(!unknown_counts, |ledger| ledger == signed(*units))
                    && limit.is_none_or(|limit| *units <= limit)
                    && agrees()
            }
        };
        (!is_equal).then_some(found)
    }

    /// What record, ledger and order records say of a user, at the instant at which the ledger state ends.
    pub(crate) fn compare(&self, user: u32, holds: Holding, by_ledger: bool, orders: Option<i64>) -> Mismatch {
        // Of a member whose units nobody recorded, not even an adoption, the ledger knows only that it is one.
        let is_unknown = self.is_unknown(user) && holds != Holding::Units(0);
        let ledger = if by_ledger && !is_unknown { Some(self.units(user)) } else { None };
        let holds = match holds {
            // No script of ours recorded the user: the ledger has the units of the order records.
            Holding::Unknown if ledger.is_some() && self.is_learned(user) => self.holding(user),
            holds => holds,
        };
        Mismatch { user, holds, ledger, orders, newer: self.newer(user), open: self.open(user) }
    }

    /// What the record of a mismatch holds at the instant at which the ledger state ends, if only our scripts changed it
    /// since it was read: they change both.
    fn holding_now(&self, found: Mismatch) -> Holding {
        match (found.holds, found.ledger) {
            (Holding::Units(units), Some(ledger)) => {
                let units = signed(units).saturating_add(self.units(found.user)).saturating_sub(ledger);
                Holding::Units(u64::try_from(units).unwrap_or(0))
            }
            // A refund of a member without units takes all of them.
            (Holding::Unknown, Some(ledger)) if ledger > 0 && ledger != self.units(found.user) => {
                Holding::Units(u64::try_from(self.units(found.user).saturating_sub(ledger)).unwrap_or(0))
            }
            // A refund made it known meanwhile.
            (Holding::Units(_), None) if !self.is_unknown(found.user) => self.holding(found.user),
            (holds, _) => holds,
        }
    }
}

impl Evidence {
    /// Compares all users with the order records, and brings what pages of participants showed to the same instant, at
    /// which the ledger state ends: a user who is no mismatch holds what the ledger says.
    pub fn compare_all(&mut self) {
        let ahead = self.end.as_ref().and_then(|end| end.ledger_last.filter(|last| last.at() > end.at));
        if let Some(last) = ahead.filter(|last| self.ledger.newer_from.is_some_and(|from| from <= *last)) {
            // Entries since a clock jumped back have its time, too.
            let why = "later than the order records, and the server's clock is not there yet";
            self.ledger.orders_too_old = Some(format!("ends at {}, {why}", last.at()));
        }
        let limit = limit(self.kind, self.meta());
        let found = std::mem::take(&mut self.mismatches);
        let is_gone = |mismatch: &&Mismatch| mismatch.holds == Holding::Units(0);
        let gone: HashSet<u32> = found.iter().filter(is_gone).map(|mismatch| mismatch.user).collect();
        let learned = self.ledger.learn_unknown(&gone);
        self.stock_drift = self.stock_drift.map(|drift| drift.saturating_add(learned));
        let ledger = &self.ledger;
        if ledger.lists_users() && self.kind.has_users() {
            let known: HashSet<u32> = found.iter().map(|mismatch| mismatch.user).collect();
            let others = ledger.everybody().filter(|user| !known.contains(user));
            self.mismatches.extend(others.filter_map(|user| ledger.mismatch(user, ledger.holding(user), None, true)));
        }
        self.mismatches.extend(found.into_iter().filter_map(|mismatch| {
            let user = mismatch.user;
            ledger.mismatch(user, ledger.holding_now(mismatch), limit, true)
        }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::class::Class;
    use crate::audit::ledger_state::Compared;
    use crate::audit::ledger_state::order_sums::OrderRows;
    use crate::model::activity::{Meta, Snapshot};
    use crate::model::layout::Layout;
    use crate::model::ledger::{Entry, EntryId};
    use crate::model::time::Millis;

    /// Units held, units of the order records, and how far the ledger is newer than they are.
    fn found(units: u64, orders: i64, (net, low, high): (i64, i64, i64)) -> Mismatch {
        Mismatch {
            user: 0,
            holds: Holding::Units(units),
            ledger: Some(5),
            orders: Some(orders),
            newer: NewerMoves { net, low, high, ..NewerMoves::default() },
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

    /// What is not to be repaired twice, nor taken though the records have it.
    #[test]
    fn what_was_refunded_or_repaired_since_the_records_may_be_what_they_lack() {
        use Class::{QuantityMismatch, Timing};
        let newer = |net, low, high| NewerMoves { net, low, high, ..NewerMoves::default() };
        for (units, orders, newer, class, to) in [
            // Six of nine lacked, then three were refunded: of the six, or of the three recorded ones.
            (6, 3, NewerMoves { returned: 3, ..newer(-3, -3, 0) }, QuantityMismatch, 3),
            // Two lacked, then two were bought, and two refunded.
            (2, 0, NewerMoves { returned: 2, ..newer(0, 0, 2) }, Timing, 2),
            // Two of ten lacked and were taken, while twenty were bought.
            (28, 8, NewerMoves { taken: -2, ..newer(20, 0, 20) }, Timing, 28),
            // The same, where three lacked.
            (28, 7, NewerMoves { taken: -2, ..newer(20, 0, 20) }, QuantityMismatch, 27),
            // The same records once more, behind newer ones that had two of five again.
            (5, 3, NewerMoves { taken: -2, given: 2, ..newer(0, 0, 0) }, Timing, 5),
        ] {
            let found = Mismatch { newer, ..found(units, orders, (0, 0, 0)) };
            assert_eq!((found.against_orders(), found.ordered_now()), (Some(class), Some(to)), "{newer:?}");
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
        // A counter that was lost says nothing: the ledger has five, and the records lack what is held open.
        for (orders, units, now) in [(3, 0, 5), (3, 1, 5), (5, 0, 5), (0, 0, 2), (3, 2, 3)] {
            let lost = Mismatch { open: 2, ..found(units, orders, (0, -2, 0)) };
            assert_eq!(lost.ordered_now(), Some(now), "{orders} {units}");
        }
        // They were confirmed since: the records were right then without them, and are too old now.
        let ended = |units, orders, (net, low): (i64, i64)| Mismatch {
            newer: NewerMoves { net, low, closed: 2, ..NewerMoves::default() },
            ..found(units, orders, (0, 0, 0))
        };
        let confirmed = ended(5, 3, (0, -2));
        assert_eq!((confirmed.against_orders(), confirmed.ordered_now()), (Some(Class::Timing), Some(5)));
        // The records lack two units besides: of what was confirmed since, or released, nothing is taken.
        let confirmed = ended(7, 3, (0, -2));
        assert_eq!((confirmed.against_orders(), confirmed.ordered_now()), (Some(Class::QuantityMismatch), Some(5)));
        let released = ended(7, 5, (-2, -2));
        assert_eq!((released.against_orders(), released.ordered_now()), (Some(Class::QuantityMismatch), Some(5)));
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
        let member = |orders, newer| Mismatch { holds: Holding::Unknown, ledger: None, ..found(0, orders, newer) };
        assert_eq!(member(4, (-1, -1, 0)).units(), Some(3));
        assert_eq!((member(1, (-1, -1, 0)).units(), member(0, (0, 0, 0)).units()), (None, None));
        assert_eq!(member(0, (0, 0, 0)).against_orders(), Some(Class::MissingOrder));
        assert_eq!(member(4, (0, 0, 0)).against_orders(), None);
        let unrecorded = Mismatch { orders: None, ..member(0, (0, 0, 0)) };
        assert_eq!((unrecorded.units(), unrecorded.ordered_now()), (None, None));
    }

    #[test]
    fn a_member_that_lost_its_units_holds_what_the_ledger_says() {
        use Class::{MissingOrder, QuantityMismatch, Timing};
        let still = (0, 0, 0);
        for (orders, newer, class, now, drifts) in [
            (Some(5), still, None, Some(5), true),
            (None, still, None, None, true),
            // All was bought since the records.
            (Some(0), (5, 0, 5), Some(Timing), Some(5), true),
            // The records decide.
            (Some(3), still, Some(QuantityMismatch), Some(3), false),
            (Some(0), still, Some(MissingOrder), Some(0), false),
        ] {
            let lost = Mismatch { holds: Holding::Unknown, orders, ..found(0, 0, newer) };
            assert_eq!((lost.units(), lost.drift(), lost.ordered_now()), (Some(5), Some(0), now), "{orders:?}");
            assert_eq!((lost.against_orders(), lost.drifts()), (class, drifts), "{orders:?} {newer:?}");
        }
        let of_nobody = Mismatch { holds: Holding::Unknown, ledger: Some(0), orders: None, ..found(0, 0, still) };
        assert_eq!((of_nobody.units(), of_nobody.drifts()), (None, true));
    }

    /// Evidence of a sale with a limit of 5, whose ledger has these deducts (and refunds, below zero) of an entry each,
    /// and whose order records are as of the third entry.
    fn evidence(layout: Layout, ledger: &[(&str, i64)], orders: Option<&[(&str, i64)]>) -> Evidence {
        let third = EntryId::first_at(Millis::new(4));
        let compared = orders.map(|_| Compared::unread(None, third, true));
        let mut evidence = Evidence::new(&"1001".parse().unwrap(), layout, None, compared);
        let meta = Meta { total: 100, per_user_limit: Some(5), epoch: 1, ledger: true, ..Meta::default() };
        evidence.end = Some(Snapshot { at: Millis::new(9), meta: Some(meta), ..Snapshot::sample("1001", None) });
        evidence.by_ledger = true;
        ledger.iter().for_each(|order| add(&mut evidence, order));
        let mut rows = OrderRows::default();
        orders.unwrap_or_default().iter().for_each(|(user, units)| rows.push(user, *units, None));
        evidence.ledger.add_orders(&rows);
        evidence
    }

    fn add(evidence: &mut Evidence, (user, units): &(&str, i64)) {
        let op = if *units < 0 { "refund" } else { "deduct" };
        let id = format!("{}-0", evidence.ledger.entries + 1);
        evidence.ledger.add(&Entry::of_orders(&id, op, &format!("{user} {}", units.abs())));
    }

    /// Reads a user's record, as a page of participants has it.
    fn read(evidence: &mut Evidence, user: &str, holds: Holding) {
        let user = evidence.ledger.user(user.as_bytes());
        evidence.ledger.mark_seen(user);
        evidence.mismatches.extend(evidence.ledger.against_ledger(user, holds, Some(5)));
    }

    /// The mismatches as user, what is held, what the ledger says, and what the order records mean.
    fn mismatches(evidence: &mut Evidence) -> Vec<(String, Holding, Option<i64>, Option<Class>)> {
        evidence.compare_all();
        let name = |user| String::from_utf8_lossy(evidence.ledger.users.name(user)).into_owned();
        let shown = |found: &Mismatch| (name(found.user), found.holds.clone(), found.ledger, found.against_orders());
        let mut shown: Vec<_> = evidence.mismatches.iter().map(shown).collect();
        shown.sort_by(|one, other| one.0.cmp(&other.0));
        shown
    }

    fn differing(
        user: &str,
        units: u64,
        ledger: i64,
        class: Option<Class>,
    ) -> (String, Holding, Option<i64>, Option<Class>) {
        (user.to_owned(), Holding::Units(units), Some(ledger), class)
    }

    #[test]
    fn a_mismatch_moves_with_the_ledger_until_the_end() {
        let mut sale = evidence(Layout::Seckill, &[("a", 3), ("b", 1)], None);
        read(&mut sale, "a", Holding::Units(5));
        read(&mut sale, "b", Holding::Units(0));
        add(&mut sale, &("a", -2));
        add(&mut sale, &("b", -1));
        // The counter of `b` would be below zero, which none is.
        assert_eq!(mismatches(&mut sale), [differing("a", 3, 1, None)]);
        assert_eq!(mismatches(&mut sale), [differing("a", 3, 1, None)], "again, nothing moved");
    }

    #[test]
    fn who_held_too_much_and_gave_it_back_is_no_mismatch() {
        let mut sale = evidence(Layout::Seckill, &[("a", 6), ("b", 5), ("c", 6)], None);
        for (user, units) in [("a", 6), ("b", 5), ("c", 6)] {
            read(&mut sale, user, Holding::Units(units));
        }
        add(&mut sale, &("a", -1));
        assert_eq!(mismatches(&mut sale), [differing("c", 6, 6, None)]);
    }

    #[test]
    fn order_records_are_compared_with_what_the_ledger_says_at_the_end() {
        let orders = [("a", 1), ("b", 1), ("c", 3), ("e", 2), ("f", 2)];
        let mut sale = evidence(Layout::Seckill, &[("a", 1), ("b", 2), ("d", 1)], Some(&orders));
        for (user, units) in [("a", 1), ("b", 2), ("d", 1), ("f", 2)] {
            read(&mut sale, user, Holding::Units(units));
        }
        // Newer than the records, which know one of them.
        add(&mut sale, &("e", 2));
        add(&mut sale, &("g", 1));
        assert_eq!(
            mismatches(&mut sale),
            [
                differing("b", 2, 2, Some(Class::QuantityMismatch)),
                differing("c", 0, 0, Some(Class::MissingPurchase)),
                differing("d", 1, 1, Some(Class::MissingOrder)),
                // A write past the ledger, which the records know.
                differing("f", 2, 0, None),
                differing("g", 1, 1, Some(Class::Timing)),
            ]
        );
    }

    #[test]
    fn a_sale_without_users_is_not_compared_user_by_user() {
        let mut sale = evidence(Layout::Product, &[("", 3)], Some(&[("", 1)]));
        assert_eq!((mismatches(&mut sale), sale.ledger.unseen()), (vec![], vec![]));
    }

    #[test]
    fn a_member_without_units_is_as_unknown_to_the_ledger_or_lost_them() {
        let orders = [("a", 4), ("b", 2), ("d", 2)];
        let mut sale = evidence(Layout::Sku, &[("own", 2)], Some(&orders));
        for user in ["a", "b", "c", "d"] {
            sale.ledger.carry_unknown(user.as_bytes());
        }
        assert_eq!(sale.ledger.unseen().len(), 5);
        read(&mut sale, "own", Holding::Unknown);
        read(&mut sale, "a", Holding::Unknown);
        // Units that somebody wrote beside the member since: the ledger does not know them, the records do, or not.
        read(&mut sale, "b", Holding::Units(2));
        read(&mut sale, "c", Holding::Units(3));
        read(&mut sale, "d", Holding::Invalid("x".to_owned()));
        let class = |class| (None, Some(class));
        let expected: Vec<_> = mismatches(&mut sale)
            .into_iter()
            .map(|(user, holds, ledger, against)| (format!("{user} {holds:?}"), (ledger, against)))
            .collect();
        assert_eq!(
            expected,
            [
                ("c Units(3)".to_owned(), class(Class::MissingOrder)),
                ("d Invalid(\"x\")".to_owned(), (Some(2), None)),
                ("own Unknown".to_owned(), (Some(2), Some(Class::MissingOrder))),
            ]
        );
    }

    #[test]
    fn units_of_a_member_are_lost_unless_it_gave_them_back_or_a_cut_call_will_write_them() {
        let mut sale = evidence(Layout::Sku, &[("a", 2), ("b", 2), ("c", 2), ("d", 2)], None);
        ["a", "b", "c"].into_iter().for_each(|user| read(&mut sale, user, Holding::Unknown));
        let user = sale.ledger.user(b"d");
        let written = sale.ledger.to_be_held(user, Holding::Unknown);
        read(&mut sale, "d", written);
        let stranger = sale.ledger.user(b"e");
        assert_eq!(sale.ledger.to_be_held(stranger, Holding::Unknown), Holding::Unknown);
        add(&mut sale, &("b", -2));
        // All that it had went with the first unit.
        add(&mut sale, &("c", -1));
        let lost = ("a".to_owned(), Holding::Unknown, Some(2), None);
        assert_eq!(mismatches(&mut sale), [lost, differing("c", 0, 1, None)]);
    }

    /// A repair took it, and was cut before its entry.
    #[test]
    fn a_member_without_units_who_is_gone_holds_nothing_if_order_records_say_so() {
        let mut sale = evidence(Layout::Sku, &[("b", 1)], Some(&[("b", 1)]));
        sale.ledger.carry_unknown(b"a");
        assert!(sale.ledger.carried(4));
        read(&mut sale, "b", Holding::Units(1));
        read(&mut sale, "a", Holding::Units(0));
        assert_eq!((mismatches(&mut sale), sale.ledger.sum), (vec![], 1));
        add(&mut sale, &("a", 2));
        assert_eq!(mismatches(&mut sale).len(), 1, "it is newer than the order records");
    }

    #[test]
    fn a_member_without_units_who_is_gone_may_buy_again() {
        let mut sale = evidence(Layout::Sku, &[], None);
        sale.ledger.carry_unknown(b"a");
        add(&mut sale, &("a", 2));
        read(&mut sale, "a", Holding::Units(2));
        assert_eq!((mismatches(&mut sale), sale.ledger.sum), (vec![], 2));
    }

    #[test]
    fn a_member_whose_unknown_units_were_refunded_meanwhile_holds_nothing() {
        let mut sale = evidence(Layout::Sku, &[], None);
        sale.ledger.carry_unknown(b"a");
        read(&mut sale, "a", Holding::Units(3));
        assert_eq!(sale.mismatches.len(), 1);
        add(&mut sale, &("a", -3));
        assert_eq!(mismatches(&mut sale), []);
    }
}
