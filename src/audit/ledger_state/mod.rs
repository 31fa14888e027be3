//! The state that a ledger leads to, entry by entry: what each user should hold, and how many units there should be.
//!
//! Memory grows with the users, not with the length of the ledger: about 40 bytes each. The order records stand
//! beside it, with how far the ledger is newer than they are.

pub(crate) mod column;
pub(crate) mod order_parts;
pub(crate) mod order_sums;
#[cfg(test)]
mod tests;
pub(crate) mod transfers;

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::mpsc::Receiver;

use crate::audit::ledger_state::column::Column;
use crate::audit::ledger_state::order_parts::OrderParts;
use crate::audit::ledger_state::order_sums::{OrderRows, OrderSums};
use crate::audit::ledger_state::transfers::{Direction, TransferEntry, Transfers};
use crate::model::id::interner::Interner;
use crate::model::layout::Kind;
use crate::model::ledger::checkpoint::Checkpoint;
use crate::model::ledger::{Entry, EntryId, Op};
use crate::model::number::signed;

/// What the ledger says up to one entry, beside what order records say of the same users.
#[derive(Default)]
pub(crate) struct LedgerState {
    kind: Kind,
    /// Everybody whom ledger, participants or order records name. Each has an index, by which all else is kept.
    pub users: Interner,
    /// Units by user; negative only if the ledger is damaged.
    units: Column<1>,
    /// How much of it is held open.
    open: Column<1>,
    /// Members of a set whose units were recorded nowhere when the activity was adopted. All of them together hold what
    /// the sum has beyond the units of the others.
    unknown: BTreeSet<u32>,
    /// Those of them whose units order records said.
    learned: BTreeSet<u32>,
    /// Users whose units were negative after some entry, because an earlier entry is missing: they may hold units though the ledger
    /// says none.
    overdrawn: BTreeSet<u32>,
    /// Whether a page of participants had the user.
    seen: Vec<bool>,
    /// The total of the last preheat or update.
    pub total: Option<u64>,
    /// What all users hold; if the layout records no users, what was sold.
    pub sum: i64,
    /// Units that a shard lent to others, or got of them. The total has them.
    pub transfers: Transfers,
    /// Orders of activities in several slots, if somebody compares them.
    pub order_parts: Option<OrderParts>,
    /// Whether the last pause was not followed by a resume.
    pub is_paused: bool,
    /// The last entry that is in here.
    pub end: EntryId,
    /// How many entries are in here.
    pub entries: u64,
    /// What its first entry or its checkpoint began: the epoch of a preheat; `None` if the beginning is lost.
    pub epoch: Option<u64>,
    /// The entry that must come next, behind a checkpoint.
    expected: Option<EntryId>,
    /// The first entry behind the checkpoint that it begins with.
    pub(crate) began_at: Option<EntryId>,
    /// Entries that cannot be read, and why.
    pub unreadable: Vec<(EntryId, String)>,
    /// The preheat that it begins with.
    preheated_at: Option<EntryId>,
    /// The order records, if there are any.
    orders: Option<OrderSums>,
    /// The first entry that the order records cannot know.
    pub(crate) newer_from: Option<EntryId>,
    /// Whether the caller named the activity.
    named: bool,
    /// Why what is newer cannot be distinguished from what differs: the checkpoint holds it, or the clock jumped back.
    pub(crate) orders_too_old: Option<String>,
    /// How far each user's units moved since then, as [`NewerMoves`] has it.
    newer: Column<7>,
}

impl LedgerState {
    /// Nothing was read yet.
    pub(crate) fn new(kind: Kind, compared: Option<Compared>) -> Self {
        let newer_from = compared.as_ref().map(|compared| compared.newer_from);
        let named = compared.as_ref().is_none_or(|compared| compared.named);
        let (users, orders) = compared.map(|compared| (compared.users, compared.orders)).unzip();
        Self { kind, users: users.unwrap_or_default(), orders, newer_from, named, ..Self::default() }
    }

    /// The same, which also remembers orders of activities in several slots.
    pub(crate) fn with_order_parts(self) -> Self {
        Self { order_parts: Some(OrderParts::default()), ..self }
    }

