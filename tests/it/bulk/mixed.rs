//! Files that mix activities: small batches of several activities share a call, which decides each by itself.

use std::collections::BTreeSet;

use super::faults::REFUSALS;
use super::{Orders, statuses};
use crate::support::{CLUSTER, COUPON, Fault, Layout, Outcome, Proxy, SECKILL, SKU, TestRedis, When};

const ACTIVITIES: usize = 40;
const ROWS: usize = 200;

/// What the proxies of some clouds reply to keys that they did not expect.
const REFUSED: &str =
    "ERR bad lua script for redis cluster, all the keys that the script uses should be passed using the KEYS array";

fn preheat_all(redis: &TestRedis, layout: Layout, stock: u64) {
    let rows: String = (0..ACTIVITIES).map(|id| format!("{id},{stock}\n")).collect();
    let file = Orders::named("activities.csv", format!("id,stock\n{rows}"));
    redis.seckill(["preheat", "-l", layout.name, "--from", file.path()]).code(0);
}

/// Rows of all activities in turn; `more` is what comes behind the user of a row.
fn mixed(header: &str, more: impl Fn(usize) -> String) -> Orders {
    let row = |index: usize| format!("{},u{index},{}\n", index % ACTIVITIES, more(index));
    Orders::new(&format!("{header}\n{}", (0..ROWS).map(row).collect::<String>()))
}

fn plain() -> Orders {
    mixed("activity,user,quantity", |_| "1".to_owned())
}

fn calls(proxy: &Proxy) -> usize {
    proxy.commands().iter().filter(|name| *name == "EVALSHA").count()
}

/// What all keys hold, a ledger as the fields of its entries.
fn data(redis: &TestRedis, layout: Layout) -> Vec<String> {
    let of = |id: String| {
        let ledger: Vec<_> = redis.xrange(&layout.ledger(&id)).into_iter().map(|(_, fields)| fields).collect();
        let [stock, meta, requests, _, participants] = [1, 2, 3, 4, 5].map(|number| layout.key(number, &id));
        let hashes = [meta, requests].map(|key| redis.hgetall(&key));
        let users: BTreeSet<String> = match layout.kind {
            "hash" => redis.hgetall(&participants).into_iter().map(|(user, units)| format!("{user} {units}")).collect(),
            _ => redis.ask(("SMEMBERS", &participants)),
        };
        format!("{id} {} {hashes:?} {users:?} {ledger:?}", redis.int(&stock))
    };
    (0..ACTIVITIES).map(|id| of(id.to_string())).collect()
}

/// Units that users of all activities hold, and units for sale.
fn units(redis: &TestRedis) -> (u64, i64) {
    let ids = || (0..ACTIVITIES).map(|id| id.to_string());
    (ids().map(|id| super::held(redis, &id)).sum(), ids().map(|id| redis.int(&SECKILL.stock(&id))).sum())
}

fn count(outcome: &Outcome, status: &str) -> usize {
    statuses(outcome).iter().filter(|found| found.ends_with(&format!(" {status}"))).count()
}

#[test]
fn what_shared_calls_write_and_report_is_what_a_call_for_each_activity_does() {
    let ids = mixed("activity,user,quantity,request", |index| format!("1,order-{index}"));
    let some = mixed("activity,user,quantity,request", |index| format!("{},{}", 1 + index % 2, "x".repeat(index % 3)));
    for (layout, orders) in
        [(SECKILL, &plain()), (SECKILL, &ids), (SECKILL, &some), (CLUSTER, &plain()), (SKU, &ids), (COUPON, &plain())]
    {
        // Nothing is refused; a proxy refuses a call with keys of two activities.
        let run = |is_refused: bool| {
            let redis = TestRedis::start();
            // Not enough for all.
            preheat_all(&redis, layout, 4);
            let proxy = Proxy::before(&redis);
            if is_refused {
                let (last, next) = (layout.keys("0").pop().unwrap(), layout.stock("1"));
                proxy.inject(When::With(format!("{last}\r\n${}\r\n{next}\r\n", next.len())), Fault::Refuse(REFUSED));
            }
            let mut reported = Vec::new();
            for (command, job) in [("deduct", "a"), ("refund", "a"), ("deduct", "b"), ("deduct", "b")] {
                let call = proxy.seckill([command, "-q", "-o", "jsonl", "--job", job, "-l", layout.name]);
                let outcome = call.args(["--from", orders.path()]).run().stderr("");
                reported.push((outcome.status.code(), outcome.stdout));
            }
            (reported, data(&redis, layout), calls(&proxy))
        };
        let [shared, alone] = [false, true].map(run);
        assert_eq!((&shared.0, &shared.1), (&alone.0, &alone.1), "{layout:?}");
        assert!(shared.2 * 2 < alone.2, "{layout:?}: {} {}", shared.2, alone.2);
    }
}

