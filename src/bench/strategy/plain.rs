//! What strategies without a script have in common: plain commands that read an order's stocks and holdings, and those that
//! take its units.

use redis::Value;

use crate::bench::strategy::{Basket, Order, Outgoing, Sale};
use crate::error::StoreError;
use crate::model::layout::{Kind, Layout};
use crate::model::number::signed;
use crate::model::status::Status;
use crate::script::keys::Keys;

/// See the [module](self).
pub(crate) struct Plain {
    kind: Kind,
    baskets: Vec<Vec<Item>>,
    limit: Option<i64>,
}

struct Item {
    stock: String,
    participants: Option<String>,
    quantity: i64,
    quantity_text: String,
}

/// What was read allows the order, or not.
pub(crate) enum Judged {
    Allowed {
        /// Whether it takes the last unit of something.
        takes_last: bool,
    },
    Refused(Status),
}

impl Plain {
    pub(crate) fn new(layout: Layout, sale: &Sale) -> Self {
        let items = |basket: &Basket| {
            let items = basket.items.iter().map(|(activity, quantity)| {
                let Keys { stock, participants, .. } = Keys::of(layout, activity);
                Item { stock, participants, quantity: signed(quantity.get()), quantity_text: quantity.to_string() }
            });
            items.collect()
        };
        let limit = if layout.kind().records_once() { Some(1) } else { sale.per_user_limit.map(signed) };
        Self { kind: layout.kind(), baskets: sale.baskets.iter().map(items).collect(), limit }
    }

    /// `WATCH` of all that an order reads.
    pub(crate) fn watch(&self, order: &Order, out: &mut Outgoing) {
        let items = &self.baskets[order.basket];
        let keys = items.iter().flat_map(|item| [Some(&item.stock), item.participants.as_ref()]).flatten();
        let words: Vec<&[u8]> = std::iter::once(&b"WATCH"[..]).chain(keys.map(String::as_bytes)).collect();
        out.command(&words);
    }

    /// Reads stocks and what the user holds.
    pub(crate) fn read(&self, order: &Order, out: &mut Outgoing) {
        for item in &self.baskets[order.basket] {
            out.command(&[b"GET", item.stock.as_bytes()]);
            if let Some(participants) = &item.participants {
                let name: &[u8] = if self.kind == Kind::Hash { b"HGET" } else { b"SISMEMBER" };
                out.command(&[name, participants.as_bytes(), order.user.as_bytes()]);
            }
        }
    }

    /// Takes the units, whatever is there.
    pub(crate) fn take(&self, order: &Order, out: &mut Outgoing) {
        for item in &self.baskets[order.basket] {
            out.command(&[b"DECRBY", item.stock.as_bytes(), item.quantity_text.as_bytes()]);
        }
        for item in &self.baskets[order.basket] {
            let Some(participants) = item.participants.as_ref().map(String::as_bytes) else { continue };
            match self.kind {
                Kind::Hash => {
                    out.command(&[b"HINCRBY", participants, order.user.as_bytes(), item.quantity_text.as_bytes()]);
                }
                _ => out.command(&[b"SADD", participants, order.user.as_bytes()]),
            }
        }
    }

    /// What the replies to [`read`](Self::read) say.
    ///
    /// # Errors
    /// One of them is no number.
    pub(crate) fn judge(&self, order: &Order, replies: &[Value]) -> Result<Judged, StoreError> {
        let mut replies = replies.iter();
        let (mut refused, mut takes_last) = (None, false);
        for item in &self.baskets[order.basket] {
            let stock = count(replies.next())?;
            let held = if item.participants.is_some() { count(replies.next())?.unwrap_or(0) } else { 0 };
            let status = match stock {
                None => Some(Status::NotPreheated),
                _ if self.limit.is_some_and(|limit| held.saturating_add(item.quantity) > limit) => {
                    Some(Status::LimitExceeded)
                }
                Some(stock) if stock < item.quantity => Some(Status::OutOfStock),
                Some(stock) => {
                    takes_last |= stock < 2 * item.quantity;
                    None
                }
            };
            refused = refused.or(status);
        }
        Ok(refused.map_or(Judged::Allowed { takes_last }, Judged::Refused))
    }
}

/// A number of the server; a stock may be below zero if it was oversold.
fn count(value: Option<&Value>) -> Result<Option<i64>, StoreError> {
    let invalid = || StoreError::Reply { what: "GET".to_owned(), reply: format!("{value:?}") };
    match value {
        Some(Value::Nil) => Ok(None),
        Some(Value::Int(number)) => Ok(Some(*number)),
        Some(Value::BulkString(text)) => {
            let text = std::str::from_utf8(text).map_err(|_| invalid())?;
            text.parse().map(Some).map_err(|_| invalid())
        }
        _ => Err(invalid()),
    }
}
