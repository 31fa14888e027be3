//! Calls of `deduct` and `refund` for a batch of orders, and of `mixed_orders` for several: see the headers of the
//! scripts.

use crate::redis::connection::resp::{argument, command, decimal, number};
use crate::script::{MIXED_ORDERS, Script};
use crate::sell::bulk::job::{JobStates, Operation};
use crate::sell::bulk::orders::queue::Batch;
use crate::sell::bulk::orders::window::{Row, Window};

/// Arguments of `mixed_orders` before those of the first activity, and of each activity without request ids.
const MIXED_HEAD: usize = 6;
const MIXED_WIDTH: usize = 5;

/// Encodes batches: what all calls of a run have in common is encoded once.
#[derive(Debug)]
pub(crate) struct Encoder {
    /// `EVALSHA` and the script.
    call: Vec<u8>,
    /// ARGV[1..2]: kind and by.
    run: Vec<u8>,
    /// ARGV[5..6]: the job and its digest.
    job: Vec<u8>,
    /// ARGV[11]: whether replies say what users hold.
    rows: bool,
    /// ARGV[12]: why, for all orders.
    reason: String,
    /// ARGV[14]: the caller's limit; or empty.
    limit: String,
    /// `EVALSHA` and `mixed_orders`, and its ARGV[1..6].
    mixed_call: Vec<u8>,
    mixed_run: Vec<u8>,
    /// Whether any order so far had a request id.
    pub(crate) has_requests: bool,
    /// Columns are written here first, because their length comes before them.
    lines: Vec<u8>,
    column: Vec<u8>,
    /// Whether the script's `KEYS` end with the deadlines of holds.
    knows_holds: bool,
    /// The step of `settle`, which is in place of quantities.
    step: Option<&'static str>,
}

/// Which columns the orders of a call need.
#[derive(Debug)]
struct Shape {
    /// The quantity of all of them, if they have the same.
    quantity: Option<u32>,
    requests: bool,
    reasons: bool,
}

/// The rows of a batch.
fn rows<'w>(batch: &Batch, window: &'w Window) -> impl Iterator<Item = &'w Row> {
    let mut number = batch.first;
    (0..batch.count).map(move |_| {
        let row = window.row(number);
        number += u64::from(row.next);
        row
    })
}

impl Encoder {
    pub(crate) fn new(script: &Script, operation: Operation, run: [&str; 4], job: [&str; 2], rows: bool) -> Self {
        let joined = |parts: &[&str]| {
            let mut bytes = Vec::new();
            parts.iter().for_each(|part| argument(&mut bytes, part.as_bytes()));
            bytes
        };
        let [kind, by, reason, limit] = run;
        let [name, digest] = job;
        Self {
            mixed_call: joined(&["EVALSHA", MIXED_ORDERS.sha1]),
            mixed_run: joined(&[operation.name(), by, reason, name, digest, if rows { "1" } else { "" }]),
            has_requests: false,
            call: joined(&["EVALSHA", script.sha1]),
            run: joined(&[kind, by]),
            job: joined(&job),
            rows,
            reason: reason.to_owned(),
            limit: limit.to_owned(),
            lines: Vec::new(),
            column: Vec::new(),
            knows_holds: script.knows_holds(),
            step: operation.settles().then(|| operation.name()),
        }
    }

    /// Appends the call of one batch, or of several that share it.
    pub(crate) fn encode(&mut self, out: &mut Vec<u8>, batches: &[Batch], states: &JobStates, window: &Window) {
        match batches {
            [batch] => self.encode_alone(out, batch, states, window),
            _ => self.encode_mixed(out, batches, states, window),
        }
    }

    fn encode_mixed(&mut self, out: &mut Vec<u8>, batches: &[Batch], states: &JobStates, window: &Window) {
        let keys: Vec<_> = batches.iter().map(|batch| states.keys(batch.activity)).collect();
        let key_count = keys.iter().map(|keys| keys.in_order().count()).sum::<usize>();
        let width = MIXED_WIDTH + usize::from(self.has_requests);
        command(out, 3 + key_count + MIXED_HEAD + width * batches.len());
        out.extend_from_slice(&self.mixed_call);
        number(out, key_count as u64);
        keys.iter().flat_map(|keys| keys.in_order()).for_each(|key| argument(out, key.as_bytes()));
        out.extend_from_slice(&self.mixed_run);
        for batch in batches {
            let shape = self.shape(batch, window);
            let rows = || rows(batch, window);
            argument(out, states.epoch(batch.activity));
            number(out, batch.before);
            argument(out, &self.lines);
            self.quantities(out, &shape, rows());
            self.texts(out, rows().map(|row| window.texts(row)[0]));
            if shape.requests {
                self.texts(out, rows().map(|row| window.texts(row)[1]));
            } else if self.has_requests {
                argument(out, b"");
            }
        }
    }

