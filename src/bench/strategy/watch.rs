//! WATCH, read, compare, MULTI and EXEC: the server refuses the write if another client changed anything that was read,
//! and the order begins again. The more clients, the more of them begin again.
//!
//! Without the watch it is the naive strategy: what another client writes in between is not noticed.

use std::time::Instant;

use redis::Value;

use crate::bench::strategy::{Judged, Next, Order, Outgoing, Plain, Strategy};
use crate::error::StoreError;
use crate::model::status::Status;

const READ: u8 = 1;
const TAKEN: u8 = 2;
const UNWATCHED: u8 = 3;

/// So often an order begins again before its user hears that it must try later.
const MAX_TRIES: u64 = 20;

/// See the [module](self).
pub(crate) struct Watch {
    pub(crate) plain: Plain,
    pub(crate) is_watching: bool,
}

impl Watch {
    fn begin(&self, order: &mut Order, out: &mut Outgoing) -> Next {
        order.stage = READ;
        if self.is_watching {
            self.plain.watch(order, out);
        }
        self.plain.read(order, out);
        Next::Replies
    }
}

impl Strategy for Watch {
    fn step(&mut self, order: &mut Order, replies: &mut Vec<Value>, _now: Instant, out: &mut Outgoing) -> Next {
        match order.stage {
            // The first reply is that of WATCH.
            READ => match self.plain.judge(order, &replies[usize::from(self.is_watching)..]) {
                Ok(Judged::Allowed { .. }) => {
                    order.stage = TAKEN;
                    if self.is_watching {
                        out.command(&[b"MULTI"]);
                    }
                    self.plain.take(order, out);
                    if self.is_watching {
                        out.command(&[b"EXEC"]);
                    }
                    Next::Replies
                }
                Ok(Judged::Refused(status)) if !self.is_watching => Next::Done(status, None),
                Ok(Judged::Refused(status)) => {
                    (order.stage, order.status) = (UNWATCHED, status);
                    out.command(&[b"UNWATCH"]);
                    Next::Replies
                }
                Err(error) => Next::Failed(error),
            },
            TAKEN => match replies.last() {
                Some(Value::Nil) if self.is_watching => {
                    order.retries += 1;
                    if order.retries >= MAX_TRIES {
                        let why = format!("another client was faster {MAX_TRIES} times");
                        return Next::Failed(StoreError::GaveUp(why));
                    }
                    self.begin(order, out)
                }
                _ => Next::Done(Status::Ok, None),
            },
            UNWATCHED => Next::Done(order.status, None),
            _ => self.begin(order, out),
        }
    }
}
