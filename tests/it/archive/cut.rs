//! Killed at any command, nothing is lost, and the same command resumes. What a call may meet besides is in `tests/sim/archive.rs`.

use std::time::Duration;

use super::Shop;
use crate::support::{Fault, Proxy, SECKILL, SKU, When, wait_until};

/// Runs a command that is killed at its n-th command for the server; false if it has fewer.
fn killed(shop: &Shop, args: &[&str], number: usize, fault: Fault) -> bool {
    let proxy = Proxy::before(&shop.redis);
    proxy.inject(When::Command(number), fault);
    let mut call = proxy.seckill(["-l", shop.layout.name, "-q"]).args(args).spawn();
    let mut ended = false;
    while !ended && !proxy.try_wait_for_commands(number, Duration::from_millis(5)) {
        ended = call.has_ended();
    }
    if proxy.commands().len() < number {
        call.wait().code(0);
        return false;
    }
    call.signal(libc::SIGKILL);
    drop(call.wait());
    if fault == Fault::HangRequest {
        // What hangs on the way may arrive after all.
        proxy.deliver_late();
    }
    true
}

#[test]
fn an_archive_that_is_killed_at_any_command_is_resumed() {
    for (layout, fault) in [(SECKILL, Fault::HangRequest), (SKU, Fault::HangReply)] {
        let shop = Shop::small(layout);
        shop.call("script load").code(0);
        let before = shop.state();
        for number in 1.. {
            let was_cut = killed(&shop, &["archive", "1", "--yes", "--to", shop.to()], number, fault);
            if was_cut {
                // Wherever it was: the server has everything, or the files do.
                shop.archive().code(0);
            }
            assert_eq!(shop.names(), [format!("1.{}.1", layout.name)], "{layout:?} {number}");
            let left = layout.keys("1").into_iter().filter(|key| shop.redis.exists(key)).count();
            assert_eq!(left, 1, "{layout:?} {number}");
            shop.restore().code(0);
            assert_eq!(shop.state(), before, "{layout:?} {number}");
            std::fs::remove_dir_all(shop.folder()).unwrap();
            if !was_cut {
                assert!(number > 15, "{layout:?}: {number}");
                break;
            }
        }
        shop.call("reconcile 1").code(0);
    }
}

#[test]
fn one_that_may_not_remove_keeps_the_files_and_ends_once_it_may() {
    for right in ["hdel", "unlink"] {
        let shop = Shop::small(SECKILL);
        let before = shop.state();
        let allow = |sign: &str| {
            shop.redis.cmd(&["ACL", "SETUSER", "op", "on", "nopass", "~*", "+@all", &format!("{sign}{right}")])
        };
        allow("-");
        let url = format!("{}?user=op", shop.redis.url());
        // Redis 6.2 cuts the script there, later servers ask for its rights before it writes.
        shop.redis.seckill(["archive", "1", "--yes", "--to", shop.to()]).env("SECKILL_URL", &url).code(4);
        allow("+");
        shop.archive().code(0);
        assert_eq!(shop.names(), ["1.seckill.1"], "{right}");
        shop.restore().code(0);
        assert_eq!(shop.state(), before, "{right}");
    }
}

#[test]
fn what_an_earlier_run_published_and_did_not_remove_is_replaced() {
    let shop = Shop::open(SECKILL);
    shop.call("script load").code(0);
    let proxy = Proxy::before(&shop.redis);
    // The removal goes by its text, in a transaction.
    proxy.inject(When::Next("EVAL"), Fault::HangRequest);
    let call = shop.archive_over(&proxy).spawn();
    wait_until("it is published", || proxy.commands().iter().any(|command| command == "EVAL"));
    call.signal(libc::SIGKILL);
    drop(call.wait());
    assert_eq!(shop.names(), ["1.seckill.1"]);
    // The sale went on, and the files of then are old.
    shop.call("resume 1").code(0);
    shop.call("deduct 1 --user late").code(0);
    shop.call("pause 1").code(0);
    let before = shop.state();
    shop.restore().code(3).stderr_has("keys of it are there");
    shop.archive().code(0);
    assert_eq!(shop.names(), ["1.seckill.1"]);
    shop.restore().code(0);
    assert_eq!(shop.state(), before);
}

#[test]
fn ctrl_c_leaves_nothing_behind() {
    let shop = Shop::open(SECKILL);
    shop.call("script load").code(0);
    let before = shop.state();
    let proxy = Proxy::before(&shop.redis);
    let call = proxy.start_and_hold(When::Next("TIME"), shop.archive_over(&proxy));
    call.signal(libc::SIGINT);
    std::thread::sleep(Duration::from_millis(50));
    proxy.release();
    call.wait().code(130).stderr_has("interrupted: `1` is as it was");
    assert_eq!(shop.state(), before);
    assert!(shop.names().is_empty(), "{:?}", shop.names());
}
