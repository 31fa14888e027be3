//! Orders of several activities, each all or nothing: one of them, or the arguments and replies of several in one call.

use std::collections::HashMap;

use redis::Value;

use super::call::Again;
use super::keys::Keys;
use super::orders::{mode, settle, user_text};
use super::reply::{Reply, corrupt};
use super::scripts::MULTI_DEDUCT;
use super::{Store, StoreError};
use crate::inventory::id::ActivityId;
use crate::inventory::layout::Layout;
use crate::inventory::order::{Bought, MultiOrder, MultiOutcome, Outcome};
use crate::inventory::status::Status;

impl Store {
    /// Takes units of several activities, all or nothing. With `dry_run` nothing is written.
    ///
    /// # Errors
    /// Any of [`StoreError`]; refusals are statuses of the outcome.
    pub fn multi_deduct(&mut self, order: &MultiOrder, dry_run: bool) -> Result<MultiOutcome, StoreError> {
        let asked = Asked::of(self.layout, &[order]);
        let names = asked.names();
        let (kind, by) = (self.kind(), self.operator.clone());
        let again = if dry_run { Again::Reads } else { Again::Safe };
        let value = self.server.run(&MULTI_DEDUCT, &names, again, settle(&order.request), |nth| {
            let mut arguments = vec![kind.clone(), by.clone(), mode(dry_run, nth).to_owned(), String::new()];
            arguments.extend_from_slice(&asked.orders);
            arguments
        })?;
        let reply = Reply::of(&MULTI_DEDUCT);
        let values = reply.array(value)?;
        asked.outcomes(&[order], &values)?.pop().ok_or_else(|| reply.unfit(values))
    }
}

/// What a call asks for.
#[derive(Debug)]
pub(super) struct Asked {
    /// Each activity once, and its keys.
    pub(super) activities: Vec<ActivityId>,
    keys: Vec<Keys>,
    /// The script's arguments from the first order on.
    pub(super) orders: Vec<String>,
}

impl Asked {
    /// These orders, one after the other.
    pub(super) fn of(layout: Layout, orders: &[&MultiOrder]) -> Self {
        let mut places: HashMap<&ActivityId, String> = HashMap::new();
        let (mut activities, mut keys, mut arguments) = (Vec::new(), Vec::new(), Vec::new());
        for order in orders {
            arguments.extend([
                user_text(order.user.as_ref()).to_owned(),
                order.request.to_string(),
                order.reason.clone().unwrap_or_default(),
                order.items.len().to_string(),
            ]);
            for (activity, quantity) in &order.items {
                let place = places.entry(activity).or_insert_with(|| {
                    activities.push(activity.clone());
                    keys.push(Keys::of(layout, activity));
                    keys.len().to_string()
                });
                arguments.extend([place.clone(), quantity.to_string()]);
            }
        }
        Self { activities, keys, orders: arguments }
    }

    /// The keys as the script takes them.
    pub(super) fn names(&self) -> Vec<&str> {
        self.keys.iter().flat_map(Keys::in_order).collect()
    }

    /// How these orders, those that were asked, ended.
    pub(super) fn outcomes(&self, orders: &[&MultiOrder], values: &[Value]) -> Result<Vec<MultiOutcome>, StoreError> {
        let reply = Reply::of(&MULTI_DEDUCT);
        if values.len() != orders.len() {
            return Err(reply.unfit(values));
        }
        let outcomes = orders.iter().zip(values).map(|(order, value)| {
            let text = reply.text(Some(value))?.unwrap_or_default();
            outcome(&text, order, &self.keys).ok_or_else(|| reply.unfit(&text))
        });
        outcomes.collect()
    }
}

/// Reads `status item item …` of one order; `None` where it does not fit the order.
fn outcome(text: &str, order: &MultiOrder, keys: &[Keys]) -> Option<MultiOutcome> {
    let mut words = text.split(' ');
    let status = Status::of_code(words.next()?.parse().ok()?)?;
    let mut items = Vec::with_capacity(order.items.len());
    for ((_, quantity), word) in order.items.iter().zip(words) {
        let mut parts = word.split(',');
        let (Some(code), Some(stock), Some(bought), None) = (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return None;
        };
        let item_status = Status::of_code(code.parse().ok()?)?;
        let mut outcome =
            Outcome { status: item_status, quantity: Some(quantity.get()), stock: None, bought: None, corrupt: None };
        if item_status == Status::Corrupt {
            let number: usize = stock.parse().ok()?;
            let each = keys.first()?.in_order().count();
            let value = (bought != "-").then(|| unhex(bought));
            outcome.corrupt = Some(corrupt(keys.get((number - 1) / each)?, (number - 1) % each + 1, value.as_deref()));
        } else {
            outcome.stock = stock.parse().ok();
            outcome.bought = match bought {
                "?" => Some(Bought::Unknown),
                units => units.parse().ok().map(Bought::Units),
            };
        }
        items.push(outcome);
    }
    (items.len() == order.items.len()).then_some(MultiOutcome { status, items })
}

fn unhex(hex: &str) -> String {
    let bytes: Vec<u8> = hex
        .as_bytes()
        .chunks(2)
        .filter_map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok())
        .collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hexadecimal_is_read_back() {
        assert_eq!(unhex("61620a"), "ab\n");
    }

    #[test]
    fn a_call_names_each_activity_once() {
        let order = |text: &str| MultiOrder {
            user: Some("7".parse().unwrap()),
            items: text.split(' ').map(|id| (id.parse().unwrap(), "1".parse().unwrap())).collect(),
            request: "r".parse().unwrap(),
            reason: None,
        };
        let (one, other) = (order("a b"), order("c a"));
        let asked = Asked::of(Layout::Seckill, &[&one, &other]);
        assert_eq!(asked.keys.len(), 3);
        assert_eq!(asked.orders, ["7", "r", "", "2", "1", "1", "2", "1", "7", "r", "", "2", "3", "1", "1", "1"]);
    }
}
