//! The connection breaks, the server refuses, restarts or forgets: the run resumes by itself.

use super::{Orders, held, preheat, start_and_hold, statuses};
use crate::support::{Fault, Proxy, TestRedis, When};

/// What a server says that did not run a call.
const REFUSALS: [&str; 5] = [
    "NOSCRIPT No matching script. Please use EVAL.",
    "OOM command not allowed when used memory > 'maxmemory'.",
    "READONLY You can't write against a read only replica.",
    "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.",
    "MISCONF Errors writing to the AOF file: No space left on device",
];

#[test]
fn one_batch_that_is_refused_among_many_in_flight_is_not_overtaken() {
    // Users 0 to 499 come first in the file, so they are the ones who get something, whatever is refused meanwhile.
    let orders = Orders::of_users("1001", 900);
    let taken = Orders::of_users("1001", 500);
    for words in REFUSALS {
        let redis = TestRedis::start();
        preheat(&redis, "1001", 500, None);
        let proxy = Proxy::before(&redis);
        for (command, code) in [("deduct", 3), ("refund", 3)] {
            // Behind SCRIPT LOAD, HGET and HGET: the second batch of four in flight.
            proxy.inject(When::Nth(5), Fault::Refuse(words));
            let outcome = proxy.seckill([command, "--fast", "-o", "jsonl", "--from", orders.path()]).code(code);
            let refused = if command == "deduct" { "out_of_stock" } else { "exceeds_bought" };
            let expected = |index: usize| format!("{} {}", index + 2, if index < 500 { "ok" } else { refused });
            assert_eq!(statuses(&outcome), (0..900).map(expected).collect::<Vec<_>>(), "{command} {words}");
            outcome.stderr("");
        }
        assert_eq!((held(&redis, "1001"), redis.int("seckill:stock:1001")), (0, 500), "{words}");
        redis.seckill(["deduct", "--job", "again", "--from", taken.path()]).code(0);
    }
}

#[test]
fn a_server_that_still_refuses_ends_the_run_with_what_was_applied() {
    let lines: String = (0..600).map(|user| format!("{{\"user\":{user},\"items\":{{\"1001\":1}}}}\n")).collect();
    let (single, multi) = (Orders::of_users("1001", 600), Orders::named("o.jsonl", lines));
    for (name, says, advice) in [
        ("maxmemory", "is out of memory", "raise `maxmemory` (policy `noeviction`) or free memory"),
        ("min-replicas-to-write", "has too few replicas", "see `min-replicas-to-write` on the server"),
    ] {
        for (command, orders) in [("deduct", &single), ("multi-deduct", &multi)] {
            let redis = TestRedis::start();
            preheat(&redis, "1001", 400, None);
            let proxy = Proxy::before(&redis);
            let run = ["--retry-for", "200ms", "-o", "jsonl", "--from", orders.path()];
            let call = start_and_hold(&proxy, 5, proxy.seckill([command]).args(run));
            redis.config_set(name, "1");
            proxy.release();
            let outcome = call.wait().code(1);
            let error = outcome.error_line();
            assert!(error["error"].as_str().unwrap().contains(says), "{error}");
            let reported = outcome.jsonl().len();
            let how_to_resume = "the same command resumes; what was applied is not applied again";
            let hint = format!("{reported} orders were decided before ({reported} ok); {advice}; {how_to_resume}");
            assert_eq!(error["hint"], hint, "{command} {name}");
            assert!(
                (1..400).contains(&reported) && held(&redis, "1001") == reported as u64,
                "{command} {name}: {reported}"
            );
            redis.config_set(name, "0");
            redis.seckill([command, "--from", orders.path()]).code(3);
            assert_eq!(held(&redis, "1001"), 400);
        }
    }
}
