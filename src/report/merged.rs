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
    /// The newest entry of an update that not all shards have yet: it is one event, and is held back until they do.
    update: Option<Entry>,
    /// Units that this update added to the shards that have it.
    update_units: i64,
}

#[derive(Debug, Clone, Default)]
struct Shard {
    stock: i64,
    total: i64,
    is_paused: bool,
    /// Units that its last pause withdrew, or its resume returned; 0 once the event was given.
    withdrawn: Option<i64>,
    /// Whether it has the update that is held back.
    is_updated: bool,
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
        let merged = Self { shards, in_transit: 0, update: None, update_units: 0 };
        let preheat = first.iter().min_by_key(|entry| entry.id)?.clone();
        let preheat = merged.whole(preheat);
        Some((merged, preheat))
    }

    /// The next entry, of a shard, as one of the whole; `None` if it changes nothing there.
    pub(crate) fn next(&mut self, shard: usize, entry: &Entry) -> Option<Entry> {
        let count = |field: &Option<Vec<u8>>| Entry::count(field.as_deref()).map(signed);
        let part = &mut self.shards[shard];
        let total_before = part.total;
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
            // All of them are paused, or none is any more; all are withdrawn, if one is.
            Some(op @ (Op::Pause | Op::Resume)) => {
                let is_pause = op == Op::Pause;
                (part.is_paused, part.withdrawn) = (is_pause, count(&entry.withdrawn));
                let withdraws = is_pause && part.withdrawn.is_some();
                let has_it = |it: &Shard| it.is_paused == is_pause && (!withdraws || it.withdrawn.is_some());
                if !self.shards.iter().all(has_it) {
                    return None;
                }
                let withdrawn = self.shards.iter_mut().filter_map(|shard| shard.withdrawn.as_mut());
                let withdrawn: i64 = withdrawn.map(std::mem::take).sum();
                let mut whole = self.whole(entry.clone());
                whole.withdrawn = (withdrawn > 0).then(|| withdrawn.to_string().into_bytes());
                Some(whole)
            }
            Some(Op::Update) => {
                part.is_updated = true;
                self.update_units += part.total - total_before;
                self.update = Some(entry.clone());
                if self.shards.iter().all(|shard| shard.is_updated) { self.take_update() } else { None }
            }
            _ => Some(self.whole(entry.clone())),
        }
    }

    /// The update that is held back, as far as the shards have it.
    pub(crate) fn take_update(&mut self) -> Option<Entry> {
        self.shards.iter_mut().for_each(|shard| shard.is_updated = false);
        self.update_units = 0;
        self.update.take().map(|entry| self.whole(entry))
    }

    fn whole(&self, mut entry: Entry) -> Entry {
        let sum = |of: fn(&Shard) -> i64| self.shards.iter().map(of).sum::<i64>() + self.in_transit - self.update_units;
        let text = |units: i64| units.to_string().into_bytes();
        entry.stock = entry.stock.map(|_| text(sum(|shard| shard.stock)));
        entry.total = entry.total.map(|_| text(sum(|shard| shard.total)));
        entry
    }
}