#[test]
fn an_activity_that_is_not_plain_holds_up_no_other() {
    let redis = TestRedis::start();
    preheat_all(&redis, SECKILL, 1_000);
    redis.seckill(["pause", "1"]).code(0);
    redis.seckill(["preheat", "--id", "2", "--stock", "1", "--update"]).code(0);
    redis.cmd(("SET", SECKILL.stock("3"), "-5"));
    redis.cmd(("DEL", SECKILL.stock("4")));
    redis.cmd(("DEL", SECKILL.ledger("5")));
    redis.cmd(("HSET", SECKILL.participants("6"), "u6", "1.5"));
    redis.cmd(("HSET", SECKILL.meta("7"), "rules", "live"));
    redis.cmd(("RPUSH", SECKILL.requests("8"), "x"));
    // Another system's, without a meta.
    redis.cmd(("DEL", SECKILL.meta("9"), SECKILL.ledger("9")));
    redis.seckill(["preheat", "--id", "10", "--stock", "1000", "--update", "--ends-at", "2020-01-01T00:00:00Z"]).run();
    let orders = mixed("activity,user,quantity", |_| "1".to_owned());
    let text = std::fs::read_to_string(&orders.path).unwrap().replace(",u11,", ",\"u \\ 11\",");
    std::fs::write(&orders.path, text).unwrap();
    let outcome = redis.seckill(["deduct", "-o", "jsonl", "--from", orders.path()]).code(3);
    let expected = |index: usize| match index % ACTIVITIES {
        1 => "paused",
        2 if index > 2 => "out_of_stock",
        4 => "not_preheated",
        3 | 5 | 7 | 8 => "corrupt",
        6 if index == 6 => "corrupt",
        10 => "ended",
        _ => "ok",
    };
    let expected: Vec<String> = (0..ROWS).map(|index| format!("{} {}", index + 2, expected(index))).collect();
    assert_eq!(statuses(&outcome), expected);
    assert_eq!(redis.int(&SECKILL.stock("39")), 995);
    assert_eq!(redis.hget(&SECKILL.participants("11"), "u \\ 11").as_deref(), Some("1"));
}

#[test]
fn a_shared_call_that_the_server_refuses_for_a_while_is_sent_again() {
    for words in REFUSALS {
        let redis = TestRedis::start();
        preheat_all(&redis, SECKILL, 10);
        let orders = plain();
        let proxy = Proxy::before(&redis);
        proxy.inject(When::Next("EVALSHA"), Fault::Refuse(words));
        let outcome = proxy.seckill(["deduct", "-o", "jsonl", "--from", orders.path()]).code(0).stderr("");
        assert_eq!((count(&outcome, "ok"), units(&redis)), (ROWS, (200, 200)), "{words}");
        assert!(calls(&proxy) < ACTIVITIES / 2, "{words}: calls are shared again");
    }
}

#[test]
fn a_rate_limit_also_limits_what_shared_calls_send_at_once() {
    let redis = TestRedis::start();
    preheat_all(&redis, SECKILL, 10);
    let orders = plain();
    let proxy = Proxy::before(&redis);
    let outcome = proxy.seckill(["deduct", "--rate", "2000", "-o", "jsonl", "--from", orders.path()]).code(0);
    assert_eq!(count(&outcome, "ok"), ROWS);
    // At most 20 orders a call.
    assert!(calls(&proxy) >= ROWS / 20, "{}", calls(&proxy));
}
