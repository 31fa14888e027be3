//! Transfers of units between the shards of an activity, as their ledgers have them: an entry `lend` of the donor, an entry `borrow` of
//! the home. Both have the same id.

use std::collections::BTreeMap;

use crate::audit::class::Class;
use crate::model::names::names;
use crate::model::number::{signed, whole};
use crate::model::{ActivityId, Entry, Millis, Op};

names! {
    /// Which of the two entries it is.
    #[derive(PartialOrd, Ord, Hash)]
    pub enum Direction {
        /// The home's: the units reached its stock.
        Borrow = "borrow",
        /// The donor's: the units left its stock.
        Lend = "lend",
    }
}

/// What a ledger says of one transfer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TransferEntry {
    /// Units that moved.
    pub units: u64,
    /// The number of the other shard.
    pub shard: u32,
    /// When, by the clock of this shard.
    pub at: Millis,
}

/// A transfer that has one side only, or a side only in part: it is stuck, unbacked or cut.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BrokenTransfer {
    /// Which of the three.
    pub class: Class,
    /// Names it.
    pub id: String,
    /// Who lent the units, or should have.
    pub donor: ActivityId,
    /// Who got them, or should get them.
    pub home: ActivityId,
    /// How many.
    pub units: u64,
    /// The epoch of both.
    pub epoch: u64,
}

/// A change of a shard's total that a cut left: what the field `<tab>moving` of its `requests` says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CutChange {
    /// Which side of a transfer it is; `None` for an update.
    pub direction: Option<Direction>,
    /// The id of the transfer, or the name of the plan.
    pub id: String,
    /// Units that move.
    pub units: u64,
    /// The number of the other shard.
    pub shard: u32,
}

/// One of the two entries of a transfer, and the id of both.
pub(crate) type TransferSide = (Direction, String);

/// All transfers of one ledger.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Transfers(BTreeMap<TransferSide, TransferEntry>);

impl Direction {
    /// That of an operation; `None` if it transfers nothing.
    pub(crate) fn of(op: Op) -> Option<Self> {
        match op {
            Op::Lend => Some(Self::Lend),
            Op::Borrow => Some(Self::Borrow),
            _ => None,
        }
    }

    /// That of the other entry of a transfer.
    pub(crate) fn other(self) -> Self {
        match self {
            Self::Lend => Self::Borrow,
            Self::Borrow => Self::Lend,
        }
    }
}

impl TransferEntry {
    /// The id and the rest of a ledger entry about a transfer.
    ///
    /// # Errors
    /// What it lacks.
    pub(crate) fn read(entry: &Entry) -> Result<(String, Self), String> {
        let text = |field: &Option<Vec<u8>>| String::from_utf8(field.clone()?).ok();
        let id = text(&entry.transfer).filter(|id| !id.is_empty()).ok_or("a transfer without an id")?;
        let shard = entry.other_shard().ok_or("a transfer without the number of a shard")?;
        let units = Entry::count(entry.units.as_deref()).ok_or("a transfer without units")?;
        Ok((id, Self { units, shard, at: entry.id.at() }))
    }
}

impl CutChange {
    /// Reads the field; `None` if no script writes this.
    pub(crate) fn read(text: &[u8]) -> Option<Self> {
        // Only the names of people may be other bytes.
        let text = String::from_utf8_lossy(text);
        let words: Vec<&str> = text.split('\t').collect();
        let [op, id, units, shard, ..] = words[..] else { return None };
        let (direction, units) = (Direction::named(op), whole(units)?);
        let shard = if direction.is_some() { u32::try_from(whole(shard)?).ok()? } else { 0 };
        Some(Self { direction, id: id.to_owned(), units, shard })
    }
}

impl Transfers {
    /// Adds a transfer. False if its id is known with other units or another shard: nothing is changed then.
    pub(crate) fn add(&mut self, direction: Direction, id: String, transfer: TransferEntry) -> bool {
        let known = self.0.entry((direction, id)).or_insert_with(|| transfer.clone());
        (known.units, known.shard) == (transfer.units, transfer.shard)
    }

    /// What it says of this side of a transfer.
    pub(crate) fn get(&self, side: &TransferSide) -> Option<&TransferEntry> {
        self.0.get(side)
    }

