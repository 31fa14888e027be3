//! What is not archived, what is not restored, and that nothing is changed then.

use super::Shop;
use crate::support::{Fault, LAYOUTS, PRODUCT, Proxy, SECKILL, TestRedis, When};

/// The status of a refusal that changes nothing, on the server or on disk.
fn refused(shop: &Shop, words: &str) -> String {
    let before = shop.redis.dump_all();
    let outcome = shop.archive().code(3).stderr_has(words);
    shop.redis.assert_unchanged_since(&before);
    assert!(shop.names().is_empty(), "{:?}", shop.names());
    let status = outcome.json()["status"].as_str().unwrap().to_owned();
    let dry = shop.archive().args(["--dry-run"]).code(3).json();
    assert_eq!(dry["status"], status.as_str());
    status
}

#[test]
fn only_what_is_over_and_proven_and_read_by_all_is_archived() {
    for layout in LAYOUTS {
        let shop = Shop::open(layout);
        shop.call("resume 1").code(0);
        assert_eq!(refused(&shop, "`1` is live, and only what has ended or is paused"), "not_ended", "{layout:?}");
        shop.call("pause 1").code(0);

        shop.redis.cmd(("HSET", layout.requests("1"), "\tholds", 2));
        assert_eq!(refused(&shop, "held open, neither sold nor free: 2 units of `1`"), "held", "{layout:?}");
        shop.redis.cmd(("HDEL", layout.requests("1"), "\tholds"));

        let ledger = layout.ledger("1");
        shop.redis.cmd(("XGROUP", "CREATE", &ledger, "db", "0"));
        assert_eq!(refused(&shop, "consumer group `db`"), "unread", "{layout:?}");
        shop.redis.cmd(("XREADGROUP", "GROUP", "db", "me", "STREAMS", &ledger, ">"));
        assert_eq!(refused(&shop, "consumer group `db`"), "unread", "{layout:?}: read, and not acknowledged");
        shop.redis.cmd(("XGROUP", "DESTROY", &ledger, "db"));

        shop.redis.cmd(("INCRBY", layout.stock("1"), 1));
        assert_eq!(refused(&shop, " reconcile 1` shows what differs"), "drift", "{layout:?}");
        shop.redis.cmd(("DECRBY", layout.stock("1"), 1));

        shop.redis.cmd(("HSET", layout.meta("1"), "adopt", "live 1"));
        assert_eq!(refused(&shop, "adoption of `1` is unfinished"), "exists", "{layout:?}");
        shop.redis.cmd(("HDEL", layout.meta("1"), "adopt"));

        for (number, value) in [(1, "x"), (3, "x"), (4, "x")] {
            let key = layout.key(number, "1");
            shop.redis.cmd(("RENAME", &key, "aside"));
            shop.redis.cmd(("SET", &key, value));
            assert_eq!(refused(&shop, &key), "corrupt", "{layout:?} {number}");
            shop.redis.cmd(("RENAME", "aside", &key));
        }
        shop.archive().code(0);
    }
}

#[test]
fn what_is_not_there_or_cannot_be_proven_is_refused() {
    let shop = Shop::without_sale(PRODUCT);
    assert_eq!(refused(&shop, ""), "not_preheated");
    shop.call("preheat -").stdin("layout: product\nactivities: [{id: 1, stock: 9, ledger: false}]").code(0);
    shop.redis.cmd(("DECRBY", PRODUCT.stock("1"), 2));
    shop.call("pause 1 --withdraw-stock").code(0);
    assert_eq!(refused(&shop, "`1` has no ledger"), "unproven");
    let shop = Shop::small(SECKILL);
    shop.redis.cmd(("XTRIM", SECKILL.ledger("1"), "MAXLEN", 1));
    assert_eq!(refused(&shop, " preheat --id 1 --adopt` takes over"), "unsettled");
    shop.redis.cmd(("DEL", SECKILL.stock("1")));
    assert_eq!(refused(&shop, ""), "not_preheated");
}

