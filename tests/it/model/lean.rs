//! The lean paths and the general one agree: the same orders sent without reasons, and with empty ones.

use proptest::prelude::*;

use super::runner;
use crate::support::{Dump, SECKILL, Scripts, TestRedis};

/// What an order meets, and the order.
#[derive(Clone, Debug)]
struct Case {
    stock: &'static str,
    /// `per_user_limit`, `starts_at`, `ends_at`, `ledger`, `state` of the rules; empty for none. `None`: no meta at all.
    meta: Option<[&'static str; 5]>,
    held: &'static str,
    request_seen: bool,
    user: &'static str,
    quantity: &'static str,
    request: &'static str,
    by: &'static str,
}

/// One of the plain texts, or in so many cases of a hundred one of the odd ones.
fn pick(odd: u32, plain: &'static [&'static str], odds: &'static [&'static str]) -> BoxedStrategy<&'static str> {
    prop_oneof![(100 - odd) => proptest::sample::select(plain), odd => proptest::sample::select(odds)].boxed()
}

/// Cases in which each thing is odd in so many of a hundred: where many meet, few of them may be odd.
fn cases(odd: u32) -> impl Strategy<Value = Case> {
    let meta = (
        pick(odd, &["", "2", "5", "9007199254740991"], &["nan"]),
        pick(odd, &["", "", "", "1000"], &["9000000000000"]),
        pick(odd, &["", "", "", "9000000000000"], &["1000"]),
        pick(odd, &["1"], &["0", "x"]),
        pick(odd, &["live"], &["paused", "odd"]),
    );
    let meta = meta.prop_map(|(limit, starts, ends, ledger, state)| [limit, starts, ends, ledger, state]);
    (
        pick(odd, &["10", "10", "3"], &["0", "", "abc", "-1", " 5", "9007199254740991", "999999999999999"]),
        proptest::option::weighted(0.95, meta),
        pick(odd, &["", "", "1", "2", "4"], &["0", "1.5", "9007199254740990", "9007199254740991", "999999999999999"]),
        prop::bool::weighted(0.15),
        (
            pick(odd, &["7", "7", "7", "用户", "é"], &["a b", "q\"uote", "back\\slash", " 7", "", "a\tb"]),
            pick(odd, &["1", "1", "2", "3"], &["999999999", "1000000000", "0", "-1", "1e3", "007", "", "1000000001"]),
            pick(odd, &["r1", "r1", "order:17"], &["with space", "q\"uote", ""]),
            pick(odd, &["tester"], &[""]),
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

/// Sends the order, with or without its reason, on keys made anew; the reply, and every key afterwards.
fn send(redis: &TestRedis, case: &Case, reason: &[&'static str]) -> (String, Dump) {
    let mut scripts = sale(redis, case);
    let mut args = vec!["hash", case.by, "", "", "first", "1", "", case.user, case.quantity, case.request];
    args.extend(reason);
    let reply = scripts.call("deduct", &SECKILL.keys("1"), &args);
    (reply, keys(redis))
}

/// Keys made anew, as the case says.
fn sale(redis: &TestRedis, case: &Case) -> Scripts {
    redis.cmd(&["FLUSHALL"]);
    let scripts = Scripts::of(redis, SECKILL);
    if !case.stock.is_empty() {
        redis.cmd(("SET", SECKILL.stock("1"), case.stock));
    }
    if let Some(fields) = case.meta {
        let [limit, starts, ends, ledger, state] = fields.map(|word| if word.is_empty() { "-" } else { word });
        let rules = format!("{state} {ledger} 1 {limit} 10 {starts} {ends}");
        redis.cmd(("HSET", SECKILL.meta("1"), "rules", rules));
        redis.cmd(("XADD", SECKILL.ledger("1"), "1-1", "op", "preheat"));
    }
    if !case.held.is_empty() {
        redis.cmd(("HSET", SECKILL.participants("1"), "7", case.held));
    }
    if case.request_seen {
        redis.cmd(("HSET", SECKILL.requests("1"), "r:r1", "deduct 1 7"));
    }
    scripts
}

/// Every key. The ledger's ids are the clock's: only their order is alike.
fn keys(redis: &TestRedis) -> Dump {
    let ledger = redis.xrange(&SECKILL.ledger("1"));
    redis.cmd(("DEL", SECKILL.ledger("1")));
    for (nth, (_, fields)) in ledger.into_iter().enumerate() {
        let mut add = vec!["XADD".to_owned(), SECKILL.ledger("1"), format!("1-{}", nth + 1)];
        add.extend(fields.into_iter().flat_map(|(name, value)| [name, value]));
        redis.cmd(&add[..]);
    }
    redis.dump_all()
}

#[test]
fn the_lean_and_the_general_path_agree_in_reply_and_keys() {
    let redis = TestRedis::start();
    let mut runner = runner(400, "lean");
    runner
        .run(&cases(12), |case| {
            let (lean, lean_keys) = send(&redis, &case, &[]);
            let (general, general_keys) = send(&redis, &case, &[""]);
            prop_assert_eq!(lean, general);
            prop_assert_eq!(lean_keys.changes_to(&general_keys), "");
            Ok(())
        })
        .unwrap();
}

/// Orders of a job in one call.
#[derive(Clone, Debug)]
struct Many {
    case: Case,
    script: &'static str,
    /// User, quantity, request of each.
    orders: Vec<(&'static str, &'static str, &'static str)>,
    /// The quantity of all; empty where each has its own.
    common: &'static str,
    has_requests: bool,
    /// Line before, the lines, what the job holds, epoch.
    job: [&'static str; 4],
    rows: &'static str,
}

fn many() -> impl Strategy<Value = Many> {
    const ODD: u32 = 3;
    let order = (
        pick(
            ODD,
            &["7", "8", "9", "10", "11", "12", "13", "14", "15", "16", "17", "18", "19", "20", "用户"],
            &["a b", "q\"uote", " 7", ""],
        ),
        pick(ODD, &["1", "1", "2", "3"], &["5", "0", "x", "1000000001"]),
        pick(
            ODD,
            &["r1", "r2", "r3", "r4", "r5", "r6", "r7", "r8", "r9", "r10", "r11", "r12"],
            &["with space", "q\"uote", "", "é"],
        ),
    );
    let job = (
        pick(ODD, &["0"], &["2"]),
        pick(ODD, &["", "", "list"], &["5-4", "x", "1 2"]),
        pick(ODD, &["", "", "2 1 d"], &["5 0 d", "2 0 e", "x"]),
        pick(ODD, &["1"], &["2"]),
    );
    (
        cases(ODD),
        prop_oneof![2 => Just("deduct"), 1 => Just("refund")],
        proptest::collection::vec(order, 1..7),
        pick(ODD, &["", "1", "3"], &["0", "x"]),
        prop::bool::ANY,
        job,
        proptest::sample::select(&["0", "1"][..]),
    )
        .prop_map(|(case, script, orders, common, has_requests, (before, lines, held, epoch), rows)| Many {
            case,
            script,
            orders,
            common,
            has_requests,
            job: [before, lines, held, epoch],
            rows,
        })
}

/// Sends the orders; in general form, each has its own quantity, a request and a reason.
fn send_many(redis: &TestRedis, many: &Many, is_general: bool) -> (String, Dump) {
    let mut scripts = sale(redis, &many.case);
    let [before, lines, held, epoch] = many.job;
    if !held.is_empty() {
        redis.cmd(("HSET", SECKILL.requests("1"), format!("j:{}:j", many.script), held));
    }
    for user in ["8", "9", "10"].into_iter().filter(|_| !many.case.held.is_empty()) {
        redis.cmd(("HSET", SECKILL.participants("1"), user, "2"));
    }
    let count = many.orders.len();
    let lines = match lines {
        "" => format!("3-{}", count + 2),
        "list" => (0..count).map(|nth| (3 + 2 * nth).to_string()).collect::<Vec<_>>().join(" "),
        other => other.to_owned(),
    };
    let count = count.to_string();
    let common = if is_general { "" } else { many.common };
    let head = ["hash", many.case.by, "", "", "first", &count, "j", "d", epoch, before, &lines, many.rows, common];
    let mut args = head.to_vec();
    args.extend(many.orders.iter().map(|(user, _, _)| *user));
    if common.is_empty() {
        let own = |own| if many.common.is_empty() { own } else { many.common };
        args.extend(many.orders.iter().map(|(_, quantity, _)| own(*quantity)));
    }
    if many.has_requests || is_general {
        args.extend(many.orders.iter().map(|(_, _, request)| if many.has_requests { *request } else { "" }));
    }
    if is_general {
        args.extend(many.orders.iter().map(|_| ""));
    }
    let reply = scripts.call(many.script, &SECKILL.keys("1"), &args);
    (reply, keys(redis))
}

#[test]
fn the_lean_path_of_many_orders_agrees_with_the_general_one() {
    let redis = TestRedis::start();
    let mut runner = runner(500, "many");
    runner
        .run(&many(), |many| {
            let (lean, lean_keys) = send_many(&redis, &many, false);
            let (general, general_keys) = send_many(&redis, &many, true);
            prop_assert_eq!(lean, general);
            prop_assert_eq!(lean_keys.changes_to(&general_keys), "");
            Ok(())
        })
        .unwrap();
}
