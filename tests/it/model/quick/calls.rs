//! Valid calls, as the tool and a backend send them.

use proptest::prelude::*;

use super::AsArguments;
use super::twins::Twins;
use crate::support::Layout;
use crate::support::scripts::script_of;

/// What an activity is preheated with.
#[derive(Clone, Debug)]
pub struct Shape {
    pub total: u64,
    pub limit: Option<u64>,
    /// Begin and end, as preheat takes them.
    pub window: [&'static str; 2],
    pub ledger: bool,
    pub paused: bool,
}

/// A user, a quantity and a request id by their numbers; the request 0 is none.
pub type Order = (usize, u64, usize);

/// A call of `deduct` or `refund`.
#[derive(Clone, Debug)]
pub struct Call {
    pub script: &'static str,
    pub mode: &'static str,
    pub by: &'static str,
    pub reason: &'static str,
    pub orders: Vec<Order>,
    pub job: Option<Job>,
    /// Whether all quantities are that of the first order.
    pub is_uniform: bool,
    /// Requests are given, and then reasons.
    pub columns: usize,
}

/// Where a batch of a job is, relative to the last line that the job decided.
#[derive(Clone, Debug)]
pub struct Job {
    /// The line before, as the caller knows it.
    pub before: i64,
    /// The first line.
    pub first: i64,
    /// How far apart lines are.
    pub stride: u64,
    /// As a list, though they follow each other.
    pub is_list: bool,
    pub epoch: &'static str,
    pub digest: &'static str,
    pub rows: &'static str,
}

const ODD_USERS: [&str; 5] = ["用户", "a b", "q\"uote", "back\\slash", " 7"];
const ODD_REQUESTS: [&str; 4] = ["with space", "q\"uote", "a,b", "\u{e9}"];
/// The number of no user, for kinds that record none.
const NOBODY: usize = 0;

/// From 1 on; the last ones are unusual.
pub fn user(number: usize) -> String {
    match number {
        NOBODY => String::new(),
        1..=30 => (number + 6).to_string(),
        _ => ODD_USERS[number - 31].to_owned(),
    }
}

pub fn request(number: usize) -> String {
    match number {
        0 => String::new(),
        1..=60 => format!("r{number}"),
        _ => ODD_REQUESTS[number - 61].to_owned(),
    }
}

pub fn call(layout: Layout) -> impl Strategy<Value = Call> {
    let has_users = layout.has_users();
    // Plain ones, with one of another sort now and then.
    let user = prop_oneof![20 => 1..5_usize, 60 => 5..31_usize, 1 => 31..36_usize];
    let request = prop_oneof![10 => 1..6_usize, 90 => 6..61_usize, 1 => 61..65_usize, 1 => Just(0)];
    let order = (user, prop_oneof![20 => Just(1_u64), 9 => 2..4_u64, 1 => Just(1_000_000_000)], request);
    let job = (
        (prop_oneof![24 => Just(0_i64), 1 => -2..3_i64], prop_oneof![16 => Just(1_i64), 2 => 2..4_i64, 2 => -3..1_i64]),
        (prop_oneof![3 => Just(1_u64), 1 => 2..4_u64], prop::bool::weighted(0.2)),
        prop_oneof![20 => Just("1"), 1 => Just("2"), 1 => Just("")],
        prop_oneof![30 => Just("d"), 1 => Just("e"), 1 => Just("")],
        prop_oneof![Just(""), Just("1"), Just("0")],
    )
        .prop_map(|((before, first), (stride, is_list), epoch, digest, rows)| Job {
            before,
            first,
            stride,
            is_list,
            epoch,
            digest,
            rows,
        });
    (
        prop_oneof![2 => Just("deduct"), 1 => Just("refund")],
        prop_oneof![24 => Just("first"), 1 => Just("retry"), 1 => Just("dry")],
        prop_oneof![24 => Just("tester"), 1 => Just(""), 1 => Just("q\"uote")],
        prop_oneof![9 => Just(""), 1 => Just("gift")],
        prop_oneof![2 => proptest::collection::vec(order.clone(), 1), 5 => proptest::collection::vec(order, 1..7)],
        proptest::option::weighted(0.75, job),
        any::<bool>(),
        prop_oneof![4 => Just(0_usize), 4 => Just(1), 1 => Just(2)],
    )
        .prop_map(move |(script, mode, by, reason, mut orders, job, is_uniform, mut columns)| {
            // Without a job, mostly one order with a request id.
            if job.is_none() && orders[0].2 % 4 > 0 {
                orders.truncate(1);
                columns = columns.max(1);
            }
            if !has_users && columns == 0 {
                orders.iter_mut().for_each(|order| order.0 = NOBODY);
            }
            Call { script, mode, by, reason, orders, job, is_uniform, columns }
        })
}

impl AsArguments for Call {
    fn arguments(&self, layout: Layout, twins: &mut Twins) -> (&'static str, Vec<String>, Vec<Vec<u8>>) {
        let watermark = twins.watermark("1", &format!("\tj:{}:j", self.script));
        let quantity = |order: &Order| (if self.is_uniform { self.orders[0].1 } else { order.1 }).to_string();
        let mut args = [layout.kind, self.by].map(str::to_owned).to_vec();
        let is_single = self.job.is_none() && self.orders.len() == 1;
        let optional = if is_single {
            let (number, _, id) = self.orders[0];
            let id = if self.columns > 0 { request(id) } else { String::new() };
            args.extend([user(number), quantity(&self.orders[0]), id]);
            vec![self.mode.to_owned(), self.reason.to_owned()]
        } else {
            let column = |of: &dyn Fn(&Order) -> String, is_given: bool| {
                let texts: Vec<String> = self.orders.iter().map(of).collect();
                if is_given { serde_json::to_string(&texts).unwrap() } else { String::new() }
            };
            args.push(column(&|(number, ..)| user(*number), true));
            args.push(if self.is_uniform { quantity(&self.orders[0]) } else { column(&quantity, true) });
            args.extend(
                self.job.as_ref().map_or([const { String::new() }; 5], |job| self.job_arguments(job, watermark)),
            );
            let requests = column(&|(_, _, number)| request(*number), self.columns > 0);
            let reasons = column(&|_| "why".to_owned(), self.columns > 1);
            let rows = self.job.as_ref().map_or("", |job| job.rows).to_owned();
            vec![requests, rows, self.reason.to_owned(), reasons, String::new(), self.mode.to_owned()]
        };
        // What is empty at the end, or the default, is left out.
        let needed =
            optional.iter().rposition(|text| !["", "first"].contains(&text.as_str())).map_or(0, |last| last + 1);
        args.extend(optional.into_iter().take(needed));
        (script_of(self.script, &args), layout.keys("1"), args.into_iter().map(String::into_bytes).collect())
    }
}

impl Call {
    /// Name, digest, epoch, the line before, and lines.
    fn job_arguments(&self, job: &Job, watermark: u64) -> [String; 5] {
        let (before, first) = (watermark.saturating_add_signed(job.before), watermark.saturating_add_signed(job.first));
        let stride = usize::try_from(job.stride).unwrap();
        let lines: Vec<u64> = (first..).step_by(stride).take(self.orders.len()).collect();
        let text = match (lines[0], lines[lines.len() - 1]) {
            (first, last) if job.stride == 1 && !job.is_list => format!("{first}-{last}"),
            _ => lines.iter().map(u64::to_string).collect::<Vec<_>>().join(" "),
        };
        ["j".to_owned(), job.digest.to_owned(), job.epoch.to_owned(), before.to_string(), text]
    }
}

/// Fields that a call may look up, to be damaged.
pub fn fields(key: usize) -> Vec<&'static str> {
    match key {
        3 => ["\tj:deduct:j", "\tj:refund:j", "\tj:multi_deduct:j", "r1", "r2", "r3", "r20"].to_vec(),
        _ => ["7", "8", "9", "10", "11", "20"].to_vec(),
    }
}
