//! An adoption that is cut short, wherever, leaves fewer units for sale, never more, and the next one resumes.

use std::thread;

use serde_json::Value;

use super::adopt::{assert_proven, foreign, line};
use crate::support::layout::json_call;
use crate::support::scripts::cut_after;
use crate::support::{
    COUPON, Fault, LAYOUTS, Layout, PRODUCT, Proxy, SECKILL, SKU, Scripts, TestRedis, When, has_full_searches,
    wait_until,
};

/// Units for sale, wherever they are.
fn units(redis: &TestRedis, layout: Layout) -> i64 {
    let withdrawn = redis.hget(&layout.meta("1"), "withdrawn").map_or(0, |text| text.parse::<i64>().unwrap());
    redis.int(&layout.stock("1")) + withdrawn
}

#[test]
fn an_adoption_that_is_killed_at_any_command_is_resumed() {
    let layouts = if has_full_searches() { &LAYOUTS[..] } else { &[SECKILL, SKU] };
    for layout in layouts.iter().copied() {
        for fault in [Fault::HangRequest, Fault::HangReply] {
            for number in 1.. {
                let redis = foreign(layout);
                redis.seckill(["script", "load"]).code(0);
                let proxy = Proxy::before(&redis);
                proxy.inject(When::Nth(number), fault);
                let call = proxy.seckill(["-l", layout.name, "-o", "json"]).args(line(layout).split(' ')).spawn();
                wait_until("it ends or hangs", || {
                    redis.hget(&layout.meta("1"), "adopted").is_some() || proxy.commands().len() >= number
                });
                let ended = proxy.commands().len() < number;
                drop(call); // Killed.
                assert!(units(&redis, layout) <= 10, "{layout:?} {fault:?} {number}");
                drop(proxy);
                json_call(&redis, layout, line(layout)).code(0);
                assert_eq!(redis.int(&layout.stock("1")), 10, "{layout:?} {fault:?} {number}");
                let meta = redis.meta(&layout.meta("1"));
                let left = ["withdrawn", "adopt"].map(|field| meta.contains_key(field));
                assert_eq!((left, meta["state"].as_str(), meta["total"].as_str()), ([false; 2], "live", "13"));
                assert_proven(&redis, layout);
                if ended {
                    assert!(number > 5, "{layout:?}: {number}");
                    break;
                }
            }
        }
    }
}

/// Without buyers nothing but a mark says that a cut took the units, and no sale.
#[test]
fn an_adoption_that_is_cut_before_anybody_bought_leaves_nothing_corrupt() {
    for (last, has_meta) in [("switch", false), ("switch", true), ("undo", false), ("undo", true)] {
        let (update, mut cut) = (["hash", "me", "", "update", "0", "10", "", "=t", "", "", ""], 0);
        for index in 1.. {
            let redis = TestRedis::start();
            let mut scripts = Scripts::of(&redis, SECKILL);
            if has_meta {
                scripts.preheat("1", "10");
                // The ledger loses its beginning.
                scripts.call("preheat", &SECKILL.all_keys("1"), &update);
                redis.cmd(("XTRIM", SECKILL.ledger("1"), "MAXLEN", 1));
            } else {
                redis.cmd(("SET", SECKILL.stock("1"), "10"));
            }
            let read_to = redis.xrange(&SECKILL.ledger("1")).pop().map(|(id, _)| id).unwrap_or_default();
            let (text, keys) = (cut_after("adopt", index), SECKILL.keys("1"));
            let args = ["hash", last, "me", "", "a", "10", "0", "10", "0", &read_to, "0", "", "", "", "", "live"];
            let withdraw = ["hash", "withdraw", "me", "", "a"];
            let mut replies = vec![scripts.eval(&text, &keys, &withdraw)];
            if !replies[0].contains("CUT") {
                replies.push(scripts.eval(&text, &keys, &args));
            }
            if !replies.iter().any(|reply| reply.contains("CUT")) {
                assert!(replies[1].starts_with("1 "), "{last} {has_meta}: {replies:?}");
                break;
            }
            cut += 1;
            let order = scripts.deduct("1", ("7", "1", "r"));
            assert!(!order.starts_with("-11"), "{last} {has_meta} {index}: {order}");
        }
        assert!(cut > 5, "{last} {has_meta}: {cut}");
    }
}

