//! A server that forgets in the midst of a file what it had decided: a restart with older data, or a failover to a
//! replica that lagged. What was reported is not contradicted without a word.

use super::multi::{pairs, sale};
use super::{Orders, held, preheat, start_and_hold, statuses, summary};
use crate::support::{Copy, Proxy, TestRedis};

/// Behind SCRIPT LOAD and two HGET for each of three activities. A call has 64 orders of two items, and two calls are
/// in flight: when a reply is held, the call behind it may have run or not.
const FIRST: usize = 8;

#[test]
fn an_order_reported_as_done_and_refused_later_is_counted() {
    let redis = TestRedis::start();
    for activity in ["a", "b", "c"] {
        preheat(&redis, activity, 60);
    }
    let orders = pairs(300);
    let copy = Copy::of(&redis);
    let proxy = Proxy::before(&redis);
    let call = proxy.seckill(["multi-deduct", "-o", "json", "--from", orders.path()]);
    let call = start_and_hold(&proxy, FIRST, call);
    copy.put_back(&redis);
    redis.seckill(["deduct", "a", "--user", "somebody", "--quantity", "40"]).code(0);
    proxy.release();
    let outcome =
        call.wait().code(3).stderr_has("up to 40 orders reported as applied are refused now: the server lost data");
    let outcome =
        outcome.stderr_has("the server lost what it had decided of `a` after line ").stderr_has("it is applied again");
    assert_eq!(summary(&outcome)[..2], ["a ok 60", "a out_of_stock 240"], "as it was reported first");
    assert_eq!((held(&redis, "a"), redis.int("seckill:stock:a")), (60, 0));
}

#[test]
fn a_reset_stops_multi_orders_that_began_before_it() {
    let redis = sale(1_000);
    let orders = pairs(500);
    let proxy = Proxy::before(&redis);
    let call = proxy.seckill(["multi-deduct", "-o", "jsonl", "--from", orders.path()]);
    let call = start_and_hold(&proxy, FIRST, call);
    redis.seckill(["preheat", "--id", "b", "--stock", "77", "--reset", "--yes"]).code(0);
    proxy.release();
    let outcome = call.wait().code(1).stderr_has("activity `b` was reset after this run began");
    let reported = statuses(&outcome).len();
    assert!([64, 128].contains(&reported), "{reported}");
    assert_eq!((held(&redis, "a"), redis.int("seckill:stock:b")), (reported as u64, 77));
}

#[test]
fn an_activity_that_is_preheated_in_mid_run_is_sold_by_the_next_one() {
    let redis = TestRedis::selling("a", 1_000);
    preheat(&redis, "b", 1_000);
    let orders = pairs(200);
    let proxy = Proxy::before(&redis);
    let call = proxy.seckill(["multi-deduct", "-o", "jsonl", "--from", orders.path()]);
    let call = start_and_hold(&proxy, FIRST + 1, call);
    preheat(&redis, "c", 1_000);
    proxy.release();
    let outcome = call.wait().code(3).stderr("");
    let status = |line: u64| if line.is_multiple_of(2) { "refused" } else { "ok" };
    let expected: Vec<String> = (1..=200).map(|line| format!("{line} {}", status(line))).collect();
    assert_eq!(statuses(&outcome), expected);
    assert_eq!((held(&redis, "a"), held(&redis, "c")), (100, 0));
    let again = redis.seckill(["multi-deduct", "-o", "jsonl", "--from", orders.path()]).code(0);
    let status = |line: u64| if line.is_multiple_of(2) { "ok" } else { "replayed" };
    let expected: Vec<String> = (1..=200).map(|line| format!("{line} {}", status(line))).collect();
    assert_eq!(statuses(&again), expected);
    assert_eq!((held(&redis, "a"), held(&redis, "c")), (200, 100));
}

#[test]
fn activities_of_another_system_take_files_of_multi_orders() {
    let redis = TestRedis::start();
    for activity in ["a", "b", "c"] {
        redis.cmd(("SET", format!("seckill:stock:{activity}"), 100));
    }
    let orders = pairs(100);
    redis.seckill(["multi-deduct", "--from", orders.path()]).code(0).stderr("");
    assert_eq!((held(&redis, "a"), redis.int("seckill:stock:b")), (100, 50));
}

#[test]
fn what_a_server_forgot_of_a_pipe_is_exit_6_and_resumes() {
    let redis = TestRedis::selling("1001", 1_000);
    let text = std::fs::read_to_string(Orders::of_users("1001", 600).path()).unwrap();
    let night = || ["deduct", "--job", "night", "-o", "jsonl", "--from", "-"];
    let copy = Copy::of(&redis);
    let proxy = Proxy::before(&redis);
    // Behind SCRIPT LOAD, HGET and HGET: the first batch is decided, and its reply on the way.
    let running = start_and_hold(&proxy, 4, proxy.seckill(night()).stdin(&text));
    copy.put_back(&redis);
    proxy.release();
    let outcome = running.wait().code(6).stderr_has("the server lost what it had decided of `1001` after line ");
    outcome.stderr_has("this input cannot be read again").stderr_has("the same `--job`");
    let again = redis.seckill(night()).stdin(&text).code(0);
    assert_eq!((statuses(&again).len(), held(&redis, "1001")), (600, 600));
}
