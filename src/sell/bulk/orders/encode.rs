//! Calls for a batch of orders, or for batches of several activities: see the headers of the scripts.

use crate::model::layout::Kind;
use crate::redis::connection::resp::{argument, command, number};
use crate::script::keys::Keys;
use crate::sell::bulk::columns::{Columns, are_distinct, is_given};
use crate::sell::bulk::job::JobStates;
use crate::sell::bulk::operation::Operation;
use crate::sell::bulk::orders::queue::Batch;
use crate::sell::bulk::orders::window::{Row, Window};

/// Arguments of a shared call before those of the first activity, and of each activity without request ids and reasons.
const SHARED_HEAD: usize = 8;
const SHARED_WIDTH: usize = 5;

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
    /// ARGV[12]: why, for all orders that do not say it themselves.
    pub(crate) reason: String,
    /// ARGV[14]: the caller's limit, of holds how long they are held, ms; or empty.
    limit: String,
    /// ARGV[1..7] of a call that several activities share.
    shared: Vec<u8>,
    /// Whether any order so far had a request id.
    pub(crate) has_requests: bool,
    columns: Columns,
    /// Whether the script's `KEYS` end with the deadlines of holds.
    knows_holds: bool,
    /// The step of `settle`, which is in place of quantities.
    step: Option<&'static str>,
}

/// The rows of a batch.
pub(crate) fn rows<'w>(batch: &Batch, window: &'w Window) -> impl Iterator<Item = &'w Row> + Clone + use<'w> {
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
            shared: joined(&[kind.name(), by, name, digest, if rows { "1" } else { "" }, reason, limit]),
            has_requests: false,
            call: joined(&["EVALSHA", script.sha1]),
            run: joined(&[kind.name(), by]),
            job: joined(&job),
            rows,
            reason: reason.to_owned(),
            limit: limit.to_owned(),
            columns: Columns::default(),
            knows_holds: script.knows_holds(),
            step: operation.settles().then(|| operation.name()),
        }
    }

    /// Appends the call of one batch, or of several that share it.
    pub(crate) fn encode(&mut self, out: &mut Vec<u8>, batches: &[Batch], states: &JobStates, window: &Window) {
        match batches {
            [batch] if states.operation != Operation::MultiDeduct => self.encode_alone(out, batch, states, window),
            _ => self.encode_shared(out, batches, states, window),
        }
    }

    fn encode_shared(&mut self, out: &mut Vec<u8>, batches: &[Batch], states: &JobStates, window: &Window) {
        let keys: Vec<Keys> = batches.iter().map(|batch| states.keys(batch.activity)).collect();
        let key_count = keys.iter().map(|keys| keys.in_order().count()).sum::<usize>();
        let texts = |batch: &Batch, at: usize| rows(batch, window).map(move |row| window.texts(row)[at]);
        let [has_requests, has_reasons] = [1, 2].map(|at| batches.iter().any(|batch| is_given(texts(batch, at))));
        let width = if has_reasons { SHARED_WIDTH + 2 } else { SHARED_WIDTH + usize::from(has_requests) };
        let is_distinct = batches.iter().all(|batch| [0, 1].into_iter().all(|at| are_distinct(texts(batch, at))));
        command(out, 3 + key_count + SHARED_HEAD + width * batches.len());
        out.extend_from_slice(&self.call);
        number(out, key_count as u64);
        keys.iter().flat_map(Keys::in_order).for_each(|key| argument(out, key.as_bytes()));
        out.extend_from_slice(&self.shared);
        argument(out, if is_distinct { b"1" } else { b"" });
        for batch in batches {
            let rows = rows(batch, window);
            argument(out, states.epoch(batch.activity));
            number(out, batch.before);
            self.columns.lines(out, rows.clone().map(|row| row.line));
            self.columns.quantities(out, rows.map(|row| u64::from(row.quantity)));
            self.columns.texts(out, texts(batch, 0));
            for at in 1..=width - SHARED_WIDTH {
                if is_given(texts(batch, at)) {
                    self.columns.texts(out, texts(batch, at));
                } else {
                    argument(out, b"");
                }
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
        let is_distinct = are_distinct(texts(0)) && (self.step.is_some() || are_distinct(texts(1)));
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