#[test]
fn a_lost_reply_of_any_command_is_settled_by_the_same_call() {
    for fault in [Fault::LoseRequest, Fault::LoseReply] {
        for number in 1.. {
            let redis = foreign(SECKILL);
            redis.seckill(["script", "load"]).code(0);
            let proxy = Proxy::before(&redis);
            proxy.inject(When::Nth(number), fault);
            let outcome = proxy.seckill(["-o", "json"]).args(line(SECKILL).split(' ')).run();
            let ended = proxy.commands().len() < number;
            // A scan is not sent again on another connection, and the next adoption resumes.
            if outcome.status.code() != Some(0) {
                assert_eq!(outcome.status.code(), Some(5), "{fault:?} {number}: {}", outcome.stderr);
                json_call(&redis, SECKILL, line(SECKILL)).code(0);
            }
            assert_eq!(redis.int("seckill:stock:1"), 10, "{fault:?} {number}");
            assert_eq!(redis.xrange("seckill:ledger:1").len(), 1, "{fault:?} {number}: adopted once");
            assert_proven(&redis, SECKILL);
            if ended {
                break;
            }
        }
    }
}

#[test]
fn sales_stop_while_it_runs_and_an_operator_can_see_it() {
    let redis = foreign(SECKILL);
    let proxy = Proxy::before(&redis);
    proxy.inject(When::Next("SADD"), Fault::Hold);
    let call = proxy.seckill(["preheat", "--id", "1", "--adopt", "--yes"]).spawn();
    proxy.wait_until_held();
    proxy.inject(When::Next("EVALSHA"), Fault::Hold);
    proxy.release();
    proxy.wait_until_held();
    assert_eq!((redis.int("seckill:stock:1"), units(&redis, SECKILL)), (0, 10));
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
fn an_audit_of_an_unfinished_adoption_proves_nothing() {
    for layout in [SECKILL, SKU, COUPON] {
        let redis = unfinished(layout);
        let outcome = json_call(&redis, layout, "reconcile 1").code(7);
        let row = outcome.json()["activities"][0].clone();
        assert_eq!((&row["verdict"], &row["total"]), (&"unsettled".into(), &Value::Null), "{layout:?}: {row}");
        outcome.stderr_has("its adoption is unfinished");
        json_call(&redis, layout, line(layout)).code(0);
        assert_proven(&redis, layout);
    }
}

#[test]
fn what_is_refunded_during_an_adoption_is_for_sale_after_it() {
    for layout in [SECKILL, SKU, COUPON] {
        let redis = unfinished(layout);
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
fn an_order_during_an_adoption_is_paused_though_nobody_is_recorded() {
    let redis = TestRedis::start();
    redis.cmd(("SET", SKU.stock("1"), "8"));
    let mut scripts = Scripts::of(&redis, SKU);
    assert!(scripts.call("adopt", &SKU.keys("1"), &["set", "withdraw", "me", "", "a"]).starts_with("1 "));
    assert_eq!(json_call(&redis, SKU, "deduct 1 --user 7 --request r").code(3).json()["status"], "paused");
    json_call(&redis, SKU, "preheat --id 1 --adopt --yes").code(0);
    json_call(&redis, SKU, "deduct 1 --user 7 --request r").code(0);
    assert_proven(&redis, SKU);
}

/// A page that a first try of an adoption, or of a trim, sent, and that comes when audits read what replaced it.
#[test]
fn a_late_page_changes_nothing_that_an_audit_reads() {
    let redis = foreign(SECKILL);
    json_call(&redis, SECKILL, line(SECKILL)).code(0);
    let name = redis.hget(&SECKILL.meta("1"), "adopted").unwrap();
    let before = redis.dump_all();
    let mut scripts = Scripts::of(&redis, SECKILL);
    assert_eq!(scripts.call("trim", &SECKILL.keys("1"), &["page", "1", &name, "0", r#"[["7","1"]]"#]), "-23");
    redis.assert_unchanged_since(&before);
    assert_proven(&redis, SECKILL);
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
    proxy.inject(When::Next("SADD"), Fault::Hold);
    let call = proxy.seckill(["preheat", "--id", "1", "--adopt", "--yes"]).spawn();
    proxy.wait_until_held();
    call.signal(libc::SIGINT);
    // The signal is taken before the stock is.
    thread::sleep(std::time::Duration::from_millis(50));
    proxy.release();
    call.wait().code(130).stderr_has("all is as it was");
    redis.cmd(&["DEL", "seckill:activities"]);
    redis.assert_unchanged_since(&before);
}

#[test]
fn buyers_of_a_plain_script_meanwhile_are_all_counted() {
    for layout in [SECKILL, COUPON] {
        let redis = TestRedis::start();
        redis.cmd(("SET", layout.stock("1"), "3000"));
        let script =
            if layout == SECKILL { include_str!("../backend/hash.lua") } else { include_str!("../backend/coupon.lua") };
        thread::scope(|scope| {
            for client in 0..3 {
                let mut connection = redis.connection();
                scope.spawn(move || {
                    for number in 0..700 {
                        let mut call = redis::cmd("EVAL");
                        call.arg(script).arg(2).arg(layout.stock("1")).arg(layout.participants("1"));
                        call.arg(format!("u{client}-{number}")).arg(1).arg(5);
                        call.exec(&mut connection).unwrap();
                    }
                });
            }
            wait_until("they buy", || redis.int(&layout.stock("1")) < 2900);
            json_call(&redis, layout, "preheat --id 1 --adopt --yes").code(0);
        });
        let total: i64 = redis.rule(&layout.meta("1"), "total").unwrap().parse().unwrap();
        assert_eq!(total, 3000, "{layout:?}: stock and all that was bought");
        // What the plain script sold after it is drift: its sales bypass the ledger.
        let held: i64 = match layout.kind {
            "hash" => redis.ask(("HLEN", layout.participants("1"))),
            _ => redis.ask(("SCARD", layout.participants("1"))),
        };
        assert_eq!(redis.int(&layout.stock("1")) + held, 3000, "{layout:?}");
    }
}

#[test]
fn another_adoption_of_the_same_activity_ends_without_harm() {
    for layout in [SECKILL, PRODUCT] {
        let redis = foreign(layout);
        redis.seckill(["script", "load"]).code(0);
        let proxy = Proxy::before(&redis);
        proxy.inject(When::Next("SADD"), Fault::Hold);
        let first = proxy.seckill(["-l", layout.name, "-o", "json"]).args(line(layout).split(' ')).spawn();
        proxy.wait_until_held();
        json_call(&redis, layout, line(layout)).code(0);
        json_call(&redis, layout, "deduct 1 --user 70").code(0);
        proxy.release();
        first.wait().code(1).stderr_has("taken over by somebody else");
        assert_eq!(redis.int(&layout.stock("1")), 9, "{layout:?}");
        assert_proven(&redis, layout);
    }
}

#[test]
fn an_adoption_whose_script_is_cut_after_any_write_is_finished_by_the_next() {
    for layout in LAYOUTS.into_iter().filter(|layout| layout.has_users()) {
        let mut cuts = 0;
        let (count, page) = match layout.kind {
            "coupon" => ("3", r#"[["7","1"],["8","1"],["9","1"]]"#),
            _ => ("2", r#"[["7","2"],["8","1"]]"#),
        };
        for (step, number) in
            ["withdraw", "switch"].into_iter().flat_map(|step| (0..14).map(move |number| (step, number)))
        {
            let redis = foreign(layout);
            let mut scripts = Scripts::of(&redis, layout);
            let keys = layout.keys("1");
            let withdraw = [layout.kind, "withdraw", "me", "", "a"];
            let switch =
                [layout.kind, "switch", "me", "", "a", "13", "3", "10", count, "", "1", "", "", "", "", "live"];
            let args = if step == "withdraw" { &withdraw[..] } else { &switch };
            if step == "switch" {
                assert!(scripts.call("adopt", &keys, &withdraw).starts_with("1 "));
                assert_eq!(scripts.call("trim", &keys, &["page", "1", "a", "0", page]), "1");
            }
            let reply = scripts.eval(&cut_after("adopt", number), &keys, args);
            cuts += usize::from(reply.contains("CUT"));
            assert!(reply.contains("CUT") || reply.starts_with("1 "), "{layout:?} {step} {number}: {reply}");
            assert!(units(&redis, layout) <= 10, "{layout:?} {step} {number}");
            // A purchase from a live sale does not look for what is withdrawn.
            let is_live = redis.rule(&layout.meta("1"), "state").as_deref() == Some("live");
            assert!(!is_live || redis.hget(&layout.meta("1"), "withdrawn").is_none(), "{layout:?} {step} {number}");
            if redis.int(&layout.stock("1")) == 0 && !redis.exists(&layout.meta("1")) {
                // Between two keys: what was another system's stock is written nowhere else yet.
                continue;
            }
            json_call(&redis, layout, line(layout)).code(0);
            // The stock returns last; what a cut withheld of it, the ledger proves.
            json_call(&redis, layout, "reconcile 1 --fix --yes").run();
            assert_eq!(units(&redis, layout), 10, "{layout:?} {step} {number}: {reply}");
            assert_proven(&redis, layout);
        }
        assert!(cuts > 14, "{layout:?}: {cuts}");
    }
}
