//! Calls of `deduct` and `refund` for a batch of orders, and of `mixed_orders` for several: see the headers of the
//! scripts.

use hashbrown::HashSet;

use crate::model::layout::Kind;
use crate::redis::connection::resp::{argument, command, number};
use crate::script::MIXED_ORDERS;
use crate::sell::bulk::columns::Columns;
use crate::sell::bulk::job::JobStates;
use crate::sell::bulk::operation::Operation;
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
    columns: Columns,
    /// Whether the script's `KEYS` end with the deadlines of holds.
    knows_holds: bool,
    /// Whether the script asks for users and request ids that come once: ARGV[16].
    asks_distinct: bool,
    /// The step of `settle`, which is in place of quantities.
    step: Option<&'static str>,
}

/// The rows of a batch.
fn rows<'w>(batch: &Batch, window: &'w Window) -> impl Iterator<Item = &'w Row> + Clone + use<'w> {
    let mut number = batch.first;
    (0..batch.count).map(move |_| {
        let row = window.row(number);
        number += u64::from(row.next);
        row
    })
}

impl Encoder {
    pub(crate) fn new(operation: Operation, kind: Kind, run: [&str; 3], job: [&str; 2], rows: bool) -> Self {
        let joined = |parts: &[&str]| {
            let mut bytes = Vec::new();
            parts.iter().for_each(|part| argument(&mut bytes, part.as_bytes()));
            bytes
        };
        let script = operation.script(kind);
        let [by, reason, limit] = run;
        let [name, digest] = job;
        Self {
            mixed_call: joined(&["EVALSHA", MIXED_ORDERS.sha1]),
            mixed_run: joined(&[operation.name(), by, reason, name, digest, if rows { "1" } else { "" }]),
            has_requests: false,
            call: joined(&["EVALSHA", script.sha1]),
            run: joined(&[kind.name(), by]),
            job: joined(&job),
            rows,
            reason: reason.to_owned(),
            limit: limit.to_owned(),
            columns: Columns::default(),
            knows_holds: script.knows_holds(),
            asks_distinct: !operation.settles(),
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
            let rows = rows(batch, window);
            let texts = |at: usize| rows.clone().map(move |row| window.texts(row)[at]);
            argument(out, states.epoch(batch.activity));
            number(out, batch.before);
            self.columns.lines(out, rows.clone().map(|row| row.line));
            self.columns.quantities(out, rows.clone().map(|row| u64::from(row.quantity)));
            self.columns.texts(out, texts(0));
            if is_given(texts(1)) {
                self.columns.texts(out, texts(1));
            } else if self.has_requests {
                argument(out, b"");
            }
        }
    }

    fn encode_alone(&mut self, out: &mut Vec<u8>, batch: &Batch, states: &JobStates, window: &Window) {
        let (epoch, keys) = (states.epoch(batch.activity), states.keys(batch.activity));
        let names: Vec<&str> = if self.knows_holds { keys.all().collect() } else { keys.in_order().collect() };
        let rows = rows(batch, window);
        let texts = |at: usize| rows.clone().map(move |row| window.texts(row)[at]);
        // ARGV[10..16]; those at the end that are empty are left out.
        let [reason, limit] = [&self.reason, &self.limit].map(|text| !text.is_empty());
        let is_distinct = self.asks_distinct && are_distinct(texts(0)) && are_distinct(texts(1));
        let optional = [is_given(texts(1)), self.rows, reason, is_given(texts(2)), limit, batch.borrows, is_distinct];
        let needed = optional.iter().rposition(|is_given| *is_given).map_or(0, |last| last + 1);
        command(out, 3 + names.len() + 9 + needed);
        out.extend_from_slice(&self.call);
        number(out, names.len() as u64);
        names.iter().for_each(|key| argument(out, key.as_bytes()));
        out.extend_from_slice(&self.run);
        self.columns.texts(out, texts(0));
        match self.step {
            Some(step) => argument(out, step.as_bytes()),
            None => self.columns.quantities(out, rows.clone().map(|row| u64::from(row.quantity))),
        }
        out.extend_from_slice(&self.job);
        argument(out, epoch);
        number(out, batch.before);
        self.columns.lines(out, rows.clone().map(|row| row.line));
        for (at, is_given) in optional[..needed].iter().enumerate() {
            match (is_given, at) {
                (false, _) => argument(out, b""),
                (true, 0) => self.columns.texts(out, texts(1)),
                (true, 1 | 6) => argument(out, b"1"),
                (true, 2) => argument(out, self.reason.as_bytes()),
                (true, 3) => self.columns.texts(out, texts(2)),
                (true, 4) => argument(out, self.limit.as_bytes()),
                (true, _) => argument(out, b"borrow"),
            }
        }
    }
}

/// Whether no text of a column comes twice, but for the empty one.
fn are_distinct<'a>(texts: impl Iterator<Item = &'a [u8]>) -> bool {
    let mut seen = HashSet::new();
    texts.filter(|text| !text.is_empty()).all(|text| seen.insert(text))
}

/// Whether any order has a text in a column.
fn is_given<'a>(mut texts: impl Iterator<Item = &'a [u8]>) -> bool {
    texts.any(|text| !text.is_empty())
}
