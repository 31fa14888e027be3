//! Random files of orders and what breaks while they are applied: few users, quantities and request ids, so that they
//! meet, and enough rows for several batches.

use proptest::prelude::*;

use super::super::Orders;
use crate::support::{Fault, Layout};

pub const ACTIVITIES: [&str; 3] = ["a", "b", "c"];

/// What a file asks for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Operation {
    Deduct,
    Refund,
    MultiDeduct,
}

impl Operation {
    pub fn command(self) -> &'static str {
        match self {
            Self::Deduct => "deduct",
            Self::Refund => "refund",
            Self::MultiDeduct => "multi-deduct",
        }
    }
}

/// One order: its items are activities with quantities, and only a multi-order has more than one.
#[derive(Debug, Clone)]
pub struct Row {
    pub items: Vec<(usize, u64)>,
    pub user: u8,
    pub request: Option<u16>,
}

/// What breaks one try.
#[derive(Debug, Clone)]
pub enum Break {
    /// At the n-th command, and the tool gets over it by itself.
    Network(usize, Fault),
    /// The tool is killed when the n-th command has come so far.
    KillTool(usize, Fault),
    /// The server is killed at the n-th command and comes back.
    KillServer(usize),
    /// The server forgets its scripts about then.
    Flush(usize),
    /// It goes back to what it held at the n-th command when so many more have come.
    Forget(usize, usize),
}

#[derive(Debug, Clone, Copy)]
pub enum Form {
    Csv,
    Tsv,
    Jsonl,
}

#[derive(Debug, Clone)]
pub struct Case {
    pub operation: Operation,
    pub layout: Layout,
    pub rows: Vec<Row>,
    pub has_requests: bool,
    pub stock: u64,
    pub limit: Option<u64>,
    /// Each with whether the try is made with `--fast`, whose batches are larger.
    pub breaks: Vec<(Break, bool)>,
    pub form: Form,
}

pub fn cases(layout: Layout) -> impl Strategy<Value = Case> {
    let operation = prop_oneof![
        3 => Just(Operation::Deduct),
        3 => Just(Operation::Refund),
        2 => Just(Operation::MultiDeduct),
    ];
    let form = prop_oneof![Just(Form::Csv), Just(Form::Tsv), Just(Form::Jsonl)];
    let breaks = proptest::collection::vec((broken(), any::<bool>()), 1..4);
    (operation, form, 10..1_000_u64, proptest::option::of(1..5_u64), breaks, any::<bool>()).prop_flat_map(
        move |(operation, form, stock, limit, breaks, has_requests)| {
            let form = if operation == Operation::MultiDeduct { Form::Jsonl } else { form };
            let limit = limit.filter(|_| layout.kind == "hash" && operation != Operation::Refund);
            proptest::collection::vec(row(operation), 1..1_200).prop_map(move |rows| Case {
                operation,
                layout,
                rows: if operation == Operation::MultiDeduct { with_honest_requests(rows) } else { rows },
                has_requests,
                stock,
                limit,
                breaks: breaks.clone(),
                form,
            })
        },
    )
}

fn broken() -> impl Strategy<Value = Break> {
    let at = 2..20_usize;
    let bytes = prop_oneof![0..40_usize, 0..4_000_usize];
    let fault = prop_oneof![
        Just(Fault::LoseReply),
        Just(Fault::LoseRequest),
        bytes.clone().prop_map(Fault::CutReply),
        bytes.clone().prop_map(Fault::CutRequest),
        Just(Fault::Refuse("NOSCRIPT No matching script.")),
        Just(Fault::Refuse("OOM command not allowed.")),
        Just(Fault::Refuse("BUSY Redis is busy running a script.")),
    ];
    let stall = prop_oneof![bytes.clone().prop_map(Fault::StallReply), bytes.prop_map(Fault::StallRequest)];
    prop_oneof![
        3 => (at.clone(), fault).prop_map(|(nth, fault)| Break::Network(nth, fault)),
        3 => (at.clone(), stall).prop_map(|(nth, stall)| Break::KillTool(nth, stall)),
        1 => at.clone().prop_map(Break::KillServer),
        1 => at.clone().prop_map(Break::Flush),
        2 => (at, 1..8_usize).prop_map(|(nth, more)| Break::Forget(nth, more)),
    ]
}

