//! Files of orders of several activities.

use super::{Orders, held, preheat, start_and_hold, statuses};
use crate::support::{Fault, Proxy, TestRedis, When, seckill, wait_until};

/// So many orders, each of one unit of `a` and of `b` or `c`.
pub fn pairs(orders: usize) -> Orders {
    let line = |user| format!("{{\"user\":{user},\"items\":{{\"a\":1,\"{}\":1}}}}\n", ["b", "c"][user % 2]);
    Orders::named("o.jsonl", (0..orders).map(line).collect::<String>())
}

pub fn sale(stock: u64) -> TestRedis {
    let redis = TestRedis::start();
    for activity in ["a", "b", "c"] {
        preheat(&redis, activity, stock, Some(5));
    }
    redis
}

#[test]
fn a_file_of_many_multi_orders_survives_what_breaks() {
    for fault in [Fault::LoseReply, Fault::LoseRequest, Fault::CutReply(9)] {
        let redis = sale(450);
        let orders = pairs(500);
        let proxy = Proxy::before(&redis);
        // Behind SCRIPT LOAD and six HGET: the third call.
        proxy.inject(When::Nth(10), fault);
        let call = proxy.seckill(["multi-deduct", "-o", "json", "--from", orders.path()]);
        call.code(3);
        assert_eq!((held(&redis, "a"), held(&redis, "b") + held(&redis, "c")), (450, 450), "{fault:?}");

        // Killed, and gone on with.
        let redis = sale(450);
        let proxy = Proxy::before(&redis);
        proxy.inject(When::Nth(11), Fault::HangReply);
        let running = proxy.seckill(["multi-deduct", "--from", orders.path()]).spawn();
        proxy.wait_for_commands(11);
        running.signal(libc::SIGKILL);
        running.wait().killed_by(libc::SIGKILL);
        redis.seckill(["multi-deduct", "--from", orders.path()]).code(3);
        assert_eq!((held(&redis, "a"), held(&redis, "b") + held(&redis, "c")), (450, 450), "{fault:?}");
    }
}

#[test]
fn rows_come_in_the_order_of_the_file_whatever_is_in_flight() {
    let redis = TestRedis::start();
    let list: String = (0..800).map(|index| format!("m{index},9\n")).collect();
    redis.seckill(["preheat", "--from", "-"]).stdin(format!("id,stock\n{list}")).code(0);
    // Twice over all activities: in between, calls have nothing in common.
    let line = |index: usize| {
        let (one, other) = (2 * index % 800, (2 * index + 1) % 800);
        format!("{{\"user\":{index},\"items\":{{\"m{one}\":4,\"m{other}\":5}}}}\n")
    };
    let orders = Orders::named("o.jsonl", (0..800).map(line).collect::<String>());
    let proxy = Proxy::before(&redis);
    // Behind SCRIPT LOAD and two HGET an activity.
    let call = start_and_hold(&proxy, 1_602, proxy.seckill(["multi-deduct", "-o", "jsonl", "--from", orders.path()]));
    // The second call comes though the first is not answered.
    proxy.wait_for_commands(1_603);
    proxy.release();
    let expected = |index: usize| format!("{} {}", index + 1, if index < 400 { "ok" } else { "refused" });
    assert_eq!(statuses(&call.wait().code(3)), (0..800).map(expected).collect::<Vec<_>>());
    assert_eq!(redis.int("seckill:stock:m1"), 4);
}

#[test]
fn calls_of_the_same_activities_are_in_flight_together() {
    let redis = sale(1_000);
    let orders = pairs(500);
    let proxy = Proxy::before(&redis);
    // Behind SCRIPT LOAD and two HGET an activity: the first call's reply is held, and the second one runs.
    let call = start_and_hold(&proxy, 8, proxy.seckill(["multi-deduct", "--from", orders.path()]));
    wait_until("the second call has run", || redis.int("seckill:stock:a") == 1_000 - 2 * 64);
    proxy.release();
    call.wait().code(0);
    assert_eq!((held(&redis, "a"), held(&redis, "b"), held(&redis, "c")), (500, 250, 250));
}

#[test]
fn a_call_that_is_refused_is_not_overtaken_by_one_that_takes_the_same() {
    for words in ["NOSCRIPT No matching script.", "OOM command not allowed.", "READONLY You can't write."] {
        let redis = sale(450);
        let orders = pairs(500);
        let proxy = Proxy::before(&redis);
        proxy.inject(When::Nth(11), Fault::Refuse(words));
        let outcome = proxy.seckill(["multi-deduct", "--fast", "-o", "jsonl", "--from", orders.path()]).code(3);
        let expected = |index: usize| format!("{} {}", index + 1, if index < 450 { "ok" } else { "refused" });
        assert_eq!(statuses(&outcome), (0..500).map(expected).collect::<Vec<_>>(), "{words}");
        outcome.stderr("");
    }
}

