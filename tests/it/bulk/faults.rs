//! The connection breaks, the server refuses, restarts or forgets: the run resumes by itself.

use super::{Orders, held, preheat, start_and_hold, statuses, summary};
use crate::support::{Fault, Proxy, TestRedis, When};

/// Counts orders and refused ones, whatever became of the replies.
fn all(outcome: &crate::support::Outcome) -> usize {
    outcome.jsonl().len()
}

#[test]
fn a_broken_connection_costs_nothing_but_a_replay() {
    for fault in [Fault::LoseReply, Fault::LoseRequest, Fault::CutReply(5), Fault::CutRequest(700), Fault::HangReply] {
        let redis = TestRedis::start();
        preheat(&redis, "1001", 900, None);
        let orders = Orders::of_users("1001", 1_000);
        let proxy = Proxy::before(&redis);
        // Behind SCRIPT LOAD, HGET and HGET.
        proxy.inject(When::Nth(8), fault);
        let outcome = proxy.seckill(["deduct", "--timeout", "300ms", "-o", "jsonl", "--from", orders.path()]).code(3);
        assert_eq!(all(&outcome), 1_000, "{fault:?}");
        assert_eq!((held(&redis, "1001"), redis.int("seckill:stock:1001")), (900, 0), "{fault:?}");
        let sold: Vec<String> =
            statuses(&outcome).into_iter().filter(|status| status.ends_with("out_of_stock")).collect();
        assert!(sold.len() <= 100, "{fault:?}");
    }
}

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
fn scripts_that_were_flushed_are_loaded_again() {
    let redis = TestRedis::start();
    preheat(&redis, "1001", 1_000, None);
    let orders = Orders::of_users("1001", 600);
    let proxy = Proxy::before(&redis);
    let call = start_and_hold(&proxy, 4, proxy.seckill(["deduct", "-o", "jsonl", "--from", orders.path()]));
    // Each time one batch more may be through, and one in flight: the last one always finds its script gone.
    for _ in 0..2 {
        redis.cmd(("SCRIPT", "FLUSH"));
        proxy.inject(When::Next("EVALSHA"), Fault::Hold);
        proxy.release();
        proxy.wait_until_held();
    }
    redis.cmd(("SCRIPT", "FLUSH"));
    proxy.release();
    let outcome = call.wait().code(0).stderr("");
    assert!(statuses(&outcome).iter().all(|status| status.ends_with(" ok")), "nothing that did not run is replayed");
    assert_eq!(held(&redis, "1001"), 600);
    let loads = proxy.commands().iter().filter(|name| *name == "SCRIPT").count();
    assert!(loads > 1, "{:?}", proxy.commands());
}

