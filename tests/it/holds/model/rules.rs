//! What `hold` and `settle` decide, and the commands that they run then, in their order.

use super::state::{Begun, Entry, MOST, Record, State, Write};
use super::{Flaw, Kind, Sale, numbers};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    Ok,
    /// Units of an expired hold were taken again: ok, with a letter of its own.
    OkAgain,
    Replayed,
    LimitExceeded,
    OutOfStock,
    RequestConflict,
    Corrupt,
    NotHeld,
    Expired,
    Confirmed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    Confirm,
    Release,
    Abort,
}

/// A call of a script, with the holds that it names.
#[derive(Clone, Copy, Debug)]
pub enum Call {
    Hold { is_retry: bool, holds: u8 },
    Settle { step: Step, holds: u8 },
    Expire { most: usize },
}

/// What a call comes to.
#[derive(Clone, Debug, Default)]
pub struct Decided {
    /// One for each hold of the call, in their order; of `expire` none.
    pub statuses: Vec<Status>,
    pub writes: Vec<Write>,
    /// Holds that `expire` returned, and those that it left for later.
    pub expired: u8,
    pub left: u8,
    pub more: bool,
}

pub fn decide(sale: &Sale, state: &State, call: Call, flaw: Flaw) -> Decided {
    let mut writes = finish_begun(sale, state, flaw);
    let state = &finished(sale, state, flaw);
    let mut decided = match call {
        Call::Hold { is_retry, holds } => hold(sale, state, is_retry, holds, flaw),
        Call::Settle { step, holds } => settle(sale, state, step, holds, flaw),
        Call::Expire { most } => expire(sale, state, most, flaw),
    };
    writes.append(&mut decided.writes);
    Decided { writes, ..decided }
}

/// The state once a call that was cut is finished.
pub fn finished(sale: &Sale, state: &State, flaw: Flaw) -> State {
    let mut whole = *state;
    finish_begun(sale, state, flaw).iter().for_each(|write| whole.write(write).unwrap_or_default());
    whole
}

/// What finishes a call that gives units back and was cut.
fn finish_begun(sale: &Sale, state: &State, flaw: Flaw) -> Vec<Write> {
    match state.begun {
        None => Vec::new(),
        Some(_) if flaw == Flaw::BegunIsForgotten => vec![Write::End],
        Some(Begun { stock: None, .. }) => carry_out(sale.kind, &state.begun.unwrap()),
        // Somebody else is recorded, so that nothing says whether the units came.
        Some(_) => vec![Write::End],
    }
}

/// What gives units back once it is written down: the stock comes last.
fn carry_out(kind: Kind, begun: &Begun) -> Vec<Write> {
    let mut writes = Vec::new();
    if !begun.is_written {
        writes.push(Write::Ledger(begun.entry, begun.ended));
    }
    let moves = Moves { had: begun.had, open: begun.open, ..Moves::default() };
    moves.write_units(kind, &mut writes);
    // Whoever holds something still was a member before.
    writes.retain(|write| !matches!(write, Write::Join(_)));
    let (stay, cleared) = moves.parted_open();
    if cleared > 0 {
        writes.push(Write::ClearOpen(cleared));
    }
    writes.push(Write::Holds(begun.holds));
    writes.push(Write::RemoveDeadlines(begun.ended));
    let records = begun.records.iter().enumerate().filter_map(|(hold, record)| Some((hold, (*record)?)));
    writes.push(Write::Returning(records.collect(), stay));
    writes.push(Write::Stock(i8::try_from(begun.units).unwrap()));
    writes.push(Write::End);
    writes
}

/// What moves with some holds.
#[derive(Default)]
struct Moves {
    holds: u8,
    units: u8,
    records: Vec<(usize, Record)>,
    /// What users have, and have open, afterwards.
    had: [Option<u8>; MOST],
    open: [Option<u8>; MOST],
}