    /// Forgets the ledger and who was seen, not the order records.
    pub(crate) fn begin_again(&mut self) {
        let Self { kind, users, orders, newer_from, named, order_parts, .. } = std::mem::take(self);
        let order_parts = order_parts.map(|_| OrderParts::default());
        *self = Self { kind, users, orders, newer_from, named, order_parts, ..Self::default() };
    }

    /// Begins, instead of with a preheat, with what a checkpoint says, of which each user's units come by
    /// [`carry`](Self::carry).
    pub(crate) fn begin_at(&mut self, checkpoint: &Checkpoint) {
        self.begin_again();
        (self.total, self.end, self.entries) = (Some(checkpoint.total), checkpoint.upto, checkpoint.entries);
        (self.epoch, self.expected) = (Some(checkpoint.epoch), Some(checkpoint.from));
        self.began_at = Some(checkpoint.from);
        let older = self.newer_from.filter(|from| *from <= checkpoint.upto);
        self.orders_too_old = older.map(|_| {
            format!("begins behind {} (trimmed, or adopted), and the order records are older", checkpoint.upto.at())
        });
    }

    /// Takes over a user's units from a checkpoint, and how many of them are held open.
    pub(crate) fn carry(&mut self, user: &[u8], units: i64, open: i64) {
        let user = self.user(if self.kind.has_users() { user } else { b"" });
        self.move_held(user, units);
        self.set_open(user, open);
        self.sum = self.sum.saturating_add(units);
    }

    /// Takes over a user from a checkpoint whose units nobody recorded.
    pub(crate) fn carry_unknown(&mut self, user: &[u8]) {
        let user = self.user(user);
        self.unknown.insert(user);
    }

    /// Ends what a checkpoint says, with the units that all its users hold. False if it contradicts itself.
    pub(crate) fn carried(&mut self, sum: i64) -> bool {
        self.sum = sum;
        self.fits_unknown()
    }

    /// Whether what the sum has beyond the units of known users is at least one unit of each other one: a refund of one
    /// whose units nobody recorded may have given back more than all of them.
    pub(crate) fn fits_unknown(&self) -> bool {
        let of_unknown = self.sum.saturating_sub(self.known_units());
        usize::try_from(of_unknown)
            .is_ok_and(|units| units >= self.unknown.len() && (units == 0 || !self.unknown.is_empty()))
    }

    /// The units of all users whose units are recorded.
    pub(crate) fn known_units(&self) -> i64 {
        self.units.iter().fold(0, |sum, (_, [units])| sum.saturating_add(units))
    }

    /// Whether the ledger knows that a user holds something, and not how much.
    pub(crate) fn is_unknown(&self, user: u32) -> bool {
        self.unknown.contains(&user)
    }

    /// Whether nobody but the order records says what a user holds.
    pub(crate) fn is_learned(&self, user: u32) -> bool {
        self.learned.contains(&user)
    }

    /// Users who hold something by the ledger, and nobody knows how much.
    pub(crate) fn unknown(&self) -> impl Iterator<Item = &[u8]> {
        self.unknown.iter().map(|user| self.users.name(*user))
    }

    /// Whether this is the ledger of an epoch, without a gap from its preheat or its checkpoint on.
    pub(crate) fn is_whole(&self, epoch: u64) -> bool {
        self.epoch == Some(epoch) && self.expected.is_none()
    }

    /// Users who hold something by the ledger, how much, and how much of it is held open.
    pub(crate) fn held(&self) -> impl Iterator<Item = (&[u8], i64, i64)> {
        let held = self.units.iter().filter(|(_, [units])| *units != 0);
        held.map(|(user, [units])| (self.users.name(user), units, self.open(user)))
    }

    /// What the ledger says a user holds open.
    pub(crate) fn open(&self, user: u32) -> i64 {
        let [open] = self.open.get(user);
        open
    }

    /// What the ledger says all users hold open.
    pub(crate) fn open_units(&self) -> i64 {
        self.open.iter().fold(0, |sum, (_, [open])| sum.saturating_add(open))
    }

