//! Audits and repairs of holds that were cut, or that a plan knows nothing of. `sessions/holds.txt` has all others.

use super::LONG;
use crate::support::layout::json_call;
use crate::support::scripts::{cut_after, cut_call};
use crate::support::{CLUSTER, Proxy, SECKILL, Scripts, TestRedis, When, write_now};

#[test]
fn a_plan_made_without_knowing_of_holds_is_refused() {
    for layout in [SECKILL, CLUSTER] {
        let redis = TestRedis::start();
        for line in ["preheat --id 1 --stock 20", "deduct 1 --user b --quantity 3", "hold 1 --user b --for 1h"] {
            json_call(&redis, layout, line).code(0);
        }
        let mut scripts = Scripts::of(&redis, layout);
        let args = ["hash", "tester", "", "0", "1", "0", "id", "b", "4", "0", "4"];
        assert!(scripts.call("repair", &layout.keys("1"), &args).ends_with(" b"), "{layout:?}");
    }
}

#[test]
fn an_audit_does_not_take_the_ledgers_word_for_what_is_held_open() {
    let redis = TestRedis::start();
    json_call(&redis, SECKILL, "preheat --id 1 --stock 10").code(0);
    json_call(&redis, SECKILL, "hold 1 --user 7 --quantity 3 --for 1h").code(0);
    // The last write of the call is the ledger entry.
    let hold = ["hash", "tester", "9", "2", "t", "first", "", LONG];
    let reply = Scripts::of(&redis, SECKILL).eval(&cut_after("hold", 4), &SECKILL.all_keys("1"), &hold);
    assert!(reply.contains("CUT"), "{reply}");
    let lost = "units held open: its ledger has 3, its holds have 5";
    redis.seckill(["reconcile", "1"]).code(7).stderr_has(lost);
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
