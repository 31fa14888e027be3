//! Every step in every state of a hold: reply, fields and ledger.

use super::{LONG, WITH_USERS, quantity, units_left, units_of_7};

use crate::support::{Layout, SECKILL, Scripts, TestRedis, wait_until};

/// States before a step, and how they come about; `overdue` is held past its deadline.
const STATES: [&str; 7] = ["absent", "held", "overdue", "confirmed", "released", "expired", "void"];

/// What a step does in a state: the code, the state afterwards, and the operation in the ledger.
fn expected(state: &str, step: &str) -> (i64, &'static str, &'static str) {
    match (step, state) {
        ("hold", "absent") => (1, "held", "hold"),
        ("hold", "held" | "overdue") => (2, "held", ""),
        ("hold" | "confirm", "confirmed") => (2, "confirmed", ""),
        ("confirm" | "release", "absent") => (-12, "absent", ""),
        ("confirm", "held" | "overdue") => (1, "confirmed", "confirm"),
        ("hold" | "confirm", "released") => (-12, "released", ""),
        ("confirm", "expired") => (1, "confirmed", "deduct"),
        ("release", "held" | "overdue") => (1, "released", "release"),
        ("release" | "abort", "confirmed") => (-14, "confirmed", ""),
        ("release" | "abort", "released") => (2, "released", ""),
        ("hold", "expired") => (-13, "expired", ""),
        ("release", "expired") => (-13, "void", ""),
        ("hold" | "confirm" | "release", "void") => (-13, "void", ""),
        ("abort", "absent" | "expired") => (1, "void", ""),
        ("abort", "held" | "overdue") => (1, "void", "release"),
        ("abort", "void") => (2, "void", ""),
        ("expire", "overdue") => (1, "expired", "expire"),
        ("expire", "absent") => (1, "absent", ""),
        ("expire", "held") => (1, "held", ""),
        ("expire", "confirmed") => (1, "confirmed", ""),
        ("expire", "released") => (1, "released", ""),
        ("expire", "expired") => (1, "expired", ""),
        ("expire", "void") => (1, "void", ""),
        other => panic!("{other:?}"),
    }
}

fn reach(redis: &TestRedis, scripts: &mut Scripts, state: &str) {
    let is_short = ["overdue", "expired", "void"].contains(&state);
    if state != "absent" {
        assert!(scripts.hold("r", if is_short { "1" } else { LONG }).starts_with("1 "));
    }
    match state {
        "overdue" => {
            let layout = scripts.layout;
            let deadline: i64 = redis.ask(("ZSCORE", layout.deadlines("1"), "r"));
            let clock = || redis.ask::<Vec<i64>>("TIME");
            wait_until("the deadline is over", || clock()[0] * 1000 + clock()[1] / 1000 > deadline);
        }
        "confirmed" => assert!(scripts.settle("confirm", "r").starts_with("1 ")),
        "released" => assert!(scripts.settle("release", "r").starts_with("1 ")),
        "expired" => scripts.expire_soon(),
        "void" => {
            scripts.expire_soon();
            assert!(scripts.settle("release", "r").starts_with("-13 "));
        }
        _ => {}
    }
}

/// What is stored of the hold and of the activity must be what the state says.
fn check_state(redis: &TestRedis, layout: Layout, state: &str, context: &str) {
    let units = quantity(layout);
    let (is_open, is_taken) = (state == "held", state == "held" || state == "confirmed");
    let record = redis.hget(&layout.requests("1"), "\th:r");
    let stored = record.as_deref().map_or("absent", |record| record.split(' ').next().unwrap());
    assert_eq!(stored, state, "{context}");
    let open = redis.hget(&layout.requests("1"), "\to:7").map_or(0, |text| text.parse::<i64>().unwrap());
    let holds = redis.hget(&layout.requests("1"), "\tholds").map_or(0, |text| text.parse::<i64>().unwrap());
    assert_eq!((open, holds), if is_open { (units, units) } else { (0, 0) }, "{context}");
    assert_eq!(redis.exists(&layout.deadlines("1")), is_open, "{context}");
    let taken = if is_taken { units } else { 0 };
    assert_eq!((units_left(redis, layout), units_of_7(redis, layout)), (10 - taken, taken), "{context}");
}