    /// Takes over what users hold open by the holds themselves; those who are not among them hold nothing. Counted at a later
    /// instant than the ledger ends at, it only adds: what was open then may be bought by now.
    pub(crate) fn count_open(&mut self, counted: &BTreeMap<&[u8], u64>, is_later: bool) {
        let open: Vec<u32> = self.open.iter().filter(|(_, [open])| *open > 0).map(|(user, _)| user).collect();
        for user in open.into_iter().filter(|_| !is_later) {
            self.set_open(user, 0);
        }
        for (name, counted) in counted {
            let user = self.user(name);
            self.set_open(user, self.open(user).max(signed(*counted)));
        }
    }

    /// Records what a user holds open, where no ledger says it.
    pub(crate) fn set_open(&mut self, user: u32, open: i64) {
        self.open.set(user, [open]);
    }

    /// The index of a user, who is now known.
    pub(crate) fn user(&mut self, name: &[u8]) -> u32 {
        self.users.number(name)
    }

    /// The indexes of all users so far.
    pub(crate) fn everybody(&self) -> impl Iterator<Item = u32> + use<> {
        (0u32..).take(self.users.count())
    }

    /// What the ledger says a user holds.
    pub(crate) fn units(&self, user: u32) -> i64 {
        let [units] = self.units.get(user);
        units
    }

    /// Records that a page of participants had a user; false if one had before.
    pub(crate) fn mark_seen(&mut self, user: u32) -> bool {
        let at = user as usize;
        if at >= self.seen.len() {
            self.seen.resize(at + 1, false);
        }
        !std::mem::replace(&mut self.seen[at], true)
    }

    /// Users who should hold something by ledger or order records, or may, and whom no page of participants had.
    pub(crate) fn unseen(&self) -> Vec<u32> {
        let is_unseen = |user: &u32| !self.seen.get(*user as usize).is_some_and(|seen| *seen);
        let expected = |user: &u32| {
            let is_held = self.units(*user) != 0 || self.is_unknown(*user) || self.overdrawn.contains(user);
            is_held || self.ordered(*user).is_some_and(|units| units != 0)
        };
        self.everybody().filter(|user| self.kind.has_users() && is_unseen(user) && expected(user)).collect()
    }

    /// Adds the next entry.
    pub(crate) fn add(&mut self, entry: &Entry) {
        let is_first = self.entries == 0;
        if self.expected.take().is_some_and(|expected| expected != entry.id) {
            // What came behind the checkpoint is gone.
            self.epoch = None;
        }
        self.entries += 1;
        self.end = entry.id;
        if let Err(why) = self.fold(entry, is_first) {
            self.unreadable.push((entry.id, why));
        }
    }

