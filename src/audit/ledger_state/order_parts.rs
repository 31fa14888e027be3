//! Orders of activities in several slots, as the ledger of one of these activities has them. An order is bought as a whole or not at
//! all, so an audit compares what became of its item here with the records of its other items.

use std::collections::HashMap;

use crate::model::number::whole;
use crate::model::{ActivityId, Entry, EntryId, HoldState, Interner, Op, StoredUser};

/// What a ledger says of one item of an order, and with which other item that is to be compared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OrderPart {
    /// The order's request id.
    pub request: Box<str>,
    /// Who ordered, by the index of the ledger state.
    pub user: u32,
    /// Units of this item.
    pub quantity: u64,
    /// The entry that ended it.
    pub at: EntryId,
    /// Whether it was bought here, or returned.
    pub is_bought: bool,
    /// Whether this item decides the order.
    pub is_primary: bool,
    /// The stock key of the other item, by its index in [`OrderParts`].
    pub other: u32,
}

impl OrderPart {
    /// Whether the order is split, by what the other item has become. While the primary alone is bought, the others are still
    /// held; what was returned here may never have been held there.
    pub(crate) fn is_split(&self, other: Option<HoldState>) -> bool {
        match (self.is_bought, other) {
            (true, Some(HoldState::Held)) => !self.is_primary,
            (is_bought, state) => is_bought != (state == Some(HoldState::Confirmed)),
        }
    }
}

/// An order of which one item is bought and another one is not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SplitOrder {
    /// The order's request id.
    pub request: String,
    /// Who ordered.
    pub user: StoredUser,
    /// Whether it is bought here.
    pub is_bought: bool,
    /// The other item.
    pub other: ActivityId,
    /// What has become of that; `None` if nothing is known of it there.
    pub state: Option<HoldState>,
}

/// The orders that a ledger has, as far as their items here were bought or returned.
#[derive(Default)]
pub(crate) struct OrderParts {
    /// Stock keys of other items.
    keys: Interner,
    /// The other items of orders of which this is the primary, from its hold to its end.
    undecided: HashMap<Box<str>, Vec<u32>>,
    ended: Vec<OrderPart>,
}

impl OrderParts {
    /// Adds what an entry says of one order's item, if it says anything.
    ///
    /// # Errors
    /// What cannot be read.
    pub(crate) fn add(&mut self, op: Op, entry: &Entry, user: u32) -> Result<(), String> {
        if op == Op::Repair {
            let reversed = entry.reversed_ids();
            self.ended.retain(|part| !reversed.iter().any(|request| **request == *part.request));
        }
        let Some(primary) = &entry.primary else { return Ok(()) };
        let rows = entry.rows()?;
        let row = rows.first();
        let request = row.and_then(|row| row.request()).ok_or("an item of an order without a request id")?;
        let quantity =
            row.and_then(|row| row.text(1)).and_then(whole).ok_or("an item of an order without a quantity")?;
        let items = entry.items.as_deref().map(|items| items.split(|byte| *byte == b' '));
        match (op, items) {
            (Op::Hold, Some(items)) => {
                let others = items.map(|key| self.keys.number(key)).collect();
                self.undecided.insert(request.into(), others);
            }
            (Op::Confirm | Op::Release | Op::Expire, _) => {
                let others = self.undecided.remove(request);
                let is_primary = others.is_some();
                // Of a primary whose hold was trimmed, this is the key of the primary itself.
                let others = others.unwrap_or_else(|| vec![self.keys.number(primary)]);
                let part = |other| OrderPart {
                    request: request.into(),
                    user,
                    quantity,
                    at: entry.id,
                    is_bought: op == Op::Confirm,
                    is_primary,
                    other,
                };
                self.ended.extend(others.into_iter().map(part));
            }
            _ => {}
        }
        Ok(())
    }

    /// What ended since this was asked before.
    pub(crate) fn take_ended(&mut self) -> Vec<OrderPart> {
        std::mem::take(&mut self.ended)
    }

