//! A reply that is lost, late or cut: each order exactly once.

use super::on_one_server;
use crate::support::{Fault, Proxy, SECKILL, TestRedis, When, wait_until};

/// Commands that carry a request id, and by how much each moves the stock of activity 1.
const ONCE: [(&str, i64); 4] = [
    ("deduct 1 --user 8 --request x", -1),
    ("hold 1 --user 8 --for 15m --request x", -1),
    ("refund 1 --user 7 --request x", 1),
    ("multi-deduct --user 8 1=1 2=1 --request x", -1),
];

#[test]
fn a_lost_reply_is_asked_for_again_and_the_order_happens_once() {
    for (line, moves) in ONCE {
        for fault in [Fault::LoseReply, Fault::CutReply(2), Fault::LoseRequest, Fault::CutRequest(40)] {
            let (redis, _) = on_one_server();
            let proxy = Proxy::before(&redis);
            proxy.inject(When::Next("EVALSHA"), fault);
            let outcome = proxy.seckill(["-o", "json"]).args(line.split(' ')).code(0).stderr("");
            let ran = matches!(fault, Fault::LoseReply | Fault::CutReply(_));
            // The retry finds what the first try did: `replayed` is the truth, and as good as `ok`.
            assert_eq!(outcome.json()["status"], if ran { "replayed" } else { "ok" }, "{line} {fault:?}");
            assert_eq!(redis.int(&SECKILL.stock("1")), 9 + moves, "{line} {fault:?}");
            assert_eq!(redis.xrange(&SECKILL.ledger("1")).len(), 3, "{line} {fault:?}");
            assert_eq!(proxy.connections(), 2);
        }
    }
}

#[test]
fn what_an_operator_changes_is_done_once_if_the_reply_is_lost() {
    let redis = TestRedis::start();
    redis.seckill(["script", "load"]).code(0);
    let proxy = Proxy::before(&redis);
    // A plan, the eviction policy and the index come first.
    for number in 1..=4 {
        let id = number.to_string();
        proxy.inject(When::Command(number), Fault::LoseReply);
        let row = proxy.seckill(["preheat", "-o", "json", "--stock", "10", "--id", &id]).code(0).json()[0].clone();
        proxy.heal();
        let expected = if number == 4 { "replayed" } else { "ok" };
        assert_eq!((row["status"].as_str(), row["stock"].as_i64()), (Some(expected), Some(10)), "{number}: {row}");
        assert_eq!(redis.xrange(&SECKILL.ledger(&id)).len(), 1, "{number}");
    }
    // Sent again, these could undo what another operator did meanwhile.
    for (line, number) in [("preheat --id 1 --stock 15 --update --if-total 10", 4), ("resume 1", 1)] {
        redis.seckill(["pause", "1"]).code(0);
        proxy.inject(When::Command(number), Fault::LoseReply);
        proxy.seckill([]).args(line.split(' ')).code(6).stderr_has("`seckill inspect 1`");
        proxy.heal();
    }
    assert_eq!(redis.xrange(&SECKILL.ledger("1")).len(), 4);
    // What is not in doubt is done.
    redis.seckill(["pause", "1", "2"]).code(0);
    proxy.inject(When::Command(1), Fault::LoseReply);
    proxy.seckill(["resume", "1", "2"]).code(6).stdout_has("live").stderr_has("`seckill inspect 1`");
    proxy.heal();
    redis.seckill(["inspect", "2"]).code(0).stdout_has("live");
    // The same before the steps of a fixture: plan, index, preheat.
    proxy.inject(When::Command(3), Fault::LoseReply);
    proxy.seckill(["run", "-"]).stdin("activities: [{id: 9, stock: 5}]").code(0).stderr_has("1 created");
}

#[test]
fn what_expired_behind_a_lost_reply_is_pointed_at() {
    let (redis, _) = on_one_server();
    redis.seckill(["hold", "1", "--user", "8", "--for", "1ms"]).code(0);
    let proxy = Proxy::before(&redis);
    proxy.inject(When::Next("EVALSHA"), Fault::LoseReply);
    let expired = proxy.seckill(["expire", "1", "--wait-replicas", "1"]).code(6);
    expired.stderr_has("a reply was lost").stderr_lacks("no hold");
    assert_eq!(redis.int(&SECKILL.stock("1")), 9);
}

#[test]
fn without_any_answer_the_outcome_is_unknown_and_the_hint_settles_it() {
    for (line, moves) in ONCE {
        let (redis, _) = on_one_server();
        let proxy = Proxy::before(&redis);
        proxy.inject(When::Always, Fault::HangReply);
        let call = proxy.seckill(["-o", "json", "--timeout", "60ms"]).args(line.split(' '));
        let error = call.code(6).stdout_is("").error_json();
        assert!(error["hint"].as_str().unwrap().contains("--request x"), "{error}");
        // Late, but the server runs it.
        wait_until("it has run", || redis.hget(&SECKILL.requests("1"), "x").is_some());
        proxy.heal();
        let settled = proxy.seckill(["-o", "json"]).args(line.split(' ')).code(0).json();
        assert_eq!(settled["status"], "replayed", "{line}");
        assert_eq!(redis.int(&SECKILL.stock("1")), 9 + moves, "{line}: once");
    }
}

#[test]
fn a_made_up_request_id_is_named_where_it_is_needed_to_settle() {
    let (redis, _) = on_one_server();
    let proxy = Proxy::before(&redis);
    proxy.inject(When::Always, Fault::HangReply);
    let call = proxy.seckill(["deduct", "1", "--user", "8", "-o", "json", "--timeout", "60ms"]);
    let error = call.code(6).error_json();
    let request = error["hint"].as_str().unwrap().split("--request ").nth(1).unwrap();
    let request = &request[..request.find('`').unwrap()];
    wait_until("it has run", || redis.hget(&SECKILL.requests("1"), request).is_some());
}

#[test]
fn a_command_that_only_reads_times_out_as_unreachable() {
    let (redis, before) = on_one_server();
    let proxy = Proxy::before(&redis);
    proxy.inject(When::Always, Fault::HangReply);
    for line in ["inspect 1", "inspect", "deduct 1 --user 8 --dry-run"] {
        let call = proxy.seckill(["-o", "json", "--timeout", "60ms"]).args(line.split(' '));
        let error = call.code(5).stdout_is("").error_json();
        assert!(error["error"].as_str().unwrap().contains("did not answer within 60ms"), "{line}: {error}");
    }
    redis.assert_unchanged_since(&before);
}

#[test]
fn being_stopped_and_continued_while_it_waits_is_no_error() {
    let (redis, _) = on_one_server();
    let proxy = Proxy::before(&redis);
    let call = proxy.start_and_hold(
        When::Next("EVALSHA"),
        proxy.seckill(["deduct", "1", "--user", "8", "-o", "json", "--timeout", "60s"]),
    );
    for _ in 0..5 {
        call.signal(libc::SIGSTOP);
        call.signal(libc::SIGCONT);
    }
    proxy.release();
    let outcome = call.wait().code(0);
    let status = outcome.json()["status"].as_str().unwrap().to_owned();
    assert!(status == "ok" || status == "replayed", "{status}");
    assert_eq!(redis.int(&SECKILL.stock("1")), 8);
}