#[test]
fn the_same_multi_orders_from_two_terminals_are_applied_once() {
    let redis = sale(1_500);
    let orders = pairs(2_000);
    let call = || redis.seckill(["multi-deduct", "-o", "jsonl", "--from", orders.path()]).spawn();
    let (one, other) = (call(), call());
    let (one, other) = (one.wait().code(3), other.wait().code(3));
    assert_eq!((held(&redis, "a"), held(&redis, "b"), held(&redis, "c")), (1_500, 750, 750));
    let ok = |outcome| statuses(outcome).iter().filter(|status| status.ends_with(" ok")).count();
    assert_eq!(ok(&one) + ok(&other), 1_500);
}

#[test]
fn multi_orders_can_be_stopped_and_gone_on_with() {
    let redis = sale(1_000);
    let orders = pairs(500);
    // It would take ten seconds.
    let call = redis.seckill(["multi-deduct", "--rate", "50", "-o", "jsonl", "--from", orders.path()]).spawn();
    call.wait_for_stdout("\"line\":9,");
    call.signal(libc::SIGINT);
    let outcome = call.wait().code(130).stderr_has("stopped after").stderr_has("the same command resumes");
    let reported = outcome.jsonl().len();
    assert_eq!(held(&redis, "a"), reported as u64, "every order that was applied was reported");
    let rest = redis.seckill(["multi-deduct", "--fast", "-o", "jsonl", "--from", orders.path()]).code(0);
    assert_eq!(statuses(&rest).iter().filter(|status| status.ends_with("replayed")).count(), reported);

    // A reader that goes away stops it as well.
    let redis = sale(100_000);
    let orders = pairs(20_000);
    redis
        .seckill(["multi-deduct", "-o", "jsonl", "--from", orders.path()])
        .stdout_closed_after(1_000)
        .code(1)
        .stderr_has("standard output was closed")
        .stderr_has("the same command resumes");
    assert!(held(&redis, "a") < 5_000);
}

#[test]
fn multi_orders_have_a_rate_and_their_bad_lines_a_file() {
    let redis = sale(10_000);
    let orders = pairs(500);
    let start = std::time::Instant::now();
    redis.seckill(["multi-deduct", "--rate", "1000", "--from", orders.path()]).code(0);
    assert!(start.elapsed().as_secs_f64() > 0.48, "500 orders at 1000 a second took {:?}", start.elapsed());

    let text = "{\"user\":1,\"items\":{\"a\":1}}\n{\"user\":2,\"items\":{\"a\":0}}\nno\n";
    let orders = Orders::named("o.jsonl", text);
    let rejects = orders.dir.path().join("rejects.jsonl");
    redis
        .seckill(["multi-deduct", "--keep-going", "--from", orders.path(), "--rejects"])
        .args([&rejects])
        .code(2)
        .stderr_has("rejects.jsonl` and apply that file alone");
    assert_eq!(std::fs::read_to_string(&rejects).unwrap(), text.split_once('\n').unwrap().1);
    for flag in [&["--rate", "5"][..], &["--fast"], &["--retry-for", "5s"], &["--keep-going"]] {
        seckill(["multi-deduct", "a=1", "--user", "7"]).args(flag).code(2).stderr_has("--from");
    }
}

#[test]
fn a_server_that_refuses_multi_orders_for_a_while_is_waited_for() {
    let redis = sale(1_000);
    let orders = pairs(500);
    let proxy = Proxy::before(&redis);
    let call = start_and_hold(&proxy, 9, proxy.seckill(["multi-deduct", "-o", "jsonl", "--from", orders.path()]));
    redis.config_set("maxmemory", "1");
    proxy.release();
    call.wait_for_stderr("trying again");
    redis.config_set("maxmemory", "0");
    let outcome = call.wait().code(0);
    assert!(statuses(&outcome).iter().all(|status| status.ends_with(" ok")));

    redis.config_set("maxmemory", "1");
    let more = Orders::named("more.jsonl", "{\"user\":7,\"items\":{\"a\":1}}\n");
    let call = redis.seckill(["multi-deduct", "--retry-for", "200ms", "--from", more.path()]);
    call.code(1).stderr_has("out of memory").stderr_has("nothing was applied; raise `maxmemory`");
}
