//! The purchases behind what a repair takes from users: their request ids end with it, or they would sell units that are for
//! sale again.

use std::collections::HashMap;

use crate::audit::evidence::mismatch::Mismatch;
use crate::audit::ledger_state::LedgerState;
use crate::model::{Status, StoredUser};

const UNNAMED: &str = "which orders are missing is not known without request ids: give the records a column `request` \
                       (`--map request=THEIRS`)";
const UNCLEAR: &str = "the request ids of the order records do not show which orders are missing: correct the rows, or `refund` what they lack";
const UNREAD: &str = "the request ids could not be read";
const TOO_MANY: &str = "it would end more than 10000 request ids at once";
/// Why a repair leaves a part of a difference.
pub(crate) const NEXT_AUDIT: &str = "one repair ends 10000 request ids at most: apply it, then audit again, with newer \
                                     order records, for the rest";

/// Request ids that one repair may end: what the script takes in a call.
pub(crate) const MAX_REVERSED: usize = 10_000;

/// A purchase that a request id names, and that holds units.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Purchase {
    /// Its request id.
    pub request: String,
    /// Its units; `None` if no record says how many, as of an order of several activities.
    pub units: Option<i64>,
    /// Whether the ledger has an entry of it, as far as anybody can tell; a call that was cut may have stored the id alone.
    pub has_entry: bool,
    /// Whether it is newer than the order records.
    pub is_newer: bool,
}

/// What the request ids of one user did.
#[derive(Debug, Default)]
pub(crate) struct UserPurchases {
    /// What they bought.
    pub purchases: Vec<Purchase>,
    /// Units that refunds returned.
    pub refunded: i64,
}

/// What the request ids did of users who hold more than they should.
#[derive(Debug, Default)]
pub(crate) struct Purchases {
    /// By the user's index in the ledger state.
    pub by_user: HashMap<u32, UserPurchases>,
    /// Whether the server refused to show them.
    pub is_unread: bool,
}

impl Purchases {
    /// What a user's units become if they should be `to`, and the request ids that end with that: the first of them, if they are too
    /// many for one repair.
    ///
    /// # Errors
    /// Why that is not known.
    pub(crate) fn reversed(
        &self,
        mismatch: &Mismatch,
        to: i64,
        ledger: &LedgerState,
    ) -> Result<(i64, Vec<String>), &'static str> {
        if self.is_unread {
            return Err(UNREAD);
        }
        let Some(of_user) = self.by_user.get(&mismatch.user) else { return Ok((to, Vec::new())) };
        // Without records the ledger says what the user holds.
        let user = mismatch.user;
        let has_no_row = |purchase: &Purchase| match ledger.records() {
            Some(records) => records.lacks(user, ledger.users.name(user), &purchase.request),
            None => !purchase.has_entry,
        };
        // Of an order of several activities its row has the units.
        let is_named = |purchase: &Purchase| {
            ledger.records().is_some_and(|records| records.names(ledger.users.name(user), &purchase.request))
        };
        let units = |of: &[&Purchase]| {
            of.iter().map(|purchase| purchase.units.or_else(|| is_named(purchase).then_some(0))).sum::<Option<i64>>()
        };
        let taken = mismatch.units().map(|units| units.saturating_sub(to));
        // A row without an id may be of an order that has one. What no ledger has is of none, and in a sale without users most have none.
        let has_more = taken > Some(0) && mismatch.ledger.is_none_or(|ledger| ledger > to);
        let has_unnamed = ledger.records().is_some_and(|records| !records.names_all(user));
        let may_lack_named = has_more && has_unnamed && ledger.has_users();
        // What is reversed, and what is kept: with `all` everything that is not newer is.
        let divided = |all: bool| -> (Vec<&Purchase>, Vec<&Purchase>) {
            of_user.purchases.iter().partition(|purchase| !purchase.is_newer && (all || has_no_row(purchase)))
        };
        let is_covered =
            |kept: &[&Purchase]| units(kept).is_some_and(|units| units.saturating_sub(of_user.refunded) <= to);
        // Ids that have more than is taken, beside rows of ids that are none of ours: which order is missing is not known.
        let is_too_much = |reversed: &[&Purchase], kept: &[&Purchase]| {
            let known = |of: &[&Purchase]| of.iter().map(|purchase| purchase.units).sum::<Option<i64>>();
            // Of a counter that was lost nothing is taken.
            let most = taken.filter(|taken| *taken > 0).map(|taken| taken.saturating_add(of_user.refunded));
            known(reversed).zip(most).is_some_and(|(units, most)| units > most)
                && known(kept).is_some_and(|units| units.saturating_add(mismatch.open) < to)
        };
        // What is reversed, if that is known.
        let decided = |all: bool| {
            let (reversed, kept) = divided(all);
            if is_too_much(&reversed, &kept) {
                return None;
            }
            let are_behind_it =
                !reversed.is_empty() && units(&reversed).zip(taken).is_some_and(|(units, taken)| units >= taken);
            let is_unclear = may_lack_named && kept.iter().any(|it| !it.is_newer && it.units != Some(0));
            (mismatch.orders.is_none() || are_behind_it || !is_unclear && is_covered(&kept)).then_some(reversed)
        };
        let reversed = match mismatch.orders {
            // What was returned since has its entry, and its id says so.
            None => decided(to == 0 && !is_covered(&divided(false).1)),
            // An id that was refunded has its row.
            Some(orders) => decided(false).or_else(|| decided(true).filter(|_| orders == 0)),
        };
        match reversed {
            None if mismatch.orders > Some(0) && ledger.records().is_some_and(|records| records.names_all(user)) => {
                Err(UNCLEAR)
            }
            None => Err(UNNAMED),
            Some(mut reversed) => {
                let mut rest = 0;
                if reversed.len() > MAX_REVERSED {
                    reversed.truncate(MAX_REVERSED);
                    // The next audit must find a difference, or the other ids would never end.
                    let left = taken.zip(units(&reversed)).map(|(taken, units)| taken - units);
                    rest = left.filter(|left| *left > 0 && !mismatch.drifts()).ok_or(TOO_MANY)?;
                }
                Ok((to + rest, reversed.into_iter().map(|purchase| purchase.request.clone()).collect()))
            }
        }
    }
}