#[test]
fn what_exists_is_not_overwritten_by_a_restore() {
    for layout in LAYOUTS {
        let shop = Shop::small(layout);
        shop.archive().code(0);
        let refused = |words: &str| {
            let before = shop.redis.dump_all();
            for more in [&["--dry-run"][..], &[]] {
                let row = shop.restore().args(more).code(3).stderr_has(words).json();
                assert_eq!((&row["action"], &row["status"]), (&"refused".into(), &"exists".into()), "{layout:?}");
            }
            shop.redis.assert_unchanged_since(&before);
        };
        // A plain refund makes a stock out of nothing.
        shop.redis.cmd(("INCR", layout.stock("1")));
        refused("keys of it are there");
        shop.redis.cmd(("DEL", layout.stock("1")));
        shop.redis.cmd(("SET", layout.requests("1"), "x"));
        refused("keys of it are there");
        shop.redis.cmd(("DEL", layout.requests("1")));
        // Another sale began.
        shop.call("preheat --id 1 --stock 5 --reset --yes").code(0);
        assert_eq!(shop.redis.rule(&layout.meta("1"), "epoch").as_deref(), Some("2"), "the epoch grows");
        refused("not as this archive has them");
        // That was archived too.
        shop.call("deduct 1 --user b").code(0);
        shop.call("pause 1").code(0);
        shop.archive().code(0);
        assert_eq!(shop.names().len(), 2);
        shop.restore().code(2).stderr_has("two archives are of `1`");
        let first = shop.call("preheat -o jsonl --restore").args([shop.folder()]).code(3);
        first.stderr_has("other files have what it was");
    }
}

#[test]
fn a_restore_that_another_sale_overtakes_writes_nothing_into_it() {
    let shop = Shop::small(SECKILL);
    shop.archive().code(0);
    let proxy = Proxy::before(&shop.redis);
    // The reply to the first step comes when the activity was reset.
    let restoring = proxy.start_and_hold(When::Next("SADD"), proxy.seckill(["preheat", "--restore", shop.to()]));
    proxy.inject(When::Next("EVALSHA"), Fault::Hold);
    proxy.release();
    proxy.wait_until_held();
    shop.call("preheat --id 1 --stock 5 --reset --yes").code(0);
    let before = shop.redis.dump_all();
    proxy.release();
    restoring.wait().code(1).stderr_has("was reset");
    shop.redis.assert_unchanged_since(&before);
}

#[test]
fn who_writes_while_it_is_restored_makes_it_start_over() {
    let shop = Shop::open(SECKILL);
    let before = shop.state();
    shop.archive().code(0);
    let archived = shop.redis.dump_all();
    let proxy = Proxy::before(&shop.redis);
    let page = When::With("\r\npage\r\n".to_owned());
    let restoring = proxy.start_and_hold(page, proxy.seckill(["preheat", "--restore", shop.to()]));
    shop.redis.cmd(("INCR", SECKILL.stock("1")));
    proxy.heal();
    proxy.release();
    restoring.wait().code(1).stderr_has("another client wrote to `1`").stderr_has("archived as before");
    shop.redis.cmd(("DEL", SECKILL.stock("1")));
    shop.redis.assert_unchanged_since(&archived);
    shop.restore().code(0);
    assert_eq!(shop.state(), before);
}

/// A part was done: no word that nothing was changed.
#[test]
fn what_fails_behind_an_activity_that_is_done_does_not_say_that_nothing_was_changed() {
    let (redis, directory) = (TestRedis::start(), tempfile::tempdir().unwrap());
    let call = |line: &str| redis.seckill([]).args(line.split(' '));
    for id in ["1", "2"] {
        call(&format!("preheat --id {id} --stock 5")).code(0);
        call(&format!("deduct {id} --user a")).code(0);
    }
    redis.cmd(&["ACL", "SETUSER", "half", "reset", "on", "nopass", "+@all", "~*:1", "~*:activities"]);
    let half = |line: &str| call(line).env("SECKILL_URL", &format!("{}?user=half", redis.url()));
    let refused = |line: &str| half(line).code(4).stdout_has("1").stderr_lacks("nothing was changed");
    refused("ledger trim 1 2 --before 1ms --yes");
    let plan = directory.path().join("plan.json").display().to_string();
    for id in ["1", "2"] {
        redis.cmd(&["HDEL", &SECKILL.participants(id), "a"]);
    }
    call(&format!("reconcile --plan {plan}")).code(7);
    refused(&format!("repair {plan} --yes"));
    call("reconcile --fix --yes").code(0);
    call("pause --all --yes").code(0);
    refused(&format!("archive 1 2 --yes --to {}", directory.path().join("files").display()));
}