fn row(operation: Operation) -> impl Strategy<Value = Row> {
    let items = match operation {
        Operation::MultiDeduct => proptest::sample::subsequence(vec![0, 1, 2], 1..=3)
            .prop_flat_map(|activities| {
                let quantities = proptest::collection::vec(1..3_u64, activities.len());
                quantities.prop_map(move |quantities| activities.iter().copied().zip(quantities).collect())
            })
            .boxed(),
        _ => (0..3_usize, 1..4_u64).prop_map(|item| vec![item]).boxed(),
    };
    (items, 0..200_u8, proptest::option::weighted(0.3, 0..100_u16)).prop_map(|(items, user, request)| Row {
        items,
        user,
        request,
    })
}

/// A request that comes again asks for the same again. One that asked for something else after a refusal would be
/// decided by whether that refusal had to be kept, because its reply was lost.
fn with_honest_requests(mut rows: Vec<Row>) -> Vec<Row> {
    for nth in 0..rows.len() {
        let request = rows[nth].request;
        if let Some(first) = rows[..nth].iter().find(|row| request.is_some() && row.request == request).cloned() {
            rows[nth] = first;
        }
    }
    rows
}

impl Case {
    /// The request of a row, if the file has such a column.
    pub fn request(&self, row: &Row) -> Option<u16> {
        row.request.filter(|_| self.has_requests)
    }

    pub fn first_line(&self) -> u64 {
        if matches!(self.form, Form::Jsonl) { 1 } else { 2 }
    }

    pub fn file(&self) -> Orders {
        let name = match self.form {
            Form::Csv => "o.csv",
            Form::Tsv => "o.tsv",
            Form::Jsonl => "o.jsonl",
        };
        let lines: String = self.rows.iter().map(|row| self.line(row) + "\n").collect();
        let header = match self.form {
            Form::Csv => self.joined(["user", "activity", "quantity", "request"], ","),
            Form::Tsv => self.joined(["user", "activity", "quantity", "request"], "\t"),
            Form::Jsonl => return Orders::named(name, lines),
        };
        Orders::named(name, format!("{header}\n{lines}"))
    }

    fn line(&self, row: &Row) -> String {
        let request = self.request(row).map(|request| format!("r{request}")).unwrap_or_default();
        let user = row.user.to_string();
        let (activity, quantity) = row.items[0];
        let fields = [&user, ACTIVITIES[activity], &quantity.to_string(), &request];
        match self.form {
            Form::Csv => self.joined(fields, ","),
            Form::Tsv => self.joined(fields, "\t"),
            Form::Jsonl => {
                let what = if self.operation == Operation::MultiDeduct {
                    let items = row.items.iter().map(|(at, quantity)| format!("\"{}\":{quantity}", ACTIVITIES[*at]));
                    format!("\"items\":{{{}}}", items.collect::<Vec<_>>().join(","))
                } else {
                    format!("\"activity\":\"{}\",\"quantity\":{quantity}", ACTIVITIES[activity])
                };
                let user = if self.layout.has_users() { format!("\"user\":{user},") } else { String::new() };
                let request = if self.has_requests { format!(",\"request\":\"{request}\"") } else { String::new() };
                format!("{{{user}{what}{request}}}")
            }
        }
    }

    /// The fields of the columns that the file has.
    fn joined(&self, fields: [&str; 4], with: &str) -> String {
        let first = if self.layout.has_users() { 0 } else { 1 };
        let end = if self.has_requests { 4 } else { 3 };
        fields[first..end].join(with)
    }
}
