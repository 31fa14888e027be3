//! Rows come at the rate that is given, as the input arrives. `sessions/files.txt` has what they say.

use super::Orders;
use super::interrupted::fifo;
use crate::support::TestRedis;

#[test]
fn the_rate_is_kept() {
    let redis = TestRedis::selling("1001", 10_000);
    let orders = Orders::of_users("1001", 1_000);
    let start = std::time::Instant::now();
    redis.seckill(["deduct", "--rate", "2000", "--from", orders.path()]).code(0);
    // Only what no machine can break: the last call is due a hundredth of a second before the end.
    // How exactly a rate is met from below is measured by `make bench`.
    let took = start.elapsed().as_secs_f64();
    assert!(took >= 0.485, "1000 orders at 2000 a second took {took} s");
}

#[test]
fn what_arrives_slowly_is_applied_as_it_comes() {
    let redis = TestRedis::selling("1001", 10);
    let (_dir, fifo) = fifo();
    let call = redis.seckill(["deduct", "-o", "jsonl", "--from"]).args([&fifo]).spawn();
    let mut pipe = std::fs::File::create(&fifo).unwrap();
    for (user, line) in [("1", 2), ("2", 3)] {
        use std::io::Write;
        let header = if line == 2 { "activity,user\n" } else { "" };
        writeln!(pipe, "{header}1001,{user}").unwrap();
        call.wait_for_stdout(&format!("\"line\":{line}"));
    }
    drop(pipe);
    call.wait().code(0).stderr_has("this input is applied as the job `");
    assert_eq!(redis.int("seckill:stock:1001"), 8);
}
