//! Audits during sales: no difference that is not one, and every one that is.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use crate::support::{Proxy, SECKILL, Scripts, TestRedis, When, wait_until};

/// Writers that buy and give back until the work is done. At full speed they would outrun a debug build on a busy machine: `make bench`
/// does that.
fn while_selling(redis: &TestRedis, work: impl FnOnce()) {
    let (stop, calls) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        for writer in 0..3u64 {
            let (stop, calls) = (&stop, &calls);
            scope.spawn(move || {
                let mut scripts = Scripts::of(redis, SECKILL);
                let mut dice = 0x9E37_79B9_7F4A_7C15u64.wrapping_mul(writer + 1);
                while !stop.load(Ordering::Relaxed) {
                    dice ^= dice << 13;
                    dice ^= dice >> 7;
                    dice ^= dice << 17;
                    let user = format!("user-{}", (dice >> 20) % 5000);
                    match dice % 3 {
                        0 => scripts.refund("1001", (&user, "1", "")),
                        units => scripts.deduct("1001", (&user, &units.to_string(), "")),
                    };
                    calls.fetch_add(1, Ordering::Relaxed);
                    thread::sleep(Duration::from_micros(300));
                }
            });
        }
        // However the work ends: the writers would be waited for.
        let _stop = StopAtEnd(&stop);
        wait_until("they sell", || calls.load(Ordering::Relaxed) >= 300);
        work();
    });
}

/// Ends the writers.
struct StopAtEnd<'a>(&'a AtomicBool);

impl Drop for StopAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn one_wrong_counter_among_many_pages_of_them_is_found_and_nothing_else() {
    let redis = TestRedis::start();
    redis.seckill(["preheat", "--id", "1001", "--stock", "100000", "--per-user-limit", "9"]).code(0);
    // So many that the activity is looked at whole several times on the way.
    let orders: String =
        std::iter::once("activity,user\n".to_owned()).chain((0..25_000).map(|n| format!("1001,early-{n}\n"))).collect();
    redis.seckill(["deduct", "--from", "-", "--yes", "-q"]).stdin(&orders).code(0);
    while_selling(&redis, || {
        let stock = || redis.cmd(("GET", "seckill:stock:1001"));
        let before = stock();
        redis.seckill(["reconcile", "1001"]).code(0);
        assert_ne!(stock(), before, "the sale stood still");
        redis.cmd(("HINCRBY", "seckill:participants:1001", "early-21234", 1));
        let rows = redis.seckill(["reconcile", "1001", "--differences", "-o", "jsonl"]).code(7).jsonl();
        let drifted: Vec<String> = rows
            .iter()
            .filter(|row| !row["user"].is_null())
            .map(|row| format!("{} {} {} {}", row["class"], row["user"], row["redis"], row["ledger"]))
            .collect();
        assert_eq!(drifted, [r#""counter_drift" "early-21234" 2 1"#]);
    });
    redis.cmd(("HINCRBY", "seckill:participants:1001", "early-21234", -1));
    redis.seckill(["reconcile", "1001"]).code(0);
}

/// Each look at the stock is as the one before, and each page of buyers, but not that stock and those buyers at one instant.
#[test]
fn scans_that_each_meet_the_same_purchase_given_back_prove_nothing() {
    let redis = TestRedis::start();
    let sale = "activities: [{id: 1001, stock: 5, ledger: false}]\n";
    redis.seckill(["preheat", "-"]).stdin(sale).code(0);
    let set = |stock: u32, participants: &str| {
        format!(
            "redis.call('SET', 'seckill:stock:1001', {stock}) redis.call({participants}, 'seckill:participants:1001', 'a', '1')"
        )
    };
    let (bought, refunded) = (set(4, "'HSET'"), set(5, "'HDEL'"));
    redis.cmd(("EVAL", &bought, 0));
    let proxy = Proxy::before(&redis);
    let mut connection = redis.connection();
    proxy.decide(move |command| {
        let script = if command == "EXEC" { &refunded } else { &bought };
        let _: redis::Value = redis::cmd("EVAL").arg(script).arg(0).query(&mut connection).unwrap();
        None
    });
    let audit = proxy.seckill(["reconcile", "1001", "-o", "json"]).code(7).json();
    assert_eq!(audit["verdict"], "unsettled", "{audit:#}");
}

#[test]
fn a_backend_that_sells_past_the_ledger_during_a_fix_sells_no_unit_twice() {
    let sale = || {
        let redis = TestRedis::selling("1001", 50);
        for user in ["a", "b", "c", "d"] {
            redis.seckill(["deduct", "1001", "--user", user]).code(0);
        }
        redis
    };
    let redis = sale();
    let counting = Proxy::before(&redis);
    counting.seckill(["reconcile", "1001"]).code(0);
    for number in 1..=counting.commands().len() {
        let redis = sale();
        let network = Proxy::before(&redis);
        let fixing =
            network.start_and_hold(When::Command(number), network.seckill(["reconcile", "1001", "--fix", "--yes"]));
        let plain = "redis.call('DECRBY', KEYS[1], 1) redis.call('HINCRBY', KEYS[2], 'b', 1)";
        redis.cmd(("EVAL", plain, 2, "seckill:stock:1001", "seckill:participants:1001"));
        network.release();
        fixing.wait();
        assert_eq!(redis.int("seckill:stock:1001"), 45, "while reply {number} was on its way");
    }
}
