//! Read, compare, write: what another client writes in between is not noticed.

use std::time::Instant;

use redis::Value;

use crate::bench::strategy::plain::{Judged, Plain};
use crate::bench::strategy::{Next, Order, Outgoing, Strategy};
use crate::model::status::Status;

const READ: u8 = 1;
const TAKEN: u8 = 2;

/// See the [module](self).
pub(crate) struct Naive {
    plain: Plain,
}

impl Naive {
    pub(crate) fn new(plain: Plain) -> Self {
        Self { plain }
    }
}

impl Strategy for Naive {
    fn step(&mut self, order: &mut Order, replies: &mut Vec<Value>, _now: Instant, out: &mut Outgoing) -> Next {
        match order.stage {
            READ => match self.plain.judge(order, replies) {
                Ok(Judged::Allowed { .. }) => {
                    order.stage = TAKEN;
                    self.plain.take(order, out);
                    Next::Replies
                }
                Ok(Judged::Refused(status)) => Next::Done(status, None),
                Err(error) => Next::Failed(error),
            },
            TAKEN => Next::Done(Status::Ok, None),
            _ => {
                order.stage = READ;
                self.plain.read(order, out);
                Next::Replies
            }
        }
    }
}
