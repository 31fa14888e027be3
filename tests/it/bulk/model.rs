//! Random files, breaks and resumes against a model: the state at the end is that of one undisturbed run, and so is
//! what was told of every line, where a line whose reply was lost counts as `replayed`.

use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use super::Orders;
use crate::support::{Fault, Proxy, TestRedis, When};

const ACTIVITIES: [&str; 3] = ["a", "b", "c"];
const LIMIT: u64 = 3;

#[derive(Debug, Clone)]
struct Row {
    activity: usize,
    user: u8,
    quantity: u64,
    request: Option<u8>,
}

/// What breaks one try: a fault at the n-th command, or the tool is killed there.
#[derive(Debug, Clone)]
enum Break {
    Fault(usize, Fault),
    Kill(usize),
    Flush(usize),
}

#[derive(Debug, Clone)]
struct Case {
    rows: Vec<Row>,
    stock: u64,
    breaks: Vec<(Break, bool)>,
    jsonl: bool,
}

fn cases() -> impl Strategy<Value = Case> {
    let row = (0..3_usize, 0..40_u8, 1..4_u64, proptest::option::weighted(0.2, 0..30_u8))
        .prop_map(|(activity, user, quantity, request)| Row { activity, user, quantity, request });
    let at = 4..14_usize;
    let broken = prop_oneof![
        (
            at.clone(),
            prop_oneof![
                Just(Fault::LoseReply),
                Just(Fault::LoseRequest),
                (0..40_usize).prop_map(Fault::CutReply),
                (0..3_000_usize).prop_map(Fault::CutRequest),
            ]
        )
            .prop_map(|(nth, fault)| Break::Fault(nth, fault)),
        at.clone().prop_map(Break::Kill),
        at.prop_map(Break::Flush),
    ];
    (
        proptest::collection::vec(row, 1..700),
        1..200_u64,
        proptest::collection::vec((broken, any::<bool>()), 1..4),
        any::<bool>(),
    )
        .prop_map(|(rows, stock, breaks, jsonl)| Case { rows, stock, breaks, jsonl })
}

impl Case {
    fn file(&self) -> Orders {
        let mut text = if self.jsonl { String::new() } else { "user,activity,request,quantity\n".to_owned() };
        for Row { activity, user, quantity, request } in &self.rows {
            let activity = ACTIVITIES[*activity];
            let request = request.map(|request| format!("r{request}")).unwrap_or_default();
            text += &if self.jsonl {
                format!(
                    "{{\"activity\":\"{activity}\",\"user\":{user},\"quantity\":{quantity},\"request\":\"{request}\"}}\n"
                )
            } else {
                format!("{user},{activity},{request},{quantity}\n")
            };
        }
        Orders::named(if self.jsonl { "o.jsonl" } else { "o.csv" }, text)
    }

    fn first_line(&self) -> u64 {
        if self.jsonl { 1 } else { 2 }
    }

    /// Status of each line, stock and holdings at the end, by the rules of one order after the other.
    fn model(&self) -> (Vec<&'static str>, State) {
        let mut stock = [self.stock; 3];
        let mut held: BTreeMap<(usize, u8), u64> = BTreeMap::new();
        let mut requests: BTreeMap<(usize, u8), (u8, u64)> = BTreeMap::new();
        let mut statuses = Vec::new();
        for row in &self.rows {
            let known = row.request.and_then(|request| requests.get(&(row.activity, request)));
            let has = held.entry((row.activity, row.user)).or_default();
            statuses.push(match known {
                Some(known) if *known == (row.user, row.quantity) => "replayed",
                Some(_) => "request_conflict",
                None if *has + row.quantity > LIMIT => "limit_exceeded",
                None if row.quantity > stock[row.activity] => "out_of_stock",
                None => {
                    stock[row.activity] -= row.quantity;
                    *has += row.quantity;
                    if let Some(request) = row.request {
                        requests.insert((row.activity, request), (row.user, row.quantity));
                    }
                    "ok"
                }
            });
        }
        held.retain(|_, units| *units > 0);
        let held =
            held.into_iter().map(|((activity, user), units)| (format!("{} {user}", ACTIVITIES[activity]), units));
        (statuses, State { stock: stock.to_vec(), held: held.collect() })
    }
}