    fn fold(&mut self, entry: &Entry, is_first: bool) -> Result<(), String> {
        let op = entry.readable_op()?;
        if matches!(op, Op::Preheat | Op::Adopt | Op::Update | Op::Lend | Op::Borrow) {
            let total = Entry::count(entry.total.as_deref()).ok_or("no total")?;
            if let Some(direction) = Direction::of(op) {
                let (id, transfer) = TransferEntry::read(entry)?;
                if !self.transfers.add(direction, id, transfer) {
                    return Err("a transfer that came before, with other units".to_owned());
                }
            }
            self.total = Some(total);
            if op == Op::Preheat && is_first {
                self.epoch = Entry::count(entry.epoch.as_deref());
                self.preheated_at = Some(entry.id);
            }
            return Ok(());
        }
        if matches!(op, Op::Pause | Op::Resume) {
            self.is_paused = op == Op::Pause;
        }
        // Read whole before any of it counts.
        let rows = entry.order_units()?;
        let counts = entry.quantities(&rows)?;
        // A bare counter sells to nobody in particular: all of it is one user without a name.
        let has_users = self.kind.has_users();
        let users = self.users.numbers(rows.iter().map(|row| if has_users { row.user() } else { b"" }));
        if let (Some(parts), Some(user)) = (&mut self.order_parts, users.first()) {
            parts.add(op, entry, *user)?;
        }
        let moves_stock = entry.stock_change().is_some_and(|units| units != 0);
        let is_of_stock_alone =
            || rows.iter().all(|row| row.user().is_empty() || moves_stock && row.from() == row.to());
        let mut proven = None;
        if op == Op::Repair && !self.unknown.is_empty() && is_of_stock_alone() {
            let (total, stock) = (self.total.unwrap_or_default(), Entry::count(entry.stock.as_deref()));
            proven = Some(signed(total).saturating_sub(signed(stock.ok_or("a repair without the stock")?)));
        }
        for ((row, user), count) in rows.iter().zip(users).zip(counts) {
            match op {
                Op::Deduct => self.move_units(user, count, 0),
                Op::Refund => {
                    self.move_units(user, -count, 0);
                    self.add_newer(user, |newer| newer.returned += count);
                }
                Op::Hold => self.move_units(user, count, count),
                Op::Confirm => self.move_units(user, 0, -count),
                Op::Release | Op::Expire => self.move_units(user, -count, -count),
                // It was true at that instant, whatever the ledger said before. Sales of a bare counter continue
                // meanwhile, so there only the difference is known.
                Op::Repair => {
                    let to = row.to().ok_or("a repair without its end")?;
                    let from = if has_users { self.units(user) } else { count };
                    let change = to.saturating_sub(from);
                    self.change_held(user, change);
                    self.add_newer(user, |newer| {
                        newer.taken += change.min(0);
                        newer.given += change.max(0);
                    });
                }
                Op::Preheat | Op::Adopt | Op::Update | Op::Lend | Op::Borrow | Op::Pause | Op::Resume => (),
            }
        }
        if let Some(sum) = proven.filter(|_| !self.unknown.is_empty()) {
            // A proof of how many units are left is one of how many the others hold.
            self.sum = sum;
        }
        Ok(())
    }

    /// Moves what a user holds, and how much of it is held open.
    fn move_units(&mut self, user: u32, units: i64, open: i64) {
        let before = self.open(user);
        // Open units of before an adoption are in no entry.
        let after = before.saturating_add(open).max(0);
        if after != before {
            self.set_open(user, after);
        }
        self.change_held(user, units);
        self.add_newer(user, |newer| {
            // The last state counts too, as `newer` adds it.
            newer.low = newer.low.min(newer.net - before);
            newer.net += units;
            newer.high = newer.high.max(newer.net);
            newer.closed += before - after;
        });
    }

    /// Changes what a user holds, and with it the sum.
    fn change_held(&mut self, user: u32, units: i64) {
        self.sum = self.sum.saturating_add(units);
        if self.unknown.is_empty() || !self.unknown.remove(&user) {
            self.move_held(user, units);
        } else {
            // A refund of one whose units nobody knew was of all of them; one who buys had none any more.
            self.move_held(user, units.max(0));
            self.sum_up_known();
        }
    }

    /// Adds to what a user did since the order records were written, if this entry is newer.
    fn add_newer(&mut self, user: u32, add: impl FnOnce(&mut NewerMoves)) {
        if self.newer_from.is_some_and(|from| self.end >= from) {
            let mut newer = NewerMoves::of(self.newer.get(user));
            add(&mut newer);
            self.newer.set(user, newer.columns());
        }
    }

    /// If nobody's units are unknown any more, what the sum has beyond them is nobody's.
    fn sum_up_known(&mut self) {
        if self.unknown.is_empty() {
            self.sum = self.known_units();
        }
    }

    /// Takes over what order records say of users whose units nobody recorded: nothing, of those who are gone. Returns how many units
    /// more all users hold by it.
    pub(crate) fn learn_unknown(&mut self, gone: &HashSet<u32>) -> i64 {
        let before = self.sum;
        if self.unknown.is_empty() || !self.lists_users() {
            return 0;
        }
        for user in std::mem::take(&mut self.unknown) {
            match self.ordered(user).filter(|units| *units > 0) {
                Some(units) => {
                    self.move_held(user, units);
                    self.learned.insert(user);
                }
                None if gone.contains(&user) => (),
                None => _ = self.unknown.insert(user),
            }
        }
        self.sum_up_known();
        self.sum.saturating_sub(before)
    }