    /// Each of them.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&TransferSide, &TransferEntry)> {
        self.0.iter()
    }

    /// By how many units all of them raised this shard's total; below zero if it lent more than it borrowed.
    pub(crate) fn balance(&self) -> i64 {
        let raised = |((direction, _), transfer): (&TransferSide, &TransferEntry)| match direction {
            Direction::Borrow => signed(transfer.units),
            Direction::Lend => -signed(transfer.units),
        };
        self.iter().map(raised).sum()
    }

    /// Each of them as three texts, in a fixed order: direction, id, and `units shard ms`. A checkpoint keeps these.
    pub(crate) fn rows(&self) -> Vec<[String; 3]> {
        let row = |((direction, id), transfer): (&TransferSide, &TransferEntry)| {
            let TransferEntry { units, shard, at } = transfer;
            [direction.name().to_owned(), id.clone(), format!("{units} {shard} {}", at.get())]
        };
        self.iter().map(row).collect()
    }

    /// Adds what a row of a checkpoint says; false if it says nothing of a transfer, or what is known otherwise.
    pub(crate) fn carry(&mut self, [direction, id, rest]: [&str; 3]) -> bool {
        let words: Vec<Option<u64>> = rest.split(' ').map(whole).collect();
        let &[Some(units), Some(shard), Some(at)] = &words[..] else { return false };
        let (Some(direction), Ok(shard)) = (Direction::named(direction), u32::try_from(shard)) else { return false };
        !id.is_empty() && self.add(direction, id.to_owned(), TransferEntry { units, shard, at: Millis::new(at) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn transfer(units: u64, shard: u32) -> TransferEntry {
        TransferEntry { units, shard, at: Millis::new(5) }
    }

    #[test]
    fn an_entry_without_id_shard_or_units_is_no_transfer() {
        let mut entry = Entry::new("5-0".parse().unwrap());
        for field in [Some("ab"), None] {
            entry.transfer = field.map(Into::into);
            for shard in ["17", "017", "x", "4294967296"] {
                entry.shard = Some(shard.into());
                for units in ["40", ""] {
                    entry.units = Some(units.into());
                    let is_valid = (field, shard, units) == (Some("ab"), "17", "40");
                    let read = TransferEntry::read(&entry);
                    assert_eq!(read.ok(), is_valid.then(|| ("ab".to_owned(), transfer(40, 17))), "{shard} {units}");
                }
            }
        }
    }

    #[test]
    fn a_balance_is_what_came_less_what_went() {
        let mut transfers = Transfers::default();
        assert!(transfers.add(Direction::Lend, "a".to_owned(), transfer(40, 17)));
        assert!(transfers.add(Direction::Borrow, "b".to_owned(), transfer(7, 3)));
        // The same again changes nothing; other units under its id are nonsense.
        assert!(transfers.add(Direction::Lend, "a".to_owned(), transfer(40, 17)));
        assert!(!transfers.add(Direction::Lend, "a".to_owned(), transfer(41, 17)));
        assert!(!transfers.add(Direction::Lend, "a".to_owned(), transfer(40, 3)));
        assert_eq!(transfers.balance(), -33);
    }

    #[test]
    fn what_a_checkpoint_keeps_reads_as_it_is_written() {
        let mut transfers = Transfers::default();
        transfers.add(Direction::Lend, "b".to_owned(), transfer(40, 17));
        transfers.add(Direction::Lend, "a".to_owned(), transfer(1, 3));
        transfers.add(Direction::Borrow, "c".to_owned(), transfer(7, 3));
        let rows = transfers.rows();
        assert_eq!(rows[1], ["lend", "a", "1 3 5"]);
        let mut again = Transfers::default();
        assert!(rows.iter().all(|row| again.carry(row.each_ref().map(String::as_str))));
        assert_eq!(again, transfers);
        for wrong in [
            ["deduct", "x", "1 3 5"],
            ["lend", "", "1 3 5"],
            ["lend", "x", "1 3"],
            ["lend", "x", "1 -3 5"],
            ["lend", "x", "1 4294967296 5"],
            ["lend", "x", "1 3 5 7"],
            ["lend", "b", "41 17 5"],
        ] {
            assert!(!again.carry(wrong), "{wrong:?}");
        }
    }
}
