//! An order under way, and how it is taken: a strategy is one file. Those without a script have plain commands in common,
//! which read an order's stocks and holdings, and take its units.

mod lock;
mod lua;
mod watch;

use std::time::Instant;

use redis::Value;

use crate::bench::{Sale, StrategyName};
use crate::error::{Result, StoreError};
use crate::model::number::signed;
use crate::model::order::Items;
use crate::model::{Corrupt, Kind, Layout, Status};
use crate::redis::connection::resp::{argument, command};
use crate::script::keys::Keys;
use crate::store::Store;

/// The strategy of that name; `batch`, which has no clients, is none of these.
pub(crate) fn of(name: StrategyName, store: &Store, sale: &Sale) -> Box<dyn Strategy> {
    let (layout, timeout) = (store.layout, store.servers.target().timeout);
    let plain = || Plain::new(layout, sale);
    match name {
        StrategyName::Lua | StrategyName::Batch => Box::new(lua::Lua::new(layout, &store.operator, sale)),
        StrategyName::Watch => Box::new(watch::Watch { plain: plain(), is_watching: true }),
        StrategyName::Lock => Box::new(lock::Lock::new(plain(), layout, sale, timeout)),
        StrategyName::Naive => Box::new(watch::Watch { plain: plain(), is_watching: false }),
    }
}

/// The order that a client is at.
#[derive(Debug)]
pub(crate) struct Order {
    /// Its number in the run, from 0.
    pub(crate) number: u64,
    /// What it takes.
    pub(crate) basket: usize,
    pub(crate) user: String,
    /// From when its time counts, and when it was first sent.
    pub(crate) started: Instant,
    pub(crate) sent: Instant,
    /// How far the strategy is with it; 0 at its beginning.
    pub(crate) stage: u8,
    /// How often part of it was done again.
    pub(crate) retries: u64,
    /// Whether it may have been sent before.
    pub(crate) may_have_run: bool,
    /// Whether the server needs the scripts' text.
    pub(crate) by_text: bool,
    /// How it will end, once the last reply is there.
    pub(crate) status: Status,
}

impl Order {
    pub(crate) fn new(now: Instant) -> Self {
        Self {
            number: 0,
            basket: 0,
            user: String::new(),
            started: now,
            sent: now,
            stage: 0,
            retries: 0,
            may_have_run: false,
            by_text: false,
            status: Status::Ok,
        }
    }
}

/// What is to be sent, and how many replies it will have.
#[derive(Debug, Default)]
pub(crate) struct Outgoing {
    pub(crate) bytes: Vec<u8>,
    pub(crate) replies: usize,
}

impl Outgoing {
    /// Adds a command.
    pub(crate) fn command(&mut self, words: &[&[u8]]) {
        command(&mut self.bytes, words.len());
        words.iter().for_each(|word| argument(&mut self.bytes, word));
        self.replies += 1;
    }
}

/// What comes next for an order.
pub(crate) enum Next {
    /// Replies to what was sent.
    Replies,
    /// Nothing until then.
    Pause(Instant),
    /// It ended so.
    Done(Status, Option<Corrupt>),
    /// It has no answer.
    Failed(StoreError),
}

/// How orders are taken: a state machine for each order.
pub(crate) trait Strategy {
    /// Continues with an order: `replies` are those to what it sent last; none at its beginning and after a pause. None
    /// of them is an error.
    fn step(&mut self, order: &mut Order, replies: &mut Vec<Value>, now: Instant, out: &mut Outgoing) -> Next;

    /// Whether an order whose reply was lost may be sent again: it is applied once.
    fn is_repeatable(&self) -> bool {
        false
    }

    /// Sends, while replies of an order are still to come, what keeps its lock; gives when that is due again. Its reply is
    /// of no use.
    fn keep(&mut self, _order: &Order, _now: Instant, _out: &mut Outgoing) -> Option<Instant> {
        None
    }
}

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
        let items = |items: &Items| {
            let items = items.iter().map(|(activity, quantity)| {
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
    pub(crate) fn judge(&self, order: &Order, replies: &[Value]) -> Result<Judged> {
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
fn count(value: Option<&Value>) -> Result<Option<i64>> {
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