impl Moves {
    fn add(&mut self, hold: usize, units: u8, record: Record) {
        self.holds |= 1 << hold;
        self.units += units;
        self.records.push((hold, record));
    }

    /// Units by user, who leaves nothing is no participant.
    fn write_units(&self, kind: Kind, writes: &mut Vec<Write>) {
        let of = |is: fn(u8) -> bool| (0..MOST).filter(move |user| self.had[*user].is_some_and(is));
        let mask = |users: &mut dyn Iterator<Item = usize>| users.fold(0, |mask, user| mask | 1 << user);
        let (stay, leave) = (mask(&mut of(|units| units > 0)), mask(&mut of(|units| units == 0)));
        if kind != Kind::Coupon && stay > 0 {
            writes.push(Write::Units(numbers(stay).map(|user| (user, self.had[user].unwrap())).collect()));
        }
        if kind != Kind::Hash && stay > 0 {
            writes.push(Write::Join(stay));
        }
        if kind != Kind::Hash && leave > 0 {
            writes.push(Write::Leave(leave));
        }
        if kind != Kind::Coupon && leave > 0 {
            writes.push(Write::DropUnits(leave));
        }
    }

    /// Open units of users, and users who have none.
    fn parted_open(&self) -> (Vec<(usize, u8)>, u8) {
        let open = |is: fn(u8) -> bool| {
            let all = self.open.iter().enumerate();
            all.filter_map(move |(user, units)| units.filter(|units| is(*units)).map(|units| (user, units)))
        };
        let cleared = open(|units| units == 0).fold(0, |mask, (user, _)| mask | 1 << user);
        (open(|units| units > 0).collect(), cleared)
    }

    /// Records, with those that move no units, and open units of users.
    fn write_records(&self, mut others: Vec<(usize, Record)>, writes: &mut Vec<Write>) {
        others.extend(&self.records);
        let (stay, cleared) = self.parted_open();
        if !others.is_empty() {
            writes.push(Write::Records(others, stay));
        }
        if cleared > 0 {
            writes.push(Write::ClearOpen(cleared));
        }
    }

    /// Returns what was open: what it does is written down first.
    fn give_back(
        &self,
        state: &State,
        kind: Kind,
        entry: Entry,
        others: Vec<(usize, Record)>,
        flaw: Flaw,
    ) -> Vec<Write> {
        let mut records = [None; MOST];
        others.iter().chain(&self.records).for_each(|(hold, record)| records[*hold] = Some(*record));
        let begun = Begun {
            entry,
            is_written: false,
            stock: None,
            units: self.units,
            had: self.had,
            open: self.open,
            records,
            holds: state.holds.saturating_sub(self.units),
            ended: self.holds,
        };
        let mut writes = vec![Write::Begin(begun)];
        writes.extend(carry_out(kind, &begun));
        if flaw == Flaw::StockReturnsFirst {
            let at = writes.iter().position(|write| matches!(write, Write::Stock(_))).unwrap();
            let stock = writes.remove(at);
            writes.insert(0, stock);
        }
        writes
    }
}

/// Units that a user has open; nobody is looked up if nothing is.
fn open_of(state: &State, user: usize) -> u8 {
    if state.holds == 0 { 0 } else { state.open[user] }
}

