//! Calls as the bytes that go to the server, built in one buffer that is used again and again.

use super::super::keys::Keys;
use super::super::scripts::Script;
use super::queue::Batch;
use super::window::{Row, Window};

/// Appends a number in decimal digits.
pub(super) fn decimal(out: &mut Vec<u8>, number: u64) {
    let mut digits = [0; 20];
    out.extend_from_slice(written(number, &mut digits));
}

/// A number in decimal digits.
fn written(mut number: u64, digits: &mut [u8; 20]) -> &[u8] {
    let mut at = digits.len();
    loop {
        at -= 1;
        // A digit is less than 10.
        #[allow(clippy::cast_possible_truncation)]
        let digit = (number % 10) as u8;
        digits[at] = b'0' + digit;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    &digits[at..]
}

/// Appends a number as one argument.
pub(super) fn number(out: &mut Vec<u8>, number: u64) {
    let mut digits = [0; 20];
    argument(out, written(number, &mut digits));
}

/// Appends one argument.
pub(super) fn argument(out: &mut Vec<u8>, bytes: &[u8]) {
    out.push(b'$');
    decimal(out, bytes.len() as u64);
    out.extend_from_slice(b"\r\n");
    out.extend_from_slice(bytes);
    out.extend_from_slice(b"\r\n");
}

/// Begins a command of so many arguments.
pub(super) fn begin(out: &mut Vec<u8>, arguments: usize) {
    out.push(b'*');
    decimal(out, arguments as u64);
    out.extend_from_slice(b"\r\n");
}

/// What is alike in all calls of a run.
#[derive(Debug)]
pub(super) struct Frame {
    /// `EVALSHA` and the script.
    call: Vec<u8>,
    /// ARGV[1..5]: kind, by, reason, limit, mode.
    run: Vec<u8>,
    /// ARGV[7..8]: the job and its digest.
    job: Vec<u8>,
    /// ARGV[12]: whether replies tell what users hold.
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

impl Frame {
    pub(super) fn new(script: &Script, run: [&str; 5], job: [&str; 2], rows: bool) -> Self {
        let joined = |parts: &[&str]| {
            let mut bytes = Vec::new();
            parts.iter().for_each(|part| argument(&mut bytes, part.as_bytes()));
            bytes
        };
        Self { call: joined(&["EVALSHA", script.sha1]), run: joined(&run), job: joined(&job), rows, lines: Vec::new() }
    }

    /// Appends the call of one batch.
    pub(super) fn write(&mut self, out: &mut Vec<u8>, batch: &Batch, epoch: &[u8], keys: &Keys, window: &Window) {
        let shape = self.look(batch, window);
        let key_count = keys.in_order().count();
        begin(out, 3 + key_count + 13 + batch.count * shape.columns());
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

    /// Notes the lines of a batch, and looks what its orders have in common.
    fn look(&mut self, batch: &Batch, window: &Window) -> Shape {
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