    fn move_held(&mut self, user: u32, units: i64) {
        let held = self.units(user).saturating_add(units);
        self.units.set(user, [held]);
        if held < 0 {
            self.overdrawn.insert(user);
        }
    }
}

/// How far a user's units moved since the order records were written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct NewerMoves {
    /// In total, without repairs.
    pub net: i64,
    /// The lowest they were in between, from where they began, without what was held open: records need not have that.
    pub low: i64,
    /// The highest.
    pub high: i64,
    /// Units of holds that ended meanwhile, less those of holds that began: with what is open now, what was open when the records were
    /// written. They may have that or not.
    pub closed: i64,
    /// Units that refunds returned: of orders that the records have, or of such as they lack.
    pub returned: i64,
    /// Units that repairs took, 0 or less: of what these records lack, or of what is newer. They may have been given back since.
    pub taken: i64,
    /// Units that repairs gave.
    pub given: i64,
}

impl NewerMoves {
    fn of([net, low, high, closed, returned, taken, given]: [i64; 7]) -> Self {
        Self { net, low, high, closed, returned, taken, given }
    }

    fn columns(self) -> [i64; 7] {
        [self.net, self.low, self.high, self.closed, self.returned, self.taken, self.given]
    }
}

/// Order records and how far the ledger may be newer than they are.
pub struct Compared {
    /// The users of the records that were read.
    pub users: Interner,
    /// The records that were read.
    pub orders: OrderSums,
    /// Those that are still being read, in another thread, which ends the channel at their end or at an error.
    pub unread: Option<Receiver<OrderRows>>,
    /// The first ledger entry that they cannot know.
    pub newer_from: EntryId,
    /// Whether the caller named the activity. Otherwise, if no row mentions it, its users are counted and not listed:
    /// the export may simply be of other activities.
    pub named: bool,
}

impl Compared {
    /// Records of which none was read yet.
    pub(crate) fn unread(unread: Option<Receiver<OrderRows>>, newer_from: EntryId, named: bool) -> Self {
        Self { users: Interner::default(), orders: OrderSums::default(), unread, newer_from, named }
    }
}

impl LedgerState {
    /// Adds order records.
    pub(crate) fn add_orders(&mut self, rows: &OrderRows) {
        if let Some(orders) = &mut self.orders {
            orders.add(rows, &mut self.users);
        }
    }

    /// Whether there are order records.
    pub(crate) fn has_orders(&self) -> bool {
        self.orders.is_some() && self.orders_too_old.is_none()
    }

    /// Whether order records were given, and no row of them mentions the activity.
    pub(crate) fn is_unrecorded(&self) -> bool {
        self.orders.as_ref().is_some_and(|orders| orders.rows == 0)
    }

    /// The preheat that began the sale, if it is later than the order records, and they mention it: their rows are of a sale before.
    pub(crate) fn preheat_behind_orders(&self) -> Option<EntryId> {
        self.preheated_at.filter(|at| self.newer_from.is_some_and(|from| from <= *at) && !self.is_unrecorded())
    }

    /// Whether users are recorded.
    pub(crate) fn has_users(&self) -> bool {
        self.kind.has_users()
    }

    /// Whether users are compared with the order records one by one.
    pub(crate) fn lists_users(&self) -> bool {
        self.has_orders() && (self.named || !self.is_unrecorded())
    }

    /// The newest ledger entry that an order record names.
    pub(crate) fn newest_named(&self) -> Option<EntryId> {
        self.orders.as_ref().and_then(|orders| orders.newest)
    }

    /// The order records that the users are compared with.
    pub(crate) fn records(&self) -> Option<&OrderSums> {
        self.orders.as_ref()
    }

    /// What the order records say a user bought; `None` if there are none.
    pub(crate) fn ordered(&self, user: u32) -> Option<i64> {
        self.orders.as_ref().filter(|_| self.orders_too_old.is_none()).map(|orders| orders.of(user))
    }

    /// How far a user's units moved since the order records were written.
    pub(crate) fn newer(&self, user: u32) -> NewerMoves {
        let newer = NewerMoves::of(self.newer.get(user));
        NewerMoves { low: newer.low.min(newer.net - self.open(user)), ..newer }
    }
}