fn hold(sale: &Sale, state: &State, is_retry: bool, holds: u8, flaw: Flaw) -> Decided {
    let mut state = *state;
    let (mut writes, mut taken) = (Vec::new(), Taken::default());
    for attempt in 0..2 {
        taken = take(sale, &state, holds);
        // Short of something: what is overdue returns first.
        if attempt == 0 && taken.is_short && state.holds > 0 && state.overdue > 0 {
            writes = expire(sale, &state, 16, flaw).writes;
            // Only the step `expire` postpones.
            writes.retain(|write| !matches!(write, Write::AddDeadlines(_)));
            writes.iter().for_each(|write| state.write(write).unwrap_or_default());
        } else {
            break;
        }
    }
    let Taken { statuses, moves, refused, .. } = taken;
    let kept = if is_retry && flaw != Flaw::RefusedRetryIsForgotten { refused } else { Vec::new() };
    let mut own = Vec::new();
    if moves.holds > 0 {
        own.push(Write::AddDeadlines(moves.holds));
        own.push(Write::Stock(-i8::try_from(moves.units).unwrap()));
        moves.write_units(sale.kind, &mut own);
        // A deadline that is there is of a call that was cut.
        let holds = if state.deadlines & moves.holds > 0 { state.held(sale).0 } else { state.holds };
        own.push(Write::Holds(holds + moves.units));
        moves.write_records(kept, &mut own);
        own.push(Write::Ledger(Entry::Hold, moves.holds));
        if flaw == Flaw::RecordedFirst {
            let nth = own.iter().position(|write| matches!(write, Write::Records(..))).unwrap();
            let record = own.remove(nth);
            own.insert(0, record);
        }
    } else if !kept.is_empty() {
        own.push(Write::Records(kept, Vec::new()));
    }
    writes.extend(own);
    Decided { statuses, writes, ..Decided::default() }
}

/// What some new holds come to, one after the other.
#[derive(Default)]
struct Taken {
    statuses: Vec<Status>,
    moves: Moves,
    refused: Vec<(usize, Record)>,
    is_short: bool,
}

fn take(sale: &Sale, state: &State, holds: u8) -> Taken {
    let mut taken = Taken::default();
    let mut left = state.stock;
    for hold in numbers(holds) {
        let (user, quantity) = (sale.user(hold), sale.quantity(hold));
        let had = taken.moves.had[user].unwrap_or_else(|| state.had(sale.kind, user));
        let is_over = match sale.kind {
            Kind::Hash => had + quantity > sale.limit,
            Kind::Set => had > 0,
            Kind::Coupon => had > 0 || quantity > 1,
        };
        let status = match state.records[hold] {
            Record::Held | Record::Confirmed => Status::Replayed,
            Record::Released => Status::NotHeld,
            Record::Expired | Record::Void | Record::Tombstone => Status::Expired,
            Record::OverLimit => Status::LimitExceeded,
            Record::SoldOut => Status::OutOfStock,
            Record::Absent if is_over || quantity > left => {
                taken.is_short = true;
                taken.refused.push((hold, if is_over { Record::OverLimit } else { Record::SoldOut }));
                if is_over { Status::LimitExceeded } else { Status::OutOfStock }
            }
            Record::Absent => {
                left -= quantity;
                taken.moves.had[user] = Some(had + quantity);
                let open = taken.moves.open[user].unwrap_or_else(|| open_of(state, user));
                taken.moves.open[user] = Some(open + quantity);
                taken.moves.add(hold, quantity, Record::Held);
                Status::Ok
            }
        };
        taken.statuses.push(status);
    }
    taken
}

/// What finishes calls that were cut: holds that have a deadline and are not held.
fn finish(sale: &Sale, state: &State, stale: u8) -> Vec<Write> {
    let users = numbers(stale & state.ended()).fold(0, |users, hold| users | 1 << sale.user(hold));
    let (units, open) = state.held(sale);
    let stays: Vec<_> = numbers(users).filter(|user| open[*user] > 0).map(|user| (user, open[user])).collect();
    let cleared = numbers(users).filter(|user| open[*user] == 0).fold(0, |users, user| users | 1 << user);
    let is_confirmed = |hold: &usize| state.records[*hold] == Record::Confirmed;
    let confirmed = numbers(stale).filter(is_confirmed).fold(0, |all, hold| all | 1 << hold);
    let mut writes = Vec::new();
    if !stays.is_empty() {
        writes.push(Write::Records(Vec::new(), stays));
    }
    if cleared > 0 {
        writes.push(Write::ClearOpen(cleared));
    }
    writes.push(Write::Holds(units));
    writes.push(Write::RemoveDeadlines(stale));
    if confirmed > 0 {
        writes.push(Write::Ledger(Entry::Confirm, confirmed));
    }
    writes
}

