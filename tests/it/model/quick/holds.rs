//! Valid calls of `hold` and `settle`, as the tool and a backend send them.

use proptest::prelude::*;

use super::AsArguments;
use super::calls::{Order, request, user};
use super::twins::Twins;
use crate::support::Layout;

/// A call of `hold`, or with a step one of `settle`.
#[derive(Clone, Debug)]
pub struct HoldCall {
    step: Option<&'static str>,
    mode: &'static str,
    by: &'static str,
    reason: &'static str,
    orders: Vec<Order>,
    is_uniform: bool,
    job: Option<Job>,
    duration: &'static str,
    order: &'static str,
}

/// Where a batch of a job is, relative to the last line that the job decided.
#[derive(Clone, Debug)]
struct Job {
    before: i64,
    first: i64,
    stride: usize,
    epoch: &'static str,
    digest: &'static str,
    rows: &'static str,
}

pub fn call() -> impl Strategy<Value = HoldCall> {
    let user = prop_oneof![20 => 1..5_usize, 40 => 5..31_usize, 1 => 31..36_usize];
    let request = prop_oneof![10 => 1..6_usize, 60 => 6..61_usize, 1 => 61..65_usize];
    let order = (user, prop_oneof![20 => Just(1_u64), 9 => 2..4_u64, 1 => Just(1_000_000_000)], request);
    let job = (
        prop_oneof![24 => Just(0_i64), 1 => -2..3_i64],
        prop_oneof![16 => Just(1_i64), 2 => 2..4_i64, 1 => -3..1_i64],
        prop_oneof![3 => Just(1_usize), 1 => 2..4_usize],
        prop_oneof![20 => Just("1"), 1 => Just("2"), 1 => Just("")],
        prop_oneof![30 => Just("d"), 1 => Just("e")],
        prop_oneof![6 => Just(""), 1 => Just("1")],
    );
    let job =
        job.prop_map(|(before, first, stride, epoch, digest, rows)| Job { before, first, stride, epoch, digest, rows });
    (
        prop_oneof![6 => Just(None), 8 => Just(Some("confirm")), 1 => Just(Some("release")), 1 => Just(Some("expire")),
            1 => Just(Some("abort"))],
        prop_oneof![24 => Just("first"), 1 => Just("retry"), 1 => Just("dry"), 1 => Just("borrow")],
        prop_oneof![24 => Just("tester"), 1 => Just(""), 1 => Just("q\"uote")],
        prop_oneof![20 => Just(""), 1 => Just("gift")],
        prop_oneof![4 => proptest::collection::vec(order.clone(), 1), 5 => proptest::collection::vec(order, 1..7)],
        any::<bool>(),
        proptest::option::weighted(0.6, job),
        prop_oneof![20 => Just("900000"), 1 => Just("1"), 1 => Just("31536000000")],
        prop_oneof![30 => Just(""), 1 => Just("-"), 1 => Just("m:seckill:stock:2")],
    )
        .prop_map(|(step, mode, by, reason, mut orders, is_uniform, job, duration, order)| {
            if job.is_none() && orders[0].2 % 4 > 0 || step == Some("expire") {
                orders.truncate(1);
            }
            // Without a job, mostly one is held.
            let job = job.filter(|_| step != Some("expire") && (step.is_some() || orders.len() > 1));
            if step.is_none() && job.is_none() && orders.len() < 5 {
                orders.truncate(1);
            }
            HoldCall { step, mode, by, reason, orders, is_uniform, job, duration, order }
        })
}

impl AsArguments for HoldCall {
    fn arguments(&self, layout: Layout, twins: &mut Twins) -> (&'static str, Vec<String>, Vec<Vec<u8>>) {
        let mut args = [layout.kind, self.by].map(str::to_owned).to_vec();
        let quantity = |order: &Order| (if self.is_uniform { self.orders[0].1 } else { order.1 }).to_string();
        let column = |of: &dyn Fn(&Order) -> String| {
            serde_json::to_string(&self.orders.iter().map(of).collect::<Vec<_>>()).unwrap()
        };
        // Mostly, what is settled is open, and each is settled once.
        let open = if self.step.is_some() { twins.open("1") } else { Vec::new() };
        let id_of = |(nth, order): (usize, &Order)| match order.2 {
            number if number % 8 > 0 && nth < open.len() => open[(self.orders[0].2 + nth) % open.len()].clone(),
            number => request(number),
        };
        let ids: Vec<String> = self.orders.iter().enumerate().map(id_of).collect();
        let users = |order: &Order| user(order.0);
        let is_single = self.job.is_none() && self.orders.len() == 1;
        // What may be left out at the end.
        let mut optional = Vec::new();
        let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        match self.step {
            None if is_single => {
                let order = &self.orders[0];
                args.extend([users(order), quantity(order), ids[0].clone()]);
                args.extend(texts(&[self.mode, self.reason, self.duration]));
            }
            Some(step) if is_single => {
                let most = if step == "expire" { "3".to_owned() } else { ids[0].clone() };
                args.extend([most, step.to_owned()]);
                optional = texts(&[self.order, self.mode, self.reason]);
            }
            _ => {
                let ids = serde_json::to_string(&ids).unwrap();
                args.push(if self.step.is_some() { ids.clone() } else { column(&users) });
                args.push(match self.step {
                    Some(step) => step.to_owned(),
                    None if self.is_uniform => quantity(&self.orders[0]),
                    None => column(&quantity),
                });
                args.extend(self.job_arguments(twins));
                let rows = self.job.as_ref().map_or("", |job| job.rows);
                if self.step.is_some() {
                    optional = texts(&["", rows, self.reason, "", self.order, self.mode]);
                } else {
                    args.push(ids);
                    args.extend(texts(&[rows, self.reason, "", self.duration]));
                    optional = texts(&[self.mode]);
                }
            }
        }
        let needed =
            optional.iter().rposition(|text| !["", "first"].contains(&text.as_str())).map_or(0, |last| last + 1);
        args.extend(optional.into_iter().take(needed));
        let script = match self.step {
            Some(_) => "settle",
            None if is_single => "hold",
            None => "hold_file",
        };
        (script, layout.all_keys("1"), args.into_iter().map(String::into_bytes).collect())
    }
}

impl HoldCall {
    /// Name, digest, epoch, the line before, and lines; empty without a job.
    fn job_arguments(&self, twins: &mut Twins) -> [String; 5] {
        let Some(job) = &self.job else { return [const { String::new() }; 5] };
        let watermark = twins.watermark("1", &format!("\tj:{}:j", self.step.unwrap_or("hold")));
        let (before, first) = (watermark.saturating_add_signed(job.before), watermark.saturating_add_signed(job.first));
        let lines: Vec<u64> = (first..).step_by(job.stride).take(self.orders.len()).collect();
        let text = match job.stride {
            1 => format!("{first}-{}", lines[lines.len() - 1]),
            _ => lines.iter().map(u64::to_string).collect::<Vec<_>>().join(" "),
        };
        ["j".to_owned(), job.digest.to_owned(), job.epoch.to_owned(), before.to_string(), text]
    }
}