/// What a request id did.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct RequestRecord {
    /// `Ok` if it was applied.
    pub status: Status,
    /// The operation.
    pub op: String,
    /// Units; `None` of an order of several activities.
    pub quantity: Option<i64>,
    /// Whose order it is.
    pub user: StoredUser,
}

impl RequestRecord {
    /// Reads a record; `None` if its status is not known.
    pub(crate) fn read(record: &[u8]) -> Option<Self> {
        let split = |bytes: &'_ [u8]| {
            let at = bytes.iter().position(|byte| *byte == b'\t')?;
            Some((std::str::from_utf8(&bytes[..at]).ok()?.to_owned(), bytes[at + 1..].to_vec()))
        };
        let (status, digest) = match split(record) {
            Some((code, digest)) if code.starts_with('-') => (Status::of_code(code.parse().ok()?)?, digest),
            _ => (Status::Ok, record.to_vec()),
        };
        // A purchase of one unit is the user alone.
        let Some((order, user)) = split(&digest) else {
            let (op, user) = ("deduct".to_owned(), StoredUser::new(digest));
            return Some(Self { status, op, quantity: Some(1), user });
        };
        let (op, quantity) = order.split_once(' ').unwrap_or(("deduct", &order));
        // Of several activities, the rest is a digest.
        let quantity = quantity.parse().ok().filter(|_| op != "multi_deduct");
        Some(Self { status, op: op.to_owned(), quantity, user: StoredUser::new(user) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::evidence::mismatch::Holding;
    use crate::audit::ledger_state::order_sums::OrderRows;
    use crate::audit::ledger_state::{Compared, NewerMoves};
    use crate::model::layout::Kind;
    use crate::model::ledger::EntryId;

    /// Purchases, newer ones, and refunded units.
    type OfUser<'a> = (&'a [(&'a str, Option<i64>)], &'a [(&'a str, i64)], i64);

    /// Rows of user 7 by units and request; purchases, newer ones, and refunded units; units held, and what they should be. What is
    /// reversed, or `-`.
    fn reversed(
        rows: Option<&[(i64, &str)]>,
        (purchases, newer, refunded): OfUser<'_>,
        (units, to): (u64, i64),
    ) -> String {
        let mut compared = rows.map(|_| Compared::unread(None, EntryId::ZERO, true));
        if let (Some(compared), Some(rows)) = (&mut compared, rows) {
            let mut found = OrderRows::default();
            for (quantity, request) in rows {
                found.push("7", *quantity, None);
                if !request.is_empty() {
                    found.name_request(request);
                }
            }
            compared.orders.add(&found, &mut compared.users);
        }
        let mut ledger = LedgerState::new(Kind::Hash, compared);
        let user = ledger.user(b"7");
        let mismatch = Mismatch {
            user,
            holds: Holding::Units(units),
            ledger: Some(to),
            orders: ledger.ordered(user),
            newer: NewerMoves::default(),
            open: 0,
        };
        // A `?` in front: the ledger has no entry of it.
        let named = |is_newer| {
            move |(request, units): (&str, Option<i64>)| {
                let (request, has_entry) =
                    request.strip_prefix('?').map_or((request, true), |request| (request, false));
                Purchase { request: request.to_owned(), units, has_entry, is_newer }
            }
        };
        let of_user = UserPurchases {
            purchases: purchases
                .iter()
                .copied()
                .map(named(false))
                .chain(newer.iter().map(|(request, units)| (*request, Some(*units))).map(named(true)))
                .collect(),
            refunded,
        };
        let purchases = Purchases { by_user: HashMap::from([(user, of_user)]), is_unread: false };
        purchases.reversed(&mismatch, to, &ledger).map_or("-".to_owned(), |(_, ids)| ids.join(" "))
    }

    #[test]
    fn what_is_reversed_leaves_no_id_with_more_units_than_the_user_holds() {
        let two: OfUser<'_> = (&[("a", Some(3)), ("b", Some(2))], &[], 0);
        let newer: OfUser<'_> = (&[("a", Some(3))], &[("b", 2)], 0);
        let multi: OfUser<'_> = (&[("a", Some(3)), ("m", None)], &[], 0);
        for (rows, of_user, (units, to), wanted) in [
            // No units in the records: all of them, but what is newer.
            (Some(&[][..]), two, (5, 0), "a b"),
            (Some(&[(3, "a"), (-3, "")]), two, (5, 0), "a b"),
            (Some(&[(3, "a"), (-3, "")]), two, (2, 0), "b"),
            (Some(&[(3, "a"), (2, "m")]), multi, (6, 5), ""),
            (Some(&[]), newer, (5, 2), "a"),
            (Some(&[]), newer, (5, 0), "-"),
            (Some(&[]), multi, (4, 0), "a m"),
            // A part: those without a row, if each row names its request.
            (Some(&[(3, "a")]), two, (5, 3), "b"),
            (Some(&[(3, "a")]), multi, (4, 3), "m"),
            (Some(&[(1, "a")]), multi, (5, 1), "-"),
            (Some(&[(3, "")]), two, (5, 3), "-"),
            (Some(&[(1, "a"), (2, "")]), two, (5, 3), "-"),
            // Rows of other ids than ours.
            (Some(&[(1, "x")]), two, (5, 1), "-"),
            // Rows of all ids, with fewer units.
            (Some(&[(3, "a"), (1, "b")]), two, (5, 4), "-"),
            // Units that no id has.
            (Some(&[(5, "")]), two, (7, 5), ""),
            (Some(&[(4, "")]), (&[("a", Some(3)), ("b", Some(2))], &[], 1), (6, 4), ""),
            (Some(&[(3, "")]), multi, (5, 3), "-"),
            // By the ledger alone those that it does not have; without units none holds any.
            (None, two, (7, 5), ""),
            (None, (&[("a", Some(3)), ("?b", Some(2))], &[], 0), (5, 3), "b"),
            (None, two, (5, 0), "a b"),
            // All of it was refunded: its ids say what was done.
            (None, (&[("a", Some(3)), ("?b", Some(2))], &[], 3), (2, 0), "b"),
        ] {
            assert_eq!(reversed(rows, of_user, (units, to)), wanted, "{rows:?} {units} {to}");
        }
    }

    #[test]
    fn what_a_request_id_stores_is_read_back() {
        for (text, status, op, quantity, user) in [
            ("7", Status::Ok, "deduct", Some(1), "7"),
            ("-3 a", Status::Ok, "deduct", Some(1), "-3 a"),
            ("2\tann b", Status::Ok, "deduct", Some(2), "ann b"),
            ("refund 2\t7", Status::Ok, "refund", Some(2), "7"),
            ("-3\t7", Status::OutOfStock, "deduct", Some(1), "7"),
            ("-2\t4\t7", Status::LimitExceeded, "deduct", Some(4), "7"),
            ("-16\thold 2\t7", Status::Reversed, "hold", Some(2), "7"),
            ("multi_deduct 0f1e\t7", Status::Ok, "multi_deduct", None, "7"),
            ("multi_deduct 0123\t7", Status::Ok, "multi_deduct", None, "7"),
            ("-1\tmulti_deduct 0f1e\t7", Status::Refused, "multi_deduct", None, "7"),
        ] {
            let read = RequestRecord::read(text.as_bytes()).unwrap();
            let wanted = RequestRecord { status, op: op.to_owned(), quantity, user: StoredUser::new(user) };
            assert_eq!(read, wanted, "{text}");
        }
        assert_eq!(RequestRecord::read(b"-77\t7"), None);
    }
}
