//! Random files, breaks and resumes against a model: the state at the end is that of one undisturbed run, and so is
//! what was reported of every line; a line whose reply was lost counts as `replayed`.
//!
//! The seed is fixed, so that a failure comes again; `PROPTEST_RNG_SEED` and `PROPTEST_CASES` choose others.

mod case;
mod rules;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::time::Duration;

use proptest::prelude::*;

use super::Orders;
use crate::model::runner;
use crate::support::{
    CLUSTER, COUPON, Call, Copy, Fault, Layout, Outcome, PRODUCT, Proxy, SECKILL, SKU, TestRedis, When,
};
use case::{ACTIVITIES, Break, Case, cases};
use rules::State;

/// How long to wait for a command that may never come, because the file was done before.
const A_WHILE: Duration = Duration::from_millis(300);

fn each_order_is_applied_once(layout: Layout) {
    let redis = RefCell::new(TestRedis::with(["--appendonly", "yes", "--appendfsync", "always"]));
    let checked = runner(10, layout.name).run(&cases(layout), |case| {
        let redis = &mut *redis.borrow_mut();
        prepare(&case, redis);
        let (expected, after) = case.undisturbed();
        let file = case.file();
        let mut reported = BTreeMap::new();
        for (broken, fast) in &case.breaks {
            let outcome = try_once(&case, &file, broken, *fast, redis);
            note(&mut reported, &outcome);
        }
        let last = call(&case, &file, redis.seckill([])).run();
        prop_assert!(matches!(last.status.code(), Some(0 | 3)), "{last:?}");
        note(&mut reported, &last);
        prop_assert_eq!(last.jsonl().len(), case.rows.len());
        prop_assert_eq!(State::of(redis, layout), after.clone());
        prop_assert_eq!(State::of_ledgers(redis, layout, case.stock), after);
        for (line, status) in (case.first_line()..).zip(expected) {
            let reported = &reported[&line];
            prop_assert!(
                reported == status || reported == "replayed",
                "line {line}: reported {reported}, expected {status}"
            );
        }
        Ok(())
    });
    if let Err(error) = checked {
        panic!("{error}");
    }
}

/// An empty server with the activities, and what they have sold.
fn prepare(case: &Case, redis: &TestRedis) {
    redis.cmd(&["FLUSHALL"]);
    let limit = case.limit.map(|limit| format!("\n    per_user_limit: {limit}")).unwrap_or_default();
    let activities: String =
        ACTIVITIES.iter().map(|id| format!("  - id: {id}\n    stock: {}{limit}\n", case.stock)).collect();
    let fixture = format!("layout: {}\nactivities:\n{activities}", case.layout.name);
    redis.seckill(["preheat", "-"]).stdin(fixture).code(0);
    let sold: String = case
        .sold_before()
        .into_iter()
        .map(|(activity, user, units)| {
            let activity = ACTIVITIES[activity];
            format!("{{\"activity\":\"{activity}\",\"user\":{user},\"quantity\":{units}}}\n")
        })
        .collect();
    if !sold.is_empty() {
        let before = redis.seckill(["-l", case.layout.name, "deduct", "--format", "jsonl", "--from", "-"]);
        before.stdin(sold).code(0);
    }
}

fn call(case: &Case, file: &Orders, call: Call) -> Call {
    call.args(["-l", case.layout.name, case.operation.command(), "-o", "jsonl", "--from", file.path()])
}

/// Applies the file until it is done or something ends it.
fn try_once(case: &Case, file: &Orders, broken: &Break, fast: bool, redis: &mut TestRedis) -> Outcome {
    let proxy = Proxy::before(redis);
    let call = call(case, file, proxy.seckill([])).args(fast.then_some("--fast"));
    match broken {
        Break::Network(nth, fault) => {
            proxy.inject(When::Nth(*nth), *fault);
            call.run()
        }
        Break::KillTool(nth, stall) => {
            proxy.inject(When::Nth(*nth), *stall);
            let running = call.spawn();
            if proxy.try_wait_for_commands(*nth, A_WHILE) {
                running.signal(libc::SIGKILL);
            }
            running.wait()
        }
        Break::KillServer(nth) => {
            proxy.inject(When::Nth(*nth), Fault::HangReply);
            let running = call.spawn();
            if proxy.try_wait_for_commands(*nth, A_WHILE) {
                redis.kill9();
                redis.restart();
            }
            running.wait()
        }
        Break::Forget(nth, more) => {
            proxy.inject(When::Nth(*nth), Fault::Hold);
            let running = call.spawn();
            if proxy.try_wait_until_held(A_WHILE) {
                let copy = Copy::of(redis);
                proxy.inject(When::Nth(*more), Fault::Hold);
                proxy.release();
                if proxy.try_wait_until_held(A_WHILE) {
                    copy.put_back(redis);
                    proxy.release();
                }
            }
            running.wait()
        }
        Break::Flush(nth) => {
            let running = call.spawn();
            proxy.try_wait_for_commands(*nth, A_WHILE);
            redis.cmd(("SCRIPT", "FLUSH"));
            running.wait()
        }
    }
}

/// Takes note of what was reported of each line: of what was decided before, the first word counts.
fn note(reported: &mut BTreeMap<u64, String>, outcome: &Outcome) {
    // A tool that was killed may have written half a row.
    let whole = outcome.stdout.split_inclusive('\n').filter(|line| line.ends_with('\n'));
    for row in whole.map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()) {
        let status = row["status"].as_str().unwrap().to_owned();
        let known = reported.entry(row["line"].as_u64().unwrap()).or_insert_with(|| status.clone());
        if known == "replayed" {
            *known = status;
        }
    }
}

macro_rules! layouts {
    ($($name:ident: $layout:expr;)*) => {$(
        mod $name {
            #[test]
            fn whatever_breaks_each_order_is_applied_once() {
                super::each_order_is_applied_once($layout);
            }
        }
    )*};
}

layouts! {
    seckill: super::SECKILL;
    sku: super::SKU;
    coupon: super::COUPON;
    product: super::PRODUCT;
    cluster: super::CLUSTER;
}
