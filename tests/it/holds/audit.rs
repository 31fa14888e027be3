//! Audits of sales with holds are exact: at every instant, behind a checkpoint, and whether order records have open holds or not.

use std::fs;

use super::{WITH_USERS, quantity};
use crate::support::layout::json_call;
use crate::support::scripts::cut_call;
use crate::support::{Layout, Proxy, SECKILL, Scripts, TestRedis, When, wait_until, write_now};

/// A sale in which user `a` bought, `b` holds, `c` confirmed and `d` let expire.
fn sale(layout: Layout) -> TestRedis {
    let redis = TestRedis::start();
    let call = |line: &str| drop(json_call(&redis, layout, line).code(0));
    let q = quantity(layout);
    call("preheat --id 1 --stock 20");
    call(&format!("deduct 1 --user a --quantity {q}"));
    call(&format!("hold 1 --user b --quantity {q} --for 1h --request rb"));
    call(&format!("hold 1 --user c --quantity {q} --for 1h --request rc"));
    call("confirm 1 --request rc");
    call(&format!("hold 1 --user d --quantity {q} --for 1ms --request rd"));
    wait_until("it is expired", || json_call(&redis, layout, "expire").code(0).json()[0]["holds"] == 1);
    redis
}

/// The classes of what differs from order records of `user quantity`.
fn differences(redis: &TestRedis, layout: Layout, orders: &[(&str, i64)], code: i32) -> Vec<String> {
    let rows: String = orders.iter().map(|(user, units)| format!("1,{user},{units}\n")).collect();
    let call = redis.seckill(["-l", layout.name, "reconcile", "1", "--orders", "-", "--differences", "-o", "jsonl"]);
    let rows = call.stdin(format!("activity,user,quantity\n{rows}")).code(code).jsonl();
    rows.iter().map(|row| format!("{} {}", row["class"].as_str().unwrap(), row["user"].as_str().unwrap())).collect()
}

#[test]
fn order_records_match_with_and_without_what_is_held_open() {
    for layout in WITH_USERS {
        for ledger in [true, false] {
            let redis = sale(layout);
            let q = quantity(layout);
            if !ledger {
                // As a sale of a backend: no ledger, and the same data.
                let rules = redis.hget(&layout.meta("1"), "rules").unwrap();
                redis.cmd(("HSET", layout.meta("1"), "rules", rules.replacen("live 1 ", "live 0 ", 1)));
                redis.cmd(("DEL", layout.ledger("1")));
            }
            let context = format!("{} ledger {ledger}", layout.name);
            assert!(differences(&redis, layout, &[("a", q), ("b", q), ("c", q)], 0).is_empty(), "{context}");
            assert!(differences(&redis, layout, &[("a", q), ("c", q)], 0).is_empty(), "{context}");
            assert_eq!(differences(&redis, layout, &[("a", q), ("b", q)], 7), ["missing_order c"], "{context}");
            let more = [("a", q), ("c", q), ("d", q)];
            assert_eq!(differences(&redis, layout, &more, 7), ["missing_purchase d"], "{context}");
        }
    }
}

#[test]
fn a_repair_leaves_what_is_held_open() {
    for layout in WITH_USERS.into_iter().filter(|layout| layout.kind == "hash") {
        let redis = sale(layout);
        // The database knows neither the hold nor two of its user's purchases.
        json_call(&redis, layout, "deduct 1 --user b --quantity 3").code(0);
        let orders = "activity,user,quantity\n1,a,2\n1,c,2\n1,b,1\n";
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("orders.csv");
        fs::write(&file, orders).unwrap();
        let args = ["-l", layout.name, "reconcile", "1", "--fix", "--yes", "--as-of=0s", "--orders"];
        redis.seckill(args).args([file.to_str().unwrap()]).run();
        assert_eq!(redis.hget(&layout.participants("1"), "b").as_deref(), Some("3"), "1 bought and 2 held");
        json_call(&redis, layout, "reconcile 1").code(0);
        json_call(&redis, layout, "confirm 1 --request rb").code(0);
        // A plan made without knowing of holds is refused.
        json_call(&redis, layout, "hold 1 --user b --for 1h --request rx").code(0);
        let rules = redis.hget(&layout.meta("1"), "rules").unwrap();
        let epoch = rules.split(' ').nth(2).unwrap();
        let repairs = redis.hget(&layout.meta("1"), "repairs").unwrap();
        let mut scripts = Scripts::of(&redis, layout);
        let args = ["hash", "tester", "", "0", epoch, &repairs, "id", "b", "4", "0", "4"];
        assert!(scripts.call("repair", &layout.keys("1"), &args).ends_with(" b"), "{layout:?}");
    }
}