    /// The stock key of an index.
    pub(crate) fn key(&self, index: u32) -> &[u8] {
        self.keys.name(index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(id: &str, op: Op, items: Option<&str>) -> Entry {
        let text = |text: &str| Some(text.as_bytes().to_vec());
        Entry {
            requests: text("r"),
            primary: text("seckill:{1}:stock"),
            items: items.and_then(text),
            ..Entry::of_orders(id, op.name(), "7 1")
        }
    }

    /// What is to be compared after some entries, as `request bought primary other`.
    fn ended(entries: &[(Op, Option<&str>)]) -> Vec<String> {
        let mut parts = OrderParts::default();
        for ((op, items), ms) in entries.iter().zip(1..) {
            parts.add(*op, &entry(&format!("{ms}-0"), *op, *items), 3).unwrap();
        }
        let ended = parts.take_ended();
        let shown = |part: &OrderPart| {
            let key = String::from_utf8_lossy(parts.key(part.other)).into_owned();
            format!("{} {} {} {key}", part.request, part.is_bought, part.is_primary)
        };
        assert!(ended.iter().all(|part| part.user == 3 && part.at.at().get() == entries.len() as u64));
        ended.iter().map(shown).collect()
    }

    #[test]
    fn a_primary_is_compared_with_all_its_items_and_an_item_with_its_primary() {
        let items = Some("seckill:{2}:stock seckill:{3}:stock");
        assert_eq!(
            ended(&[(Op::Hold, items), (Op::Confirm, None)]),
            ["r true true seckill:{2}:stock", "r true true seckill:{3}:stock"]
        );
        assert_eq!(ended(&[(Op::Hold, None), (Op::Confirm, None)]), ["r true false seckill:{1}:stock"]);
        assert_eq!(ended(&[(Op::Hold, None), (Op::Release, None)]), ["r false false seckill:{1}:stock"]);
        assert_eq!(ended(&[(Op::Expire, None)]), ["r false false seckill:{1}:stock"]);
        assert!(ended(&[(Op::Hold, items)]).is_empty(), "nothing is decided");
    }

    #[test]
    fn other_entries_say_nothing_of_orders_and_a_damaged_one_is_refused() {
        let mut parts = OrderParts::default();
        let alone = Entry { primary: None, requests: None, ..entry("1-0", Op::Confirm, None) };
        parts.add(Op::Confirm, &alone, 0).unwrap();
        let damaged = Entry { requests: None, ..entry("2-0", Op::Confirm, None) };
        assert!(parts.add(Op::Confirm, &damaged, 0).is_err());
        assert!(parts.take_ended().is_empty());
    }

    #[test]
    fn an_item_that_a_repair_took_back_is_compared_with_nothing() {
        let mut parts = OrderParts::default();
        parts.add(Op::Confirm, &entry("1-0", Op::Confirm, None), 0).unwrap();
        let repair = |ids: &str| Entry { reversed: Some(ids.into()), ..Entry::new("2-0".parse().unwrap()) };
        parts.add(Op::Repair, &repair("other"), 0).unwrap();
        assert_eq!(parts.ended.len(), 1);
        parts.add(Op::Repair, &repair("other\tr"), 0).unwrap();
        assert!(parts.take_ended().is_empty());
    }

    #[test]
    fn an_order_is_split_if_one_item_is_bought_and_another_is_not() {
        use HoldState::{Confirmed, Expired, Held, Released, Void};
        let states = [None, Some(Held), Some(Confirmed), Some(Released), Some(Expired), Some(Void)];
        let split = |is_bought, is_primary| {
            let part = OrderPart {
                request: "r".into(),
                user: 0,
                quantity: 1,
                at: EntryId::ZERO,
                is_bought,
                is_primary,
                other: 0,
            };
            states.map(|state| part.is_split(state))
        };
        assert_eq!(split(true, true), [true, false, false, true, true, true]);
        assert_eq!(split(true, false), [true, true, false, true, true, true]);
        for is_primary in [true, false] {
            assert_eq!(split(false, is_primary), [false, false, true, false, false, false]);
        }
    }
}
