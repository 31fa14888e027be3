//! What others see of an adoption while it runs, and how it ends if an operator or another adoption comes between.

use std::thread;

use serde_json::Value;

use super::adopt::{assert_proven, foreign, line};
use crate::support::layout::json_call;
use crate::support::{COUPON, Fault, Layout, PRODUCT, Proxy, SECKILL, SKU, Scripts, TestRedis, When, wait_until};

#[test]
fn sales_stop_while_it_runs_and_an_operator_can_see_it() {
    let redis = foreign(SECKILL);
    let proxy = Proxy::before(&redis);
    let call = proxy.start_and_hold(When::Next("SADD"), proxy.seckill(["preheat", "--id", "1", "--adopt", "--yes"]));
    proxy.inject(When::Next("EVALSHA"), Fault::Hold);
    proxy.release();
    proxy.wait_until_held();
    let withdrawn = redis.hget(&SECKILL.meta("1"), "withdrawn");
    assert_eq!((redis.int("seckill:stock:1"), withdrawn.as_deref()), (0, Some("10")));
    assert_eq!(json_call(&redis, SECKILL, "deduct 1 --user 9").code(3).json()["status"], "paused");
    let outcome = json_call(&redis, SECKILL, "preheat --id 1 --stock 13").code(3);
    outcome.stderr_has("its adoption is unfinished").stderr_has("--adopt` resumes");
    proxy.release();
    call.wait().code(0);
    json_call(&redis, SECKILL, "deduct 1 --user 9").code(0);
    assert_proven(&redis, SECKILL);
}

/// Its stock is withdrawn, and nobody knows its total yet.
fn unfinished(layout: Layout) -> TestRedis {
    let redis = foreign(layout);
    let args = [layout.kind, "withdraw", "me", "", "a"];
    assert!(Scripts::of(&redis, layout).call("adopt", &layout.keys("1"), &args).starts_with("1 "));
    redis
}

#[test]
fn an_unfinished_adoption_proves_nothing_and_sells_later_what_is_refunded() {
    for layout in [SECKILL, SKU, COUPON] {
        let redis = unfinished(layout);
        let outcome = json_call(&redis, layout, "reconcile 1").code(7).stderr_has("its adoption is unfinished");
        let row = outcome.json()["activities"][0].clone();
        assert_eq!((&row["verdict"], &row["total"]), (&"unsettled".into(), &Value::Null), "{layout:?}: {row}");
        json_call(&redis, layout, "refund 1 --user 7 --all --request f").code(0);
        let units = if layout == COUPON { 11 } else { 12 };
        let shown = json_call(&redis, layout, "inspect 1").code(0).json()[0].clone();
        let fields = ["stock", "state", "total"].map(|field| shown[field].clone());
        assert_eq!(fields, [units.into(), "paused".into(), Value::Null], "{layout:?}: {shown}");
        let adopted = json_call(&redis, layout, line(layout)).code(0).json()[0].clone();
        assert_eq!((&adopted["stock"], &adopted["total"]), (&units.into(), &13.into()), "{layout:?}: {adopted}");
        assert_proven(&redis, layout);
    }
}

#[test]
fn a_late_page_of_an_earlier_try_is_none_of_the_next_one() {
    let redis = foreign(SECKILL);
    redis.seckill(["script", "load"]).code(0);
    let proxy = Proxy::before(&redis);
    let page = || When::With("\r\npage\r\n".to_owned());
    proxy.inject(page(), Fault::HangRequest);
    let call = proxy.seckill(["preheat", "--id", "1", "--adopt", "--yes", "--timeout", "2s"]).spawn();
    wait_until("a page hangs", || {
        let commands = proxy.commands();
        let behind = commands.iter().position(|command| command == "ZRANGEBYSCORE");
        behind.is_some_and(|at| commands[at..].iter().any(|command| command == "EVALSHA"))
    });
    // It is sent again, and what it says changes before the switch.
    proxy.inject(page(), Fault::Hold);
    proxy.wait_until_held();
    redis.seckill(["refund", "1", "--user", "8", "--all"]).code(0);
    proxy.release();
    // That of the second try is there, and now the first one comes.
    proxy.wait_until_held();
    proxy.deliver_late();
    proxy.release();
    call.wait().code(0);
    assert_eq!(redis.int("seckill:stock:1"), 11);
    assert_proven(&redis, SECKILL);
}

#[test]
fn ctrl_c_ends_an_adoption_with_everything_as_it_was() {
    let redis = foreign(SECKILL);
    redis.seckill(["script", "load"]).code(0);
    let before = redis.dump_all();
    let proxy = Proxy::before(&redis);
    let call = proxy.start_and_hold(When::Next("SADD"), proxy.seckill(["preheat", "--id", "1", "--adopt", "--yes"]));
    call.signal(libc::SIGINT);
    // The signal is taken before the stock is.
    thread::sleep(std::time::Duration::from_millis(50));
    proxy.release();
    call.wait().code(130).stderr_has("all is as it was");
    redis.cmd(&["DEL", "seckill:activities"]);
    redis.assert_unchanged_since(&before);
}

#[test]
fn another_adoption_of_the_same_activity_ends_without_harm() {
    for layout in [SECKILL, PRODUCT] {
        let redis = foreign(layout);
        redis.seckill(["script", "load"]).code(0);
        let proxy = Proxy::before(&redis);
        let first = proxy.start_and_hold(
            When::Next("SADD"),
            proxy.seckill(["-l", layout.name, "-o", "json"]).args(line(layout).split(' ')),
        );
        json_call(&redis, layout, line(layout)).code(0);
        json_call(&redis, layout, "deduct 1 --user 70").code(0);
        proxy.release();
        first.wait().code(1).stderr_has("taken over by somebody else");
        assert_eq!(redis.int(&layout.stock("1")), 9, "{layout:?}");
        assert_proven(&redis, layout);
    }
}
