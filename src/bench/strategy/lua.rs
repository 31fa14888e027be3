//! Our script: one call an order, which checks and takes in one step.

use std::fmt::Write;
use std::time::Instant;

use redis::Value;

use crate::bench::strategy::{Next, Order, Outgoing, Sale, Strategy};
use crate::error::Result;
use crate::model::{Corrupt, Kind, Layout, MultiOrder, Status};
use crate::redis::connection::resp::{argument, command, number};
use crate::script::keys::Keys;
use crate::script::reply::Reply;
use crate::script::{DEDUCT, MULTI_DEDUCT, Script};
use crate::sell::multi_orders;

/// See the [module](self).
pub(crate) struct Lua {
    baskets: Vec<Items>,
    kind: Kind,
    operator: String,
    reason: String,
    /// Request ids begin with it.
    run: String,
    request: String,
}

/// What an order of one basket says beside user and request id.
struct Items {
    keys: Vec<Keys>,
    /// The number of keys, and their names, in the protocol's form.
    packed_keys: Vec<u8>,
    key_count: usize,
    quantities: Vec<String>,
    /// For replies.
    order: MultiOrder,
}

impl Lua {
    pub(crate) fn new(layout: Layout, operator: &str, sale: &Sale) -> Self {
        let baskets = sale.baskets.iter().map(|items| {
            let keys: Vec<Keys> = items.iter().map(|(activity, _)| Keys::of(layout, activity)).collect();
            let key_count = keys.iter().map(|keys| keys.in_order().count()).sum();
            let mut packed_keys = Vec::new();
            number(&mut packed_keys, key_count as u64);
            keys.iter().flat_map(Keys::in_order).for_each(|key| argument(&mut packed_keys, key.as_bytes()));
            let quantities = items.iter().map(|(_, quantity)| quantity.to_string()).collect();
            let order = MultiOrder { user: None, items: items.clone(), request: sale.run.clone(), reason: None };
            Items { keys, packed_keys, key_count, quantities, order }
        });
        Self {
            baskets: baskets.collect(),
            kind: layout.kind(),
            operator: operator.to_owned(),
            reason: sale.reason.clone().unwrap_or_default(),
            run: sale.run.to_string(),
            request: String::new(),
        }
    }

    fn call(&mut self, order: &Order, out: &mut Outgoing) {
        self.request.clear();
        // Writing to a text cannot fail.
        let _ = write!(self.request, "{}-{}", self.run, order.number);
        let Items { packed_keys, key_count, quantities, .. } = &self.baskets[order.basket];
        let user = if self.kind.has_users() { order.user.as_str() } else { "" };
        let mode = if order.may_have_run { "retry" } else { "first" };
        let call = |script: &Script, out: &mut Vec<u8>, arguments: usize| {
            command(out, 3 + key_count + arguments);
            let (name, text) = if order.by_text { ("EVAL", script.text) } else { ("EVALSHA", script.sha1) };
            argument(out, name.as_bytes());
            argument(out, text.as_bytes());
            out.extend_from_slice(packed_keys);
        };
        let bytes = &mut out.bytes;
        let arguments = if let [quantity] = &quantities[..] {
            // What may be left out costs the server time.
            let optional: &[&str] = match (order.may_have_run, self.reason.is_empty()) {
                (false, true) => &[],
                (true, true) => &[mode],
                (_, false) => &[mode, &self.reason],
            };
            call(DEDUCT.of(self.kind), bytes, 5 + optional.len());
            [&[self.kind.name(), &self.operator, user, quantity, &self.request], optional].concat()
        } else {
            call(MULTI_DEDUCT.of(self.kind), bytes, 6 + quantities.len());
            let mut all = vec![self.kind.name(), &self.operator, mode, &self.reason, user, &self.request];
            all.extend(quantities.iter().map(String::as_str));
            all
        };
        arguments.into_iter().for_each(|text| argument(bytes, text.as_bytes()));
        out.replies += 1;
    }

    /// How the order ended.
    fn read(&self, order: &Order, value: Value) -> Result<(Status, Option<Corrupt>)> {
        let Items { keys, order: items, .. } = &self.baskets[order.basket];
        if items.items.len() > 1 {
            return Ok(multi_orders::outcome_of(&value, items, keys)?.decisive());
        }
        let (status, corrupt, _) = Reply::of(DEDUCT.of(self.kind)).with_status(value, &keys[0])?;
        Ok((status, corrupt))
    }
}

impl Strategy for Lua {
    fn step(&mut self, order: &mut Order, replies: &mut Vec<Value>, _now: Instant, out: &mut Outgoing) -> Next {
        match replies.pop() {
            None => {
                self.call(order, out);
                Next::Replies
            }
            Some(value) => match self.read(order, value) {
                Ok((status, corrupt)) => Next::Done(status, corrupt),
                Err(error) => Next::Failed(error),
            },
        }
    }

    fn is_repeatable(&self) -> bool {
        true
    }
}
