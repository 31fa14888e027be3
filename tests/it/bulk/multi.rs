//! Files of orders of several activities.

use super::{Orders, held, preheat, start_and_hold, statuses};
use crate::support::{Proxy, TestRedis, seckill, wait_until};

/// So many orders, each of one unit of `a` and of `b` or `c`.
pub fn pairs(orders: usize) -> Orders {
    let line = |user| format!("{{\"user\":{user},\"items\":{{\"a\":1,\"{}\":1}}}}\n", ["b", "c"][user % 2]);
    Orders::named("o.jsonl", (0..orders).map(line).collect::<String>())
}

pub fn sale(stock: u64) -> TestRedis {
    let redis = TestRedis::start();
    for activity in ["a", "b", "c"] {
        preheat(&redis, activity, stock);
    }
    redis
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
fn multi_orders_have_a_rate_and_their_bad_lines_a_file() {
    let redis = sale(10_000);
    let orders = pairs(500);
    let start = std::time::Instant::now();
    redis.seckill(["multi-deduct", "--rate", "1000", "--from", orders.path()]).code(0);
    assert!(start.elapsed().as_secs_f64() > 0.48, "500 orders at 1000 a second took {:?}", start.elapsed());
    // Of orders over shards, which no call of several has.
    redis.seckill(["-l", "cluster", "preheat", "--id", "s", "--stock", "10", "--shards", "2"]).code(0);
    let lines: String = (0..10).map(|user| format!("{{\"user\":{user},\"items\":{{\"s\":1}}}}\n")).collect();
    let orders = Orders::named("s.jsonl", lines);
    let start = std::time::Instant::now();
    redis.seckill(["-l", "cluster", "multi-deduct", "--rate", "20", "--from", orders.path()]).code(0);
    assert!(start.elapsed().as_secs_f64() > 0.38, "10 orders at 20 a second took {:?}", start.elapsed());

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
fn a_server_that_refuses_for_a_while_is_waited_for() {
    for (command, orders, number, (name, refusing)) in [
        ("deduct", Orders::of_users("a", 500), 5, ("min-replicas-to-write", "3")),
        ("multi-deduct", pairs(500), 9, ("maxmemory", "1")),
    ] {
        let redis = sale(1_000);
        let proxy = Proxy::before(&redis);
        let call = proxy.seckill([command, "-o", "jsonl", "--from", orders.path()]);
        let call = start_and_hold(&proxy, number, call);
        redis.config_set(name, refusing);
        proxy.release();
        call.wait_for_stderr("trying again");
        redis.config_set(name, "0");
        let outcome = call.wait().code(0);
        assert!(statuses(&outcome).iter().all(|status| status.ends_with(" ok")), "{command}");

        redis.config_set("maxmemory", "1");
        let again = ["--job", "more", "--retry-for", "200ms", "--from", orders.path()];
        let refused = redis.seckill([command]).args(again).code(1);
        refused.stderr_has("out of memory").stderr_has("nothing was applied; raise `maxmemory`");
    }
}