fn settle(sale: &Sale, state: &State, step: Step, holds: u8, flaw: Flaw) -> Decided {
    let tombstones = numbers(holds).filter(|hold| state.records[*hold] == Record::Tombstone);
    let stale = holds & state.deadlines & tombstones.fold(state.ended(), |all, hold| all | 1 << hold);
    if stale == 0 {
        return settle_whole(sale, state, step, holds, flaw);
    }
    let (mut whole, mut writes) = (*state, finish(sale, state, stale));
    writes.iter().for_each(|write| whole.write(write).unwrap_or_default());
    let mut decided = settle_whole(sale, &whole, step, holds, flaw);
    writes.append(&mut decided.writes);
    Decided { writes, ..decided }
}

fn settle_whole(sale: &Sale, state: &State, step: Step, holds: u8, flaw: Flaw) -> Decided {
    let (mut closed, mut again, mut voided) = (Moves::default(), Moves::default(), Vec::new());
    let (mut statuses, mut left) = (Vec::new(), state.stock);
    let mut had: [u8; MOST] = std::array::from_fn(|user| state.had(sale.kind, user));
    for hold in numbers(holds) {
        let (user, quantity) = (sale.user(hold), sale.quantity(hold));
        let record = state.records[hold];
        let status = match (step, record) {
            (Step::Abort, Record::Absent) => {
                if flaw != Flaw::NoTombstone {
                    voided.push((hold, Record::Tombstone));
                }
                Status::Ok
            }
            (Step::Abort, Record::OverLimit | Record::SoldOut) => Status::RequestConflict,
            (_, Record::Absent | Record::OverLimit | Record::SoldOut) => Status::NotHeld,
            (_, Record::Held) => {
                let open = closed.open[user].unwrap_or_else(|| open_of(state, user));
                let is_counted = state.holds - closed.units >= quantity && open >= quantity;
                let returns = step != Step::Confirm;
                let is_covered = had[user] >= if returns { quantity } else { open };
                if !is_counted || !is_covered || returns && left + quantity > sale.total {
                    Status::Corrupt
                } else {
                    if returns {
                        had[user] -= quantity;
                        left += quantity;
                        closed.had[user] = Some(had[user]);
                    }
                    closed.open[user] = Some(open - quantity);
                    let end = match step {
                        Step::Confirm => Record::Confirmed,
                        Step::Release => Record::Released,
                        Step::Abort => Record::Void,
                    };
                    closed.add(hold, quantity, end);
                    Status::Ok
                }
            }
            (Step::Confirm, Record::Confirmed) if flaw == Flaw::ConfirmIsDecidedTwice => {
                again.had[user] = Some(had[user]);
                again.add(hold, 0, Record::Confirmed);
                Status::Ok
            }
            (Step::Confirm, Record::Confirmed) => Status::Replayed,
            (Step::Confirm, Record::Released) => Status::NotHeld,
            (Step::Confirm, Record::Expired) => {
                let is_free = if sale.kind == Kind::Hash { had[user] + quantity <= sale.limit } else { had[user] == 0 };
                if quantity <= left && is_free {
                    left -= quantity;
                    had[user] += quantity;
                    again.had[user] = Some(had[user]);
                    again.add(hold, quantity, Record::Confirmed);
                    Status::OkAgain
                } else {
                    if flaw != Flaw::RefusedPaymentIsForgotten {
                        voided.push((hold, Record::Void));
                    }
                    Status::Expired
                }
            }
            (Step::Confirm, Record::Void | Record::Tombstone) => Status::Expired,
            (_, Record::Confirmed) => Status::Confirmed,
            (_, Record::Released) => Status::Replayed,
            (_, Record::Expired) => {
                voided.push((hold, Record::Void));
                if step == Step::Abort { Status::Ok } else { Status::Expired }
            }
            (_, Record::Void | Record::Tombstone) if step == Step::Abort => Status::Replayed,
            (_, Record::Void | Record::Tombstone) => Status::Expired,
        };
        statuses.push(status);
    }
    let writes = if step == Step::Confirm {
        confirm(sale, state, &closed, &again, voided)
    } else if closed.holds > 0 {
        closed.give_back(state, sale.kind, Entry::Release, voided, flaw)
    } else if voided.is_empty() {
        Vec::new()
    } else {
        vec![Write::Records(voided, Vec::new())]
    };
    Decided { statuses, writes, ..Decided::default() }
}

