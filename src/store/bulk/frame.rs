//! Calls as the bytes that go to the server, built in one buffer that is used again and again.

use super::super::keys::Keys;
use super::super::scripts::Script;
use super::queue::{Batch, Queue};
use super::window::Window;

/// Appends a number in decimal digits.
pub(super) fn decimal(out: &mut Vec<u8>, mut number: u64) {
    let mut digits = [0; 20];
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
    out.extend_from_slice(&digits[at..]);
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
    digits: Vec<u8>,
}

impl Frame {
    pub(super) fn new(script: &Script, run: [&str; 5], job: [&str; 2], rows: bool) -> Self {
        let joined = |parts: &[&str]| {
            let mut bytes = Vec::new();
            parts.iter().for_each(|part| argument(&mut bytes, part.as_bytes()));
            bytes
        };
        Self {
            call: joined(&["EVALSHA", &script.sha1]),
            run: joined(&run),
            job: joined(&job),
            rows,
            lines: Vec::new(),
            digits: Vec::new(),
        }
    }

    /// Appends the call of one batch.
    pub(super) fn write(&mut self, out: &mut Vec<u8>, batch: &Batch, queue: &Queue, keys: &Keys, window: &Window) {
        let mut width = 2;
        self.lines.clear();
        let mut number = batch.first;
        for nth in 0..batch.count {
            let row = window.row(number);
            width = width.max(row.width());
            if nth > 0 {
                self.lines.push(b' ');
            }
            decimal(&mut self.lines, row.line);
            number += u64::from(row.next);
        }

        let key_count = keys.in_order().count();
        begin(out, 3 + key_count + 12 + batch.count * width);
        out.extend_from_slice(&self.call);
        self.number(out, key_count as u64);
        keys.in_order().for_each(|key| argument(out, key.as_bytes()));
        out.extend_from_slice(&self.run);
        self.number(out, width as u64);
        out.extend_from_slice(&self.job);
        argument(out, queue.epoch.as_deref().unwrap_or_default().as_bytes());
        self.number(out, batch.before);
        argument(out, &self.lines);
        argument(out, if self.rows { b"1" } else { b"0" });

        let mut number = batch.first;
        for _ in 0..batch.count {
            let row = window.row(number);
            let [user, request, reason] = window.texts(row);
            argument(out, user);
            self.number(out, u64::from(row.quantity));
            if width > 2 {
                argument(out, request);
            }
            if width > 3 {
                argument(out, reason);
            }
            number += u64::from(row.next);
        }
    }

    fn number(&mut self, out: &mut Vec<u8>, number: u64) {
        self.digits.clear();
        decimal(&mut self.digits, number);
        argument(out, &self.digits);
    }
}
