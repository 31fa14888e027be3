//! The exit code of a file of orders: the first of 6, 1, 2 and 3 that applies, and 130 if it was interrupted.

use super::{Orders, held, start_and_hold, statuses};
use crate::support::{Fault, Proxy, TestRedis, When};

/// Orders of that many users for ten units, and one invalid line.
fn too_many(users: usize) -> Orders {
    let rows: String = (0..users).map(|user| format!("1001,u{user},1\n")).collect();
    Orders::new(&format!("activity,user,quantity\n1001,x,-1\n{rows}"))
}

#[test]
fn invalid_lines_come_before_refused_ones() {
    let redis = TestRedis::selling("1001", 10);
    let orders = too_many(11);
    redis.seckill(["deduct", "--keep-going", "--from", orders.path()]).code(2).stdout_has("out_of_stock");
    let valid = Orders::of_users("1001", 11);
    redis.seckill(["deduct", "--from", valid.path()]).code(3);
}

#[test]
fn a_failure_comes_before_invalid_lines() {
    let redis = TestRedis::selling("1001", 10);
    let orders = too_many(400);
    let proxy = Proxy::before(&redis);
    let call = proxy.seckill(["deduct", "--keep-going", "-o", "jsonl", "--from", orders.path()]);
    let call = start_and_hold(&proxy, 4, call);
    redis.seckill(["preheat", "--id", "1001", "--stock", "10", "--reset", "--yes"]).code(0);
    proxy.release();
    call.wait().code(1).stderr_has("was reset").stderr_has("orders.csv:2:8: quantity: `-1`");
    let orders = too_many(50_000);
    let call = redis.seckill(["deduct", "--keep-going", "-o", "jsonl", "--from", orders.path()]);
    let closed = call.stdout_closed_after(1_000).code(1).stderr_has("standard output was closed");
    closed.stderr_has("the same command resumes").stderr_lacks("the server lost data");
}

#[test]
fn an_unknown_outcome_comes_before_everything() {
    let redis = TestRedis::selling("1001", 10);
    let orders = too_many(400);
    let proxy = Proxy::before(&redis);
    let call = ["deduct", "--keep-going", "--retry-for", "300ms", "-o", "jsonl", "--from", orders.path()];
    let call = start_and_hold(&proxy, 4, proxy.seckill(call));
    proxy.inject(When::Always, Fault::LoseReply);
    proxy.release();
    let outcome =
        call.wait().code(6).stderr_has("orders.csv:2:8: quantity: `-1`").stderr_has("the same command resumes");
    assert!(statuses(&outcome).len() < 400);
    let again = redis.seckill(["deduct", "--keep-going", "-o", "jsonl", "--from", orders.path()]).code(2);
    assert_eq!((statuses(&again).len(), held(&redis, "1001")), (400, 10));
}

#[test]
fn an_interrupted_run_is_130_whatever_else_applies() {
    let redis = TestRedis::selling("1001", 10);
    let orders = too_many(400);
    let call =
        redis.seckill(["deduct", "--keep-going", "--rate", "20", "-o", "jsonl", "--from", orders.path()]).spawn();
    call.wait_for_stdout("out_of_stock");
    call.interrupt().stderr_has("orders.csv:2:8: quantity: `-1`").stderr_has("the same command resumes");
}