#[test]
fn each_step_in_each_state_replies_and_writes_what_the_table_says() {
    for layout in WITH_USERS {
        let redis = TestRedis::start();
        let mut scripts = Scripts::of(&redis, layout);
        for state in STATES {
            for step in ["hold", "confirm", "release", "abort", "expire"] {
                let context = format!("{} {step} of {state}", layout.name);
                scripts.preheat_as("reset", "1", "10", &[]);
                reach(&redis, &mut scripts, state);
                let entries = redis.xrange(&layout.ledger("1")).len();
                let (code, after, op) = expected(state, step);
                let reply = match step {
                    "hold" => scripts.hold("r", LONG),
                    "expire" => scripts.settle("expire", "500"),
                    _ => scripts.settle(step, "r"),
                };
                assert_eq!(reply.split(' ').next().unwrap(), code.to_string(), "{context}: {reply}");
                check_state(&redis, layout, after, &context);
                let new = redis.xrange(&layout.ledger("1")).split_off(entries);
                let ops: Vec<&str> = new.iter().map(|(_, entry)| &*entry["op"]).collect();
                assert_eq!(ops, if op.is_empty() { vec![] } else { vec![op] }, "{context}");
                if let [(_, entry)] = &new[..] {
                    let units = quantity(layout).to_string();
                    let left = units_left(&redis, layout).to_string();
                    let row = ["stock", "users", "quantity", "requests"].map(|field| &*entry[field]);
                    assert_eq!(row, [&*left, "7", &*units, "r"], "{context}");
                }
                // A late duplicate of the same call moves no units.
                let again = match step {
                    "hold" => scripts.hold("r", LONG),
                    "expire" => scripts.settle("expire", "500"),
                    _ => scripts.settle(step, "r"),
                };
                check_state(&redis, layout, after, &format!("{context}, twice: {again}"));
                assert!(code < 0 || step == "expire" || again.starts_with("2 "), "{context}, twice: {again}");
            }
        }
    }
}

#[test]
fn a_hold_expires_what_is_overdue_if_it_is_short_and_keeps_its_own_order() {
    for layout in WITH_USERS {
        let redis = TestRedis::start();
        let mut scripts = Scripts::of(&redis, layout);
        scripts.preheat("1", &quantity(layout).to_string());
        scripts.hold("old", "1");
        // Short of stock, and of the limit of kinds that record a user once.
        wait_until("the first is overdue", || scripts.hold("new", LONG).starts_with("1 0 "));
        let ops: Vec<String> =
            redis.xrange(&layout.ledger("1")).into_iter().map(|(_, entry)| entry["op"].clone()).collect();
        assert_eq!(ops, ["preheat", "hold", "expire", "hold"], "{layout:?}");
        assert_eq!((units_left(&redis, layout), units_of_7(&redis, layout)), (0, quantity(layout)));
        assert!(scripts.settle("confirm", "old").starts_with("-13 "));
        redis.seckill(["-l", layout.name, "reconcile", "1"]).code(0);
    }
}

#[test]
fn expire_takes_so_many_a_call_and_leaves_items_of_orders() {
    let redis = TestRedis::start();
    let mut scripts = Scripts::of(&redis, SECKILL);
    scripts.preheat("1", "100");
    for request in ["a", "b", "c", "d"] {
        scripts.hold(request, "1");
    }
    // Belongs to an order of several activities, which only its primary decides.
    let record = redis.hget(&SECKILL.requests("1"), "\th:b").unwrap();
    redis.cmd(("HSET", SECKILL.requests("1"), "\th:b", record.replace(" - ", " m:seckill:stock:9 ")));
    // Settled, and still there, as a cut may leave it.
    redis.cmd(("ZADD", SECKILL.deadlines("1"), 1, "gone"));
    let mut replies = Vec::new();
    wait_until("all are overdue", || {
        replies.push(scripts.settle("expire", "3"));
        redis.ask::<i64>(("ZCARD", SECKILL.deadlines("1"))) == 1
    });
    assert!(replies.iter().any(|reply| reply.ends_with(" b m:seckill:stock:9")), "{replies:?}");
    let holds: i64 = replies.iter().map(|reply| reply.split(' ').nth(2).unwrap().parse::<i64>().unwrap()).sum();
    assert_eq!((holds, units_left(&redis, SECKILL), units_of_7(&redis, SECKILL)), (3, 98, 2));
    assert!(scripts.settle("confirm", "b").starts_with("-9 "), "an order is confirmed as a whole");
    let order = ["hash", "tester", "b", "confirm", "m:seckill:stock:9"];
    assert!(scripts.call("settle", &SECKILL.all_keys("1"), &order).starts_with("1 "));
}

#[test]
fn a_pause_and_the_window_refuse_holds_and_never_their_end() {
    for layout in WITH_USERS {
        let redis = TestRedis::start();
        let mut scripts = Scripts::of(&redis, layout);
        scripts.preheat("1", "10");
        for request in ["a", "b"] {
            let user = if request == "a" { "7" } else { "8" };
            let args = [layout.kind, "tester", user, "1", request, "first", "", LONG];
            assert!(scripts.call("hold", &layout.all_keys("1"), &args).starts_with("1 "));
        }
        redis.seckill(["-l", layout.name, "pause", "1", "--withdraw-stock"]).code(0);
        assert!(scripts.hold("c", LONG).starts_with("-7 8 "), "{layout:?}");
        assert!(scripts.settle("release", "a").starts_with("1 9 "), "{layout:?}");
        assert_eq!((redis.int(&layout.stock("1")), units_left(&redis, layout)), (0, 9));
        assert!(scripts.settle("confirm", "b").starts_with("1 9 "), "{layout:?}");
        redis.seckill(["-l", layout.name, "resume", "1"]).code(0);
        scripts.preheat_with("2", "5", &[("starts_at", "9000000000000")]);
        let args = [layout.kind, "tester", "7", "1", "r", "first", "", LONG];
        assert!(scripts.call("hold", &layout.all_keys("2"), &args).starts_with("-5 5 "));
        redis.seckill(["-l", layout.name, "reconcile", "1"]).code(0);
    }
}
