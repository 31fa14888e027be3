//! The same file again, from elsewhere, later or the other way round.

use super::{Orders, held, start_and_hold, statuses, summary};
use crate::support::{Fault, Proxy, TestRedis, When, wait_until};

#[test]
fn a_run_that_was_killed_is_resumed() {
    let redis = TestRedis::selling("1001", 900);
    let orders = Orders::of_users("1001", 1_000);
    let proxy = Proxy::before(&redis);
    proxy.inject(When::Command(9), Fault::HangReply);
    let call = proxy.seckill(["deduct", "--from", orders.path()]).spawn();
    proxy.wait_for_commands(10);
    call.signal(libc::SIGKILL);
    call.wait().killed_by(libc::SIGKILL);
    // What it had sent may still be on its way: the server hangs up once it has run that.
    drop(proxy);
    wait_until("nobody else is connected", || redis.ask::<String>(&["CLIENT", "LIST"]).lines().count() == 1);
    let applied = held(&redis, "1001");
    assert!((1..900).contains(&applied), "{applied} were applied");

    // With batches of another size.
    let outcome = redis.seckill(["deduct", "--fast", "-o", "json", "--from", orders.path()]).code(3);
    let rest = 900 - applied;
    assert_eq!(
        summary(&outcome),
        [format!("1001 ok {rest}"), format!("1001 replayed {applied}"), "1001 out_of_stock 100".to_owned()]
    );
    assert_eq!((held(&redis, "1001"), redis.int("seckill:stock:1001")), (900, 0));
}

#[test]
fn ctrl_c_waits_for_replies_and_the_same_command_resumes() {
    let redis = TestRedis::selling("a", 1_000);
    let orders = Orders::of_users("a", 500);
    let multi: String = (500..1_000).map(|user| format!("{{\"user\":{user},\"items\":{{\"a\":1}}}}\n")).collect();
    let multi = Orders::named("o.jsonl", multi);
    for (command, file) in [("deduct", &orders), ("multi-deduct", &multi)] {
        let before = held(&redis, "a");
        let proxy = Proxy::before(&redis);
        // It would take ten seconds.
        let run = proxy.seckill([command, "--rate", "50", "-o", "jsonl", "--from", file.path()]);
        let call = start_and_hold(&proxy, 9, run);
        call.signal(libc::SIGINT);
        proxy.release();
        let outcome = call.wait().code(130).stderr_has("stopped after").stderr_has("the same command resumes");
        let reported = outcome.jsonl().len() as u64;
        assert_eq!(held(&redis, "a") - before, reported, "{command}: what was in flight is reported too");
        let rest = redis.seckill([command, "-o", "jsonl", "--from", file.path()]).code(0);
        let replayed = statuses(&rest).iter().filter(|status| status.ends_with("replayed")).count() as u64;
        assert_eq!((replayed, held(&redis, "a") - before), (reported, 500), "{command}");
    }
}

#[test]
fn a_closed_output_stops_the_run_and_the_same_command_resumes() {
    let redis = TestRedis::selling("1001", 100_000);
    let orders = Orders::of_users("1001", 50_000);
    redis
        .seckill(["deduct", "-o", "jsonl", "--from", orders.path()])
        .stdout_closed_after(1_000)
        .code(1)
        .stderr_has("standard output was closed")
        .stderr_has("the same command resumes");
    let applied = held(&redis, "1001");
    // However quick it is: some hundred rows fit into a buffer, and the pipe holds as many.
    assert!(applied < 5_000, "{applied}");
    redis.seckill(["deduct", "--from", orders.path()]).code(0);
    assert_eq!(held(&redis, "1001"), 50_000);
}

#[test]
fn a_file_that_changes_while_it_is_applied_stops_the_run() {
    let redis = TestRedis::selling("1001", 1_000_000);
    let orders = Orders::of_users("1001", 100_000);
    let proxy = Proxy::before(&redis);
    let call = start_and_hold(&proxy, 4, proxy.seckill(["deduct", "--from", orders.path()]));
    let text = std::fs::read_to_string(orders.path()).unwrap();
    std::fs::write(orders.path(), text.replace("u99999,1", "u99999,9")).unwrap();
    proxy.release();
    call.wait().code(1).stderr_has("changed after it was checked");
    let applied = held(&redis, "1001");
    assert!(applied > 0 && applied < 100_000, "{applied}");
    std::fs::write(orders.path(), text).unwrap();
    redis.seckill(["deduct", "--from", orders.path()]).code(0);
    assert_eq!(held(&redis, "1001"), 100_000);
}