#[derive(Debug, PartialEq)]
struct State {
    stock: Vec<u64>,
    held: BTreeMap<String, u64>,
}

fn state(redis: &TestRedis) -> State {
    let mut held = BTreeMap::new();
    for activity in ACTIVITIES {
        for (user, units) in redis.hgetall(&format!("seckill:participants:{activity}")) {
            held.insert(format!("{activity} {user}"), units.parse().unwrap());
        }
    }
    let stock = ACTIVITIES.map(|activity| redis.ask(("GET", format!("seckill:stock:{activity}"))));
    State { stock: stock.to_vec(), held }
}

/// The ledger's own count of what users hold.
fn ledger(redis: &TestRedis) -> BTreeMap<String, u64> {
    let mut held: BTreeMap<String, u64> = BTreeMap::new();
    for activity in ACTIVITIES {
        for (_, entry) in redis.xrange(&format!("seckill:ledger:{activity}")) {
            let Some(orders) = entry.get("orders") else { continue };
            let orders: Vec<Vec<String>> = serde_json::from_str(orders).unwrap();
            for order in orders {
                *held.entry(format!("{activity} {}", order[0])).or_default() += order[1].parse::<u64>().unwrap();
            }
        }
    }
    held
}

#[test]
fn whatever_breaks_each_order_is_applied_once() {
    let redis = TestRedis::start();
    let mut runner = TestRunner::new(Config { cases: 24, failure_persistence: None, ..Config::default() });
    let result = runner.run(&cases(), |case| {
        redis.cmd(&["FLUSHALL"]);
        for activity in ACTIVITIES {
            super::preheat(&redis, activity, case.stock, Some(LIMIT));
        }
        let file = case.file();
        let (expected, after) = case.model();
        let mut told: BTreeMap<u64, String> = BTreeMap::new();
        let mut note = |outcome: &crate::support::Outcome| {
            // A tool that was killed may leave half a line.
            for line in outcome.stdout.lines() {
                let Ok(row) = serde_json::from_str::<serde_json::Value>(line) else { continue };
                let (line, status) = (row["line"].as_u64().unwrap(), row["status"].as_str().unwrap().to_owned());
                let first = told.entry(line).or_insert_with(|| status.clone());
                if first == "replayed" {
                    *first = status;
                }
            }
        };
        for (broken, fast) in &case.breaks {
            let proxy = Proxy::before(&redis);
            let call = proxy.seckill(["deduct", "-o", "jsonl", "--from", file.path()]);
            let call = if *fast { call.args(["--fast"]) } else { call };
            match broken {
                Break::Fault(nth, fault) => {
                    proxy.inject(When::Nth(*nth), *fault);
                    note(&call.run());
                }
                Break::Kill(nth) => {
                    proxy.inject(When::Nth(*nth), Fault::HangReply);
                    let running = call.spawn();
                    if proxy.commands().len() < *nth {
                        // It may well end before.
                        let hung = proxy.try_wait_for_commands(*nth, std::time::Duration::from_millis(150));
                        if hung {
                            running.signal(libc::SIGKILL);
                        }
                    }
                    note(&running.wait());
                }
                Break::Flush(nth) => {
                    let running = call.spawn();
                    proxy.try_wait_for_commands(*nth, std::time::Duration::from_millis(50));
                    redis.cmd(("SCRIPT", "FLUSH"));
                    note(&running.wait());
                }
            }
        }
        let last = redis.seckill(["deduct", "-o", "jsonl", "--from", file.path()]).run();
        note(&last);
        prop_assert_eq!(last.jsonl().len(), case.rows.len());
        let now = state(&redis);
        prop_assert_eq!(&now, &after);
        prop_assert_eq!(ledger(&redis), now.held);
        for (nth, status) in expected.iter().enumerate() {
            let told = &told[&(nth as u64 + case.first_line())];
            prop_assert!(
                told == status || told == "replayed",
                "line {}: told {told}, expected {status}",
                nth as u64 + case.first_line()
            );
        }
        Ok(())
    });
    if let Err(error) = result {
        panic!("{error}");
    }
}