/// What a confirm writes: units that are taken again first.
fn confirm(sale: &Sale, state: &State, closed: &Moves, again: &Moves, voided: Vec<(usize, Record)>) -> Vec<Write> {
    let (mut writes, mut others) = (Vec::new(), voided);
    if again.holds > 0 {
        writes.push(Write::Stock(-i8::try_from(again.units).unwrap()));
        again.write_units(sale.kind, &mut writes);
        others.extend(&again.records);
    }
    closed.write_records(others, &mut writes);
    if closed.holds > 0 {
        writes.push(Write::Holds(state.holds - closed.units));
        writes.push(Write::RemoveDeadlines(closed.holds));
        writes.push(Write::Ledger(Entry::Confirm, closed.holds));
    }
    if again.holds > 0 {
        writes.push(Write::Ledger(Entry::Deduct, again.holds));
    }
    writes
}

fn expire(sale: &Sale, state: &State, most: usize, flaw: Flaw) -> Decided {
    let is_gone = |hold: &usize| state.records[*hold] != Record::Held && flaw != Flaw::ExpireTrustsDeadlines;
    let gone = numbers(state.overdue).take(most).filter(is_gone).fold(0, |gone, hold| gone | 1 << hold);
    if gone == 0 {
        return expire_held(sale, state, most, flaw);
    }
    let (mut whole, mut writes) = (*state, finish(sale, state, gone));
    if flaw == Flaw::CutIsForgotten {
        writes.retain(|write| matches!(write, Write::RemoveDeadlines(_)));
    }
    writes.iter().for_each(|write| whole.write(write).unwrap_or_default());
    // Another one may be stale behind those: it is left to the next call.
    let mut decided = expire_held(sale, &whole, most, flaw);
    writes.append(&mut decided.writes);
    Decided { writes, ..decided }
}

fn expire_held(sale: &Sale, state: &State, most: usize, flaw: Flaw) -> Decided {
    let (mut moves, mut left) = (Moves::default(), 0);
    let found: Vec<usize> = numbers(state.overdue).take(most).collect();
    for hold in &found {
        let (user, quantity, bit) = (sale.user(*hold), sale.quantity(*hold), 1 << hold);
        if state.records[*hold] != Record::Held && flaw != Flaw::ExpireTrustsDeadlines {
            continue;
        }
        let had = moves.had[user].unwrap_or_else(|| state.had(sale.kind, user));
        let open = moves.open[user].unwrap_or_else(|| open_of(state, user));
        let is_counted = had >= quantity
            && open >= quantity
            && moves.units + quantity <= state.holds
            && state.stock + moves.units + quantity <= sale.total;
        if is_counted || flaw == Flaw::ExpireTrustsDeadlines {
            moves.had[user] = Some(had.saturating_sub(quantity));
            moves.open[user] = Some(open.saturating_sub(quantity));
            moves.add(*hold, quantity, Record::Expired);
        } else {
            left |= bit;
        }
    }
    let mut writes = Vec::new();
    if left > 0 {
        // Later, so that they do not hold up others.
        writes.push(Write::AddDeadlines(left));
    }
    if moves.holds > 0 {
        writes.extend(moves.give_back(state, sale.kind, Entry::Expire, Vec::new(), flaw));
    }
    Decided { writes, expired: moves.holds, left, more: found.len() == most, statuses: Vec::new() }
}
