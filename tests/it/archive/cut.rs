//! Killed at any command, or without a reply, nothing is lost, and the same command resumes.

use std::time::Duration;

use super::Shop;
use crate::support::scripts::cut_after;
use crate::support::{COUPON, Fault, LAYOUTS, PRODUCT, Proxy, SECKILL, SKU, Scripts, When, wait_until};

/// Runs a command that is killed at its n-th command for the server; false if it has fewer.
fn killed(shop: &Shop, args: &[&str], number: usize, fault: Fault) -> bool {
    let proxy = Proxy::before(&shop.redis);
    proxy.inject(When::Nth(number), fault);
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
fn a_restore_that_is_killed_at_any_command_is_resumed() {
    for (layout, fault) in [
        (SECKILL, Fault::HangRequest),
        (SKU, Fault::HangReply),
        (COUPON, Fault::HangRequest),
        (PRODUCT, Fault::HangReply),
    ] {
        let shop = Shop::small(layout);
        shop.call("script load").code(0);
        let before = shop.state();
        shop.archive().code(0);
        for number in 1.. {
            let was_cut = killed(&shop, &["preheat", "--restore", shop.to()], number, fault);
            if was_cut && shop.redis.hgetall(&layout.meta("1")).contains_key("restore") {
                // Nobody buys, and nobody refunds, before all is there.
                shop.call("deduct 1 --user late").code(3).stdout_has("ended");
                if layout.has_users() {
                    shop.call("refund 1 --user a").code(3).stdout_has("not_preheated");
                }
            }
            if was_cut {
                shop.restore().code(0);
            }
            assert_eq!(shop.state(), before, "{layout:?} {number}");
            if !was_cut {
                assert!(number > 5, "{layout:?}: {number}");
                break;
            }
            // On an empty server, the next time.
            shop.redis.cmd(&["FLUSHDB"]);
        }
        shop.call("reconcile 1").code(0);
    }
}

#[test]
fn a_lost_reply_is_settled_by_what_is_there() {
    let shop = Shop::small(SECKILL);
    shop.call("script load").code(0);
    let before = shop.state();
    for number in 1.. {
        let fault = if number % 2 == 0 { Fault::LoseReply } else { Fault::LoseRequest };
        let proxy = Proxy::before(&shop.redis);
        proxy.inject(When::Nth(number), fault);
        let outcome = proxy.seckill(["-q", "archive", "1", "--yes", "--to", shop.to()]).run();
        let ended = proxy.commands().len() < number;
        // The watch is lost with its connection: then nothing was removed.
        if outcome.status.code() != Some(0) {
            assert_eq!(outcome.status.code(), Some(5), "{fault:?} {number}: {}", outcome.stderr);
            assert_eq!(shop.state(), before, "{fault:?} {number}");
            shop.archive().code(0);
        }
        let restoring = Proxy::before(&shop.redis);
        restoring.inject(When::Nth(number), fault);
        restoring.seckill(["preheat", "--restore", shop.to()]).code(0);
        assert_eq!(shop.state(), before, "{fault:?} {number}");
        std::fs::remove_dir_all(shop.folder()).unwrap();
        if ended {
            break;
        }
    }
}

#[test]
fn what_an_earlier_run_published_and_did_not_remove_is_replaced() {
    let shop = Shop::open(SECKILL);
    shop.call("script load").code(0);
    let proxy = Proxy::before(&shop.redis);
    // The removal goes by its text, in a transaction.
    proxy.inject(When::Next("EVAL"), Fault::HangRequest);
    let call = proxy.seckill(["archive", "1", "--yes", "--to", shop.to()]).spawn();
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
    proxy.inject(When::Next("TIME"), Fault::Hold);
    let call = proxy.seckill(["archive", "1", "--yes", "--to", shop.to()]).spawn();
    proxy.wait_until_held();
    call.signal(libc::SIGINT);
    std::thread::sleep(Duration::from_millis(50));
    proxy.release();
    call.wait().code(130).stderr_has("interrupted: `1` is as it was");
    assert_eq!(shop.state(), before);
    assert!(shop.names().is_empty(), "{:?}", shop.names());
}

#[test]
fn a_script_that_is_cut_after_any_write_is_finished_by_the_same_command() {
    for layout in LAYOUTS {
        let shop = Shop::small(layout);
        let mut scripts = Scripts::of(&shop.redis, layout);
        let keys = layout.keys("1");
        let before = shop.state();
        let dumps: Vec<Vec<u8>> = keys.iter().map(|key| shop.redis.ask(("DUMP", key))).collect();
        shop.archive().code(0);
        let archive = shop.redis.hget(&layout.meta("1"), "archive").unwrap();
        let [name, sha256, _] = archive.splitn(3, ' ').collect::<Vec<_>>()[..] else { panic!("{archive}") };
        // The removal: as it was before it, with the files there and the archive named.
        let all_keys = layout.all_keys("1");
        for number in 0.. {
            shop.redis.cmd("FLUSHALL");
            for (key, dump) in keys.iter().zip(&dumps) {
                shop.redis.cmd(("RESTORE", key, 0, dump));
            }
            shop.redis.cmd(("HSET", layout.meta("1"), "archive", name));
            let plan = scripts.call("archive", &all_keys, &[layout.kind, "plan"]);
            let seen = plan.split(' ').skip(3).take(7).collect::<Vec<_>>().join(" ");
            let reply = scripts.eval(
                &cut_after("archive", number),
                &all_keys,
                &[layout.kind, "remove", name, "1", sha256, &seen, "me"],
            );
            assert!(reply.contains("CUT") || reply == "1", "{layout:?} {number}: {reply}");
            if number > 0 {
                shop.archive().code(0);
                let left = keys.iter().filter(|key| shop.redis.exists(key)).count();
                assert_eq!((left, shop.redis.hgetall(&layout.meta("1")).len()), (1, 2), "{layout:?} {number}");
                shop.restore().code(0);
                assert_eq!(shop.state(), before, "{layout:?} {number}");
            }
            if reply == "1" {
                assert!(number >= 2, "{layout:?}: {number}");
                break;
            }
        }
        // The restore's last step, behind pages that are whole.
        for number in 0.. {
            shop.redis.cmd("FLUSHALL");
            let [meta, stock] = [1, 0].map(|at| (&keys[at], &dumps[at]));
            for (key, dump) in keys.iter().zip(&dumps).filter(|(key, _)| *key != stock.0) {
                shop.redis.cmd(("RESTORE", key, 0, dump));
            }
            let fields: Vec<String> =
                shop.redis.hgetall(meta.0).into_iter().flat_map(|(name, text)| [name, text]).collect();
            let rules = shop.redis.hget(meta.0, "rules").unwrap();
            let archived = format!("archived {}", rules.split_once(' ').unwrap().1);
            shop.redis.cmd(("DEL", meta.0));
            shop.redis.cmd(("HSET", meta.0, "rules", archived, "restore", format!("{sha256} 0")));
            let (last, counts) = (
                shop.redis.xrange(&layout.ledger("1")).last().unwrap().0.clone(),
                format!("1 3 {} {}", i32::from(layout.has_users()), i32::from(layout.kind == "set")),
            );
            let seen = format!("{last} {counts}");
            let mut args = vec![layout.kind, "switch", sha256, &seen, "me", "8", "[]"];
            args.extend(fields.iter().map(String::as_str));
            let reply = scripts.eval(&cut_after("restore", number), &keys, &args);
            assert!(reply.contains("CUT") || reply == "1", "{layout:?} {number}: {reply}");
            shop.restore().code(0);
            assert_eq!(shop.state(), before, "{layout:?}: restore cut after {number}");
            if reply == "1" {
                assert!(number >= 3, "{layout:?}: {number}");
                break;
            }
        }
    }
}
