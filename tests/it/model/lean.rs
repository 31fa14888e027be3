//! The lean path of deduct and the general one agree: the same order sent with three values and with four.

use proptest::prelude::*;

use super::runner;
use crate::support::{Dump, SECKILL, Scripts, TestRedis};

/// What an order meets, and the order.
#[derive(Clone, Debug)]
struct Case {
    stock: &'static str,
    /// `per_user_limit`, `starts_at`, `ends_at`, `ledger`, `state`; empty for absent. No meta at all where false.
    meta: Option<[&'static str; 5]>,
    held: &'static str,
    request_seen: bool,
    user: &'static str,
    quantity: &'static str,
    request: &'static str,
    by: &'static str,
}

fn cases() -> impl Strategy<Value = Case> {
    let pick = |texts: &'static [&'static str]| proptest::sample::select(texts);
    let meta = (
        pick(&["", "2", "5", "nan", "9007199254740991"]),
        pick(&["", "", "", "1000", "9000000000000"]),
        pick(&["", "", "", "1000", "9000000000000"]),
        pick(&["1", "1", "1", "0", "x"]),
        pick(&["live", "live", "live", "paused", "odd"]),
    );
    let meta = meta.prop_map(|(limit, starts, ends, ledger, state)| [limit, starts, ends, ledger, state]);
    (
        pick(&["10", "10", "10", "0", "3", "", "abc", "-1", " 5", "9007199254740991", "999999999999999"]),
        proptest::option::weighted(0.9, meta),
        pick(&["", "", "1", "2", "4", "0", "1.5", "9007199254740990", "9007199254740991", "999999999999999"]),
        prop::bool::weighted(0.15),
        (
            pick(&["7", "7", "7", "用户", "a b", "q\"uote", "back\\slash", " 7", "", "a\tb", "é"]),
            pick(&["1", "1", "2", "3", "999999999", "1000000000", "0", "-1", "1e3", "007", "", "1000000001"]),
            pick(&["r1", "r1", "order:17", "with space", "q\"uote", ""]),
            pick(&["tester", "tester", ""]),
        ),
    )
        .prop_map(|(stock, meta, held, request_seen, (user, quantity, request, by))| Case {
            stock,
            meta,
            held,
            request_seen,
            user,
            quantity,
            request,
            by,
        })
}

/// Sends the order with so many values, on keys made anew; the reply, and every key afterwards.
fn send(redis: &TestRedis, case: &Case, width: &str) -> (String, Dump) {
    redis.cmd(&["FLUSHALL"]);
    let mut scripts = Scripts::of(redis, SECKILL);
    if !case.stock.is_empty() {
        redis.cmd(("SET", SECKILL.stock("1"), case.stock));
    }
    if let Some(fields) = case.meta {
        let names = ["per_user_limit", "starts_at", "ends_at", "ledger", "state"];
        redis.cmd(("HSET", SECKILL.meta("1"), "total", "10", "epoch", "1"));
        for (name, value) in names.into_iter().zip(fields).filter(|(_, value)| !value.is_empty()) {
            redis.cmd(("HSET", SECKILL.meta("1"), name, value));
        }
        redis.cmd(("XADD", SECKILL.ledger("1"), "1-1", "op", "preheat"));
    }
    if !case.held.is_empty() {
        redis.cmd(("HSET", SECKILL.participants("1"), "7", case.held));
    }
    if case.request_seen {
        redis.cmd(("HSET", SECKILL.requests("1"), "r:r1", "deduct 1 7"));
    }
    let mut args = vec!["hash", case.by, "", "", "first", width, "", case.user, case.quantity, case.request];
    if width == "4" {
        args.push("");
    }
    let reply = scripts.call("deduct", &SECKILL.keys("1"), &args);
    // The ledger's ids are the clock's: only their order is alike.
    let ledger = redis.xrange(&SECKILL.ledger("1"));
    redis.cmd(("DEL", SECKILL.ledger("1")));
    for (nth, (_, fields)) in ledger.into_iter().enumerate() {
        let mut add = vec!["XADD".to_owned(), SECKILL.ledger("1"), format!("1-{}", nth + 1)];
        add.extend(fields.into_iter().flat_map(|(name, value)| [name, value]));
        redis.cmd(&add[..]);
    }
    (reply, redis.dump_all())
}

#[test]
fn the_lean_and_the_general_path_agree_in_reply_and_keys() {
    let redis = TestRedis::start();
    let mut runner = runner(400, "lean");
    runner
        .run(&cases(), |case| {
            let (lean, lean_keys) = send(&redis, &case, "3");
            let (general, general_keys) = send(&redis, &case, "4");
            prop_assert_eq!(lean, general);
            prop_assert_eq!(lean_keys.changes_to(&general_keys), "");
            Ok(())
        })
        .unwrap();
}
