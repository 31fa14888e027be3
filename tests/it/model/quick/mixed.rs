//! Valid calls of `mixed_orders`, and what `deduct` or `refund` must do with the same orders.

use proptest::prelude::*;

use super::AsArguments;
use super::calls::{Order, request, user};
use super::multi::ACTIVITIES;
use super::twins::Twins;
use crate::support::Layout;

/// The arguments before those of the first activity.
const HEAD: usize = 6;

/// The orders of one activity.
#[derive(Clone, Debug)]
struct Part {
    orders: Vec<Order>,
    is_uniform: bool,
    /// The line before, and the first line, from the last one that the job decided.
    before: i64,
    first: i64,
    stride: usize,
    epoch: &'static str,
    has_requests: bool,
}

/// The orders of a job in some activities.
#[derive(Clone, Debug)]
pub struct MixedCall {
    op: &'static str,
    parts: [Option<Part>; 3],
    has_requests: bool,
    by: &'static str,
    reason: &'static str,
    digest: &'static str,
    rows: &'static str,
}

fn part() -> impl Strategy<Value = Part> {
    let user = prop_oneof![20 => 1..5_usize, 60 => 5..31_usize, 1 => 31..36_usize];
    let request = prop_oneof![5 => 1..6_usize, 90 => 6..61_usize, 1 => 61..65_usize, 1 => Just(0)];
    let order = (user, prop_oneof![20 => Just(1_u64), 9 => 2..4_u64, 1 => Just(1_000_000_000)], request);
    (
        proptest::collection::vec(order, 1..6),
        any::<bool>(),
        prop_oneof![30 => Just(0_i64), 1 => -2..3_i64],
        prop_oneof![20 => Just(1_i64), 2 => 2..4_i64, 2 => -3..1_i64],
        prop_oneof![3 => Just(1_usize), 1 => 2..4_usize],
        prop_oneof![30 => Just("1"), 1 => Just("2"), 1 => Just("")],
        prop::bool::weighted(0.8),
    )
        .prop_map(|(orders, is_uniform, before, first, stride, epoch, has_requests)| Part {
            orders,
            is_uniform,
            before,
            first,
            stride,
            epoch,
            has_requests,
        })
}

pub fn call() -> impl Strategy<Value = MixedCall> {
    let part = || proptest::option::weighted(0.8, part());
    (
        prop_oneof![2 => Just("deduct"), 1 => Just("refund")],
        [part(), part(), part()],
        any::<bool>(),
        prop_oneof![24 => Just("tester"), 1 => Just(""), 1 => Just("q\"uote")],
        prop_oneof![9 => Just(""), 1 => Just("gift")],
        prop_oneof![30 => Just("d"), 1 => Just("e"), 1 => Just("")],
        prop_oneof![Just(""), Just("1"), Just("0")],
    )
        .prop_map(|(op, parts, has_requests, by, reason, digest, rows)| MixedCall {
            op,
            parts,
            has_requests,
            by,
            reason,
            digest,
            rows,
        })
}

impl AsArguments for MixedCall {
    fn arguments(&self, layout: Layout, twins: &mut Twins) -> (&'static str, Vec<String>, Vec<Vec<u8>>) {
        let mut args = [self.op, self.by, self.reason, "j", self.digest, self.rows].map(str::to_owned).to_vec();
        let mut keys = Vec::new();
        for (activity, part) in ACTIVITIES.into_iter().zip(&self.parts) {
            let Some(part) = part else { continue };
            keys.extend(layout.keys(activity));
            let watermark = twins.watermark(activity, &format!("\tj:{}:j", self.op));
            let lines: Vec<u64> =
                (watermark.saturating_add_signed(part.first)..).step_by(part.stride).take(part.orders.len()).collect();
            let (first, last) = (lines[0], lines[lines.len() - 1]);
            let quantity = |order: &Order| (if part.is_uniform { part.orders[0].1 } else { order.1 }).to_string();
            let column = |of: &dyn Fn(&Order) -> String| {
                serde_json::to_string(&part.orders.iter().map(of).collect::<Vec<_>>()).unwrap()
            };
            args.extend([
                part.epoch.to_owned(),
                watermark.saturating_add_signed(part.before).to_string(),
                match part.stride {
                    1 => format!("{first}-{last}"),
                    _ => lines.iter().map(u64::to_string).collect::<Vec<_>>().join(" "),
                },
                if part.is_uniform { quantity(&part.orders[0]) } else { column(&quantity) },
                column(&|(number, ..)| user(*number)),
            ]);
            if self.has_requests {
                let requests = column(&|(_, _, number)| request(*number));
                args.push(if part.has_requests { requests } else { String::new() });
            }
        }
        ("mixed_orders", keys, args.into_iter().map(String::into_bytes).collect())
    }
}

/// The calls of `deduct` or `refund` that mean the same as one of `mixed_orders`: the script, and the arguments for each
/// activity.
pub fn alone(args: &[Vec<u8>], activities: usize) -> (&'static str, Vec<Vec<Vec<u8>>>) {
    let op = if args[0] == b"refund" { "refund_file" } else { "deduct_file" };
    let width = (args.len() - HEAD) / activities;
    let part = |part: &[Vec<u8>]| {
        let [by, reason, job, digest, rows] = [1, 2, 3, 4, 5].map(|at| args[at].clone());
        let [epoch, before, lines, quantity, users] = [0, 1, 2, 3, 4].map(|at| part[at].clone());
        let requests = part.get(5).cloned().unwrap_or_default();
        [b"hash".to_vec(), by, users, quantity, job, digest, epoch, before, lines, requests, rows, reason].to_vec()
    };
    (op, args[HEAD..].chunks(width).map(part).collect())
}
