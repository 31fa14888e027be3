//! An order under way, and how it is taken: a strategy is one file.

mod lock;
mod lua;
mod plain;
mod watch;

use std::time::Instant;

use redis::Value;

use crate::bench::{Basket, Sale, StrategyName};
use crate::error::StoreError;
use crate::model::order::Corrupt;
use crate::model::status::Status;
use crate::redis::connection::resp::{argument, command};
use crate::store::Store;

/// The strategy of that name; `batch`, which has no clients, is none of these.
pub(crate) fn of(name: StrategyName, store: &Store, sale: &Sale) -> Box<dyn Strategy> {
    let (layout, timeout) = (store.layout, store.servers.target().timeout);
    match name {
        StrategyName::Lua | StrategyName::Batch => Box::new(lua::Lua::new(layout, &store.operator, sale)),
        StrategyName::Watch => Box::new(watch::Watch::new(plain::Plain::new(layout, sale), true)),
        StrategyName::Lock => Box::new(lock::Lock::new(plain::Plain::new(layout, sale), layout, sale, timeout)),
        StrategyName::Naive => Box::new(watch::Watch::new(plain::Plain::new(layout, sale), false)),
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
