//! Calls of `multi_deduct` for some orders of a job: see the header of the script.

use std::collections::VecDeque;

use crate::redis::connection::resp::{argument, command, number};
use crate::script::MULTI_DEDUCT;
use crate::sell::bulk::columns::Columns;
use crate::sell::bulk::job::JobStates;
use crate::sell::bulk::multi::State;
use crate::sell::bulk::multi::call::MultiCall;
use crate::sell::bulk::multi::{BulkMultiOrder, MultiOptions};
use crate::sell::orders::user_text;

/// Arguments of each activity.
const WIDTH: usize = 7;

/// Appends a call of these orders.
pub(crate) fn encode(
    out: &mut Vec<u8>,
    options: &MultiOptions,
    states: &JobStates,
    call: &MultiCall,
    orders: &Rows<'_>,
) {
    let keys: Vec<_> = call.columns.iter().map(|column| states.keys(column.nth)).collect();
    let key_count: usize = keys.iter().map(|keys| keys.in_order().count()).sum();
    // A reason that all orders have is said once.
    let reason = orders.get(0).order.reason.as_deref();
    let is_common = (1..call.count).all(|at| orders.get(at).order.reason.as_deref() == reason);
    let reason = reason.filter(|_| is_common).unwrap_or_default();
    command(out, 3 + key_count + 7 + WIDTH * call.columns.len());
    argument(out, b"EVALSHA");
    argument(out, MULTI_DEDUCT.sha1.as_bytes());
    number(out, key_count as u64);
    keys.iter().flat_map(|keys| keys.in_order()).for_each(|key| argument(out, key.as_bytes()));
    let job = &states.job;
    for text in [&options.kind, &options.operator, "first", reason, &job.name, job.digest_to_store()] {
        argument(out, text.as_bytes());
    }
    argument(out, if options.has_rows { b"1" } else { b"0" });
    let mut columns = Columns::default();
    for column in &call.columns {
        let items = || column.items.iter().map(|(at, item)| (orders.get(*at), *item));
        let orders = || items().map(|(order, _)| order);
        argument(out, states.epoch(column.nth));
        number(out, column.before);
        columns.lines(out, orders().map(|order| order.line));
        columns.quantities(out, items().map(|(order, item)| order.order.items[item].1.get()));
        columns.texts(out, orders().map(|order| user_text(order.order.user.as_ref()).as_bytes()));
        if orders().any(|order| order.has_request) {
            let own = |order: &BulkMultiOrder| order.has_request;
            columns.texts(out, orders().map(|it| if own(it) { it.order.request.as_str().as_bytes() } else { b"" }));
        } else {
            argument(out, b"");
        }
        if !is_common && orders().any(|order| order.order.reason.is_some()) {
            columns.texts(out, orders().map(|order| order.order.reason.as_deref().unwrap_or_default().as_bytes()));
        } else {
            argument(out, b"");
        }
    }
}

/// The orders of a call, by their place in it.
pub(crate) struct Rows<'r> {
    pub(crate) rows: &'r VecDeque<(BulkMultiOrder, State)>,
    pub(crate) from: usize,
}

impl<'r> Rows<'r> {
    pub(crate) fn get(&self, at: usize) -> &'r BulkMultiOrder {
        &self.rows[self.from + at].0
    }
}
