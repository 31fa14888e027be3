//! Valid calls of `multi_deduct`.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::AsArguments;
use super::calls::{request, user};
use super::twins::Twins;
use crate::support::Layout;

pub const ACTIVITIES: [&str; 3] = ["1", "2", "3"];

/// A user, a request id and the quantity of each activity, 0 for none.
type Order = (usize, usize, [u64; 3]);

/// Orders of a job, or the first of them alone.
#[derive(Clone, Debug)]
pub struct MultiCall {
    orders: Vec<Order>,
    is_job: bool,
    is_uniform: bool,
    /// The line before, and the first line, from the last one that the job decided.
    before: i64,
    first: i64,
    stride: usize,
    mode: &'static str,
    by: &'static str,
    reason: &'static str,
    digest: &'static str,
    epoch: &'static str,
    rows: &'static str,
}

pub fn call() -> impl Strategy<Value = MultiCall> {
    let user = prop_oneof![20 => 1..5_usize, 60 => 5..31_usize, 1 => 31..36_usize];
    let request = prop_oneof![30 => Just(0_usize), 2 => 1..61_usize];
    let quantity = || prop_oneof![2 => Just(0_u64), 6 => Just(1), 1 => 2..4_u64];
    let order = (user, request, [quantity(), quantity(), quantity()]);
    let orders = proptest::collection::vec(order, 1..7);
    let lines = (
        prop_oneof![30 => Just(0_i64), 1 => -2..3_i64],
        prop_oneof![20 => Just(1_i64), 2 => 2..4_i64, 2 => -3..1_i64],
        prop_oneof![3 => Just(1_usize), 1 => 2..4_usize],
    );
    let words = (
        prop_oneof![24 => Just("first"), 1 => Just("retry"), 1 => Just("dry")],
        prop_oneof![24 => Just("tester"), 1 => Just("")],
        prop_oneof![9 => Just(""), 1 => Just("gift")],
        prop_oneof![30 => Just("d"), 1 => Just("e"), 1 => Just("")],
        prop_oneof![30 => Just("1"), 1 => Just("2"), 1 => Just("")],
        prop_oneof![Just(""), Just("1"), Just("0")],
    );
    (orders, prop::bool::weighted(0.9), any::<bool>(), lines, words).prop_map(
        |(orders, is_job, is_uniform, (before, first, stride), (mode, by, reason, digest, epoch, rows))| MultiCall {
            orders,
            is_job,
            is_uniform,
            before,
            first,
            stride,
            mode,
            by,
            reason,
            digest,
            epoch,
            rows,
        },
    )
}

/// The columns of one activity.
#[derive(Default)]
struct Columns {
    lines: Vec<u64>,
    quantities: Vec<String>,
    users: Vec<String>,
    requests: Vec<String>,
}

impl AsArguments for MultiCall {
    fn arguments(&self, layout: Layout, twins: &mut Twins) -> (&'static str, Vec<String>, Vec<Vec<u8>>) {
        let watermarks = ACTIVITIES.map(|activity| twins.watermark(activity, "\tj:multi_deduct:j"));
        let newest = watermarks.into_iter().max().unwrap();
        let lines = (newest.saturating_add_signed(self.first)..).step_by(self.stride);
        let mut columns: BTreeMap<usize, Columns> = BTreeMap::new();
        let count = if self.is_job { self.orders.len() } else { 1 };
        for ((number, id, quantities), line) in self.orders.iter().take(count).zip(lines) {
            for (which, quantity) in quantities.iter().enumerate().filter(|(_, quantity)| **quantity > 0) {
                let column = columns.entry(which).or_default();
                column.lines.push(line);
                column.quantities.push(if self.is_uniform { 1 } else { *quantity }.to_string());
                column.users.push(if layout.has_users() { user(*number) } else { String::new() });
                column.requests.push(request(*id));
            }
        }
        let keys = columns.keys().flat_map(|which| layout.keys(ACTIVITIES[*which])).collect();
        let mut args = [layout.kind, self.by, self.mode, self.reason].map(str::to_owned).to_vec();
        if self.is_job {
            args.extend(["j", self.digest, self.rows].map(str::to_owned));
        } else {
            let (number, id, _) = self.orders[0];
            args.extend([String::new(), if layout.has_users() { user(number) } else { String::new() }, request(id)]);
        }
        let json = |texts: &[String]| serde_json::to_string(texts).unwrap();
        for (which, column) in &columns {
            if !self.is_job {
                args.push(column.quantities[0].clone());
                continue;
            }
            let (first, last) = (column.lines[0], column.lines[column.lines.len() - 1]);
            let is_range = last - first + 1 == column.lines.len() as u64 && self.stride == 1;
            let listed = column.lines.iter().map(u64::to_string).collect::<Vec<_>>().join(" ");
            args.extend([
                self.epoch.to_owned(),
                watermarks[*which].saturating_add_signed(self.before).to_string(),
                if is_range { format!("{first}-{last}") } else { listed },
                if self.is_uniform { "1".to_owned() } else { json(&column.quantities) },
                json(&column.users),
                if column.requests.iter().all(String::is_empty) { String::new() } else { json(&column.requests) },
                String::new(),
            ]);
        }
        ("multi_deduct", keys, args.into_iter().map(String::into_bytes).collect())
    }
}
