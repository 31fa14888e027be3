//! What is stored of a sale with holds, how a write changes it, and what must be true of it.

use std::hash::{Hash, Hasher};

use super::{Kind, Sale, numbers};

/// Most holds, and most users.
pub const MOST: usize = 3;

/// What `requests` has under a request id.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Record {
    #[default]
    Absent,
    /// Refusals that a retry was given.
    OverLimit,
    SoldOut,
    Held,
    Confirmed,
    Released,
    Expired,
    Void,
    /// Void without ever having been held: an `abort` came first.
    Tombstone,
}

impl Record {
    /// Whether the units belong to somebody.
    pub fn is_owed(self) -> bool {
        matches!(self, Self::Held | Self::Confirmed)
    }

    /// What it may become.
    fn may_become(self, next: Self) -> bool {
        use Record::{Absent, Confirmed, Expired, Held, OverLimit, Released, SoldOut, Tombstone, Void};
        match self {
            Absent => matches!(next, OverLimit | SoldOut | Held | Tombstone),
            Held => matches!(next, Confirmed | Released | Expired | Void),
            Expired => matches!(next, Confirmed | Void),
            OverLimit | SoldOut | Confirmed | Released | Void | Tombstone => false,
        }
    }
}

/// The operation of a ledger entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Entry {
    Hold,
    Confirm,
    /// Units of an expired hold, taken again.
    Deduct,
    Release,
    Expire,
}

/// A call that gives units back, as it is written down before it does anything: numbers are those afterwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Begun {
    pub entry: Entry,
    /// Whether the ledger has its entry.
    pub is_written: bool,
    /// What the stock was, once all but the stock is written.
    pub stock: Option<u8>,
    pub units: u8,
    pub had: [Option<u8>; MOST],
    pub open: [Option<u8>; MOST],
    pub records: [Option<Record>; MOST],
    pub holds: u8,
    pub ended: u8,
}

/// One command that a script runs.
#[derive(Clone, Debug)]
pub enum Write {
    Stock(i8),
    /// Units by user, those that are left.
    Units(Vec<(usize, u8)>),
    Join(u8),
    Leave(u8),
    DropUnits(u8),
    AddDeadlines(u8),
    RemoveDeadlines(u8),
    /// Records of holds, and what users have open, in one command.
    Records(Vec<(usize, Record)>, Vec<(usize, u8)>),
    ClearOpen(u8),
    Holds(u8),
    Ledger(Entry, u8),
    Begin(Begun),
    /// Records, as above, and that only the stock is left of what was begun.
    Returning(Vec<(usize, Record)>, Vec<(usize, u8)>),
    End,
}

/// How far the client is that wants a hold. Only the reply to the message that was sent last is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Client {
    #[default]
    Idle,
    /// It read the reply to its first message, and sends nothing more.
    Answered,
    /// The reply was lost: it sends retries.
    Retries,
    /// The message itself is late: it sends retries, and the first message may still arrive.
    RetriesFirst,
}

/// What somebody heard of a hold.
pub const REFUSED: u8 = 1;
pub const CONFIRMED: u8 = 2;
/// That the payment is to be refunded.
pub const EXPIRED: u8 = 4;
pub const RELEASED: u8 = 8;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct State {
    pub stock: u8,
    /// By user. Of the kind set those of who is no member count for nothing.
    pub units: [u8; MOST],
    pub members: u8,
    /// Holds with a deadline, and those of them that are overdue.
    pub deadlines: u8,
    pub overdue: u8,
    pub records: [Record; MOST],
    pub open: [u8; MOST],
    pub holds: u8,
    /// Entries by hold, a bit for each operation. After a cut they are not followed.
    pub ledger: [u8; MOST],
    /// What a call began that was cut.
    pub begun: Option<Begun>,
    /// Of the hold that is followed: its client, and what anybody heard of it.
    pub client: Client,
    pub heard: u8,
    pub cuts: u8,
}

impl Hash for State {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        let Self { units: u, records: r, open: o, ledger: l, .. } = self;
        hasher.write(&[self.stock, u[0], u[1], u[2], self.members, self.deadlines, self.overdue]);
        hasher.write(&[r[0] as u8, r[1] as u8, r[2] as u8, o[0], o[1], o[2], self.holds]);
        hasher.write(&[l[0], l[1], l[2], self.client as u8, self.heard, self.cuts]);
        if let Some(begun) = &self.begun {
            begun.hash(hasher);
        }
    }
}

impl State {
    pub fn new(sale: &Sale) -> Self {
        Self { stock: sale.total, ..Self::default() }
    }

    /// Units that a user holds, as a script reads them.
    pub fn had(&self, kind: Kind, user: usize) -> u8 {
        match kind {
            Kind::Hash => self.units[user],
            Kind::Set if self.members & (1 << user) != 0 => self.units[user],
            Kind::Set => 0,
            Kind::Coupon => self.members >> user & 1,
        }
    }

