//! A write between the verification and the removal is not lost: nothing is removed then.

use super::Shop;
use crate::support::{COUPON, Fault, LAYOUTS, Layout, Proxy, SECKILL, SKU, When};

/// Archives; once the files are verified, and right before the removal, `write` is done. It is tried again after that.
fn writes_before_the_removal(layout: Layout, write: &dyn Fn(&Shop)) -> Shop {
    let shop = Shop::open(layout);
    shop.call("script load").code(0);
    let proxy = Proxy::before(&shop.redis);
    // The last thing that is read.
    let archiving = proxy.start_and_hold(When::Next("TIME"), shop.archive_over(&proxy));
    write(&shop);
    proxy.release();
    let outcome = archiving.wait();
    let commands = proxy.commands();
    // Audits read in transactions, too.
    let removes = |pair: &[String]| pair[0].starts_with("EVAL") && pair[1] == "EXEC";
    assert_eq!(commands.windows(2).filter(|pair| removes(pair)).count(), 2, "{layout:?}: {commands:?}");
    outcome.code(0);
    shop
}

#[test]
fn a_refund_that_comes_between_is_in_the_files() {
    for layout in LAYOUTS.into_iter().filter(|layout| layout.has_users()) {
        let shop = writes_before_the_removal(layout, &|shop| {
            shop.call("refund 1 --user c --request late").code(0);
        });
        shop.restore().code(0);
        shop.call("refund 1 --user c --request late").code(0).stdout_has("replayed");
        shop.call("inspect 1 --user c -o csv").code(0).stdout_has("1,c,0,");
        shop.call("reconcile 1").code(0);
    }
}

#[test]
fn what_leaves_no_trace_in_ledger_and_counts_is_noticed_too() {
    // A line of a file that is refused: only the job's watermark moves.
    let orders = "activity,user\n1,nobody\n";
    let shop = writes_before_the_removal(SECKILL, &|shop| {
        shop.call("refund --from - --job late").stdin(orders).code(3);
    });
    shop.restore().code(0);
    let refused = shop.call("refund --from - --job late -o json").stdin(orders).code(3);
    refused.stdout_has("refused_before");
    // A title, and a user who is exchanged for another.
    let shop = writes_before_the_removal(SECKILL, &|shop| {
        shop.redis.cmd(("HSET", SECKILL.meta("1"), "title", "other"));
    });
    shop.restore().code(0);
    shop.call("inspect 1").code(0).stdout_has("other");
}

#[test]
fn deadlines_go_in_the_same_step_and_not_of_a_later_sale() {
    let shop = Shop::small(SECKILL);
    shop.redis.cmd(("ZADD", SECKILL.deadlines("1"), 1, "left"));
    let proxy = Proxy::before(&shop.redis);
    shop.archive_over(&proxy).code(0);
    assert!(!shop.redis.exists(&SECKILL.deadlines("1")));
    // Whatever came behind the transaction could be late.
    assert!(!proxy.commands().contains(&"UNLINK".to_owned()), "{:?}", proxy.commands());
}

#[test]
fn one_that_drifts_or_is_resumed_meanwhile_stays() {
    for layout in [SECKILL, SKU, COUPON] {
        for (line, status) in [("resume 1", "not_ended"), ("", "drift")] {
            let shop = Shop::open(layout);
            shop.call("script load").code(0);
            let proxy = Proxy::before(&shop.redis);
            let archiving = proxy.start_and_hold(When::Next("TIME"), shop.archive_over(&proxy));
            match line {
                "" => drop(shop.redis.cmd(("INCR", layout.stock("1")))),
                line => drop(shop.call(line).code(0)),
            }
            let before = shop.state();
            proxy.release();
            let row = archiving.wait().code(3).json();
            assert_eq!(row["status"], status, "{layout:?}");
            assert_eq!(shop.state(), before, "{layout:?}");
            assert!(shop.names().is_empty(), "{layout:?}: {:?}", shop.names());
        }
    }
}

#[test]
fn what_is_written_each_time_is_not_archived() {
    let shop = Shop::open(SECKILL);
    shop.call("script load").code(0);
    let proxy = Proxy::before(&shop.redis);
    proxy.inject(When::Next("TIME"), Fault::Hold);
    let archiving = shop.archive_over(&proxy).spawn();
    for index in 0..3 {
        proxy.wait_until_held();
        shop.redis.cmd(("HSET", SECKILL.meta("1"), "title", index));
        if index < 2 {
            proxy.inject(When::Next("TIME"), Fault::Hold);
        }
        proxy.release();
    }
    let row = archiving.wait().code(3).stderr_has("another client wrote to `1` each time").json();
    assert_eq!(row["status"], "changed");
    assert!(shop.names().is_empty(), "{:?}", shop.names());
    shop.call("reconcile 1").code(0);
    shop.archive().code(0);
}

#[test]
fn of_two_at_once_one_archives() {
    let shop = Shop::open(SECKILL);
    shop.call("script load").code(0);
    let proxy = Proxy::before(&shop.redis);
    let first = proxy.start_and_hold(When::Next("TIME"), shop.archive_over(&proxy));
    shop.archive().code(1).stderr_has("another `seckill archive` writes to");
    let elsewhere = tempfile::tempdir().unwrap();
    shop.call("archive 1 --yes --to").args([elsewhere.path()]).code(0);
    proxy.release();
    let row = first.wait().code(3).stderr_has("was archived at").stderr_has("not to this directory").json();
    assert_eq!(row["status"], "ended");
    assert!(shop.names().is_empty(), "{:?}", shop.names());
    shop.call("preheat --restore").args([elsewhere.path()]).code(0);
    shop.call("reconcile 1").code(0);
}
