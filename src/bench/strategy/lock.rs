//! A lock before reading and writing: `SET NX PX` with a token, a watchdog that prolongs it at a third of its life, and a
//! release that checks the token. It excludes others only while it lives: who pauses for longer (a collection of
//! garbage, a machine that is suspended) writes although another client has the lock by then. One holder pauses so, on
//! purpose, and if units run out at the worst moment: before it takes the last one.

use std::time::{Duration, Instant};

use redis::Value;

use crate::bench::strategy::{Judged, Next, Order, Outgoing, Plain, Sale, Strategy};
use crate::error::StoreError;
use crate::model::layout::Layout;
use crate::script::keys::Keys;

const LOCKED: u8 = 1;
const READ: u8 = 2;
const PAUSED: u8 = 3;
const TAKEN: u8 = 4;
const RELEASED: u8 = 5;

/// How long the lock lives unless it is prolonged.
const LIFE: Duration = Duration::from_millis(500);
/// How long one holder pauses, watchdog and all.
const PAUSE: Duration = Duration::from_millis(750);
/// How long who does not get it waits before the next try; a little longer or shorter, so that not all come at once.
const NAP: Duration = Duration::from_millis(10);

const RELEASE: &[u8] = b"if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0";
const PROLONG: &[u8] =
    b"if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end return 0";

/// See the [module](self).
pub(crate) struct Lock {
    plain: Plain,
    /// The key of each basket's lock.
    keys: Vec<String>,
    /// Tokens begin with it.
    run: String,
    /// The longest that an order waits for the lock.
    patience: Duration,
    /// Whether somebody paused already; else whether that is for who takes the last unit.
    has_paused: bool,
    is_short: bool,
}

impl Lock {
    pub(crate) fn new(plain: Plain, layout: Layout, sale: &Sale, patience: Duration) -> Self {
        let keys = sale.baskets.iter().map(|items| Keys::lock(layout, &items[0].0));
        Self {
            plain,
            keys: keys.collect(),
            run: sale.run.to_string(),
            patience,
            has_paused: false,
            is_short: sale.is_short,
        }
    }

    fn token(&self, order: &Order) -> Vec<u8> {
        format!("{}-{}", self.run, order.number).into_bytes()
    }

    fn release(&self, order: &mut Order, out: &mut Outgoing) -> Next {
        order.stage = RELEASED;
        out.command(&[b"EVAL", RELEASE, b"1", self.keys[order.basket].as_bytes(), &self.token(order)]);
        Next::Replies
    }
}

impl Strategy for Lock {
    fn step(&mut self, order: &mut Order, replies: &mut Vec<Value>, now: Instant, out: &mut Outgoing) -> Next {
        match order.stage {
            LOCKED if replies.last() == Some(&Value::Nil) => {
                order.retries += 1;
                order.stage = 0;
                if now - order.sent >= self.patience {
                    let why = format!("no lock within {}", humantime::format_duration(self.patience));
                    return Next::Failed(StoreError::GaveUp(why));
                }
                Next::Pause(now + NAP / 2 + NAP * u32::try_from(order.number % 16).unwrap_or(0) / 16)
            }
            LOCKED => {
                order.stage = READ;
                self.plain.read(order, out);
                Next::Replies
            }
            READ => match self.plain.judge(order, replies) {
                Ok(Judged::Allowed { takes_last }) if !self.has_paused && (takes_last || !self.is_short) => {
                    self.has_paused = true;
                    order.stage = PAUSED;
                    Next::Pause(now + PAUSE)
                }
                Ok(Judged::Allowed { .. }) => {
                    order.stage = TAKEN;
                    self.plain.take(order, out);
                    Next::Replies
                }
                Ok(Judged::Refused(status)) => {
                    order.status = status;
                    self.release(order, out)
                }
                Err(error) => Next::Failed(error),
            },
            PAUSED => {
                order.stage = TAKEN;
                self.plain.take(order, out);
                Next::Replies
            }
            TAKEN => self.release(order, out),
            RELEASED => Next::Done(order.status, None),
            _ => {
                order.stage = LOCKED;
                let life = LIFE.as_millis().to_string();
                let key = self.keys[order.basket].as_bytes();
                out.command(&[b"SET", key, &self.token(order), b"NX", b"PX", life.as_bytes()]);
                Next::Replies
            }
        }
    }

    fn keep(&mut self, order: &Order, now: Instant, out: &mut Outgoing) -> Option<Instant> {
        // Who pauses has no watchdog either.
        if matches!(order.stage, READ | TAKEN | RELEASED) {
            let life = LIFE.as_millis().to_string();
            let key = self.keys[order.basket].as_bytes();
            out.command(&[b"EVAL", PROLONG, b"1", key, &self.token(order), life.as_bytes()]);
        }
        Some(now + LIFE / 3)
    }
}
