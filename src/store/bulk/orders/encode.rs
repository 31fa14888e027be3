//! Calls of `deduct` and `refund` for a batch of orders: see the headers of the scripts.

use super::queue::Batch;
use super::window::{Row, Window};
use crate::store::keys::Keys;
use crate::store::resp::{argument, command, decimal, number};
use crate::store::scripts::Script;

/// Encodes batches: what all calls of a run have in common is encoded once.
#[derive(Debug)]
pub(super) struct Encoder {
    /// `EVALSHA` and the script.
    call: Vec<u8>,
    /// ARGV[1..5]: kind, by, reason, limit, mode.
    run: Vec<u8>,
    /// ARGV[7..8]: the job and its digest.
    job: Vec<u8>,
    /// ARGV[12]: whether replies say what users hold.
    rows: bool,
    lines: Vec<u8>,
}

/// Which columns the orders of a call need.
#[derive(Debug)]
struct Shape {
    /// The quantity of all of them, if they have the same.
    quantity: Option<u32>,
    requests: bool,
    reasons: bool,
}

impl Shape {
    fn columns(&self) -> usize {
        match self {
            Self { reasons: true, .. } => 3 + usize::from(self.quantity.is_none()),
            Self { requests: true, .. } => 2 + usize::from(self.quantity.is_none()),
            _ => 1 + usize::from(self.quantity.is_none()),
        }
    }
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
    pub(super) fn new(script: &Script, run: [&str; 5], job: [&str; 2], rows: bool) -> Self {
        let joined = |parts: &[&str]| {
            let mut bytes = Vec::new();
            parts.iter().for_each(|part| argument(&mut bytes, part.as_bytes()));
            bytes
        };
        Self { call: joined(&["EVALSHA", script.sha1]), run: joined(&run), job: joined(&job), rows, lines: Vec::new() }
    }

    /// Appends the call of one batch.
    pub(super) fn encode(&mut self, out: &mut Vec<u8>, batch: &Batch, epoch: &[u8], keys: &Keys, window: &Window) {
        let shape = self.shape(batch, window);
        let key_count = keys.in_order().count();
        command(out, 3 + key_count + 13 + batch.count * shape.columns());
        out.extend_from_slice(&self.call);
        number(out, key_count as u64);
        keys.in_order().for_each(|key| argument(out, key.as_bytes()));
        out.extend_from_slice(&self.run);
        number(out, batch.count as u64);
        out.extend_from_slice(&self.job);
        argument(out, epoch);
        number(out, batch.before);
        argument(out, &self.lines);
        argument(out, if self.rows { b"1" } else { b"0" });
        match shape.quantity {
            Some(quantity) => number(out, u64::from(quantity)),
            None => argument(out, b""),
        }

        let rows = || rows(batch, window);
        rows().for_each(|row| argument(out, window.texts(row)[0]));
        if shape.quantity.is_none() {
            rows().for_each(|row| number(out, u64::from(row.quantity)));
        }
        if shape.requests || shape.reasons {
            rows().for_each(|row| argument(out, window.texts(row)[1]));
        }
        if shape.reasons {
            rows().for_each(|row| argument(out, window.texts(row)[2]));
        }
    }

    /// Encodes the lines of a batch, and finds which columns its orders need.
    fn shape(&mut self, batch: &Batch, window: &Window) -> Shape {
        let first = window.row(batch.first);
        let mut shape = Shape { quantity: Some(first.quantity), requests: false, reasons: false };
        let mut next_line = first.line;
        let mut is_gapless = true;
        for row in rows(batch, window) {
            shape.quantity = shape.quantity.filter(|quantity| *quantity == row.quantity);
            shape.requests |= row.has_request();
            shape.reasons |= row.has_reason();
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