#[test]
fn a_counter_below_what_is_open_is_raised_again_by_a_repair() {
    for ledger in [true, false] {
        let redis = TestRedis::start();
        redis.seckill(["preheat", "-"]).stdin(format!("activities: [{{id: 1, stock: 10, ledger: {ledger}}}]")).code(0);
        redis.seckill(["deduct", "1", "--user", "bob"]).code(0);
        redis.seckill(["hold", "1", "--user", "ann", "--quantity", "3", "--for", "15m", "--request", "h1"]).code(0);
        // As a release of version 0.1 left it that was cut.
        redis.cmd(("HDEL", SECKILL.participants("1"), "ann"));
        let export = "printf 'activity,user,quantity\\n1,bob,1\\n'";
        let audit = || redis.seckill(["reconcile", "1", "--as-of=0s", "--orders-cmd", export]);
        audit().code(7).stdout_has("quantity_mismatch");
        audit().args(["--fix", "--yes"]).code(0);
        assert_eq!(redis.hget(&SECKILL.participants("1"), "ann").as_deref(), Some("3"), "ledger {ledger}");
        assert_eq!(redis.int(&SECKILL.stock("1")), 6, "ledger {ledger}");
        redis.seckill(["confirm", "1", "--request", "h1"]).code(0);
    }
}

#[test]
fn history_and_why_know_holds() {
    let redis = sale(SECKILL);
    let rows = redis.seckill(["inspect", "--user", "d", "--why", "-o", "jsonl"]).code(0).jsonl();
    let ops: Vec<&str> = rows.iter().map(|row| row["op"].as_str().unwrap()).collect();
    assert_eq!(ops, ["hold", "expire"]);
    let why = redis.seckill(["inspect", "1", "--user", "b", "--why", "-o", "json"]).code(0).json();
    assert!(why.to_string().contains("\"op\":\"hold\""), "{why}");
    let found = redis.seckill(["inspect", "--request", "rc", "-o", "json"]).code(0).json();
    assert_eq!((&found[0]["user"], &found[0]["quantity"]), (&"c".into(), &2.into()));
    let ledger = redis.seckill(["ledger", "1", "-o", "csv"]).code(0).stdout;
    for line in [",hold,b,2,", ",confirm,c,2,", ",expire,d,2,"] {
        assert!(ledger.contains(line), "{ledger}");
    }
}

#[test]
fn an_adoption_after_the_meta_was_lost_keeps_open_holds() {
    for layout in WITH_USERS {
        let redis = sale(layout);
        redis.cmd(("DEL", layout.meta("1")));
        json_call(&redis, layout, "preheat --id 1 --adopt --yes").code(0);
        assert_eq!(redis.hget(&layout.requests("1"), "\tholds"), Some(quantity(layout).to_string()), "{layout:?}");
        json_call(&redis, layout, "refund 1 --user b").code(3);
        json_call(&redis, layout, "release 1 --request rb").code(0);
        json_call(&redis, layout, "reconcile 1").code(0);
    }
}

/// Units of a user who bought one before, whose hold of one more is cut behind each of its writes while an audit runs.
#[test]
fn a_hold_that_is_cut_during_an_audit_keeps_its_units_or_has_none() {
    let mut cuts = 0;
    for index in 1..9 {
        let redis = TestRedis::start();
        json_call(&redis, SECKILL, "preheat --id 1 --stock 10").code(0);
        json_call(&redis, SECKILL, "deduct 1 --user a").code(0);
        json_call(&redis, SECKILL, "hold 1 --user b --for 1h --request rb").code(0);
        let proxy = Proxy::before(&redis);
        let dir = tempfile::tempdir().unwrap();
        let orders = dir.path().join("orders.csv");
        write_now(&orders, "user,quantity\na,1\n");
        // Behind the first look.
        let audit = proxy.start_and_hold(
            When::Next("XRANGE"),
            proxy.seckill(["reconcile", "1", "--fix", "--yes", "--orders"]).args([&orders]),
        );
        let mut scripts = Scripts::of(&redis, SECKILL);
        let hold = ["hash", "me", "a", "1", "h", "first", "", "900000"];
        let reply = scripts.eval(&cut_call("hold", SECKILL, &hold, index), &SECKILL.all_keys("1"), &hold);
        cuts += usize::from(reply.contains("CUT"));
        proxy.release();
        audit.wait();
        let confirmed = redis.seckill(["confirm", "1", "--request", "h", "-o", "json"]).run();
        let held = redis.hget(&SECKILL.participants("1"), "a").map_or(0, |units| units.parse::<i64>().unwrap());
        if confirmed.status.success() {
            assert_eq!(held, 2, "{index}: {}", confirmed.stdout);
        }
        assert!(redis.int(&SECKILL.stock("1")) + held <= 10, "{index}: {held} held");
    }
    assert!(cuts > 3, "{cuts}");
}