#[test]
fn a_server_that_refuses_for_a_while_is_waited_for() {
    for (name, refusing, serving) in [("maxmemory", "1", "0"), ("min-replicas-to-write", "3", "0")] {
        let redis = TestRedis::start();
        preheat(&redis, "1001", 1_000, None);
        let orders = Orders::of_users("1001", 600);
        let proxy = Proxy::before(&redis);
        let call = start_and_hold(&proxy, 5, proxy.seckill(["deduct", "-o", "jsonl", "--from", orders.path()]));
        redis.config_set(name, refusing);
        proxy.release();
        call.wait_for_stderr("trying again");
        redis.config_set(name, serving);
        let outcome = call.wait().code(0);
        assert!(statuses(&outcome).iter().all(|status| status.ends_with(" ok")), "{name}");
        assert_eq!(held(&redis, "1001"), 600, "{name}");
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

#[test]
fn a_replica_that_becomes_primary_again_is_waited_for() {
    let redis = TestRedis::start();
    let primary = TestRedis::with_tcp([]);
    preheat(&redis, "1001", 1_000, None);
    let orders = Orders::of_users("1001", 600);
    let proxy = Proxy::before(&redis);
    let call = start_and_hold(&proxy, 5, proxy.seckill(["deduct", "-o", "json", "--from", orders.path()]));
    // Not yet synchronised, because nobody answers there: it keeps its data and refuses writes.
    primary.freeze();
    redis.cmd(("REPLICAOF", "127.0.0.1", primary.port().unwrap()));
    proxy.release();
    call.wait_for_stderr("is read-only");
    redis.cmd(("REPLICAOF", "NO", "ONE"));
    assert_eq!(summary(&call.wait().code(0)), ["1001 ok 600"]);
    assert_eq!(held(&redis, "1001"), 600);
}

#[test]
fn a_server_that_stays_away_ends_the_run_with_what_is_known() {
    let redis = TestRedis::start();
    preheat(&redis, "1001", 1_000, None);
    let orders = Orders::of_users("1001", 600);
    let proxy = Proxy::before(&redis);
    let call = proxy.seckill(["deduct", "--retry-for", "300ms", "-o", "jsonl", "--from", orders.path()]);
    let call = start_and_hold(&proxy, 5, call);
    proxy.inject(When::Always, Fault::LoseReply);
    proxy.release();
    let outcome = call.wait().code(6).stderr_has("the same command resumes");
    let reported = all(&outcome) as u64;
    assert!((1..600).contains(&reported), "{reported}");
    proxy.heal();
    assert!(held(&redis, "1001") >= reported);
    redis.seckill(["deduct", "--from", orders.path()]).code(0);
    assert_eq!(held(&redis, "1001"), 600);

    let redis = TestRedis::with(["--maxmemory", "1"]);
    redis.seckill(["deduct", "--retry-for", "300ms", "--from", orders.path()]).code(3).stdout_has("not_preheated");
}

#[test]
fn a_server_that_is_killed_and_comes_back_is_gone_on_with() {
    let mut redis = TestRedis::with(["--appendonly", "yes", "--appendfsync", "always"]);
    preheat(&redis, "1001", 500, None);
    let orders = Orders::of_users("1001", 600);
    let proxy = Proxy::before(&redis);
    let call = start_and_hold(&proxy, 5, proxy.seckill(["deduct", "-o", "jsonl", "--from", orders.path()]));
    redis.kill9();
    redis.restart();
    proxy.release();
    let outcome = call.wait().code(3);
    assert_eq!(all(&outcome), 600);
    assert_eq!((held(&redis, "1001"), redis.int("seckill:stock:1001")), (500, 0));
}

#[test]
fn what_a_server_forgot_is_applied_again() {
    let redis = TestRedis::start();
    for activity in ["1001", "1002"] {
        preheat(&redis, activity, 1_000, None);
    }
    let rows: String = (0..600).map(|user| format!("{},u{user},1\n", 1001 + user % 2)).collect();
    let text = format!("activity,user,quantity\n{rows}");
    let orders = Orders::new(&text);
    // As a failover to a replica that lagged leaves it: an older state of all keys of one activity.
    let keys = ["stock", "meta", "requests", "ledger"].map(|part| format!("seckill:{part}:1001"));
    let dumps: Vec<Vec<u8>> = keys
        .iter()
        .map(|key| redis.ask(("DUMP", key)))
        .collect::<Vec<Option<Vec<u8>>>>()
        .into_iter()
        .map(Option::unwrap_or_default)
        .collect();
    let forget = || {
        for (key, dump) in keys.iter().zip(&dumps) {
            redis.cmd(("DEL", key));
            if !dump.is_empty() {
                redis.cmd(("RESTORE", key, 0, dump.as_slice()));
            }
        }
        redis.cmd(("DEL", "seckill:participants:1001"));
    };
    let proxy = Proxy::before(&redis);
    // Behind SCRIPT LOAD, four HGET and a batch of each: the second of 1001, which has three.
    let call = start_and_hold(&proxy, 8, proxy.seckill(["deduct", "-o", "jsonl", "--from", orders.path()]));
    forget();
    proxy.release();
    let outcome = call.wait().code(0).stderr_has("the server lost what it had decided of `1001` after line 0");
    let lines: Vec<u64> = outcome.jsonl().iter().map(|row| row["line"].as_u64().unwrap()).collect();
    assert_eq!(lines, (2..602).collect::<Vec<_>>(), "each line is reported once, in order");
    assert_eq!((held(&redis, "1001"), held(&redis, "1002")), (300, 300));

    // Standard input cannot be read again.
    let call = proxy.seckill(["deduct", "--job", "j", "-o", "jsonl", "--from", "-"]).stdin(&text);
    // The first batch, of 1001: how many more there are depends on how the input arrives.
    let call = start_and_hold(&proxy, 6, call);
    forget();
    proxy.release();
    call.wait().code(6).stderr_has("cannot be read again").stderr_has("--job");
    redis.seckill(["deduct", "--job", "j", "--from", "-"]).stdin(&text).code(0);
    assert_eq!((held(&redis, "1001"), held(&redis, "1002")), (300, 600));
}

#[test]
fn a_user_who_may_not_ends_the_run_before_anything_is_written() {
    let redis = TestRedis::start();
    preheat(&redis, "1001", 1_000, None);
    redis.cmd(&["ACL", "SETUSER", "clerk", "on", ">secret", "~*", "+@all", "-xadd"]);
    let before = redis.dump_all();
    let orders = Orders::of_users("1001", 600);
    let url = redis.url();
    redis
        .seckill(["deduct", "--from", orders.path()])
        .env("SECKILL_URL", &format!("{url}?user=clerk&pass=secret"))
        .code(4)
        .stderr_has("ermission");
    if redis.scripts_can_check_permissions() {
        redis.assert_unchanged_since(&before);
    }
}