    fn encode_alone(&mut self, out: &mut Vec<u8>, batch: &Batch, states: &JobStates, window: &Window) {
        let (epoch, keys) = (states.epoch(batch.activity), states.keys(batch.activity));
        let shape = self.shape(batch, window);
        let names: Vec<&str> = if self.knows_holds { keys.all().collect() } else { keys.in_order().collect() };
        // ARGV[10..15]; those at the end that are empty are left out.
        let given = [!self.reason.is_empty(), shape.reasons, !self.limit.is_empty()];
        let optional = [shape.requests, self.rows, given[0], given[1], given[2], batch.borrows];
        let needed = optional.iter().rposition(|is_given| *is_given).map_or(0, |last| last + 1);
        command(out, 3 + names.len() + 9 + needed);
        out.extend_from_slice(&self.call);
        number(out, names.len() as u64);
        names.iter().for_each(|key| argument(out, key.as_bytes()));
        out.extend_from_slice(&self.run);
        let rows = || rows(batch, window);
        self.texts(out, rows().map(|row| window.texts(row)[0]));
        match self.step {
            Some(step) => argument(out, step.as_bytes()),
            None => self.quantities(out, &shape, rows()),
        }
        out.extend_from_slice(&self.job);
        argument(out, epoch);
        number(out, batch.before);
        argument(out, &self.lines);
        for (at, is_given) in optional[..needed].iter().enumerate() {
            match (is_given, at) {
                (false, _) => argument(out, b""),
                (true, 0) => self.texts(out, rows().map(|row| window.texts(row)[1])),
                (true, 1) => argument(out, b"1"),
                (true, 2) => argument(out, self.reason.as_bytes()),
                (true, 3) => self.texts(out, rows().map(|row| window.texts(row)[2])),
                (true, 4) => argument(out, self.limit.as_bytes()),
                (true, _) => argument(out, b"borrow"),
            }
        }
    }

    /// Appends texts as a JSON array.
    fn texts<'a>(&mut self, out: &mut Vec<u8>, texts: impl Iterator<Item = &'a [u8]>) {
        self.column.clear();
        for text in texts {
            self.column.push(if self.column.is_empty() { b'[' } else { b',' });
            json(&mut self.column, text);
        }
        self.column.push(b']');
        argument(out, &self.column);
    }

    /// Appends the quantity of all rows, or a JSON array of the quantity of each.
    fn quantities<'w>(&mut self, out: &mut Vec<u8>, shape: &Shape, rows: impl Iterator<Item = &'w Row>) {
        if let Some(quantity) = shape.quantity {
            number(out, u64::from(quantity));
            return;
        }
        self.column.clear();
        for row in rows {
            self.column.extend_from_slice(if self.column.is_empty() { b"[\"" } else { b",\"" });
            decimal(&mut self.column, u64::from(row.quantity));
            self.column.push(b'"');
        }
        self.column.push(b']');
        argument(out, &self.column);
    }

    /// Encodes the lines of a batch, and finds which columns its orders need.
    fn shape(&mut self, batch: &Batch, window: &Window) -> Shape {
        let first = window.row(batch.first);
        let mut shape = Shape { quantity: Some(first.quantity), requests: false, reasons: false };
        let mut next_line = first.line;
        let mut is_gapless = true;
        for row in rows(batch, window) {
            shape.quantity = shape.quantity.filter(|quantity| *quantity == row.quantity);
            let [_, request, reason] = window.texts(row);
            shape.requests |= !request.is_empty();
            shape.reasons |= !reason.is_empty();
            is_gapless &= row.line == next_line;
            next_line = row.line + 1;
        }
        self.lines.clear();
        if is_gapless {
            decimal(&mut self.lines, first.line);
            self.lines.push(b'-');
            decimal(&mut self.lines, next_line - 1);
        } else {
            for row in rows(batch, window) {
                if !self.lines.is_empty() {
                    self.lines.push(b' ');
                }
                decimal(&mut self.lines, row.line);
            }
        }
        shape
    }
}

/// Appends a text as JSON. Only what must be escaped is: the scripts read anything else as it is.
fn json(out: &mut Vec<u8>, text: &[u8]) {
    out.push(b'"');
    if text.iter().all(|byte| !matches!(byte, b'"' | b'\\' | 0..=31)) {
        out.extend_from_slice(text);
    } else {
        for byte in text {
            match byte {
                b'"' | b'\\' => out.extend_from_slice(&[b'\\', *byte]),
                0..=31 => out.extend_from_slice(format!("\\u{byte:04x}").as_bytes()),
                _ => out.push(*byte),
            }
        }
    }
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_escaped_as_json_wants_it() {
        for text in ["7", "", "用户 \u{7f}", "q\"uote \\ back", "tab\t line\n \u{1}"] {
            let mut out = Vec::new();
            json(&mut out, text.as_bytes());
            assert_eq!(serde_json::from_slice::<String>(&out).unwrap(), text);
        }
    }
}
