//! The ledgers of all shards of an activity as if they were one: each entry with the stock and the total of the whole.
//!
//! Transfers move units between shards, and nothing of the whole: what is in transit counts as stock here.

use crate::model::number::signed;
use crate::model::{Entry, Op};

/// What the shards have, by their entries so far.
#[derive(Debug)]
pub(crate) struct MergedLedgers {
    shards: Vec<Shard>,
    /// Units that were lent and not borrowed. Below zero while an entry of a borrow came before that of its lend, which another clock timed.
    pub(crate) in_transit: i64,
}

#[derive(Debug, Clone, Default)]
struct Shard {
    stock: i64,
    total: i64,
    is_paused: bool,
    withdrawn: i64,
}

impl MergedLedgers {
    /// Begins with the first entry of each shard, and gives the preheat of the whole; `None` if one of them is no preheat.
    pub(crate) fn new(first: &[Entry]) -> Option<(Self, Entry)> {
        let begin = |entry: &Entry| {
            let total = Entry::count(entry.total.as_deref()).filter(|_| entry.known_op() == Some(Op::Preheat))?;
            let stock = Entry::count(entry.stock.as_deref())?;
            Some(Shard { stock: signed(stock), total: signed(total), ..Shard::default() })
        };
        let shards = first.iter().map(begin).collect::<Option<_>>()?;
        let merged = Self { shards, in_transit: 0 };
        let preheat = first.iter().min_by_key(|entry| entry.id)?.clone();
        let preheat = merged.whole(preheat);
        Some((merged, preheat))
    }

    /// The next entry, of a shard, as one of the whole; `None` if it changes nothing there.
    pub(crate) fn next(&mut self, shard: usize, entry: &Entry) -> Option<Entry> {
        let count = |field: &Option<Vec<u8>>| Entry::count(field.as_deref()).map(signed);
        let part = &mut self.shards[shard];
        part.stock = count(&entry.stock).unwrap_or(part.stock);
        part.total = count(&entry.total).unwrap_or(part.total);
        match entry.known_op() {
            Some(Op::Lend) => {
                self.in_transit += count(&entry.units).unwrap_or(0);
                None
            }
            Some(Op::Borrow) => {
                self.in_transit -= count(&entry.units).unwrap_or(0);
                None
            }
            // All of them are paused, or none is any more.
            Some(op @ (Op::Pause | Op::Resume)) => {
                part.is_paused = op == Op::Pause;
                part.withdrawn = count(&entry.withdrawn).unwrap_or(0);
                let is_last = self.shards.iter().all(|shard| shard.is_paused == (op == Op::Pause));
                let withdrawn: i64 = self.shards.iter().map(|shard| shard.withdrawn).sum();
                let mut whole = self.whole(entry.clone());
                whole.withdrawn = (withdrawn > 0).then(|| withdrawn.to_string().into_bytes());
                is_last.then_some(whole)
            }
            _ => Some(self.whole(entry.clone())),
        }
    }

    fn whole(&self, mut entry: Entry) -> Entry {
        let sum = |of: fn(&Shard) -> i64| self.shards.iter().map(of).sum::<i64>() + self.in_transit;
        let text = |units: i64| units.to_string().into_bytes();
        entry.stock = entry.stock.map(|_| text(sum(|shard| shard.stock)));
        entry.total = entry.total.map(|_| text(sum(|shard| shard.total)));
        entry
    }
}