    /// Does one write. An error is a rule that this broke.
    pub fn write(&mut self, write: &Write) -> Result<(), String> {
        match write {
            Write::Stock(change) => {
                self.stock = self.stock.checked_add_signed(*change).ok_or("the stock fell below zero")?;
            }
            Write::Units(list) => list.iter().for_each(|(user, units)| self.units[*user] = *units),
            Write::Join(users) => self.members |= users,
            Write::Leave(users) => self.members &= !users,
            Write::DropUnits(users) => numbers(*users).for_each(|user| self.units[user] = 0),
            Write::AddDeadlines(holds) => {
                self.deadlines |= holds;
                self.overdue &= !holds;
            }
            Write::RemoveDeadlines(holds) => {
                self.deadlines &= !holds;
                self.overdue &= !holds;
            }
            Write::Records(records, open) | Write::Returning(records, open) => {
                for (hold, record) in records {
                    let was = std::mem::replace(&mut self.records[*hold], *record);
                    if !was.may_become(*record) {
                        return Err(format!("hold {hold} was {was:?} and became {record:?}"));
                    }
                }
                open.iter().for_each(|(user, units)| self.open[*user] = *units);
                if let (Some(begun), Write::Returning(..)) = (&mut self.begun, write) {
                    begun.stock = Some(self.stock);
                }
            }
            Write::ClearOpen(users) => numbers(*users).for_each(|user| self.open[user] = 0),
            Write::Holds(units) => self.holds = *units,
            Write::Begin(begun) => self.begun = Some(*begun),
            Write::End => self.begun = None,
            Write::Ledger(op, holds) => {
                self.begun.iter_mut().for_each(|begun| begun.is_written = true);
                for hold in numbers(if self.cuts == 0 { *holds } else { 0 }) {
                    if self.ledger[hold] & op.bit() != 0 {
                        return Err(format!("the ledger has {op:?} of hold {hold} twice"));
                    }
                    self.ledger[hold] |= op.bit();
                }
            }
        }
        Ok(())
    }

    /// What is always true, after a cut too: what was promised is kept, and no unit is sold twice.
    pub fn check(&self, sale: &Sale, of: usize) -> Result<(), String> {
        let owed: u8 = (0..sale.holds.len()).map(|hold| self.owed(sale, hold)).sum();
        if self.stock + owed > sale.total {
            return Err(format!("{} for sale and {owed} taken of {}", self.stock, sale.total));
        }
        let (heard, record) = (self.heard, self.records[of]);
        let is_kept = match heard {
            CONFIRMED => record == Record::Confirmed,
            0 => true,
            // Whatever was heard beside, the units must be nobody's.
            _ => heard & CONFIRMED == 0 && !record.is_owed(),
        };
        if !is_kept {
            return Err(format!("hold {of} is {record:?}, and somebody heard otherwise ({heard:04b})"));
        }
        if self.begun.is_some() {
            return Ok(());
        }
        let (units, open) = self.held(sale);
        let is_exact = self.holds == units && self.open == open;
        let is_enough = self.holds >= units && (0..MOST).all(|user| self.open[user] >= open[user]);
        let is_stale = numbers(self.deadlines).any(|hold| self.records[hold] != Record::Held);
        if !is_enough || !is_stale && !is_exact {
            return Err("open units are counted wrong, and nothing that has a deadline shows it".to_owned());
        }
        if self.cuts == 0 { self.check_whole(sale) } else { Ok(()) }
    }

    /// Units that are held, of all users and of each, by the records of what has a deadline.
    pub fn held(&self, sale: &Sale) -> (u8, [u8; MOST]) {
        let mut open = [0; MOST];
        for hold in numbers(self.deadlines).filter(|hold| self.records[*hold] == Record::Held) {
            open[sale.user(hold)] += sale.quantity(hold);
        }
        (open.iter().sum(), open)
    }

    /// What was held, and is not.
    pub fn ended(&self) -> u8 {
        use Record::{Confirmed, Expired, Released, Void};
        let is_ended = |hold: &usize| matches!(self.records[*hold], Confirmed | Released | Expired | Void);
        (0..MOST).filter(is_ended).fold(0, |ended, hold| ended | 1 << hold)
    }

    /// What is true as long as no script was cut: all numbers are those that the records come to.
    fn check_whole(&self, sale: &Sale) -> Result<(), String> {
        let (mut units, mut open, mut folded, mut held) = ([0; MOST], [0; MOST], [0; MOST], 0);
        for hold in 0..sale.holds.len() {
            let (user, quantity) = (sale.user(hold), sale.quantity(hold));
            units[user] += self.owed(sale, hold);
            if self.records[hold] == Record::Held {
                open[user] += quantity;
                held |= 1 << hold;
            }
            let count = |op: Entry| u8::from(self.ledger[hold] & op.bit() != 0);
            let (taken, back) =
                (count(Entry::Hold) + count(Entry::Deduct), count(Entry::Release) + count(Entry::Expire));
            folded[user] += quantity * taken.checked_sub(back).ok_or("the ledger returns what nobody had")?;
        }
        let had: [u8; MOST] = std::array::from_fn(|user| self.had(sale.kind, user));
        let sum = |of: [u8; MOST]| of.iter().sum::<u8>();
        for (what, is_so) in [
            ("total = stock + units of users", sale.total == self.stock + sum(had)),
            ("users have what their holds say", had == units),
            ("the ledger comes to what users have", folded == units),
            ("the open units of users are those of their holds", self.open == open),
            ("the sum of what is open", self.holds == sum(open)),
            ("what is held has a deadline, and nothing else", self.deadlines == held),
            ("nobody has more than the limit", had.iter().all(|units| *units <= sale.limit)),
        ] {
            if !is_so {
                return Err(format!("not so: {what}"));
            }
        }
        Ok(())
    }

    fn owed(&self, sale: &Sale, hold: usize) -> u8 {
        if self.records[hold].is_owed() { sale.quantity(hold) } else { 0 }
    }
}

impl Entry {
    pub fn bit(self) -> u8 {
        1 << self as u8
    }
}
