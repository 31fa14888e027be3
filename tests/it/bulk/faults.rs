//! The connection breaks, the server refuses, restarts or forgets: the run resumes by itself.

use super::multi::{pairs, sale};
use super::{Orders, held, start_and_hold, statuses};
use crate::support::{Fault, Proxy, TestRedis, When};

/// What a server says that did not run a call.
pub const REFUSALS: [&str; 5] = [
    "NOSCRIPT No matching script. Please use EVAL.",
    "OOM command not allowed when used memory > 'maxmemory'.",
    "READONLY You can't write against a read only replica.",
    "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.",
    "MISCONF Errors writing to the AOF file: No space left on device",
];

/// One of the calls in flight, behind SCRIPT LOAD and two HGET an activity. Who comes first in the file gets something, whatever is refused.
#[test]
fn a_call_that_is_refused_among_many_in_flight_is_not_overtaken() {
    let single = Orders::of_users("a", 900);
    let pairs = pairs(500);
    for words in REFUSALS {
        let redis = sale(450);
        let proxy = Proxy::before(&redis);
        for (command, orders, number, lines, refused) in [
            ("deduct", &single, 5, 2..902, "out_of_stock"),
            ("refund", &single, 5, 2..902, "exceeds_bought"),
            ("multi-deduct", &pairs, 11, 1..501, "refused"),
        ] {
            proxy.inject(When::Command(number), Fault::Refuse(words));
            let outcome = proxy.seckill([command, "--fast", "-o", "jsonl", "--from", orders.path()]).code(3).stderr("");
            let taken = lines.start + 450;
            let expected = lines.map(|line| format!("{line} {}", if line < taken { "ok" } else { refused }));
            assert_eq!(statuses(&outcome), expected.collect::<Vec<_>>(), "{command} {words}");
        }
        assert_eq!((held(&redis, "a"), redis.int("seckill:stock:a")), (450, 0), "{words}");
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
            let redis = TestRedis::selling("1001", 400);
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
