//! Consumer groups come back where they were: a feed delivers no row twice, and none is left out.

use super::Shop;
use crate::support::{LAYOUTS, SECKILL};

#[test]
fn a_feed_continues_where_it_was() {
    for layout in LAYOUTS {
        let shop = Shop::open(layout);
        let first = shop.call("ledger 1 --group db -o jsonl").code(0).jsonl();
        assert!(first.len() > 5, "{layout:?}");
        shop.archive().code(0);
        shop.call("ledger 1 --group db -o jsonl").code(0).stdout_is("");
        shop.restore().code(0);
        shop.call("ledger 1 --group db -o jsonl").code(0).stdout_is("");
        shop.call("resume 1").code(0);
        let rows = shop.call("ledger 1 --group db -o jsonl").code(0).jsonl();
        assert_eq!((rows.len(), &rows[0]["op"]), (1, &"resume".into()), "{layout:?}");
        shop.call("reconcile 1").code(0);
    }
}

#[test]
fn a_group_of_any_name_that_reads_meanwhile_holds_it_back() {
    let shop = Shop::open(SECKILL);
    let ledger = SECKILL.ledger("1");
    shop.redis.cmd(("XGROUP", "CREATE", &ledger, &b"\xff\"g"[..], "$"));
    shop.redis.cmd(("XGROUP", "CREATE", &ledger, "late", "$"));
    shop.archive().code(0);
    shop.restore().code(0);
    let groups: Vec<redis::Value> = shop.redis.ask(("XINFO", "GROUPS", &ledger));
    assert_eq!(groups.len(), 2, "{groups:?}");
    shop.redis.cmd(("XGROUP", "SETID", &ledger, &b"\xff\"g"[..], "0"));
    shop.redis.cmd(("XGROUP", "DESTROY", &ledger, "late"));
    std::fs::remove_dir_all(shop.folder()).unwrap();
    shop.archive().code(3).stdout_has("unread");
}
