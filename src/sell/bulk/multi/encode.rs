//! Calls of `multi_deduct` for some orders of a job: see the header of the script.

use std::collections::VecDeque;

use crate::model::id::UserId;
use crate::redis::connection::resp::{argument, command, decimal, number};
use crate::script::MULTI_DEDUCT;
use crate::sell::bulk::job::JobStates;
use crate::sell::bulk::multi::State;
use crate::sell::bulk::multi::call::{Column, MultiCall};
use crate::sell::bulk::multi::{BulkMultiOrder, MultiOptions};

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
    let mut buffer = Vec::new();
    for column in &call.columns {
        let items = || column.items.iter().map(|(at, item)| (orders.get(*at), *item));
        argument(out, states.epoch(column.nth));
        number(out, column.before);
        lines(&mut buffer, column, orders);
        argument(out, &buffer);
        let quantity = |(order, item): (&BulkMultiOrder, usize)| order.order.items[item].1.get();
        let first = items().next().map(quantity).unwrap_or_default();
        if items().all(|item| quantity(item) == first) {
            number(out, first);
        } else {
            array(&mut buffer, items().map(quantity), decimal);
            argument(out, &buffer);
        }
        array(&mut buffer, items(), |out, (order, _)| {
            text(out, order.order.user.as_ref().map_or("", UserId::as_str));
        });
        argument(out, &buffer);
        if items().any(|(order, _)| order.has_request) {
            array(&mut buffer, items(), |out, (order, _)| {
                text(out, if order.has_request { order.order.request.as_str() } else { "" });
            });
            argument(out, &buffer);
        } else {
            argument(out, b"");
        }
        if !is_common && items().any(|(order, _)| order.order.reason.is_some()) {
            array(&mut buffer, items(), |out, (order, _)| text(out, order.order.reason.as_deref().unwrap_or_default()));
            argument(out, &buffer);
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

/// `first-last` if the lines follow each other, else each of them.
fn lines(buffer: &mut Vec<u8>, column: &Column, orders: &Rows<'_>) {
    let line = |at: usize| orders.get(column.items[at].0).line;
    let (first, count) = (line(0), column.items.len());
    buffer.clear();
    if column.last - first + 1 == count as u64 {
        decimal(buffer, first);
        buffer.push(b'-');
        decimal(buffer, column.last);
        return;
    }
    for at in 0..count {
        if at > 0 {
            buffer.push(b' ');
        }
        decimal(buffer, line(at));
    }
}

/// A JSON array of texts, of which `write` appends what is between the quotation marks.
fn array<T>(buffer: &mut Vec<u8>, values: impl Iterator<Item = T>, write: impl Fn(&mut Vec<u8>, T)) {
    buffer.clear();
    buffer.push(b'[');
    for (at, value) in values.enumerate() {
        buffer.extend_from_slice(if at > 0 { b",\"" } else { b"\"" });
        write(buffer, value);
        buffer.push(b'"');
    }
    buffer.push(b']');
}

/// A text within quotation marks of JSON.
fn text(out: &mut Vec<u8>, text: &str) {
    for byte in text.bytes() {
        match byte {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
            0..0x20 => out.extend_from_slice(format!("\\u{byte:04x}").as_bytes()),
            _ => out.push(byte),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_written_as_json() {
        let mut buffer = Vec::new();
        let texts = ["7", "用户", "q\"uote", "back\\slash", "tab\there", ""];
        array(&mut buffer, texts.into_iter(), text);
        assert_eq!(serde_json::from_slice::<Vec<String>>(&buffer).unwrap(), texts);
    }
}
